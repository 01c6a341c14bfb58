"""Covariates that are exactly 0: the evidence and its derivatives are those of the normal distribution of the data."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import multivariate_normal

import fubini as fb
from fubini import dist

Y = np.array([1.0, -0.5, 2.0])
GROUP = np.array([0, 1, 1])
MEAN, SCALE = 1.5, 2.0


@fb.model
def line(x):
    b = yield dist.Normal(MEAN, SCALE)
    y = yield dist.Normal(b * x, 1.0)


@fb.model
def lines_of_groups(x):
    b = yield dist.Normal(MEAN, SCALE).expand([2])
    y = yield dist.Normal(b[GROUP] * x, 1.0)


def of_model(x, model):
    return model(x).condition(y=Y).log_evidence().data


def of_factors(x, model):
    return fb.eliminate(model(x).condition(y=Y).factors(), ("b",)).log().data


def by_hand(x, model):
    """log N(y; m x, 1 + s² x xᵀ), of the rows that share a slope."""
    shared = np.ones((3, 3)) if model is line else GROUP[:, None] == GROUP
    return multivariate_normal.logpdf(Y, MEAN * x, jnp.eye(3) + SCALE**2 * jnp.outer(x, x) * shared)


@pytest.mark.parametrize("door", [of_model, of_factors])
@pytest.mark.parametrize("model", [line, lines_of_groups])
@pytest.mark.parametrize("x", [[0.0, 0.0, 0.0], [0.3, 0.0, 0.0], [0.0, 0.3, 0.0]], ids=str)
@pytest.mark.one_in(3)
def test_derivatives(x, model, door):
    with jax.enable_x64(True):
        x = jnp.asarray(x)
        for derivative in (jax.value_and_grad, jax.hessian):
            wanted = derivative(by_hand)(x, model)
            found = jax.jit(derivative(door), static_argnums=1)(x, model)
            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9), found, wanted)


def test_the_derivative_of_a_posterior_mean():
    def posterior_mean(x):
        return line(x).condition(y=Y).marginal("b").mean("b").data

    with jax.enable_x64(True):
        x = jnp.zeros(3)
        np.testing.assert_allclose(posterior_mean(x), MEAN)
        np.testing.assert_allclose(jax.grad(posterior_mean)(x), SCALE**2 * Y)


@fb.model
def product_of_two():
    t = yield dist.Normal(0.0, 1.0)
    b = yield dist.Normal(MEAN, SCALE)
    y = yield dist.Normal(b * t, 1.0).expand([3])


def test_the_derivative_in_a_latent_that_remains():
    """Where a search for a mode starts at 0, the derivative there must not be taken for that of a mode."""
    with jax.enable_x64(True):
        remaining = fb.eliminate(product_of_two().condition(y=Y).factors(), ("b",))
        slope = jax.grad(lambda t: remaining(t=t).log().data)(0.0)
    np.testing.assert_allclose(slope, MEAN * Y.sum())
