"""Sums over rows, estimated from some of the rows: (N/n) Σ over n of N rows that chance chose."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from fubini.algebra.binding import closed, inside, opened_once, remade
from fubini.algebra.build import add, get, index, multiply, scale
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.row_sums import NeedsRows
from fubini.algebra.walk import rewrite, walk


class RowSample:
    """Some of the rows of streams of one length: `places` stands for their numbers, `parts` for what is in them."""

    def __init__(self, rows: int, count: int, streams: Iterable[Leaf]) -> None:
        self.rows, self.row = rows, Index(count, "j")
        self.places = Leaf("rows", (count,), low=0, high=rows - 1, is_integer=True)
        self.parts = {
            leaf: Leaf(
                leaf.name,
                (count, *leaf.shape[1:]),
                low=leaf.low,
                high=leaf.high,
                is_integer=leaf.is_integer,
                is_test=leaf.is_test,
            )
            for leaf in streams
        }
        self._nodes: dict[Index, dict[Node, Node]] = {}

    @property
    def factor(self) -> float:
        """N/n"""
        return self.rows / self.row.size

    def node(self, of: Node, row: Index) -> Node:
        """The same at these rows in place of all."""
        old, place = index(row), get(self.places, index(self.row))

        def change(this: Node, visit: Callable[[Node], Node]) -> Node:
            if this is old:
                return place
            if row not in this.free:
                return this
            if this.kind == "get" and this.args[0] in self.parts and this.args[1] is old:
                return get(self.parts[this.args[0]], index(self.row), *map(visit, this.args[2:]))
            return remade(this, visit)

        return rewrite(of, change, self._nodes.setdefault(row, {}))


def estimate_sums(of: Node, samples: Mapping[int, RowSample]) -> Node:
    """A term with each sum over rows estimated from some of them, which is right on average."""
    streams = {leaf for sample in samples.values() for leaf in sample.parts}

    def estimate(this: Node) -> Node:
        if not this.leaves & streams:
            return this
        if this.kind == "add":
            return add((estimate(part), c) for part, c in this.args)
        if this.kind == "sum":
            return estimate_sum(this)
        if this.kind == "mul":
            read = [(base, e) for base, e in this.args if base.leaves & streams]
            others = [(base, e) for base, e in this.args if not base.leaves & streams]
            if len(read) == 1 and read[0][1] == 1:
                return multiply([*others, (estimate(read[0][0]), 1.0)])
        raise NeedsRows(this, "it is no sum over rows")

    def estimate_sum(this: Node) -> Node:
        over, body = opened_once(this)
        rows = _rows_in(body, over, streams)
        if not rows:
            return closed("sum", over, estimate(body))
        if len(rows) > 1:
            raise NeedsRows(this, "it goes over pairs of rows")
        sample = samples.get(rows[0].size)
        new = body if sample is None else sample.node(body, rows[0])
        if sample is None or new.leaves & streams:
            raise NeedsRows(this, "it reads other rows beside each one")
        over = (sample.row, *(i for i in over if i is not rows[0]))
        return scale(sample.factor, closed("sum", over, new))

    return estimate(of)


def _rows_in(body: Node, over: Iterable[Index], streams: set[Leaf]) -> list[Index]:
    """The indices among these that go over the rows of a stream."""
    places = {
        this.args[1].args[0]
        for this in walk(body, parts=inside)
        if this.kind == "get" and this.args[0] in streams and this.args[1].kind == "index"
    }
    return [i for i in over if i in places]
