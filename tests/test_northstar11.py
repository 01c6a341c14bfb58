"""The north-star program 11 as written: the same question by every method."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

import fubini as fb
from fubini import dist

key = jax.random.key(0)
r = fb.Variable("r", fb.Positive)


@fb.model
def gp():
    r = yield dist.Gamma(2.0, 3.0)
    x = yield dist.Poisson(r)


@fb.model
def of_two():
    k = yield dist.Bernoulli(0.3)
    x = yield dist.Normal(jnp.where(k == 1, -2.0, 1.0), jnp.where(k == 1, 0.5, 2.0))
    y = yield dist.Normal(x, 1.0)


@fb.model
def open_model():
    s = yield dist.HalfCauchy(1.0)
    m = yield dist.Normal(0.0, 1.0)
    x = yield dist.Normal(m, s)


def test_factors_and_a_model():
    factors = dist.Gamma(2.0, 3.0)("r") * dist.Poisson(r)(4)
    truth = stats.nbinom.pmf(4, 2, 3 / 4)
    assert float(factors.sum("r")) == pytest.approx(truth, rel=1e-12)
    assert float(gp().condition(x=4).log_evidence()) == pytest.approx(np.log(truth), rel=1e-12)
    one, two = factors.normalize(), gp().condition(x=4).posterior()
    for at in (0.3, 1.0, 2.5):
        assert float(one(r=at)) == pytest.approx(float(two(r=at)), rel=1e-12)
        assert float(one(r=at)) == pytest.approx(stats.gamma.pdf(at, 6, scale=1 / 4), rel=1e-9)


def test_quadrature_monte_carlo_and_moment_matching():
    post = open_model().condition(x=0.7)
    total = integrate.quad(lambda s: stats.halfcauchy.pdf(s) * stats.norm.pdf(0.7, 0, np.hypot(s, 1)), 0, np.inf)[0]
    with fb.quadrature():
        exact = post.log_evidence()
    assert abs(float(exact) - np.log(total)) <= exact.exactness.error + 1e-9
    with fb.monte_carlo(key, 10_000):
        estimate = post.log_evidence()
    assert abs(float(estimate) - np.log(total)) <= 4 * estimate.exactness.error
    mixture = of_two().condition(y=0.7)
    with fb.moment_matching():
        matched = mixture.marginal("x")
    assert isinstance(matched, fb.Gaussian) and not matched.exactness.is_exact
    assert float(matched.mean("x")) == pytest.approx(float(mixture.marginal("x").mean("x")), rel=1e-12)
