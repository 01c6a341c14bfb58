"""On one stream of random numbers, compiled samplers draw what kernels written by hand draw."""

import jax.numpy as jnp
import numpy as np

import fubini as fb
from fubini import dist
from tests.compile import by_hand

g = np.random.default_rng(7)


@fb.model
def mixture(n, k):
    theta = yield dist.Dirichlet(jnp.ones(k))
    mu = yield dist.Normal(0.0, 14.0).expand([k])
    y = yield dist.Categorical(theta).expand([n])
    s = yield dist.Normal(mu[y], 1.0)


@fb.model
def topics(d, v, k, doc):
    theta = yield dist.Dirichlet(jnp.ones(k)).expand([d])
    phi = yield dist.Dirichlet(jnp.ones(v)).expand([k])
    z = yield dist.Categorical(theta[doc])
    w = yield dist.Categorical(phi[z])


@fb.model
def naive_bayes(d, v, k, doc):
    theta = yield dist.Dirichlet(jnp.ones(k))
    phi = yield dist.Dirichlet(jnp.ones(v)).expand([k])
    z = yield dist.Categorical(theta).expand([d])
    w = yield dist.Categorical(phi[z[doc]])


def drawn(sampler, label, start, uniforms):
    sampler.machine.set({label: start})
    for row in uniforms:
        if sampler.program.drifts:
            sampler.machine.restart()
        sampler.machine.sweep(label, row, np.arange(len(row)))
    return sampler.machine.values(label)


def test_mixture() -> None:
    n, m = 300, 6
    s = g.normal(g.normal(0.0, 14.0, m)[g.integers(0, m, n)], 1.0)
    start, uniforms = g.integers(0, m, n), g.random((10, n))
    sampler = mixture(n, m).condition(s=s).eliminate("theta", "mu").gibbs("y")
    assert np.array_equal(drawn(sampler, "y", start, uniforms), by_hand.mixture(s, start, m, 14.0, uniforms))


def test_topics() -> None:
    d, v, m, n = 12, 30, 5, 400
    doc, word = np.sort(g.integers(0, d, n)), g.integers(0, v, n)
    start, uniforms = g.integers(0, m, n), g.random((6, n))
    sampler = topics(d, v, m, doc).condition(w=word).eliminate("theta", "phi").gibbs("z")
    expected = by_hand.topics(doc, word, start, (d, v, m), uniforms)
    assert np.array_equal(drawn(sampler, "z", start, uniforms), expected)


def test_naive_bayes() -> None:
    d, v, m, n = 30, 20, 4, 400
    doc, word = g.integers(0, d - 1, n), g.integers(0, v, n)  # the last document is empty
    start, uniforms = g.integers(0, m, d), g.random((6, d))
    sampler = naive_bayes(d, v, m, doc).condition(w=word).eliminate("theta", "phi").gibbs("z")
    expected = by_hand.naive_bayes(doc, word, start, (d, v, m), uniforms)
    assert np.array_equal(drawn(sampler, "z", start, uniforms), expected)
