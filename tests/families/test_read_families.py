"""Models with a Chi2, NegativeBinomial or BetaBinomial are read by their records: evidence by quadrature and sums."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

import fubini as fb
from fubini import dist
from fubini.models.flat_model import FlatModel

COUNTS = np.array([2, 0, 4])


@fb.model
def chi_squared_rate():
    rate = yield dist.Chi2(3.0)
    y = yield dist.Poisson(rate).expand([3])


@fb.model
def beta_and_negative_binomials():
    p = yield dist.Beta(2.0, 3.0)
    y = yield dist.NegativeBinomialProbs(2.5, p).expand([3])


@fb.model
def beta_binomial_mean():
    k = yield dist.BetaBinomial(2.0, 3.0, 7)
    y = yield dist.Normal(1.0 * k, 1.0)


def integral(density, end):
    return np.log(integrate.quad(density, 0, end)[0])


K = np.arange(8)
CASES = {
    "a ChiSquared rate of Poissons": (
        chi_squared_rate,
        COUNTS,
        lambda: integral(lambda t: stats.chi2(3).pdf(t) * np.prod(stats.poisson(t).pmf(COUNTS)), 80.0),
    ),
    "a Beta chance of NegativeBinomials": (
        beta_and_negative_binomials,
        COUNTS,
        lambda: integral(lambda p: stats.beta(2, 3).pdf(p) * np.prod(stats.nbinom(2.5, 1 - p).pmf(COUNTS)), 1.0),
    ),
    "a BetaBinomial mean": (
        beta_binomial_mean,
        2.3,
        lambda: np.log(np.sum(stats.betabinom(7, 2, 3).pmf(K) * stats.norm(K, 1).pdf(2.3))),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_evidence(case):
    model, y, expected = CASES[case]
    assert float(model().condition(y=y).log_evidence()) == pytest.approx(expected(), rel=1e-5)


@pytest.mark.parametrize("n", [1, 4])
def test_density_is_that_of_dist(n):
    """Also where a count of trials that is random is less than what was counted."""

    @fb.model
    def model():
        a = yield dist.Gamma(2.0, 1.0)
        n = yield dist.Poisson(4.0)
        x = yield dist.BetaBinomial(a, 2.0, 7).expand([3])
        y = yield dist.BetaBinomial(2.0, 2.0, n)
        z = yield dist.NegativeBinomialProbs(a, jnp.exp(-a))
        w = yield dist.Chi2(a)

    post = model().condition(x=np.array([1, 7, 3]), y=2, z=3, w=1.7)
    with jax.enable_x64(True):
        found = float(FlatModel(post).reading.log_density({"a": jnp.array(1.3), "n": jnp.array(n)}))
    assert found == pytest.approx(float(post.log_prob(a=1.3, n=n)), rel=1e-6)
