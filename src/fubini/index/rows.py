"""Rows of least-squares problems in numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fubini.arrays import Data
from fubini.index.arithmetic import one_hot
from fubini.index.axes import Axes, aligned, taken
from fubini.index.binding import opened_once
from fubini.index.build import factors_in
from fubini.index.least_squares import Frame
from fubini.index.node import Index, Node
from fubini.index.ranges import is_whole


class Rows:
    """One block of rows of a least-squares problem: √weight · (slopes, offset) over a frame and indices of its own."""

    def __init__(self, evaluation: Any, this: Node, frame: Frame, outer: tuple[Index, ...]) -> None:
        self.evaluation, self.width = evaluation, frame.width - 1
        over, body = evaluation.opened(this)
        count = len(frame.axes)
        self.frame = tuple(part.args[0] for part in body.args[1 : 1 + count])
        weight, self.offset, *self.slopes = body.args[1 + count :]
        self.gathered: list[tuple[Index, Axes]] = []
        self.factors = self._read_at_entries(weight, tuple(i for i in over if i not in self.frame))
        gone = {i for i, _ in self.gathered}
        self.over = tuple(i for i in over if i not in self.frame and i not in gone)
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
        of = self.evaluation.of
        scales = self._over(self.evaluation.root_of(self.factors))
        for i, at in self.gathered:
            scales = scales * self._over(Axes(((at.data >= 0) & (at.data < i.size)).astype(float), at.of))
        matrix = self.evaluation.xp.zeros((*scales.shape, self.width))
        for slope in self.slopes:
            inner, entry = self.evaluation.opened(slope)
            place, coefficient = entry.args[1:]
            numbers = self._over(of(coefficient), inner)
            numbers = numbers.reshape(*numbers.shape[: len(self.frame) + 1], -1)
            if not place.leaves and place.free <= set(inner):  # the same columns in every row
                columns = self.evaluation.xp.broadcast_to(
                    aligned(of(place), inner), tuple(i.size for i in inner)
                ).reshape(-1)
                matrix = matrix + numbers @ one_hot(columns, self.width, numbers.dtype)
            else:
                columns = self._over(of(place), inner)
                columns = columns.reshape(*columns.shape[: len(self.frame) + 1], -1)
                spread = one_hot(columns, self.width, numbers.dtype)
                matrix = matrix + self.evaluation.xp.sum(numbers[..., None] * spread, axis=-2)
        return scales[..., None] * matrix, scales * self._over(of(self.offset))


def front_of(rows: Node) -> tuple[list[tuple[Node, float]], Node]:
    """The factors of the weight that all rows share, and the rows."""
    over, body = opened_once(rows)
    weight = body.args[1]
    return [(base, exponent) for base, exponent in factors_in(weight) if not base.free & set(over)], body


def has_triangle(rows: Node, frame: Frame, unknown: Callable[[Node], bool]) -> bool:
    """Many rows of a single problem, which data alone decide but for a common weight."""
    if frame.length is not None or rows.free or math.prod(rows.args[0]) <= 2 * frame.width:
        return False
    front, body = front_of(rows)
    weight, *others = body.args[1:]
    inner = [base for base, exponent in factors_in(weight) if (base, exponent) not in front]
    return not any(map(unknown, (*inner, *others)))
