"""Lebesgue(low, high): the length between two ends, a measure that is no probability."""

from __future__ import annotations

from fubini.algebra.build import ZERO
from fubini.families.family import Family, register
from fubini.families.parameters import ENDS, interval

LEBESGUE = register(
    Family(
        "Lebesgue",
        ENDS,
        interval,
        lambda x, p: ZERO,
        flat=lambda p: ZERO,
        is_probability=False,
    )
)
