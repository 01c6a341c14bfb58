"""Rules of the reader: axes that are added, joined, cut, turned and put together."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fubini.algebra.build import ZERO, add, call, const, equal, less, minus, plus, scale, where
from fubini.algebra.node import Node
from fubini.read.jaxpr_reader import Reader, rule
from fubini.read.symbolic_array import SymbolicArray


@rule("broadcast_in_dim")
def read_broadcast(reader: Reader, equation: Any, a: SymbolicArray, *_: Any) -> SymbolicArray:
    """Axes that are new, or of one entry, are not looked at"""
    axes = equation.params["broadcast_dimensions"]
    return SymbolicArray(equation.params["shape"], lambda *at: a.at(*(at[axis] for axis in axes)))


@rule("transpose")
def read_transpose(reader: Reader, equation: Any, a: SymbolicArray) -> SymbolicArray:
    """Axes in another order"""
    order = equation.params["permutation"]
    shape = tuple(a.shape[axis] for axis in order)
    return SymbolicArray(shape, lambda *at: a.at(*(at[order.index(axis)] for axis in range(a.rank))))


@rule("squeeze", "expand_dims", "reshape")
def read_reshape(reader: Reader, equation: Any, a: SymbolicArray, *_: Any) -> SymbolicArray | None:
    """Axes of one entry come and go; an axis is split, or several are merged"""
    shape = equation.outvars[0].aval.shape
    groups = _groups(a.shape, shape)
    if groups is None:
        return None

    def at(*where: Node) -> Node:
        positions: list[Node] = []
        for old, new in groups:
            positions.extend(
                _split(
                    _merged([where[axis] for axis in new], [shape[axis] for axis in new]),
                    [a.shape[axis] for axis in old],
                )
            )
        return a.at(*positions)

    whole = all(
        len([x for x in old if a.shape[x] != 1]) <= 1 or len([x for x in new if shape[x] != 1]) <= 1
        for old, new in groups
    )
    return SymbolicArray(shape, at) if whole else None


def _groups(old: tuple[int, ...], new: tuple[int, ...]) -> list[tuple[list[int], list[int]]] | None:
    """Axes of both shapes that hold the same entries."""
    if 0 in old or 0 in new:
        return None
    groups, i, j = [], 0, 0
    while i < len(old) or j < len(new):
        old_axes, new_axes = ([i], [j]) if i < len(old) and j < len(new) else ([i], []) if i < len(old) else ([], [j])
        i, j = i + len(old_axes), j + len(new_axes)
        while math.prod(old[x] for x in old_axes) != math.prod(new[x] for x in new_axes):
            if math.prod(old[x] for x in old_axes) < math.prod(new[x] for x in new_axes):
                old_axes, i = [*old_axes, i], i + 1
            else:
                new_axes, j = [*new_axes, j], j + 1
        groups.append((old_axes, new_axes))
    return groups


def _merged(at: list[Node], sizes: list[int]) -> Node:
    """One position from several, the last axis fastest"""
    position = ZERO
    for part, size in zip(at, sizes, strict=True):
        position = plus(scale(float(size), position), part)
    return position


def _split(place: Node, sizes: list[int]) -> list[Node]:
    """Several positions from one"""
    longer = [axis for axis, size in enumerate(sizes) if size != 1]
    if len(longer) <= 1:
        return [place if axis in longer else ZERO for axis in range(len(sizes))]
    positions: list[Node] = []
    for size in reversed(sizes):
        quotient = call("quotient", place, const(float(size)))
        positions.append(minus(place, scale(float(size), quotient)))
        place = quotient
    return positions[::-1]


@rule("slice")
def read_slice(reader: Reader, equation: Any, a: SymbolicArray) -> SymbolicArray:
    """start + stride · i"""
    starts = equation.params["start_indices"]
    strides = equation.params["strides"] or (1,) * a.rank
    shape = equation.outvars[0].aval.shape

    def at(*where: Node) -> Node:
        moved = (
            add(((part, float(stride)), (const(start), 1.0)))
            for part, start, stride in zip(where, starts, strides, strict=True)
        )
        return a.at(*moved)

    return SymbolicArray(shape, at)


@rule("rev")
def read_rev(reader: Reader, equation: Any, a: SymbolicArray) -> SymbolicArray:
    """n − 1 − i"""
    axes = equation.params["dimensions"]
    sizes = a.shape

    def at(*where: Node) -> Node:
        return a.at(*(minus(const(sizes[k] - 1), part) if k in axes else part for k, part in enumerate(where)))

    return SymbolicArray(a.shape, at)


@rule("concatenate")
def read_concatenate(reader: Reader, equation: Any, *parts: SymbolicArray) -> SymbolicArray:
    """The part in whose range the index lies"""
    axis = equation.params["dimension"]
    ends = np.cumsum([part.shape[axis] for part in parts])

    def at(*where_: Node) -> Node:
        entry = None
        for part, end in reversed(list(zip(parts, ends, strict=True))):
            moved = minus(where_[axis], const(float(end - part.shape[axis])))
            inside = part.at(*where_[:axis], moved, *where_[axis + 1 :])
            entry = inside if entry is None else where(less(where_[axis], const(float(end))), inside, entry)
        assert entry is not None
        return entry

    return SymbolicArray(equation.outvars[0].aval.shape, at)


@rule("stack")
def read_stack(reader: Reader, equation: Any, *parts: SymbolicArray) -> SymbolicArray:
    """The part that the index along the new axis says"""
    axis = equation.params["axis"]

    def at(*where_: Node) -> Node:
        rest = (*where_[:axis], *where_[axis + 1 :])
        entry = parts[-1].at(*rest)
        for place, part in reversed(list(enumerate(parts[:-1]))):
            entry = where(equal(where_[axis], const(float(place))), part.at(*rest), entry)
        return entry

    return SymbolicArray(equation.outvars[0].aval.shape, at)


@rule("unstack")
def read_unstack(reader: Reader, equation: Any, a: SymbolicArray) -> list[SymbolicArray]:
    """One slice for each place along an axis"""
    axis = equation.params["axis"]

    def part(place: int) -> SymbolicArray:
        shape = equation.outvars[place].aval.shape
        return SymbolicArray(shape, lambda *at: a.at(*at[:axis], const(float(place)), *at[axis:]))

    return [part(place) for place in range(len(equation.outvars))]


@rule("split")
def read_split(reader: Reader, equation: Any, a: SymbolicArray) -> list[SymbolicArray]:
    """Stretches along an axis"""
    axis, sizes = equation.params["axis"], equation.params["sizes"]
    starts = np.cumsum([0, *sizes[:-1]])

    def part(place: int) -> SymbolicArray:
        shape, start = equation.outvars[place].aval.shape, const(float(starts[place]))
        return SymbolicArray(shape, lambda *at: a.at(*at[:axis], plus(at[axis], start), *at[axis + 1 :]))

    return [part(place) for place in range(len(sizes))]


@rule("tile")
def read_tile(reader: Reader, equation: Any, a: SymbolicArray) -> SymbolicArray:
    """a[i mod n]"""
    reps = equation.params["reps"]

    def at(*where_: Node) -> Node:
        places = []
        for part, size, count in zip(where_, a.shape, reps, strict=True):
            turns = scale(float(size), call("quotient", part, const(float(size))))
            places.append(part if count == 1 else minus(part, turns))
        return a.at(*places)

    return SymbolicArray(equation.outvars[0].aval.shape, at)


@rule("iota")
def read_iota(reader: Reader, equation: Any) -> SymbolicArray:
    """The index itself"""
    axis = equation.params["dimension"]
    return SymbolicArray(equation.params["shape"], lambda *at: at[axis])
