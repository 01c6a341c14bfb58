"""Values of sites as they are printed: few numbers of each, and the shape of large arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from fubini.base.arrays import is_traced
from fubini.models.paths import flat
from fubini.show.printed_form import Block, Words
from fubini.terms.numbers import shown_array, shown_number

WHOLE, SHORT = 24, 70  # numbers of an array, and characters, that are printed as NumPy prints them
SITES = 8  # observed sites that are printed


def shown_value(value: Any) -> str:
    """A value on one line where it is an array or a number; the shape and some numbers of a large array.

    >>> shown_value(np.array([0.5, 1.0])), shown_value(np.zeros((100, 3)))
    ('array([0.5, 1. ])', 'array of shape (100, 3): [[0, 0, 0], [0, 0, 0], …, [0, 0, 0], [0, 0, 0]]')
    """
    if type(value) is dict:
        return f"{{{', '.join(f'{name!r}: {shown_value(item)}' for name, item in value.items())}}}"
    if not hasattr(value, "__array__") or not hasattr(value, "dtype"):
        return repr(value)
    if is_traced(value):
        return f"traced array of shape {np.shape(value)}"
    if np.size(value) <= WHOLE:
        whole = repr(value)
        if "\n" not in whole and len(whole) <= SHORT:
            return whole
    if getattr(value.dtype, "kind", "") not in "biufc":
        return f"array of shape {np.shape(value)} of {value.dtype}"
    numbers = shown_array(value)
    return f"array of shape {np.shape(value)}: {numbers if len(numbers) <= SHORT else f'{numbers[: SHORT - 1]}…'}"


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
    if not np.ndim(value):
        return shown_number(np.asarray(value).item())
    return shown_array(value if hasattr(value, "dtype") else np.asarray(value))
