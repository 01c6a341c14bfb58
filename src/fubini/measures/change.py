"""Change of variables: a draw replaced by what it has to be for an expression to have a value."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from fubini.algebra.binding import replaced, transformed
from fubini.algebra.build import ZERO, const, equal, index, where
from fubini.algebra.features import NoClosedForm
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.ranges import bounds, is_whole
from fubini.algebra.sums import total
from fubini.algebra.tidy import tidied
from fubini.families.parameters import Support
from fubini.measures.branch import DrawStatement, fresh_like, mapped_value, renamed
from fubini.measures.draw_density import support_of
from fubini.measures.flat import flat_distribution
from fubini.measures.inequalities import Limit, ends_of, entry_of, limits_of_support, simplified
from fubini.measures.single_draws import leaf_in, leaf_of
from fubini.measures.solved import EquationRoot, solutions
from fubini.measures.state import State

Over = tuple[Index, ...]  # indices that an expression is returned for; none of a number


def changed(state: State, expression: Node, over: Over = ()) -> Iterator[list[State]]:
    """t = e(x, …) in place of x, for each draw x that e can be solved for."""
    for draw in reversed(state.waiting):
        fits = draw.leaf.shape == tuple(i.size for i in over) and not draw.leaf.is_simplex
        if draw.leaf not in expression.leaves or not fits:
            continue
        try:
            yield list(_with_variable(state, expression, over, draw))
        except NoClosedForm:
            continue


def _with_variable(state: State, expression: Node, over: Over, draw: DrawStatement) -> Iterator[State]:
    low, high = (const(end) for end in bounds(expression))
    t = leaf_in(Support(low, high, draw.leaf.is_integer), "t", draw.leaf.shape)
    target, names = entry_of(t, over), {expression: entry_of(t, over)}
    named = state._replace(value=mapped_value(state.value, lambda node: replaced(node, names)))
    if draw.leaf in named.kept:
        raise NoClosedForm(draw.leaf, expression, "a draw that is returned in no other place")
    roots = list(solutions(expression, entry_of(draw.leaf, over), target))
    for root in roots:
        require_whole(draw.leaf, expression, root)
    for new in at_roots(named, draw, roots, over):
        yield _with_draw(new, t, low, high)


def at_roots(state: State, draw: DrawStatement, roots: Sequence[EquationRoot], over: Over) -> Iterator[State]:
    """A draw replaced by each root of an equation; of an array each entry has its own, by a label where they differ."""
    if not over or len(roots) == 1:
        yield from (solved_for(state, draw, root, over) for root in roots)
        return
    if any(root.limits != roots[0].limits for root in roots):
        raise NoClosedForm(draw.leaf, roots[0].x, "roots that are there for the same values")
    which = flat_distribution(Support(ZERO, const(len(roots) - 1.0), True))
    label = fresh_like(leaf_of(which, "root"), shape=draw.leaf.shape)
    x, log_slope = roots[-1].x, roots[-1].log_slope
    for place, root in enumerate(roots[:-1]):
        is_taken = equal(entry_of(label, over), const(float(place)))
        x, log_slope = where(is_taken, root.x, x), where(is_taken, root.log_slope, log_slope)
    new = solved_for(state, draw, EquationRoot(x, log_slope, roots[0].limits), over)
    if label in new.leaves:
        yield _with_flat(new, DrawStatement(label, over, which))
    else:
        yield new._replace(terms=(*new.terms, const(math.prod(draw.leaf.shape) * math.log(len(roots)))))


def require_whole(leaf: Leaf, expression: Node, solution: EquationRoot) -> None:
    """A whole number is one for one with another: the factor is 1 or −1, and the rest is whole."""
    if leaf.is_integer and not (solution.log_slope is ZERO and is_whole(expression)):
        raise NoClosedForm(leaf, expression, "a whole number plus or minus a draw of one")


def solved_for(state: State, draw: DrawStatement, solution: EquationRoot, over: Over = ()) -> State:
    """A draw replaced by what it has to be, with its density as a weight."""
    if draw.leaf in solution.x.leaves:
        raise NoClosedForm(draw.leaf, solution.x, "a solution in which it does not occur")

    def entry(*places: Node) -> Node:
        return replaced(solution.x, {index(i): place for i, place in zip(over, places, strict=True)})

    new = state.without(draw.leaf).mapped(lambda node: transformed(node, draw.leaf, entry))
    slope = () if draw.leaf.is_integer else (total(over, solution.log_slope),)
    limits: list[Limit] = [limit._replace(over=over) for limit in solution.limits]
    for before, after in zip(state.limits, new.limits, strict=True):
        if draw.leaf not in before.leaves:
            limits.append(after)
        elif not after.holds:
            limits.append(simplified(after)._replace(of=None))
    priors = {leaf: tidied(prior) for leaf, prior in new.priors.items()}
    return new._replace(terms=(*map(tidied, new.terms), *slope), limits=tuple(limits), priors=priors)


def _with_draw(state: State, t: Leaf, low: Node, high: Node) -> State:
    """With t as a draw of its own, as far between numbers as all that is known of it alone says."""
    at = tuple(Index(size) for size in t.shape)
    x = entry_of(t, at)
    numbers = [limit for limit in state.limits if limit.leaves == {t}]
    ends = ends_of(t, at, [*numbers, Limit(at, low, x, False), Limit(at, x, high, False)])
    known = all(len(end) == 1 and end[0].kind == "const" for end in (ends.lows, ends.highs))
    if not known or not all(limit.holds for limit in ends.limits):
        raise NoClosedForm(t, x, "an interval between two numbers")
    support = Support(ends.lows[0], ends.highs[0], t.is_integer)
    new = leaf_in(support, "t", t.shape)
    draw = DrawStatement(new, at, flat_distribution(support))
    rest = state._replace(limits=tuple(limit for limit in state.limits if limit not in numbers))
    return _with_flat(rest.mapped(lambda node: renamed(node, {t: new})), draw)


def _with_flat(state: State, draw: DrawStatement) -> State:
    """With one more draw, whose density is 1."""
    return state._replace(
        waiting=(*state.waiting, draw),
        priors={**{leaf: tidied(prior) for leaf, prior in state.priors.items()}, draw.leaf: ZERO},
        terms=tuple(map(tidied, state.terms)),
        limits=(*state.limits, *limits_of_support(draw, support_of(draw.distribution))),
    )
