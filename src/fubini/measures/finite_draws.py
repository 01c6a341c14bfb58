"""Draws of few values told apart: Σ_k M[x := k], each a branch."""

from __future__ import annotations

import math
from collections.abc import Iterator

from fubini.index.binding import replaced
from fubini.index.build import ONE, ZERO, const, get, minus
from fubini.index.node import Node
from fubini.measures.laws import support_of
from fubini.measures.program import Draw
from fubini.measures.state import State

FEW = 8  # values of a finite draw that are told apart
BRANCHES = 64  # and branches that this may make
FINITE = ("Bernoulli", "Categorical", "Counting")


def enumerated(states: list[State]) -> list[State]:
    """Few values of finite draws told apart, each a branch."""
    while True:
        place = next((n for n, state in enumerate(states) if _finite_draw(state, len(states)) is not None), None)
        if place is None:
            return [state for state in states if not state.is_impossible]
        state = states[place]
        draw = _finite_draw(state, len(states))
        assert draw is not None
        states = [*states[:place], *_each_value(state, draw), *states[place + 1 :]]


def _finite_draw(state: State, branches: int) -> Draw | None:
    for draw in state.waiting:
        support = support_of(draw.law)
        if draw.at or draw.law.family not in FINITE or support is None:
            continue
        size = minus(support.high, support.low)
        if size.kind == support.low.kind == "const" and size.args[0] < FEW and size.args[0] * branches < BRANCHES:
            return draw
    return None


def _each_value(state: State, draw: Draw) -> Iterator[State]:
    support = support_of(draw.law)
    assert support is not None
    low, high = (int(end.args[0]) for end in (support.low, support.high))
    for value in range(low, high + 1):
        new = state.without(draw.leaf)
        new = new._replace(limits=tuple(limit for limit in new.limits if limit.of is not draw.leaf))
        new = new.mapped(lambda node, value=value: replaced(node, {get(draw.leaf): const(value)}))
        if not any(_is_minus_infinity(term) for term in new.terms) and not new.is_impossible:
            limits = tuple(limit for limit in new.limits if not limit.holds or limit.leaves)
            yield new._replace(limits=limits, tests=tuple(test for test in new.tests if test.node is not ONE))


def _is_minus_infinity(term: Node) -> bool:
    parts = term.args if term.kind == "add" else ((term, 1.0),)
    logs = [(part, c) for part, c in parts if part.kind == "call" and part.args[0] == "log" and part.args[1] is ZERO]
    return any(c > 0 for _, c in logs) or (term.kind == "const" and term.args[0] == -math.inf)
