"""One draw of a state integrated out: its ends from the inequalities, a standard form, then recognition."""

from __future__ import annotations

from fubini.algebra.binding import replaced, transformed
from fubini.algebra.build import ZERO, add, index, scale
from fubini.algebra.features import NoClosedForm
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.sums import total
from fubini.algebra.tidy import tidied
from fubini.families.parameters import Support
from fubini.integrate.elimination import eliminated
from fubini.integrate.ratio import zeros_of
from fubini.measures.branch import DrawStatement
from fubini.measures.draw_density import DrawDistribution
from fubini.measures.flat import flat_distribution, is_base_measure, is_constant, uniform_distribution
from fubini.measures.inequalities import Ends, Limit, ends_of
from fubini.measures.integrals import Integral, distribution_of, integral, require_untested
from fubini.measures.standard import Case, cases, standard_form, through_standard
from fubini.measures.state import State
from fubini.measures.zeros import require_no_zeros, without_zeros


def attempts(state: State, draw: DrawStatement, keep: bool) -> list[State]:
    """The draw integrated out, in each case of its ends; if it is kept, with its conditional given those that wait."""
    leaf = draw.leaf
    require_no_zeros(state, leaf)
    if leaf.is_simplex:
        require_untested(state, leaf)
        return [_after(state, Integral(eliminated(state.terms, leaf, "simplex")), draw, None, keep)]
    at = tuple(Index(size) for size in leaf.shape)
    if leaf.is_integer and leaf.low is not None and leaf.high is not None:
        state = _with_tests(state, leaf, at)
    ends = ends_of(leaf, at, state.limits)
    if leaf.is_integer:
        ends = _unknown_ends(state, leaf, ends)
    states: list[State] = []
    rest = tuple(limit for limit in state.limits if leaf not in limit.leaves)
    for case in cases(leaf, ends):
        if leaf.is_integer and case.low is not None and case.low is case.high:
            states.append(_at_value(state._replace(limits=(*rest, *case.limits)), leaf, at, case.low))
            continue
        standard = standard_form(leaf, at, case)
        new = state._replace(limits=(*rest, *case.limits))
        if standard.leaf is not leaf or standard.log_slope is not ZERO:
            entry = through_standard(standard, at)
            terms = [transformed(term, leaf, entry) for term in state.terms]
            tests = [test._replace(node=transformed(test.node, leaf, entry)) for test in state.tests]
            new = new._replace(terms=(*terms, total(at, standard.log_slope)), tests=tuple(tests))
        states.append(_after(new, integral(state.terms, new, standard, case, at), draw, (case, at), keep))
    return [new for new in states if not new.is_impossible]


def _with_tests(state: State, leaf: Leaf, at: tuple[Index, ...]) -> State:
    """Inequalities that cannot be solved for a number of few values as tests, which hold or not at each."""
    unsolved = [limit for limit in state.limits if leaf in limit.leaves and not _is_solved(leaf, at, limit)]
    limits = tuple(limit for limit in state.limits if limit not in unsolved)
    return state._replace(limits=limits, tests=(*state.tests, *(limit.test for limit in unsolved)))


def _is_solved(leaf: Leaf, at: tuple[Index, ...], limit: Limit) -> bool:
    try:
        ends_of(leaf, at, [limit])
    except NoClosedForm:
        return False
    return True


def _at_value(state: State, leaf: Leaf, at: tuple[Index, ...], value: Node) -> State:
    """The one value that a whole number has, in its place."""

    def entry(*places: Node) -> Node:
        return replaced(value, {index(i): place for i, place in zip(at, places, strict=True)})

    return without_zeros(state.without(leaf).mapped(lambda node: transformed(node, leaf, entry)))


def _unknown_ends(state: State, leaf: Leaf, ends: Ends) -> Ends:
    """Without those ends beyond which the density is zero anyway: 1/k! and 1/(n − k)! know theirs."""
    try:
        known = zeros_of(add((term, 1.0) for term in state.terms if leaf in term.leaves), leaf, ends.at)
    except NoClosedForm:
        return ends
    lows = [low for low in ends.lows if low not in known.lows]
    highs = [high for high in ends.highs if high not in known.highs]
    if lows or highs or ZERO not in known.lows:
        return ends
    return Ends(ends.at, (ZERO,), (), ends.limits)


# -- the remaining state --------------------------------------------------------------------------------------------


def _after(
    state: State, integrated: Integral, draw: DrawStatement, through: tuple[Case, tuple[Index, ...]] | None, keep: bool
) -> State:
    result = integrated.result
    terms = tuple(term for term in map(tidied, result.terms) if term is not ZERO)
    gone = {draw.leaf, *(() if integrated.standard is None else (integrated.standard.leaf,))}
    tests = tuple(test for test in state.tests if not test.node.leaves & gone)
    priors = {leaf: tidied(prior) for leaf, prior in state.priors.items()}
    new = state.without(draw.leaf)._replace(terms=terms, tests=tests, priors=priors)
    if not keep:
        return new
    batch = result.at[: len(draw.at)]
    if through is None or integrated.standard is None:
        return new._replace(
            recognised=(
                *new.recognised,
                DrawStatement(draw.leaf, batch, integrated.distribution or distribution_of(result, draw.leaf)),
            )
        )
    case, at = through
    plain = integrated.distribution or _on_interval(distribution_of(result, draw.leaf), case, at, batch)
    if plain is not None:
        mass = (scale(-1.0, total(batch, result.distribution.log_normaliser)),) if is_base_measure(plain) else ()
        return new._replace(
            recognised=(*new.recognised, DrawStatement(draw.leaf, batch, plain)), terms=(*new.terms, *mass)
        )
    if integrated.standard.leaf is not draw.leaf:
        entry = through_standard(integrated.standard, at)
        new = new.mapped(lambda node: transformed(node, draw.leaf, entry))
    return new._replace(
        recognised=(*new.recognised, DrawStatement(integrated.standard.leaf, batch, distribution_of(result, draw.leaf)))
    )


def _on_interval(
    distribution: DrawDistribution, case: Case, at: tuple[Index, ...], batch: tuple[Index, ...]
) -> DrawDistribution | None:
    """What is flat is so on the interval as it was."""
    names = {index(i): index(j) for i, j in zip(at, batch, strict=True)}
    low, high = (None if end is None else replaced(end, names) for end in (case.low, case.high))
    if low is None or high is None:
        return None
    if case.leaf.is_integer:
        return flat_distribution(Support(low, high, True)) if is_base_measure(distribution) else None
    return uniform_distribution(low, high) if is_constant(distribution) else None
