"""The unproduct: Π of the factors that mention an array latent, as e₀ · Π_i g(i, x[i]), and the integral of each g.

How the latent is indexed decides: at an index, at a constant, through a gather, under tests; what couples its entries
is blocked here, and is the business of a joint elimination.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from fubini.algebra.binding import replaced
from fubini.algebra.build import (
    ONE,
    ZERO,
    add,
    as_product,
    call,
    const,
    divide,
    factors_in,
    minus,
    multiply,
    plus,
    power,
    scale,
    times,
)
from fubini.algebra.features import Divergent, NoClosedForm, Place, Slope, Square, monomials, squares
from fubini.algebra.label_digits import is_finite
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.ranges import exceeds_zero, is_whole
from fubini.algebra.sums import total
from fubini.families.family import family_of, is_divergent, recognise
from fubini.families.functions import is_never_positive
from fubini.families.signature import Key, Recognised
from fubini.integrate.configurations import summed_together
from fubini.integrate.coupling import is_inside
from fubini.integrate.finite import Summed, solving, summed, tests
from fubini.integrate.ratio import summed_by_ratio

# How squares go whose slopes may be 0, or nothing but rounding: a division by Σ w s² is then any number (rule U5).
Care = Literal["", "orthogonal steps", "joined to the prior"]


class Eliminated(NamedTuple):
    """The remaining terms, and what the latent is given the others, at free indices of its batch."""

    terms: tuple[Node, ...]
    at: tuple[Index, ...]
    distribution: Recognised
    averaged: frozenset[Leaf] = frozenset()  # leaves of squares that were averaged over: each coupled to all others
    care: Care = ""


def eliminated(terms: Sequence[Node], latent: Leaf, domain: str, is_plain: bool = False) -> Eliminated:
    """log ∫ exp(Σ terms) d latent, with the distribution of the latent given all remaining latents.

    Plain sums of squares divide by those of slopes, even where these may cancel: they fit more families.
    """
    rest = tuple(term for term in terms if latent not in term.leaves)
    with_latent = add((term, 1.0) for term in terms if latent in term.leaves)
    if domain == "real":
        return _normal(rest, with_latent, latent, is_plain)
    if is_finite(latent):
        return _summed(rest, summed(with_latent, latent, latent.count))
    if domain == "nat":
        counted = summed_by_ratio(with_latent, latent)
        if family_of(counted.distribution.family).draw is None:
            raise NoClosedForm(latent, with_latent, "a family that can be drawn from")
        return Eliminated(
            (*rest, *_terms(counted.outside), total(counted.at, counted.distribution.log_normaliser)),
            counted.at,
            counted.distribution,
        )
    if domain == "simplex":
        return _dirichlet(rest, with_latent, latent)
    return _by_features(rest, with_latent, latent, domain)


def eliminated_by_configurations(terms: Sequence[Node], latent: Leaf) -> Eliminated:
    """log Σ exp(Σ terms) over all values of the coupled entries of a finite latent, where these are few."""
    rest = tuple(term for term in terms if latent not in term.leaves)
    with_latent = add((term, 1.0) for term in terms if latent in term.leaves)
    return _summed(rest, summed_together(with_latent, latent, latent.count))


def _summed(rest: tuple[Node, ...], finite: Summed) -> Eliminated:
    evidence = total(finite.batch, finite.distribution.log_normaliser)
    return Eliminated((*rest, *_terms(finite.outside), evidence), finite.at, finite.distribution)


def _batch(latent: Leaf, event: int = 0) -> tuple[Index, ...]:
    return tuple(Index(size, "i") for size in latent.shape[: len(latent.shape) - event])


# -- families by their features -------------------------------------------------------------------------------------


def _by_features(rest: tuple[Node, ...], with_latent: Node, latent: Leaf, domain: str) -> Eliminated:
    at = _batch(latent)
    coefficients, outside = feature_sums(with_latent, latent, at)
    distribution = recognise("features", domain, coefficients)
    if distribution is None:
        features = ", ".join(_shown(key) for key in coefficients) or "none"
        raise NoClosedForm(latent, with_latent, f"a family on {domain} numbers with the features {features}")
    if is_divergent(distribution):
        raise Divergent(latent, with_latent)
    return Eliminated((*rest, *outside, total(at, distribution.log_normaliser)), at, distribution)


def feature_sums(with_latent: Node, latent: Leaf, at: tuple[Index, ...]) -> tuple[dict[Key, Node], tuple[Node, ...]]:
    """The coefficients of the features of x[at], those that are not 0; and the terms without them."""
    coefficients: dict[Key, list[Node]] = {}
    outside: list[Node] = []
    for monomial in monomials(with_latent, latent):
        feature, *others = monomial.features or (None,)
        if feature is None:
            outside.append(total(monomial.over, monomial.coefficient))
            continue
        if others:
            raise NoClosedForm(latent, with_latent, "no two entries in one term")
        require_inside(feature.place, monomial.coefficient, latent)
        key = (feature.kind, feature.power)
        coefficients.setdefault(key, []).append(
            total(monomial.over, times(monomial.coefficient, tests(feature.place, at)))
        )
    sums = {key: add((part, 1.0) for part in parts) for key, parts in coefficients.items()}
    return {key: part for key, part in sums.items() if part is not ZERO}, _terms(outside)


def _shown(key: Key) -> str:
    kind, exponent = key
    return {"log": "log x", "log1m": "log(1 − x)"}.get(kind, f"x^{exponent:g}")


def _terms(parts: Iterable[Node]) -> tuple[Node, ...]:
    whole = add((part, 1.0) for part in parts)
    return () if whole is ZERO else (whole,)


def _dirichlet(rest: tuple[Node, ...], with_latent: Node, latent: Leaf) -> Eliminated:
    """∫ Π_c x_c^(α_c − 1) dx  =  Π Γ(α_c) / Γ(Σ α_c)"""
    at, c = _batch(latent, 1), Index(latent.shape[-1], "c")
    parts: list[Node] = []
    outside: list[Node] = []
    for monomial in monomials(with_latent, latent):
        feature, *others = monomial.features or (None,)
        if feature is None:
            outside.append(total(monomial.over, monomial.coefficient))
            continue
        if others or feature.kind != "log":
            raise NoClosedForm(latent, with_latent, "logarithms of its entries alone")
        require_inside(feature.place, monomial.coefficient, latent)
        these = tests(feature.place, (*at, c))
        parts.append(total(monomial.over, times(monomial.coefficient, these)))
    alpha = add(((ONE, 1.0), *((part, 1.0) for part in parts)))
    distribution = recognise("simplex", c, alpha)
    assert distribution is not None
    if is_divergent(distribution):
        raise Divergent(latent, with_latent)
    return Eliminated((*rest, *_terms(outside), total(at, distribution.log_normaliser)), (*at, c), distribution)


# -- normal latents -------------------------------------------------------------------------------------------------


class Bump(NamedTuple):
    """exp(−½ weight (x[i] − mean)²) at every i"""

    weight: Node
    mean: Node


def _normal(rest: tuple[Node, ...], with_latent: Node, latent: Leaf, is_plain: bool) -> Eliminated:
    """∫ Π exp(−½ p (x − m)²) dx  =  √(2π/P) · exp(−½ scatter); squares are joined in pairs, never multiplied out"""
    at = _batch(latent)
    bumps: list[Bump] = []
    pushes: list[Node] = []
    outside: list[Node] = []
    averaged: frozenset[Leaf] = frozenset()
    delicate: list[Square] = []
    parts = list(squares(with_latent, latent))
    care: Care = "" if is_plain else _care_of([part for part in parts if isinstance(part, Square)])
    for part in parts:
        if care and isinstance(part, Square) and _is_delicate(part):
            delicate.append(part)
        elif isinstance(part, Square):
            bump, scatter = _bump(part, latent, at)
            bumps.append(bump)
            outside.append(scatter)
            averaged |= part.offset.leaves if scatter is not ZERO else frozenset()
        elif not part.features:
            outside.append(total(part.over, part.coefficient))
        else:
            place = part.features[0].place
            require_inside(place, part.coefficient, latent)
            pushes.append(total(part.over, times(part.coefficient, tests(place, at))))
    if not any(_is_sure(bump.weight) for bump in bumps):  # nothing else to divide by
        for part in delicate:
            bump, scatter = _bump(part, latent, at)
            bumps.append(bump)
            outside.append(scatter)
            averaged |= part.offset.leaves
        delicate = []
    if not bumps:
        raise NoClosedForm(latent, with_latent, "a quadratic term: its integral is infinite")
    bumps.sort(key=lambda bump: not _is_sure(bump.weight))  # what is divided by is positive, then
    whole = bumps[0]
    for bump in bumps[1:]:
        whole, excess = joined(whole, bump)
        outside.append(total(at, excess))
    for part in delicate:
        whole, excess = _joined_to_rows(whole, part, latent, at)
        outside.append(excess)
        averaged |= part.offset.leaves | whole.mean.leaves
    if is_never_positive(whole.weight):
        raise Divergent(latent, with_latent)
    push = add((part, 1.0) for part in pushes)
    distribution = recognise("square", whole.weight, whole.mean, push)
    assert distribution is not None
    terms = (*rest, *_terms(outside), total(at, distribution.log_normaliser))
    return Eliminated(terms, at, distribution, averaged, care)


def _bump(square: Square, latent: Leaf, at: tuple[Index, ...]) -> tuple[Bump, Node]:
    """The squares of one term that fall on x[i], as one; and what they disagree by."""
    slope = _only_slope(square, latent)
    names = solving(slope.place, square.over, at)
    if names is not None and is_never_zero(slope.coefficient):  # one square for each entry
        weight = replaced(times(square.weight, power(slope.coefficient, 2.0)), names)
        return Bump(weight, replaced(divide(square.offset, slope.coefficient), names)), ZERO
    weight, push = _weight_and_push(square, slope, latent, at)
    mean = divide(push, _never_zero(weight))  # a group may be empty
    return Bump(weight, mean), scale(-0.5, _scatter(square, slope, mean, at))


def _weight_and_push(square: Square, slope: Slope, latent: Leaf, at: tuple[Index, ...]) -> tuple[Node, Node]:
    """Σ w s²  and  Σ w s r, of the rows that fall on x[i]"""
    require_inside(slope.place, square.weight, latent)
    weighted = times(square.weight, slope.coefficient, tests(slope.place, at))
    return total(square.over, times(weighted, slope.coefficient)), total(square.over, times(weighted, square.offset))


def _scatter(square: Square, slope: Slope, mean: Node, at: tuple[Index, ...]) -> Node:
    """Σ w (r − s x̂)²"""
    residual = minus(square.offset, times(slope.coefficient, mean))
    return total((*at, *square.over), times(square.weight, power(residual, 2.0), tests(slope.place, at)))


def _only_slope(square: Square, latent: Leaf) -> Slope:
    """The factor of one entry of the latent in a square."""
    if len(square.slopes) != 1 or square.slopes[0].over:
        raise NoClosedForm(latent, square.weight, "one of its entries in a square: several there are coupled")
    return square.slopes[0]


def _joined_to_rows(a: Bump, square: Square, latent: Leaf, at: tuple[Index, ...]) -> tuple[Bump, Node]:
    """p (x − m)² + Σ w (s x − r)²  =  P (x − x̂)² + p (x̂ − m)² + Σ w (s x̂ − r)², without a division by Σ w s²"""
    slope = _only_slope(square, latent)
    of_rows, push = _weight_and_push(square, slope, latent, at)
    weight = plus(a.weight, of_rows)
    mean = divide(plus(times(a.weight, a.mean), push), weight)
    moved = divide(minus(push, times(of_rows, a.mean)), weight)  # x̂ − m
    excess = plus(_scatter(square, slope, mean, at), total(at, times(a.weight, power(moved, 2.0))))
    return Bump(weight, mean), scale(-0.5, excess)


def _is_cancelling(square: Square) -> bool:
    """Whether its slope may be nothing but rounding."""
    return len(square.slopes) == 1 and may_cancel(square.slopes[0].coefficient)


def _is_delicate(square: Square) -> bool:
    """Whether its slope may be nothing but rounding, or be 0 where a derivative is asked for."""
    return _is_cancelling(square) or (len(square.slopes) == 1 and may_vanish(square.slopes[0].coefficient))


def _care_of(every: Sequence[Square]) -> Care:
    """Orthogonal steps where slopes may cancel and there are few rows; else the delicate ones are joined at once."""
    if any(map(_is_cancelling, every)) and not any(map(_has_many_rows, every)):
        return "orthogonal steps"
    return "joined to the prior" if any(map(_is_delicate, every)) else ""


def _has_many_rows(square: Square) -> bool:
    """More than the data: rows for each entry of a latent and each of the data are too many to keep.

    Where a test [c = e] says in which class c a row is, there is one for e alone.
    """
    largest = max((math.prod(leaf.shape) for leaf in square.offset.leaves | square.weight.leaves), default=1)
    tested = {i for base, _ in factors_in(square.weight) if base.kind == "eq" for i in _class_of(base)}
    return math.prod(i.size for i in square.over if i not in tested) > largest


def _class_of(test: Node) -> tuple[Index, ...]:
    """The index c of a test [c = e]."""
    for one, entry in (test.args, test.args[::-1]):
        if one.kind == "index" and one.args[0] not in entry.free:
            return (one.args[0],)
    return ()


def require_inside(place: Place, weight: Node, latent: Leaf) -> None:
    """Where an entry beyond the ends is read, the weight is 0: a square that misses all entries would be lost."""
    if not all(is_inside(part, size, weight) for part, size in zip(place, latent.shape, strict=True)):
        raise NoClosedForm(latent, weight, "entries within its shape")


def is_never_zero(of: Node) -> bool:
    """Whether its sign is known."""
    return exceeds_zero(of) or exceeds_zero(scale(-1.0, of))


def may_cancel(of: Node) -> bool:
    """Sums in it may come out as nothing but rounding, which differs from one compiled use of it to the next."""
    if is_never_zero(of) or is_whole(of):
        return False
    match of.kind:
        case "add":
            free = [part for part, _ in of.args if not any(base.kind in ("eq", "lt") for base in as_product(part)[1])]
            return len(free) > 1 or any(may_cancel(part) for part, _ in of.args)
        case "sum":
            return True
        case "mul":
            return any(may_cancel(base) for base, _ in of.args)
        case "call" | "where":
            return any(may_cancel(part) for part in of.args if isinstance(part, Node))
        case _:
            return False


def may_vanish(of: Node) -> bool:
    """It may be 0 where a derivative in it is asked for: traced numbers decide it, or latents that remain."""
    return not is_never_zero(of) and not is_whole(of) and any(leaf.role in ("traced", "site") for leaf in of.leaves)


def _is_sure(weight: Node) -> bool:
    """Greater than 0, be the scales in it what they are: 1/s² is."""
    coefficient, parts = as_product(weight)
    return coefficient > 0 and all(exceeds_zero(b) or (e < 0 and e % 2 == 0) for b, e in parts.items())


def _never_zero(weight: Node) -> Node:
    """A weight, 1 where it is 0; what is positive anyway stays as it is, for other latents to be seen in it."""
    coefficient, parts = as_product(weight)
    factors = [*parts.items(), (const(coefficient), 1.0)]
    sure = [(base, exponent) for base, exponent in factors if exceeds_zero(base)]
    rest = multiply(factor for factor in factors if factor not in sure)
    return multiply((*sure, (rest if exceeds_zero(rest) else call("nonzero", rest), 1.0)))


def joined(a: Bump, b: Bump) -> tuple[Bump, Node]:
    """p (x − m)² + q (x − n)²  =  (p + q)(x − (p m + q n)/(p + q))² + p q/(p + q) (m − n)²"""
    weight = plus(a.weight, b.weight)
    divisor = weight if _is_sure(a.weight) or _is_sure(b.weight) else _never_zero(weight)  # both may be empty
    mean = divide(plus(times(a.weight, a.mean), times(b.weight, b.mean)), divisor)
    excess = multiply(((a.weight, 1.0), (b.weight, 1.0), (divisor, -1.0), (minus(a.mean, b.mean), 2.0)))
    return Bump(weight, mean), scale(-0.5, excess)
