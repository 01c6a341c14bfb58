"""Change points: a finite latent decides which part of the data another latent describes."""

import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp, softmax
from scipy.stats import gamma, multivariate_t, poisson

import fubini as fb
from fubini import dist
from tests.catalogue.oracles import (
    assert_close,
    assert_mean,
    beta_bernoulli,
    evidence,
    gamma_poisson,
    left,
    normal,
    recovered,
)

COUNTS = np.array([4, 5, 4, 1, 0, 4, 3, 0, 1, 0, 1, 0])
YEARS = len(COUNTS)
Y = np.array([0.3, -0.5, 0.2, 2.9, 3.4, 2.2, 3.1])


@fb.model
def coal(n):
    s = yield dist.DiscreteUniform(0, n - 1)
    early = yield dist.Gamma(2.0, 0.5)
    late = yield dist.Gamma(1.0, 1.0)
    y = yield dist.Poisson(jnp.where(jnp.arange(n) < s, early, late))


def of_coal():
    """The log-evidence of each change point."""
    each = [gamma_poisson(2.0, 0.5, COUNTS[:s]) + gamma_poisson(1.0, 1.0, COUNTS[s:]) for s in range(YEARS)]
    return np.array(each) - np.log(YEARS)


def test_coal_mining_disasters():
    post = coal(YEARS).condition(y=COUNTS)
    each = of_coal()
    assert_close(evidence(post, ["s", "early", "late"]), logsumexp(each))
    found = post.marginal("s")
    assert_close([float(found(s=s).log()) for s in range(YEARS)], each - logsumexp(each))


def test_the_mean_of_a_change_point():
    assert_close(coal(YEARS).condition(y=COUNTS).marginal("s").mean("s").data, softmax(of_coal()) @ np.arange(YEARS))


def test_rates_before_and_after_a_change():
    """Given the change point."""
    small = coal(YEARS).condition(y=COUNTS).eliminate("early", "late")
    draws = recovered(small, {"s": 7})
    for name, a, b, part in (("early", 2.0, 0.5, COUNTS[:7]), ("late", 1.0, 1.0, COUNTS[7:])):
        distribution = gamma(a + part.sum(), scale=1 / (b + len(part)))
        assert_mean(draws[name], distribution.mean(), distribution.var())


@fb.model
def rates_by_index(n):
    s = yield dist.Categorical(jnp.ones(n) / n)
    rate = yield dist.Gamma(2.0, 0.5).expand([2])
    late = jnp.arange(n) >= s
    y = yield dist.Poisson(rate[late.astype(int)])


def test_rates_chosen_by_an_index():
    post = rates_by_index(YEARS).condition(y=COUNTS)
    each = [gamma_poisson(2.0, 0.5, COUNTS[:s]) + gamma_poisson(2.0, 0.5, COUNTS[s:]) for s in range(YEARS)]
    assert_close(evidence(post, ["s", "rate"]), logsumexp(each) - np.log(YEARS))


@fb.model
def change_of_mean(n):
    s = yield dist.DiscreteUniform(0, n - 1)
    before = yield dist.Normal(0.0, 2.0)
    after = yield dist.Normal(0.0, 2.0)
    y = yield dist.Normal(jnp.where(jnp.arange(n) < s, before, after), 0.5)


def test_normal_change_point():
    post = change_of_mean(7).condition(y=Y)
    each = []
    for s in range(7):
        late = np.arange(7) >= s
        each.append(normal(0.25 * np.eye(7) + 4 * (late[:, None] == late), Y))
    assert_close(evidence(post, ["s", "before", "after"]), logsumexp(each) - np.log(7))
    small = post.eliminate("before", "after")
    assert_close(small.log_prob(s=np.arange(7)), np.array(each) - np.log(7))
    assert_mean(recovered(small, {"s": 3})["after"], Y[3:].sum() / 0.25 / (0.25 + 16), 1 / (0.25 + 16))


@fb.model
def change_from_one(n):
    s = yield dist.DiscreteUniform(1, n - 1)
    m = yield dist.Normal(0.0, 2.0).expand([2])
    y = yield dist.Normal(jnp.where(jnp.arange(n) < s, m[0], m[1]), 0.5)


