"""Latents between two ends: a power of it, or the whole integral of a family, times its mass there.

∫ x^p dx from a to b       =  (b^(p+1) − a^(p+1)) / (p + 1),  with b = ∞ a Pareto
∫ exp f(x) dx from a to b  =  ∫ exp f(x) dx · P(a < x < b),  where the family of exp f knows its masses

An end that many data set is the greatest, or the least, of theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fubini.algebra.binding import closed, replaced
from fubini.algebra.build import (
    ONE,
    ZERO,
    add,
    as_product,
    call,
    const,
    index,
    less,
    minus,
    negate,
    scale,
    times,
    where,
)
from fubini.algebra.features import Divergent, NoClosedForm, Place
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.ranges import bounds, exceeds_zero
from fubini.algebra.sums import total
from fubini.families.family import family_of, is_divergent, recognise
from fubini.families.functions import MINUS_INFINITY, UNDEFINED
from fubini.families.parameters import POSITIVE, REAL, UNIT, Support
from fubini.families.signature import LOG, Recognised
from fubini.integrate.elimination import Eliminated, eliminated, feature_sums
from fubini.integrate.finite import bodies, solving, tests

ENDS = {"real": REAL, "positive": POSITIVE, "unit": UNIT}


class Cut(NamedTuple):
    """The terms without tests of a latent, and the ends of its entries at indices `at`."""

    terms: tuple[Node, ...]
    at: tuple[Index, ...]
    low: Node
    high: Node


def eliminate_between(terms: Sequence[Node], latent: Leaf, domain: str, is_plain: bool = False) -> Eliminated:
    """log ∫ exp(Σ terms) d latent between its ends; of terms without it, their length."""
    cut = cut_of(terms, latent, ENDS[domain])
    if not any(latent in term.leaves for term in cut.terms):
        distribution = recognise("flat", cut.low, cut.high)
        if distribution is None:
            raise NoClosedForm(latent, add((term, 1.0) for term in terms), "two ends that are numbers")
        return Eliminated((*cut.terms, total(cut.at, distribution.log_normaliser)), cut.at, distribution)
    try:
        return _power_between(cut, latent)
    except Divergent:
        raise
    except NoClosedForm:
        pass
    result = eliminated(cut.terms, latent, "real", is_plain)
    record, given = family_of(result.distribution.family), result.distribution.parameters
    if record.log_mass is None or record.truncated is None:
        raise NoClosedForm(latent, result.distribution.log_normaliser, "a family whose masses between ends are known")
    names = {index(i): index(j) for i, j in zip(cut.at, result.at, strict=True)}
    low, high = replaced(cut.low, names), replaced(cut.high, names)
    mass = _defined(record.log_mass(given, low, high), record.finite_needs(given))
    normaliser = add(((result.distribution.log_normaliser, 1.0), (mass, 1.0)))
    ends = {name: end for name, end in (("low", low), ("high", high)) if end not in (REAL.low, REAL.high)}
    distribution = Recognised(record.truncated, {**given, **ends}, normaliser)
    return result._replace(terms=(*result.terms, total(result.at, mass)), distribution=distribution)


def _power_between(cut: Cut, latent: Leaf) -> Eliminated:
    """log ∫ x^p dx between ends that are not negative"""
    rest = tuple(term for term in cut.terms if latent not in term.leaves)
    with_latent = add((term, 1.0) for term in cut.terms if latent in term.leaves)
    coefficients, outside = feature_sums(with_latent, latent, cut.at)
    distribution = recognise("power", coefficients[LOG], cut.low, cut.high) if set(coefficients) == {LOG} else None
    if distribution is None or bounds(cut.high)[1] <= 0 or cut.low is REAL.low:
        raise NoClosedForm(latent, with_latent, "a power of it between two ends that are not negative")
    if is_divergent(distribution):
        raise Divergent(latent, with_latent)
    return Eliminated((*rest, *outside, total(cut.at, distribution.log_normaliser)), cut.at, distribution)


def _defined(value: Node, needs: Sequence[Node]) -> Node:
    """Not a number where the whole integral is infinite, though that between the ends is not."""
    for need in needs:
        if not exceeds_zero(need):
            value = where(less(ZERO, need), value, UNDEFINED)
    return value


# -- tests that are ends --------------------------------------------------------------------------------------------


def cut_of(terms: Sequence[Node], latent: Leaf, ends: Support) -> Cut:
    """Σ_i (f if low ≤ x[i] ≤ high else −∞)  as  Σ_i f, and the ends."""
    at = tuple(Index(size, "i") for size in latent.shape)
    low = ends.low if latent.low is None else call("max", ends.low, const(latent.low))
    high = ends.high if latent.high is None else call("min", ends.high, const(latent.high))
    remaining: list[Node] = []
    for term in terms:
        if latent not in term.leaves:
            remaining.append(term)
            continue
        parts: list[tuple[Node, float]] = []
        for over, given, body, coefficient in _bodies_that_count(term, latent):
            inside = _inside(body, latent)
            if inside is None:
                parts.append((total(over, where(given, body, ZERO)), coefficient))
                continue
            if coefficient <= 0:
                raise NoClosedForm(latent, body, "a test that leaves values out")
            test, density = inside
            possible, limits = _limits(test, latent, ends)
            for limit in limits:
                none = REAL.low if limit.is_low else REAL.high
                end = _strictest(limit._replace(end=where(given, limit.end, none)), over, at)
                low, high = (call("max", low, end), high) if limit.is_low else (low, call("min", high, end))
            known, varying = _split(density, latent)
            parts.append((total(over, where(given, where(possible, known, MINUS_INFINITY), ZERO)), coefficient))
            parts.append((total(over, where(given, varying, ZERO)), coefficient))
        remaining.append(add(parts))
    return Cut(tuple(term for term in remaining if term is not ZERO), at, low, high)


def _bodies_that_count(term: Node, latent: Leaf) -> Iterator[tuple[tuple[Index, ...], Node, Node, float]]:
    """A term as Σ coefficient · Σ_J (body if test else 0), where the tests do not depend on the latent."""
    for over, body, coefficient in bodies(term, latent):
        if body.kind != "where" or latent in body.args[0].leaves or ZERO not in body.args[1:]:
            yield over, ONE, body, coefficient
            continue
        test, first, second = body.args
        given, inside = (test, first) if second is ZERO else (negate(test), second)
        for inner, part, more in bodies(inside, latent):
            yield (*over, *inner), given, part, coefficient * more


def _inside(body: Node, latent: Leaf) -> tuple[Node, Node] | None:
    """The test and the value of `value if test else −∞`, where the test depends on the latent."""
    if body.kind != "where" or latent not in body.args[0].leaves:
        return None
    test, first, second = body.args
    if MINUS_INFINITY not in (first, second):
        raise NoClosedForm(latent, body, "a test that leaves values out")
    return (test, first) if second is MINUS_INFINITY else (negate(test), second)


def _split(density: Node, latent: Leaf) -> tuple[Node, Node]:
    """The terms of a sum without the latent, and those with it."""
    terms = density.args if density.kind == "add" else ((density, 1.0),)
    return tuple(add(item for item in terms if (latent in item[0].leaves) is has) for has in (False, True))  # type: ignore[return-value]


class Limit(NamedTuple):
    """end < x[place], or x[place] < end"""

    place: Place
    end: Node
    is_low: bool


def _limits(test: Node, latent: Leaf, ends: Support) -> tuple[Node, list[Limit]]:
    """The limits that a product of inequalities sets to entries; and a test of the others, and that values are left."""
    coefficient, factors = as_product(test)
    if coefficient != 1:
        raise NoClosedForm(latent, test, "inequalities of its entries")
    possible, limits = ONE, list[Limit]()
    for factor in factors:
        if latent not in factor.leaves:
            possible = times(possible, factor)
            continue
        is_negated = factor.kind == "where" and factor.args[1:] == (ZERO, ONE)
        inequality = factor.args[0] if is_negated else factor
        if inequality.kind != "lt":
            raise NoClosedForm(latent, test, "inequalities of its entries")
        entry, end, is_above = _entry_and_end(inequality, latent)
        limit = Limit(entry.args[1:], end, is_above is not is_negated)
        possible = times(possible, less(end, ends.high) if limit.is_low else less(ends.low, end))
        limits.append(limit)
    return possible, limits


def _strictest(limit: Limit, over: tuple[Index, ...], at: tuple[Index, ...]) -> Node:
    """The end of x[at]: max_J of lower ends e(J), or min_J of upper ones, where there are several."""
    names = solving(limit.place, over, at)
    if names is not None:
        return replaced(limit.end, names)
    sign = 1.0 if limit.is_low else -1.0
    each = where(tests(limit.place, at), scale(sign, limit.end), REAL.low)
    return scale(sign, closed("greatest", over, each) if over else each)


def _entry_and_end(inequality: Node, latent: Leaf) -> tuple[Node, Node, bool]:
    """x and e of e < x, or of x < e, from a x + b < c x + d; whether it is the former."""
    gap = minus(inequality.args[1], inequality.args[0])
    terms = dict(gap.args) if gap.kind == "add" else {gap: 1.0}
    entries = [part for part in terms if latent in part.leaves]
    if len(entries) != 1 or entries[0].kind != "get" or entries[0].args[0] is not latent:
        raise NoClosedForm(latent, inequality, "an inequality that is linear in one of its entries")
    slope = terms.pop(entries[0])
    return entries[0], scale(-1.0 / slope, add(terms.items())), slope > 0
