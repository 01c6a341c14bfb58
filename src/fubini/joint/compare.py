"""Models side by side, by evidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from fubini.errors import DomainError


class Row(NamedTuple):
    """One model: log p(data), and its probability among those compared if all were equally likely before."""

    log_evidence: float
    probability: float


class Comparison(Mapping[str, Row]):
    """Models by name, the likeliest first; prints as a table."""

    def __init__(self, evidences: Mapping[str, float]) -> None:
        names = sorted(evidences, key=lambda name: -evidences[name])
        values = np.array([evidences[name] for name in names])
        shares = np.exp(values - values[0])
        shares /= shares.sum()
        self._rows = {n: Row(float(v), float(p)) for n, v, p in zip(names, values, shares, strict=True)}

    def __getitem__(self, name: str) -> Row:
        return self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        width = max(map(len, self))
        best = next(iter(self.values())).log_evidence
        lines = [f"{'model'.ljust(width)}  log evidence  difference  probability"]
        for name, row in self.items():
            difference = row.log_evidence - best
            lines.append(f"{name.ljust(width)}  {row.log_evidence:12.4f}  {difference:10.4f}  {row.probability:11.4f}")
        return "\n".join(lines)


def compare(**models: Any) -> Comparison:
    """Models of the same data by their evidence.

    >>> def normal(scale):
    ...     return fb.JointNamed(dict(m=fb.dist.Normal(0.0, scale), x=lambda m: fb.dist.Normal(m, 1.0)))
    >>> compare(narrow=normal(1.0).condition(x=3.0), wide=normal(3.0).condition(x=3.0))
    model   log evidence  difference  probability
    wide         -2.5202      0.0000       0.7301
    narrow       -3.5155     -0.9953       0.2699
    """
    if not models:
        raise DomainError("compare()", expected="models by name: compare(linear=post1, quadratic=post2)")
    return Comparison({name: float(model.log_evidence()) for name, model in models.items()})
