"""Digits of configurations: all entries of a finite array together, counted in base S."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fubini.base.arrays import Data
from fubini.numerics.arithmetic import xp_of
from fubini.numerics.finite_chains import log_sum_exp


def entries_of(configurations: Data, size: int, shape: Sequence[int], axes: Sequence[int]) -> Data:
    """The entries of configurations [… batch], in the shape of the whole array, whose coupled axes these are.

    >>> entries_of(np.array([5, 2]), 2, (2, 3), (1,))
    array([[1, 0, 1],
           [0, 1, 0]])
    """
    xp, inner, batch = xp_of(configurations), [shape[axis] for axis in axes], configurations.ndim
    entries = _digits(configurations, size, math.prod(inner)).reshape(*configurations.shape, *inner)
    return xp.moveaxis(entries, range(batch, batch + len(axes)), axes)


def _digits(numbers: Data, size: int, count: int) -> Data:
    """The digits of numbers, the lowest first, along a new last axis."""
    return numbers[..., None] // size ** xp_of(numbers).arange(count) % size


def entry_probabilities(logits: Data, size: int, shape: Sequence[int], axes: Sequence[int]) -> Data:
    """p(x[i] = k) of each entry, k last, from logits [… batch, configuration]."""
    xp = xp_of(logits)
    chances = xp.exp(logits - log_sum_exp(logits)[..., None])
    inner, batch = [shape[axis] for axis in axes], logits.ndim - 1
    digits = _digits(xp.arange(logits.shape[-1]), size, math.prod(inner))
    tests = (digits[..., None] == xp.arange(size)).reshape(logits.shape[-1], -1)
    found = (chances @ tests.astype(chances.dtype)).reshape(*logits.shape[:-1], *inner, size)
    return xp.moveaxis(found, range(batch, batch + len(axes)), axes)
