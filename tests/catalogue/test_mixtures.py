"""Mixtures: labels are summed out, or what they choose between is integrated out given them."""

from itertools import product

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, logsumexp, softmax
from scipy.stats import beta, dirichlet, gamma, halfnorm, multivariate_t, norm, poisson

import fubini as fb
from fubini import dist
from fubini.errors import FubiniError
from tests.catalogue.oracles import (
    assert_close,
    assert_labels,
    assert_mean,
    dirichlet_counts,
    evidence,
    left,
    normal,
    paths,
    recovered,
)

Y = np.array([-2.1, 0.3, 1.9, 2.4, -1.7])
LABELS = np.array([0, 2, 2, 2, 0])
X = np.stack([np.ones(5), [0.5, -1.0, 0.2, 1.5, -0.4]], 1)


@fb.model
def gaussian_mixture(n, k):
    theta = yield dist.Dirichlet(jnp.ones(k))
    mu = yield dist.Normal(0.0, 5.0).expand([k])
    sigma = yield dist.HalfNormal(2.0).expand([k])
    z = yield dist.Categorical(theta).expand([n])
    y = yield dist.Normal(mu[z], sigma[z])


GAUSSIANS = [
    {"theta": np.array([0.2, 0.3, 0.5]), "mu": np.array([-2.0, 0.0, 2.0]), "sigma": np.array([0.5, 1.0, 2.0])},
    {"theta": np.array([0.7, 0.2, 0.1]), "mu": np.array([1.0, 0.5, -3.0]), "sigma": np.array([0.8, 0.3, 1.2])},
]


def test_gaussian_mixture_with_labels_summed():
    small = left(gaussian_mixture(5, 3).condition(y=Y), ["z"], ["theta", "mu", "sigma"])
    for kept in GAUSSIANS:
        theta, mu, sigma = kept["theta"], kept["mu"], kept["sigma"]
        terms = np.log(theta) + norm.logpdf(Y[:, None], mu, sigma)
        prior = dirichlet.logpdf(theta, np.ones(3)) + norm.logpdf(mu, 0, 5).sum()
        prior += halfnorm.logpdf(sigma, scale=2).sum()
        assert_close(small.log_prob(**kept), logsumexp(terms, axis=1).sum() + prior)
    assert_labels(recovered(small, kept)["z"], softmax(terms, axis=1))


@fb.model
def known_labels(labels, k):
    v = yield dist.InverseGamma(3.0, 2.0)
    theta = yield dist.Dirichlet(2.0 * jnp.ones(k))
    mu = yield dist.Normal(0.5, 3.0 * jnp.sqrt(v)).expand([k])
    z = yield dist.Categorical(theta).expand([len(labels)])
    y = yield dist.Normal(mu[z], jnp.sqrt(v))


def test_gaussian_mixture_with_known_labels():
    """One class is empty."""
    post = known_labels(LABELS, 3).condition(y=Y, z=LABELS)
    found = evidence(post, ["v", "theta", "mu"])
    same = LABELS[:, None] == LABELS
    student = multivariate_t(np.full(5, 0.5), (2 / 3) * (np.eye(5) + 9 * same), df=6)
    counts = np.bincount(LABELS, minlength=3)
    assert_close(found, student.logpdf(Y) + dirichlet_counts(2.0, counts))
    assert_close(post.marginal("theta").mean("theta").data, (counts + 2) / (counts.sum() + 6))
    sums = np.bincount(LABELS, weights=Y, minlength=3)
    assert_close(post.marginal("mu").mean("mu").data, (0.5 / 9 + sums) / (1 / 9 + counts))


BITS = np.array([[1, 0, 1], [1, 1, 1], [0, 0, 1], [0, 1, 0]])


@fb.model
def bernoulli_mixture(n, d):
    theta = yield dist.Dirichlet(jnp.array([1.0, 2.0]))
    p = yield dist.Beta(2.0, 3.0).expand([2, d])
    z = yield dist.Categorical(theta).expand([n])
    y = yield dist.Bernoulli(p[z])