def test_a_change_point_that_starts_at_one():
    """There is something before it and after it."""
    each = []
    for s in range(1, 7):
        late = np.arange(7) >= s
        each.append(normal(0.25 * np.eye(7) + 4 * (late[:, None] == late), Y))
    post = change_from_one(7).condition(y=Y)
    assert_close(evidence(post, ["s", "m"]), logsumexp(each) - np.log(6))
    assert_close(post.marginal("s").mean("s").data, softmax(each) @ np.arange(1, 7))


@fb.model
def change_of_mean_and_noise(n):
    s = yield dist.DiscreteUniform(0, n - 1)
    v = yield dist.InverseGamma(3.0, 2.0)
    m = yield dist.Normal(1.0, 2.0 * jnp.sqrt(v)).expand([2])
    y = yield dist.Normal(jnp.where(jnp.arange(n) < s, m[0], m[1]), jnp.sqrt(v))


def test_normal_change_point_with_unknown_noise():
    post = change_of_mean_and_noise(7).condition(y=Y)
    each = []
    for s in range(7):
        late = np.arange(7) >= s
        shape = np.eye(7) + 4 * (late[:, None] == late)
        each.append(multivariate_t(np.ones(7), (2 / 3) * shape, df=6).logpdf(Y))
    assert_close(evidence(post, ["s", "v", "m"]), logsumexp(each) - np.log(7))


def of_variance(y):
    """log-evidence of normals with mean zero and variance v ~ InverseGamma(3, 2)."""
    return multivariate_t(np.zeros(len(y)), (2 / 3) * np.eye(len(y)), df=6).logpdf(y) if len(y) else 0.0


@fb.model
def change_of_variance(n):
    s = yield dist.DiscreteUniform(0, n - 1)
    before = yield dist.InverseGamma(3.0, 2.0)
    after = yield dist.InverseGamma(3.0, 2.0)
    y = yield dist.Normal(0.0, jnp.sqrt(jnp.where(jnp.arange(n) < s, before, after)))


@fb.model
def change_of_variance_by_index(n):
    s = yield dist.DiscreteUniform(0, n - 1)
    v = yield dist.InverseGamma(3.0, 2.0).expand([2])
    late = jnp.where(jnp.arange(n) < s, 0, 1)
    y = yield dist.Normal(0.0, jnp.sqrt(v[late]))


def test_a_change_of_variance():
    each = [of_variance(Y[:s]) + of_variance(Y[s:]) for s in range(7)]
    post = change_of_variance(7).condition(y=Y)
    assert_close(evidence(post, ["s", "before", "after"]), logsumexp(each) - np.log(7))


def test_a_change_of_variance_by_index():
    each = [of_variance(Y[:s]) + of_variance(Y[s:]) for s in range(7)]
    post = change_of_variance_by_index(7).condition(y=Y)
    assert_close(evidence(post, ["s", "v"]), logsumexp(each) - np.log(7))
    assert_close(post.marginal("s").mean("s").data, softmax(each) @ np.arange(7))


@fb.model
def change_of_slope(x):
    s = yield dist.DiscreteUniform(0, len(x) - 1)
    a = yield dist.Normal(0.0, 2.0)
    b = yield dist.Normal(0.0, 2.0)
    bend = yield dist.Normal(0.0, 2.0)
    hinge = jnp.maximum(x - x[s], 0.0)
    y = yield dist.Normal(a + b * x + bend * hinge, 0.5)


def test_a_bent_line():
    """The place of the bend is finite, what it multiplies is real."""
    x = np.linspace(-1.0, 2.0, 7)
    post = change_of_slope(x).condition(y=Y)
    each = []
    for s in range(7):
        design = np.stack([np.ones(7), x, np.maximum(x - x[s], 0)], 1)
        each.append(normal(0.25 * np.eye(7) + 4 * design @ design.T, Y))
    assert_close(evidence(post, ["s", "a", "b", "bend"]), logsumexp(each) - np.log(7))


@fb.model
def level_shift(n):
    s = yield dist.DiscreteUniform(0, n - 1)
    jump = yield dist.Normal(0.0, 3.0)
    x = yield dist.Markov(dist.Normal(0.0, 1.0), lambda x: dist.Normal(0.8 * x, 0.5), n)
    y = yield dist.Normal(x + jump * (jnp.arange(n) >= s), 0.4)


