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


def test_labels_beside_known_ones() -> None:
    """Places of known labels are outside of the latent ones: their terms belong to no entry, and are not lost."""
    known, order = np.array([1, 0]), np.array([3, 1, 0, 2])

    @fb.model
    def some():
        z = yield dist.Bernoulli(0.3).expand([2])
        y = yield dist.Normal(jnp.array([-1.0, 2.0])[jnp.concatenate([known, z])[order]], 1.0)

    def log_joint(z: tuple) -> float:
        mean = np.array([-1.0, 2.0])[np.concatenate([known, z])[order]]
        return stats.bernoulli(0.3).logpmf(z).sum() + stats.norm(mean, 1.0).logpdf(Y).sum()

    want = special.logsumexp([log_joint(z) for z in itertools.product(range(2), repeat=2)])
    assert float(some().condition(y=Y).log_evidence()) == pytest.approx(want, abs=1e-9)


# -- functions of labels that are not read ---------------------------------------------------------------------------


def recursion(z):
    """x_t = ½ x_{t−1} + z_t, from whole numbers"""
    return jax.lax.scan(lambda x, z: (0.5 * x + z,) * 2, 0.0, z)[1]


STEPS = np.tril(0.5 ** np.maximum(np.arange(4)[:, None] - np.arange(4), 0))  # of the recursion, as a matrix


@fb.model
def recursive(share=0.3):
    z = yield dist.Bernoulli(share).expand([4])
    y = yield dist.Normal(recursion(z), 1.0)


@fb.model
def scaled_recursion():
    z = yield dist.Bernoulli(0.3).expand([4])
    a = yield dist.Normal(0.0, 1.0)
    y = yield dist.Normal(a * recursion(z), 1.0)


@fb.model
def ranked():
    z = yield dist.DiscreteUniform(1, 3).expand([4])
    y = yield dist.Normal(1.0 * jnp.sort(z), 1.0)


def log_scaled(z: np.ndarray) -> float:
    x = STEPS @ z
    return bernoulli(z) + stats.multivariate_normal(np.zeros(4), np.outer(x, x) + np.eye(4)).logpdf(Y)


def log_recursive(z: np.ndarray, share: float = 0.3) -> float:
    return stats.bernoulli(share).logpmf(z).sum() + stats.norm(STEPS @ z).logpdf(Y).sum()


FUNCTIONS = {
    "a loop": (recursive, (0, 1), log_recursive),
    "a loop, times a normal": (scaled_recursion, (0, 1), log_scaled),
    "sorted": (ranked, (1, 2, 3), lambda z: -4 * np.log(3) + stats.norm(np.sort(z)).logpdf(Y).sum()),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_that_are_tabulated(name):
    model, values, log_p = FUNCTIONS[name]
    evidence, chances = enumerated((4,), values, log_p)
    post = model().condition(y=Y)
    found = post.log_evidence()
    assert found.exactness.is_exact and float(found) == pytest.approx(evidence, rel=1e-9)
    np.testing.assert_allclose(post.marginal("z").weights[..., list(values)], chances, atol=1e-6)
    draws = post.infer(jax.random.key(0), draws=1000, chains=1, progress=False).posterior["z"].values[0]
    np.testing.assert_allclose([(draws == k).mean(0) for k in values], chances.T, atol=0.08)


def test_tabulated_under_jit_with_a_gradient():
    def ask(share):
        return recursive(share).condition(y=jnp.asarray(Y, jnp.float32)).log_evidence().data

    value, slope = jax.jit(jax.value_and_grad(ask))(0.3)
    ahead, behind = (
        enumerated((4,), (0, 1), lambda z, share=share: log_recursive(z, share))[0] for share in (0.301, 0.299)
    )
    assert float(value) == pytest.approx(enumerated((4,), (0, 1), log_recursive)[0], rel=1e-5)
    assert float(slope) == pytest.approx((ahead - behind) / 2e-3, rel=1e-3)


def test_tabulated_factors():
    names = [f"z{i}" for i in range(4)]
    x = fb.lift(lambda *z: recursion(jnp.stack(z)))(*(fb.Variable(name, fb.Bint[2]) for name in names))
    whole = dist.Normal(x, 1.0)(Y)
    for name in names:
        whole = whole * dist.Bernoulli(0.3)(name)
    evidence = enumerated((4,), (0, 1), log_recursive)[0]
    assert float(whole.sum(*names).log()) == pytest.approx(evidence, rel=1e-6)


def test_an_entry_that_a_label_chooses_is_multiplied():
    @fb.model
    def multiplied():
        z = yield dist.Categorical(jnp.asarray(CHANCES))
        a = yield dist.Normal(0.5, 1.0).expand([3])
        y = yield dist.Normal(a.at[z].multiply(3.0), 1.0)

    factors = 1 + 2 * np.eye(3)
    each = np.log(CHANCES) + stats.norm(0.5 * factors, np.sqrt(factors**2 + 1)).logpdf(Y[:3]).sum(1)
    post = multiplied().condition(y=Y[:3])
    assert float(post.log_evidence()) == pytest.approx(special.logsumexp(each), rel=1e-9)
    np.testing.assert_allclose(post.marginal("z").weights, special.softmax(each), atol=1e-9)


def test_more_labels_than_a_table_has_are_refused():
    @fb.model
    def many():
        z = yield dist.Bernoulli(0.3).expand([12])
        y = yield dist.Normal(recursion(z), 1.0)

    with pytest.raises(Intractable, match="'z' has no closed form"):
        many().condition(y=np.zeros(12)).log_evidence()


# -- short mixtures --------------------------------------------------------------------------------------------------


@fb.model
def short_mixture():
    share = yield dist.Dirichlet(jnp.ones(2))
    z = yield dist.Categorical(share).expand([4])
    centre = yield dist.Normal(2.0, 1.0).expand([2])
    y = yield dist.Normal(centre[z], 1.0)


def log_short_mixture(z: np.ndarray) -> float:
    which = np.eye(2)[z]
    shares = special.gammaln(1 + which.sum(0)).sum() - special.gammaln(6)
    return shares + stats.multivariate_normal(np.full(4, 2.0), which @ which.T + np.eye(4)).logpdf(Y)


@fb.model
def censored_mixture():
    z = yield dist.Bernoulli(0.3).expand([4])
    rate = yield dist.Gamma(2.0, 1.0).expand([2])
    y = yield dist.RightCensoredDistribution(dist.Exponential(rate[z]), censored=np.array([0, 1, 0, 1]))


def log_censored_mixture(z: np.ndarray) -> float:
    log_p = bernoulli(z)
    for k in (0, 1):
        ends, time = np.sum((z == k)[::2]), Y[z == k].sum()
        log_p += special.gammaln(2 + ends) - (2 + ends) * np.log(1 + time)
    return log_p


@pytest.mark.parametrize("model, log_p", [(short_mixture, log_short_mixture), (censored_mixture, log_censored_mixture)])
def test_evidence_of_a_short_mixture(model, log_p):
    """Labels are summed out last, though without them the others would have no closed form."""
    evidence, _ = enumerated((4,), (0, 1), log_p)
    found = model().condition(y=Y).log_evidence()
    assert found.exactness.is_exact and float(found) == pytest.approx(evidence, rel=1e-9)
    compiled = jax.jit(lambda y: model().condition(y=y).log_evidence().data)
    assert float(compiled(jnp.asarray(Y, jnp.float32))) == pytest.approx(evidence, rel=1e-5)