def test_bernoulli_mixture():
    small = left(bernoulli_mixture(4, 3).condition(y=BITS), ["z"], ["theta", "p"])
    for theta, p in (
        (np.array([0.4, 0.6]), np.array([[0.1, 0.5, 0.9], [0.7, 0.2, 0.6]])),
        (np.array([0.9, 0.1]), np.array([[0.3, 0.4, 0.2], [0.8, 0.6, 0.5]])),
    ):
        each = np.where(BITS[:, None] == 1, np.log(p), np.log1p(-p)).sum(-1) + np.log(theta)
        prior = dirichlet.logpdf(theta, [1, 2]) + beta.logpdf(p, 2, 3).sum()
        assert_close(small.log_prob(theta=theta, p=p), logsumexp(each, axis=1).sum() + prior)
    assert_labels(recovered(small, {"theta": theta, "p": p})["z"], softmax(each, axis=1))


@fb.model
def poisson_mixture(n):
    rate = yield dist.Gamma(2.0, 0.5).expand([3])
    z = yield dist.Categorical(jnp.array([0.5, 0.3, 0.2])).expand([n])
    y = yield dist.Poisson(rate[z])


def test_poisson_mixture():
    counts, weights = np.array([0, 3, 7, 2]), np.array([0.5, 0.3, 0.2])
    small = left(poisson_mixture(4).condition(y=counts), ["z"], ["rate"])
    for rate in (np.array([1.0, 3.0, 8.0]), np.array([0.2, 0.5, 4.0])):
        each = np.log(weights) + poisson.logpmf(counts[:, None], rate)
        prior = gamma.logpdf(rate, 2, scale=2).sum()
        assert_close(small.log_prob(rate=rate), logsumexp(each, axis=1).sum() + prior)
    assert_labels(recovered(small, {"rate": rate})["z"], softmax(each, axis=1))


@fb.model
def mixture_of_regressions(x):
    b = yield dist.Normal(0.0, 2.0).expand([2, x.shape[1]])
    s = yield dist.HalfNormal(1.0)
    z = yield dist.Bernoulli(0.3).expand([len(x)])
    y = yield dist.Normal((x * b[z]).sum(-1), s)


def test_mixture_of_regressions():
    small = left(mixture_of_regressions(X).condition(y=Y), ["z"], ["b", "s"])
    for b, s in ((np.array([[0.0, 1.0], [1.0, -1.0]]), 0.7), (np.array([[0.3, -2.0], [2.0, 0.1]]), 1.5)):
        each = np.log([0.7, 0.3]) + norm.logpdf(Y[:, None], X @ b.T, s)
        prior = norm.logpdf(b, 0, 2).sum() + halfnorm.logpdf(s)
        assert_close(small.log_prob(b=b, s=s), logsumexp(each, axis=1).sum() + prior)
    assert_labels(recovered(small, {"b": b, "s": s})["z"], softmax(each, axis=1))


@fb.model
def two_components(n):
    p = yield dist.Beta(2.0, 2.0)
    low = yield dist.Normal(-1.0, 1.0)
    high = yield dist.Normal(1.0, 1.0)
    z = yield dist.Bernoulli(p).expand([n])
    y = yield dist.Normal(jnp.where(z, high, low), 0.8)


def test_two_components_by_where():
    small = left(two_components(5).condition(y=Y), ["z"], ["p", "low", "high"])
    for p, low, high in ((0.3, -1.5, 1.2), (0.8, 0.0, 0.1)):
        each = np.log([1 - p, p]) + norm.logpdf(Y[:, None], [low, high], 0.8)
        prior = beta.logpdf(p, 2, 2) + norm.logpdf(low, -1) + norm.logpdf(high, 1)
        assert_close(small.log_prob(p=p, low=low, high=high), logsumexp(each, axis=1).sum() + prior)
    draws = recovered(small, {"p": p, "low": low, "high": high})["z"]
    assert_mean(draws, softmax(each, axis=1)[:, 1])


