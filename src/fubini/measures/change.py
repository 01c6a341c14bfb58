"""Change of variables: a draw replaced by what it has to be for an expression to have a value."""

from __future__ import annotations

from collections.abc import Iterator

from fubini.index.build import ZERO, const, get, plus, replaced
from fubini.index.node import Leaf, Node
from fubini.index.ranges import bounds, is_whole
from fubini.measures.inverse import Solution, solutions
from fubini.measures.language import leaf_in
from fubini.measures.laws import Law, Support
from fubini.measures.limits import Limit, ends_of, limits_of_support, simplified
from fubini.measures.program import Draw
from fubini.measures.state import State
from fubini.symbolic.collect import Blocked
from fubini.symbolic.tidy import tidied


def changed(state: State, expression: Node) -> Iterator[list[State]]:
    """t = e(x, …) in place of x, for each draw x that e can be solved for."""
    for draw in reversed(state.waiting):
        if draw.leaf not in expression.leaves or draw.leaf.shape or draw.leaf.is_simplex:
            continue
        try:
            yield list(_with_variable(state, expression, draw))
        except Blocked:
            continue


def _with_variable(state: State, expression: Node, draw: Draw) -> Iterator[State]:
    low, high = (const(end) for end in bounds(expression))
    t = leaf_in(Support(low, high, draw.leaf.is_integer), "t")
    named = state.mapped(lambda node: replaced(node, {expression: get(t)}))
    if draw.leaf in named.kept:
        raise Blocked(draw.leaf, expression, "a draw that is returned in no other place")
    for solution in solutions(expression, get(draw.leaf), get(t)):
        require_whole(draw.leaf, expression, solution)
        yield _with_draw(solved_for(named, draw, solution), t, low, high)


def require_whole(leaf: Leaf, expression: Node, solution: Solution) -> None:
    """A whole number is one for one with another: the factor is 1 or −1, and the rest is whole."""
    if leaf.is_integer and not (solution.log_slope is ZERO and is_whole(expression)):
        raise Blocked(leaf, expression, "a whole number plus or minus a draw of one")


def solved_for(state: State, draw: Draw, solution: Solution) -> State:
    """A draw replaced by what it has to be, with its density as a weight."""
    new = state.without(draw.leaf).mapped(lambda node: replaced(node, {get(draw.leaf): solution.x}))
    slope = () if draw.leaf.is_integer else (solution.log_slope,)
    limits: list[Limit] = list(solution.limits)
    for before, after in zip(state.limits, new.limits, strict=True):
        if draw.leaf not in before.leaves:
            limits.append(after)
        elif not after.holds:
            limits.append(simplified(after)._replace(of=None))
    priors = {leaf: tidied(prior) for leaf, prior in new.priors.items()}
    return new._replace(terms=(*map(tidied, new.terms), *slope), limits=tuple(limits), priors=priors)


def _with_draw(state: State, t: Leaf, low: Node, high: Node) -> State:
    """With t as a draw of its own, as far between numbers as all that is known of it alone says."""
    numbers = [limit for limit in state.limits if limit.leaves == {t}]
    ends = ends_of(t, (), [*numbers, Limit((), low, get(t), False), Limit((), get(t), high, False)])
    if not all(len(end) == 1 and end[0].kind == "const" for end in (ends.lows, ends.highs)):
        raise Blocked(t, get(t), "an interval between two numbers")
    support = Support(ends.lows[0], ends.highs[0], t.is_integer)
    new = leaf_in(support, "t")
    draw = Draw(new, (), flat_law(support))
    rest = state._replace(limits=tuple(limit for limit in state.limits if limit not in numbers))
    rest = rest.mapped(lambda node: replaced(node, {get(t): get(new)}))
    return rest._replace(
        waiting=(*rest.waiting, draw),
        priors={**{leaf: tidied(prior) for leaf, prior in rest.priors.items()}, new: ZERO},
        terms=tuple(map(tidied, rest.terms)),
        limits=(*rest.limits, *limits_of_support(draw, support)),
    )


def flat_law(support: Support) -> Law:
    """Lebesgue or counting measure on a support."""
    low, high, is_whole = support
    return Law("Counting", (low, plus(high, const(1.0)))) if is_whole else Law("Lebesgue", (low, high))
