"""Parameters of a family in index notation, and where its values lie."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
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
    of: tuple[str, ...]  # parameters by name; `present` says which entries of a value are known, `value` is that value
    function: Callable[..., Data]
    shape: Callable[..., tuple[int, ...]]  # of their shapes
    event_dim: int
    degree: float | None = None  # function(c · x) = c^degree · function(x), for positive numbers c
    root_power: int | None = None  # p where it is the root A of a positive definite matrix X with AᵀA = X^p, p = ±1


class ScaledNumbers(NamedTuple):
    """A number that is not negative times known numbers."""

    front: Node
    numbers: np.ndarray


class KroneckerFactors(NamedTuple):
    """What is made of K and of L, of a matrix c K ⊗ L, and c."""

    front: Node
    left: Matrix
    right: Matrix


class MatrixParameters(Protocol):
    """What is known of the structure of the matrices that a density has as parameters, by their names."""

    def numbers(self, name: str) -> ScaledNumbers | None:
        """Known numbers, with what else there is as a factor in front; None where its entries are unknown."""
        ...

    def kronecker(self, name: str, derived: DerivedParameter) -> KroneckerFactors | None:
        """What a function makes of K and L, of a matrix c K ⊗ L; None where it is no such product."""
        ...

    def constant(self, numbers: np.ndarray) -> Callable[..., Node]:
        """Known numbers as entries at indices."""
        ...


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
