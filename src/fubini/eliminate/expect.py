"""Expectations and integrals of Values under factors, where they have a closed form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fubini.base import ops
from fubini.base.arrays import is_traced
from fubini.base.domains import merge_inputs
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.distributions.density import Density
from fubini.errors import Intractable, NoRule, listed
from fubini.factors.expectations import expected, weighted
from fubini.factors.promotion import promoted
from fubini.terms.degree import degree
from fubini.terms.factor import Factor, Product, Weight, product
from fubini.terms.heads import DISINTEGRATE, EXPECT, exact_expect
from fubini.terms.value import Value, is_enumerable, to_array, to_value


def expectation(factor: Factor, value: Any, *names: Name) -> Value:
    """E[value] under the factor normalised over the names, or over all of its inputs.

    >>> x = fb.Variable("x", fb.Real)
    >>> expectation(fb.dist.Normal(1.0, 2.0)("x"), x * x, "x")
    5
    """
    value, names = _asked(factor, value, names, "an expectation")
    return _settled(expected(factor, value, names))


def integrate(factor: Factor, value: Any, *names: Name) -> Value:
    """Σ value · factor over the names, or over all inputs of the factor: not divided by its mass.

    >>> integrate(fb.Table([1.0, 3.0], ("k",)), fb.Variable("k", fb.Bint[2]) * 10.0, "k")
    30
    """
    value, names = _asked(factor, value, names, "an integral")
    joined = promoted(factor)
    if joined.lists_cells:
        return _settled(weighted(joined.numbers(), value, names))
    log = factor.sum(*names).log()
    if not log.inputs and not is_traced(log.data) and float(log) == -np.inf:
        return to_value(0.0)
    return _settled(ops.exp(log) * expected(factor, value, names))


def _settled(value: Value) -> Value:
    """Numbers, where all remaining inputs are bounded integers."""
    return to_array(value) if is_enumerable(value) else value


def _asked(factor: Factor, value: Any, names: tuple[Name, ...], what: str) -> tuple[Value, tuple[Name, ...]]:
    point = to_value(value)
    names = names or tuple(factor.inputs)
    factor._require_names(names, lambda name: f"{what} over {name!r} of {factor}")
    merge_inputs(factor.inputs, point.inputs)
    return point, names


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
    """E[v] under the one term that depends on the names, or  E[E[v | y]]  where one is a conditional given others"""
    dependent = [term for term in f.terms if any(name in term.inputs for name in names)]
    if len(dependent) == 1:
        return interpret(EXPECT, dependent[0], value, names)
    leaf = next((term for term in dependent if _is_leaf(term, dependent, names)), None)
    if leaf is None:
        return expect_open(f, value, names)
    try:
        inside = interpret(EXPECT, promoted(leaf), value, (leaf.own,))
    except (Intractable, NoRule):
        return expect_open(f, value, names)
    others = [term for term in dependent if term is not leaf]
    return expected(product(*others), inside, tuple(name for name in names if name != leaf.own))


def _is_leaf(term: Factor, terms: Sequence[Factor], names: tuple) -> bool:
    """Whether a term is a density of one of the names, given those of the other terms."""
    return term.own in names and not any(term.own in other.inputs for other in terms if other is not term)


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
