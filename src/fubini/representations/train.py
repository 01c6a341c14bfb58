"""Train: tensor trains of bounded rank."""

from __future__ import annotations

from fubini.base.names import Name
from fubini.factors.carry import Carried, CarryLayout
from fubini.factors.table import Table
from fubini.factors.train import Train as TrainFactor
from fubini.factors.train_carry import train_layout
from fubini.factors.train_pieces import require_rank
from fubini.representations.stored_tables import FiniteRepresentation
from fubini.terms.exactness import Exactness, projected
from fubini.terms.factor import Factor


class Train(FiniteRepresentation):
    """Tensor trains of at most this rank. What is rounded says so: `projected(train)`; the rest is exact.

    >>> f = fb.Table([[1.0, 2.0], [3.0, 4.0]], ("a", "b"))
    >>> with fb.represent(a=fb.rep.Train(2)):
    ...     fb.eliminate([f, fb.Table([[1.0, 0.0], [0.5, 0.5]], ("b", "c"))], ("b",)).exactness
    exact
    """

    stores = "tensor trains"
    kind = TrainFactor

    def __init__(self, rank: int) -> None:
        self.rank = require_rank(rank)

    @property
    def mark(self) -> Exactness:
        return projected("train")

    def store(self, table: Table) -> Factor:
        """The train of a table, one of two names at least."""
        return TrainFactor.from_table(table, self.rank) if len(table.inputs) > 1 else table

    def layout(self, carried: Carried, names: tuple[Name, ...]) -> CarryLayout | None:
        """Cores of at most this rank."""
        self._require_finite_states(carried)
        return train_layout(self.rank)(carried)

    def __repr__(self) -> str:
        return f"Train({self.rank})"
