"""Rows of least-squares problems in numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from fubini.algebra.axes import Axes, aligned, taken
from fubini.algebra.binding import opened_once
from fubini.algebra.build import factors_in
from fubini.algebra.node import Index, Node
from fubini.algebra.placement import count_devices, in_blocks, over_auto_axes
from fubini.algebra.ranges import is_whole
from fubini.base.arrays import Data, is_traced
from fubini.numerics.arithmetic import constant, one_hot, recomputed, scanned, taken_from, triangle, xp_of
from fubini.numerics.least_squares import LinearRecursions, Unknowns
from fubini.numerics.sparse_least_squares import SparseRows

PASSES = 32  # parts that many rows are taken in
BLOCK = 128  # rows of a part whose triangle is found by itself, of narrow rows
NARROW = BLOCK // 4  # columns


class Rows:
    """One block of rows of a least-squares problem: √weight · (slopes, offset) over a frame and indices of its own."""

    def __init__(
        self, evaluation: Any, this: Node, frame: Unknowns | LinearRecursions, outer: tuple[Index, ...]
    ) -> None:
        self.evaluation, self.width = evaluation, frame.width - 1
        over, body = evaluation.opened(this)
        count = len(frame.axes)
        self.frame = tuple(part.args[0] for part in body.args[1 : 1 + count])
        weight, self.offset, *self.slopes = body.args[1 + count :]
        self.gathered: list[tuple[Index, Axes]] = []
        self.factors = self._read_at_entries(weight, tuple(i for i in over if i not in self.frame))
        gone = {i for i, _ in self.gathered}
        self.over = tuple(i for i in over if i not in self.frame and i not in gone)
        spread = evaluation.spread(this)
        first = next((i for i in self.over if i in spread), None)
        self.spread = None if first is None else spread[first]
        if first is not None:  # rows of one device stand together
            self.over = (first, *(i for i in self.over if i is not first))
        self.frame = (*outer, *self.frame)

    def _read_at_entries(self, weight: Node, over: tuple[Index, ...]) -> list[tuple[Node, float]]:
        """Without the tests [c = e] of a class c that a row is in: what depends on c is read at e alone."""
        factors = list(factors_in(weight))
        for factor in list(factors):
            for one, entry in (factor[0].args, factor[0].args[::-1]) if factor[0].kind == "eq" else ():
                inside = one.kind == "index" and one.args[0] in over and not entry.free & {one.args[0], *self.frame}
                if inside and factor in factors and is_whole(entry) and not entry.free & {i for i, _ in self.gathered}:
                    self.gathered.append((one.args[0], self.evaluation.of(entry)))
                    factors.remove(factor)
        return factors

    def _over(self, part: Axes, inner: tuple[Index, ...] = ()) -> Data:
        """Over the frame, the rows and more indices; along the frame, of one entry where it does not change."""
        for i, at in self.gathered:
            part = taken(part, i, at)
        data = aligned(part, (*self.frame, *self.over, *inner))
        lead = data.shape[: len(self.frame)]
        data = self.evaluation.xp.broadcast_to(data, (*lead, *(i.size for i in (*self.over, *inner))))
        return data.reshape(*lead, math.prod(i.size for i in self.over), *(i.size for i in inner))

    def numbers(self) -> tuple[Data, Data]:
        """The matrix [… frame, row, column] and the right side [… frame, row]."""
        return self._dense(self._parts())

    def entries(self) -> SparseRows:
        """The entries of rows without a frame that are not zero by construction, row by row, and their columns."""
        parts, xp = self._parts(), self.evaluation.xp
        count = parts.scales.shape[0]
        columns = [xp.broadcast_to(columns, (count, columns.shape[-1])) for columns, _ in parts.slopes]
        numbers = [numbers * parts.scales[:, None] for _, numbers in parts.slopes]
        shapes = [xp.broadcast_to(part, where.shape) for part, where in zip(numbers, columns, strict=True)]
        return SparseRows(xp.concatenate(shapes, axis=1), xp.concatenate(columns, axis=1), parts.scales * parts.offset)

    def triangle(self) -> Data:
        """U of [A b] = Q U, of a problem without a frame: of rows over devices, that of the triangles of each."""
        parts = self._parts(is_narrow=True)
        if self.spread is None:
            return self._triangle_of_blocks(parts)
        scales, offset, slopes = parts
        shared = [columns for columns, _ in slopes if columns.ndim == 1]  # the same in each row
        own = [columns for columns, _ in slopes if columns.ndim > 1]

        def local(shared: list[Data], scales: Data, offset: Data, own: list[Data], numbers: list[Data]) -> Data:
            same, each = iter(shared), iter(own)
            pairs = ((next(same) if c.ndim == 1 else next(each), n) for (c, _), n in zip(slopes, numbers, strict=True))
            return self._triangle(Parts(scales, offset, tuple(pairs)))

        rows = self.spread.on_each(local, shared, scales, offset, own, [numbers for _, numbers in slopes])
        rows = rows.reshape(-1, self.width + 1)
        return triangle(_largest_first(rows))

    def _triangle_of_blocks(self, parts: Parts) -> Data:
        """U of rows that may lie on devices in a way that is not known yet: that of triangles of as many blocks."""
        blocks = count_devices() if is_traced(parts.offset, *(numbers for _, numbers in parts.slopes)) else 1
        entries = sum(numbers.size for _, numbers in parts.slopes)
        if blocks == 1 or entries < PASSES * blocks * (self.width + 1) ** 2:  # their triangles would be as large
            return self._triangle(parts)

        def compute(parts: Parts) -> Data:
            parts, over = parts.blocks(blocks)
            rows = jax.vmap(self._triangle, in_axes=(over,))(parts).reshape(-1, self.width + 1)
            return triangle(_largest_first(rows))

        return over_auto_axes(compute, parts)

    def _triangle(self, parts: Parts) -> Data:
        """U of these rows, from one part of them after another."""
        xp = self.evaluation.xp
        count = parts.scales.shape[0]
        entries = sum(numbers.shape[-1] for _, numbers in parts.slopes)
        share = min(1 / PASSES, entries / (4 * self.width))  # of the rows at a time: their matrix has zeros too
        size = max(math.ceil(share * count), min(count, max(2 * self.width, self.width**2 // max(entries, 1))))

        def step(U: Data, place: Data) -> tuple[Data, None]:
            start = xp.minimum(place * size, count - size)
            here = parts.between(start, size).widened(U.dtype)
            is_new = start + xp.arange(size) >= place * size
            matrix, right = self._dense(here._replace(scales=xp.where(is_new, here.scales, 0.0)))
            rows = xp.concatenate([U, xp.concatenate([matrix, right[:, None]], axis=1)])
            return _triangle_of(rows), None

        empty = xp.zeros((self.width + 1, self.width + 1))
        places = xp.arange(-(-count // size))
        return scanned(step if xp is np else recomputed(step, prevent_cse=False), empty, places)[0]

    def _parts(self, is_narrow: bool = False) -> Parts:
        """The entries of the rows that are not zero by construction; data in the width that they are held in, if so."""
        scales = self._over(self.evaluation.root_of(self.factors))
        for i, at in self.gathered:
            scales = scales * self._over(Axes(((at.data >= 0) & (at.data < i.size)).astype(float), at.of))
        offset = self._over(self.evaluation.of(self.offset))
        slopes = [self.evaluation.opened(slope) for slope in self.slopes]
        parts = Parts(scales, offset, tuple(self._slope(*slope) for slope in slopes))
        if not is_narrow:
            return parts
        numbers = (
            self._as_held(entry.args[2], n, inner) for (inner, entry), (_, n) in zip(slopes, parts.slopes, strict=True)
        )
        held = tuple(zip((columns for columns, _ in parts.slopes), numbers, strict=True))
        if not self.factors and not self.gathered:
            scales = self.evaluation.xp.ones(scales.shape, np.int8)
        return Parts(scales, self._as_held(self.offset, offset), held)

    def _as_held(self, part: Node, numbers: Data, inner: tuple[Index, ...] = ()) -> Data:
        """Entries of an array, or less these, as it holds them: wider copies of all rows would be large."""
        sign, arrays = 1.0, self.evaluation.arrays
        if part.kind == "add" and len(part.args) == 1 and abs(part.args[0][1]) == 1:
            part, sign = part.args[0]
        if part.kind != "get" or part.args[0].role != "data" or np.dtype(arrays[part.args[0]].dtype).kind != "f":
            return numbers
        return sign * self._over(self.evaluation.entries(part, is_as_held=True), inner).reshape(numbers.shape)

    def _slope(self, inner: tuple[Index, ...], entry: Node) -> tuple[Data, Data]:
        """Columns and what stands in them; columns that are the same in every row have no axis of rows."""
        of, xp = self.evaluation.of, self.evaluation.xp
        place, coefficient = entry.args[1:]
        numbers, entries = self._over(of(coefficient), inner), math.prod(i.size for i in inner)
        if not place.leaves and place.free <= set(inner):
            columns = xp.broadcast_to(aligned(of(place), inner), tuple(i.size for i in inner)).reshape(-1)
        else:
            columns = self._over(of(place), inner)
            columns = columns.reshape(*columns.shape[: len(self.frame) + 1], entries)
        return columns, numbers.reshape(*numbers.shape[: len(self.frame) + 1], entries)

    def _dense(self, parts: Parts) -> tuple[Data, Data]:
        matrix = self.evaluation.xp.zeros((*parts.scales.shape, self.width))
        for columns, numbers in parts.slopes:
            spread = one_hot(columns, self.width, numbers.dtype)
            shared = columns.ndim == 1
            matrix = matrix + (numbers @ spread if shared else (numbers[..., None] * spread).sum(axis=-2))
        return parts.scales[..., None] * matrix, parts.scales * parts.offset


class Parts(NamedTuple):
    """√weight and offset [… frame, row], and columns and entries [… frame, row, entry] of slopes."""

    scales: Data
    offset: Data
    slopes: tuple[tuple[Data, Data], ...]

    def between(self, start: Data, size: int) -> Parts:
        """Some rows of a problem without a frame."""
        slopes = (
            (c if c.ndim == 1 else taken_from(c, start, size), taken_from(n, start, size)) for c, n in self.slopes
        )
        return Parts(taken_from(self.scales, start, size), taken_from(self.offset, start, size), tuple(slopes))

    def widened(self, dtype: np.dtype) -> Parts:
        """All in the precision of the computation."""
        slopes = tuple((columns, numbers.astype(dtype)) for columns, numbers in self.slopes)
        return Parts(self.scales.astype(dtype), self.offset.astype(dtype), slopes)

    def blocks(self, count: int) -> tuple[Parts, Parts]:
        """Rows of a problem without a frame as so many blocks, with rows of zeros at the end; and which have blocks."""
        cut = partial(in_blocks, parts=count)
        slopes = tuple((c if c.ndim == 1 else cut(c), cut(n)) for c, n in self.slopes)
        over = tuple((None if c.ndim == 1 else 0, 0) for c, _ in self.slopes)
        return Parts(cut(self.scales), cut(self.offset), slopes), Parts(0, 0, over)


def _triangle_of(rows: Data) -> Data:
    """U of rows; of many narrow ones, that of the triangles of blocks, which caches hold."""
    count, width = rows.shape
    if xp_of(rows) is not np and width <= NARROW and count > BLOCK**2:
        rows = jax.vmap(_triangle_of)(in_blocks(rows, -(-count // BLOCK))).reshape(-1, width)
    return triangle(_largest_first(rows))


def _largest_first(rows: Data) -> Data:
    """The same rows, those with the largest entries first: in this order small ones keep their digits too."""
    xp = xp_of(rows)
    return rows[xp.argsort(-xp.max(xp.abs(constant(rows)), axis=1))]


def is_tall(rows: Node, frame: Unknowns) -> bool:
    """A single problem of so many rows that its matrix would be the largest array of all."""
    return frame.length is None and not rows.free and math.prod(rows.args[0]) > PASSES * frame.width


def front_of(rows: Node) -> tuple[list[tuple[Node, float]], Node]:
    """The factors of the weight that all rows share, and the rows."""
    over, body = opened_once(rows)
    weight = body.args[1]
    return [(base, exponent) for base, exponent in factors_in(weight) if not base.free & set(over)], body


def has_triangle(rows: Node, frame: Unknowns, unknown: Callable[[Node], bool]) -> bool:
    """Many rows of a single problem, which data alone decide but for a common weight."""
    is_plain = frame.length is None and frame.is_dense and not frame.is_whitened
    if not is_plain or rows.free or math.prod(rows.args[0]) <= 2 * frame.width:
        return False
    front, body = front_of(rows)
    weight, *others = body.args[1:]
    inner = [base for base, exponent in factors_in(weight) if (base, exponent) not in front]
    return not any(map(unknown, (*inner, *others)))
