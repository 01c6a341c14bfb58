"""How expressions and numbers are printed."""
