"""Branches of measures: draws, tests, a weight and what is returned.

    draw x₁ ~ p₁ … draw xₙ ~ pₙ(x₁ …); [tests]; e^weight; return value

A plate is a draw with indices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from fubini.algebra.binding import transformed
from fubini.algebra.build import ZERO, get, index
from fubini.algebra.node import Index, Leaf, Node
from fubini.measures.draw_density import DrawDistribution


class Items(NamedTuple):
    """An array that is returned: its entry at indices."""

    over: tuple[Index, ...]
    entry: Node


Returned = Node | Items | tuple["Returned", ...]


class DrawStatement(NamedTuple):
    """x[at] ~ p, independently for all indices; a point of a simplex has one more axis."""

    leaf: Leaf
    at: tuple[Index, ...]
    distribution: DrawDistribution

    @property
    def entry(self) -> Callable[..., Node]:
        """Of one draw, at the indices of its event."""
        return lambda *more: get(self.leaf, *map(index, self.at), *more)


def count_of_draws(draws: Iterable[DrawStatement]) -> int:
    """How many numbers are drawn."""
    return sum(math.prod(draw.leaf.shape) for draw in draws)


class Test(NamedTuple):
    """A test that holds for all indices."""

    over: tuple[Index, ...]
    node: Node


class Branch(NamedTuple):
    """One summand of a measure."""

    draws: tuple[DrawStatement, ...]
    tests: tuple[Test, ...]
    weight: Node  # its logarithm
    value: Returned
    observed: tuple[DrawDistribution, ...] = ()  # whose densities are in the weight

    def mapped(self, change: Callable[[Node], Node], leaves: Mapping[Leaf, Leaf] | None = None) -> Branch:
        """With a function applied to each node, and other leaves for what is drawn."""
        new = leaves or {}
        draws = tuple(DrawStatement(new.get(d.leaf, d.leaf), d.at, d.distribution.mapped(change)) for d in self.draws)
        tests = tuple(test._replace(node=change(test.node)) for test in self.tests)
        observed = tuple(distribution.mapped(change) for distribution in self.observed)
        return Branch(draws, tests, change(self.weight), mapped_value(self.value, change), observed)

    @property
    def drawn(self) -> tuple[Leaf, ...]:
        """What it draws, in order."""
        return tuple(draw.leaf for draw in self.draws)


def mapped_value(value: Returned, change: Callable[[Node], Node]) -> Returned:
    """With a function applied to each node of it."""
    if isinstance(value, Items):
        return Items(value.over, change(value.entry))
    if isinstance(value, tuple):
        return tuple(mapped_value(part, change) for part in value)
    return change(value)


def nodes_of(value: Returned) -> Iterator[Node]:
    """All nodes of what is returned."""
    if isinstance(value, Items):
        yield value.entry
    elif isinstance(value, tuple):
        for part in value:
            yield from nodes_of(part)
    else:
        yield value


def facts_of(leaf: Leaf) -> dict[str, Any]:
    """What is known of the entries of a leaf, and its role."""
    names = ("low", "high", "is_integer", "is_simplex", "role")
    return {name: getattr(leaf, name) for name in names}


def fresh_like(leaf: Leaf, name: str = "", shape: tuple[int, ...] | None = None) -> Leaf:
    """Another leaf of which the same is known."""
    return Leaf(name or leaf.name, leaf.shape if shape is None else shape, **facts_of(leaf))


def renamed(of: Node, names: Mapping[Leaf, Leaf]) -> Node:
    """With other leaves."""
    for old, new in names.items():
        if old in of.leaves and old is not new:
            of = transformed(of, old, lambda *at, new=new: get(new, *at))
    return of


def refreshed(branch: Branch, name: str | None = None) -> Branch:
    """The same branch with fresh leaves for what it draws; a drawn value that it returns goes by a name, if given."""
    entry = branch.value.entry if isinstance(branch.value, Items) else branch.value
    returned = entry.args[0] if isinstance(entry, Node) and entry.kind == "get" else None
    names = {leaf: fresh_like(leaf, name or "" if leaf is returned else "") for leaf in branch.drawn}
    return branch.mapped(lambda of: renamed(of, names), names)


def is_impossible(branch: Branch) -> bool:
    """A test of it fails for certain."""
    return any(test.node is ZERO for test in branch.tests)
