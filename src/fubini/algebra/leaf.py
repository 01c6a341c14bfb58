"""What nodes are made of that is no node: free indices, and leaves, which stand for arrays."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

serials = itertools.count()  # of indices, leaves and nodes, in the order in which they are made


class Index:
    """A free index variable: 0 … size − 1."""

    __slots__ = ("label", "serial", "size")

    def __init__(self, size: int, label: str = "i") -> None:
        self.size, self.label, self.serial = size, label, next(serials)

    def __repr__(self) -> str:
        return f"{self.label}{self.serial}"


class Response(NamedTuple):
    """A matrix of what a linear recursion makes of its inputs, without the matrix: outputs [t, …] × inputs [t, …].

    (s_t, y_t)  =  S_t (s_{t−1}, u_t),  s_{−1} = 0; where it runs backwards, t + 1 comes before t.
    """

    transition: Any  # the node of S, closed over (t, row, column)
    states: int
    first_input: int  # of the columns of u
    output_axes: int  # of the matrix
    is_last: bool  # of the outputs, the one after the last step alone
    is_reversed: bool

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The numbers of steps, outputs and inputs."""
        length, rows, columns = self.transition.args[0]
        return length, rows - self.states, columns - self.states


class Leaf:
    """An array that nodes read: the values of a site, data, traced numbers, or what an opaque function makes of others.

    `low` and `high` bound its entries where that is known; `of` are the leaves that an opaque one is computed from. All
    is fixed when the first node reads it; before, only bounds may change, which the distribution of a site narrows.
    """

    __slots__ = (
        "high",
        "is_integer",
        "is_positive_definite",
        "is_read",
        "is_simplex",
        "is_test",
        "low",
        "name",
        "of",
        "response",
        "role",
        "root_of",
        "serial",
        "shape",
    )
    name: str
    shape: tuple[int, ...]
    low: float | None
    high: float | None
    is_integer: bool
    is_simplex: bool
    is_positive_definite: bool  # matrices along the last two axes
    is_test: bool  # known truth values
    is_read: bool  # by a node
    role: str
    of: frozenset[Leaf]
    root_of: tuple[Leaf, int] | None  # X and p where the matrices A along the last two axes have AᵀA = X^p, p = ±1
    response: Response | None
    serial: int

    def __init__(
        self,
        name: str,
        shape: tuple[int, ...],
        *,
        low: float | None = None,
        high: float | None = None,
        is_integer: bool = False,
        is_simplex: bool = False,
        is_positive_definite: bool = False,
        is_test: bool = False,
        role: str = "data",
        of: Iterable[Leaf] = (),
        root_of: tuple[Leaf, int] | None = None,
        response: Response | None = None,
    ) -> None:
        facts = {"is_integer": is_integer, "is_simplex": is_simplex, "is_test": is_test, "role": role}
        facts |= {"name": name, "shape": shape, "low": low, "high": high, "of": frozenset(of), "is_read": False}
        facts |= {"is_positive_definite": is_positive_definite, "root_of": root_of, "response": response}
        for key, value in facts.items():
            object.__setattr__(self, key, value)
        object.__setattr__(self, "serial", next(serials))

    def __setattr__(self, key: str, value: Any) -> None:
        if self.is_read or key not in ("low", "high", "is_read"):
            raise AttributeError(f"{key} of the leaf {self.name} is fixed: make another leaf")
        object.__setattr__(self, key, value)

    def __setstate__(self, state: tuple[None, dict[str, Any]]) -> None:
        """Restore a copy, or a leaf that was pickled."""
        for key, value in state[1].items():
            object.__setattr__(self, key, value)

    @property
    def first(self) -> int:
        """The least value of a label: code counts labels from 0, and adds this where the model reads them."""
        return int(self.low or 0)

    @property
    def count(self) -> int:
        """How many values a label has."""
        return int(self.high or 0) - self.first + 1

    def __repr__(self) -> str:
        return self.name
