"""Expectations and integrals of Values under factors, where they have a closed form."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np

from fubini.base import ops
from fubini.base.arrays import is_traced
from fubini.base.domains import Real, merge_inputs
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.distributions.density import Density
from fubini.errors import DomainError, Intractable, NoRule, listed
from fubini.factors.delta import Delta
from fubini.factors.gaussian import Gaussian
from fubini.factors.mixture import Mixture, mixture, share_of
from fubini.factors.promotion import promoted
from fubini.factors.table import Table
from fubini.factors.weight_rules import derivatives
from fubini.terms.degree import degree
from fubini.terms.factor import Factor, Product, Weight
from fubini.terms.heads import DISINTEGRATE, EXPECT, exact_expect
from fubini.terms.indexing import fold
from fubini.terms.value import Array, Value, is_enumerable, to_array, to_value


def expectation(factor: Factor, value: Any, *names: Name) -> Value:
    """E[value] under the factor normalised over the names, or over all of its inputs.

    >>> x = fb.Variable("x", fb.Real)
    >>> expectation(fb.dist.Normal(1.0, 2.0)("x"), x * x, "x")
    5
    """
    value, names = _asked(factor, value, names, "an expectation")
    return _settled(_expected(factor, value, names))


def integrate(factor: Factor, value: Any, *names: Name) -> Value:
    """Σ value · factor over the names, or over all inputs of the factor: not divided by its mass.

    >>> integrate(fb.Table([1.0, 3.0], ("k",)), fb.Variable("k", fb.Bint[2]) * 10.0, "k")
    30
    """
    value, names = _asked(factor, value, names, "an integral")
    joined = promoted(factor)
    if isinstance(joined, Table):
        return _settled(weighted(joined.numbers(), value, names))
    log = factor.sum(*names).log()
    if not log.inputs and not is_traced(log.data) and float(log) == -np.inf:
        return to_value(0.0)
    return _settled(ops.exp(log) * _expected(factor, value, names))


def _settled(value: Value) -> Value:
    """Numbers, where all remaining inputs are bounded integers."""
    return to_array(value) if is_enumerable(value) else value


def _asked(factor: Factor, value: Any, names: tuple[Name, ...], what: str) -> tuple[Value, tuple[Name, ...]]:
    point = to_value(value)
    names = names or tuple(factor.inputs)
    factor._require_names(names, lambda name: f"{what} over {name!r} of {factor}")
    merge_inputs(factor.inputs, point.inputs)
    return point, names


def _expected(factor: Factor, value: Value, names: tuple[Name, ...]) -> Value:
    """Names that the value does not depend on are summed out first, by a plan."""
    others = tuple(name for name in names if name not in value.inputs)
    names = tuple(name for name in names if name in value.inputs)
    if not names:
        return value
    return interpret(EXPECT, promoted(factor.sum(*others) if others else factor), value, names)


def weighted(weights: Value, value: Value, names: tuple[Name, ...]) -> Value:
    """Σ weights · value, where a zero weight takes no part of an infinite value."""
    infinite = ops.equal(ops.absolute(value), np.inf)
    product = weights * ops.where(ops.logical_and(ops.equal(weights, 0.0), infinite), 0.0, value)
    return fold(ops.add, product, *(name for name in names if name in product.inputs))


@exact_expect.rule
def expect_table(f: Table, value: Value, names: tuple) -> Value:
    """Σ_x p(x) v(x)"""
    return weighted(f.normalized(names).numbers(), value, names)


@exact_expect.rule
def expect_delta(f: Delta, value: Value, names: tuple) -> Value:
    """∫ δ(x = u) v(x) dx  =  v(u)"""
    at = {name: point for name, point in f.located.items() if name in names}
    inside = value.replaced(at)
    others = tuple(name for name in names if name not in at)
    return _expected(f.weight, inside, others) if others else inside


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
    return centre + 0.5 * _trace(_hessian(value, used), covariance)


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


@exact_expect.rule(when=lambda f, value, names: names == (f.own,) and degree(value, names) <= 1)
def expect_density(f: Density, value: Value, names: tuple) -> Value:
    """E[a + b x]  =  a + b E[x]"""
    return value.replaced({f.own: f.mean(f.own)})  # type: ignore[dict-item, arg-type]


def _is_quadratic(f: Density, value: Value, names: tuple) -> bool:
    """Whether a value is of degree two in the one number that the density is of."""
    return names == (f.own,) and not f.inputs[names[0]].shape and degree(value, names) == 2


@exact_expect.rule(when=_is_quadratic, overlaps=("expect_density",))
def expect_square(f: Density, value: Value, names: tuple) -> Value:
    """E[v]  =  v(E[x]) + ½ v″ Var[x], where v″ is the second difference of a quadratic"""
    (own,) = names
    at = [value.replaced({own: to_value(x)}) for x in (1.0, 2.0, 3.0)]
    bend = at[2] - 2.0 * at[1] + at[0]
    return value.replaced({own: f.mean(own)}) + 0.5 * bend * f.variance(own)  # type: ignore[dict-item]


@exact_expect.rule
def expect_product(f: Product, value: Value, names: tuple) -> Value:
    """E[v] under the one term that depends on the names; the others do not change it"""
    dependent = [term for term in f.terms if any(name in term.inputs for name in names)]
    if len(dependent) == 1:
        return interpret(EXPECT, dependent[0], value, names)
    return expect_open(f, value, names)


@exact_expect.rule
def expect_open(f: Density | Weight, value: Value, names: tuple) -> Value:
    """E[v]  =  E[E[v | y]], under the densities that f is recognised as"""
    if not isinstance(f, Density) or names != (f.own,):
        try:
            inside = value
            for term in interpret(DISINTEGRATE, f, names).conditionals:  # each given those after it
                inside = interpret(EXPECT, promoted(term), inside, tuple(name for name in names if name in _own(term)))
            return inside
        except (Intractable, NoRule):
            pass
    raise Intractable(
        f"the expectation of {value} over {listed(names)} under {f}",
        expected="a Table, Gaussian, Delta or Mixture, or an affine function of the variable of one density",
        advice="estimate it by sampling: draw from the factor and average",
    )


def _own(term: Factor) -> tuple[Name, ...]:
    """The variables of a conditional: that of a density, or all of a Gaussian."""
    return (term.own,) if term.own is not None else tuple(term.inputs)
