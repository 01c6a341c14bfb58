"""Expectations of polynomials over one draw, or over an array of independent draws: each power by its moment."""

from __future__ import annotations

from collections.abc import Sequence

from fubini.algebra.binding import replaced, transformed
from fubini.algebra.build import ONE, add, call, const, equal, get, index, minus, plus, power, scale, times
from fubini.algebra.features import Feature, NoClosedForm, Place, monomials
from fubini.algebra.node import Leaf, Node
from fubini.algebra.polynomial import expanded
from fubini.algebra.sums import total
from fubini.algebra.tidy import tidied
from fubini.families.family import family_of
from fubini.families.functions import exponential
from fubini.families.parameters import Vector
from fubini.measures.branch import Branch, DrawStatement
from fubini.measures.draw_density import DrawDistribution, is_of_numbers
from fubini.measures.mass import log_mass
from fubini.measures.simplify import simplified_branches
from fubini.measures.single_draws import leaf_of
from fubini.measures.state import state_of


def expected_over(draw: DrawStatement, value: Node) -> Node:
    """E[v] over a draw, for a polynomial v of its entries; of a scalar label, for any v."""
    leaf = draw.leaf
    if draw.distribution.is_opaque and leaf in value.leaves:
        raise NoClosedForm(leaf, value, "a draw from a family that is known")
    if leaf not in value.leaves:
        return value
    label = _label(draw, ())
    if label is not None and not draw.at:
        weight = label.entry
        return total([label.over], times(weight, transformed(value, leaf, lambda: index(label.over))))
    terms = monomials(expanded(value), leaf)
    return tidied(add((total(term.over, times(term.coefficient, _moment(draw, term.features))), 1.0) for term in terms))


def _at(draw: DrawStatement, place: Place) -> DrawDistribution:
    """The distribution of the entry at a place."""
    names = {index(i): at for i, at in zip(draw.at, place, strict=False)}
    return draw.distribution.mapped(lambda part: replaced(part, names))


def _label(draw: DrawStatement, place: Place) -> Vector | None:
    """The weights of a draw of labels."""
    is_label = not is_of_numbers(draw.distribution) and not draw.leaf.is_simplex
    (weights,) = _at(draw, place).parameters if is_label else (None,)
    return weights if isinstance(weights, Vector) else None


def _moment(draw: DrawStatement, features: Sequence[Feature]) -> Node:
    """E[Π x[a]^p] of some entries"""
    if draw.leaf.is_simplex:
        return _simplex_moment(draw, features)
    if any(feature.kind != "power" for feature in features):
        return _mean_log(draw, features)
    return _joint([(feature.place, feature.power) for feature in features], 0, draw)


def _mean_log(draw: DrawStatement, features: Sequence[Feature]) -> Node:
    """E[log x], or E[log(1 − x)]"""
    feature, *others = features
    distribution = _at(draw, feature.place)
    mean_logs = family_of(distribution.family).mean_logs if is_of_numbers(distribution) else None
    known = {} if mean_logs is None or others else mean_logs(distribution.given)
    if feature.kind not in known:
        raise NoClosedForm(
            draw.leaf, call("log", get(draw.leaf, *feature.place)), "a family whose mean logarithm is known"
        )
    return known[feature.kind]


def _joint(powers: list[tuple[Place, float]], settled: int, draw: DrawStatement) -> Node:
    """Π E[x[a]^p] where the places differ; where two are the same, their powers are added"""
    pairs = [(a, b) for b in range(len(powers)) for a in range(b)]
    for count, (a, b) in enumerate(pairs[settled:], settled):
        same = times(*(equal(i, j) for i, j in zip(powers[a][0], powers[b][0], strict=True)))
        joined = [*powers]
        joined[a] = (powers[a][0], powers[a][1] + powers[b][1])
        del joined[b]
        apart = _joint(powers, count + 1, draw)
        return plus(apart, times(same, minus(_joint(joined, 0, draw), apart)))
    return times(*(_power_moment(draw, place, exponent) for place, exponent in powers))


def _power_moment(draw: DrawStatement, place: Place, exponent: float) -> Node:
    """E[x^p] of one entry"""
    if exponent != int(exponent) or exponent < 0:
        return _mass_with_power(draw, place, exponent)
    label = _label(draw, place)
    if label is not None:
        return total([label.over], times(label.entry, power(index(label.over), exponent)))
    distribution = _at(draw, place)
    moments = family_of(distribution.family).moments_up_to(distribution.given, int(exponent))
    if moments is None:
        raise NoClosedForm(
            draw.leaf,
            power(get(draw.leaf, *place), exponent),
            f"a family whose moments of order {exponent:g} are known",
        )
    return moments[int(exponent)]


def _mass_with_power(draw: DrawStatement, place: Place, exponent: float) -> Node:
    """∫ x^p f(x) dx, of any power"""
    distribution = _at(draw, place)
    leaf = leaf_of(distribution, draw.leaf.name)
    weight = scale(exponent, _log(get(leaf), leaf))
    branches = simplified_branches(state_of(Branch((DrawStatement(leaf, (), distribution),), (), weight, ())))
    logs = [log_mass(branch) for branch in branches]
    if any(log is None or branch.tests for log, branch in zip(logs, branches, strict=True)):
        raise NoClosedForm(draw.leaf, power(get(draw.leaf, *place), exponent), "a power whose integral is known")
    return plus(*(exponential(log) for log in logs if log is not None))


def _log(entry: Node, leaf: Leaf) -> Node:
    if leaf.low is None or leaf.low < 0:
        raise NoClosedForm(leaf, entry, "whole powers of what may be negative")
    return call("log", entry)


def _simplex_moment(draw: DrawStatement, features: Sequence[Feature]) -> Node:
    """E[θ_a θ_b …] = Π_j (α_j + how many of those before are the same)/(Σ α + j), of one point of a simplex"""
    entries: list[Place] = []
    for feature in features:
        if feature.kind != "power" or feature.power != int(feature.power) or feature.power < 0:
            raise NoClosedForm(draw.leaf, get(draw.leaf, *feature.place), "whole powers of it")
        entries.extend([feature.place] * int(feature.power))
    if len({place[:-1] for place in entries}) > 1:
        raise NoClosedForm(draw.leaf, get(draw.leaf, *entries[-1]), "entries of one point")
    (alpha,) = _at(draw, entries[0][:-1]).parameters if entries else (None,)
    parts: list[Node] = []
    for j, place in enumerate(entries):
        assert isinstance(alpha, Vector)
        before = add((equal(place[-1], other[-1]), 1.0) for other in entries[:j])
        whole = plus(total([alpha.over], alpha.entry), const(float(j)))
        parts += [plus(alpha.at(place[-1]), before), power(whole, -1.0)]
    return times(*parts) if parts else ONE