@fb.model
def outliers(n):
    m = yield dist.Normal(0.0, 2.0)
    z = yield dist.Bernoulli(0.2).expand([n])
    y = yield dist.Normal(m, jnp.where(z == 1, 10.0, 0.5))


def test_outliers_have_a_larger_scale():
    small = left(outliers(5).condition(y=Y), ["z"], ["m"])
    for m in (0.4, -1.1):
        each = np.log([0.8, 0.2]) + norm.logpdf(Y[:, None], m, [0.5, 10.0])
        assert_close(small.log_prob(m=m), logsumexp(each, axis=1).sum() + norm.logpdf(m, 0, 2))
    assert_mean(recovered(small, {"m": m})["z"], softmax(each, axis=1)[:, 1])


@fb.model
def labels_and_means(n):
    mu = yield dist.Normal(0.0, 3.0).expand([2])
    z = yield dist.Categorical(jnp.array([0.4, 0.6])).expand([n])
    y = yield dist.Normal(mu[z], 1.0)


def test_labels_or_means_can_go_but_not_both():
    post = labels_and_means(5).condition(y=Y)
    small = left(post, ["z"], ["mu"])
    weights = np.array([0.4, 0.6])
    for mu in (np.array([-1.0, 2.0]), np.array([0.5, 0.1])):
        each = np.log(weights) + norm.logpdf(Y[:, None], mu)
        assert_close(small.log_prob(mu=mu), logsumexp(each, axis=1).sum() + norm.logpdf(mu, 0, 3).sum())
    other = post.eliminate("mu")
    assert other.names == ("z",)
    whole = []
    for z in paths([2] * 5):
        blocks = np.eye(5) + 9 * (z[:, None] == z)
        whole.append(normal(blocks, Y) + np.log(weights)[z].sum())
    assert_close(other.log_prob(z=paths([2] * 5)), whole)
    z = np.array([0, 1, 1, 1, 0])
    draws = recovered(other, {"z": z})["mu"]
    precision = 1 / 9 + np.bincount(z)
    assert_mean(draws, np.bincount(z, weights=Y) / precision, 1 / precision)
    with pytest.raises(FubiniError, match="closed form"):
        post.eliminate("mu", "z")


@fb.model
def local_means(n):
    z = yield dist.Categorical(jnp.array([0.2, 0.3, 0.5])).expand([n])
    m = yield dist.Normal(jnp.array([-2.0, 0.0, 2.0])[z], 0.5)
    y = yield dist.Normal(m, 1.0)


def test_a_label_and_a_mean_of_each_observation():
    post = local_means(5).condition(y=Y)
    each = np.log([0.2, 0.3, 0.5]) + norm.logpdf(Y[:, None], [-2, 0, 2], np.sqrt(1.25))
    assert_close(evidence(post, ["z", "m"]), logsumexp(each, axis=1).sum())
    assert_close(np.exp(post.marginal("z").log().data), softmax(each, axis=1))
    small = post.eliminate("m")
    centre = (np.array([-2.0, 0.0, 2.0])[LABELS] / 0.25 + Y) / 5
    assert_mean(recovered(small, {"z": LABELS})["m"], centre, 0.2)


def test_the_mean_of_labels():
    """Of the labels above, one for each observation."""
    found = local_means(5).condition(y=Y).marginal("z").mean("z")
    each = np.log([0.2, 0.3, 0.5]) + norm.logpdf(Y[:, None], [-2, 0, 2], np.sqrt(1.25))
    assert_close(found.data, softmax(each, axis=1) @ np.arange(3))


GROUP = np.array([0, 0, 1, 1, 1])


@fb.model
def grouped_labels(group, groups):
    mu = yield dist.Normal(0.0, 3.0).expand([2])
    p = yield dist.Beta(1.0, 1.0)
    z = yield dist.Bernoulli(p).expand([groups])
    y = yield dist.Normal(mu[z[group]], 1.0)


