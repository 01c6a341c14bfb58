"""Measures simplified: what is not returned integrated out, what is returned recognised, weights in front.

integrate the draws that are not returned, the last written first and locations before scales; then recognise
those that are, the last one given all others: what remains of the density is the weight, and it is exact.
"""

from __future__ import annotations

from collections.abc import Iterator

from fubini.algebra.build import call, minus, scale
from fubini.algebra.features import NoClosedForm
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.ranges import is_not_negative
from fubini.measures.added_draws import with_sums
from fubini.measures.allowed import AllowedParameters
from fubini.measures.branch import Branch, DrawStatement, Items, Returned, nodes_of
from fubini.measures.change import changed
from fubini.measures.eliminate import attempts
from fubini.measures.finish import finished, merged
from fubini.measures.finite_draws import enumerated
from fubini.measures.flat import is_base_measure
from fubini.measures.measure import Measure
from fubini.measures.partition import partitioned
from fubini.measures.pieces import by_sign, cases_of_tests, pieces
from fubini.measures.state import State, state_of, with_facts
from fubini.measures.summands import splits

SEARCHED = 3  # draws of which all orders are tried
ORDER = {"real": 0, "whole": 1, "simplex": 2, "other": 3, "cut": 4}


def simplify(measure: Measure) -> Measure:
    """The same measure, with as few draws and as plain a weight as the rules find.

    >>> from fubini.measures import Normal, measure
    >>> @measure
    ... def noisy(a, b):
    ...     x = yield Normal(0, a)
    ...     y = yield Normal(x, b)
    ...     return y
    >>> print(simplify(noisy(3, 4)))
    y ~ Normal(0, 5)
    returns y
    """
    branches: list[Branch] = []
    checks = [*measure.checks]
    for branch in measure.branches:
        written = state_of(branch)
        checks.append(AllowedParameters(written))
        for state in enumerated([with_sums(written)]):
            branches.extend(simplified_branches(state))
    return Measure(partitioned(merged(branches)), checks)


# -- what is returned -----------------------------------------------------------------------------------------------


def simplified_branches(state: State) -> list[Branch]:
    """With each expression that is returned as a draw of its own, where that can be recognised."""
    for expression, over in _expressions(state.value):
        for branches in _by_summands(state, expression, over):
            if all(_is_recognised(branch, state) for branch in branches):
                return branches
        split = [] if over else [one for one, _ in pieces(state, expression)]
        if len(split) > 1:
            branches = [branch for one in split for branch in simplified_branches(one)]
            if all(_is_recognised(branch, state) for branch in branches):
                return branches
            continue
        for candidate in changed(state, expression, over):
            branches = [branch for one in candidate for branch in simplified_branches(one)]
            if all(_is_recognised(branch, state) for branch in branches):
                return branches
    reduced = _integrated(state)
    split = _split(state, reduced) if _hidden(reduced) else None
    if split is None:
        done = [new for one in reduced for new in _recognised(one)]
        split = _split(state, done) if any(one.waiting for one in done) else None
        return [finished(one) for one in done] if split is None else split
    return split


def _by_summands(state: State, expression: Node, over: tuple[Index, ...]) -> Iterator[list[Branch]]:
    """With a sum in what is returned as one draw, where each of its terms can be recognised."""
    for split in splits(state, expression, over):
        joined = [split.joined(branch) for branch in simplified_branches(split.state)]
        if all(new is not None for new in joined):
            yield [branch for new in joined if new is not None for branch in simplified_branches(new)]


def _split(state: State, stuck: list[State]) -> list[Branch] | None:
    """With a sum in the weight split, or with tests split into cases, where that leaves nothing to wait."""
    parts = [part for one in stuck for part in _summands(one)]
    if len(parts) == len(stuck):
        parts = cases_of_tests(stuck) or []
    if not parts:
        return None
    branches = [branch for part in parts for branch in simplified_branches(part)]
    return branches if all(_is_recognised(branch, state) for branch in branches) else None


