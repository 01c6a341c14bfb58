"""The ground: arrays, domains, semirings, ops, rules and interpretations. Knows no term."""
