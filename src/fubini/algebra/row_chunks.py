"""Sums over rows as numbers, by passes over the rows, chunk by chunk."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fubini.algebra.axes import aligned
from fubini.algebra.binding import closed, remade
from fubini.algebra.build import ONE, get, index, plus
from fubini.algebra.evaluation import Evaluation
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.walk import rewrite
from fubini.base.stream import Stream, read_together
from fubini.numerics.row_statistics import GroupedSquares, RowTotal, Squares


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
        whole = closed("sum", (chunk.row, *self.over), chunk.node(self.body, self.row))
        state.add(chunk.numbers(whole, self.axes))

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
        batch = tuple(i for i in self.axes if i not in self.labels)
        rows = chunk.row.size * math.prod(i.size for i in batch)
        each = [chunk.array(data, self.row, (*batch, *dims)).reshape(rows, -1).T for data, dims in self.columns.items()]
        columns = np.concatenate(each) if each else np.zeros((0, rows))
        weight = None if self.weight is ONE else chunk.array(self.weight, self.row, batch).reshape(-1)
        if isinstance(state, Squares):
            state.add(columns, weight)
            return
        group: Any = 0
        outside: Any = False
        for i in self.axes:
            place = chunk.array(self.labels.get(i, index(i)), self.row, batch).astype(np.int64)
            group = group * i.size + place
            outside = outside | (place < 0) | (place >= i.size)
        state.add(columns, weight, np.where(outside, -1, group).reshape(-1))

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

    def __init__(self, layout: Layout, start: int, arrays: Mapping[Leaf, Any]) -> None:
        self.layout, self.row = layout, layout.row
        self.evaluation = Evaluation({**arrays, layout.first: np.asarray(start)}, xp=np)

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

    def array(self, of: Node, row: Index, axes: tuple[Index, ...]) -> np.ndarray:
        """The numbers of a node along the rows of this chunk and other indices."""
        return self.numbers(self.node(of, row), (self.row, *axes))

    def numbers(self, of: Node, axes: tuple[Index, ...]) -> np.ndarray:
        """The numbers of a node of this chunk along these axes."""
        with np.errstate(all="ignore"):
            values = aligned(self.evaluation.of(of), axes)
        return np.broadcast_to(values, tuple(i.size for i in axes))


class Layout:
    """What chunks of one size have in common: their rows, a leaf for the part of each array, nodes over them."""

    def __init__(self, size: int, leaves: Iterable[Leaf]) -> None:
        self.row, self.first = Index(size, "j"), Leaf("first row", (), is_integer=True)
        self.parts = {leaf: Leaf(leaf.name, (size, *leaf.shape[1:]), is_integer=leaf.is_integer) for leaf in leaves}
        self.nodes: dict[Index, dict[Node, Node]] = {}


def read_sums(
    sums: Sequence[RowSum], streams: Mapping[Leaf, Stream], known: Mapping[Leaf, Any]
) -> tuple[dict[RowSum, list[np.ndarray]], list[int]]:
    """The numbers of sums, by one pass over the rows of each length; and these lengths."""
    lengths: dict[int, list[RowSum]] = {}
    for one in sums:
        lengths.setdefault(one.row.size, []).append(one)
    values: dict[RowSum, list[np.ndarray]] = {}
    for length, alike in lengths.items():
        states = {one: one.start() for one in alike}
        for chunk in _chunks(length, alike, streams, known):
            for one, state in states.items():
                one.add(state, chunk)
        values |= {one: one.numbers(state) for one, state in states.items()}
    return values, list(lengths)


def _chunks(
    length: int, sums: Sequence[RowSum], streams: Mapping[Leaf, Stream], known: Mapping[Leaf, Any]
) -> Iterator[Chunk]:
    """The rows of all streams of a length that sums read, and of other arrays with as many rows."""
    used = frozenset[Leaf]().union(*(node.leaves for one in sums for node in one.nodes))
    rows = {leaf: data for leaf, data in streams.items() if data.rows == length and leaf in used}
    here: dict[Leaf, np.ndarray[Any, Any]] = {
        leaf: data for leaf, data in known.items() if isinstance(data, np.ndarray) and leaf in used
    }
    tall = {leaf: data for leaf, data in here.items() if data.ndim and len(data) == length}
    layouts: dict[int, Layout] = {}
    for start, size, chunks in read_together(list(rows.values()), length):
        layout = layouts.get(size)
        if layout is None:
            layout = layouts[size] = Layout(size, (*rows, *tall))
        arrays: dict[Leaf, Any] = dict(here)
        arrays |= {layout.parts[leaf]: chunk for leaf, chunk in zip(rows, chunks, strict=True)}
        arrays |= {layout.parts[leaf]: data[start : start + size] for leaf, data in tall.items()}
        yield Chunk(layout, start, arrays)
