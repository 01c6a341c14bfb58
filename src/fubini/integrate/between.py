"""Latents between two ends: the whole integral of a family, times its mass there.

∫ exp f(x) dx from a to b  =  ∫ exp f(x) dx · P(a < x < b),  where the family of exp f knows its masses
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fubini.algebra.binding import replaced
from fubini.algebra.build import ONE, ZERO, add, as_product, call, const, index, less, negate, where
from fubini.algebra.features import NoClosedForm
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.ranges import exceeds_zero
from fubini.algebra.sums import total
from fubini.families.family import family_of, recognise
from fubini.families.functions import MINUS_INFINITY, UNDEFINED
from fubini.families.parameters import POSITIVE, REAL, UNIT, Support
from fubini.families.signature import Recognised
from fubini.integrate.elimination import Eliminated, eliminated
from fubini.integrate.finite import bodies, solving

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
    low = ends.low if latent.low is None else _larger(ends.low, const(latent.low))
    high = ends.high if latent.high is None else _smaller(ends.high, const(latent.high))
    remaining: list[Node] = []
    for term in terms:
        if latent not in term.leaves:
            remaining.append(term)
            continue
        parts: list[tuple[Node, float]] = []
        for over, body, coefficient in bodies(term, latent):
            inside = _inside(body, latent)
            if inside is None:
                parts.append((total(over, body), coefficient))
                continue
            test, density = inside
            if coefficient <= 0:
                raise NoClosedForm(latent, body, "a test that leaves values out")
            for end, is_low in _ends(test, latent, over, at):
                low, high = (_larger(low, end), high) if is_low else (low, _smaller(high, end))
            parts.append((total(over, density), coefficient))
        remaining.append(add(parts))
    return Cut(tuple(term for term in remaining if term is not ZERO), at, low, high)


def _inside(body: Node, latent: Leaf) -> tuple[Node, Node] | None:
    """The test and the value of `value if test else −∞`, where the test depends on the latent."""
    if body.kind != "where" or latent not in body.args[0].leaves:
        return None
    test, first, second = body.args
    if MINUS_INFINITY not in (first, second):
        raise NoClosedForm(latent, body, "a test that leaves values out")
    return (test, first) if second is MINUS_INFINITY else (negate(test), second)


def _ends(test: Node, latent: Leaf, over: tuple[Index, ...], at: tuple[Index, ...]) -> Iterator[tuple[Node, bool]]:
    """Each end that a product of inequalities sets to an entry, and whether it is the lower one."""
    coefficient, factors = as_product(test)
    if coefficient != 1:
        raise NoClosedForm(latent, test, "inequalities of its entries")
    for factor in factors:
        is_negated = factor.kind == "where" and factor.args[1:] == (ZERO, ONE)
        inequality = factor.args[0] if is_negated else factor
        if inequality.kind != "lt":
            raise NoClosedForm(latent, test, "inequalities of its entries")
        (entry, end), is_low = _entry_and_end(inequality, latent)
        names = solving(entry.args[1:], over, at)
        if names is None:
            raise NoClosedForm(latent, test, "each of its entries between two ends of its own")
        yield replaced(end, names), is_low is not is_negated


def _entry_and_end(inequality: Node, latent: Leaf) -> tuple[tuple[Node, Node], bool]:
    """x and e of e < x, or of x < e; whether it is the former."""
    for is_low, (end, entry) in ((True, inequality.args), (False, inequality.args[::-1])):
        if entry.kind == "get" and entry.args[0] is latent and latent not in end.leaves:
            return (entry, end), is_low
    raise NoClosedForm(latent, inequality, "an entry on one side of an inequality, without it on the other")


def _larger(low: Node, other: Node) -> Node:
    return other if low in (REAL.low, other) else low if other is REAL.low else call("max", low, other)


def _smaller(high: Node, other: Node) -> Node:
    return other if high in (REAL.high, other) else high if other is REAL.high else call("min", high, other)
