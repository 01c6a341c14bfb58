"""Draws of the prior as ArviZ data: groups, moments, and every door."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as npd
import pytest

import fubini as fb
from fubini import dist
from fubini.errors import DataError, DomainError, NoRule, UnknownName

KEY = jax.random.key(0)


@fb.model
def line(x):
    slope = yield dist.Normal(1.0, 0.5)
    double = yield fb.deterministic(2 * slope)
    y = yield dist.Normal(slope * x, 2.0)


X = np.array([0.0, 1.0, 3.0])
POST = line(X).condition(y=np.array([0.1, 1.2, 2.8]))


def test_groups_and_moments():
    data = POST.prior(KEY, draws=4000, dims={"y": ["row"]}, coords={"row": list("abc")})
    assert set(data.groups()) == {"prior", "prior_predictive", "observed_data"}
    slope, y = data.prior["slope"].values[0], data.prior_predictive["y"].values[0]
    np.testing.assert_allclose(data.prior["double"].values[0], 2 * slope, rtol=1e-6)
    assert slope.mean() == pytest.approx(1.0, abs=0.04) and slope.std() == pytest.approx(0.5, abs=0.03)
    np.testing.assert_allclose(y.mean(axis=0), X, atol=0.16)
    np.testing.assert_allclose(y.var(axis=0), 4 + 0.25 * X**2, rtol=0.1)  # slope and noise together
    assert list(data.prior_predictive["y"].coords["row"].values) == list("abc") and slope.dtype == np.float64
    np.testing.assert_array_equal(data.observed_data["y"], [0.1, 1.2, 2.8])
    assert data.prior.attrs["inference_library"] == "fubini"


def test_prior_and_posterior_together():
    both = POST.infer(KEY, draws=20, chains=2, progress=False)
    both.extend(POST.prior(KEY, draws=30))
    assert {"posterior", "prior", "prior_predictive", "posterior_predictive"} <= set(both.groups())
    assert both.prior["slope"].shape == (1, 30)


def test_without_observations():
    everything, some = line(X).prior(KEY, draws=10), line(X).prior(KEY, draws=10, observed="y")
    assert set(everything.groups()) == {"prior"} and set(everything.prior) == {"slope", "double", "y"}
    assert set(some.groups()) == {"prior", "prior_predictive"} and set(some.prior_predictive) == {"y"}
    np.testing.assert_array_equal(everything.prior["y"], some.prior_predictive["y"])


def numpyro_model(y=None):
    m = numpyro.sample("m", npd.Normal(0.0, 1.0))
    numpyro.sample("y", npd.Normal(m, 1.0).expand([3]), obs=y)


INNER = fb.JointNamed(dict(a=dist.Normal(0.0, 1.0), b=lambda a: dist.Normal(a, 1.0)))
DOORS = {
    "named": (fb.JointNamed(dict(m=dist.Normal(0.0, 1.0), y=lambda m: dist.Normal(m, 1.0))).condition(y=1.0), {"m"}),
    "sequential": (fb.JointSequential([dist.Normal(0.0, 1.0), lambda m: dist.Normal(m, 1.0)]).condition(x=1.0), {"m"}),
    "NumPyro": (fb.from_numpyro(numpyro_model, np.zeros(3)), {"m"}),
    "nested": (fb.JointNamed(dict(inner=INNER)).condition(inner={"b": 1.0}), {"inner.a"}),
    "missing": (line(X).condition(y=np.ma.masked_invalid([0.1, np.nan, 2.8])), {"slope", "double"}),
    "labels": (
        fb.JointNamed(dict(k=dist.Bernoulli(0.3), y=lambda k: dist.Normal(1.0 * k, 1.0))).condition(y=1.0),
        {"k"},
    ),
}


@pytest.mark.parametrize("name", DOORS)
def test_doors(name):
    post, latents = DOORS[name]
    data = post.prior(KEY, draws=7)
    assert set(data.prior) == latents
    assert set(data.prior_predictive) == set(data.observed_data)
    assert all(np.isfinite(data.prior_predictive[site]).all() for site in data.prior_predictive)


def test_single_precision():
    post = line(jnp.asarray(X)).condition(y=jnp.zeros(3))
    assert post.prior(KEY, draws=5).prior["slope"].dtype == np.float32


BAD = {
    "unknown": (lambda: line(X).prior(KEY, observed="z"), UnknownName, ["observed site 'z'", "'slope'"]),
    "empty": (lambda: line(X).prior(KEY, observed=()), DomainError, ["observed=()", "a site that holds data"]),
    "no key": (lambda: line(X).prior(), DataError, ["a JAX random key"]),
    "no draws": (lambda: line(X).prior(KEY, draws=0), DomainError, ["draws=0"]),
    "option": (lambda: line(X).prior(KEY, num_samples=3), DomainError, ["num_samples", "did you mean 'draws'"]),
    "dims": (lambda: POST.prior(KEY, dims={"y": ["a", "b"]}), DomainError, ["dims=['a', 'b']", "1 names"]),
    "improper": (
        lambda: fb.from_numpyro(improper).prior(KEY),
        NoRule,
        ["improper"],
    ),
}


def improper():
    m = numpyro.sample("m", npd.ImproperUniform(npd.constraints.real, (), ()))
    numpyro.sample("y", npd.Normal(m, 1.0), obs=0.3)


@pytest.mark.parametrize("name", BAD)
def test_bad(name):
    ask, kind, words = BAD[name]
    with pytest.raises(kind) as caught:
        ask()
    for word in words:
        assert word.lower() in str(caught.value).lower(), str(caught.value)
