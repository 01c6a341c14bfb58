"""Orders of the names of trains: the order of a product is one that keeps the orders of both factors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from fubini.base.names import Name


def natural_key(name: Name) -> tuple[tuple[int, int, str], ...]:
    """A key by which x2 comes before x10.

    >>> sorted(["x10", "x2", "a"], key=natural_key)
    ['a', 'x2', 'x10']
    """
    parts = re.split(r"(\d+)", str(name))
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts if part)


def merge_orders(first: Sequence[Name], second: Sequence[Name], others: Iterable[Name] = ()) -> tuple[Name, ...] | None:
    """The least order by name among those that keep two orders; None where they contradict each other.

    Other names stand wherever their name puts them.

    >>> merge_orders(("x0", "x3"), ("x3", "x1"), ("x2",))
    ('x0', 'x2', 'x3', 'x1')
    """
    position = {name: k for k, name in enumerate(dict.fromkeys((*first, *second, *others)))}
    before: dict[Name, set[Name]] = {name: set() for name in position}
    for order in (first, second):
        for one, two in pairwise(order):
            before[two].add(one)
    merged: dict[Name, None] = {}
    waiting = sorted(position, key=lambda name: (natural_key(name), position[name]))
    while waiting:
        free = next((name for name in waiting if before[name] <= merged.keys()), None)
        if free is None:
            return None
        merged[free] = None
        waiting.remove(free)
    return tuple(merged)


def conforming_order(order: Sequence[Name], guide: Sequence[Name]) -> tuple[Name, ...]:
    """The order with the names that it shares with a guide put into the guide's order, in the positions they have.

    >>> conforming_order(("b", "z", "a"), ("a", "b", "c"))
    ('a', 'z', 'b')
    """
    shared = iter([name for name in guide if name in order])
    return tuple(next(shared) if name in guide else name for name in order)
