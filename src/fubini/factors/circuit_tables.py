"""Circuits and the tables of each of their variables: all multiplied in at once, all marginals read off at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from fubini.base.arrays import namespace, require
from fubini.base.domains import Bint
from fubini.base.interpretations import interpret
from fubini.base.names import Bound, Name
from fubini.base.semirings import Semiring, sum_product
from fubini.factors.circuit import MAXIMUM, Circuit
from fubini.factors.table import Table, no_mass, pointwise, with_mass
from fubini.numerics.circuit_values import shares_of_values
from fubini.numerics.circuit_weights import Weights
from fubini.numerics.scaled import Scaled, divided, gauged, multiplied
from fubini.terms.exactness import combined
from fubini.terms.factor import Factor
from fubini.terms.heads import MULTIPLY, exact_marginals, exact_multiply_many

VARIABLE, VALUE = Bound("variable"), Bound("value")


@exact_multiply_many.rule
def multiply_circuit_many(f: Circuit, others: tuple) -> Factor:
    """f(x) Π_i t_i(x_i)  =  f with the weights of the leaves of each x_i times t_i"""
    own = [other for other in others if _is_of_one_variable(f, other)]
    rest = [other for other in others if not _is_of_one_variable(f, other)]
    return reduce(lambda g, other: interpret(MULTIPLY, g, other), rest, _multiply_leaves(f, own) if own else f)


def _is_of_one_variable(f: Circuit, other: Factor) -> bool:
    return isinstance(other, Table) and len(other.inputs) == 1 and set(other.inputs) <= set(f.variables)


def _multiply_leaves(f: Circuit, tables: Sequence[Table]) -> Circuit:
    """The leaves times the table of their variable; each variable's first, then the second ones, until none is left."""
    first: dict[Name, Table] = {}
    for table in tables:
        first.setdefault(next(iter(table.inputs)), table)
    later = [table for table in tables if first[next(iter(table.inputs))] is not table]
    factors = _stacked(list(first.values()))
    row = np.full(len(f.slots), len(first), np.int32)  # the last one is 1
    row[[f.position(name) for name in first]] = np.arange(len(first))
    at = row[f.diagram.variable]
    old, (by, shift) = f.weights_of_nodes, (part[at] for part in factors[:2])
    weights = Weights(old.leaves * by, old.shift + shift, old.log_theta)
    g = Circuit._of(f.diagram, weights, f, mark=f.mark | combined(first.values()))
    return _multiply_leaves(g, later) if later else g


def _stacked(tables: Sequence[Table]) -> Scaled:
    """The weights of tables of one variable, (tables + 1, 2), ones last."""
    pairs = [table.pair for table in tables]
    xp = namespace(*(part for pair in pairs for part in pair[:2]))
    weights = xp.stack([*(pair.weights for pair in pairs), xp.ones(2)])
    shift = xp.stack([*(xp.broadcast_to(xp.asarray(pair.shift, weights.dtype), 2) for pair in pairs), xp.zeros(2)])
    return gauged(Scaled(weights, shift))


@exact_marginals.rule(
    when=lambda semiring, f, names, kept: semiring is sum_product and f.nodes != MAXIMUM and _are_summed(f, kept)
)
def marginals_of_circuit(semiring: Semiring, f: Circuit, names: tuple, kept: frozenset) -> list:
    """P(x = v)  =  Σ over the leaves of x of share · w_v / (w₀ + w₁): all x from one pass up and one down"""
    gone = tuple(name for name in f.batch if name not in kept)
    shares, mass = _shares(f, gone)
    if gone:
        both = pointwise(shares, mass, multiplied)
        shares = _over_its_sum(f, both.reduced(semiring, gone), VALUE)
    return [
        _row(shares, f.position(name), name)
        if name in f.variables
        else _over_its_sum(f, mass.reduced(semiring, [other for other in gone if other != name]), name)
        for name in names
    ]


def _are_summed(f: Circuit, kept: frozenset) -> bool:
    return bool(f.variables) and not kept.intersection(f.variables)


def _shares(f: Circuit, gone: Sequence[Name]) -> tuple[Table, Table]:
    """P(x = v) of every variable, 0 where there is no mass, and the mass, for each cell of the batch.

    A cell of names that are summed may be without mass; all of them together may not.
    """
    share, total = shares_of_values(f.diagram, f.weights_of_nodes)
    extents = tuple(domain.extent for domain in f.batch_domains.values())
    xp = namespace(share, *total[:2])
    if gone:  # the sums over these are checked
        share = xp.where(total.weights > 0, share, 0.0)
    else:
        (share,) = require(total.weights > 0, lambda: no_mass(f), share)
    spread = Scaled(*(xp.broadcast_to(part, extents) for part in total[:2]))
    inputs = {VARIABLE: Bint[len(f.slots)], VALUE: Bint[2], **f.batch_domains}
    full = xp.broadcast_to(share, (len(f.slots), 2, *extents))
    return Table._of(Scaled(full, 0.0), inputs, f.mark), Table._of(spread, f.batch_domains, f.mark)


def _over_its_sum(f: Circuit, table: Table, name: Name) -> Table:
    return pointwise(table, with_mass(f, table.reduced(sum_product, (name,))), divided)


def _row(table: Table, position: int, name: Name) -> Table:
    """The row of one variable, its value called by a name."""
    rest = {other: domain for other, domain in table.inputs.items() if other not in (VARIABLE, VALUE)}
    return Table._of(Scaled(table.weights[position], 0.0), {name: Bint[2], **rest}, table.exactness)
