"""Conditioning on an expression: the measure of the rest, given what the first of the returned values is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fubini.algebra.build import ONE, ZERO, call, equal, index
from fubini.algebra.features import NoClosedForm
from fubini.algebra.node import Index, Node
from fubini.algebra.ranges import is_whole
from fubini.errors import DomainError
from fubini.measures.added_draws import with_sums
from fubini.measures.allowed import AllowedParameters
from fubini.measures.branch import Branch, DrawStatement, Items, Test, count_of_draws
from fubini.measures.change import at_roots, require_whole, solved_for
from fubini.measures.finish import finished, merged
from fubini.measures.finite_draws import enumerated
from fubini.measures.inequalities import entry_of
from fubini.measures.measure import Measure
from fubini.measures.pieces import pieces
from fubini.measures.simplify import simplify
from fubini.measures.solved import solutions
from fubini.measures.state import State, state_of
from fubini.measures.values import Entries, node_of


def disintegrate(measure: Measure, at: Any) -> Measure:
    """The measure of the rest where the first of what is returned is `at`: M = ∫ disintegrate(M, t) dt.

    What is conditioned on is solved for one draw, whose density at the solution times |dx/dt| becomes a weight; a
    branch in which it is certain stays as it is, under the test that it is `at`.

    >>> from fubini.measures import Normal, measure
    >>> from fubini.measures.simplify import simplify
    >>> from fubini.measures.values import symbol
    >>> @measure
    ... def sums():
    ...     x = yield Normal(0, 1)
    ...     y = yield Normal(x, 1)
    ...     return y, x
    >>> print(simplify(disintegrate(sums(), symbol("t"))))
    x ~ Normal(½ t, √(1/2))
    weight exp(−(1/4) t² − 1.265512)
    returns x
    """
    branches: list[Branch] = []
    checks = [*measure.checks]
    for branch in measure.branches:
        checks.append(AllowedParameters(state_of(branch), of_draws=False))
        for given in _conditioned(branch, at):
            branches.append(finished(_rest(given)))
            checks.append(AllowedParameters(given))
    return Measure(merged(branches), checks)


def _conditioned(branch: Branch, at: Any) -> list[State]:
    """A branch where the first of what it returns is `at`; if that has no solution as it was written, simplified."""
    over = _require_first(branch, at)
    target = at.at(*map(index, over)) if isinstance(at, Entries) else node_of(at)
    state = with_sums(state_of(branch))
    split = [state] if over else [one for one, _ in pieces(state, _first(state))]
    try:
        return [given for one in split for given in _given(one, target, over)]
    except NoClosedForm:
        simplified = simplify(Measure((branch,))).branches
        if any(count_of_draws(one.draws) >= count_of_draws(branch.draws) for one in simplified):
            raise
        return [given for one in simplified for given in _conditioned(one, at)]


def _require_first(branch: Branch, at: Any) -> tuple[Index, ...]:
    """The indices of what is conditioned on: none of a number."""
    value = branch.value
    first = value[0] if isinstance(value, tuple) and not isinstance(value, Items) and value else None
    over = first.over if isinstance(first, Items) else ()
    if first is None or not isinstance(first, Node | Items):
        raise DomainError(
            "what to condition on",
            expected="a tuple that begins with a number or an array",
            advice="return (first, rest)",
        )
    shape = at.shape if isinstance(at, Entries) else ()
    if shape != tuple(i.size for i in over):
        raise DomainError(f"a value of shape {shape}", expected=f"{tuple(i.size for i in over)}")
    return over


def _first(state: State) -> Node:
    """What is conditioned on, or an entry of it."""
    assert isinstance(state.value, tuple)
    first = state.value[0]
    assert isinstance(first, Node | Items)
    return first.entry if isinstance(first, Items) else first


def _rest(state: State) -> State:
    """The state that returns the rest."""
    assert isinstance(state.value, tuple)
    rest = state.value[1:]
    return state._replace(value=rest[0] if len(rest) == 1 else rest)


def _given(state: State, target: Node, over: tuple[Index, ...]) -> Iterator[State]:
    expression = _first(state)
    drawn = [draw for draw in reversed(state.waiting) if draw.leaf in expression.leaves]
    if not drawn:
        test = equal(expression, target)
        if test is not ZERO:
            yield state if test is ONE else state._replace(tests=(*state.tests, Test(over, test)))
        return
    blocked: NoClosedForm | None = None
    for draw in drawn:
        try:
            solutions = list(_solved(state, draw, expression, target, over))
        except NoClosedForm as error:
            blocked = blocked or error
            continue
        yield from (new for new in solutions if not new.is_impossible)
        return
    split = enumerated([state])
    if blocked is not None and split == [state]:
        raise blocked
    for one in split:
        yield from _given(one, target, over)


def _solved(
    state: State, draw: DrawStatement, expression: Node, target: Node, over: tuple[Index, ...]
) -> Iterator[State]:
    if draw.leaf.shape != tuple(i.size for i in over) or draw.leaf.is_simplex:
        raise NoClosedForm(draw.leaf, expression, "a draw of the same shape")
    roots = list(solutions(expression, entry_of(draw.leaf, over), target))
    for root in roots:
        require_whole(draw.leaf, expression, root)
    if not draw.leaf.is_integer:
        yield from at_roots(state, draw, roots, over)
        return
    for root in roots:
        if is_whole(root.x):
            yield solved_for(state, draw, root, over)
        elif root.x.kind != "const":
            test = Test(over, equal(root.x, call("floor", root.x)))
            new = solved_for(state, draw, root, over)
            yield new._replace(tests=(*new.tests, test))