def test_a_label_for_each_group():
    small = left(grouped_labels(GROUP, 3).condition(y=Y), ["z"], ["mu", "p"])
    for mu, p in ((np.array([-1.0, 2.0]), 0.3), (np.array([0.5, 0.1]), 0.6)):
        each = norm.logpdf(Y[:, None], mu)
        each = np.stack([each[group == GROUP].sum(0) for group in range(3)]) + np.log([1 - p, p])
        prior = norm.logpdf(mu, 0, 3).sum() + beta.logpdf(p, 1, 1)
        assert_close(small.log_prob(mu=mu, p=p), logsumexp(each, axis=1).sum() + prior)
    assert_labels(recovered(small, {"mu": mu, "p": p})["z"], softmax(each, axis=1))


@fb.model
def uniform_weights(n):
    p = yield dist.Uniform(0.0, 1.0)
    z = yield dist.Bernoulli(p).expand([n])
    y = yield dist.Normal(2.0 * z, 1.0)


def test_uniform_weights():
    small = left(uniform_weights(5).condition(y=Y), ["z"], ["p"])
    for p in (0.3, 0.8):
        each = norm.logpdf(Y[:, None], [0.0, 2.0]) + np.log([1 - p, p])
        assert_close(small.log_prob(p=p), logsumexp(each, axis=1).sum())
    assert_labels(recovered(small, {"p": p})["z"], softmax(each, axis=1))


CENTRES = np.array([[0.0, 1.0], [1.0, -1.0]])
SPREADS = np.array([[[1.0, 0.3], [0.3, 0.5]], [[2.0, -0.4], [-0.4, 1.0]]])
POINTS = np.array([[0.3, 0.8], [1.4, -0.7], [-0.2, 0.1]])


@fb.model
def multivariate_mixture(n):
    p = yield dist.Beta(2.0, 2.0)
    z = yield dist.Bernoulli(p).expand([n])
    y = yield dist.MultivariateNormal(jnp.array(CENTRES)[z], jnp.array(SPREADS)[z])


def test_mixture_of_multivariate_normals():
    """The label chooses a covariance too."""
    small = left(multivariate_mixture(3).condition(y=POINTS), ["z"], ["p"])
    for p in (0.3, 0.8):
        each = np.array([[normal(SPREADS[k], row, CENTRES[k]) for k in (0, 1)] for row in POINTS])
        each += np.log([1 - p, p])
        assert_close(small.log_prob(p=p), logsumexp(each, axis=1).sum() + beta.logpdf(p, 2, 2))
    assert_labels(recovered(small, {"p": p})["z"], softmax(each, axis=1))


@fb.model
def groups_of_two_kinds(x, group):
    z = yield dist.Categorical(jnp.array([0.3, 0.7])).expand([2])
    b = yield dist.Normal(jnp.array([-1.0, 1.5])[z], 1.0)
    c = yield dist.Normal(0.0, 1.0).expand([2])
    y = yield dist.Normal(b[group] + c[group] * x, 0.8)


def test_labels_of_groups_with_intercepts_and_slopes():
    """The intercept and slope of a group go together, and then its label."""
    post = groups_of_two_kinds(X[:, 1], GROUP).condition(y=Y)
    expected = 0.0
    for group in range(2):
        x, y = X[group == GROUP], Y[group == GROUP]
        covariance = x @ x.T + 0.64 * np.eye(len(y))
        expected += logsumexp([np.log(0.3) + normal(covariance, y, -1.0), np.log(0.7) + normal(covariance, y, 1.5)])
    assert_close(evidence(post, ["z", "b", "c"]), expected)


@fb.model
def two_labels(n):
    z = yield dist.Categorical(jnp.array([0.3, 0.7])).expand([n])
    w = yield dist.Categorical(jnp.array([[0.8, 0.2], [0.4, 0.6]])[z])
    y = yield dist.Normal(jnp.array([-1.0, 1.5])[w] + 0.3 * z, 1.0)


