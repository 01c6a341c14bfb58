"""Contraction of diagrams: ⊕ of the product of two, by tables where these are no larger than the diagrams.

A diagram that shares little is slower than its table: pairing looks at each pair of nodes, and the product is made
before it is summed. Which of both is done depends on nodes alone, never on numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from fubini.base.domains import merge_inputs
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.base.semirings import Semiring
from fubini.factors.diagram import Diagram, to_table
from fubini.factors.diagram_pairs import merge_orders, order_like, to_diagram
from fubini.factors.table import Table, contract_tables
from fubini.terms.factor import Factor
from fubini.terms.heads import MULTIPLY, REDUCE, exact_contract

STORED = 4  # cells of tables, relative to the entries of the diagrams
WORK = 64  # multiplications of numbers in the time that one entry of a diagram takes


@exact_contract.rule(when=lambda semiring, f, g, keep: semiring.homogeneous)
def contract_diagrams(semiring: Semiring, f: Diagram, g: Diagram, keep: frozenset) -> Factor:
    """⊕_{x, y, z} f(x, y) g(y, z)  =  ⊕_y (⊕_x f)(⊕_z g)"""
    left, right = _without_own(semiring, f, g, keep), _without_own(semiring, g, f, keep)
    if isinstance(left, Diagram) and isinstance(right, Diagram) and _is_dense(left, right, keep):
        return _contract_as_tables(semiring, left, right, keep)
    both = interpret(MULTIPLY, left, right)
    gone = tuple(name for name in both.inputs if name not in keep)
    return interpret(REDUCE, semiring, both, gone) if gone else both


@exact_contract.rule(when=lambda semiring, f, g, keep: semiring.homogeneous)
def contract_diagram_table(semiring: Semiring, f: Diagram, g: Table, keep: frozenset) -> Factor:
    """⊕ f·g, g as a diagram"""
    return contract_diagrams(semiring, f, to_diagram(g, f), keep)


@exact_contract.rule(when=lambda semiring, f, g, keep: semiring.homogeneous)
def contract_table_diagram(semiring: Semiring, f: Table, g: Diagram, keep: frozenset) -> Factor:
    """⊕ f·g, f as a diagram"""
    return contract_diagrams(semiring, to_diagram(f, g), g, keep)


def _without_own(semiring: Semiring, f: Diagram, other: Factor, keep: frozenset) -> Factor:
    """⊕ over the names that the other one lacks, and that are not kept."""
    own = tuple(name for name in f.inputs if name not in keep and name not in other.inputs)
    return interpret(REDUCE, semiring, f, own) if own else f


def _is_dense(f: Diagram, g: Diagram, keep: frozenset) -> bool:
    """Whether the tables of both and of the result have few more cells than the diagrams have entries."""
    inputs = merge_inputs(f.inputs, g.inputs)

    def cells(names: Iterable[Name]) -> int:
        return math.prod(inputs[name].extent for name in names)

    entries = f.entry_count + g.entry_count
    stored = cells(f.inputs) + cells(g.inputs) + cells(name for name in inputs if name in keep)
    return stored <= STORED * entries and cells(inputs) <= WORK * entries


def _contract_as_tables(semiring: Semiring, f: Diagram, g: Diagram, keep: frozenset) -> Factor:
    table = contract_tables(semiring, to_table(f), to_table(g), keep)
    order = merge_orders(f.order, order_like(f.order, g.order))
    batch = [name for name in table.names if name in (*f.batch, *g.batch)]
    return Diagram.from_table(table, order, batch).simplified()
