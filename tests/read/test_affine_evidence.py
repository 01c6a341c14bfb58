"""Loops, solutions, updates, slices and checkpoints of latents: evidence, gradients, draws; models and factors."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

import fubini as fb
from fubini import dist
from tests.read.test_affine import AFFINE, N

RANDOM = np.random.default_rng(5)
NOISE = 0.5
CASES = {
    **AFFINE,
    "a slice": lambda e, c: jax.lax.dynamic_slice(jnp.cumsum(e), (1,), (2,)) + c,
    "slices in a loop": lambda e, c: jax.lax.map(
        lambda i: jax.lax.dynamic_slice(e, (i,), (2,)).sum() - c, jnp.arange(3)
    ),
}


def observed(name):
    """What a function makes of latents, as one array."""
    function = CASES[name]
    return lambda e, c: jnp.concatenate([jnp.ravel(part) for part in jax.tree_util.tree_leaves(function(e, c))])


def dense(name, scale):
    """The mean and the covariance of the latents and the matrix of what is observed, by derivatives."""
    with jax.enable_x64(True):
        function = observed(name)
        flat = lambda z: function(z[:N], z[N])  # noqa: E731
        offset, matrix = (np.asarray(f(jnp.zeros(N + 1))) for f in (flat, jax.jacfwd(flat)))
    return offset, matrix, np.diag(np.r_[np.full(N, scale**2), 1.0])


def log_evidence(name, scale, y):
    offset, matrix, prior = dense(name, scale)
    return multivariate_normal.logpdf(y, offset, matrix @ prior @ matrix.T + NOISE**2 * np.eye(len(offset)))


def model(name):
    @fb.model
    def latents(scale):
        e = yield dist.Normal(0.0, scale).expand([N])
        c = yield dist.Normal(0.0, 1.0)
        y = yield dist.Normal(observed(name)(e, c), NOISE)

    return latents


def test_functions_of_trees_see_numbers():
    """A latent that JAX takes apart is an array: the posterior was the prior where it was a term of ours."""

    def posterior(change):
        @fb.model
        def latents():
            e = yield dist.Normal(0.0, 1.0)
            y = yield dist.Normal(change(2.0 * e), NOISE)

        return latents().condition(y=1.5).posterior()

    whole, in_parts = posterior(lambda x: x), posterior(lambda x: jax.tree_util.tree_leaves(x)[0])
    assert float(in_parts.mean("e")) == pytest.approx(float(whole.mean("e"))) == pytest.approx(3.0 / 4.25)


MATRIX = RANDOM.normal(size=(N, N)) + 3 * np.eye(N)


def solve_with(matrix, e):
    return jnp.linalg.solve(matrix, e)


CAPTURED = {
    "a global": lambda e: jnp.linalg.solve(MATRIX, e),
    "a function inside": (lambda solve: lambda e: solve(e))(lambda e: jnp.linalg.solve(MATRIX, e)),
    "a part of a function": functools.partial(solve_with, MATRIX),
    "a default": lambda e, *, matrix=MATRIX: jnp.linalg.solve(matrix, e),
    "a collection": (lambda held: lambda e: jnp.linalg.solve(held["matrix"][0], e))({"matrix": [MATRIX]}),
}


@pytest.mark.parametrize("name", CAPTURED)
def test_captured_numbers_keep_their_digits(name):
    """Seen by JAX in float32 before, and factorised while they are read: the factor was computed in float32."""
    function, e, y = CAPTURED[name], fb.Variable("e", fb.Reals[N]), np.arange(1.0, N + 1)
    kept = jax.make_jaxpr(function)(jnp.ones(N, jnp.float32))
    root = np.linalg.inv(MATRIX)
    value = fb.lift(function)(e)
    np.testing.assert_allclose(value(e=y).data, root @ y, rtol=1e-12)
    product = dist.Normal(0.0, 1.0).expand([N])("e") * dist.Normal(value, NOISE)(y)
    exact = multivariate_normal.logpdf(y, np.zeros(N), root @ root.T + NOISE**2 * np.eye(N))
    assert float(product.sum("e").log()) == pytest.approx(exact, rel=1e-12)
    del kept


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", CASES)
def test_evidence_gradient_and_posterior(name):
    """Against a normal distribution of the matrix that derivatives give; the gradient by differences of it."""
    scale = RANDOM.uniform(0.5, 2.0)
    offset, matrix, prior = dense(name, scale)
    y = offset + RANDOM.normal(size=len(offset))
    exact, h = log_evidence(name, scale, y), 1e-5
    post = model(name)(scale).condition(y=y)
    assert float(post.log_evidence()) == pytest.approx(exact, rel=1e-9)
    assert post.log_evidence().exactness.is_exact
    e, c = fb.Variable("e", fb.Reals[N]), fb.Variable("c", fb.Real)
    likelihood = dist.Normal(fb.lift(observed(name))(e, c), NOISE)(y)
    product = dist.Normal(0.0, scale).expand([N])("e") * dist.Normal(0.0, 1.0)("c") * likelihood
    assert float(product.sum("e", "c").log()) == pytest.approx(exact, rel=1e-9)
    with jax.enable_x64(True):
        slope = jax.grad(lambda s: model(name)(s).condition(y=y).log_evidence().data)(scale)
    differences = (log_evidence(name, scale + h, y) - log_evidence(name, scale - h, y)) / (2 * h)
    assert float(slope) == pytest.approx(differences, rel=1e-5, abs=1e-7)
    gain = prior @ matrix.T @ np.linalg.inv(matrix @ prior @ matrix.T + NOISE**2 * np.eye(len(y)))
    mean, spread = gain @ (y - offset), np.sqrt(np.diag(prior - gain @ matrix @ prior))
    np.testing.assert_allclose(post.marginal("e").mean("e").data, mean[:N], atol=1e-8)
    draws = post.posterior().sample(jax.random.key(3), n=2000)
    drawn = np.column_stack([np.asarray(draws["e"]), np.asarray(draws["c"])])
    assert np.abs((drawn.mean(axis=0) - mean) / spread).max() < 5 / np.sqrt(2000)
