"""Fibres: what one label touches. A sum over an index l of which all but few terms are 0, by rows of the label.

F(u, l) = Σ_J [a(J) = u] [b(J) = l] w(J) depends on data alone, and is stored by rows; where it is 0, so is the term.
"""

from __future__ import annotations

from typing import NamedTuple

from fubini.algebra.binding import opened, replaced
from fubini.algebra.build import ZERO, factors_in, index, multiply
from fubini.algebra.node import Index, Node
from fubini.algebra.ranges import is_whole
from fubini.algebra.walk import walk


class Fibre(NamedTuple):
    """Σ_l body, of which only the l with F(u, l) ≠ 0 count."""

    place: Index  # l
    rows: Node  # F
    body: Node


class Grouped(NamedTuple):
    """Σ_J [row(J) = u] [place(J) = l] weight(J)"""

    over: tuple[Index, ...]
    row: Node
    place: Node
    weight: Node


def fibre_of(of: Node, u: Index) -> Fibre | None:
    """A sum over one index as a loop over a fibre, where it can be."""
    over, body = opened(of)
    if len(over) != 1:
        return None
    sums = {part for part in rows_in(body, u) if over[0] in part.free}
    if len(sums) != 1:
        return None
    (rows,) = sums
    return Fibre(over[0], rows, body) if is_zero(replaced(body, {rows: ZERO})) else None


def rows_in(of: Node, u: Index) -> list[Node]:
    """Sums F(u, l) over data in a node."""

    def is_rows(this: Node) -> bool:
        is_data_sum = this.kind == "sum" and is_data(this) and u in this.free and len(this.free) == 2
        return is_data_sum and grouped(this, u) is not None

    return [this for this in walk(of, descend=lambda this: not is_rows(this)) if is_rows(this)]


def grouped(of: Node, u: Index) -> Grouped | None:
    """A sum by rows u and places l, where both are tested for."""
    (l,) = of.free - {u}  # noqa: E741
    over, body = opened(of)
    factors = dict(factors_in(body))
    keys: dict[Index, Node] = {}
    for test in [base for base in factors if base.kind == "eq"]:
        for one, other in (test.args, test.args[::-1]):
            if one in (index(u), index(l)) and one.args[0] not in keys and other.free <= set(over) and is_whole(other):
                keys[one.args[0]] = other
                factors.pop(test)
                break
    weight = multiply(factors.items())
    if len(keys) < 2 or weight.free & {u, l}:
        return None
    return Grouped(over, keys[u], keys[l], weight)


def is_data(of: Node) -> bool:
    """Whether the data alone decide a node."""
    return all(leaf.role in ("data", "opaque", "traced") for leaf in of.leaves)


def is_zero(of: Node) -> bool:
    """Whether a node is 0 whatever the numbers are."""
    if of is ZERO:
        return True
    if of.kind == "call":
        name, *args = of.args
        return (name == "same" and is_zero(args[0])) or (name == "log_rising" and args[1] is ZERO)
    if of.kind == "mul":
        return any(exponent > 0 and is_zero(base) for base, exponent in of.args)
    return of.kind == "add" and all(is_zero(part) for part, _ in of.args)
