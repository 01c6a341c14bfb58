"""Conjugacy where functional tensors are wrong or stay lazy: several and plated observations, to the constant."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gammaln, logsumexp
from scipy.stats import beta, binom, dirichlet, gamma, multinomial, poisson

import fubini as fb
from fubini import dist
from tests.catalogue.conftest import every_door  # noqa: F401  (each evidence through every door)

RANDOM = np.random.default_rng(24)
DRAWS = 40_000


@fb.model
def coin(n, plate):
    p = yield dist.Beta(2.0, 3.0)
    y = yield dist.Binomial(n, p).expand([plate])


@fb.model
def urn(alpha, total, plate):
    p = yield dist.Dirichlet(alpha)
    y = yield dist.Multinomial(total, probs=p).expand([plate])


@fb.model
def urns(alpha, total, batch):
    p = yield dist.Dirichlet(alpha).expand(batch)
    y = yield dist.Multinomial(total, probs=p)


@fb.model
def labels(alpha, batch, items):
    p = yield dist.Dirichlet(alpha).expand(batch)
    y = yield dist.Categorical(p[..., None, :]).expand([*batch, items])


@fb.model
def flips(batch, items):
    p = yield dist.Beta(2.0, 3.0).expand(batch)
    y = yield dist.Bernoulli(p[..., None]).expand([*batch, items])


@fb.model
def rates(exposure):
    rate = yield dist.Gamma(2.0, 3.0)
    y = yield dist.Poisson(rate * exposure)


@fb.model
def waits(shape, items):
    rate = yield dist.Gamma(2.0, 3.0)
    y = yield dist.Gamma(shape, rate).expand([items])


def test_plated_counts_keep_each_coefficient():
    """−6.888 and −3.401: the coefficients of each observation, not that of their sum."""
    assert float(coin(5, 4).condition(y=np.array([0, 1, 2, 3])).log_evidence()) == pytest.approx(-6.888, abs=5e-4)
    seen = urn(np.ones(3), 2, 2).condition(y=np.array([[1, 1, 0], [0, 2, 0]]))
    assert float(seen.log_evidence()) == pytest.approx(-3.401, abs=5e-4)


def monte_carlo(log_weights):
    """log of the mean of weights, and its standard error."""
    value = logsumexp(log_weights) - np.log(len(log_weights))
    return value, np.std(np.exp(log_weights - value)) / np.sqrt(len(log_weights))


def check(post, log_weights):
    """The evidence is that of prior draws, to a hundredth."""
    value, error = monte_carlo(log_weights)
    assert error < 1e-2
    assert float(post.log_evidence()) == pytest.approx(value, abs=max(4 * error, 1e-3))


def test_gamma_poisson():
    exposure, y = np.array([1.0, 0.5, 2.0]), np.array([1, 0, 2])
    draws = gamma(2.0, scale=1 / 3).rvs(DRAWS, random_state=RANDOM)
    check(rates(exposure).condition(y=y), poisson.logpmf(y, draws[:, None] * exposure).sum(-1))


def test_gamma_gamma():
    y = np.array([1.5, 2.0])
    draws = gamma(2.0, scale=1 / 3).rvs(DRAWS, random_state=RANDOM)
    check(waits(2.5, 2).condition(y=y), gamma.logpdf(y, 2.5, scale=1 / draws[:, None]).sum(-1))


def test_beta_binomial():
    y = np.array([1, 2])
    draws = beta(2.0, 3.0).rvs(DRAWS, random_state=RANDOM)
    check(coin(5, 2).condition(y=y), binom.logpmf(y, 5, draws[:, None]).sum(-1))


@pytest.mark.parametrize("batch", [(), (5,), (2, 3)])
def test_beta_bernoulli(batch):
    """Each place of a batch has its own evidence: a product of beta functions."""
    y = RANDOM.integers(0, 2, (*batch, 3))
    ones = y.sum(-1)
    each = gammaln(5) - gammaln(2) - gammaln(3) + gammaln(2 + ones) + gammaln(6 - ones) - gammaln(8)
    assert float(flips(batch, 3).condition(y=y).log_evidence()) == pytest.approx(np.sum(each), rel=1e-12)


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("batch", [(), (5,), (2, 3)])
def test_dirichlet_multinomial(batch, size):
    alpha = np.linspace(0.5, 2.0, size)
    y = multinomial(4, np.ones(size) / size).rvs(batch or 1, random_state=RANDOM).reshape(*batch, size)
    terms = gammaln(5) - gammaln(y + 1).sum(-1) + gammaln(alpha.sum()) - gammaln(alpha.sum() + 4)
    terms = terms + (gammaln(alpha + y) - gammaln(alpha)).sum(-1)
    assert float(urns(alpha, 4, batch).condition(y=y).log_evidence()) == pytest.approx(np.sum(terms), rel=1e-12)


@pytest.mark.parametrize("batch", [(), (5,), (2, 3)])
def test_dirichlet_categorical(batch):
    alpha = np.array([0.5, 1.0, 2.0])
    y = RANDOM.integers(0, 3, (*batch, 4))
    counts = (y[..., None] == np.arange(3)).sum(-2)
    each = gammaln(3.5) - gammaln(7.5) + (gammaln(alpha + counts) - gammaln(alpha)).sum(-1)
    assert float(labels(alpha, batch, 4).condition(y=y).log_evidence()) == pytest.approx(np.sum(each), rel=1e-12)


def test_posterior_is_joint_less_evidence():
    """Dirichlet(alpha + counts), as a density and as a distribution."""
    alpha, y = np.array([0.5, 1.0, 2.0]), np.array([0, 2, 2, 1])
    post = labels(alpha, (), 4).condition(y=y)
    new = alpha + np.array([1, 1, 2])
    point = np.array([0.2, 0.3, 0.5])
    joint = float(post.log_prob(p=jnp.asarray(point))) - float(post.log_evidence())
    assert joint == pytest.approx(dirichlet(new).logpdf(point), rel=1e-5)
    np.testing.assert_allclose(post.marginal("p").mean("p").data, new / new.sum(), rtol=1e-12)
    drawn = post.predict(jax.random.key(0), "p", draws=4000)
    np.testing.assert_allclose(drawn.mean(0), new / new.sum(), atol=0.02)
