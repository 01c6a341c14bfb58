"""Hoisting: what no candidate needs anew leaves the loops.

Parts that the data alone decide are computed once; parts that depend on a class and its statistics are kept in an
array by class, of which a step refreshes two entries (rule D8 of docs/array_latents.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from fubini.algebra.binding import remade, replaced
from fubini.algebra.build import get, index, make
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.ranges import bounds
from fubini.algebra.walk import rewrite, walk
from fubini.compile.statistics import canonical


class HoistedArray(NamedTuple):
    """An array of what a node is at each place of its axes."""

    leaf: Leaf
    axes: tuple[Index, ...]
    value: Node


class Store:
    """Arrays in place of nodes, one for all that are equal."""

    def __init__(self, stem: str) -> None:
        self.stem = stem
        self.kept: dict[Node, HoistedArray] = {}

    def entry(self, of: Node) -> Node:
        """The entry of the array that holds a node."""
        free, key = canonical(of)
        if key not in self.kept:
            low = bounds(of)[0]
            shape = tuple(i.size for i in free)
            leaf = Leaf(
                f"{self.stem}{len(self.kept)}",
                shape,
                low=None if low == -math.inf else low,
                is_integer=False,
                role="state",
            )
            axes = tuple(Index(i.size, i.label) for i in free)
            value = replaced(of, dict(zip(map(index, free), map(index, axes), strict=True)))
            self.kept[key] = HoistedArray(leaf, axes, value)
        return get(self.kept[key].leaf, *map(index, free))


def hoisted(of: Node, is_loose: Callable[[Node], bool], store: Store) -> Node:
    """Replace the largest loose parts of a node by entries of arrays; loose terms and factors go together."""

    def hoist(this: Node, visit: Callable[[Node], Node]) -> Node:
        if this.kind in ("const", "index", "get"):
            return this
        if is_loose(this):
            return store.entry(this)
        if this.kind not in ("add", "mul"):
            return remade(this, visit)
        loose = [(part, number) for part, number in this.args if is_loose(part)]
        tight = [(visit(part), number) for part, number in this.args if (part, number) not in loose]
        if loose:
            whole = make(this.kind, *loose)
            tight.append((whole if whole.kind in ("const", "get") else visit(whole), 1.0))
        return make(this.kind, *tight)

    return rewrite(of, hoist)


def is_of_class(of: Node, k: Index, states: Mapping[Leaf, frozenset[int]]) -> bool:
    """Whether a node depends on a class and its statistics alone; `states` has their axes."""
    return of.free == {k} and all(_is_row(part, k, states) for part in _entries(of) if part.args[0] in states)


def _is_row(entry: Node, k: Index, states: Mapping[Leaf, frozenset[int]]) -> bool:
    leaf, *at = entry.args
    return any(at[axis] is index(k) for axis in states[leaf])


def _entries(of: Node) -> list[Node]:
    return [this for this in walk(of) if this.kind == "get"]
