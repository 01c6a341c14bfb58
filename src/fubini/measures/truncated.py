"""Integrals between two ends: the whole integral of a family, times its mass there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from fubini.families.functions import INFINITY
from fubini.families.signature import Recognised
from fubini.families.truncated_normal import log_normal_mass
from fubini.index.binding import replaced
from fubini.index.build import ONE, ZERO, add, const, divide, index, less, minus, power, times, where
from fubini.index.node import Index, Leaf, Node
from fubini.index.ranges import bounds, exceeds_zero
from fubini.index.sums import total
from fubini.measures.laws import Law
from fubini.measures.masses import beta_node, exponential_node, gamma_node
from fubini.measures.standard import Case
from fubini.symbolic.collect import Blocked, monomials
from fubini.symbolic.elimination import Eliminated, eliminated, require_inside
from fubini.symbolic.finite import tests
from fubini.symbolic.ratio import summed_by_ratio
from fubini.symbolic.tails import UNNAMED
from fubini.symbolic.tidy import tidied

Terms = Sequence[Node]
At = tuple[Index, ...]


class Cut(NamedTuple):
    """The remaining weight, and the distribution between the ends where it has a name."""

    result: Eliminated
    law: Law | None = None


def _ends(case: Case, at: At, result: Eliminated) -> tuple[Node | None, Node | None]:
    """Those of a case, at the indices of a result."""
    names = {index(i): index(j) for i, j in zip(at, result.at, strict=True)}
    low, high = (None if end is None else replaced(end, names) for end in (case.low, case.high))
    return low, high


def _with_mass(result: Eliminated, log_mass: Node) -> Eliminated:
    """A result of which a part is left, of a law without a name."""
    whole = add(((result.law.log_normaliser, 1.0), (log_mass, 1.0)))
    law = Recognised(UNNAMED, {}, whole)
    return result._replace(terms=(*result.terms, total(result.at, log_mass)), law=law)


def _require_positive(leaf: Leaf, result: Eliminated, *parts: Node) -> None:
    """The whole integral is finite."""
    if not all(map(exceeds_zero, parts)):
        raise Blocked(leaf, result.law.log_normaliser, "shapes and rates that are positive")


# -- numbers --------------------------------------------------------------------------------------------------------


def normal_cut(terms: Terms, case: Case, at: At) -> Cut:
    """∫ between two ends of a normal density"""
    leaf = case.leaf
    result = eliminated(terms, leaf, "real")
    if not exceeds_zero(power(result.law.parameters["scale"], -2.0)):
        raise Blocked(leaf, result.law.log_normaliser, "a density that falls on both sides")
    loc, scale = (tidied(result.law.parameters[name]) for name in ("loc", "scale"))
    ends, places = [const(-math.inf), INFINITY], [const(-math.inf), INFINITY]
    for which, end in enumerate(_ends(case, at, result)):
        if end is not None:
            ends[which] = end
            places[which] = divide(minus(end, loc), scale)
    law = Law("TruncatedNormal", (loc, scale, *ends))
    return Cut(result._replace(terms=(*result.terms, total(result.at, log_normal_mass(*places)))), law)


def gamma_cut(terms: Terms, case: Case, at: At) -> Cut:
    """∫ between two ends of a density of b x^p that is Gamma(a, 1)"""
    leaf = case.leaf
    if case.low is None or bounds(case.low)[0] < 0:
        raise Blocked(leaf, ZERO, "positive numbers")
    result = eliminated(terms, leaf, "positive")
    a, b, p = _as_gamma(leaf, result)
    _require_positive(leaf, result, a, b)
    low, high = _ends(case, at, result)
    ends = [ZERO if low in (None, ZERO) else _moved(low, b, p), INFINITY if high is None else _moved(high, b, p)]
    if p < 0:
        ends = [ZERO if high is None else ends[1], INFINITY if low in (None, ZERO) else ends[0]]
    return Cut(_with_mass(result, gamma_node(a, *ends)))


def _moved(end: Node | None, b: Node, p: float) -> Node:
    assert end is not None
    return times(b, power(end, p))


def _as_gamma(leaf: Leaf, result: Eliminated) -> tuple[Node, Node, float]:
    """Shape, rate and power"""
    given = {name: tidied(part) for name, part in result.law.parameters.items()}
    match result.law.family:
        case "Gamma":
            return given["concentration"], given["rate"], 1.0
        case "InverseGamma":
            return given["concentration"], given["rate"], -1.0
        case "GeneralizedGamma":
            return given["concentration"], given["rate"], given["power"].args[0]
        case "HalfNormal":
            return const(0.5), times(const(0.5), power(given["scale"], -2.0)), 2.0
    raise Blocked(leaf, result.law.log_normaliser, "a power of it that is a gamma variable")


def beta_cut(terms: Terms, case: Case, at: At) -> Cut:
    """∫ between two ends of a beta density"""
    leaf = case.leaf
    if case.low is None or case.high is None or bounds(case.low)[0] < 0 or bounds(case.high)[1] > 1:
        raise Blocked(leaf, ZERO, "numbers between 0 and 1")
    result = eliminated(terms, leaf, "unit")
    a, b = (tidied(result.law.parameters[name]) for name in ("concentration1", "concentration0"))
    _require_positive(leaf, result, a, b)
    low, high = _ends(case, at, result)
    assert low is not None and high is not None
    return Cut(_with_mass(result, beta_node(a, b, low, high)))


def exponential_cut(terms: Terms, leaf: Leaf) -> Eliminated:
    """∫ e^(c u) du from 0 to 1  =  (e^c − 1)/c"""
    rest = tuple(term for term in terms if leaf not in term.leaves)
    mine = add((term, 1.0) for term in terms if leaf in term.leaves)
    at = tuple(Index(size, "i") for size in leaf.shape)
    slopes: list[Node] = []
    outside: list[Node] = []
    for monomial in monomials(mine, leaf):
        feature, *others = monomial.features or (None,)
        if feature is None:
            outside.append(total(monomial.over, monomial.coefficient))
            continue
        if others or (feature.kind, feature.power) != ("power", 1.0):
            raise Blocked(leaf, mine, "an exponential of it")
        require_inside(feature.place, monomial.coefficient, leaf)
        slopes.append(total(monomial.over, times(monomial.coefficient, tests(feature.place, at))))
    value = exponential_node(tidied(add((slope, 1.0) for slope in slopes)))
    return Eliminated((*rest, *outside, total(at, value)), at, Recognised(UNNAMED, {}, value))


# -- counts ---------------------------------------------------------------------------------------------------------


def count_cut(terms: Terms, case: Case, at: At) -> Cut:
    """Σ_{k ≥ m} λ^k e^(−λ)/k! is the mass of Gamma(m, 1) below λ; of a negative binomial, that of Beta(m, r) below ρ"""
    leaf = case.leaf
    if case.low is None or case.high is not None or bounds(case.low)[0] < 0:
        raise Blocked(leaf, ZERO, "counts from a least one on")
    rest = tuple(term for term in terms if leaf not in term.leaves)
    counted = summed_by_ratio(add((term, 1.0) for term in terms if leaf in term.leaves), leaf)
    law = counted.law
    result = Eliminated((*rest, *counted.outside, total(counted.at, law.log_normaliser)), counted.at, law)
    low, _ = _ends(case, at, result)
    assert low is not None
    given = {name: tidied(part) for name, part in law.parameters.items()}
    if law.family == "Poisson":
        tail = gamma_node(low, ZERO, given["rate"])
    elif law.family == "NegativeBinomial":
        tail = beta_node(low, given["total_count"], ZERO, given["probs"])
    else:
        raise Blocked(leaf, law.log_normaliser, "a tail of a known family")
    return Cut(_with_mass(result, where(less(low, ONE), ZERO, tail)))
