"""Conditionals against enumeration for other kinds of models: vectors, missing data, nesting, scales, cut points."""

import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.errors import NoRule
from tests.compile.cases import gaussian

g = np.random.default_rng(0)
S = np.arange(5.0) - 2


@fb.model
def nested():
    inner = yield gaussian(5, 3)


@fb.model
def plane(k):
    theta = yield dist.Dirichlet(jnp.ones(k))
    mu = yield dist.Normal(0.0, 3.0).expand([k, 2])
    y = yield dist.Categorical(theta).expand([4])
    s = yield dist.Normal(mu[y], 1.0)


@fb.model
def words(k):
    theta = yield dist.Dirichlet(jnp.ones(k))
    phi = yield dist.Dirichlet(jnp.ones(4)).expand([k])
    y = yield dist.Categorical(theta).expand([4])
    s = yield dist.Multinomial(total_count=5, probs=phi[y])


@fb.model
def cut(n):
    t = yield dist.DiscreteUniform(0, n - 1)
    a = yield dist.Gamma(2.0, 1.0)
    b = yield dist.Gamma(2.0, 1.0)
    s = yield dist.Poisson(jnp.where(jnp.arange(n) < t, a, b))


@fb.model
def shared_scale(k):
    theta = yield dist.Dirichlet(jnp.ones(k))
    v = yield dist.InverseGamma(3.0, 2.0)
    mu = yield dist.Normal(0.0, jnp.sqrt(v)).expand([k])
    y = yield dist.Categorical(theta).expand([5])
    s = yield dist.Normal(mu[y], jnp.sqrt(v))


@fb.model
def slopes(k, inputs):
    theta = yield dist.Dirichlet(jnp.ones(k))
    w = yield dist.Normal(0.0, 2.0).expand([k, inputs.shape[1]])
    y = yield dist.Categorical(theta).expand([5])
    s = yield dist.Normal(jnp.sum(inputs * w[y], -1), 1.0)


MODELS = {
    "missing": (gaussian(5, 3).condition(s=np.ma.masked_array(S, S == 0)), ("theta", "mu"), "y", 3),
    "nested": (nested().condition(inner={"s": S}), ("inner.theta", "inner.mu"), "inner.y", 3),
    "vectors": (plane(3).condition(s=g.normal(size=(4, 2))), ("theta", "mu"), "y", 3),
    "multinomial": (words(3).condition(s=g.multinomial(5, np.ones(4) / 4, 4)), ("theta", "phi"), "y", 3),
    "cut point": (cut(6).condition(s=np.array([1, 0, 2, 5, 6, 4])), ("a", "b"), "t", 6),
    "one scale for all": (shared_scale(3).condition(s=S), ("theta", "mu", "v"), "y", 3),
    "coupled slopes": (slopes(2, g.normal(size=(5, 3))).condition(s=S), ("theta", "w"), "y", 2),
}


@pytest.mark.parametrize("name", MODELS)
def test_conditional_equals_enumeration(name: str) -> None:
    post, eliminated, label, size = MODELS[name]
    collapsed = post.eliminate(*eliminated)
    sampler = collapsed.gibbs(label, engine="python")
    labels = np.random.default_rng(1).integers(0, size, sampler.labels[label].shape)
    for place in np.ndindex(labels.shape):
        every = np.repeat(labels[None], size, 0)
        every[(slice(None), *place)] = np.arange(size)
        logs = np.asarray(collapsed.log_prob(**{label: every}))
        exact = np.exp(logs - logs.max())
        found = sampler.conditional(label, place, **{label: labels})
        assert np.abs(found - exact / exact.sum()).max() < 1e-9, place


def test_many_coupled_slopes_remain() -> None:
    collapsed = slopes(2, g.normal(size=(5, 12))).condition(s=S).eliminate("theta", "w")
    with pytest.raises(NoRule, match=r"(?s)a compiled sampler of 'y'.*leave the latents coupled there in"):
        collapsed.gibbs("y").source()
