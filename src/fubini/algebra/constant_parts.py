"""What can be computed before a density is asked for, and how large its numbers are."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable

from fubini.algebra.binding import inside, opened_once
from fubini.algebra.node import Node, node
from fubini.algebra.rows import has_triangle
from fubini.algebra.walk import walk

LARGEST = 5_000_000  # numbers of a constant part
QUICK = 5_000_000, 3_000  # numbers of the largest part, and steps of the longest chain, that NumPy is done with at once


def known_parts(roots: Iterable[Node], unknown: Callable[[Node], bool]) -> list[Node]:
    """The largest nodes in these that do not depend on what is unknown: the constant parts."""
    parts: dict[Node, None] = {}

    def is_open(this: Node) -> bool:
        return unknown(this) or _is_piece(this)

    for this in walk(*roots, descend=is_open, parts=inside):
        if not is_open(this):
            if this.kind not in ("const", "index", "get") and math.prod(i.size for i in this.free) <= LARGEST:
                parts.setdefault(this)
        elif this.kind in ("logdet", "rss"):
            frame, *rows = this.args
            parts.update((node("triangle", frame, part), None) for part in rows if has_triangle(part, frame, unknown))
    return list(parts)


def _is_piece(this: Node) -> bool:
    """Part of a least-squares problem or a chain, no number of its own."""
    return this.kind in ("rows", "slopes") or (this.kind == "call" and this.args[0] in ("row", "slope", "potentials"))


def largest(roots: Iterable[Node], without: Collection[Node] = ()) -> tuple[int, int]:
    """The numbers of the largest array that terms need, some of them left out; and the steps of the longest chain."""
    numbers, steps = 1, 1
    for this in walk(*roots, descend=lambda this: this not in without, parts=inside):
        numbers = max(numbers, math.prod(i.size for i in this.free))
        if this.kind in ("logdet", "rss"):
            steps = max(steps, this.args[0].steps)
        elif this.kind == "chain":
            steps = max(steps, opened_once(this)[1].args[1].args[0].size)
    return numbers, steps
