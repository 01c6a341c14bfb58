"""Nodes of index notation: scalars in index variables and entries of arrays, shared where they are equal.

    c | i | x[a, b] | Σ coef · term | Π base^exponent | f(…) | [a = b] | [a < b] | where(c, a, b) | Σ_J | log Σ_J exp

Nodes hold no numbers but constants: a leaf stands for an array. They are interned, so equal nodes are one object; bound
indices are canonical (the height of the body, and a position), so bodies that differ in the names of these are equal.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterable
from typing import Any

from fubini.algebra.node_notation import written

_serial = itertools.count()


class Index:
    """A free index variable: 0 … size − 1."""

    __slots__ = ("label", "serial", "size")

    def __init__(self, size: int, label: str = "i") -> None:
        self.size, self.label, self.serial = size, label, next(_serial)

    def __repr__(self) -> str:
        return f"{self.label}{self.serial}"


class Leaf:
    """An array that nodes read: the values of a site, data, traced numbers, or what an opaque function makes of others.

    `low` and `high` bound its entries where that is known; `of` are the leaves that an opaque one is computed from.
    """

    __slots__ = ("high", "is_integer", "is_simplex", "is_test", "low", "name", "of", "role", "serial", "shape")

    def __init__(
        self,
        name: str,
        shape: tuple[int, ...],
        *,
        low: float | None = None,
        high: float | None = None,
        is_integer: bool = False,
        is_simplex: bool = False,
        is_test: bool = False,
        role: str = "data",
        of: Iterable[Leaf] = (),
    ) -> None:
        self.name, self.shape, self.role = name, shape, role
        self.low, self.high, self.is_integer, self.is_simplex = low, high, is_integer, is_simplex
        self.is_test = is_test  # known truth values
        self.of: frozenset[Leaf] = frozenset(of)
        self.serial = next(_serial)

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


class Node:
    """One scalar expression. Made by the functions of `fubini.algebra.build`, which simplify; compared by identity."""

    __slots__ = ("__weakref__", "args", "free", "height", "kind", "leaves", "serial")
    kind: str
    args: tuple
    free: frozenset[Index]
    leaves: frozenset[Leaf]  # all that its value depends on, those behind opaque ones included
    height: int  # one more than the bound indices nest
    serial: int

    def __repr__(self) -> str:
        return written(self)


_interned: weakref.WeakValueDictionary[tuple, Node] = weakref.WeakValueDictionary()


def node(kind: str, *args: Any) -> Node:
    """The one node of this kind with these arguments."""
    key = (kind, *args)
    interned = _interned.get(key)
    if interned is not None:
        return interned
    new = object.__new__(Node)
    new.kind, new.args, new.serial = kind, args, next(_serial)
    parts = children(new)
    new.free = frozenset().union(*(part.free for part in parts))
    new.leaves = frozenset().union(*(part.leaves for part in parts))
    new.height = max((part.height for part in parts), default=0)
    if kind == "index" and isinstance(args[0], Index):
        new.free = frozenset(args)
    elif kind == "get":
        new.leaves |= {args[0]} | args[0].of
    elif kind in BINDERS:
        new.height += 1
    _interned[key] = new
    return new


BINDERS = frozenset(("sum", "lse", "chain", "rows", "slopes"))  # the last two are parts of a least-squares problem


def children(of: Node) -> tuple[Node, ...]:
    """The nodes in it."""
    match of.kind:
        case "const" | "index":
            return ()
        case "add" | "mul":
            return tuple(part for part, _ in of.args)
        case "get" | "call" | "sum" | "lse" | "chain" | "rows" | "slopes" | "logdet" | "rss" | "triangle":
            return of.args[1:]
    return of.args
