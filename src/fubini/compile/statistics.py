"""Statistics of labels: the innermost sums of a density in which they occur, each an array that can be kept.

Rules D1 and D2 of docs/array_latents.md: S(c) = Σ_J m(J, c, y), and what one label adds to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from fubini.algebra.binding import closed, opened, remade, replaced, visited
from fubini.algebra.build import const, get, index, negate, plus, times
from fubini.algebra.features import Place
from fubini.algebra.node import Index, Leaf, Node, node
from fubini.algebra.node_notation import written
from fubini.algebra.ranges import bounds, is_whole
from fubini.algebra.sums import total
from fubini.algebra.walk import walk
from fubini.errors import NoRule
from fubini.integrate.finite import tests
from fubini.read.primitive import Primitive

SUPPORTED = frozenset(("const", "index", "get", "add", "mul", "call", "eq", "lt", "where", "sum"))

COUPLED = 3  # entries of one label in an item of a sum, at most


class Statistic(NamedTuple):
    """S(axes) = Σ over items of a body that reads labels; `leaf` stands for the array."""

    leaf: Leaf
    axes: tuple[Index, ...]
    over: tuple[Index, ...]
    body: Node

    @property
    def is_count(self) -> bool:
        """Whether it counts items, no more of them than 32 bits number."""
        low, high = bounds(self.body)
        return low >= 0 and high <= 1 and is_whole(self.body) and math.prod(i.size for i in self.over) < 2**31

    def at(self, places: Sequence[Node], of: Node) -> Node:
        """A node over its axes, at other places."""
        return replaced(of, dict(zip(map(index, self.axes), places, strict=True)))


class Statistics:
    """Terms of a density as functions of statistics of some labels."""

    def __init__(self, terms: Iterable[Node], labels: Sequence[Leaf]) -> None:
        self.labels = frozenset(labels)
        self.by_sum: dict[Node, Statistic] = {}
        self.terms = tuple(self._abstracted(term) for term in terms if term.leaves & self.labels)

    @property
    def all(self) -> tuple[Statistic, ...]:
        """Each statistic, in the order in which it occurs."""
        return tuple(self.by_sum.values())

    def _abstracted(self, of: Node) -> Node:
        """Replace sums over items by the leaves of statistics."""
        if not of.leaves & self.labels:
            return of
        if of.kind not in SUPPORTED:
            advice = "leave the latents coupled there in: they are drawn from their conditionals between sweeps"
            raise unsupported(of, self.labels, "sums over items, and functions of these", advice)
        if of.kind != "sum":
            if of.kind == "get":
                raise unsupported(of, self.labels, "labels that are read in a sum over items")
            return remade(of, self._abstracted)
        over, body = opened(of)
        if not any(part.leaves & self.labels for part in inner_sums(body)):
            return self._leaf(of)
        if any(True for _ in reads(body, self.labels, outside_sums=True)):
            raise unsupported(of, self.labels, "sums over items that do not depend on other sums of the same labels")
        return total(over, self._abstracted(body))

    def _leaf(self, of: Node) -> Node:
        free, key = canonical(of)
        if key not in self.by_sum:
            axes = tuple(Index(i.size, "c") for i in free)
            over, body = opened(replaced(of, {index(i): index(axis) for i, axis in zip(free, axes, strict=True)}))
            low, whole = (0.0 if bounds(of)[0] >= 0 else None), is_whole(of)
            shape = tuple(i.size for i in free)
            leaf = Leaf(f"S{len(self.by_sum)}", shape, low=low, is_integer=whole, role="state")
            self.by_sum[key] = Statistic(leaf, axes, over, body)
        return get(self.by_sum[key].leaf, *map(index, free))


def inner_sums(of: Node) -> Iterator[Node]:
    """The sums in a node, outermost first."""
    nodes = walk(of, enter=lambda this: this.height > 0, descend=lambda this: this.kind != "sum")
    yield from (this for this in nodes if this.kind == "sum")


def canonical(of: Node) -> tuple[tuple[Index, ...], Node]:
    """Its free indices, and the node with places in place of them: one and the same for equal functions of these."""
    free = visited(of)
    return free, replaced(of, {index(i): node("index", "axis", place, i.size) for place, i in enumerate(free)})


def reads(of: Node, labels: frozenset[Leaf], outside_sums: bool = False) -> Iterator[Node]:
    """The entries of labels in a node."""
    for this in walk(of, enter=lambda this: bool(this.leaves & labels) and not (outside_sums and this.is_binder)):
        head = this.args[0]
        if this.kind == "get" and head in labels:
            yield this
        if (this.kind == "get" and head.of & labels) or (this.kind == "call" and isinstance(head, Primitive)):
            raise unsupported(this, labels, "a function of the labels that can be read")


def places_of(of: Statistic, label: Leaf) -> tuple[Place, ...]:
    """Where an item of a statistic reads a label."""
    return tuple(dict.fromkeys(part.args[1:] for part in reads(of.body, frozenset({label}))))


def increment(of: Statistic, label: Leaf, at: tuple[Index, ...], k: Index) -> Node:
    """What the label at `at` adds when it is k: Σ_J [a(J) = at] m with y[a] := k; everything where it is not read.

    Where an item reads the label at a and at b, Σ_J [a = at] [b ≠ at] m(k, y[b]) + [a ≠ at] [b = at] m(y[a], k) +
    [a = at] [b = at] m(k, k).
    """
    places = places_of(of, label)
    if len(places) > (COUPLED if len(at) == 1 else 1):
        expected = f"at most {COUPLED} labels in each item of a sum, and one of labels with several axes"
        raise unsupported(closed("sum", of.over, of.body), frozenset({label}), expected)
    if any(label in part.leaves for place in places for part in place):
        raise unsupported(of.body, frozenset({label}), "labels at places that do not depend on them")
    value = plus(index(k), const(label.first))
    hits = {place: tests(_reached(place, at), at) for place in places}
    parts = []
    for count in range(1, len(places) + 1):
        for here in combinations(places, count):
            body = replaced(of.body, {get(label, *place): value for place in here})
            where = [hit if place in here else negate(hit) for place, hit in hits.items()]
            parts.append(total(of.over, times(body, *where)))
    return plus(*parts)


def _reached(place: Place, at: tuple[Index, ...]) -> Place:
    """The entry along an axis of one place is at 0."""
    return tuple(const(0.0) if i.size == 1 else part for part, i in zip(place, at, strict=True))


SLOWLY = 'gibbs(…, without=("difference",)) computes the density anew for every candidate, and is slow'


def unsupported(of: Node, labels: Iterable[Leaf], expected: str, advice: str = SLOWLY) -> NoRule:
    """The error of a density that no sampler can be made from."""
    names = ", ".join(sorted(repr(leaf.name) for leaf in labels))
    return NoRule(
        f"a compiled sampler of {names}",
        expected=expected,
        nearest=f"in {written(of)[:160]}",
        advice=advice,
    )
