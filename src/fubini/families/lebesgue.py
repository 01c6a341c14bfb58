"""Lebesgue(low, high): the length between two ends, a measure that is no probability."""

from __future__ import annotations

from fubini.families.family import Family, register
from fubini.families.parameters import ENDS, interval
from fubini.index.build import ZERO

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
