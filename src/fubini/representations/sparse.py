"""Sparse: the cells that are not zero, within a capacity."""

from __future__ import annotations

from fubini.base.names import Name
from fubini.factors.carry import Carried, CarryLayout
from fubini.factors.sparse import CAPACITY
from fubini.factors.sparse import Sparse as SparseFactor
from fubini.factors.sparse_carry import sparse_layout
from fubini.factors.sparse_checks import as_capacity
from fubini.factors.table import Table
from fubini.representations.stored_tables import FiniteRepresentation
from fubini.terms.factor import Factor


class Sparse(FiniteRepresentation):
    """The cells that are not zero, at most `capacity` of them in every factor; more are an error, NaN under tracing.

    Arrays of JAX have that many slots where a result may need them.

    >>> f = fb.Table([[0.0, 0.5], [0.25, 0.0]], ("a", "b"))
    >>> with fb.represent(a=fb.rep.Sparse(4)):
    ...     fb.eliminate([f, fb.Table([1.0, 2.0], ("b",))], ("b",))
    Sparse(a: Bint[2]), 2 of 2 cells
      a=0: 1
      a=1: 0.25
    """

    stores = "the cells that are not zero"
    kind = SparseFactor

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.capacity = as_capacity(capacity, CAPACITY)

    def store(self, table: Table) -> Factor:
        """The cells of a table that are not zero."""
        return SparseFactor.from_table(table, self.capacity) if table.inputs else table

    def layout(self, carried: Carried, names: tuple[Name, ...]) -> CarryLayout | None:
        """As many slots as the capacity."""
        self._require_finite_states(carried)
        return sparse_layout(self.capacity)(carried)

    def __repr__(self) -> str:
        return f"Sparse({self.capacity})"
