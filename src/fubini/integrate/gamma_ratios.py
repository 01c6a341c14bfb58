"""Γ(x + r) / Γ(x) in place of two gamma functions, which cancel where x is large.

Σ_i log Γ(x + r_i) − n log Γ(x)  =  Σ_i log Γ(x + r_i) / Γ(x),  r_i whole numbers of the data
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fubini.algebra.binding import opened
from fubini.algebra.build import ZERO, add, call, minus, plus
from fubini.algebra.node import Index, Node
from fubini.algebra.ranges import is_whole
from fubini.algebra.sums import total
from fubini.families.functions import INFINITY, defined_if


class ShiftedGamma(NamedTuple):
    """Σ log Γ(x + r) over some indices, r of known numbers."""

    over: tuple[Index, ...]
    x: Node
    shift: Node
    is_checked: bool  # infinite where x + r is not positive

    @property
    def size(self) -> int:
        """How many there are."""
        return math.prod(i.size for i in self.over)

    def ratio(self) -> Node:
        """Σ log Γ(x + r) / Γ(x); infinite where x + r may be and is not positive."""
        ratio = call("log_rising", self.x, self.shift)
        if self.is_checked:
            ratio = defined_if(plus(self.x, self.shift), ratio, INFINITY)
        return total(self.over, ratio)


def with_gamma_ratios(terms: Sequence[Node]) -> tuple[Node, ...]:
    """The terms of a log-density; where all Γ(x) cancel against Γ(x + r), in one sum of ratios."""
    summed: dict[Node, float] = {}
    for part, c in (pair for term in terms for pair in _parts(term)):
        summed[part] = summed.get(part, 0.0) + c
    parts = list(summed.items())
    shifted = [(part, c, gamma) for part, c in parts if (gamma := _shifted_gamma(part)) is not None]
    if not shifted:
        return tuple(terms)
    counts: dict[Node, float] = {}
    for _, c, gamma in shifted:
        counts[gamma.x] = counts.get(gamma.x, 0.0) + c * gamma.size
    plain = [part for part, c in parts if _is_gamma(part) and counts.get(part.args[1]) == -c]
    cancelled = {part.args[1] for part in plain}
    ratios = {part: gamma.ratio() for part, _, gamma in shifted if gamma.x in cancelled}
    if not ratios:
        return tuple(terms)
    return (add((ratios.get(part, part), c) for part, c in parts if part not in plain),)


def _parts(term: Node) -> Iterator[tuple[Node, float]]:
    yield from term.args if term.kind == "add" else [(term, 1.0)]


def _is_gamma(of: Node, *names: str) -> bool:
    return of.kind == "call" and of.args[0] in ("lgamma", *names)


def _shifted_gamma(of: Node) -> ShiftedGamma | None:
    """A sum of log Γ(x + r), with whole numbers r, not all 0, and x the same in all of them."""
    over, body = opened(of) if of.kind == "sum" else ((), of)
    if not _is_gamma(body, "lgamma_if_positive"):
        return None
    inside = body.args[1]
    x = add((part, c) for part, c in _parts(inside) if any(leaf.role in ("site", "opaque") for leaf in part.leaves))
    shift = minus(inside, x)
    if x is ZERO or shift is ZERO or not is_whole(shift) or x.free & set(over):
        return None
    return ShiftedGamma(over, x, shift, body.args[0] == "lgamma_if_positive")
