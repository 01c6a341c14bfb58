"""The order of the first messages: each waits for those that it depends on; on a cycle the best informed goes first.

On a tree nothing is sent before all that it depends on, so that one pass in this order is exact.
"""

from __future__ import annotations

from fubini.base.names import Name
from fubini.propagate.factor_graph import FactorGraph

Edge = tuple[int, Name]  # the message of a factor to a variable


def order_messages(graph: FactorGraph) -> list[Edge]:
    """All messages of factors to variables, in the order in which they are sent first."""
    waits = {(factor, name): _dependencies(graph, factor, name) for factor, s in enumerate(graph.scopes) for name in s}
    heard: dict[Name, set[int]] = {name: set() for name in graph.variables}
    ready = [edge for edge, count in waits.items() if not count]
    order: list[Edge] = []
    sent: set[Edge] = set()
    while len(order) < len(waits):
        edge = ready.pop() if ready else min(waits.keys() - sent, key=lambda e: _ignorance(graph, e, waits, heard))
        if edge in sent:
            continue
        sent.add(edge)
        order.append(edge)
        source, variable = edge
        heard[variable].add(source)
        for factor in graph.factors_of[variable]:
            if factor != source:
                for name in graph.scopes[factor]:
                    if name != variable:
                        waits[factor, name] -= 1
                        if not waits[factor, name] and (factor, name) not in sent:
                            ready.append((factor, name))
    return order


def _dependencies(graph: FactorGraph, factor: int, name: Name) -> int:
    """How many messages go into one."""
    return sum(len(graph.factors_of[other]) - 1 for other in graph.scopes[factor] if other != name)


def _ignorance(graph: FactorGraph, edge: Edge, waits: dict[Edge, int], heard: dict[Name, set[int]]) -> tuple:
    """Infinite variables that nothing is known about yet, then messages that are missing, then the factor's place."""
    factor, name = edge
    others = [other for other in graph.scopes[factor] if other != name and not graph.domains[other].is_finite]
    unknown = [other for other in others if len(graph.factors_of[other]) > 1 and not heard[other] - {factor}]
    return len(unknown), waits[edge], factor, graph.scopes[factor].index(name)
