"""Weights 0^e, which are [e = 0] where e is not negative: a logarithm of zero is never multiplied by zero."""

from __future__ import annotations

import math
from collections.abc import Iterator

from fubini.algebra.binding import opened
from fubini.algebra.build import ONE, ZERO, add, call, const, factors_in, multiply
from fubini.algebra.features import NoClosedForm
from fubini.algebra.node import Leaf, Node
from fubini.algebra.ranges import bounds
from fubini.measures.inequalities import Limit
from fubini.measures.state import State

LOG_ZERO = call("log", ZERO)
IMPOSSIBLE = Limit((), ONE, ZERO)


def without_zeros(state: State) -> State:
    """e log 0, with e ≥ 0, as the inequality e ≤ 0."""
    terms: list[Node] = []
    exponents: list[Node] = []
    for term in state.terms:
        exponent = exponent_of_zero(term)
        exponents.append(exponent)
        terms.append(term if exponent is ZERO else add(part for part in parts_of(term) if not _is_of_zero(part[0])))
    exponent = add((part, 1.0) for part in exponents)
    low = bounds(exponent)[0]
    if low > 0 or any(term.kind == "const" and term.args[0] == -math.inf for term in terms):
        return state._replace(limits=(*state.limits, IMPOSSIBLE))
    if exponent is ZERO or low < 0:
        return state
    kept = tuple(term for term in terms if term is not ZERO)
    return state._replace(terms=kept, limits=(*state.limits, *_at_least(exponent)))


def require_no_zeros(state: State, leaf: Leaf) -> None:
    """No power of zero depends on a latent."""
    for term in state.terms:
        if leaf in exponent_of_zero(term).leaves:
            raise NoClosedForm(leaf, term, "a density that is not a power of zero")


def parts_of(term: Node) -> tuple[tuple[Node, float], ...]:
    """The summands of a node, with their coefficients."""
    return term.args if term.kind == "add" else ((term, 1.0),)


def _is_of_zero(part: Node) -> bool:
    return (LOG_ZERO, 1.0) in factors_in(part)


def exponent_of_zero(term: Node) -> Node:
    """e of e log 0"""
    of_zero = [(part, c) for part, c in parts_of(term) if _is_of_zero(part)]
    rest = ((multiply(factor for factor in factors_in(part) if factor[0] is not LOG_ZERO), c) for part, c in of_zero)
    return add(rest)


def _at_least(exponent: Node) -> Iterator[Limit]:
    """Σ c a ≤ 0, where it is not negative, says of each a that it is at its end."""
    if bounds(exponent)[0] != 0 or exponent.kind not in ("add", "sum"):
        yield Limit((), exponent, ZERO, False)
        return
    for part, c in parts_of(exponent):
        if part is ONE:
            continue
        over, body = opened(part) if part.kind == "sum" else ((), part)
        end = const(bounds(body)[0 if c > 0 else 1])
        yield Limit(over, body, end, False) if c > 0 else Limit(over, end, body, False)
