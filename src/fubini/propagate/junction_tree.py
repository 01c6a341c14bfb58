"""Junction trees: cliques of variables, connected so that each variable's cliques are connected, from an order.

Structure alone: names in, names out. Each variable, when it goes, leaves the clique of itself and its neighbours; the
next of these to go has the clique above it. A clique that is part of the one below is merged with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fubini.base.names import Name
from fubini.eliminate.order import Precedence
from fubini.eliminate.tree import search_order


@dataclass(frozen=True)
class JunctionTree:
    """Cliques, children before the clique above them (None above a root), and the clique that has each factor."""

    cliques: tuple[frozenset[Name], ...]
    above: tuple[int | None, ...]
    homes: tuple[int | None, ...]

    def separator(self, clique: int) -> frozenset[Name]:
        """The variables that a clique shares with the one above it."""
        parent = self.above[clique]
        return frozenset() if parent is None else self.cliques[clique] & self.cliques[parent]

    def below(self, clique: int) -> list[int]:
        """The cliques under one."""
        return [child for child, parent in enumerate(self.above) if parent == clique]

    def smallest_with(self, sizes: dict[Name, int]) -> dict[Name, int]:
        """The clique of fewest cells that has each variable."""
        cells = [math.prod(sizes[name] for name in clique) for clique in self.cliques]
        chosen: dict[Name, int] = {}
        for clique in sorted(range(len(self.cliques)), key=lambda clique: cells[clique]):
            for name in self.cliques[clique]:
                chosen.setdefault(name, clique)
        return chosen


def make_junction_tree(
    scopes: Sequence[tuple[Name, ...]], sizes: dict[Name, int], precedence: Precedence
) -> JunctionTree:
    """The tree of the planner's order.

    >>> from fubini.eliminate.order import FREE
    >>> tree = make_junction_tree([("a", "b"), ("b", "c"), ("c", "d")], dict.fromkeys("abcd", 2), FREE)
    >>> [sorted(clique) for clique in tree.cliques], tree.above
    ([['a', 'b'], ['b', 'c'], ['c', 'd']], (1, 2, None))
    """
    order = search_order(scopes, sizes, list(sizes), precedence)
    rank = {name: position for position, name in enumerate(order)}
    cliques = _cliques(scopes, order)
    above = [
        min((rank[other] for other in clique if rank[other] > k), default=None) for k, clique in enumerate(cliques)
    ]
    merged = _merge(cliques, above)
    homes = [merged[min(rank[name] for name in scope)] if scope else None for scope in scopes]
    return _renumbered(cliques, above, merged, homes)


def _cliques(scopes: Sequence[Iterable[Name]], order: Sequence[Name]) -> list[frozenset[Name]]:
    """Each variable and its neighbours when it goes."""
    near: dict[Name, set[Name]] = {name: set() for name in order}
    for scope in scopes:
        for name in scope:
            near[name].update(scope)
    cliques = []
    for name in order:
        clique = frozenset(near.pop(name) | {name})
        cliques.append(clique)
        for other in clique - {name}:
            near[other] |= clique
            near[other].discard(name)
    return cliques


def _merge(cliques: list[frozenset[Name]], above: list[int | None]) -> list[int]:
    """The clique into which each is merged: the first below it that has all of its variables."""
    into = list(range(len(cliques)))
    for clique in range(len(cliques)):
        here = into[clique]
        parent = above[clique]
        if parent is not None and into[parent] == parent and cliques[parent] <= cliques[here]:
            into[parent] = here
    return into


def _renumbered(
    cliques: list[frozenset[Name]], above: list[int | None], merged: list[int], homes: list[int | None]
) -> JunctionTree:
    """The cliques that stay, each with the clique above the highest that was merged into it."""
    highest = {clique: place for place, clique in enumerate(merged)}  # the last wins
    parents = {clique: above[highest[clique]] for clique in highest}
    parents = {clique: None if parent is None else merged[parent] for clique, parent in parents.items()}
    depth: dict[int, int] = {}

    def measure(clique: int) -> int:
        path = []
        while clique not in depth and parents[clique] is not None:
            path.append(clique)
            clique = parents[clique]  # type: ignore[assignment]
        level = depth.setdefault(clique, 0)
        for step in reversed(path):
            level += 1
            depth[step] = level
        return level

    order = sorted(parents, key=lambda clique: -measure(clique))
    number = {clique: place for place, clique in enumerate(order)}
    tops = [parents[clique] for clique in order]
    return JunctionTree(
        tuple(cliques[clique] for clique in order),
        tuple(None if parent is None else number[parent] for parent in tops),
        tuple(None if home is None else number[home] for home in homes),
    )
