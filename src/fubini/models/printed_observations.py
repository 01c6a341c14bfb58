"""Observed values as they are printed: few numbers of each site, and how many are missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from fubini.base.arrays import is_traced
from fubini.base.distant import distant
from fubini.models.paths import flat
from fubini.show.printed_form import Block, Words
from fubini.terms.numbers import shown_array, shown_number, shown_value

SITES = 8  # observed sites that are printed


def observed_form(observed: Mapping[str, Any]) -> Iterator[Block]:
    """Yield a line for each of the first observed sites: its numbers, and how many are missing."""
    values = flat(observed)
    for name, value in list(values.items())[:SITES]:
        yield Words(f"given {name} = {_shown_observation(value)}")
    if len(values) > SITES:
        yield Words(f"… {len(values) - SITES:,} more")


def _shown_observation(value: Any) -> str:
    present = getattr(value, "present", None)
    if present is None:
        return _numbers(value)
    numbers = _numbers(value.value)
    missing = "" if is_traced(present) else f", {np.size(present) - int(np.sum(np.asarray(present))):,} missing"
    return f"{numbers}{missing}"


def _numbers(value: Any) -> str:
    if is_traced(value):
        return shown_value(value)
    if (record := distant(value)) is not None:
        return repr(record)
    if not np.ndim(value):
        return shown_number(np.asarray(value).item())
    return shown_array(value if hasattr(value, "dtype") else np.asarray(value))
