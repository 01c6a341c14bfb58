"""Factor models: products of latents, of which one side is integrated out given the other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp, softmax
from scipy.stats import beta, gamma, halfnorm, multivariate_t, norm

import fubini as fb
from fubini import dist
from fubini.errors import FubiniError
from tests.catalogue.oracles import assert_close, assert_mean, conditional, evidence, left, normal, recovered

RANDOM = np.random.default_rng(1)
Y = RANDOM.normal(size=(5, 3))
LOADINGS = [RANDOM.normal(size=(3, 2)), RANDOM.normal(size=(3, 2))]


@fb.model
def probabilistic_pca(n, d, k):
    w = yield dist.Normal(0.0, 1.0).expand([d, k])
    s = yield dist.HalfNormal(1.0)
    z = yield dist.Normal(0.0, 1.0).expand([n, k])
    y = yield dist.Normal(z @ w.T, s)


def test_probabilistic_pca_with_latents_summed():
    small = left(probabilistic_pca(5, 3, 2).condition(y=Y), ["z"], ["w", "s"])
    for w, s in zip(LOADINGS, (0.8, 1.7), strict=True):
        expected = sum(normal(w @ w.T + s**2 * np.eye(3), row) for row in Y)
        expected += norm.logpdf(w).sum() + halfnorm.logpdf(s)
        assert_close(small.log_prob(w=w, s=s), expected)
    draws = recovered(small, {"w": w, "s": s})["z"]
    for place, row in enumerate(Y):
        mean, covariance = conditional(np.eye(2), w, s**2 * np.eye(3), row)
        assert_mean(draws[:, place], mean, np.diag(covariance))


def test_loadings_summed_where_they_are_more():
    """Of two sides that may go, the larger does."""
    small = left(probabilistic_pca(2, 3, 2).condition(y=Y[:2]), ["w"], ["z", "s"])
    for z, s in zip((LOADINGS[0][:2], LOADINGS[1][:2]), (0.8, 1.7), strict=True):
        expected = sum(normal(z @ z.T + s**2 * np.eye(2), column) for column in Y[:2].T)
        expected += norm.logpdf(z).sum() + halfnorm.logpdf(s)
        assert_close(small.log_prob(z=z, s=s), expected)


@fb.model
def factor_analysis(n, d, k):
    w = yield dist.Normal(0.0, 1.0).expand([d, k])
    psi = yield dist.Gamma(2.0, 2.0).expand([d])
    z = yield dist.Normal(jnp.zeros(k), 1.0).expand([n, k])
    y = yield dist.Normal(jnp.einsum("dk,nk->nd", w, z), jnp.sqrt(psi))


def test_factor_analysis_with_unequal_noise():
    small = left(factor_analysis(5, 3, 2).condition(y=Y), ["z"], ["w", "psi"])
    for w, psi in zip(LOADINGS, (np.array([0.5, 1.0, 2.0]), np.array([0.1, 0.2, 3.0])), strict=True):
        expected = sum(normal(w @ w.T + np.diag(psi), row) for row in Y)
        expected += norm.logpdf(w).sum() + gamma.logpdf(psi, 2, scale=0.5).sum()
        assert_close(small.log_prob(w=w, psi=psi), expected)
    draws = recovered(small, {"w": w, "psi": psi})["z"]
    mean, covariance = conditional(np.eye(2), w, np.diag(psi), Y[1])
    assert_mean(draws[:, 1], mean, np.diag(covariance))


@fb.model
def factor_analysis_with_a_mean(n, d, k):
    m = yield dist.Normal(0.0, 3.0).expand([d])
    w = yield dist.Normal(0.0, 1.0).expand([d, k])
    s = yield dist.HalfNormal(1.0).expand([d])
    z = yield dist.Normal(0.0, 1.0).expand([n, k])
    y = yield dist.Normal(m + z @ w.T, s)


def test_factor_analysis_with_its_mean_summed_too():
    """Latents of all rows are coupled in the mean."""
    small = left(factor_analysis_with_a_mean(5, 3, 2).condition(y=Y), ["m", "z"], ["w", "s"])
    for w, s in zip(LOADINGS, (np.array([0.5, 1.0, 2.0]), np.array([0.3, 0.8, 1.1])), strict=True):
        within = w @ w.T + np.diag(s**2)
        covariance = np.kron(np.eye(5), within) + np.kron(np.ones((5, 5)), 9 * np.eye(3))
        expected = normal(covariance, Y.ravel()) + norm.logpdf(w).sum() + halfnorm.logpdf(s).sum()
        assert_close(small.log_prob(w=w, s=s), expected)
    draws = recovered(small, {"w": w, "s": s})
    design = np.hstack([np.tile(np.eye(3), (5, 1)), np.kron(np.eye(5), w)])
    prior = np.diag([9.0] * 3 + [1.0] * 10)
    mean, covariance = conditional(prior, design, np.kron(np.eye(5), np.diag(s**2)), Y.ravel())
    found = np.concatenate([draws["m"], draws["z"].reshape(len(draws["z"]), -1)], axis=1)
    assert_mean(found, mean, np.diag(covariance))


@fb.model
def bilinear(n):
    a = yield dist.Normal(1.0, 1.0)
    b = yield dist.Normal(0.0, 2.0)
    y = yield dist.Normal(a * b, 0.5).expand([n])


def test_a_product_of_two_latents():
    """Either may go, not both."""
    y = Y[:, 0]
    post = bilinear(5).condition(y=y)
    small = left(post, ["b"], ["a"])
    for a in (0.7, -1.3):
        expected = normal(0.25 * np.eye(5) + 4 * a**2, y) + norm.logpdf(a, 1, 1)
        assert_close(small.log_prob(a=a), expected)
    other = post.eliminate("a")
    for b in (0.7, -1.3):
        expected = normal(0.25 * np.eye(5) + b**2, y, b) + norm.logpdf(b, 0, 2)
        assert_close(other.log_prob(b=b), expected)
    precision = 1 + 5 * b**2 / 0.25
    assert_mean(recovered(other, {"b": b})["a"], (1 + b * y.sum() / 0.25) / precision, 1 / precision)
    with pytest.raises(FubiniError, match="a"):
        post.eliminate("a", "b")
    with pytest.raises(FubiniError, match="log_evidence"):
        post.log_evidence()


@fb.model
def squared(n):
    x = yield dist.Normal(0.0, 1.0)
    y = yield dist.Normal(x**2, 1.0).expand([n])


def test_a_square_of_a_latent_stays():
    y = Y[:, 0]
    small = left(squared(5).condition(y=y), [], ["x"])
    for x in (0.7, -1.3):
        assert_close(small.log_prob(x=x), norm.logpdf(y, x**2).sum() + norm.logpdf(x))


@fb.model
def sorted_products(n):
    b = yield dist.Normal(0.0, 2.0)
    x = yield dist.Normal(0.3, 1.5).expand([n])
    y = yield dist.Normal(b * jnp.sort(x), 0.5)


def test_a_function_that_cannot_be_read():
    """What is multiplied by it may go, what it is a function of may not."""
    y = Y[:, 0]
    small = left(sorted_products(5).condition(y=y), ["b"], ["x"])
    for x in (np.array([0.7, -0.2, 1.1, 0.0, 2.0]), np.array([-1.0, -2.0, 0.3, 0.4, -0.5])):
        ordered = np.sort(x)
        expected = normal(0.25 * np.eye(5) + 4 * np.outer(ordered, ordered), y) + norm.logpdf(x, 0.3, 1.5).sum()
        assert_close(small.log_prob(x=x), expected)


@fb.model
def product_in_some_rows(n):
    c = yield dist.Normal(0.0, 1.0)
    x = yield dist.Normal(0.5, 1.0).expand([n])
    y = yield dist.Normal(c * jnp.where(jnp.arange(n) < 2, x, 0.7), 0.5)


def test_a_product_in_some_rows():
    """The other rows keep their squares."""
    y = Y[:, 0]
    small = left(product_in_some_rows(5).condition(y=y), ["x"], ["c"])
    first = np.arange(5) < 2
    for c in (0.8, -1.6):
        scale = np.sqrt(0.25 + first * c**2)
        assert_close(small.log_prob(c=c), norm.logpdf(y, c * np.where(first, 0.5, 0.7), scale).sum() + norm.logpdf(c))
    precision = 1 + first * c**2 / 0.25
    assert_mean(recovered(small, {"c": c})["x"], (0.5 + first * c * y / 0.25) / precision, 1 / precision)


ROW, COLUMN = np.array([0, 0, 1, 2, 2, 3]), np.array([0, 1, 1, 0, 2, 2])
RATINGS = RANDOM.normal(size=6)


@fb.model
def ratings(row, column):
    bias = yield dist.Normal(0.0, 1.0).expand([3])
    u = yield dist.Normal(0.0, 1.0).expand([4, 2])
    v = yield dist.Normal(0.0, 1.0).expand([3, 2])
    y = yield dist.Normal((u[row] * v[column]).sum(-1) + bias[column], 0.5)


def test_matrix_factorisation_of_some_entries():
    small = left(ratings(ROW, COLUMN).condition(y=RATINGS), ["u", "bias"], ["v"])
    for v in LOADINGS:
        users = np.einsum("nk,nu->nuk", v[COLUMN], np.eye(4)[ROW]).reshape(6, 8)
        items = np.eye(3)[COLUMN]
        covariance = users @ users.T + items @ items.T + 0.25 * np.eye(6)
        assert_close(small.log_prob(v=v), normal(covariance, RATINGS) + norm.logpdf(v).sum())
    draws = recovered(small, {"v": v})
    mean, covariance = conditional(np.eye(11), np.hstack([users, items]), 0.25 * np.eye(6), RATINGS)
    found = np.concatenate([draws["u"].reshape(-1, 8), draws["bias"]], axis=1)
    assert_mean(found, mean, np.diag(covariance))


@fb.model
def mixture_of_factor_analysers(loadings, n):
    p = yield dist.Beta(2.0, 2.0)
    z = yield dist.Bernoulli(p).expand([n])
    r = yield dist.Normal(0.0, 1.0).expand([n, 2])
    y = yield dist.Normal(jnp.einsum("nk,ndk->nd", r, loadings[z]), 0.5)


def test_mixture_of_factor_analysers():
    """The factors of each row go, and then the label that chose their loadings."""
    loadings = np.stack(LOADINGS)
    small = left(mixture_of_factor_analysers(loadings, 5).condition(y=Y), ["z", "r"], ["p"])
    for p in (0.3, 0.8):
        each = np.array([[normal(w @ w.T + 0.25 * np.eye(3), row) for w in loadings] for row in Y])
        each += np.log([1 - p, p])
        assert_close(small.log_prob(p=p), logsumexp(each, axis=1).sum() + beta.logpdf(p, 2, 2))
    weights = softmax(each, axis=1)
    draws = recovered(small, {"p": p})
    assert_mean(draws["z"], weights[:, 1])
    given = [[conditional(np.eye(2), w, 0.25 * np.eye(3), row) for w in loadings] for row in Y]
    first = np.array([[mean for mean, _ in row] for row in given])
    second = np.array([[np.diag(covariance) + mean**2 for mean, covariance in row] for row in given])
    mean = np.einsum("nz,nzk->nk", weights, first)
    assert_mean(draws["r"], mean, np.einsum("nz,nzk->nk", weights, second) - mean**2)


COVARIANCE = np.array([[1.0, 0.3, 0.0], [0.3, 2.0, 0.5], [0.0, 0.5, 1.5]])


@fb.model
def scaled_covariance(n):
    v = yield dist.InverseGamma(3.0, 2.0)
    y = yield dist.MultivariateNormal(jnp.zeros(3), v * jnp.array(COVARIANCE)).expand([n])


def test_a_factor_of_a_covariance():
    post = scaled_covariance(5).condition(y=Y)
    student = multivariate_t(np.zeros(15), (2 / 3) * np.kron(np.eye(5), COVARIANCE), df=6)
    assert_close(evidence(post, ["v"]), student.logpdf(Y.ravel()))
    rate = 2 + 0.5 * np.einsum("ni,ij,nj", Y, np.linalg.inv(COVARIANCE), Y)
    assert_close(post.marginal("v").mean("v").data, rate / (3 + 7.5 - 1))


# -- linear functions ------------------------------------------------------------------------------------------------

LINEAR = {
    "tile": lambda x: jnp.tile(x, 2),
    "repeat": lambda x: jnp.repeat(x, 2),
    "stack": lambda x: jnp.stack([x[0] + x[1], 2 * x[2], x[3]]),
    "segment_sum": lambda x: jax.ops.segment_sum(x, np.array([0, 2, 0, 1]), 3),
    "scatter": lambda x: jnp.arange(6.0).at[np.array([1, 2, 4, 5])].set(x),
    "scatter_add": lambda x: jnp.ones(3).at[np.array([1, 2, 1, 0])].add(x),
    "insert": lambda x: jnp.insert(x, 1, 0.5),
    "pad": lambda x: jnp.pad(x, 1),
    "diff": lambda x: jnp.diff(x),
    "roll": lambda x: jnp.roll(x, 1),
    "flip": lambda x: x[::-1],
    "cumsum": lambda x: jnp.cumsum(x),
    "centred": lambda x: x - x.mean(),
    "sum to zero": lambda x: jnp.concatenate([x, -x.sum(keepdims=True)]),
    "reshape": lambda x: x.reshape(2, 2) @ jnp.array([1.0, 2.0]),
}


@pytest.mark.parametrize("name", LINEAR)
def test_linear_functions(name):
    """Whatever is linear in a normal latent is normal, times another latent too."""
    f = LINEAR[name]

    @fb.model
    def linear():
        c = yield dist.HalfNormal(1.0)
        x = yield dist.Normal(0.4, 1.0).expand([4])
        y = yield dist.Normal(c * f(x), 0.5)

    shift = np.asarray(f(jnp.zeros(4)), float)
    design = np.stack([np.asarray(f(jnp.eye(4)[place]), float) - shift for place in range(4)], 1)
    y = np.linspace(-1.0, 2.0, len(shift))
    small = left(linear().condition(y=y), ["x"], ["c"])
    for c in (0.7, 1.9):
        covariance = c**2 * design @ design.T + 0.25 * np.eye(len(y))
        expected = normal(covariance, y, c * (design @ np.full(4, 0.4) + shift)) + halfnorm.logpdf(c)
        np.testing.assert_allclose(small.log_prob(c=c), expected, rtol=1e-6)  # the functions are evaluated in float32
