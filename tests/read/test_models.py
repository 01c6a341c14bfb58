"""Models in index notation: the terms have the density of the joint, and show what they are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.models.flat_model import FlatModel

RANDOM = np.random.default_rng(0)
DESIGN, DOCUMENT = RANDOM.normal(size=(20, 3)), RANDOM.integers(0, 3, size=40)


@fb.model
def regression(design):
    v = yield dist.InverseGamma(3.0, 2.0)
    w = yield dist.Normal(0.0, jnp.sqrt(v)).expand([design.shape[1]])
    y = yield dist.Normal(design @ w, jnp.sqrt(v))


@fb.model
def mixture(n, k):
    theta = yield dist.Dirichlet(jnp.ones(k))
    mu = yield dist.Normal(0.0, 14.0).expand([k])
    y = yield dist.Categorical(theta).expand([n])
    s = yield dist.Normal(mu[y], 1.0)


@fb.model
def schools(sigma):
    mu = yield dist.Normal(0.0, 5.0)
    tau = yield dist.HalfCauchy(5.0)
    theta = yield dist.Normal(mu, tau).expand([8])
    y = yield dist.Normal(theta, sigma)


@fb.model
def topics(k, v):
    theta = yield dist.Dirichlet(jnp.full(k, 0.3)).expand([3])
    phi = yield dist.Dirichlet(jnp.full(v, 0.1)).expand([k])
    z = yield dist.Categorical(theta[DOCUMENT])
    w = yield dist.Categorical(phi[z])


@fb.model
def counts():
    rate = yield dist.Gamma(2.0, 3.0).expand([4])
    p = yield dist.Beta(2.0, 3.0)
    y = yield dist.Poisson(rate[jnp.array([0, 1, 1, 3, 2])])
    x = yield dist.Binomial(5, p).expand([3])
    b = yield dist.Bernoulli(logits=jnp.log(rate)).mask(jnp.array([True, False, True, True]))


MODELS = {
    "regression": regression(DESIGN).condition(y=RANDOM.normal(size=20)),
    "mixture": mixture(30, 4).condition(s=RANDOM.normal(size=30)),
    "schools": schools(np.arange(9.0, 17.0)).condition(y=np.arange(8.0)),
    "topics": topics(4, 7).condition(w=RANDOM.integers(0, 7, size=40)),
    "counts": counts().condition(y=np.array([0, 1, 2, 3, 1])),
}


@pytest.mark.parametrize("name", MODELS)
def test_density(name):
    post = MODELS[name]
    values = post.sample_and_log_weight(jax.random.key(0)).values._asdict()
    with jax.enable_x64(True):
        found = FlatModel(post).reading.log_density({site: jnp.asarray(value) for site, value in values.items()})
    np.testing.assert_allclose(found, post.log_prob(**values), rtol=1e-10)


@pytest.mark.parametrize(
    ("name", "site", "form"),
    [
        ("regression", "w", "½ (Σ_j w[j]²)/v"),
        ("mixture", "y", "Σ_j log(theta[y[j]])"),
        ("topics", "w", "Σ_j log(phi[z[j], w[j]])"),
        ("schools", "theta", ")²)/tau²"),
    ],
)
def test_form(name, site, form):
    assert form in str(FlatModel(MODELS[name]).reading.terms[site])
