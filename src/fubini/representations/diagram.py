"""Diagram: multi-valued decision diagrams."""

from __future__ import annotations

from fubini.factors.diagram import Diagram as DiagramFactor
from fubini.factors.table import Table
from fubini.representations.stored_tables import FiniteRepresentation
from fubini.terms.factor import Factor


class Diagram(FiniteRepresentation):
    """Decision diagrams: cells of equal weight are stored once. In a sequence what a step hands on is a table.

    >>> f = fb.Table([[0.0, 0.5], [0.0, 0.5]], ("a", "b"))
    >>> with fb.represent(a=fb.rep.Diagram()):
    ...     fb.eliminate([f, fb.Table([1.0, 3.0], ("a",))], ("a",))
    Diagram(b: Bint[2], nodes=1, terminals=2)
    """

    stores = "decision diagrams"
    kind = DiagramFactor

    def store(self, table: Table) -> Factor:
        """The reduced diagram."""
        return DiagramFactor.from_table(table) if table.inputs else table

    def __repr__(self) -> str:
        return "Diagram()"
