"""Arrays whose numbers stay where they are: models know their shape, dtype and range alone.

Arrays over several devices are such ones, and data past memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np

from fubini.base.arrays import Data, is_jax, is_traced

Find = TypeVar("Find", bound="Callable[[Any], DistantArray | None]")
Test = Callable[[Any], Any]  # which entries of an array are right, by jax.numpy or NumPy


class Range(NamedTuple):
    """The least and the greatest entry of an array, and whether all are finite numbers."""

    low: float
    high: float
    is_finite: bool


class DistantArray(ABC):
    """An array that is read by programs where it is, and never fetched.

    >>> import jax
    >>> mesh = jax.make_mesh((1,), ("rows",))
    >>> distant(fb.shard(np.array([1.0, 4.0, 2.0]), mesh, "rows")).range
    Range(low=1.0, high=4.0, is_finite=True)
    """

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many entries it has."""
        return int(np.prod(self.shape))

    @property
    @abstractmethod
    def key(self) -> Hashable:
        """Equal for the same numbers, as long as the array is kept."""

    @property
    @abstractmethod
    def known(self) -> Data:
        """What programs are given for it."""

    @property
    @abstractmethod
    def range(self) -> Range:
        """The range of its entries."""

    @abstractmethod
    def first_outside(self, test: Test) -> tuple[tuple[int, ...], Any] | None:
        """The place of the first entry that fails a test, and the entry; None where all pass it."""

    @abstractmethod
    def entries(self) -> Data:
        """The array at its own length, inside a program."""

    def at(self, place: tuple[int, ...]) -> str:
        """Where an entry is, in words."""
        return f"row {place[0]:,}" if len(place) == 1 else f"{place}"

    @property
    def is_of_jax(self) -> bool:
        """Whether JAX computes with it where it is, so that answers have the precision in force."""
        return True

    @property
    def facts(self) -> dict[str, Any]:
        """What index notation knows of it: the range of its entries, and whether they are whole."""
        if self.dtype.kind not in "biuf" or not self.size or not self.range.is_finite:
            return {}
        low, high, _ = self.range
        return {"low": low, "high": high, "is_integer": self.dtype.kind in "biu", "is_test": self.dtype.kind == "b"}


_KINDS: list[Callable[[Any], DistantArray | None]] = []


def register_distant(find: Find) -> Find:
    """Register a function that gives the record of data of some kind, and None for others."""
    _KINDS.append(find)
    return find


def distant(data: Any) -> DistantArray | None:
    """The record of an array that stays where it is; None of all others."""
    if isinstance(data, DistantArray):
        return data
    if type(data) is np.ndarray or is_traced(data):
        return None
    return next((record for find in _KINDS if (record := find(data)) is not None), None)


def is_distant(*arrays: Any) -> bool:
    """Any of them stays where it is."""
    return any(distant(array) is not None for array in arrays)


def own_entries(data: Any) -> Data:
    """The data of a factor: an array over a mesh without what fills devices up; one past memory raises."""
    return data.__jax_array__() if isinstance(data, DistantArray) else data  # type: ignore[attr-defined]


def is_of_jax(data: Any) -> bool:
    """An array of JAX, or one that JAX computes with where it is: answers have the precision in force."""
    return is_jax(data) or (isinstance(data, DistantArray) and data.is_of_jax)


def is_unread(*arrays: Any) -> bool:
    """Any of them has numbers that reading a model does not see: a tracer, or one that stays where it is."""
    return is_traced(*arrays) or is_distant(*arrays)


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """The leaves of a pytree, among them arrays that stay where they are, and its structure."""
    return jax.tree_util.tree_flatten(tree, is_leaf=lambda item: isinstance(item, DistantArray))


def rebuild(structure: Any, leaves: Any) -> Any:
    """A pytree from its leaves, inside a program: arrays that were given in a longer form at their own length."""
    return jax.tree_util.tree_unflatten(structure, [entries(leaf) for leaf in leaves])


def entries(leaf: Any) -> Any:
    """An array at its own length, inside a program."""
    return leaf.entries() if isinstance(leaf, DistantArray) else leaf