def test_a_level_shift_of_an_autoregression():
    """The states of the chain and the jump go together, and then the time of the jump."""
    post = level_shift(7).condition(y=Y)
    to = np.eye(7)
    for t in range(1, 7):
        to[t] += 0.8 * to[t - 1]
    prior = to @ np.diag([1.0] + [0.25] * 6) @ to.T
    each = []
    for s in range(7):
        late = (np.arange(7) >= s).astype(float)
        each.append(normal(prior + 9 * np.outer(late, late) + 0.16 * np.eye(7), Y))
    assert_close(evidence(post, ["s", "jump", "x"]), logsumexp(each) - np.log(7))
    assert_close(post.marginal("s").mean("s").data, softmax(each) @ np.arange(7))


@fb.model
def two_changes(n):
    first = yield dist.DiscreteUniform(0, n - 1)
    second = yield dist.DiscreteUniform(0, n - 1)
    rate = yield dist.Gamma(2.0, 0.5).expand([3])
    t = jnp.arange(n)
    y = yield dist.Poisson(rate[(t >= first).astype(int) + (t >= second).astype(int)])


def test_two_change_points():
    y = COUNTS[:8]
    post = two_changes(8).condition(y=y)
    each = np.zeros((8, 8))
    for first in range(8):
        for second in range(8):
            part = (np.arange(8) >= first).astype(int) + (np.arange(8) >= second)
            each[first, second] = sum(gamma_poisson(2.0, 0.5, y[part == k]) for k in range(3))
    assert_close(evidence(post, ["first", "second", "rate"]), logsumexp(each) - 2 * np.log(8))
    assert_close(post.marginal("first").mean("first").data, softmax(logsumexp(each, axis=1)) @ np.arange(8))


BITS = np.array([0, 0, 1, 0, 1, 1, 1, 1])


@fb.model
def change_of_odds(n):
    s = yield dist.Categorical(jnp.arange(1.0, n + 1) / jnp.sum(jnp.arange(1.0, n + 1)))
    p = yield dist.Beta(1.0, 2.0)
    q = yield dist.Beta(3.0, 1.0)
    y = yield dist.Bernoulli(jnp.where(jnp.arange(n) <= s, p, q))


def test_a_change_of_odds():
    post = change_of_odds(8).condition(y=BITS)
    weights = np.arange(1.0, 9.0)
    each = np.log(weights / weights.sum())
    for s in range(8):
        before, after = BITS[: s + 1], BITS[s + 1 :]
        each[s] += beta_bernoulli(1.0, 2.0, before.sum(), (1 - before).sum())
        each[s] += beta_bernoulli(3.0, 1.0, after.sum(), (1 - after).sum())
    assert_close(evidence(post, ["s", "p", "q"]), logsumexp(each))


@fb.model
def change_by_weights(n):
    s = yield dist.DiscreteUniform(0, n - 1)
    early = yield dist.LogNormal(0.0, 1.0)
    late = yield dist.LogNormal(0.0, 1.0)
    y = yield dist.Poisson(jnp.where(jnp.arange(n) < s, early, late))


def test_a_change_point_between_rates_without_conjugacy():
    """The change point goes, the rates stay."""
    small = left(change_by_weights(YEARS).condition(y=COUNTS), ["s"], ["early", "late"])
    for early, late in ((3.0, 0.5), (1.0, 2.5)):
        rates = np.where(np.arange(YEARS) < np.arange(YEARS)[:, None], early, late)
        each = poisson.logpmf(COUNTS, rates).sum(1)
        prior = sum(-0.5 * np.log(r) ** 2 - np.log(r) - 0.5 * np.log(2 * np.pi) for r in (early, late))
        assert_close(small.log_prob(early=early, late=late), logsumexp(each) - np.log(YEARS) + prior)
    draws = recovered(small, {"early": early, "late": late})["s"]
    mean = softmax(each) @ np.arange(YEARS)
    assert_mean(draws, mean, softmax(each) @ np.arange(YEARS) ** 2 - mean**2)
