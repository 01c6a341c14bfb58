"""Why stored numbers cannot be the state of a chain; None where they can."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


def fault_of_numbers(arrays: Iterable[Any]) -> str | None:
    """Numbers of a state are finite."""
    finite = all(np.isfinite(np.asarray(array)).all() for array in arrays)
    return None if finite else "a state is infinite or not a number"


def fault_of_count(made: Any, transitions: int) -> str | None:
    """As many transitions were made as the draws took."""
    return None if np.all(np.asarray(made) == transitions) else "its states are not those after its draws"


def fault_of_range(name: str, values: Any, low: float | None, high: float | None) -> str | None:
    """Values are from `low` to `high`; None is no bound."""
    values = np.asarray(values)
    low, high = (-np.inf if low is None else low), (np.inf if high is None else high)
    inside = np.all((values >= low) & (values <= high))
    return None if inside else f"values of {name!r} are not from {low:.15g} to {high:.15g}"


def first_fault(faults: Iterable[str | None]) -> str | None:
    """The first fault that some checks report."""
    return next((fault for fault in faults if fault), None)
