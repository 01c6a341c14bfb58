"""Coupled labels of few values together, against enumeration."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import fubini as fb
from fubini import dist
from fubini.errors import Intractable
from fubini.numerics.digits import entries_of, entry_probabilities

Y = np.array([0.3, 1.0, 4.0, 2.0])
CHANCES = np.array([0.2, 0.3, 0.5])


@fb.model
def counted():
    z = yield dist.Bernoulli(0.3).expand([4])
    y = yield dist.Poisson(1.0 + z.sum())


@fb.model
def rows():
    z = yield dist.Categorical(jnp.asarray(CHANCES)).expand([4, 3])
    y = yield dist.Normal(1.0 * z.sum(1), 1.0)


@fb.model
def columns():
    z = yield dist.Categorical(jnp.asarray(CHANCES)).expand([3, 4])
    y = yield dist.Normal(1.0 * z.sum(0), 1.0)


@fb.model
def accumulated():
    z = yield dist.DiscreteUniform(1, 3).expand([4])
    y = yield dist.Normal(1.0 * jnp.cumsum(z), 1.0)


@fb.model
def exclusive():
    z = yield dist.Bernoulli(0.3).expand([4])
    w = yield dist.Bernoulli(0.6)
    y = yield dist.Normal(1.0 * ((z[0] & z[3]) ^ w), 1.0)


@fb.model
def shared():
    share = yield dist.Beta(1.0, 2.0)
    z = yield dist.Bernoulli(share).expand([4])
    y = yield dist.Poisson(1.0 + z.sum())


def bernoulli(z: np.ndarray) -> float:
    return stats.bernoulli(0.3).logpmf(z).sum()


def log_shared(z: np.ndarray) -> float:
    """Beta-binomial, with the share integrated out."""
    return float(special.betaln(1 + z.sum(), 6 - z.sum()) - special.betaln(1, 2) + stats.poisson(1 + z.sum()).logpmf(3))


def log_exclusive(z: np.ndarray) -> float:
    both = [stats.bernoulli(0.6).logpmf(w) + stats.norm((z[0] & z[3]) ^ w).logpdf(0.3) for w in (0, 1)]
    return bernoulli(z) + special.logsumexp(both)


# A model, its data, the shape and the values of z, and log p(z, data) by hand.
CASES = {
    "a function of a sum": (counted, 3, (4,), (0, 1), lambda z: bernoulli(z) + stats.poisson(1 + z.sum()).logpmf(3)),
    "sums of partial sums": (
        accumulated, Y, (4,), (1, 2, 3), lambda z: -4 * np.log(3) + stats.norm(np.cumsum(z)).logpdf(Y).sum()
    ),
    "a test of two": (exclusive, 0.3, (4,), (0, 1), log_exclusive),
    "coupled once others are integrated out": (shared, 3, (4,), (0, 1), log_shared),
}  # fmt: skip


def enumerated(shape, values, log_p):
    """log Σ p, and p(z[i] = k)."""
    every = [np.array(z).reshape(shape) for z in itertools.product(values, repeat=int(np.prod(shape)))]
    logs = np.array([log_p(z) for z in every])
    shares = np.exp(logs - special.logsumexp(logs))
    chances = [sum(share * (z == k) for share, z in zip(shares, every, strict=True)) for k in values]
    return special.logsumexp(logs), np.stack(chances, -1)


@pytest.mark.parametrize("name", CASES)
def test_evidence_marginals_and_draws(name):
    model, data, shape, values, log_p = CASES[name]
    evidence, chances = enumerated(shape, values, log_p)
    post = model().condition(y=data)
    found = post.log_evidence()
    assert found.exactness.is_exact and float(found) == pytest.approx(evidence, rel=1e-9)
    np.testing.assert_allclose(post.marginal("z").weights[..., list(values)], chances, atol=1e-6)
    draws = (
        post.infer(jax.random.key(0), draws=1000, chains=2, progress=False).posterior["z"].values.reshape(-1, *shape)
    )
    np.testing.assert_allclose([(draws == k).mean(0) for k in values], np.moveaxis(chances, -1, 0), atol=0.06)


def test_the_most_probable_values():
    model, data, _, values, log_p = CASES["sums of partial sums"]
    every = [np.array(z) for z in itertools.product(values, repeat=4)]
    assert np.array_equal(model().condition(y=data).map().z, max(every, key=log_p))


def test_the_most_probable_path():
    """Of a hidden Markov model, by enumeration of its paths."""
    move, means = np.array([[0.8, 0.2], [0.3, 0.7]]), np.array([0.0, 2.0])

    @fb.model
    def hidden():
        z = yield dist.Markov(
            dist.Categorical(jnp.array([0.5, 0.5])), lambda z: dist.Categorical(jnp.asarray(move)[z]), 4
        )
        y = yield dist.Normal(jnp.asarray(means)[z], 1.0)

    def log_p(z):
        return np.log(move[z[:-1], z[1:]]).sum() + stats.norm(means[z]).logpdf(Y).sum()

    every = [np.array(z) for z in itertools.product((0, 1), repeat=4)]
    assert np.array_equal(hidden().condition(y=Y).map().z, max(every, key=log_p))


@pytest.mark.parametrize(("model", "axis"), [(rows, 1), (columns, 0)])
def test_rows_are_independent(model, axis):
    """3 labels together for each of 4 observations: 27 values, not 531,441."""
    parts = [
        enumerated((3,), (0, 1, 2), lambda z, y=y: np.log(CHANCES[z]).sum() + stats.norm(z.sum()).logpdf(y)) for y in Y
    ]
    post = model().condition(y=Y)
    assert float(post.log_evidence()) == pytest.approx(sum(part for part, _ in parts), rel=1e-9)
    np.testing.assert_allclose(post.marginal("z").weights, np.stack([p for _, p in parts], 1 - axis), atol=1e-6)


def test_under_jit_and_in_single_precision():
    """Digits are exact in single precision too."""
    expected, _ = enumerated((4,), (1, 2, 3), CASES["sums of partial sums"][-1])
    ask = jax.jit(lambda y: accumulated().condition(y=y).log_evidence().data)
    assert float(ask(jnp.asarray(Y, jnp.float32))) == pytest.approx(expected, rel=1e-5)
    assert "over all values of the entries" in str(fb.explain(accumulated().condition(y=Y)))


def test_too_many_configurations():
    @fb.model
    def many():
        z = yield dist.Bernoulli(0.3).expand([40])
        y = yield dist.Poisson(1.0 + z.sum())

    with pytest.raises(Intractable, match="'z' has no closed form"):
        many().condition(y=3).log_evidence()


def test_digits():
    configurations = np.arange(9)
    entries = entries_of(configurations, 3, (2,), (0,))
    assert entries.shape == (2, 9)
    every = np.moveaxis(entries, 0, -1)
    assert sorted(map(tuple, every)) == list(itertools.product(range(3), repeat=2))
    logits = np.random.default_rng(0).normal(size=9)
    shares = np.exp(logits) / np.exp(logits).sum()
    expected = [[shares[every[:, i] == k].sum() for k in range(3)] for i in range(2)]
    np.testing.assert_allclose(entry_probabilities(logits, 3, (2,), (0,)), expected)
