"""Parameters of a family in index notation, and where its values lie."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from numpyro.distributions import constraints

from fubini.algebra.binding import replaced
from fubini.algebra.build import ONE, ZERO, const, index
from fubini.algebra.node import Index, Node
from fubini.base.arrays import Data


class Vector(NamedTuple):
    """An array along one axis: its entry at an index."""

    over: Index
    entry: Node

    def at(self, place: Node) -> Node:
        """The entry at a place."""
        return replaced(self.entry, {index(self.over): place})

    def along(self, over: Index) -> Node:
        """The entry at another index."""
        return self.at(index(over))


class Matrix(NamedTuple):
    """An array along two axes: its entry at two indices."""

    rows: Index
    columns: Index
    entry: Node

    def at(self, row: Node, column: Node) -> Node:
        """The entry at a row and a column."""
        return replaced(self.entry, {index(self.rows): row, index(self.columns): column})


class DerivedParameter(NamedTuple):
    """An array that a function makes of arrays, and that a density is written in."""

    label: str
    of: tuple[str, ...]  # parameters by name; `present` says which entries of a value are known
    function: Callable[..., Data]
    shape: Callable[..., tuple[int, ...]]  # of their shapes
    event_dim: int
    degree: float | None = None  # function(c · x) = c^degree · function(x), for positive numbers c


Parameters = Mapping[str, Node]  # of a family of numbers
Vectors = Mapping[str, Vector]  # of a family of vectors or labels
Arrays = Mapping[str, Data]  # numbers of parameters, of one shape


class Support(NamedTuple):
    """low < x < high, or low ≤ x ≤ high of whole numbers; −∞ and ∞ where there is no end."""

    low: Node
    high: Node
    is_whole: bool = False


REAL = Support(const(-math.inf), const(math.inf))
POSITIVE = Support(ZERO, const(math.inf))
UNIT = Support(ZERO, ONE)
NATURAL = Support(ZERO, const(math.inf), True)
BINARY = Support(ZERO, ONE, True)


# Constraints of the ends of an interval: one is below the other.
ENDS: dict[str, Any] = dict.fromkeys(("low", "high"), constraints.dependent(is_discrete=False, event_dim=0))
WHOLE_ENDS: dict[str, Any] = dict.fromkeys(("low", "high"), constraints.dependent(is_discrete=True, event_dim=0))


def interval(parameters: Parameters) -> Support:
    """low < x < high"""
    return Support(parameters["low"], parameters["high"])
