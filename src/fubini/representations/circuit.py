"""Circuit: tables of Booleans as circuits over one vtree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fubini.base.names import Bound, Name
from fubini.errors import DomainError, NameClash, UnknownName, closest, listed
from fubini.factors.circuit import Circuit as CircuitFactor
from fubini.factors.circuit_algebra import everything, table_over
from fubini.factors.promotion import promoted, to_kind
from fubini.factors.represent import Representation, represented
from fubini.factors.table import Table
from fubini.numerics.vtree import Nested, Vtree, right_linear
from fubini.terms.factor import Factor, Unit, is_tabular


class Circuit(Representation):
    """Tables of two or more Booleans as circuits over one vtree: nested pairs of names, or the names in order.

    A table of one Boolean stays as it is: it goes into the weights of leaves. Variables that are not so represented are
    a batch of the weights.

    >>> fb.rep.Circuit((("a", "b"), "c"))
    Circuit((('a', 'b'), 'c'))
    """

    stores = "circuits over one vtree"

    def __init__(self, vtree: Nested = None) -> None:
        self.vtree = vtree
        names = list(_leaves(vtree)) if vtree is not None else []
        if len(set(names)) != len(names):
            raise NameClash(f"{self}", expected="each name at one leaf of the vtree")

    def convert(self, factor: Factor, names: tuple[Name, ...]) -> Factor:
        """A table over some of the names as a circuit; other factors as they are.

        >>> f = fb.rep.Circuit().convert(fb.Table([[0.5, 0.0], [0.25, 0.25]], ("a", "b")), ("a", "b"))
        >>> f.count_models(), float(f(a=1, b=0))
        (3, 0.25)
        """
        wrong = [name for name in names if factor.inputs[name].size != 2]
        if wrong:
            raise DomainError(
                f"{self} of {wrong[0]!r}: {factor.inputs[wrong[0]]!r}",
                expected="a Boolean variable, of domain Bint[2]",
                advice="use fb.rep.Dense(), or a Boolean for each of its values",
            )
        if len(names) < 2 or not is_tabular(factor) or isinstance(factor, Unit | CircuitFactor):
            return factor
        table = promoted(factor)
        return table_over(self._everything(names), table) if isinstance(table, Table) else factor

    def restore(self, factor: Factor) -> Factor:
        """A table.

        >>> fb.rep.Circuit().restore(fb.circuits.exactly_one(("a", "b"))).weights
        array([[0., 1.],
               [1., 0.]])
        """
        return to_kind(factor, Table) if isinstance(factor, CircuitFactor) else factor

    def _everything(self, names: tuple[Name, ...]) -> CircuitFactor:
        """The circuit that is 1 everywhere, over the vtree of all variables that are so represented."""
        own = represented()
        order = names if own is None else [name for name, each in own.by_name.items() if each == self]
        order = [*order, *(name for name in names if name not in order)]
        vtree = right_linear(order) if self.vtree is None else self.vtree
        leaves = list(_leaves(vtree))
        for name in (name for name in names if name not in leaves):
            raise UnknownName(
                f"{self} of {name!r}", expected=f"a name at a leaf: {listed(leaves)}", nearest=closest(name, leaves)
            )
        return CircuitFactor(everything(Vtree.from_nested(_numbered(vtree, leaves))), leaves)

    def __repr__(self) -> str:
        return f"Circuit({'' if self.vtree is None else repr(self.vtree)})"


def _leaves(vtree: Nested) -> Iterator[Name]:
    """The names at the leaves, from left to right; a pair is nested on its right, so that it need not be deep."""
    todo: list[Any] = [vtree]
    while todo:
        part = todo.pop()
        if isinstance(part, tuple):
            if len(part) != 2:
                raise DomainError(f"a vtree with {part!r}", expected="nested pairs of names: (('a', 'b'), 'c')")
            todo += [part[1], part[0]]
        elif isinstance(part, (str, Bound)):
            yield part
        else:
            raise DomainError(f"a vtree with {part!r}", expected="nested pairs of names: (('a', 'b'), 'c')")


def _numbered(vtree: Nested, leaves: Sequence[Name]) -> Nested:
    """The vtree over positions in place of names."""
    place = {name: position for position, name in enumerate(leaves)}
    made: list[Any] = []
    todo: list[tuple[Any, bool]] = [(vtree, False)]
    while todo:
        part, has_children = todo.pop()
        if not isinstance(part, tuple):
            made.append(place[part])
        elif has_children:
            right, left = made.pop(), made.pop()
            made.append((left, right))
        else:
            todo += [(part, True), (part[1], False), (part[0], False)]
    return made[0]
