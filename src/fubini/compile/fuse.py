"""Fusion: accumulations over as many items become one loop, and so do sums over indices of the same sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fubini.algebra.binding import closed, opened, remade, replaced
from fubini.algebra.build import add, index
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.walk import rewrite


class Accumulation(NamedTuple):
    """A loop over items in which an array grows: where, by what, and under which tests."""

    over: tuple[Index, ...]
    leaf: Leaf
    places: tuple[Node, ...]
    tests: tuple[Node, ...]
    value: Node

    def along(self, over: tuple[Index, ...]) -> Accumulation:
        """The same over other indices."""
        names = dict(zip(map(index, self.over), map(index, over), strict=True))
        many = lambda nodes: tuple(replaced(node, names) for node in nodes)  # noqa: E731
        return Accumulation(over, self.leaf, many(self.places), many(self.tests), replaced(self.value, names))


Grouping = Callable[[list[Accumulation]], list[list[Accumulation]]]


def fuse_accumulations(accumulations: list[Accumulation]) -> list[list[Accumulation]]:
    """Put those over indices of the same sizes together, over the indices of the first."""
    groups: dict[tuple[int, ...], list[Accumulation]] = {}
    for one in accumulations:
        group = groups.setdefault(tuple(i.size for i in one.over), [])
        group.append(one.along(group[0].over) if group else one)
    return list(groups.values())


def separate(accumulations: list[Accumulation]) -> list[list[Accumulation]]:
    """Put each in a loop of its own."""
    return [[one] for one in accumulations]


def fused_sums(of: Node) -> Node:
    """Σ_i a + Σ_i b  =  Σ_i (a + b), wherever sums stand side by side"""
    return rewrite(of, lambda this, visit: _fuse(remade(this, visit)))


def _fuse(inner: Node) -> Node:
    if inner.kind != "add":
        return inner
    groups: dict[tuple[int, ...], list[tuple[Node, float]]] = {}
    rest = []
    for part, coefficient in inner.args:
        (groups.setdefault(part.args[0], []) if part.kind == "sum" else rest).append((part, coefficient))
    return add([*rest, *((_joined(group), 1.0) for group in groups.values())])


def _joined(group: list[tuple[Node, float]]) -> Node:
    over, first = opened(group[0][0])
    bodies = [(first, group[0][1])]
    for part, coefficient in group[1:]:
        own, body = opened(part)
        bodies.append((replaced(body, dict(zip(map(index, own), map(index, over), strict=True))), coefficient))
    return closed("sum", over, add(bodies))
