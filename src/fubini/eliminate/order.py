"""Elimination orders: which variable to sum out next.

Greedy orders on the interaction graph, its neighbourhoods held as bit masks and its scores updated edge by edge. The
scores are those of the literature: fill-in, plain or weighted by domain sizes, and the size of the table that an
elimination makes.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from fubini.base.names import Name


@dataclass(frozen=True)
class Precedence:
    """The variables that must go first for every step to be exact.

    A bounded integer waits for the real variables it shares a factor with: summed before them it makes a mixture.
    `before` holds pairs (first, second): a density that is no Gaussian is summed over its own variable before others.
    """

    reals: frozenset[Name] = frozenset()
    before: frozenset[tuple[Name, Name]] = frozenset()


FREE = Precedence()


class InteractionGraph:
    """The interaction graph of factors: two names are neighbours where some factor has both.

    `fill[v]` is the weight of the edges that eliminating v would add, `bits[v]` log₂ of the table it would make.
    """

    def __init__(self, scopes: Sequence[Iterable[Name]], sizes: dict[Name, int], weighted: bool) -> None:
        present = {name for scope in scopes for name in scope}
        self.names = [name for name in sizes if name in present]  # the order of `sizes` breaks ties
        self.number = {name: position for position, name in enumerate(self.names)}
        self.weights = [sizes[name] for name in self.names] if weighted else None
        self.logs = [math.log2(sizes[name]) for name in self.names]
        self.near = self._neighbours(scopes)
        self.bits = [
            log + sum(self.logs[other] for other in bits(mask)) for log, mask in zip(self.logs, self.near, strict=True)
        ]
        self.fill = [self._missing(mask) for mask in self.near]

    def _neighbours(self, scopes: Sequence[Iterable[Name]]) -> list[int]:
        near = [0] * len(self.names)
        for scope in scopes:
            members = [self.number[name] for name in scope]
            mask = 0
            for member in members:
                mask |= 1 << member
            for member in members:
                near[member] |= mask
        return [mask & ~(1 << position) for position, mask in enumerate(near)]

    def _weight(self, mask: int) -> int:
        """The weight of a set of nodes."""
        if self.weights is None:
            return mask.bit_count()
        return sum([self.weights[node] for node in bits(mask)])

    def _missing(self, mask: int) -> int:
        """The weight of the edges missing among a set of nodes."""
        total = 0
        for node in bits(mask):
            absent = mask & ~self.near[node] & ~((2 << node) - 1)  # each edge once, at its lower end
            if absent:
                total += self._weight(absent) * (1 if self.weights is None else self.weights[node])
        return total

    def eliminate(self, node: int) -> int:
        """Join the neighbours of a node and take it out; the mask of the nodes whose scores changed."""
        mask, touched = self.near[node], self.near[node]
        if self.fill[node]:
            for first in bits(mask):
                for second in bits(mask & ~self.near[first] & ~((2 << first) - 1)):
                    touched |= self._join(first, second)
        gone = 1 << node
        factor = 1 if self.weights is None else self.weights[node]
        for other in bits(mask):
            outside = self.near[other] & ~mask & ~gone
            if outside:
                self.fill[other] -= factor * self._weight(outside)
            self.near[other] &= ~gone
            self.bits[other] -= self.logs[node]
        return touched & ~gone

    def _join(self, first: int, second: int) -> int:
        """Add an edge; the mask of the nodes that see both its ends."""
        near, fill, weights = self.near, self.fill, self.weights
        common = near[first] & near[second]
        one, two = (1, 1) if weights is None else (weights[first], weights[second])
        for node in bits(common):
            fill[node] -= one * two
        fill[first] += two * self._weight(near[first] & ~near[second])
        fill[second] += one * self._weight(near[second] & ~near[first])
        near[first] |= 1 << second
        near[second] |= 1 << first
        self.bits[first] += self.logs[second]
        self.bits[second] += self.logs[first]
        return common


def bits(mask: int) -> Iterator[int]:
    """The positions of the ones.

    >>> list(bits(0b1010))
    [1, 3]
    """
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


SCORES = ("fill", "weighted fill", "size")
WORD = 2**64 - 1


def perturbation(attempt: int, node: int, time: int) -> float:
    """A factor between 0.8 and 1.25, the same for the same three numbers: a hash of them (Steele et al. 2014).

    >>> round(perturbation(3, 0, 0), 6)
    0.811895
    """
    z = (attempt * 0x9E3779B97F4A7C15 + node * 0xBF58476D1CE4E5B9 + time * 0x94D049BB133111EB) & WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    z ^= z >> 31
    return 0.8 + 0.45 * ((z >> 11) * 2.0**-53)


def greedy_order(
    scopes: Sequence[Iterable[Name]],
    sizes: dict[Name, int],
    eliminated: Iterable[Name],
    score: str = "weighted fill",
    attempt: int = 0,
    precedence: Precedence = FREE,
) -> tuple[list[Name], float]:
    """Names in the order that takes the lowest score each time, and the entries of all the tables it goes through.

    Attempts beyond the number of scores perturb them. What has to wait for others comes after them.

    >>> greedy_order([("a", "b"), ("b", "c"), ("b", "d")], dict.fromkeys("abcd", 2), "abc")
    (['a', 'c', 'b'], 12.0)
    """
    graph = InteractionGraph(scopes, sizes, weighted=score == "weighted fill")
    primary, secondary = (graph.bits, graph.fill) if score == "size" else (graph.fill, graph.bits)
    waiting = {graph.number[name] for name in eliminated if name in graph.number}

    stage = _stages(graph, precedence)

    times = [0] * len(graph.names)

    def entry(node: int) -> tuple[int, float, float, int]:
        first = primary[node]
        if attempt >= len(SCORES):
            first *= perturbation(attempt, node, times[node])
            times[node] += 1
        return stage(node, waiting), first, secondary[node], node

    current = {node: entry(node) for node in waiting}
    heap = list(current.values())
    heapq.heapify(heap)
    order: list[Name] = []
    entries = 0.0
    while waiting:
        top = heapq.heappop(heap)
        node = top[3]
        if node not in waiting or top is not current[node]:
            continue
        waiting.discard(node)
        order.append(graph.names[node])
        entries += 2.0 ** min(graph.bits[node], 1000.0)
        for other in bits(graph.eliminate(node)):
            if other in waiting:
                current[other] = fresh = entry(other)
                heapq.heappush(heap, fresh)
    return order, entries


def _stages(graph: InteractionGraph, precedence: Precedence) -> Callable[[int, set[int]], int]:
    """The stage of a node: 0 at once, 1 beside real variables that stay, 2 after others that come first."""
    if precedence is FREE or not (precedence.reals or precedence.before):
        return lambda node, waiting: 0
    reals = sum(1 << graph.number[name] for name in precedence.reals if name in graph.number)
    first = [0] * len(graph.names)  # what each node waits for in any case
    later = [0] * len(graph.names)  # what waits for it
    for one, two in precedence.before:
        if one in graph.number and two in graph.number:
            first[graph.number[two]] |= 1 << graph.number[one]
            later[graph.number[one]] |= 1 << graph.number[two]

    def stage(node: int, waiting: set[int]) -> int:
        blockers = first[node]
        if not reals >> node & 1:
            blockers |= graph.near[node] & reals & ~later[node]
        if any(other in waiting for other in bits(blockers)):
            return 2
        return 1 if not reals >> node & 1 and graph.near[node] & reals else 0

    return stage


def components(scopes: Sequence[Iterable[Name]], names: Iterable[Name]) -> list[tuple[list[int], set[Name]]]:
    """Groups of factors connected through the names given, each with its names; isolated factors stand alone.

    >>> [sorted(group) for group, _ in components([("a",), ("a", "b"), ("b", "c"), ("c",)], ("a", "c"))]
    [[0, 1], [2, 3]]
    """
    linking = set(names)
    groups: list[tuple[list[int], set[Name]]] = []
    for position, scope in enumerate(scopes):
        own = set(scope) & linking
        joined = [group for group in groups if group[1] & own]
        groups = [group for group in groups if not group[1] & own]
        members = sorted({position, *(member for group in joined for member in group[0])})
        groups.append((members, own.union(*(group[1] for group in joined))))
    return sorted(groups)
