"""Expectations under products that no rule joins, by the families that they are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate

import fubini as fb
from fubini import dist, ops
from fubini.errors import Intractable

RATE, SPREAD, MEAN = fb.Variable("r", fb.Positive), fb.Variable("v", fb.Positive), fb.Variable("m", fb.Real)
COUNTED = dist.Gamma(2.0, 3.0)("r") * dist.Poisson(RATE)(4)
MEASURED = (
    dist.InverseGamma(3.0, 2.0)("v")
    * dist.Normal(0.0, ops.sqrt(SPREAD))("m")
    * dist.Normal(MEAN, ops.sqrt(SPREAD))(1.3)
)


def by_quadrature(of, value):
    """E[value] of a density of one positive number."""
    mass = [
        integrate.quad(lambda r: g(r) * np.exp(float(of(r=r).log())), 0, np.inf)[0]  # noqa: B023
        for g in (lambda r: 1.0, value)
    ]
    return mass[1] / mass[0]


@pytest.mark.parametrize(
    ("value", "numbers"),
    [(RATE, lambda r: r), (3.0 - RATE, lambda r: 3.0 - r), (RATE * RATE + RATE, lambda r: r * r + r)],
    ids=["r", "3 - r", "r² + r"],
)
def test_of_a_rate(value, numbers):
    assert float(fb.expectation(COUNTED, value, "r")) == pytest.approx(by_quadrature(COUNTED, numbers), rel=1e-7)


def test_one_given_the_other():
    """E[m v] = E[v E[m | v]], of the posterior Normal(0.65, √(v/2)) InverseGamma(3.5, 2.4225)."""
    assert float(fb.expectation(MEASURED, MEAN * SPREAD, "m", "v")) == pytest.approx(0.65 * 2.4225 / 2.5)
    assert float(fb.expectation(MEASURED, MEAN * MEAN, "m", "v")) == pytest.approx(0.65**2 + 0.5 * 2.4225 / 2.5)


def test_what_has_no_closed_form_says_so():
    with pytest.raises(Intractable, match="expectation of log"):
        fb.expectation(COUNTED, ops.log(RATE), "r")


def test_the_error_names_what_was_asked_and_not_what_was_left_of_it():
    with pytest.raises(Intractable, match=r"expectation of exp\(m\) \+ exp\(v\) over"):
        fb.expectation(MEASURED, ops.exp(MEAN) + ops.exp(SPREAD), "m", "v")


@pytest.mark.parametrize("is_jitted", [False, True])
def test_in_single_precision_on_jax(is_jitted):
    def question(count):
        single = dist.Gamma(jnp.float32(2.0), jnp.float32(3.0))("r") * dist.Poisson(RATE)(count)
        return fb.expectation(single, RATE * RATE + RATE, "r").array

    found = (jax.jit(question) if is_jitted else question)(jnp.asarray(4))
    assert found.dtype == jnp.float32
    assert float(found) == pytest.approx(6.0 * 7.0 / 16.0 + 6.0 / 4.0, rel=1e-5)
