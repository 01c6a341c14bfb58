"""Numbers along the axes of indices, on NumPy or JAX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fubini.algebra.node import Index
from fubini.base.arrays import Data
from fubini.numerics.arithmetic import xp_of


class Axes(NamedTuple):
    """Numbers along the axes of some indices."""

    data: Data
    of: tuple[Index, ...]


def aligned(part: Axes, axes: tuple[Index, ...]) -> Data:
    """With an axis for each of these indices; those it does not have are of one entry."""
    order = [part.of.index(i) for i in axes if i in part.of]
    shape = [i.size if i in part.of else 1 for i in axes]
    return part.data.transpose(order).reshape(shape) if axes else part.data


def union(parts: Sequence[Axes]) -> tuple[Index, ...]:
    """The indices of all of these."""
    return tuple(dict.fromkeys(i for part in parts for i in part.of))


def product(parts: Sequence[tuple[Axes, float]]) -> Axes:
    """Π part^exponent, over the indices of all."""
    axes, xp = union([part for part, _ in parts]), xp_of(*(part.data for part, _ in parts))
    data: Any = 1.0
    for part, exponent in parts:
        data = data * _raised(aligned(part, axes), exponent)
    return Axes(xp.broadcast_to(data, tuple(i.size for i in axes)), axes)


def where_holds(test: Axes, values: Axes) -> Axes:
    """Values where a test holds, 0 elsewhere, even where a value is infinite."""
    axes, xp = union([values, test]), xp_of(values.data, test.data)
    data = xp.where(aligned(test, axes) != 0, aligned(values, axes), 0.0)
    return Axes(xp.broadcast_to(data, tuple(i.size for i in axes)), axes)


def taken(part: Axes, i: Index, at: Axes) -> Axes:
    """A part that depends on i, read at i = at."""
    if i not in part.of:
        return part
    others = tuple(other for other in part.of if other is not i)
    kept = tuple(other for other in others if other not in at.of)
    xp = xp_of(part.data, at.data)
    places = xp.clip(at.data.astype(int), 0, i.size - 1)
    shared = tuple(other for other in others if other in at.of)
    data = xp.transpose(part.data, [part.of.index(other) for other in (i, *shared, *kept)])
    grid = [xp.arange(other.size).reshape([-1 if o is other else 1 for o in at.of]) for other in shared]
    return Axes(data[(places, *grid)], (*at.of, *kept))


def root(weight: Data) -> Data:
    """√weight, with a derivative at 0, where a row counts for nothing"""
    xp = xp_of(weight)
    return xp.where(weight == 0, 0.0, xp.sqrt(xp.where(weight == 0, 1.0, weight)))


def _raised(data: Data, exponent: float) -> Data:
    data = data * 1.0  # whole numbers would overflow
    if exponent == 1:
        return data
    if exponent == 0.5:
        return xp_of(data).sqrt(data)
    if exponent == -0.5:
        return 1.0 / xp_of(data).sqrt(data)
    return data ** (int(exponent) if exponent == int(exponent) else exponent)