def _summands(state: State) -> list[State]:
    """(a + b) M  =  a M + b M, for a sum of positive terms in which a draw waits"""
    leaves = {draw.leaf for draw in state.waiting}
    for place, term in enumerate(state.terms):
        for part, c in term.args if term.kind == "add" else ((term, 1.0),):
            inside = part.args[1] if part.kind == "call" and part.args[0] == "log" and c == 1 else None
            if inside is None or inside.kind != "add" or not inside.leaves & leaves:
                continue
            if all(is_not_negative(item) and d > 0 for item, d in inside.args):
                logs = [call("log", scale(d, item)) for item, d in inside.args]
                rest = (*state.terms[:place], *state.terms[place + 1 :])  # a term may be there twice
                return [state._replace(terms=(*rest, minus(term, part), log)) for log in logs]
    return [state]


def _is_recognised(branch: Branch, state: State) -> bool:
    """All that it draws is returned, none of it is flat, and fewer expressions are returned, or of fewer draws."""
    value = frozenset().union(*(node.leaves for node in nodes_of(branch.value)))
    frozen = {draw.leaf for draw in state.frozen}
    drawn = [draw for draw in branch.draws if draw.leaf not in frozen]
    before, after = (len(list(_expressions(value))) for value in (state.value, branch.value))
    simpler = not before or after < before or (after == before and len(drawn) < len(state.waiting))
    return simpler and all(draw.leaf in value and not is_base_measure(draw.distribution) for draw in drawn)


def _expressions(value: Returned) -> Iterator[tuple[Node, tuple[Index, ...]]]:
    """What is returned and is more than a draw: numbers, and entries of arrays with their indices."""
    if isinstance(value, tuple) and not isinstance(value, Items):
        for part in value:
            yield from _expressions(part)
        return
    over, node = value if isinstance(value, Items) else ((), value)
    if node.leaves and node.kind not in ("get", "const") and node.free == set(over):
        yield node, over


# -- all draws ------------------------------------------------------------------------------------------------------


def _integrated(state: State) -> list[State]:
    """All draws that are not returned integrated out, in the order that leaves fewest where there are few."""
    state = with_facts(state)
    kept = state.kept
    best: list[State] | None = None
    for draw in sorted(reversed(state.waiting), key=lambda draw: _order(state, draw)):
        if draw.leaf in kept:
            continue
        try:
            cases = _attempts_by_sign(state, draw)
        except NoClosedForm:
            continue
        states = [done for case in cases for done in _integrated(case)]
        if best is None or _hidden(states) < _hidden(best):
            best = states
        if not _hidden(best) or len(state.waiting) > SEARCHED:
            return best
    return [state] if best is None else best


def _hidden(states: list[State]) -> int:
    """How many draws remain that are not returned."""
    return sum(draw.leaf not in state.kept for state in states for draw in state.waiting)


def _attempts_by_sign(state: State, draw: DrawStatement) -> list[State]:
    """A draw integrated out; where its size is asked for, below and above zero."""
    try:
        return attempts(state, draw, keep=False)
    except NoClosedForm:
        halves = by_sign(state, draw.leaf)
        if len(halves) < 2:
            raise
        return [done for half in halves for done in attempts(half, draw, keep=False)]


def _order(state: State, draw: DrawStatement) -> int:
    """Locations first; what is cut off somewhere after all others."""
    leaf = draw.leaf
    if leaf.is_simplex:
        return ORDER["simplex"]
    if leaf.is_integer:
        return ORDER["whole"]
    if leaf.low is None and leaf.high is None:
        return ORDER["cut" if any(leaf in limit.leaves for limit in state.limits) else "real"]
    return ORDER["other"]


def _recognised(state: State) -> list[State]:
    """The conditionals of all remaining draws, the last one given the others."""
    state = with_facts(state)
    for draw in reversed(state.waiting):
        if _is_needed(state, draw.leaf):
            continue
        try:
            cases = attempts(state, draw, keep=True)
        except NoClosedForm:
            continue
        return [done for case in cases for done in _recognised(case)]
    return [state]


def _is_needed(state: State, leaf: Leaf) -> bool:
    """The distribution of another draw that waits is written with it, and could not be written without."""
    return any(leaf in other.distribution.leaves and state.priors[other.leaf] in state.terms for other in state.waiting)
