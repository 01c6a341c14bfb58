"""Measures: superpositions of branches. They are immutable, and equal if only names of what is drawn differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fubini.algebra.binding import replaced
from fubini.algebra.build import index
from fubini.algebra.node import Index, Leaf, Node
from fubini.families.parameters import Vector
from fubini.measures.branch import Branch, DrawStatement, Items, Returned, facts_of, renamed
from fubini.measures.known_values import Check
from fubini.measures.python_text import program
from fubini.measures.statement_text import statements
from fubini.show.printed_form import Block, Shown, Words, write_out


class Measure(Shown):
    """A superposition of branches; of none it is zero.

    >>> from fubini.measures import Normal
    >>> Normal(0, 1)
    x ~ Normal(0, 1)
    returns x
    """

    __slots__ = ("branches", "checks")

    def __init__(self, branches: tuple[Branch, ...], checks: Sequence[Check] = ()) -> None:
        self.branches, self.checks = branches, tuple(dict.fromkeys(checks))  # of parameters that are in no branch

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Measure) and self.key == other.key

    def __hash__(self) -> int:
        distributions = [
            [(draw.distribution.family, draw.distribution.label, draw.leaf.shape) for draw in branch.draws]
            for branch in self.branches
        ]
        return hash(tuple(map(tuple, distributions)))

    def _form(self) -> Iterable[Block]:
        return map(Words, statements(self.branches))

    def __str__(self) -> str:
        return write_out(self)

    def source(self) -> str:
        """The program, in Python, that makes the measure again.

        >>> from fubini.measures import Normal
        >>> print(Normal(0, 1).source())
        @measure
        def program():
            x = yield Normal(0, 1)
            return x
        """
        return program(self.branches)

    @property
    def key(self) -> tuple:
        """The same for measures that differ in names only.

        >>> from fubini.measures import Normal
        >>> Normal(0, 1).key == Normal(0, 1).key
        True
        """
        return tuple(map(branch_key, self.branches))


_canonical: dict[tuple, Leaf] = {}
_indices: dict[tuple[int, int], Index] = {}


def branch_key(branch: Branch) -> tuple:
    """The same for branches that differ in names only."""
    names: dict[Leaf, Leaf] = {}
    for place, draw in enumerate(branch.draws):
        facts = (place, draw.leaf.shape, *facts_of(draw.leaf).values())
        names[draw.leaf] = _canonical.setdefault(facts, Leaf(f"x{place}", draw.leaf.shape, **facts_of(draw.leaf)))
    plain = branch.mapped(lambda of: renamed(of, names), names)
    draws = tuple((d.leaf, d.distribution.family, d.distribution.label, _distribution_key(d)) for d in plain.draws)
    tests = frozenset(_bound(test.over, test.node) for test in plain.tests)  # all of them hold, in any order
    return draws, tests, plain.weight, _value_key(plain.value)


def _distribution_key(draw: DrawStatement) -> tuple:
    parts = []
    for part in draw.distribution.parameters:
        over, entry = ((*draw.at, part.over), part.entry) if isinstance(part, Vector) else (draw.at, part)
        parts.append(_bound(over, entry))
    return tuple(parts)


def _bound(over: tuple[Index, ...], entry: Node) -> tuple:
    """Sizes, and the entry at indices that are the same for all."""
    places = [_indices.setdefault((place, i.size), Index(i.size)) for place, i in enumerate(over)]
    names = {index(i): index(place) for i, place in zip(over, places, strict=True)}
    return tuple(i.size for i in over), replaced(entry, names)


def _value_key(value: Returned) -> Any:
    if isinstance(value, Items):
        return _bound(value.over, value.entry)
    return tuple(map(_value_key, value)) if isinstance(value, tuple) else value
