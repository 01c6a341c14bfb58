"""Nodes of index notation: scalars in index variables and entries of arrays, shared where they are equal.

    c | i | x[a, b] | Σ coef · term | Π base^exponent | f(…) | [a = b] | [a < b] | where(c, a, b)
    Σ_J | log Σ_J exp | max_J

Nodes hold no numbers but constants: a leaf stands for an array. They are interned, so equal nodes are one object; bound
indices are canonical (the height of the body, and a position), so bodies that differ in the names of these are equal.
Each kind of node is a class, which declares what its arguments are; `fubini.algebra.walk` goes over them.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, ClassVar

from fubini.algebra.leaf import Index as Index
from fubini.algebra.leaf import Leaf as Leaf
from fubini.algebra.leaf import serials
from fubini.algebra.node_notation import written


class Node:
    """One scalar expression. Made by the functions of `fubini.algebra.build`, which simplify; compared by identity.

    A kind declares which of its arguments are nodes, and its traits: `is_binder` if indices are bound in it,
    `is_commutative` if the order of its children says nothing.
    """

    __slots__ = ("__weakref__", "args", "children", "free", "height", "leaves", "serial")
    kind: ClassVar[str]
    is_binder: ClassVar[bool] = False
    is_commutative: ClassVar[bool] = False
    args: tuple[Any, ...]
    children: tuple[Node, ...]
    free: frozenset[Index]
    leaves: frozenset[Leaf]  # all that its value depends on, those behind opaque ones included
    height: int  # one more than the bound indices nest
    serial: int

    def __init_subclass__(cls, kind: str = "") -> None:
        if kind:
            cls.kind, KINDS[kind] = kind, cls

    def __repr__(self) -> str:
        return written(self)

    def nodes_among(self, args: tuple[Any, ...]) -> tuple[Node, ...]:
        """The arguments that are nodes."""
        return args

    def args_with(self, children: Sequence[Node]) -> tuple[Any, ...]:
        """The arguments with other nodes in place of the children."""
        return tuple(children)

    def own_free(self) -> frozenset[Index]:
        """Free indices that are in no child."""
        return frozenset()

    def own_leaves(self) -> frozenset[Leaf]:
        """Leaves that are in no child."""
        return frozenset()


KINDS: dict[str, type[Node]] = {}


class _Atom(Node):
    """A node without others in it."""

    __slots__ = ()

    def nodes_among(self, args: tuple[Any, ...]) -> tuple[Node, ...]:
        return ()

    def args_with(self, children: Sequence[Node]) -> tuple[Any, ...]:
        return self.args


class _Weighted(Node):
    """Pairs of a node and a number."""

    __slots__ = ()
    is_commutative = True

    def nodes_among(self, args: tuple[Any, ...]) -> tuple[Node, ...]:
        return tuple([part for part, _ in args])

    def args_with(self, children: Sequence[Node]) -> tuple[Any, ...]:
        return tuple((part, number) for part, (_, number) in zip(children, self.args, strict=True))


class _Headed(Node):
    """Something that is no node, then nodes."""

    __slots__ = ()

    def nodes_among(self, args: tuple[Any, ...]) -> tuple[Node, ...]:
        return args[1:]

    def args_with(self, children: Sequence[Node]) -> tuple[Any, ...]:
        return (self.args[0], *children)


class _Binder(_Headed):
    """The sizes of the indices that it binds, and its body."""

    __slots__ = ()
    is_binder = True


class ConstNode(_Atom, kind="const"):
    """c"""

    __slots__ = ()


class IndexNode(_Atom, kind="index"):
    """i, free; or bound: the height of its binder, a position and the size"""

    __slots__ = ()

    def own_free(self) -> frozenset[Index]:
        return frozenset(self.args) if isinstance(self.args[0], Index) else frozenset()


class GetNode(_Headed, kind="get"):
    """x[a, b]"""

    __slots__ = ()

    def own_leaves(self) -> frozenset[Leaf]:
        leaf = self.args[0]
        if not leaf.is_read:
            leaf.is_read = True
        return leaf.of | {leaf}


class AddNode(_Weighted, kind="add"):
    """Σ coefficient · term"""

    __slots__ = ()


class MulNode(_Weighted, kind="mul"):
    """Π base^exponent"""

    __slots__ = ()


class CallNode(_Headed, kind="call"):
    """f(…)"""

    __slots__ = ()


class EqualNode(Node, kind="eq"):
    """[a = b]"""

    __slots__ = ()
    is_commutative = True


class LessNode(Node, kind="lt"):
    """[a < b]"""

    __slots__ = ()


class WhereNode(Node, kind="where"):
    """where(c, a, b)"""

    __slots__ = ()


class SumNode(_Binder, kind="sum"):
    """Σ_J"""

    __slots__ = ()


class LogSumNode(_Binder, kind="lse"):
    """log Σ_J exp"""

    __slots__ = ()


class GreatestNode(_Binder, kind="greatest"):
    """max_J"""

    __slots__ = ()


class ChainNode(_Binder, kind="chain"):
    """log Σ exp over the paths of a chain"""

    __slots__ = ()


class RowsNode(_Binder, kind="rows"):
    """Rows of a least-squares problem"""

    __slots__ = ()


class SlopesNode(_Binder, kind="slopes"):
    """Coefficients in a row of a least-squares problem"""

    __slots__ = ()


class LogDetNode(_Headed, kind="logdet"):
    """log |AᵀA| of a frame and its rows"""

    __slots__ = ()


class ResidualNode(_Headed, kind="rss"):
    """min |A x − b|² of a frame and its rows"""

    __slots__ = ()


class TriangleNode(_Headed, kind="triangle"):
    """U of [A b] = Q U, of a frame and some rows"""

    __slots__ = ()


_interned: weakref.WeakValueDictionary[tuple[Any, ...], Node] = weakref.WeakValueDictionary()


def node(kind: str, *args: Any) -> Node:
    """The one node of this kind with these arguments."""
    key = (kind, *args)
    interned = _interned.get(key)
    if interned is not None:
        return interned
    new = object.__new__(KINDS[kind])
    new.args, new.serial = args, next(serials)
    new.children = new.nodes_among(args)
    new.free, new.leaves, height = new.own_free(), new.own_leaves(), 0
    for part in new.children:
        new.free |= part.free
        new.leaves |= part.leaves
        height = max(height, part.height)
    new.height = height + new.is_binder
    _interned[key] = new
    return new
