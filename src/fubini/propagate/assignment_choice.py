"""The best assignment from beliefs of max-product."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fubini.base.arrays import Data, namespace
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.numerics.named_axes import align
from fubini.propagate.factor_graph import FactorGraph
from fubini.terms.factor import Factor, substitute
from fubini.terms.heads import CHOOSE
from fubini.terms.value import Array, Value


def choose_in_turn(graph: FactorGraph, clusters: Iterable[Sequence[Factor]]) -> dict[Name, Array]:
    """arg max of each cluster given the values chosen before; clusters come in an order in which they hang together."""
    chosen: dict[Name, Value] = {}
    for parts in clusters:
        given = [substitute(part, chosen) for part in parts]
        names = dict.fromkeys(name for part in given for name in part.inputs if name not in graph.batch)
        if names:
            joint = graph.sum_to(given, names)
            chosen.update(interpret(CHOOSE, joint, tuple(names)))
    return chosen  # type: ignore[return-value]


def hanging_together(scopes: Sequence[tuple[Name, ...]]) -> list[int]:
    """The factors in an order in which each shares a variable with one before, where there is any."""
    waiting = dict.fromkeys(range(len(scopes)))
    having: dict[Name, list[int]] = {}
    for position, scope in enumerate(scopes):
        for name in scope:
            having.setdefault(name, []).append(position)
    order: list[int] = []
    near: list[int] = []
    while waiting:
        position = near.pop() if near else next(iter(waiting))
        if position in waiting:
            del waiting[position]
            order.append(position)
            near.extend(other for name in scopes[position] for other in having[name] if other in waiting)
    return order


def plain(assignment: Mapping[Name, Array], names: Sequence[Name], batch: Sequence[Name]) -> dict[Name, Data]:
    """The numbers of an assignment, the batch first."""
    found = {}
    for name in names:
        value = assignment[name]
        order = [other for other in batch if other in value.inputs]
        data = align(value.array, value.names, order, len(value.output.shape))
        found[name] = namespace(data).asarray(data)[()]
    return found
