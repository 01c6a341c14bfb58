"""Masses and expectations as functions of their symbols under `jit`, `vmap` and `grad`: as they are eagerly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini.errors import DataError, DomainError
from fubini.measures import (
    Bernoulli,
    Exponential,
    Gamma,
    Geometric,
    Normal,
    Poisson,
    Uniform,
    condition,
    log,
    measure,
    observe,
    plate,
    symbol,
    total,
    weight,
)
from tests.measures import test_expectation as expectations
from tests.measures.cases import leaf
from tests.measures.test_expectation import a, b, mu, p, r, s

t = symbol("t", 4)
NUMBERS = {leaf(one).name: value for one, value in expectations.NUMBERS.items()} | {
    "t": np.array([0.3, -1.2, 0.9, 2.0])
}


def sum_of(one, size=4, of=lambda x: x):
    @measure
    def program():
        x = yield plate(size, lambda i: one)
        return total(size, lambda i: of(x[i]))

    return program()


@measure
def observed_sum(size):
    x = yield plate(size, lambda i: Normal(mu, s))
    yield observe(Normal(total(size, lambda i: x[i]), 1), 2.0)
    return total(size, lambda i: x[i])


@measure
def rates():
    x = yield Gamma(a, r)
    yield plate(4, lambda i: observe(Normal(t[i], 1 / 2), mu))
    y = yield Exponential(x)
    yield condition(y > s)


@measure
def coins(size):
    x = yield plate(size, lambda i: Bernoulli(p))
    yield condition(total(size, lambda i: x[i]) >= 4)


@measure
def weighted():
    x = yield Normal(mu, s)
    yield weight((x - a) ** 2)


ANSWERS = {
    "a sum of Exponentials": fb.expectation(sum_of(Exponential(r)), lambda x: x**2 - 3 * x),
    "a sum of Bernoullis": fb.expectation(sum_of(Bernoulli(p)), lambda x: x**3 - x),
    "a sum of squares": fb.expectation(sum_of(Normal(0, s), of=lambda x: x**2), lambda x: x**2 - mu * x),
    "a logarithm of a sum": fb.expectation(sum_of(Gamma(a, r)), log),
    "an observed sum": fb.total_mass(observed_sum(4)),
    "given an observed sum": fb.expectation(observed_sum(4), lambda x: x**2 - x),
    "a condition on a sum": fb.total_mass(coins(9)),
    "observations and a tail": fb.total_mass(rates()),
    "a polynomial weight": fb.total_mass(weighted()),
    "an integral": fb.integrate(weighted(), lambda: -mu),
    **{
        name: fb.expectation(expectations.FAMILIES[name], lambda x: x**2 - 3 * x + mu)
        for name in ("BetaPrime", "TruncatedNormal", "NegativeBinomial", "BetaBinomial")
    },
    **{name: fb.expectation(expectations.CUT[name][0], lambda x: x**2 - x) for name in expectations.CUT},
    **{name: fb.expectation(*expectations.PROGRAMS[name]) for name in ("a mixture", "a posterior", "a scale mixture")},
    "a piece": fb.expectation(Normal(mu, s), expectations.CHOICES["a piece"]),
}


def difference(answer, at, name):
    """Of an array, the sum of the derivatives in its entries."""
    step = 1e-5
    return (answer(**{**at, name: at[name] + step}) - answer(**{**at, name: at[name] - step})) / (2 * step)


@pytest.mark.parametrize("name", ANSWERS)
def test_derivatives(name):
    """In double precision; then the eager value again."""
    answer = ANSWERS[name]
    symbols = [one.name for one in answer.node.leaves if not one.is_integer]
    at = {one.name: NUMBERS[one.name] for one in answer.node.leaves}
    with jax.enable_x64(True):
        given = {one: jnp.asarray(at[one], float) for one in symbols}
        value, slopes = jax.tree.map(np.asarray, jax.value_and_grad(lambda given: answer(**{**at, **given}))(given))
    assert float(value) == pytest.approx(answer(**at), rel=1e-9)
    for one in symbols:
        expected = difference(answer, at, one)
        assert float(np.sum(slopes[one])) == pytest.approx(expected, rel=1e-5, abs=1e-7), one


def test_single_precision_along_an_axis():
    """Under jit and vmap, JAX's numbers in its precision; second derivatives."""
    answer = ANSWERS["given an observed sum"]
    means = jnp.linspace(-1.0, 1.0, 3)
    found = jax.jit(jax.vmap(lambda mean: answer(mu=mean, s=0.8)))(means)
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, [answer(mu=float(mean), s=0.8) for mean in means], rtol=1e-5)
    curved = jax.grad(jax.grad(lambda mean: fb.expectation(Normal(mu, s), lambda x: x**3)(mu=mean, s=0.8)))(0.4)
    assert float(curved) == pytest.approx(6 * 0.4, rel=1e-5)


def test_learning_by_gradients():
    """The probability of no event in a time, by its derivative in the shape of the rates: a Pareto tail."""
    tail = fb.total_mass(expectations.cut(expectations.waits(), lambda x: x > b))
    slope = jax.grad(lambda shape: jnp.log(tail(a=shape, r=1.4, b=2.0)))(1.7)
    assert float(slope) == pytest.approx(np.log(1.4 / 3.4), rel=1e-5)


@measure
def late(rate):
    x = yield Exponential(rate)
    yield condition(x > 1)


@measure
def shifted():
    x = yield Exponential(1)
    return (yield Poisson(x + mu))


NOT_ALLOWED = {
    "of another kind": (fb.total_mass(late(r)), "r", -1.0),
    "no rate": (fb.expectation(Exponential(mu), lambda x: x), "mu", -2.0),
    "ends out of order": (fb.expectation(Uniform(0, mu), lambda x: x), "mu", -1.0),
    "no chance": (fb.expectation(Geometric(mu), lambda x: x), "mu", 0.0),
    "a logarithm of a negative number": (fb.integrate(Normal(0, 1), lambda x: x**2 + log(mu)), "mu", -0.5),
}


@pytest.mark.parametrize("name", NOT_ALLOWED)
def test_numbers_that_are_not_allowed(name):
    """An error where they are known; not a number where they are traced, as the derivative is."""
    answer, one, value = NOT_ALLOWED[name]
    with pytest.raises((DataError, DomainError)):
        answer(**{one: value})
    found, slope = jax.jit(jax.value_and_grad(lambda given: answer(**{one: given})))(value)
    assert np.isnan(found) and np.isnan(slope)
    assert np.isfinite(jax.jit(lambda given: answer(**{one: given}))(abs(value) / 2 + 1.1 if value else 0.5))


def test_known_numbers_beside_traced_ones_are_checked():
    with pytest.raises((DataError, DomainError), match="positive"):
        jax.jit(lambda mean: fb.expectation(Normal(mu, s), lambda x: x * x)(mu=mean, s=-1.0))(0.3)
    with pytest.raises(DomainError, match="shape"):
        jax.jit(lambda given: ANSWERS["observations and a tail"](**{**NUMBERS, "t": given}))(jnp.zeros(3))


def test_parameters_that_draws_decide_are_proved_or_refused():
    """x + mu is a rate for each x only where mu is positive, which a traced number does not show."""
    answer = fb.expectation(shifted(), lambda y: y)
    assert answer(mu=0.5) == pytest.approx(1.5)
    with pytest.raises(DomainError, match="all numbers that its symbols allow"):
        jax.grad(lambda given: answer(mu=given))(0.5)
