"""Long linear recursions of `lax.scan`: solved step by step, as by the matrix that they stand for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

import fubini as fb
from fubini import dist
from fubini.errors import Intractable
from fubini.models.eliminated_model import eliminated
from fubini.models.flat_model import FlatModel
from fubini.read import recursions

RANDOM = np.random.default_rng(20)
T, NOISE, SCALE = 9, 0.5, 1.3
X = RANDOM.normal(size=(T, 2))
TURN = np.array([[0.5, 0.25], [-0.125, 0.875]])


def states(step, start, slices, **options):
    return jax.lax.scan(step, start, slices, **options)[1]


def regression(b):
    return X.copy() @ b  # JAX remembers in which precision it first saw an array


def first_order(e, start=0.0, **options):
    return states(lambda x, e: (0.8 * x + e,) * 2, start, e, **options)


def second_order(e, b):
    def step(state, e):
        x = 0.5 * state[0] + 0.2 * state[1] + e
        return (x, state[0]), x

    return states(step, (b[0], 2 * b[1]), e)


def moving_average(e, b):
    def step(state, e):
        u = 0.7 * state[0] + e + 0.4 * state[1]
        return (u, e), u

    return regression(b) + states(step, (0.0, 0.0), e)


def counted(e, b):
    """The state has a part that no latent moves."""
    return states(lambda s, e: ((0.1 * s[1] * s[0] + e, s[1] + 1.0), s[0] - e), (b[0], 0.0), e)


def vectors(e, b):
    return states(lambda x, e: (TURN @ x + e,) * 2, jnp.zeros(2), jnp.stack([e, 2 * e], 1))


PROGRAMS = {  # of T noises, and two coefficients
    "the second order": second_order,
    "errors with a moving average": moving_average,
    "backwards": lambda e, b: first_order(e, 1.0, reverse=True) + b[0],
    "the last state": lambda e, b: jax.lax.scan(lambda x, e: (0.5 * x + e, None), b[0], e)[0] * jnp.ones(1),
    "noise and a regression go in": lambda e, b: first_order(0.7 * e + regression(b)),
    "known slopes": lambda e, b: states(lambda x, here: (here[1] * x + here[0],) * 2, b[0], (e, X[:, 0])),
    "a slice": lambda e, b: first_order(e, b[0])[2:7],
    "every second": lambda e, b: first_order(e, b[0])[1::2],
    "what goes in beside what comes out": lambda e, b: first_order(e) + 0.3 * e + b[1],
    "two recursions": lambda e, b: first_order(e) - states(lambda x, e: (x + e,) * 2, b[0], e),
    "a state that is counted": counted,
    "a sum of vectors": lambda e, b: vectors(e, b) @ jnp.array([1.0, -0.5]) + b[0],
    "vectors": lambda e, b: vectors(e, b) + b,
}


@pytest.fixture
def by_recursion(monkeypatch):
    monkeypatch.setattr(recursions, "SHORT", 0)


def model(name):
    @fb.model
    def latents(scale):
        b = yield dist.Normal(0.0, 1.0).expand([2])
        e = yield dist.Normal(0.0, scale).expand([T])
        y = yield dist.Normal(PROGRAMS[name](e, b), NOISE)

    return latents


def by_matrix(name, scale=SCALE):
    """The mean and the covariance of the latents, and the offset and matrix of what is observed, by derivatives."""
    with jax.enable_x64(True):
        function = lambda z: jnp.ravel(PROGRAMS[name](z[:T], z[T:]))  # noqa: E731
        offset, matrix = (np.asarray(part(jnp.zeros(T + 2))) for part in (function, jax.jacfwd(function)))
    return offset, matrix, np.diag(np.r_[np.full(T, scale**2), 1.0, 1.0])


def log_evidence(name, y, scale=SCALE):
    offset, matrix, prior = by_matrix(name, scale)
    return multivariate_normal.logpdf(y, offset, matrix @ prior @ matrix.T + NOISE**2 * np.eye(len(offset)))


def is_by_recursion(post):
    (step,) = eliminated(FlatModel(post)).plan.integrals
    return step.result.layout.frame.recursions is not None


@pytest.mark.parametrize("name", PROGRAMS)
def test_evidence_and_moments(name, by_recursion):
    offset, matrix, prior = by_matrix(name)
    y = offset + RANDOM.normal(size=len(offset))
    shape = jax.eval_shape(PROGRAMS[name], np.zeros(T), np.zeros(2)).shape
    post = model(name)(SCALE).condition(y=y.reshape(shape))
    assert is_by_recursion(post)
    assert float(post.log_evidence()) == pytest.approx(log_evidence(name, y), rel=1e-10)
    gain = prior @ matrix.T @ np.linalg.inv(matrix @ prior @ matrix.T + NOISE**2 * np.eye(len(y)))
    mean, variance = gain @ (y - offset), np.diag(prior - gain @ matrix @ prior)
    marginal = post.marginal("e")
    np.testing.assert_allclose(marginal.mean("e").data, mean[:T], atol=1e-10)
    np.testing.assert_allclose(marginal.variance("e").data, variance[:T], rtol=1e-10)
    np.testing.assert_allclose(post.marginal("b").mean("b").data, mean[T:], atol=1e-10)
