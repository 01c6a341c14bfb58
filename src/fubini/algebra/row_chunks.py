"""Sums over rows that data alone decide, and what each chunk of rows adds to them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fubini.algebra.axes import aligned
from fubini.algebra.binding import closed, remade
from fubini.algebra.build import ONE, get, index, plus
from fubini.algebra.evaluation import Evaluation
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.walk import rewrite
from fubini.base.arrays import Data
from fubini.numerics.row_statistics import GroupedSquares, RowTotal, Squares
from fubini.numerics.row_statistics_on_devices import grouped_squares, squares


class RowSum(ABC):
    """A sum over rows j that data alone decide: `leaves` stand for its numbers."""

    row: Index
    leaves: list[Leaf]

    @property
    @abstractmethod
    def nodes(self) -> tuple[Node, ...]:
        """What is read of each row."""

    @abstractmethod
    def start(self) -> Any:
        """The sum over no rows."""

    @abstractmethod
    def add(self, state: Any, chunk: Chunk) -> None:
        """Add some rows."""

    @abstractmethod
    def part(self, chunk: Chunk) -> Sequence[Data]:
        """What some rows add, as the state of other rows joins it; by a program for a device."""

    @abstractmethod
    def numbers(self, state: Any) -> list[np.ndarray]:
        """The numbers that the leaves stand for."""


class Total(RowSum):
    """Σ_j Σ_over body, for each value of `axes`"""

    def __init__(self, row: Index, over: tuple[Index, ...], body: Node, axes: tuple[Index, ...]) -> None:
        self.row, self.over, self.body, self.axes = row, over, body, axes
        self.leaves = [Leaf("sum", tuple(i.size for i in axes))]

    @property
    def entry(self) -> Node:
        """The sum, in each cell of the axes."""
        return get(self.leaves[0], *map(index, self.axes))

    @property
    def nodes(self) -> tuple[Node, ...]:
        return (self.body,)

    def start(self) -> RowTotal:
        return RowTotal()

    def add(self, state: RowTotal, chunk: Chunk) -> None:
        state.add(self._sum(chunk))

    def part(self, chunk: Chunk) -> Sequence[Data]:
        whole = self._sum(chunk)
        return whole, chunk.xp.zeros_like(whole)

    def _sum(self, chunk: Chunk) -> Any:
        whole = closed("sum", (chunk.row, *self.over), chunk.node(self.body, self.row))
        return chunk.numbers(whole, self.axes)

    def numbers(self, state: RowTotal) -> list[np.ndarray]:
        return [np.asarray(state.total)]


class SquareSum(RowSum):
    """n, m and R of columns of rows, in each cell of `axes`: where `labels` of rows say, or in all.

    `columns` are known numbers of each row with the indices that they have beside the row and these.
    """

    def __init__(
        self,
        row: Index,
        columns: Mapping[Node, tuple[Index, ...]],
        weight: Node,
        axes: tuple[Index, ...],
        labels: Mapping[Index, Node],
        is_centred: bool,
    ) -> None:
        self.row, self.columns, self.weight = row, columns, weight
        self.axes, self.labels, self.is_centred = axes, labels, is_centred
        self._sizes = tuple(i.size for i in axes)
        self._shapes = [tuple(i.size for i in dims) for dims in columns.values()]
        self.width = sum(map(math.prod, self._shapes))
        self._n = Leaf("n", self._sizes)
        shapes = dict(zip(columns, self._shapes, strict=True))
        self._m = {data: Leaf("m", (*self._sizes, *shape)) for data, shape in shapes.items()}
        self._R = {data: Leaf("R", (*self._sizes, self.width, *shape)) for data, shape in shapes.items()}
        self.leaves = [self._n, *self._m.values(), *self._R.values()]
        self._at = tuple(map(index, axes))

    @property
    def count(self) -> Node:
        """n"""
        return get(self._n, *self._at)

    def mean_at(self, data: Node) -> Node:
        """m of a column; of one that is 1 in each row, 1."""
        return get(self._m[data], *self._at, *map(index, self.columns[data])) if data in self._m else ONE

    def root_at(self, r: Node, data: Node) -> Node:
        """Row r of R, of a column"""
        return get(self._R[data], *self._at, r, *map(index, self.columns[data]))

    @property
    def nodes(self) -> tuple[Node, ...]:
        return (self.weight, *self.labels.values(), *self.columns)

    def start(self) -> Squares | GroupedSquares:
        if not self.axes:
            return Squares(self.width, self.is_centred)
        return GroupedSquares(math.prod(self._sizes), self.width, self.is_centred)

    def add(self, state: Squares | GroupedSquares, chunk: Chunk) -> None:
        columns, weight, group = self._rows_of(chunk)
        if isinstance(state, Squares):
            state.add(columns, weight)
        else:
            state.add(columns, weight, group)

    def part(self, chunk: Chunk) -> Sequence[Data]:
        columns, weight, group = self._rows_of(chunk)
        if group is None:
            return squares(columns, weight, self.is_centred)
        return grouped_squares(columns, weight, group, math.prod(self._sizes), self.is_centred)

    def _rows_of(self, chunk: Chunk) -> tuple[Any, Any, Any]:
        """Columns [column, row], weights and groups of these rows, −1 where a row is in none."""
        xp = chunk.xp
        batch = tuple(i for i in self.axes if i not in self.labels)
        rows = chunk.row.size * math.prod(i.size for i in batch)
        each = [chunk.array(data, self.row, (*batch, *dims)).reshape(rows, -1).T for data, dims in self.columns.items()]
        columns = xp.concatenate(each) if each else xp.zeros((0, rows))
        weight = None if self.weight is ONE else chunk.array(self.weight, self.row, batch).reshape(-1)
        if not self.axes:
            return columns, weight, None
        group: Any = 0
        outside: Any = False
        for i in self.axes:
            place = chunk.array(self.labels.get(i, index(i)), self.row, batch).astype(np.int64)
            group = group * i.size + place
            outside = outside | (place < 0) | (place >= i.size)
        return columns, weight, xp.where(outside, -1, group).reshape(-1)

    def numbers(self, state: Squares | GroupedSquares) -> list[np.ndarray]:
        root = state.triangle if isinstance(state, Squares) else state.roots
        root, mean = root.reshape(*self._sizes, self.width, self.width), state.mean.reshape(*self._sizes, self.width)
        ends = np.cumsum(list(map(math.prod, self._shapes)))[:-1]
        means, roots = np.split(mean, ends, axis=-1), np.split(root, ends, axis=-1)
        return [
            np.asarray(state.count).reshape(self._sizes),
            *(part.reshape((*self._sizes, *shape)) for part, shape in zip(means, self._shapes, strict=True)),
            *(
                part.reshape((*self._sizes, self.width, *shape))
                for part, shape in zip(roots, self._shapes, strict=True)
            ),
        ]


class Chunk:
    """Some rows, and the values of nodes over them; `nodes` are those of other chunks of this size."""

    def __init__(self, layout: Layout, start: Any, arrays: Mapping[Leaf, Any], xp: Any = np) -> None:
        self.layout, self.row, self.xp = layout, layout.row, xp
        self.evaluation = Evaluation({**arrays, layout.first: xp.asarray(start)}, xp=xp)

    def node(self, of: Node, row: Index) -> Node:
        """The same over the rows of this chunk."""
        layout, old = self.layout, index(row)

        def change(this: Node, visit: Callable[[Node], Node]) -> Node:
            if this is old:
                return plus(index(layout.row), get(layout.first))
            if row not in this.free:
                return this
            if this.kind == "get" and this.args[0] in layout.parts and this.args[1] is old:
                return get(layout.parts[this.args[0]], index(layout.row), *map(visit, this.args[2:]))
            return remade(this, visit)

        return rewrite(of, change, layout.nodes.setdefault(row, {}))

    def array(self, of: Node, row: Index, axes: tuple[Index, ...]) -> Any:
        """The numbers of a node along the rows of this chunk and other indices."""
        return self.numbers(self.node(of, row), (self.row, *axes))

    def numbers(self, of: Node, axes: tuple[Index, ...]) -> Any:
        """The numbers of a node of this chunk along these axes."""
        with np.errstate(all="ignore"):
            values = aligned(self.evaluation.of(of), axes)
        return self.xp.broadcast_to(values, tuple(i.size for i in axes))


class Layout:
    """What chunks of one size have in common: their rows, a leaf for the part of each array, nodes over them."""

    def __init__(self, size: int, leaves: Iterable[Leaf]) -> None:
        self.row, self.first = Index(size, "j"), Leaf("first row", (), is_integer=True)
        self.parts = {leaf: Leaf(leaf.name, (size, *leaf.shape[1:]), is_integer=leaf.is_integer) for leaf in leaves}
        self.nodes: dict[Index, dict[Node, Node]] = {}
