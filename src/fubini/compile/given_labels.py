"""Labels that a run is given: those it begins with, and those entries that it draws, checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from fubini.algebra.node import Leaf
from fubini.errors import DataError, DomainError


def given_labels(leaf: Leaf, value: Any, chains: int | None = None) -> np.ndarray:
    """Return labels counted from 0, for all chains or for each; raise where one is out of range."""
    if np.ma.is_masked(value):
        raise DataError(f"labels {leaf.name!r} with masked entries", expected="a label for each entry")
    array, low, high = np.asarray(value), leaf.first, leaf.first + leaf.count - 1
    if array.shape != leaf.shape and (chains is None or array.shape != (chains, *leaf.shape)):
        each = "" if chains is None else f", or {(chains, *leaf.shape)} for {chains} chains"
        raise DomainError(f"labels {leaf.name!r} of shape {array.shape}", expected=f"the shape {leaf.shape}{each}")
    if array.dtype.kind not in "biuf" or not np.all(array == np.floor(array)):
        raise DataError(f"labels {leaf.name!r} of type {array.dtype}", expected="whole numbers")
    outside = (array < low) | (array > high)
    if outside.any():
        place = tuple(int(axis[0]) for axis in np.nonzero(outside))
        raise DataError(
            f"labels {leaf.name!r} with {array[place]:g} at {place}", expected=f"labels from {low} to {high}"
        )
    return array.astype(np.int64) - low


def free_entries(leaf: Leaf, fixed: Any) -> np.ndarray:
    """The numbers of the entries that are drawn: all but those held fixed, given by a mask or by indices."""
    count = int(np.prod(leaf.shape, dtype=int))
    if fixed is None:
        return np.arange(count)
    given = np.asarray(fixed)
    if given.dtype == bool:
        if given.shape != leaf.shape:
            raise DomainError(
                f"fixed entries of {leaf.name!r} as a mask of shape {given.shape}", expected=f"{leaf.shape}"
            )
        return np.flatnonzero(~given.ravel())
    if given.dtype.kind not in "iu" and given.size:
        raise DomainError(f"fixed entries of {leaf.name!r} as {given.dtype}", expected="a mask, or indices")
    if np.any((given < 0) | (given >= count)):
        raise DataError(f"fixed entries of {leaf.name!r} at {given.max()}", expected=f"indices from 0 to {count - 1}")
    return np.setdiff1d(np.arange(count), given.ravel())
