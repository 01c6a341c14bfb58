"""Indices bound and free: sums closed over them, opened again, and nodes with others in their place."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b

from fubini.algebra.build import bound, index, make
from fubini.algebra.node import KINDS, Index, Leaf, Node, node
from fubini.algebra.walk import rewrite, walk


def closed(kind: str, over: Iterable[Index], body: Node) -> Node:
    """Σ or log Σ exp over indices, as a node; simplified nowhere."""
    assert KINDS[kind].is_binder
    over = tuple(over)
    free = visited(body, alike=len(over) > 1)  # so that equal bodies are closed alike
    order = (*(of for of in free if of in over), *(of for of in over if of not in free))
    level = body.height + 1
    names = {index(of): bound(level, place, of.size) for place, of in enumerate(order)}
    return node(kind, tuple(of.size for of in order), replaced(body, names))


def visited(of: Node, alike: bool = False) -> tuple[Index, ...]:
    """Free indices in the order in which they first occur; `alike`, in whatever order sums and products were made."""

    def parts(this: Node) -> Sequence[Node]:
        return sorted(this.children, key=likeness) if alike and this.is_commutative else this.children

    nodes = walk(of, enter=lambda this: bool(this.free), parts=parts)
    return tuple(dict.fromkeys(this.args[0] for this in nodes if this.kind == "index"))


_likenesses: weakref.WeakKeyDictionary[Node, bytes] = weakref.WeakKeyDictionary()


def likeness(of: Node) -> bytes:
    """The same for nodes that differ in indices alone, and not dependent on what was made first."""
    digest = _likenesses.get(of)
    if digest is None:
        parts = [likeness(part) for part in of.children]
        numbers = [str(number) for _, number in of.args] if of.kind in ("add", "mul") else [""] * len(parts)
        each = [part + number.encode() for part, number in zip(parts, numbers, strict=True)]
        own = of.args[0] if of.kind in ("const", "get", "call") else ""
        text = f"{of.kind} {own} ".encode() + b" ".join(sorted(each) if of.is_commutative else each)
        digest = _likenesses[of] = blake2b(text, digest_size=8).digest()
    return digest


def opened(of: Node) -> tuple[tuple[Index, ...], Node]:
    """The body of a binder over fresh indices."""
    sizes, body = of.args
    fresh = tuple(Index(size) for size in sizes)
    return fresh, replaced(body, {bound(of.height, place, i.size): index(i) for place, i in enumerate(fresh)})


_OPENED: weakref.WeakKeyDictionary[Node, tuple[tuple[Index, ...], Node]] = weakref.WeakKeyDictionary()


def opened_once(this: Node) -> tuple[tuple[Index, ...], Node]:
    """The body of a binder, over the same indices each time."""
    indices_and_body = _OPENED.get(this)
    if indices_and_body is None:
        indices_and_body = _OPENED[this] = opened(this)
    return indices_and_body


def replaced(of: Node, names: Mapping[Node, Node]) -> Node:
    """With nodes in place of others, made anew bottom up."""
    return rewrite(of, remade, dict(names))


def remade(of: Node, visit: Callable[[Node], Node]) -> Node:
    """A node of the same kind over other parts; the body of a binder over fresh indices."""
    if not of.is_binder:
        parts = tuple([visit(part) for part in of.children])
        is_same = parts == of.children and of.kind != "mul"  # a product that is made anew may cancel more
        return of if is_same else make(of.kind, *of.args_with(parts))
    fresh, body = opened(of)
    new = visit(body)
    return of if new is body else closed(of.kind, fresh, new)


def inside(of: Node) -> tuple[Node, ...]:
    """The nodes in it; of a binder, its body over the same free indices each time."""
    return (opened_once(of)[1],) if of.is_binder else of.children


def escapes(of: Node) -> bool:
    """It reads an index that is bound outside of it: one of a binder that is higher than itself."""
    indices = (this.args[0] for this in walk(of) if this.kind == "index")
    return any(isinstance(level, int) and level > of.height for level in indices)


def transformed(of: Node, leaf: Leaf, entry: Callable[..., Node]) -> Node:
    """With another node for each entry of an array, made from the place of the entry."""

    def change(this: Node, visit: Callable[[Node], Node]) -> Node:
        if leaf not in this.leaves:
            return this
        is_entry = this.kind == "get" and this.args[0] is leaf
        return entry(*map(visit, this.children)) if is_entry else remade(this, visit)

    return rewrite(of, change)