def test_a_label_given_a_label():
    each = np.zeros((5, 2, 2))
    for z, w in paths([2, 2]):
        weight = [0.3, 0.7][z] * np.array([[0.8, 0.2], [0.4, 0.6]])[z, w]
        each[:, z, w] = np.log(weight) + norm.logpdf(Y, [-1.0, 1.5][w] + 0.3 * z)
    post = two_labels(5).condition(y=Y)
    assert_close(evidence(post, ["z", "w"]), logsumexp(each, axis=(1, 2)).sum())
    given = each[np.arange(5), 1, :]
    assert_labels(recovered(post.eliminate("w"), {"z": np.ones(5, int)})["w"], softmax(given, axis=1))


@fb.model
def stochastic_blocks(rows, columns):
    r = yield dist.Bernoulli(0.4).expand([rows])
    c = yield dist.Bernoulli(0.3).expand([columns])
    y = yield dist.Bernoulli(jnp.array([[0.1, 0.8], [0.6, 0.3]])[r[:, None], c])


def test_blocks_of_rows_and_columns():
    """Labels of one side are summed given those of the other, which are enumerated where they are few."""
    table, chance = BITS, np.array([[0.1, 0.8], [0.6, 0.3]])
    post = stochastic_blocks(4, 3).condition(y=table)
    small = post.eliminate("r")

    def log_p(c):
        each = np.where(table[:, None] == 1, np.log(chance[:, c]), np.log1p(-chance[:, c])).sum(-1) + np.log([0.6, 0.4])
        return logsumexp(each, axis=1).sum() + np.log(np.where(c == 1, 0.3, 0.7)).sum(), each

    for c in (np.array([0, 1, 1]), np.array([1, 0, 0])):
        assert_close(small.log_prob(c=c), log_p(c)[0])
    assert_labels(recovered(small, {"c": c})["r"], softmax(log_p(c)[1], axis=1))
    left(post, ["r", "c"])
    assert_close(post.log_evidence(), logsumexp([log_p(np.array(c))[0] for c in product((0, 1), repeat=3)]))
    many = np.tile(table, (4, 4))
    left(stochastic_blocks(*many.shape).condition(y=many), ["r"], ["c"])


@fb.model
def which_mean(n):
    z = yield dist.Bernoulli(0.4)
    m = yield dist.Normal(jnp.where(z, 2.0, -1.0), 1.5)
    y = yield dist.Normal(m, 1.0).expand([n])


def test_one_label_for_all():
    post = which_mean(5).condition(y=Y)
    covariance = np.eye(5) + 2.25
    each = np.array([np.log(0.6) + normal(covariance, Y, -1.0), np.log(0.4) + normal(covariance, Y, 2.0)])
    assert_close(evidence(post, ["z", "m"]), logsumexp(each))
    assert_close(post.marginal("z").mean("z").data, expit(each[1] - each[0]))


@fb.model
def inclusion(x):
    z = yield dist.Bernoulli(0.3).named("z0")
    other = yield dist.Bernoulli(0.6).named("z1")
    w = yield dist.Normal(0.0, 2.0).expand([2])
    y = yield dist.Normal(x[:, 0] * w[0] * z + x[:, 1] * w[1] * other, 0.8)


def test_inclusion_of_regressors():
    """A spike and a slab for each weight."""
    post = inclusion(X).condition(y=Y)
    each = []
    for z in paths([2, 2]):
        design = X * z
        prior = np.log(np.where(z == 1, [0.3, 0.6], [0.7, 0.4])).sum()
        each.append(prior + normal(4 * design @ design.T + 0.64 * np.eye(5), Y))
    assert_close(evidence(post, ["z0", "z1", "w"]), logsumexp(each))
    assert_close(post.marginal("z1").mean("z1").data, softmax(each) @ paths([2, 2])[:, 1])
