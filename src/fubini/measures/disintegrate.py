"""Conditioning on an expression: the measure of the rest, given what the first of the returned values is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fubini.errors import DomainError
from fubini.index.build import ONE, ZERO, equal, get
from fubini.index.node import Node
from fubini.measures.change import require_whole, solved_for
from fubini.measures.finish import finished, merged
from fubini.measures.finite_draws import enumerated
from fubini.measures.inverse import solutions
from fubini.measures.measure import Measure
from fubini.measures.pieces import pieces
from fubini.measures.program import Branch, Draw, Items, Test
from fubini.measures.state import State, state_of
from fubini.measures.values import node_of
from fubini.symbolic.collect import Blocked


def disintegrate(measure: Measure, at: Any) -> Measure:
    """The measure of the rest where the first of what is returned is `at`: M = ∫ disintegrate(M, t) dt.

    What is conditioned on is solved for one draw, whose density at the solution times |dx/dt| becomes a weight; a
    branch in which it is certain is left as it is under the test that it is `at`.

    >>> from fubini.measures.language import Normal, measure
    >>> from fubini.measures.simplify import simplify
    >>> from fubini.measures.values import symbol
    >>> @measure
    ... def sums():
    ...     x = yield Normal(0, 1)
    ...     y = yield Normal(x, 1)
    ...     return y, x
    >>> print(simplify(disintegrate(sums(), symbol("t"))))
    @measure
    def program():
        yield factor(-(1/4)*t**2 - 1.2655121234846454)
        x = yield Normal((1/2)*t, sqrt(1/2))
        return x
    """
    target = node_of(at)
    found: list[Branch] = []
    for branch in measure.branches:
        _require_number(branch)
        state = state_of(branch)
        for one, _ in pieces(state, _first(state)):
            found.extend(finished(_rest(given)) for given in _given(one, target))
    return Measure(merged(found))


def _require_number(branch: Branch) -> None:
    value = branch.value
    if not isinstance(value, tuple) or isinstance(value, Items) or not value or not isinstance(value[0], Node):
        raise DomainError(
            "what to condition on", expected="a tuple that begins with a number", advice="return (number, rest)"
        )


def _first(state: State) -> Node:
    """What is conditioned on."""
    assert isinstance(state.value, tuple)
    first = state.value[0]
    assert isinstance(first, Node)
    return first


def _rest(state: State) -> State:
    """The state that returns the rest."""
    assert isinstance(state.value, tuple)
    rest = state.value[1:]
    return state._replace(value=rest[0] if len(rest) == 1 else rest)


def _given(state: State, target: Node) -> Iterator[State]:
    expression = _first(state)
    drawn = [draw for draw in reversed(state.waiting) if draw.leaf in expression.leaves]
    if not drawn:
        test = equal(expression, target)
        if test is not ZERO:
            yield state if test is ONE else state._replace(tests=(*state.tests, Test((), test)))
        return
    blocked: Blocked | None = None
    for draw in drawn:
        try:
            found = list(_solved(state, draw, expression, target))
        except Blocked as error:
            blocked = blocked or error
            continue
        yield from (new for new in found if not new.is_impossible)
        return
    split = enumerated([state])
    if blocked is not None and split == [state]:
        raise blocked
    for one in split:
        yield from _given(one, target)


def _solved(state: State, draw: Draw, expression: Node, target: Node) -> Iterator[State]:
    if draw.leaf.shape or draw.leaf.is_simplex:
        raise Blocked(draw.leaf, expression, "a number that is drawn, not an entry of an array")
    for solution in solutions(expression, get(draw.leaf), target):
        require_whole(draw.leaf, expression, solution)
        yield solved_for(state, draw, solution)
