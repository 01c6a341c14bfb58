"""Expressions with choices in them, case by case: min(a, b) is a where a < b, and b elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fubini.algebra.binding import escapes, replaced
from fubini.algebra.build import ONE, ZERO, less, negate, scale
from fubini.algebra.features import NoClosedForm, linear
from fubini.algebra.node import Leaf, Node
from fubini.algebra.walk import rewrite, walk
from fubini.integrate.elimination import is_never_zero
from fubini.measures.branch import Test
from fubini.measures.finite_draws import settled
from fubini.measures.inequalities import Limit, limits_of, simplified
from fubini.measures.state import State

PIECES = 64  # cases that tests may make


def pieces(state: State, expression: Node) -> Iterator[tuple[State, Node]]:
    """The state with a test for each case, and the expression there."""
    choice = _choice(expression, {draw.leaf for draw in state.waiting})
    if choice is None:
        yield state, expression
        return
    for test, chosen in _cases(choice):
        names = {choice: chosen}
        new = _tested(state.mapped(lambda node, names=names: replaced(node, names)), test)
        if not new.is_impossible:
            yield from pieces(new, replaced(expression, names))


def _choice(of: Node, drawn: set[Leaf]) -> Node | None:
    """The first choice that depends on what is drawn, outside of sums."""
    nodes = walk(
        of, enter=lambda this: bool(this.leaves & drawn), descend=lambda this: this.kind in ("add", "mul", "call")
    )
    is_choice = lambda this: this.kind in ("where", "lt") or _calls(this, "min", "max")  # noqa: E731
    return next(filter(is_choice, nodes), None)


def _calls(of: Node, *names: str) -> bool:
    return of.kind == "call" and of.args[0] in names


def _cases(choice: Node) -> tuple[tuple[Node, Node], ...]:
    if choice.kind == "lt":
        return (choice, ONE), (negate(choice), ZERO)
    if choice.kind == "eq":
        a, b = choice.args
        return (choice, ONE), (less(a, b), ZERO), (less(b, a), ZERO)
    if choice.kind == "where":
        test, first, second = choice.args
    elif choice.args[0] == "abs":
        test, first, second = less(choice.args[1], ZERO), scale(-1.0, choice.args[1]), choice.args[1]
    else:
        name, a, b = choice.args
        test = less(a, b)
        first, second = (a, b) if name == "min" else (b, a)
    return (test, first), (negate(test), second)


def cases_of_tests(states: list[State]) -> list[State] | None:
    """Each test that depends on draws split into cases, wherever it occurs; None if there is none, or too many."""
    done: list[State] = []
    waiting, is_split = list(states), False
    while waiting:
        state = waiting.pop()
        drawn = {draw.leaf for draw in state.waiting}
        choice = next((inner for node in _in_state(state) if (inner := _innermost(node, drawn)) is not None), None)
        if choice is None:
            done.append(state)
            continue
        is_split = True
        waiting.extend(_each_case(state, choice))
        if len(done) + len(waiting) > PIECES:
            return None
    return done if is_split else None


def _each_case(state: State, choice: Node) -> Iterator[State]:
    for test, chosen in _cases(choice):
        new = settled(_tested(state.mapped(lambda node, to=chosen: replaced(node, {choice: to})), test))
        if not new.is_impossible:
            yield new._replace(tests=tuple(test for test in new.tests if test.node is not ONE))


def _in_state(state: State) -> Iterator[Node]:
    yield from (test.node for test in state.tests if not test.over)
    yield from state.terms
    yield from (end for limit in state.limits for end in (limit.low, limit.high) if not limit.over)


def _innermost(root: Node, drawn: set[Leaf]) -> Node | None:
    """A test or a choice that depends on what is drawn, and on no index of a sum, in which there is no other."""
    return rewrite(root, lambda of, visit: _innermost_in(of, visit) if of.leaves & drawn else None)


def _innermost_in(of: Node, visit: Callable[[Node], Node | None]) -> Node | None:
    inner = next((choice for part in of.children if (choice := visit(part)) is not None), None)
    is_choice = of.kind in ("lt", "eq") or _calls(of, "min", "max", "abs")
    return of if inner is None and is_choice and not of.free and not escapes(of) else inner


def by_sign(state: State, leaf: Leaf) -> list[State]:
    """Below and above zero, for what the size of is asked for: |a| is −a, and a."""
    sizes = [absolute for term in state.terms if (absolute := _size(term, leaf)) is not None]
    if not sizes:
        return [state]
    size, inside = sizes[0], sizes[0].args[1]
    cases = ((less(inside, ZERO), scale(-1.0, inside)), (less(ZERO, inside), inside))
    every = [_tested(state.mapped(lambda node, to=to: replaced(node, {size: to})), test) for test, to in cases]
    return [one for one in every if not one.is_impossible]


def _size(of: Node, leaf: Leaf) -> Node | None:
    """The size of something that depends on a leaf, outside of sums."""
    nodes = walk(of, enter=lambda this: leaf in this.leaves and this.kind in ("add", "mul", "call"))
    return next((this for this in nodes if _calls(this, "abs")), None)


def _tested(state: State, test: Node) -> State:
    limits = limits_of(Test((), test), [draw.leaf for draw in state.waiting])
    if limits is None:
        return state._replace(tests=(*state.tests, Test((), test)))
    drawn = [draw.leaf for draw in state.waiting if not draw.leaf.is_integer]
    return state._replace(limits=(*state.limits, *(_open(limit, drawn) for limit in limits)))


def _open(limit: Limit, drawn: list[Leaf]) -> Limit:
    """Without its end, which has no mass, where a draw of real numbers decides: an atom may be there."""
    if limit.is_strict or limit.over:
        return limit
    gap = simplified(limit).high
    return limit._replace(is_strict=any(_moves(gap, leaf) for leaf in drawn if leaf in gap.leaves))


def _moves(gap: Node, leaf: Leaf) -> bool:
    """It is linear in the leaf, with a slope that is not zero."""
    try:
        slopes, _ = linear(gap, leaf)
    except NoClosedForm:
        return False
    return len(slopes) == 1 and not slopes[0].over and is_never_zero(slopes[0].coefficient)
