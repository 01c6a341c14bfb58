"""The north-star program 7 as written, with the values it promises."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from scipy.stats import invgamma, multivariate_t

import fubini as fb
from fubini import dist
from fubini.errors import Intractable

key = jax.random.key(0)
RANDOM = np.random.default_rng(7)
X = RANDOM.normal(size=(30, 3))
y = X @ np.array([1.0, -2.0, 0.5]) + RANDOM.normal(size=30)


@fb.model
def regression(X):
    v = yield dist.InverseGamma(3.0, 2.0)
    w = yield dist.Normal(0.0, jnp.sqrt(v)).expand([X.shape[1]])
    y = yield dist.Normal(X @ w, jnp.sqrt(v))


@fb.model
def simple():
    s = yield dist.InverseGamma(3.0, 2.0)
    m = yield dist.Normal(0.0, 1.0)
    x = yield dist.Normal(m, s)


post = regression(X).condition(y=y)

# Normal-inverse-gamma by hand: w | v ~ N(mean, v cov), v ~ InverseGamma(shape, rate).
cov = np.linalg.inv(X.T @ X + np.eye(3))
mean = cov @ X.T @ y
shape = 3.0 + 15.0
rate = 2.0 + 0.5 * (y @ y - mean @ X.T @ y)


def test_evidence() -> None:
    """A multivariate t."""
    expected = multivariate_t(np.zeros(30), (2 / 3) * (np.eye(30) + X @ X.T), df=6.0).logpdf(y)
    assert float(post.log_evidence()) == pytest.approx(expected, rel=1e-12)


def test_marginals() -> None:
    w, v = post.marginal("w"), post.marginal("v")
    np.testing.assert_allclose(w.mean("w").data, mean, rtol=1e-10)
    np.testing.assert_allclose(w.variance("w").data, np.diag(cov) * rate / (shape - 1), rtol=1e-10)
    np.testing.assert_allclose(float(v.mean("v")), rate / (shape - 1), rtol=1e-12)


def test_mode() -> None:
    """At the mean of w; v at the mode of its density with three more half-counts."""
    found = post.map()
    np.testing.assert_allclose(found.w, mean, rtol=1e-6)
    np.testing.assert_allclose(found.v, rate / (shape + 1.5 + 1), rtol=1e-6)


def test_predictions() -> None:
    draws = post.predict(key, "y", draws=4000)
    assert draws.shape == (4000, 30)
    spread = np.sqrt(rate / (shape - 1) * (1 + np.diag(X @ cov @ X.T)))
    assert np.all(np.abs(draws.mean(0) - X @ mean) < 5 * spread / np.sqrt(4000))


def test_elimination_and_recovery() -> None:
    small = post.eliminate("w")
    assert small.names == ("v",)
    grid = np.array([0.5, 1.0, 2.0])
    known = invgamma(shape, scale=rate).logpdf(grid) + float(post.log_evidence())
    np.testing.assert_allclose(small.log_prob(v=grid), known, rtol=1e-11)
    draws = {"v": np.full(5000, 2.0)}
    w = small.recover(key, draws)["w"]
    assert np.all(np.abs(w.mean(0) - mean) < 5 * np.sqrt(2.0 * np.diag(cov) / 5000))
    np.testing.assert_allclose(np.cov(w.T), 2.0 * cov, atol=6 * np.max(cov) * np.sqrt(2 / 5000) * 2)


def test_inference() -> None:
    idata = post.infer(key, draws=1000, chains=4, progress=False)
    assert set(idata.posterior.data_vars) == {"v", "w"}
    assert idata.posterior.w.shape == (4, 1000, 3)
    spread = np.sqrt(np.diag(cov) * rate / (shape - 1) / 4000)
    assert np.all(np.abs(idata.posterior.w.mean(("chain", "draw")).values - mean) < 5 * spread)


def test_explanation() -> None:
    text = str(fb.explain(post))
    assert "1. w: MultivariateNormal" in text
    assert "2. v: InverseGamma" in text
    assert "nothing remains" in text
    assert "<svg" in fb.explain(post).to_html()
    blocked = str(fb.explain(simple().condition(x=0.5)))
    assert "s remains: a closed form would need" in blocked


def test_models_of_numpyro() -> None:
    def schools(spread, effects):
        mu = numpyro.sample("mu", numpyro.distributions.Normal(0.0, 5.0))
        tau = numpyro.sample("tau", numpyro.distributions.HalfCauchy(5.0))
        with numpyro.plate("school", len(spread)):
            theta = numpyro.sample("theta", numpyro.distributions.Normal(mu, tau))
            numpyro.sample("obs", numpyro.distributions.Normal(theta, spread), obs=effects)

    spread = np.array([15.0, 10.0, 16.0, 11.0])
    idata = fb.from_numpyro(schools, spread, np.array([28.0, 8.0, -3.0, 7.0])).infer(key, draws=50, progress=False)
    assert idata.posterior.attrs["eliminated"] == ["theta", "mu"]
    assert "obs" in idata.observed_data


def test_what_has_no_closed_form_is_named() -> None:
    with pytest.raises(Intractable, match="integral over 's' has no closed form") as error:
        simple().condition(x=0.5).log_evidence()
    assert "'m' can be" in str(error.value)
