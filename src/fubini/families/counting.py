"""Counting(low, high): weight 1 for each whole number from low to below high, a measure that is no probability."""

from __future__ import annotations

from fubini.algebra.build import ONE, ZERO, call, minus, plus
from fubini.algebra.node import Node
from fubini.families.family import Family, register
from fubini.families.parameters import WHOLE_ENDS, Support
from fubini.families.signature import Match, Ratio, Signature


def from_ratio(ratio: Ratio, high: Node | None) -> Match | None:
    """Σ_{k ≤ n} 1  =  n + 1"""
    if high is None or ratio != (ZERO, {}, {}):
        return None
    return {"low": ZERO, "high": plus(high, ONE)}, call("log", plus(high, ONE))


COUNTING = register(
    Family(
        "Counting",
        WHOLE_ENDS,
        lambda p: Support(p["low"], minus(p["high"], ONE), True),
        lambda x, p: ZERO,
        signature=Signature("ratio", from_ratio),
        flat=lambda p: ZERO,
        is_probability=False,
        is_enumerated=True,
    )
)
