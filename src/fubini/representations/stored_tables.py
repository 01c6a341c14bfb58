"""What representations of factors over bounded integers share: tables are converted before a plan is made."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from fubini.base.names import Name
from fubini.errors import DomainError, Intractable, listed
from fubini.factors.carry import Carried
from fubini.factors.promotion import promoted, to_kind
from fubini.factors.represent import Representation
from fubini.factors.table import Table
from fubini.terms.factor import Factor, Unit, is_tabular


class FiniteRepresentation(Representation):
    """A way to store tables. Answers about one variable are tables again."""

    kind: ClassVar[type[Factor]]

    @abstractmethod
    def store(self, table: Table) -> Factor:
        """The same function as a table."""

    def convert(self, factor: Factor, names: tuple[Name, ...]) -> Factor:
        """Tables, and what can be joined into one, as they are stored."""
        _require_finite(self, [name for name in names if not factor.inputs[name].is_finite])
        if not is_tabular(factor) or isinstance(factor, Unit):
            return factor
        table = promoted(factor)
        return self.store(table) if isinstance(table, Table) else factor

    def restore(self, factor: Factor) -> Factor:
        """A table."""
        return to_kind(factor, Table) if isinstance(factor, self.kind) else factor

    def _require_finite_states(self, carried: Carried) -> None:
        """Raise where a sequence hands on real variables too."""
        if carried.reals:
            raise Intractable(
                f"{self} in a sequence with {listed(name for name, _ in carried.reals)}",
                expected="states that are all bounded integers",
                advice="use fb.rep.Dense() for these: a Gaussian for each value",
            )


def _require_finite(representation: Representation, real: list[Name]) -> None:
    if real:
        raise DomainError(
            f"{representation} of {real[0]!r}",
            expected="a variable of bounded integers",
            advice="use fb.rep.Dense(), or fb.rep.Grid((low, high), n) for its values in cells",
        )
