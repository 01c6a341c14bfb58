"""Going over nodes: one function that visits those in a node, and one that makes something of each from its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from fubini.algebra.node import Node

Test = Callable[[Node], bool]
T = TypeVar("T")


def _children(of: Node) -> Sequence[Node]:
    return of.children


def walk(
    *roots: Node,
    enter: Test | None = None,
    descend: Test | None = None,
    parts: Callable[[Node], Sequence[Node]] = _children,
) -> Iterator[Node]:
    """Each node in these once, before those in it; `enter` leaves nodes out, `descend` those below a node.

    >>> from fubini.algebra.build import get, plus
    >>> from fubini.algebra.node import Leaf
    >>> x, y = get(Leaf("x", ())), get(Leaf("y", ()))
    >>> list(walk(plus(x, y)))
    [x + y, x, y]
    """
    seen: set[Node] = set()
    waiting = list(reversed(roots))
    while waiting:
        this = waiting.pop()
        if this in seen or (enter is not None and not enter(this)):
            continue
        seen.add(this)
        yield this
        if descend is None or descend(this):
            waiting.extend(reversed(parts(this)))


def rewrite(of: Node, rule: Callable[[Node, Callable[[Node], T]], T], memo: dict[Node, T] | None = None) -> T:
    """What a rule makes of a node, once for each node; the rule is given a function to ask for the parts.

    `memo` holds results that are known, and is filled.

    >>> from fubini.algebra.build import get, plus
    >>> from fubini.algebra.node import Leaf
    >>> rewrite(plus(get(Leaf("x", ())), get(Leaf("y", ()))), lambda this, visit: 1 + sum(map(visit, this.children)))
    3
    """
    memo = {} if memo is None else memo

    def visit(this: Node) -> T:
        if this not in memo:
            memo[this] = rule(this, visit)
        return memo[this]

    return visit(of)
