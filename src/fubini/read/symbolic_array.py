"""Arrays while they are read: functions from index nodes to the node of an entry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fubini.algebra.build import ZERO, const, get, index
from fubini.algebra.node import Index, Leaf, Node
from fubini.base.arrays import is_key
from fubini.errors import NoRule

At = Callable[..., Node]


class KroneckerProduct(NamedTuple):
    """c K ⊗ L"""

    front: Node
    left: SymbolicArray
    right: SymbolicArray


class SymbolicArray:
    """A shape, and the node of the entry at given indices. `constant` holds the numbers of one that is known."""

    def __init__(self, shape: tuple[int, ...], at: At, constant: np.ndarray | None = None) -> None:
        self.shape, self._at, self.constant = tuple(shape), at, constant
        self.kronecker: KroneckerProduct | None = None  # of two square matrices, where it is known to be one
        self._memo: dict[tuple[Node, ...], Node] = {}

    def at(self, *where: Node) -> Node:
        """The entry at these indices; axes of one entry are read at 0."""
        assert len(where) == len(self.shape), f"{len(where)} indices into {self.shape}"
        key = tuple(ZERO if size == 1 else part for part, size in zip(where, self.shape, strict=True))
        entry = self._memo.get(key)
        if entry is None:
            entry = self._memo[key] = self._at(*key)
        return entry

    @property
    def rank(self) -> int:
        """How many axes it has."""
        return len(self.shape)


def of_leaf(leaf: Leaf) -> SymbolicArray:
    """An array that nodes read."""
    return SymbolicArray(leaf.shape, lambda *at: get(leaf, *at))


def whole_leaf(array: SymbolicArray) -> Leaf | None:
    """The leaf whose entries are those of an array, all of them in order; None where there is none."""
    at = tuple(ZERO if size == 1 else index(Index(size)) for size in array.shape)
    entry = array.at(*at)
    is_whole = entry.kind == "get" and entry.args[1:] == at and entry.args[0].shape == array.shape
    return entry.args[0] if is_whole else None


def of_numbers(data: Any, leaf_of: Callable[[np.ndarray], Leaf]) -> SymbolicArray:
    """Known numbers: a constant where all are one, else a leaf. Keys are known, and no numbers."""
    if is_key(data):
        return of_keys(data.shape, data)
    array = np.asarray(data)
    if array.size and np.all(array == array.flat[0]):
        value = const(float(array.flat[0]))
        return SymbolicArray(array.shape, lambda *at: value, array)
    leaf = leaf_of(array)

    def at(*where: Node) -> Node:
        # a place beyond the ends is asked for under a test that it is not taken
        places = [
            min(max(int(part.args[0]), 0), size - 1) if part.kind == "const" else None
            for part, size in zip(where, array.shape, strict=True)
        ]
        if None not in places:
            return const(float(array[tuple(places)]))  # type: ignore[arg-type]
        fixed = tuple(slice(None) if place is None else place for place in places)
        kept = [part for part, size in zip(where, array.shape, strict=True) if size != 1]
        if any(part.kind == "const" for part in kept):  # of a part, more is known than of the whole
            part = of_numbers(array[fixed], leaf_of)
            return part.at(*(index for index in where if index.kind != "const"))
        return get(leaf, *kept)

    return SymbolicArray(array.shape, at, array)


def of_keys(shape: tuple[int, ...], known: Any = None) -> SymbolicArray:
    """Keys of random numbers: what is drawn from known ones is known, and nothing else is read."""

    def at(*where: Node) -> Node:
        raise NoRule(
            "a draw inside a model that depends on its sites or on tracers",
            expected="draws of known distributions from a fixed key, or sample statements",
            advice="make the draw a site of the model",
        )

    return SymbolicArray(shape, at, known)


def facts_of(array: np.ndarray) -> dict[str, Any]:
    """What is known of numbers that are there: their range, and whether they are whole."""
    if not array.size or array.dtype.kind not in "biuf" or not np.all(np.isfinite(array)):
        return {}
    return {
        "low": float(array.min()),
        "high": float(array.max()),
        "is_integer": array.dtype.kind in "biu",
        "is_test": array.dtype.kind == "b",
    }
