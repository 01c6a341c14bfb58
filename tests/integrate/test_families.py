"""Families by features: exp(Σ coefficient · feature − normaliser) is the density that SciPy has for the parameters."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fubini.algebra.build import call, const, get, minus, plus, scale, times
from fubini.algebra.node import Leaf
from fubini.families.family import recognise
from tests.integrate.numerics import log_integral, numbers

LOG, LOG1M = ("log", 1.0), ("log1m", 1.0)
FEATURES = {"log": lambda x, _: np.log(x), "log1m": lambda x, _: np.log1p(-x), "power": lambda x, e: x**e}
POINTS = np.array([0.05, 0.3, 0.6, 0.9])

FAMILIES = {
    "Gamma": (
        "positive",
        {LOG: 1.5, ("power", 1.0): -2.0},
        lambda g: stats.gamma(g["concentration"], scale=1 / g["rate"]),
    ),
    "Exponential": ("positive", {("power", 1.0): -0.7}, lambda g: stats.gamma(g["concentration"], scale=1 / g["rate"])),
    "InverseGamma": (
        "positive",
        {LOG: -3.5, ("power", -1.0): -2.0},
        lambda g: stats.invgamma(g["concentration"], scale=g["rate"]),
    ),
    "HalfNormal": ("positive", {("power", 2.0): -0.8}, lambda g: stats.halfnorm(scale=g["scale"])),
    "GeneralizedGamma": (
        "positive",
        {LOG: 0.5, ("power", 3.0): -0.8},
        lambda g: stats.gengamma(g["concentration"], g["power"], scale=g["rate"] ** (-1 / g["power"])),
    ),
    "GeneralizedGamma, a negative power": (
        "positive",
        {LOG: -4.0, ("power", -2.0): -0.8},
        lambda g: stats.gengamma(g["concentration"], g["power"], scale=g["rate"] ** (-1 / g["power"])),
    ),
    "Beta": ("unit", {LOG: 1.5, LOG1M: -0.5}, lambda g: stats.beta(g["concentration1"], g["concentration0"])),
    "Beta, of one feature": ("unit", {LOG1M: 2.0}, lambda g: stats.beta(g["concentration1"], g["concentration0"])),
    "Beta, of none": ("unit", {}, lambda g: stats.beta(g["concentration1"], g["concentration0"])),
}


def log_density(features, x):
    return sum((c * FEATURES[kind](x, e) for (kind, e), c in features.items()), 0.0 * x)


@pytest.mark.parametrize("case", FAMILIES)
def test_recognised(case):
    domain, features, expected = FAMILIES[case]
    found = recognise("features", domain, {key: const(c) for key, c in features.items()})
    assert found is not None and found.family == case.split(",")[0].replace("Exponential", "Gamma")
    given = {name: float(numbers(part, {})) for name, part in found.parameters.items()}
    ours = log_density(features, POINTS) - float(numbers(found.log_normaliser, {}))
    np.testing.assert_allclose(ours, expected(given).logpdf(POINTS), rtol=1e-10)


@given(st.floats(-0.5, 4.0), st.floats(0.1, 5.0), st.sampled_from([0.5, 1.0, 2.0, 2.5]))
def test_normaliser_of_a_power(shape, rate, power):
    features = {LOG: shape, ("power", power): -rate}
    found = recognise("features", "positive", {key: const(c) for key, c in features.items()})
    expected = log_integral(lambda x: log_density(features, x[:, 0]), "positive", 1)
    assert float(numbers(found.log_normaliser, {})) == pytest.approx(expected, rel=1e-8, abs=1e-8)


REFUSED = {
    "a logarithm alone": ("positive", [LOG]),
    "nothing": ("positive", []),
    "two powers": ("positive", [("power", 1.0), ("power", 2.0)]),
    "x and 1/x": ("positive", [LOG, ("power", 1.0), ("power", -1.0)]),
    "log(1 − x) of a positive number": ("positive", [("power", 1.0), LOG1M]),
    "a power on the unit interval": ("unit", [LOG, ("power", 1.0)]),
    "a domain without families": ("circle", [LOG]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_not_recognised(case):
    domain, keys = REFUSED[case]
    assert recognise("features", domain, {key: const(-1.0) for key in keys}) is None


def test_a_shape_that_data_decide_has_an_infinite_normaliser_where_it_is_not_positive():
    data = Leaf("data", ())
    found = recognise("features", "positive", {LOG: get(data), ("power", 1.0): const(-2.0)})
    at = [float(numbers(found.log_normaliser, {data: np.array(value)})) for value in (0.5, -2.0)]
    assert at == [pytest.approx(stats.gamma.logpdf(1.0, 1.5, scale=0.5) * -1 - 2.0), np.inf]


def test_a_rate_that_data_decide_has_an_infinite_normaliser_where_it_is_not_positive():
    data = Leaf("data", ())
    found = recognise("features", "positive", {LOG: const(1.0), ("power", 1.0): get(data)})
    with np.errstate(divide="ignore"):
        assert float(numbers(found.log_normaliser, {data: np.array(3.0)})) == np.inf


def test_parameters_are_nodes_of_the_coefficients():
    data = Leaf("data", (), low=0.0)
    found = recognise("features", "positive", {LOG: get(data), ("power", 1.0): scale(-1.0, get(data))})
    assert found.parameters["rate"] is get(data) and found.parameters["concentration"] is plus(get(data), const(1.0))
    a = plus(get(data), const(1.0))
    assert found.log_normaliser is minus(call("lgamma", a), times(a, call("log", get(data))))
