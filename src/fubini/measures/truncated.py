"""Integrals between two ends: the whole integral of a family, times its mass there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from fubini.algebra.binding import replaced
from fubini.algebra.build import ONE, ZERO, add, index, less, times, where
from fubini.algebra.features import NoClosedForm, monomials
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.ranges import bounds, exceeds_zero
from fubini.algebra.sums import total
from fubini.algebra.tidy import tidied
from fubini.families.family import family_of
from fubini.families.functions import INFINITY
from fubini.families.parameters import REAL
from fubini.families.signature import Recognised
from fubini.integrate.elimination import Eliminated, eliminated, require_inside
from fubini.integrate.finite import tests
from fubini.integrate.ratio import summed_by_ratio
from fubini.integrate.tails import UNNAMED
from fubini.measures.draw_density import DrawDistribution
from fubini.measures.interval_mass import exponential_node
from fubini.measures.standard import Case

Terms = Sequence[Node]
At = tuple[Index, ...]


class Cut(NamedTuple):
    """The remaining weight, and the distribution between the ends where it has a name."""

    result: Eliminated
    distribution: DrawDistribution | None = None


def _at_result(low: Node, high: Node, at: At, result: Eliminated) -> tuple[Node, Node]:
    """Ends at the indices of a result."""
    names = {index(i): index(j) for i, j in zip(at, result.at, strict=True)}
    return replaced(low, names), replaced(high, names)


def _with_mass(result: Eliminated, log_mass: Node) -> Eliminated:
    """A result cut to a part, of a distribution without a name."""
    whole = add(((result.distribution.log_normaliser, 1.0), (log_mass, 1.0)))
    distribution = Recognised(UNNAMED, {}, whole)
    return result._replace(terms=(*result.terms, total(result.at, log_mass)), distribution=distribution)


# -- numbers --------------------------------------------------------------------------------------------------------

DOMAINS = {"real": (-math.inf, math.inf), "positive": (0.0, math.inf), "unit": (0.0, 1.0)}


def cut(domain: str, terms: Terms, case: Case, at: At) -> Cut:
    """∫ between two ends  =  the integral over a domain that they are in, times the mass of its family between them"""
    leaf = case.leaf
    low, high = case.low or REAL.low, case.high or REAL.high
    least, most = DOMAINS[domain]
    if bounds(low)[0] < least or bounds(high)[1] > most:
        raise NoClosedForm(leaf, ZERO, f"{domain} numbers")
    result = eliminated(terms, leaf, domain)
    record = family_of(result.distribution.family)
    given = {name: tidied(part) for name, part in result.distribution.parameters.items()}
    if record.log_mass is None or not all(map(exceeds_zero, record.finite_needs(given))):
        raise NoClosedForm(
            leaf, result.distribution.log_normaliser, "a finite integral, of a family whose masses are known"
        )
    low, high = _at_result(low, high, at, result)
    log_mass = record.log_mass(given, low, high)
    if record.truncated is None:
        return Cut(_with_mass(result, log_mass))
    distribution = DrawDistribution(record.truncated, (*(given[name] for name in record.parameters), low, high))
    return Cut(result._replace(terms=(*result.terms, total(result.at, log_mass))), distribution)


def exponential_cut(terms: Terms, leaf: Leaf) -> Eliminated:
    """∫ e^(c u) du from 0 to 1  =  (e^c − 1)/c"""
    rest = tuple(term for term in terms if leaf not in term.leaves)
    log_density = add((term, 1.0) for term in terms if leaf in term.leaves)
    at = tuple(Index(size, "i") for size in leaf.shape)
    slopes: list[Node] = []
    outside: list[Node] = []
    for monomial in monomials(log_density, leaf):
        feature, *others = monomial.features or (None,)
        if feature is None:
            outside.append(total(monomial.over, monomial.coefficient))
            continue
        if others or (feature.kind, feature.power) != ("power", 1.0):
            raise NoClosedForm(leaf, log_density, "an exponential of it")
        require_inside(feature.place, monomial.coefficient, leaf)
        slopes.append(total(monomial.over, times(monomial.coefficient, tests(feature.place, at))))
    value = exponential_node(tidied(add((slope, 1.0) for slope in slopes)))
    return Eliminated((*rest, *outside, total(at, value)), at, Recognised(UNNAMED, {}, value))


# -- counts ---------------------------------------------------------------------------------------------------------


def count_cut(terms: Terms, case: Case, at: At) -> Eliminated:
    """Σ_{k ≥ m} λ^k e^(−λ)/k! is the mass of Gamma(m, 1) below λ; of a negative binomial, that of Beta(m, r) below ρ"""
    leaf = case.leaf
    if case.low is None or case.high is not None or bounds(case.low)[0] < 0:
        raise NoClosedForm(leaf, ZERO, "counts from a least one on")
    rest = tuple(term for term in terms if leaf not in term.leaves)
    counted = summed_by_ratio(add((term, 1.0) for term in terms if leaf in term.leaves), leaf)
    distribution = counted.distribution
    result = Eliminated(
        (*rest, *counted.outside, total(counted.at, distribution.log_normaliser)), counted.at, distribution
    )
    log_tail = family_of(distribution.family).log_tail
    if log_tail is None:
        raise NoClosedForm(leaf, distribution.log_normaliser, "a tail of a known family")
    low, _ = _at_result(case.low, INFINITY, at, result)
    tail = log_tail({name: tidied(part) for name, part in distribution.parameters.items()}, low)
    return _with_mass(result, where(less(low, ONE), ZERO, tail))
