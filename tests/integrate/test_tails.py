"""Tails that are powers: against quadrature; and what is refused."""

import numpy as np
import pytest
from scipy import integrate, stats

from fubini.algebra.build import ONE, ZERO, add, call, const, get, index, minus, plus, power, times
from fubini.algebra.features import NoClosedForm
from fubini.algebra.node import Index, Leaf
from fubini.algebra.sums import total
from fubini.integrate.tails import UNNAMED, eliminated_prime, eliminated_tail
from tests.integrate.numerics import numbers, value

x, many = Leaf("x", (), role="site"), Leaf("many", (3,), role="site")
p = Leaf("p", (), low=0.0, role="site")
y = Leaf("y", (3,))
Y = np.array([0.4, -1.5, 2.0])
i = Index(3, "i")
yi, at_i = get(y, index(i)), index(i)


def log(of):
    return call("log", of)


def gap(centre):
    return power(minus(get(x), const(centre)), 2.0)


def integral(density, *ends):
    return np.log(integrate.quad(density, *(ends or (-np.inf, np.inf)), epsabs=0, epsrel=1e-11)[0])


TAILS = {
    "StudentT": (
        times(const(-3.0), log(plus(const(2.0), times(const(0.5), gap(1.0))))),
        lambda v: (2 + 0.5 * (v - 1) ** 2) ** -3,
    ),
    "Cauchy": (times(const(-1.0), log(plus(const(4.0), gap(1.0)))), lambda v: 1 / (4 + (v - 1) ** 2)),
    "StudentT, of two squares": (
        times(const(-2.0), log(plus(ONE, gap(1.0), gap(-1.0)))),
        lambda v: (1 + (v - 1) ** 2 + (v + 1) ** 2) ** -2.0,
    ),
    UNNAMED: (
        add(((log(plus(const(4.0), gap(1.0))), -1.0), (log(plus(ONE, times(const(2.0), gap(-2.0)))), -1.0))),
        lambda v: 1 / (4 + (v - 1) ** 2) / (1 + 2 * (v + 2) ** 2),
    ),
}


@pytest.mark.parametrize("case", TAILS)
def test_eliminated_tail(case):
    term, density = TAILS[case]
    found = eliminated_tail([term, const(0.5)], x)
    assert found.distribution.family == case.split(",")[0]
    assert value(found.terms, {}) == pytest.approx(integral(density) + 0.5, rel=1e-9)


def test_the_conditional_of_a_tail():
    found = eliminated_tail([TAILS["StudentT"][0]], x).distribution
    at = {name: float(numbers(part, {})) for name, part in found.parameters.items()}
    points = np.array([-2.0, 0.0, 3.0])
    ours = np.log(TAILS["StudentT"][1](points)) - float(numbers(found.log_normaliser, {}))
    np.testing.assert_allclose(ours, stats.t(at["df"], at["loc"], at["scale"]).logpdf(points), rtol=1e-10)


def test_independent_entries():
    form = plus(ONE, power(minus(get(many, at_i), yi), 2.0))
    found = eliminated_tail([total([i], times(const(-2.0), log(form))), total([i], yi)], many)
    assert value(found.terms, {y: Y}) == pytest.approx(3 * integral(lambda v: (1 + v**2) ** -2.0) + Y.sum())
    np.testing.assert_allclose(numbers(found.distribution.parameters["loc"], {y: Y}, found.at), Y)


TAILS_REFUSED = {
    "no logarithm": (gap(1.0), "a power of a quadratic form of it"),
    "a logarithm times it": (times(get(x), log(plus(ONE, gap(0.0)))), "a power of a quadratic form of it"),
    "three powers": (add((log(plus(ONE, gap(c))), -1.0) for c in (0.0, 1.0, 2.0)), "one power of a quadratic form"),
    "two powers that are not inverse": (add((log(plus(ONE, gap(c))), -2.0) for c in (0.0, 1.0)), "one power"),
    "a square alone": (times(const(-2.0), log(gap(1.0))), "something beside the square"),
    "a term of degree one": (times(const(-2.0), log(plus(const(9.0), gap(1.0), get(x)))), "squares alone inside"),
}


@pytest.mark.parametrize("case", TAILS_REFUSED)
def test_tail_refused(case):
    term, why = TAILS_REFUSED[case]
    with pytest.raises(NoClosedForm, match=why):
        eliminated_tail([term], x)


def test_entries_that_are_not_met_once_are_refused():
    with pytest.raises(NoClosedForm, match="each of its entries in one term"):
        eliminated_tail([times(const(-2.0), log(plus(ONE, power(get(many, ZERO), 2.0))))], many)


# -- positive numbers -----------------------------------------------------------------------------------------------

P = get(p)


@pytest.mark.parametrize("shape", [0.0, 1.5])
def test_eliminated_prime(shape):
    """x^1.5 (2 + 3 x)^−5"""
    term = add(((log(P), shape), (log(plus(const(2.0), times(const(3.0), P))), -5.0)))
    found, unit = eliminated_prime([term, const(0.5)], p)
    expected = integral(lambda v: v**shape * (2 + 3 * v) ** -5.0, 0, np.inf)
    assert value(found.terms, {}) == pytest.approx(expected + 0.5, rel=1e-9)
    a, b = (float(numbers(found.distribution.parameters[name], {})) for name in ("concentration1", "concentration0"))
    width = float(numbers(unit, {}))
    ours = shape * np.log(0.7) - 5 * np.log(2 + 3 * 0.7) - expected
    assert stats.betaprime(a, b, scale=width).logpdf(0.7) == pytest.approx(ours)


PRIME_REFUSED = {
    "two sums": add((log(plus(const(c), P)), -2.0) for c in (1.0, 2.0)),
    "x alone": log(P),
    "a sum that may be negative": times(const(-3.0), log(minus(P, ONE))),
}


@pytest.mark.parametrize("case", PRIME_REFUSED)
def test_prime_refused(case):
    with pytest.raises(NoClosedForm, match="c \\+ d x"):
        eliminated_prime([PRIME_REFUSED[case]], p)


def test_prime_of_an_array_is_refused():
    positive = Leaf("positive", (3,), low=0.0, role="site")
    with pytest.raises(NoClosedForm, match="one number"):
        eliminated_prime([total([i], log(plus(ONE, get(positive, at_i))))], positive)
