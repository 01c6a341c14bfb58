"""States as branches again: remaining draws, plain leaves, one weight; and branches that are alike added."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from fubini.algebra.binding import closed, transformed
from fubini.algebra.build import ZERO, add, call, const, equal, get, index, plus, scale, where
from fubini.algebra.features import NoClosedForm
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.tidy import tidied
from fubini.algebra.walk import walk
from fubini.families.functions import INFINITY, exponential
from fubini.families.parameters import Support
from fubini.measures.branch import Branch, DrawStatement, fresh_like, renamed
from fubini.measures.draw_density import DrawDistribution
from fubini.measures.flat import flat_distribution, is_base_measure
from fubini.measures.inequalities import Limit, ends_of, numbers_around
from fubini.measures.measure import branch_key
from fubini.measures.single_draws import leaf_of
from fubini.measures.state import State
from fubini.measures.zeros import parts_of

ROUNDING = 1e-13  # of the logarithm of a weight that is a number
LARGE = 50.0
EPSILON = float(np.finfo(float).eps)


def finished(state: State) -> Branch:
    """A state as a branch: remaining draws as they were written, or flat ones under the weight."""
    draws: list[DrawStatement] = []
    terms, limits = list(state.terms), list(state.limits)
    gone = set(state.priors) - {draw.leaf for draw in state.waiting}
    for draw in state.waiting:
        prior = state.priors[draw.leaf]
        is_written = (prior is ZERO or prior in terms) and not draw.distribution.leaves & gone
        if is_written and not is_base_measure(draw.distribution):
            draws.append(draw)
            limits = [limit for limit in limits if limit.of is not draw.leaf]
            if prior in terms:
                terms.remove(prior)  # one of them: distributions without a common parameter may have the same constant
        else:
            distribution, limits = _flat(state, draw, limits)
            draws.append(DrawStatement(draw.leaf, draw.at, distribution))
    tests = [limit.test for limit in limits if not limit.holds]
    weight = _rounded(tidied(add((term, 1.0) for term in terms)), _size_of_numbers(terms))
    every = (*state.frozen, *draws, *reversed(state.recognised))
    branch = Branch(every, (*tests, *state.tests), weight, state.value)
    for fact in reversed(state.facts):
        branch = branch.mapped(lambda node, fact=fact: renamed(node, {fact.new: fact.old}))
        branch = branch._replace(tests=(*(limit.test for limit in fact.limits), *branch.tests))
    return with_plain_leaves(branch)


def _flat(state: State, draw: DrawStatement, limits: list[Limit]) -> tuple[DrawDistribution, list[Limit]]:
    """Flat between the ends that parameters alone decide, and the remaining inequalities; else between numbers."""
    drawn = {other.leaf for other in (*state.waiting, *state.recognised)}
    own = [limit for limit in limits if limit.leaves & drawn == {draw.leaf}]
    try:
        ends = ends_of(draw.leaf, draw.at, own)
    except NoClosedForm:
        ends = None
    if ends is None or len(ends.lows) > 1 or len(ends.highs) > 1 or ends.limits:
        return flat_distribution(numbers_around(draw.leaf)), limits
    low, high = (end[0] if end else none for end, none in ((ends.lows, const(-math.inf)), (ends.highs, INFINITY)))
    return flat_distribution(Support(low, high, draw.leaf.is_integer)), [limit for limit in limits if limit not in own]


def with_plain_leaves(branch: Branch) -> Branch:
    """Of what is drawn, no more is known than its distribution says."""
    names: dict[Leaf, Leaf] = {}
    for draw in branch.draws:
        distribution = draw.distribution.mapped(lambda node: renamed(node, names))
        one = draw.leaf if distribution.is_opaque else leaf_of(distribution, draw.leaf.name)
        names[draw.leaf] = one if distribution.is_opaque else fresh_like(one, shape=draw.leaf.shape)
    return branch.mapped(lambda node: renamed(node, names), names)


def _size_of_numbers(terms: Sequence[Node]) -> float:
    """The sum of the sizes of all numbers among terms: what is left of them is rounded as they are."""
    numbers = (scale(c, part) for term in terms for part, c in parts_of(term))
    return sum(abs(number.args[0]) for number in numbers if number.kind == "const")


def _rounded(weight: Node, size: float = 0.0) -> Node:
    """Without a number that is 0 but for rounding; and a fraction of small numbers where it is one but for rounding."""
    if weight.kind == "const" and abs(weight.args[0]) < 4 * EPSILON * size:
        return ZERO
    parts = dict(weight.args) if weight.kind == "add" else {}
    one = const(1.0)
    if abs(parts.get(one, 1.0)) < ROUNDING:
        return add((part, c) for part, c in weight.args if part is not one)
    if weight.kind != "const" or abs(weight.args[0]) > LARGE:
        return weight
    value = math.exp(weight.args[0])
    near = Fraction(value).limit_denominator(1000)
    return const(math.log(near)) if near and abs(near / Fraction(value) - 1) < ROUNDING / 10 else weight


# -- branches that are alike ----------------------------------------------------------------------------------------


def merged(branches: list[Branch]) -> tuple[Branch, ...]:
    """Branches that differ in their weights only, added."""
    alike: dict[tuple, tuple[Branch, list[Node]]] = {}
    for branch in branches:
        first, weights = alike.setdefault(branch_key(branch._replace(weight=ZERO)), (branch, []))
        weights.append(_weight_over(first, branch))
    return tuple(first._replace(weight=log_of_sum(weights)) for first, weights in alike.values())


def _weight_over(first: Branch, branch: Branch) -> Node:
    """The weight of a branch over the names of another."""
    weight = branch.weight
    for old, new in zip(branch.drawn, first.drawn, strict=True):
        weight = transformed(weight, old, lambda *at, new=new: get(new, *at))
    return weight


def log_of_sum(logs: Sequence[Node]) -> Node:
    """log Σ e^x"""
    if len(logs) == 1:
        return logs[0]
    numbers = [log.args[0] for log in logs if log.kind == "const"]
    counts = Counter(log for log in logs if log.kind != "const")
    parts = [plus(log, const(math.log(count))) for log, count in counts.items()]
    if numbers:
        parts.append(_rounded(const(float(np.logaddexp.reduce(numbers)))))
    if len(parts) == 1:
        return parts[0]
    plain = _rounded(tidied(call("log", plus(*map(exponential, parts)))))
    if not _has_exp(plain):
        return plain
    which = Index(len(parts))  # log Σ exp, which neither overflows nor vanishes
    body = parts[-1]
    for place in reversed(range(len(parts) - 1)):
        body = where(equal(index(which), const(float(place))), parts[place], body)
    return closed("lse", [which], body)


def _has_exp(of: Node) -> bool:
    """A power of e that stands by itself could be beyond all numbers."""
    return any(this.kind == "call" and this.args[0] == "exp" for this in walk(of))
