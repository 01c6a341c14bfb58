"""Independent draws of which only the sum matters, as one draw of the sum: n Exponentials are a Gamma.

Σ_i x[i], or x + y, is replaced by t wherever it stands; if no x remains but in its own density, t is drawn instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fubini.algebra.binding import opened_once, remade, replaced, transformed
from fubini.algebra.build import get, index, minus, plus
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.sums import total
from fubini.algebra.tidy import tidied
from fubini.algebra.walk import rewrite, walk
from fubini.families.family import family_of
from fubini.families.summand import Summand
from fubini.measures.branch import DrawStatement, fresh_like, nodes_of
from fubini.measures.draw_density import DrawDistribution, is_of_numbers, log_density, support_of
from fubini.measures.inequalities import limits_of_support
from fubini.measures.single_draws import leaf_of
from fubini.measures.state import State

Change = Callable[[Node], Node]
Axes = tuple[int, ...]


def with_sums(state: State) -> State:
    """With one draw in place of each sum of independent draws, as far as families are closed under addition."""
    while (new := next(_with_one_sum(state), None)) is not None:
        state = new
    return state


def _with_one_sum(state: State) -> Iterator[State]:
    """The state with one sum of draws as a draw of its own, for each sum of which this is possible."""
    draws = {draw.leaf: draw for draw in state.waiting if _summand(draw) is not None}
    if not draws:
        return
    for node in walk(*_other_nodes(state), enter=lambda this: bool(this.leaves & set(draws))):
        if node.kind == "sum":
            yield from _of_plate(state, node, draws)
        elif node.kind == "add":
            yield from _of_two(state, node, draws)


def _other_nodes(state: State) -> Iterator[Node]:
    """All but the densities and the supports of draws."""
    priors = set(state.priors.values())
    yield from nodes_of(state.value)
    yield from (term for term in state.terms if term not in priors)
    yield from (test.node for test in state.tests)
    yield from (end for limit in state.limits if limit.of is None for end in (limit.low, limit.high))
    for draw in state.waiting:
        if is_of_numbers(draw.distribution):
            yield from draw.distribution.given.values()


def _summand(draw: DrawStatement) -> Summand | None:
    """What a draw adds to a sum; None where nothing is known of sums of its family."""
    if not is_of_numbers(draw.distribution):
        return None
    summand = family_of(draw.distribution.family).summand
    return None if summand is None else summand(draw.distribution.given)


# -- the sum of a plate ---------------------------------------------------------------------------------------------


def _of_plate(state: State, node: Node, draws: dict[Leaf, DrawStatement]) -> Iterator[State]:
    """Σ_i x[i], of all entries along some axes"""
    body = opened_once(node)[1]
    draw = draws.get(body.args[0]) if body.kind == "get" else None
    axes = () if draw is None else _axes(node, draw.leaf)
    summand = None if draw is None or not axes else _summand(draw)
    if draw is None or summand is None:
        return
    over = tuple(draw.at[axis] for axis in axes)
    if any(part.free & set(over) for part in summand.shared.values()):
        return
    parameters = summand.parameters(lambda name: total(over, summand.term(name)))
    sum_ = _drawn(draw, summand.family, parameters, tuple(i for i in draw.at if i not in over))
    new = _replaced(state, (draw,), sum_, lambda of: _with_entries(of, draw.leaf, axes, sum_.leaf))
    if new is not None:
        yield new


def _axes(of: Node, leaf: Leaf) -> Axes:
    """The axes of a leaf that a node is the sum of all entries along; none where it is something else."""
    if of.kind != "sum":
        return ()
    over, body = opened_once(of)
    if body.kind != "get" or body.args[0] is not leaf:
        return ()
    places, indices = body.args[1:], {index(i) for i in over}
    axes = tuple(axis for axis, place in enumerate(places) if place in indices)
    others = [place for place in places if place not in indices]
    is_whole = all(leaf.shape[axis] == places[axis].args[0].size for axis in axes)
    is_once = len(axes) == len(over) == len({places[axis] for axis in axes})
    return axes if is_whole and is_once and not any(place.free & set(over) for place in others) else ()


def _with_entries(of: Node, leaf: Leaf, axes: Axes, new: Leaf) -> Node:
    """With an entry of the new leaf for each sum of a leaf along axes."""

    def change(this: Node, visit: Change) -> Node:
        if leaf not in this.leaves:
            return this
        if _axes(this, leaf) != axes:
            return remade(this, visit)
        places = opened_once(this)[1].args[1:]
        return get(new, *(visit(place) for axis, place in enumerate(places) if axis not in axes))

    return rewrite(of, change)


# -- the sum of two draws -------------------------------------------------------------------------------------------


def _of_two(state: State, node: Node, draws: dict[Leaf, DrawStatement]) -> Iterator[State]:
    """x + y, of draws of one shape"""
    terms = dict.fromkeys(part.args[0] for part, _ in node.args if part.kind == "get" and part.args[0] in draws)
    found = [draws[leaf] for leaf in terms]
    for place, first in enumerate(found):
        for second in found[place + 1 :]:
            new = _sum_of_two(state, first, second)
            if new is not None:
                yield new


def _sum_of_two(state: State, first: DrawStatement, second: DrawStatement) -> State | None:
    if first.leaf.shape != second.leaf.shape:
        return None
    names = {index(j): index(i) for i, j in zip(first.at, second.at, strict=True)}
    moved = second._replace(at=first.at, distribution=second.distribution.mapped(lambda part: replaced(part, names)))
    one, other = _summand(first), _summand(moved)
    if one is None or other is None or (one.family, one.shared) != (other.family, other.shared):
        return None
    parameters = one.parameters(lambda name: plus(one.term(name), other.term(name)))
    sum_ = _drawn(first, one.family, parameters, first.at)

    def change(of: Node) -> Node:
        return transformed(of, first.leaf, lambda *at: minus(get(sum_.leaf, *at), get(second.leaf, *at)))

    return _replaced(state, (first, second), sum_, change)


# -- the new draw ---------------------------------------------------------------------------------------------------


def _drawn(like: DrawStatement, family: str, parameters: dict[str, Node], at: tuple[Index, ...]) -> DrawStatement:
    """A draw of a sum, in the form that is most specific."""
    record = family_of(family)
    given = {name: tidied(parameters[name]) for name in record.parameters}
    distribution = DrawDistribution(*(record.special_case(given) or (family, tuple(given.values()))))
    leaf = fresh_like(leaf_of(distribution, like.leaf.name), shape=tuple(i.size for i in at))
    return DrawStatement(leaf, at, distribution)


def _replaced(state: State, draws: tuple[DrawStatement, ...], sum_: DrawStatement, change: Change) -> State | None:
    """With the sum in place of the draws; None where these matter in another way than by their sum."""
    leaves = {draw.leaf for draw in draws}
    terms = list(state.terms)
    for leaf in leaves:
        if state.priors[leaf] not in terms:
            return None
        terms.remove(state.priors[leaf])
    others = state._replace(
        waiting=tuple(draw for draw in state.waiting if draw.leaf not in leaves),
        priors={leaf: prior for leaf, prior in state.priors.items() if leaf not in leaves},
        terms=tuple(terms),
        limits=tuple(limit for limit in state.limits if limit.of not in leaves),
    ).mapped(change)
    if sum_.leaf not in others.leaves or leaves & (others.leaves | sum_.distribution.leaves):
        return None
    last = max(state.waiting.index(draw) for draw in draws) + 1 - len(draws)  # after all that its parameters depend on
    prior = total(sum_.at, log_density(sum_.distribution, sum_.entry))
    return others._replace(
        waiting=(*others.waiting[:last], sum_, *others.waiting[last:]),
        priors={**others.priors, sum_.leaf: prior},
        terms=(*others.terms, prior),
        limits=(*others.limits, *limits_of_support(sum_, support_of(sum_.distribution))),
    )
