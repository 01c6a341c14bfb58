"""Draws of factors that no rule joins, whose conditionals are no single factors: arrays that are coupled as a whole."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import fubini as fb
from fubini import dist
from tests.families import test_matrix_normal as matrices
from tests.integrate import test_matrix_regression as regressions

KEY, DRAWS = jax.random.key(0), 3000
Y = np.array([0.3, 1.0, 4.0, 2.0])


def assert_means(draws, mean, variance):
    error = 5 * np.sqrt(np.asarray(variance) / len(draws))
    assert np.all(np.abs(np.asarray(draws).mean(0) - mean) < error)


def labels(on=np, share=0.3):
    z = fb.Variable("z", fb.Bint[2, 4])
    mean = fb.lift(lambda z: 1.0 * jnp.cumsum(z))(z)
    return dist.Bernoulli(share).expand([4])("z") * dist.Normal(mean, 1.0)(on.asarray(Y))


def chances(share=0.3, y=Y):
    every = np.array(list(itertools.product((0, 1), repeat=4)))
    logs = stats.bernoulli(share).logpmf(every).sum(1) + stats.norm(np.cumsum(every, 1)).logpdf(y).sum(1)
    return special.softmax(logs) @ every


@pytest.mark.parametrize("on", [np, jnp])
def test_labels_together(on):
    """Whole numbers of the engine of the data; by the function too, and under jit."""
    exact = chances()
    draws = labels(on).normalize("z").sample(KEY, "z", n=DRAWS)["z"]
    assert draws.dtype.kind == "i" and isinstance(draws, jax.Array) == (on is jnp)
    assert_means(draws, exact, exact * (1 - exact))
    same = fb.sample(KEY, [labels(on)], ("z",), n=DRAWS)["z"]
    assert_means(same, exact, exact * (1 - exact))
    traced = jax.jit(lambda share: labels(jnp, share).normalize("z").sample(KEY, "z", n=DRAWS)["z"])(0.6)
    assert_means(traced, chances(0.6), 0.25)


@pytest.mark.parametrize("on", [np, jnp])
def test_labels_of_each_cell(on):
    """A draw for each value of another name, with its own data."""
    z = fb.Variable("z", fb.Bint[2, 4])
    mean = fb.lift(lambda z: 1.0 * jnp.cumsum(z))(z)
    rows = fb.Array(on.asarray(np.stack([Y, Y - 2.0])), ("row",))
    f = dist.Bernoulli(0.3).expand([4])("z") * dist.Normal(mean, 1.0)(rows)
    draws = np.asarray(f.normalize("z").sample(KEY, "z", n=DRAWS)["z"])
    assert draws.shape == (DRAWS, 2, 4)
    exact = np.stack([chances(), chances(y=Y - 2.0)])
    assert_means(draws, exact, exact * (1 - exact))
    assert np.abs(np.corrcoef(draws[:, 0, 0], draws[:, 1, 0])[0, 1]) < 5 / np.sqrt(DRAWS)


def test_a_matrix_of_coefficients_and_its_covariance():
    """B is drawn given S: a matrix whose rows and columns are coupled."""
    x, y = regressions.X, regressions.Y
    f = regressions.factors(5.0, regressions.PSI, y).normalize("B", "S")
    draws = f.sample(KEY, "B", "S", n=DRAWS)
    precision = x.T @ x + np.eye(3)
    mean = np.linalg.solve(precision, x.T @ y)
    covariance = (regressions.PSI + y.T @ y - mean.T @ precision @ mean) / (5 + 6 - 3)
    spread = np.outer(np.diagonal(np.linalg.inv(precision)), np.diagonal(covariance))
    assert_means(draws["B"], mean, spread)
    np.testing.assert_allclose(np.asarray(draws["B"]).var(0), spread, rtol=0.2)
    np.testing.assert_allclose(np.asarray(draws["S"]).mean(0), covariance, rtol=0.15, atol=0.01)


def test_a_matrix_normal():
    W = fb.Variable("W", fb.Reals[2, 3])
    observed = dist.Normal(fb.lift(lambda W: matrices.X @ W)(W), matrices.NOISE)(matrices.Y)  # an array of a module
    f = dist.MatrixNormal(matrices.LOC, matrices.ROWS, matrices.COLUMNS)("W") * observed
    mean, covariance = matrices.expected_posterior()
    draws = np.asarray(f.normalize("W").sample(KEY, "W", n=DRAWS)["W"]).reshape(DRAWS, 6)
    assert_means(draws, mean, np.diagonal(covariance))


class Data:
    """What a lifted function reads by an attribute."""

    x = np.array([[1.0, 0.2], [1.0, -1.3], [1.0, 0.7], [1.0, 2.0]])


@pytest.mark.parametrize("on", [np, jnp])
def test_arrays_that_a_function_reads_by_an_attribute(on):
    """In either precision, one after the other, and when they change."""
    data = Data()
    w = fb.Variable("w", fb.Reals[2])
    for _ in range(2):
        f = dist.Normal(0.0, 1.0).expand([2])("w") * dist.Normal(fb.lift(lambda w: data.x @ w)(w), 1.0)(on.asarray(Y))
        expected = stats.multivariate_normal(np.zeros(4), data.x @ data.x.T + np.eye(4)).logpdf(Y)
        assert float(f.sum("w").log()) == pytest.approx(expected, rel=1e-9 if on is np else 1e-5)
        traced = jax.jit(lambda f: f.sum("w").log().data)(f)
        assert float(traced) == pytest.approx(expected, rel=1e-5)
        data.x = 2 * data.x
