"""Pairs of diagrams: both over one order of levels, and the pairs of terminals that some assignment leads to."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from fubini.base.arrays import is_traced
from fubini.base.domains import Domain, merge_inputs
from fubini.base.names import Bound, Name
from fubini.factors.diagram import Diagram, take
from fubini.factors.table import Table
from fubini.numerics.decision_nodes import Nodes
from fubini.numerics.decision_refinement import pair
from fubini.terms.factor import Factor


class Pairing(NamedTuple):
    """The nodes of a pair, and at each terminal the weights of both."""

    names: tuple[Name, ...]
    nodes: Nodes
    first: Table
    second: Table
    domains: dict[Name, Domain]
    order: tuple[Name, ...]

    def made(self, terminals: Table) -> Factor:
        """The result of an operation on the weights."""
        return Diagram._of(self.names, self.nodes, terminals, self.domains, self.order).simplified()


def pair_up(f: Diagram, g: Diagram, zeros: tuple[bool, bool] = (False, False)) -> Pairing:
    """Both over the names of either. `zeros` says whose zeros make the result zero: nothing is paired below them."""
    domains = merge_inputs(f.inputs, g.inputs)
    batch = {*f.batch, *g.batch}
    f, g = f.with_batch(batch), g.with_batch(batch)
    order = f.order if f.order == g.order else merge_orders(f.order, order_like(f.order, g.order))
    f, g = f.ordered(order), g.ordered(order)
    names = tuple(name for name in order if name in f.names or name in g.names)
    levels = [names.index(name) for name in f.names], [names.index(name) for name in g.names]
    absorbing = (_zeros(f, zeros[0]), _zeros(g, zeros[1]))
    sizes = [domains[name].extent for name in names]
    nodes, tuples = pair(f.nodes, g.nodes, levels, sizes, absorbing if any(map(np.any, absorbing)) else None)
    return Pairing(names, nodes, take(f.terminals, tuples[:, 0]), take(g.terminals, tuples[:, 1]), domains, order)


def _zeros(f: Diagram, counts: bool) -> np.ndarray:
    """The terminals that are known to be zero in every cell of the batch."""
    weights = f.terminals.pair.weights
    if not counts or is_traced(weights):
        return np.zeros(f.terminal_count, bool)
    return np.all(np.asarray(weights).reshape(-1, f.terminal_count) == 0, axis=0)


def order_like(order: Sequence[Name], names: Sequence[Name]) -> tuple[Name, ...]:
    """The names as they are, if those shared stand as in `order`; else the shared ones so, and the others after them.

    >>> order_like(("a", "b", "c"), ("c", "d", "a")), order_like(("a", "b", "c"), ("a", "d", "c"))
    (('a', 'c', 'd'), ('a', 'd', 'c'))
    """
    both = set(order).intersection(names)
    shared = [name for name in order if name in both]
    if [name for name in names if name in both] == shared:
        return tuple(names)
    return (*shared, *(name for name in names if name not in both))


def merge_orders(first: Sequence[Name], second: Sequence[Name]) -> tuple[Name, ...]:
    """All names in an order that has both, where they agree on the names they share.

    >>> merge_orders(("a", "c", "e"), ("b", "c", "d"))
    ('a', 'b', 'c', 'e', 'd')
    """
    shared, left = set(first).intersection(second), iter(second)
    order: list[Name] = []
    for name in first:
        order.extend(takewhile(lambda other: other not in shared, left) if name in shared else ())
        order.append(name)
    return (*order, *left)


def to_diagram(table: Table, beside: Diagram) -> Diagram:
    """A table as a diagram to be paired with another: the names of that one's batch, and bound ones, are a batch."""
    batch = [name for name in table.names if name in beside.batch or isinstance(name, Bound)]
    return Diagram.from_table(table, beside.order, batch)
