"""Integrals and expectations of functions under a measure, also of functions that take both signs: ∫ f dM.

What f depends on is recognised, one draw given those before it; the expectation is taken from the last to the first,
E[f] = E[E[f | x]], of a polynomial by moments. Factors of f that are not negative weigh the measure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from fubini.algebra.binding import replaced, transformed
from fubini.algebra.build import (
    ONE,
    ZERO,
    call,
    factors_in,
    get,
    index,
    less,
    minus,
    multiply,
    plus,
    scale,
    times,
    where,
)
from fubini.algebra.features import NoClosedForm
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.polynomial import expanded
from fubini.algebra.ranges import is_not_negative
from fubini.algebra.sums import total
from fubini.algebra.tidy import tidied
from fubini.algebra.walk import walk
from fubini.errors import DomainError, Intractable
from fubini.families.family import family_of
from fubini.families.functions import MINUS_INFINITY, exponential
from fubini.families.parameters import Vector
from fubini.measures.added_draws import with_sums
from fubini.measures.allowed import AllowedParameters
from fubini.measures.branch import Branch, DrawStatement, Items, Returned, Test
from fubini.measures.draw_density import is_of_numbers
from fubini.measures.finish import finished, log_of_sum
from fubini.measures.finite_draws import drawn_in, enumerated
from fubini.measures.inequalities import limits_of
from fubini.measures.known_values import Check
from fubini.measures.language import given_back
from fubini.measures.mass import log_mass
from fubini.measures.measure import Measure
from fubini.measures.moments_of_draws import expected_over
from fubini.measures.simplify import simplified_branches
from fubini.measures.state import State, state_of
from fubini.measures.values import Number, as_number
from fubini.measures.weighted_polynomials import unless_zero, weighted_polynomials

Function = Callable[..., Any]
ROUNDING = 1e-12  # of the sum of weights


class Part(NamedTuple):
    """A summand [tests] e^log_weight value of an integral."""

    tests: tuple[Node, ...]
    log_weight: Node
    value: Node

    @property
    def log_mass(self) -> Node:
        """Its logarithm, where its value is not negative."""
        log = self.log_weight if self.value is ONE else plus(self.log_weight, call("log", self.value))
        return where(times(*self.tests), log, MINUS_INFINITY) if self.tests else log

    def over(self, log_mass: Node) -> Node:
        """Divided by a mass, which counts where the tests hold."""
        log = replaced(minus(self.log_weight, log_mass), dict.fromkeys(self.tests, ONE))
        return times(*self.tests, exponential(tidied(log)), self.value)


def integrate_under(measure: Measure, function: Function) -> Number:
    """∫ f dM, which is not divided by the mass of M.

    >>> from fubini.measures import Normal, superpose
    >>> integrate_under(superpose((2, Normal(1, 1)), Normal(-5, 1)), lambda x: x)
    −3
    """
    parts, checks = _integral(measure, function)
    return Number(_plain(plus(*(part.over(ZERO) for part in parts))), checks)


def expect_under(measure: Measure, function: Function) -> Number:
    """E[f] = ∫ f dM / ∫ 1 dM.

    >>> from fubini.measures import Gamma, symbol
    >>> expect_under(Gamma(symbol("a", kind="positive"), 2), lambda x: x**2 - 3 * x)
    0.25 a² − 1.25 a
    """
    parts, checks = _integral(measure, function)
    masses = [part.log_mass for part in _integral(measure, lambda *_: 1)[0] if part.value is not ZERO]
    if not masses:
        raise DomainError(
            f"an expectation under a measure without mass:\n{measure}",
            expected="a positive mass",
            advice="integrate(measure, function) does not divide by the mass",
        )
    whole = tidied(log_of_sum(masses))
    return Number(_plain(plus(*(part.over(whole) for part in parts))), checks)


def _plain(of: Node) -> Node:
    """Tidied, and multiplied out where that is shorter."""
    return min((tidied(of), tidied(expanded(of))), key=lambda one: sum(1 for _ in walk(one)))


def _integral(measure: Measure, function: Function) -> tuple[list[Part], list[Check]]:
    """The summands of ∫ f dM, and what is checked of symbols in it."""
    parts: list[Part] = []
    checks = [*measure.checks]
    for branch in measure.branches:
        values = given_back(branch.value)
        number = as_number(function(*values) if isinstance(values, tuple) else function(values))
        checks.extend(number.checks)
        written = state_of(branch._replace(value=number.node))
        checks.append(AllowedParameters(written))
        try:
            for state in enumerated([with_sums(written)]):
                assert isinstance(state.value, Node)
                parts.extend(_parts(state, state.value))
        except NoClosedForm as error:
            raise Intractable(
                f"the integral of {number} under a measure",
                expected="draws that have closed forms, and a function of them that their moments decide",
                nearest=str(error),
                advice="simplify(measure) shows what remains",
            ) from error
    return parts, checks


# -- one state ------------------------------------------------------------------------------------------------------


def _parts(state: State, value: Node) -> Iterator[Part]:
    for case in weighted_polynomials(state, value):
        weighted = case.state._replace(terms=(*case.state.terms, *unless_zero(case.log_weight)))
        try:
            parts = _by_moments(weighted, case.polynomial)
        except NoClosedForm as error:
            parts = _by_weights(weighted, case.polynomial, error)
        yield from parts


# -- by moments -----------------------------------------------------------------------------------------------------


def _by_moments(state: State, polynomial: Node) -> list[Part]:
    """E[… E[P | x_1 … x_(n−1)] …]: of the draws in P, as they were written, or of all draws, the first that works"""
    every = [draw.leaf for draw in (*state.waiting, *state.frozen)]
    own = [leaf for leaf in every if leaf in polynomial.leaves]
    if not own:
        return list(_masses(state, polynomial))
    blocked: NoClosedForm | None = None
    for leaves, branches in ((own, simplified_branches), (own, _as_written), (every, simplified_branches)):
        returning = state._replace(value=tuple(map(_all_of, leaves)))
        try:
            return [_conditional_mean(branch, leaves, polynomial) for branch in branches(returning)]
        except NoClosedForm as error:
            blocked = blocked or error
    assert blocked is not None
    raise blocked


def _conditional_mean(branch: Branch, leaves: list[Leaf], polynomial: Node) -> Part:
    """P over the draws of a branch, which returns the leaves that P is of, from the last to the first"""
    _require_recognised(branch, leaves[0])
    assert isinstance(branch.value, tuple)
    value = polynomial
    for leaf, new in zip(leaves, branch.value, strict=True):
        value = transformed(value, leaf, lambda *places, new=new: _entry(new, places))
    for draw in reversed(branch.draws):
        value = _over(draw, value)
    return Part(tuple(test.node for test in branch.tests), branch.weight, value)


def _as_written(state: State) -> list[Branch]:
    """The draws in the order of the program, which have mass 1 each."""
    for draw in state.waiting:
        weights = None if is_of_numbers(draw.distribution) or draw.leaf.is_simplex else draw.distribution.parameters[0]
        mass = total([weights.over], weights.entry) if isinstance(weights, Vector) else ONE
        if mass.kind != "const" or abs(mass.args[0] - 1) > ROUNDING:
            raise NoClosedForm(draw.leaf, mass, "weights that add up to 1")
    return [finished(state)]


def _masses(state: State, value: Node) -> Iterator[Part]:
    """The mass of all draws, times a value that does not depend on them"""
    branches = simplified_branches(state._replace(value=()))
    for branch in branches:
        weight = log_mass(branch)
        if weight is None:
            draw = branch.draws[-1]
            raise NoClosedForm(draw.leaf, branch.weight, f"draws that have closed forms in\n{Measure((branch,))}")
        yield Part(tuple(test.node for test in branch.tests), weight, value)


def _all_of(leaf: Leaf) -> Returned:
    """All entries of a leaf."""
    over = tuple(Index(size) for size in leaf.shape)
    return Items(over, get(leaf, *map(index, over))) if over else get(leaf)


def _entry(value: Returned, places: tuple[Node, ...]) -> Node:
    if isinstance(value, Node):
        return value
    assert isinstance(value, Items)
    return replaced(value.entry, {index(i): place for i, place in zip(value.over, places, strict=True)})


def _require_recognised(branch: Branch, leaf: Leaf) -> None:
    """All draws have distributions of mass 1, and nothing else depends on them."""
    drawn = set(branch.drawn)
    for draw in branch.draws:
        if is_of_numbers(draw.distribution) and not family_of(draw.distribution.family).is_probability:
            raise NoClosedForm(draw.leaf, branch.weight, f"a distribution that has a name in\n{Measure((branch,))}")
    if branch.weight.leaves & drawn or any(test.over or test.node.leaves & drawn for test in branch.tests):
        raise NoClosedForm(leaf, branch.weight, f"draws that have closed forms in\n{Measure((branch,))}")


def _over(draw: DrawStatement, value: Node) -> Node:
    """E[v] over one draw; of what is no polynomial, under the distribution that its factors make."""
    try:
        return expected_over(draw, value)
    except NoClosedForm:
        if draw.at or draw.distribution.is_opaque:
            raise
        state = state_of(Branch((draw,), (), ZERO, value))
        cases = weighted_polynomials(state, value)
        if all(case.log_weight is ZERO and len(case.state.limits) == len(state.limits) for case in cases):
            raise
        return tidied(plus(*(part.over(ZERO) for part in _parts(state, value))))


# -- by weights -----------------------------------------------------------------------------------------------------


def _by_weights(state: State, polynomial: Node, blocked: NoClosedForm) -> list[Part]:
    """Σ c ∫ x^k dM, with x^k as a weight, on both sides of 0 where it takes both signs; else what blocked moments"""
    try:
        return list(_weighted_masses(state, polynomial, blocked))
    except NoClosedForm:
        raise blocked from None


def _weighted_masses(state: State, polynomial: Node, blocked: NoClosedForm) -> Iterator[Part]:
    drawn = drawn_in(state)
    terms = expanded(polynomial)
    for product, c in terms.args if terms.kind == "add" else ((terms, 1.0),):
        inside = [(base, e) for base, e in factors_in(product) if base.leaves & drawn]
        outside = scale(c, multiply(item for item in factors_in(product) if item not in inside))
        for one, log_size, sign in _signs(state, inside, blocked):
            weighted = one._replace(terms=(*one.terms, *unless_zero(log_size)))
            yield from _masses(weighted, scale(sign, outside))


def _signs(
    state: State, factors: list[tuple[Node, float]], blocked: NoClosedForm
) -> Iterator[tuple[State, Node, float]]:
    """A product of powers by the logarithm of its size and its sign, on each side of 0 of those that take both"""
    if not factors:
        yield state, ZERO, 1.0
        return
    (base, exponent), *others = factors
    if is_not_negative(base):
        for one, log_size, sign in _signs(state, others, blocked):
            yield one, plus(log_size, scale(exponent, call("log", base))), sign
        return
    if base.kind != "get" or exponent != int(exponent):
        raise blocked
    for test, size, own in ((less(ZERO, base), base, 1.0), (less(base, ZERO), scale(-1.0, base), (-1.0) ** exponent)):
        limits = limits_of(Test((), test), list(drawn_in(state))) or []
        half = state._replace(limits=(*state.limits, *limits))
        if not half.is_impossible:
            for one, log_size, sign in _signs(half, others, blocked):
                yield one, plus(log_size, scale(exponent, call("log", size))), own * sign
