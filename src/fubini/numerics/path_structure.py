"""The structure of all simple paths of a graph, by the frontier method (Knuth 2009, exercise 7.1.4–225)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fubini.numerics.circuit_structure import CircuitStructure, Nodes
from fubini.numerics.vtree import Vtree, right_linear

Edge = tuple[Any, Any]
State = tuple[tuple[Any, Any], ...]  # (node, its mate) on the frontier: itself, the other end of its path, or INNER
INNER = ("inner",)


def path_structure(edges: Sequence[Edge], start: Any, end: Any) -> CircuitStructure | None:
    """A circuit over the edges in order whose models are the simple paths between two nodes; None without any."""
    vtree = Vtree.from_nested(right_linear(range(len(edges))))
    last = {node: position for position, edge in enumerate(edges) for node in edge}
    nodes = Nodes(vtree)
    spine = [vtree.root]
    while vtree.variable[spine[-1]] < 0:
        spine.append(int(vtree.right[spine[-1]]))
    layers: list[dict[State, tuple[State | None, State | None]]] = []
    states: set[State] = {()}
    for position, edge in enumerate(edges):
        steps = {state: _steps(dict(state), edge, position, last, (start, end)) for state in states}
        layers.append(steps)
        states = {state for pair in steps.values() for state in pair if state is not None}
    made: dict[State, int | None] = {}
    for position in reversed(range(len(edges))):
        above: dict[State, int | None] = {}
        for state, (without, chosen) in layers[position].items():
            if position == len(edges) - 1:
                values = (without is not None, chosen is not None)
                above[state] = nodes.leaf(position, *values) if any(values) else None
                continue
            below = [None if step is None else made[step] for step in (without, chosen)]
            content = [(nodes.leaf(position, k == 0, k == 1), sub) for k, sub in enumerate(below) if sub is not None]
            above[state] = nodes.total(spine[position], content) if content else None
        made = above
    root = made[()]
    return None if root is None else nodes.finish(root).structure


def _steps(
    mates: dict[Any, Any], edge: Edge, position: int, last: Mapping[Any, int], ends: Edge
) -> tuple[State | None, State | None]:
    """The frontier after an edge is left out, and after it is chosen; None where no path can come of it."""
    for node in edge:
        mates.setdefault(node, node)
    return _after(mates, position, last, ends), _after(_chosen(mates, edge, ends), position, last, ends)


def _chosen(mates: dict[Any, Any], edge: Edge, ends: Edge) -> dict[Any, Any] | None:
    """The two ends of the path that the edge makes are each other's mates; no cycle, and no branch."""
    u, v = edge
    a, b = mates[u], mates[v]
    if u == v or INNER in (a, b) or a == v or any(node in ends and mates[node] != node for node in edge):
        return None
    new = {**mates, **{node: INNER for node in edge if mates[node] != node}}
    return {**new, a: b, b: a}


def _after(mates: dict[Any, Any] | None, position: int, last: Mapping[Any, int], ends: Edge) -> State | None:
    """The frontier without the nodes that have no more edges; None where one of these is an end that may be none."""
    if mates is None:
        return None
    for node in [node for node in mates if last[node] == position]:
        is_untouched, is_inner = mates[node] == node, mates[node] == INNER
        if is_untouched if node in ends else not (is_untouched or is_inner):
            return None
    return tuple(sorted(((n, m) for n, m in mates.items() if last[n] > position), key=repr))
