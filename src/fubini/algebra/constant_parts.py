"""What can be computed before a density is asked for, and how large its numbers are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from fubini.algebra.binding import opened_once
from fubini.algebra.node import BINDERS, Node, children, node
from fubini.algebra.rows import has_triangle

LARGEST = 5_000_000  # numbers of a constant part
QUICK = 5_000_000, 3_000  # numbers of the largest part, and steps of the longest chain, that NumPy is done with at once


def known_parts(roots: Iterable[Node], unknown: Callable[[Node], bool]) -> list[Node]:
    """The largest nodes in these that do not depend on what is unknown: the constant parts."""
    parts: dict[Node, None] = {}
    seen: set[Node] = set()

    def visit(this: Node) -> None:
        if this in seen:
            return
        seen.add(this)
        if not unknown(this) and not _is_piece(this):
            if this.kind not in ("const", "index", "get") and math.prod(i.size for i in this.free) <= LARGEST:
                parts.setdefault(this)
            return
        if this.kind in ("logdet", "rss"):
            frame, *rows = this.args
            parts.update((node("triangle", frame, part), None) for part in rows if has_triangle(part, frame, unknown))
        for part in (opened_once(this)[1],) if this.kind in BINDERS else children(this):
            visit(part)

    for root in roots:
        visit(root)
    return list(parts)


def _is_piece(this: Node) -> bool:
    """Part of a least-squares problem or a chain, no number of its own."""
    return this.kind in ("rows", "slopes") or (this.kind == "call" and this.args[0] in ("row", "slope", "potentials"))


def largest(roots: Iterable[Node]) -> tuple[int, int]:
    """The numbers of the largest node in these, and the steps of the longest chain."""
    numbers, steps = 1, 1
    seen: set[Node] = set()
    waiting = list(roots)
    while waiting:
        this = waiting.pop()
        if this in seen:
            continue
        seen.add(this)
        numbers = max(numbers, math.prod(i.size for i in this.free))
        if this.kind in ("logdet", "rss"):
            steps = max(steps, this.args[0].length or 1)
        elif this.kind == "chain":
            steps = max(steps, opened_once(this)[1].args[1].args[0].size)
        waiting.extend((opened_once(this)[1],) if this.kind in BINDERS else children(this))
    return numbers, steps
