"""Indices bound and free: sums closed over them, opened again, and nodes with others in their place."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b

from fubini.algebra.build import add, bound, call, equal, get, index, less, multiply, where
from fubini.algebra.node import BINDERS, Index, Node, children, node


def closed(kind: str, over: Iterable[Index], body: Node) -> Node:
    """Σ or log Σ exp over indices, as a node; simplified nowhere."""
    assert kind in BINDERS
    over = tuple(over)
    free = visited(body, alike=len(over) > 1)  # so that equal bodies are closed alike
    order = (*(of for of in free if of in over), *(of for of in over if of not in free))
    level = body.height + 1
    names = {index(of): bound(level, place, of.size) for place, of in enumerate(order)}
    return node(kind, tuple(of.size for of in order), replaced(body, names))


def visited(of: Node, alike: bool = False) -> tuple[Index, ...]:
    """Free indices in the order in which they first occur; `alike`, in whatever order sums and products were made."""
    indices: dict[Index, None] = {}
    seen: set[Node] = set()

    def visit(this: Node) -> None:
        if this in seen or not this.free:
            return
        seen.add(this)
        if this.kind == "index":
            indices.setdefault(this.args[0])
        for part in sorted(children(this), key=likeness) if alike and this.kind in UNORDERED else children(this):
            visit(part)

    visit(of)
    return tuple(indices)


UNORDERED = frozenset(("add", "mul", "eq"))
_likenesses: weakref.WeakKeyDictionary[Node, bytes] = weakref.WeakKeyDictionary()


def likeness(of: Node) -> bytes:
    """The same for nodes that differ in indices alone, and not dependent on what was made first."""
    digest = _likenesses.get(of)
    if digest is None:
        parts = [likeness(part) for part in children(of)]
        numbers = [str(number) for _, number in of.args] if of.kind in ("add", "mul") else [""] * len(parts)
        each = [part + number.encode() for part, number in zip(parts, numbers, strict=True)]
        own = of.args[0] if of.kind in ("const", "get", "call") else ""
        text = f"{of.kind} {own} ".encode() + b" ".join(sorted(each) if of.kind in UNORDERED else each)
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
    memo: dict[Node, Node] = dict(names)

    def visit(this: Node) -> Node:
        new = memo.get(this)
        if new is None:
            new = memo[this] = remade(this, visit)
        return new

    return visit(of)


def remade(of: Node, visit: Callable[[Node], Node]) -> Node:
    """A node of the same kind over other parts."""
    match of.kind:
        case "const" | "index":
            return of
        case "add":
            return add([(visit(part), coefficient) for part, coefficient in of.args])
        case "mul":
            return multiply([(visit(base), exponent) for base, exponent in of.args])
        case "get":
            return get(of.args[0], *map(visit, of.args[1:]))
        case "call":
            return call(of.args[0], *map(visit, of.args[1:]))
        case "eq":
            return equal(*map(visit, of.args))
        case "lt":
            return less(*map(visit, of.args))
        case "where":
            return where(*map(visit, of.args))
        case "logdet" | "rss":
            return node(of.kind, of.args[0], *map(visit, of.args[1:]))
    fresh, body = opened(of)  # never under a binder but over fresh indices
    new = visit(body)
    return of if new is body else closed(of.kind, fresh, new)


def escapes(of: Node, height: int | None = None) -> bool:
    """It reads an index that is bound outside of it: one of a binder that is higher than itself."""
    height = of.height if height is None else height
    if of.kind == "index":
        return isinstance(of.args[0], int) and of.args[0] > height
    return any(escapes(part, height) for part in children(of))
