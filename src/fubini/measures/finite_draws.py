"""Draws of few values enumerated: Σ_k M[x := k], each a branch; branches that differ in their weights alone are one.

A sum of n coin flips has n + 1 values, so that it makes n + 1 branches, not 2ⁿ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from fubini.algebra.binding import replaced, transformed
from fubini.algebra.build import ONE, ZERO, add, const, get, index, minus
from fubini.algebra.features import NoClosedForm
from fubini.algebra.node import Index, Leaf, Node
from fubini.families.family import family_of
from fubini.measures.branch import DrawStatement
from fubini.measures.draw_density import support_of
from fubini.measures.finish import log_of_sum
from fubini.measures.inequalities import ends_of
from fubini.measures.requirements import require_defined, require_weight
from fubini.measures.single_draws import require_possible
from fubini.measures.state import State
from fubini.measures.zeros import without_zeros

FEW = 8  # values of a finite draw that are enumerated
BRANCHES = 64  # and branches that this may make


def enumerated(states: Sequence[State]) -> list[State]:
    """Finite draws of few values enumerated, one draw at a time."""
    current = _alike_together(map(settled, states))
    tried: set[Leaf] = set()
    while (draw := _next_draw(current, tried)) is not None:
        tried.add(draw.leaf)
        split = _alike_together(one for state in current for one in _each_value(state, draw.leaf))
        if len(split) <= BRANCHES:
            current = split
    for state in current:
        require_defined(state)
    return current


def _next_draw(states: Sequence[State], tried: set[Leaf]) -> DrawStatement | None:
    for state in states:
        for draw in state.waiting:
            if draw.leaf not in tried and _values(draw):
                return draw
    return None


def _values(draw: DrawStatement) -> range:
    """Those of a draw from few values."""
    support = support_of(draw.distribution)
    if draw.at or support is None or not family_of(draw.distribution.family).is_enumerated:
        return range(0)
    size = minus(support.high, support.low)
    if not (size.kind == support.low.kind == "const" and size.args[0] < FEW):
        return range(0)
    return range(int(support.low.args[0]), int(support.high.args[0]) + 1)


def _each_value(state: State, leaf: Leaf) -> Iterator[State]:
    draw = next((draw for draw in state.waiting if draw.leaf is leaf), None)
    values = range(0) if draw is None else _values(draw)
    if not values:
        yield state
    for value in values:
        names = {get(leaf): const(value)}
        yield settled(_substituted(state, leaf, lambda node, names=names: replaced(node, names)))


def _substituted(state: State, leaf: Leaf, change: Callable[[Node], Node]) -> State:
    """With a value in place of a draw, and without what holds for certain then."""
    new = state.without(leaf)
    new = new._replace(limits=tuple(limit for limit in new.limits if limit.of is not leaf)).mapped(change)
    limits = tuple(limit for limit in new.limits if not limit.holds or limit.leaves)
    return new._replace(limits=limits, tests=tuple(test for test in new.tests if test.node is not ONE))


# -- draws of one value ---------------------------------------------------------------------------------------------


def settled(state: State) -> State:
    """With its value in place of each whole number of which inequalities leave one."""
    state = without_zeros(state)
    for draw in state.waiting if not state.is_impossible else ():
        value = _only_value(state, draw)
        if value is not None:
            return settled(_substituted(state, draw.leaf, lambda of, d=draw, v=value: transformed(of, d.leaf, v)))
    return state


def _only_value(state: State, draw: DrawStatement) -> Callable[..., Node] | None:
    """The one value between the ends of a whole number, by its place."""
    if not draw.leaf.is_integer:
        return None
    at = tuple(Index(size) for size in draw.leaf.shape)
    drawn = {other.leaf for other in state.waiting}
    try:
        ends = ends_of(draw.leaf, at, [limit for limit in state.limits if limit.leaves & drawn == {draw.leaf}])
    except NoClosedForm:
        return None
    if len(ends.lows) != 1 or ends.lows != ends.highs or ends.limits:
        return None
    (value,) = ends.lows
    return lambda *places: replaced(value, {index(i): place for i, place in zip(at, places, strict=True)})


# -- states that are alike ------------------------------------------------------------------------------------------


def _alike_together(states: Iterable[State]) -> list[State]:
    """Those that are possible, with states that differ in their weights alone added."""
    groups: dict[tuple, tuple[State, list[Node]]] = {}
    for state in states:
        if not state.is_impossible:
            rest, weight = _split_weight(state)
            require_weight(weight)
            decided = [distribution for distribution in state.observed if not distribution.leaves & drawn_in(state)]
            for distribution in decided:
                require_possible(distribution)
            rest = rest._replace(
                observed=tuple(distribution for distribution in state.observed if distribution not in decided)
            )
            groups.setdefault(_key(rest), (rest, []))[1].append(weight)
    return [rest._replace(terms=(*rest.terms, *_unless_zero(log_of_sum(logs)))) for rest, logs in groups.values()]


def _unless_zero(term: Node) -> tuple[Node, ...]:
    return () if term is ZERO else (term,)


def drawn_in(state: State) -> set[Leaf]:
    """All that is drawn."""
    return {draw.leaf for draw in (*state.waiting, *state.frozen, *state.recognised)}


def _split_weight(state: State) -> tuple[State, Node]:
    """Without the part of its weight in which no draw is, and that part; densities of draws stay as written."""
    drawn = drawn_in(state)
    priors = [state.priors[draw.leaf] for draw in state.waiting]
    kept: list[Node] = []
    outside: list[tuple[Node, float]] = []
    for term in state.terms:
        if term in priors:
            kept.append(term)
            continue
        parts = term.args if term.kind == "add" else ((term, 1.0),)
        inside = [(part, c) for part, c in parts if part.leaves & drawn]
        kept.extend(_unless_zero(add(inside)))
        outside.extend(item for item in parts if item not in inside)
    return state._replace(terms=tuple(kept)), add(outside)


def _key(state: State) -> tuple:
    """The same for states that are equal."""
    terms, limits, tests = (frozenset(Counter(part).items()) for part in (state.terms, state.limits, state.tests))
    priors = tuple(state.priors[draw.leaf] for draw in state.waiting)
    return (
        state.waiting,
        priors,
        terms,
        limits,
        tests,
        state.frozen,
        state.recognised,
        state.value,
        state.facts,
        state.observed,
    )
