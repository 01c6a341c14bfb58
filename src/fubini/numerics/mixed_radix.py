"""Cells of several axes as single integers, k = Σ_i x_i Π_{j>i} n_j: the last axis runs fastest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import ModuleType

import numpy as np

from fubini.base.arrays import Data, is_double_precision, namespace


def greatest_key(xp: ModuleType) -> int:
    """The greatest integer that a key may be in an engine; JAX has 64 bits in double precision alone.

    >>> greatest_key(np) == 2**63 - 1
    True
    """
    return 2**63 - 1 if xp is np or is_double_precision() else 2**31 - 1


def to_keys(positions: Sequence[Data], sizes: Sequence[int]) -> Data:
    """The keys of cells, given their positions along each axis.

    >>> to_keys([np.array([0, 1]), np.array([2, 0])], (2, 3))
    array([2, 3])
    """
    keys = positions[0] * 1
    for position, size in zip(positions[1:], sizes[1:], strict=True):
        keys = keys * size + position
    return keys


def positions_of(keys: Data, sizes: Sequence[int], axis: int) -> Data:
    """The positions of cells along one axis.

    >>> positions_of(np.array([2, 3]), (2, 3), 1)
    array([2, 0])
    """
    return _digits(keys, sizes, axis, axis + 1)


def split_keys(keys: Data, sizes: Sequence[int]) -> list[Data]:
    """The positions of cells along every axis.

    NumPy's `unravel_index` is wrong for more than 8192 of them whose last axis has length 1 (version 2.4.6).

    >>> split_keys(np.array([2, 3]), (2, 3))
    [array([0, 1]), array([2, 0])]
    """
    return [positions_of(keys, sizes, axis) for axis in range(len(sizes))]


def project_keys(keys: Data, sizes: Sequence[int], axes: Sequence[int]) -> Data:
    """The keys over some of the axes, in the order given.

    >>> project_keys(np.array([2, 3]), (2, 3), (1, 0))
    array([4, 1])
    """
    xp = namespace(keys)
    projected = xp.zeros_like(keys)
    for start, stop in _runs(axes):
        projected = projected * math.prod(sizes[start:stop]) + _digits(keys, sizes, start, stop)
    return projected


def _digits(keys: Data, sizes: Sequence[int], start: int, stop: int) -> Data:
    """The keys over the axes from start to stop."""
    higher = keys // math.prod(sizes[stop:]) if stop < len(sizes) else keys
    return higher % math.prod(sizes[start:stop]) if start else higher


def _runs(axes: Sequence[int]) -> list[tuple[int, int]]:
    """The axes as ranges of neighbours, each taken from a key in one step."""
    runs: list[tuple[int, int]] = []
    for axis in axes:
        if runs and runs[-1][1] == axis:
            runs[-1] = (runs[-1][0], axis + 1)
        else:
            runs.append((axis, axis + 1))
    return runs
