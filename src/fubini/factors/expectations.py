"""Expectations of Values under representations, where they have a closed form."""

from __future__ import annotations

import math
from functools import reduce

import numpy as np

from fubini.base import ops
from fubini.base.domains import Real
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.errors import DomainError, Intractable, listed
from fubini.factors.delta import Delta
from fubini.factors.gaussian import Gaussian
from fubini.factors.integer_moments import average_given_others
from fubini.factors.mixture import Mixture, mixture, share_of
from fubini.factors.promotion import is_special_case, most_general, promoted
from fubini.factors.table import Table
from fubini.factors.weight_rules import derivatives
from fubini.terms.degree import degree
from fubini.terms.factor import Factor
from fubini.terms.heads import EXPECT, exact_expect
from fubini.terms.indexing import fold
from fubini.terms.value import Array, Value, to_array, to_value


def expected(factor: Factor, value: Value, names: tuple[Name, ...]) -> Value:
    """Names that the value does not depend on are summed out first, by a plan; all but those that are cut."""
    kept = [name for name in names if name in value.inputs]
    if not kept:
        return value
    if len(kept) < len(names):
        kept += [name for name in promoted(factor).cut_names if name in names and name not in kept]
    others = tuple(name for name in names if name not in kept)
    return interpret(EXPECT, promoted(factor.sum(*others) if others else factor), value, tuple(kept))


def weighted(weights: Value, value: Value, names: tuple[Name, ...]) -> Value:
    """Σ weights · value, where a zero weight takes no part of an infinite value."""
    infinite = ops.equal(ops.absolute(value), np.inf)
    product = weights * ops.where(ops.logical_and(ops.equal(weights, 0.0), infinite), 0.0, value)
    return fold(ops.add, product, *(name for name in names if name in product.inputs))


@exact_expect.rule
def expect_table(f: Table, value: Value, names: tuple) -> Value:
    """Σ_x p(x) v(x)"""
    return weighted(f.normalized(names).numbers(), value, names)


@exact_expect.rule(when=lambda f, value, names: is_special_case(f))
def expect_most_general(f: Factor, value: Value, names: tuple) -> Value:
    """Σ_x p(x) v(x), p as the most general representation above its own: a table, of what is over bounded integers"""
    return interpret(EXPECT, most_general(f), value, names)


@exact_expect.rule
def expect_delta(f: Delta, value: Value, names: tuple) -> Value:
    """∫ δ(x = u) v(x) dx  =  v(u)"""
    at = {name: point for name, point in f.located.items() if name in names}
    if any(name in point.inputs for own, point in f.located.items() if own not in at for name in names):
        return _given_points(f, value, names)
    inside = value.replaced(at)
    others = tuple(name for name in names if name not in at)
    return expected(f.weight, inside, others) if others else inside


def _given_points(f: Delta, value: Value, names: tuple[Name, ...]) -> Value:
    """E[v(y)] given x = u(y): over a bounded integer by its share, over a real variable at y = u⁻¹(x)"""
    if len(names) > 1:
        raise Intractable(
            f"the expectation of {value} over {listed(names)} given {listed(f.names)} under {f}",
            expected=f"{listed(f.names)} among the variables averaged over, or one variable alone",
            advice=f"sum {listed(f.names)} out first",
        )
    name = next(iter(names))
    return average_given_others(f, name, value) if f.inputs[name].is_finite else value.replaced({name: f.mean(name)})


@exact_expect.rule
def expect_gaussian(f: Gaussian, value: Value, names: tuple) -> Value:
    """E[v(z)]  =  v(μ) + ½ tr(v″ Σ) for v of degree two at most; over bounded integers with their share of the mass"""
    reals = tuple(name for name, _ in f.reals if name in names)
    discrete = tuple(name for name in names if name not in reals)
    inside = _under_gaussian(f, value, reals) if reals else value
    if not discrete:
        return inside
    mass = promoted(f.sum(*reals)) if reals else f
    if isinstance(mass, Table):
        return expect_table(mass, inside, discrete)
    share = ops.exp(mass.log() - mass.sum(*discrete).log())
    return fold(ops.add, share * inside, *discrete)


