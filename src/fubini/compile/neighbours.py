"""Neighbours: sums over the other labels that are coupled with an entry, computed once for its update.

Where an item reads two labels, what one entry adds depends on the labels coupled with it: for S(c, d) =
Σ_ij a_ij [c = z_i] [d = z_j], row c of its class grows by T(u, d) = Σ_j [j ≠ u] a_uj [d = z_j]. It is the same for all
candidates, and a loop over the items of the entry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fubini.algebra.binding import escapes, opened, remade, replaced, visited
from fubini.algebra.build import get, index
from fubini.algebra.node import Index, Leaf, Node, node
from fubini.algebra.ranges import is_whole
from fubini.algebra.walk import rewrite
from fubini.compile.statistics import Statistic


class Neighbours:
    """The sums over labels in what an entry at some place adds, each an array at that place."""

    def __init__(self, labels: Sequence[Leaf], at: tuple[Index, ...]) -> None:
        self.labels, self.at = frozenset(labels), at
        self.by_sum: dict[Node, Statistic] = {}

    @property
    def all(self) -> tuple[Statistic, ...]:
        """Each sum, in the order in which it occurs, over the axes beside those of the place."""
        return tuple(self.by_sum.values())

    def of(self, this: Node) -> Node:
        """Replace sums over labels by entries of arrays."""

        def replace(part: Node, visit: Callable[[Node], Node]) -> Node:
            if not part.leaves & self.labels:
                return part
            if part.kind == "sum" and not escapes(part):
                return self._entry(part)
            return part if part.is_binder else remade(part, visit)

        return rewrite(this, replace)

    def _entry(self, of: Node) -> Node:
        others = tuple(i for i in visited(of) if i not in self.at)
        key = replaced(of, {index(i): node("index", "axis", place, i.size) for place, i in enumerate(others)})
        if key not in self.by_sum:
            axes = tuple(Index(i.size, "c") for i in others)
            names = {index(i): index(axis) for i, axis in zip(others, axes, strict=True)}
            over, body = opened(replaced(of, names))
            shape = tuple(i.size for i in (*self.at, *axes))
            leaf = Leaf(f"T{len(self.by_sum)}", shape, is_integer=is_whole(of), role="state")
            self.by_sum[key] = Statistic(leaf, axes, over, body)
        return get(self.by_sum[key].leaf, *map(index, (*self.at, *others)))
