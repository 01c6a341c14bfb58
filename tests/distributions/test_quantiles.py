"""P(x ≤ t) and quantiles of families, on the host and compiled, against SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import fubini as fb
from fubini import dist
from fubini.distributions.cumulative_probability import lift_probability, lift_quantile

LEVELS = np.array([0.02, 0.5, 0.9])
FAMILIES = {
    "Normal": (dist.Normal(1.0, 2.0), stats.norm(1.0, 2.0)),
    "HalfNormal": (dist.HalfNormal(2.0), stats.halfnorm(scale=2.0)),
    "Cauchy": (dist.Cauchy(1.0, 2.0), stats.cauchy(1.0, 2.0)),
    "HalfCauchy": (dist.HalfCauchy(2.0), stats.halfcauchy(scale=2.0)),
    "Laplace": (dist.Laplace(1.0, 2.0), stats.laplace(1.0, 2.0)),
    "Gamma": (dist.Gamma(2.5, 3.0), stats.gamma(2.5, scale=1 / 3)),
    "Exponential": (dist.Exponential(3.0), stats.expon(scale=1 / 3)),
    "Chi2": (dist.Chi2(3.0), stats.chi2(3.0)),
    "InverseGamma": (dist.InverseGamma(3.0, 2.0), stats.invgamma(3.0, scale=2.0)),
    "Beta": (dist.Beta(2.0, 3.5), stats.beta(2.0, 3.5)),
    "StudentT": (dist.StudentT(3.5, 1.0, 2.0), stats.t(3.5, 1.0, 2.0)),
    "LogNormal": (dist.LogNormal(0.5, 0.7), stats.lognorm(0.7, scale=np.exp(0.5))),
    "Uniform": (dist.Uniform(-1.0, 3.0), stats.uniform(-1.0, 4.0)),
    "Poisson": (dist.Poisson(3.7), stats.poisson(3.7)),
    "GammaPoisson": (dist.GammaPoisson(2.5, 0.7), stats.nbinom(2.5, 0.7 / 1.7)),
    "Geometric": (dist.Geometric(probs=0.3), stats.geom(0.3, loc=-1)),
    "Kumaraswamy": (dist.Kumaraswamy(2.0, 1.0), stats.beta(2.0, 1.0)),
    "Weibull": (dist.Weibull(2.0, 1.5), stats.weibull_min(1.5, scale=2.0)),
    "Gumbel": (dist.Gumbel(1.0, 2.0), stats.gumbel_r(1.0, 2.0)),
    "TruncatedNormal": (dist.TruncatedNormal(0.5, 1.0, low=0.0), stats.truncnorm(-0.5, np.inf, 0.5, 1.0)),
    "Pareto": (dist.Pareto(2.0, 3.0), stats.pareto(3.0, scale=2.0)),
}
COMPILED = ["Normal", "Gamma", "Beta", "StudentT", "Poisson", "Geometric"]  # also asked for as a compiled function


@pytest.mark.parametrize("family", FAMILIES)
def test_quantiles_and_probabilities(family):
    distribution, expected = FAMILIES[family]
    f = distribution("x")
    points = expected.ppf(LEVELS)
    np.testing.assert_allclose(f.quantile(LEVELS).data, points, rtol=1e-8)
    np.testing.assert_allclose(f.cdf(points + 0.01).data, expected.cdf(points + 0.01), rtol=1e-8)
    np.testing.assert_allclose(f.cdf([-1e3, 1e6]).data, expected.cdf([-1e3, 1e6]), atol=1e-12)
    assert f.quantile(0.5).exactness.is_exact


@pytest.mark.parametrize("family", COMPILED)
def test_compiled_functions_are_the_same(family):
    distribution, expected = FAMILIES[family]
    blueprint, domain = distribution.blueprint, distribution.domain
    with jax.enable_x64(True):
        leaves = [jnp.asarray(value.data) for value in distribution.leaf_values]
        inverse = lift_quantile(blueprint, domain.kind, domain.shape, domain.is_discrete).function.function
        points = inverse(jnp.asarray(LEVELS), *leaves)
        below = lift_probability(blueprint).function.function(jnp.array([-2.0, 0.4, 1.7]), *leaves)
    np.testing.assert_allclose(points, expected.ppf(LEVELS), rtol=1e-8)
    np.testing.assert_allclose(below, expected.cdf([-2.0, 0.4, 1.7]), rtol=1e-8)


VECTORS = {
    "normal": (
        dist.MultivariateNormal(np.array([0.0, 1.0]), np.array([[4.0, 1.0], [1.0, 9.0]])),
        stats.norm([0.0, 1.0], [2.0, 3.0]),
    ),
    "student": (
        dist.MultivariateStudentT(4.0, np.array([0.0, 1.0]), np.array([[2.0, 0.0], [3.0, 4.0]])),
        stats.t(4, [0.0, 1.0], [2.0, 5.0]),
    ),
    "dirichlet": (dist.Dirichlet(np.array([1.0, 2.0, 3.0])), stats.beta([1.0, 2.0, 3.0], [5.0, 4.0, 3.0])),
    "array": (dist.Gamma(np.array([1.0, 2.0]), 3.0), stats.gamma([1.0, 2.0], scale=1 / 3)),
    "expanded": (dist.Gamma(1.0, 3.0).expand([2]), stats.gamma([1.0, 1.0], scale=1 / 3)),
}


@pytest.mark.parametrize("kind", VECTORS)
def test_entries_of_vectors(kind):
    distribution, entries = VECTORS[kind]
    f = distribution("x")
    low, high = f.interval(0.9)
    np.testing.assert_allclose(low.data, entries.ppf(0.05), rtol=1e-8)
    np.testing.assert_allclose(high.data, entries.ppf(0.95), rtol=1e-8)
    np.testing.assert_allclose(f.cdf(0.3).data, entries.cdf(0.3), rtol=1e-6)
    assert f.quantile(LEVELS).data.shape == (3, *f.inputs["x"].shape)


def test_covariances_of_vectors():
    a = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(dist.Dirichlet(a)("x").covariance("x").data, stats.dirichlet(a).cov(), rtol=1e-6)
    rates = dist.Gamma(np.array([[1.0, 2.0], [3.0, 4.0]]), 1.0)("x")
    covariance = rates.covariance("x").data
    assert covariance.shape == (2, 2, 2, 2)
    np.testing.assert_allclose(covariance.reshape(4, 4), np.diag([1.0, 2.0, 3.0, 4.0]))
    np.testing.assert_allclose(rates.covariance().data, np.diag([1.0, 2.0, 3.0, 4.0]))


def test_sampled_quantiles_agree():
    f = fb.dist.InverseGamma(3.0, 2.0)("x")
    draws = f.sample(jax.random.key(0), "x", n=20_000)["x"]
    low, high = f.interval(0.8)
    np.testing.assert_allclose(np.mean((draws > float(low)) & (draws < float(high))), 0.8, atol=0.01)
