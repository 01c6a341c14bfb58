"""The order of the first messages: each waits for those that it depends on; on a cycle the best informed goes first.

On a tree nothing is sent before all that it depends on, so that one pass in this order is exact.
"""

from __future__ import annotations

from collections.abc import Iterator

from fubini.base.names import Name
from fubini.propagate.factor_graph import FactorGraph

Edge = tuple[int, Name]  # the message of a factor to a variable


def order_messages(graph: FactorGraph) -> list[Edge]:
    """All messages of factors to variables, in the order in which they are sent first."""
    waits = {(factor, name): _dependencies(graph, factor, name) for factor, s in enumerate(graph.scopes) for name in s}
    informed: dict[Name, set[int]] = {name: set() for name in graph.variables}  # by which factors
    ready = [edge for edge, count in waits.items() if not count]
    sent: dict[Edge, None] = {}
    while len(sent) < len(waits):
        edge = (
            ready.pop()
            if ready
            else min(waits.keys() - sent.keys(), key=lambda e: _ignorance(graph, e, waits, informed))
        )
        if edge in sent:
            continue
        sent[edge] = None
        if not _unknown(graph, edge, informed):
            informed[edge[1]].add(edge[0])
        for other in _dependents(graph, edge):
            waits[other] -= 1
            if not waits[other] and other not in sent:
                ready.append(other)
    return list(sent)


def _dependencies(graph: FactorGraph, factor: int, name: Name) -> int:
    """How many messages go into one."""
    return sum(len(graph.factors_of[other]) - 1 for other in graph.scopes[factor] if other != name)


def _dependents(graph: FactorGraph, edge: Edge) -> Iterator[Edge]:
    """The messages that one goes into."""
    source, variable = edge
    for factor in graph.factors_of[variable]:
        if factor != source:
            yield from ((factor, name) for name in graph.scopes[factor] if name != variable)


def _unknown(graph: FactorGraph, edge: Edge, informed: dict[Name, set[int]]) -> int:
    """How many variables a factor sums out for a message that are infinite and that no other factor informs it of."""
    factor, name = edge
    others = [other for other in graph.scopes[factor] if other != name and not graph.domains[other].is_finite]
    return sum(1 for other in others if not informed[other] - {factor})


def _ignorance(graph: FactorGraph, edge: Edge, waits: dict[Edge, int], informed: dict[Name, set[int]]) -> tuple:
    """Unknown variables: a factor can sum out one, as the density of a child does; then messages that are missing."""
    unknown = _unknown(graph, edge, informed)
    return max(0, unknown - 1), unknown, waits[edge], edge[0], graph.scopes[edge[0]].index(edge[1])