def _under_gaussian(f: Gaussian, value: Value, names: tuple[Name, ...]) -> Value:
    others = tuple(name for name, domain in value.inputs.items() if not domain.is_finite and name not in names)
    order = degree(value, names)
    if order > 2:
        raise Intractable(
            f"the expectation of {value} under {f}",
            expected=f"a polynomial of degree two at most in {listed(names)}",
            nearest=f"its degree is {order:g}" if order != np.inf else "it is not a polynomial",
            advice="estimate it by sampling: draw from the factor and average",
        )
    centre = value.replaced(_means(f, names))
    if order < 2:
        return centre
    used = tuple(name for name in names if name in value.inputs)
    covariance = _covariance(f, names, used)
    if others:
        return centre + 0.5 * _trace_by_differences(value, used, covariance)
    return centre + 0.5 * spread_of(value, used, covariance)


def _trace_by_differences(value: Value, names: tuple[Name, ...], covariance: Array) -> Value:
    """Σ_ij v″_ij Σ_ij with v″_ij = v(e_i + e_j) − v(e_i) − v(e_j) + v(0), exact of a quadratic, a Value of others."""
    shapes = {name: value.inputs[name].shape for name in names}
    sizes = np.cumsum([0, *(math.prod(shape) for shape in shapes.values())])

    def at(*units: int) -> Value:
        flat = np.zeros(sizes[-1])
        np.add.at(flat, list(units), 1.0)
        pieces = zip(shapes.items(), sizes[:-1], sizes[1:], strict=True)
        return value.replaced({name: Array(flat[start:end].reshape(shape)) for (name, shape), start, end in pieces})

    total = to_value(0.0)
    for i in range(sizes[-1]):
        for j in range(sizes[-1]):
            curvature = at(i, j) - at(i) - at(j) + at()
            spread = covariance.array[..., i, j]
            total = total + curvature * Array._of(spread, covariance.names, covariance.inputs, Real, covariance.mark)
    return total


def spread_of(value: Value, names: tuple[Name, ...], covariance: Array) -> Value:
    """Σ_ij v″_ij Σ_ij, of a quadratic of these variables alone."""
    return _trace(_hessian(value, names), covariance)


def _hessian(value: Value, names: tuple[Name, ...]) -> Array:
    if value.output.shape:
        raise DomainError(f"the expectation of {value}, of domain {value.output!r}", expected="a number at a time")
    return derivatives(value, names)[2]


def _trace(first: Array, second: Array) -> Value:
    """Σ_ij a_ij b_ij, by name."""
    product = to_array(first * second)
    data = product.array.sum(axis=(-2, -1))
    return Array._of(data, product.names, product.inputs, Real, product.mark)


def _means(f: Gaussian, names: tuple[Name, ...]) -> dict[Name, Value]:
    """The mean of each name given the real inputs that are not named."""
    means: dict[Name, Value] = {}
    for name in names:
        rest = frozenset(other for other in names if other != name)
        alone = f.reduced(rest) if rest else f
        means[name] = alone.mean(name)
    return means


def _covariance(f: Gaussian, names: tuple[Name, ...], used: tuple[Name, ...]) -> Array:
    """The covariance of the names used, in their order, given the real inputs that are not named."""
    gone = frozenset(name for name in names if name not in used)
    rest = f.reduced(gone) if gone else f
    assert isinstance(rest, Gaussian)
    conditional = rest.conditional(*used)
    size = conditional.half.shape[-1]
    return Array._of(conditional.covariance, conditional.names, rest.inputs, Real[size, size], f.exactness)


@exact_expect.rule
def expect_mixture(f: Mixture, value: Value, names: tuple) -> Value:
    """Σ_c share_c E_c[v]"""
    masses = [promoted(component.sum(*names)) for component in f.components]
    total = mixture(masses, f.bounds)
    parts = []
    for component, mass in zip(f.components, masses, strict=True):
        inside = interpret(EXPECT, promoted(component), value, names)
        parts.append(weighted(share_of(mass, total), inside, tuple(f.bound_in(component))))
    return reduce(ops.add, parts)
