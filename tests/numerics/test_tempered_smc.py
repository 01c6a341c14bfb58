"""Sequential Monte Carlo over temperatures: evidence within its standard error, draws of the density."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from fubini.base.arrays import double_precision
from fubini.numerics.log_sum_exp import log_sum_exp
from fubini.numerics.tempered_smc import FREEDOM, NoPath, Start, Tempered, log_start, slope_of_start, tempered_smc


def normal(point, numbers):
    """exp(−½ Σ ((x − m)/s)²)"""
    return -0.5 * jnp.sum(((point - numbers[0]) / numbers[1]) ** 2)


def pair(point, numbers):
    """Two modes far apart, with a fifth and four fifths of the mass."""
    low, high = -0.5 * jnp.sum(((point + 3) / 0.2) ** 2), -0.5 * jnp.sum(((point - 3) / 0.2) ** 2)
    return jnp.logaddexp(low + jnp.log(0.2), high + jnp.log(0.8))


def heavy(point, numbers):
    """A Cauchy density, whose tails are heavier than those that the points are drawn from first."""
    return -jnp.sum(jnp.log1p(point**2))


def bounded(point, numbers):
    """Nothing below zero."""
    return jnp.where(point[0] > 0, -point[0], -jnp.inf)


def run(log_density, size, n, seed=0, numbers=(), scale=2.0) -> Tempered:
    with double_precision():
        start = Start(np.zeros(size), np.full(size, scale))
        return tempered_smc(np.random.default_rng(seed), log_density, numbers, start, n)


SQUARE = np.log(2 * np.pi) / 2


@pytest.mark.parametrize(
    ("log_density", "size", "numbers", "truth"),
    [
        (normal, 1, (3.0, 0.1), SQUARE + np.log(0.1)),
        (normal, 5, (3.0, 0.1), 5 * (SQUARE + np.log(0.1))),
        (normal, 20, (0.5, 0.5), 20 * (SQUARE + np.log(0.5))),
        (pair, 3, (), 3 * (SQUARE + np.log(0.2))),
        (heavy, 1, (), np.log(np.pi)),
        (bounded, 1, (), 0.0),
    ],
)
def test_evidence_is_within_its_error(log_density, size, numbers, truth):
    """Of eight runs at most one is more than three standard errors away (of 16 groups), and their mean is not."""
    found = [run(log_density, size, 1000, seed, numbers) for seed in range(8)]
    errors = np.array([one.error for one in found])
    away = (np.array([log_sum_exp(one.log_weights) for one in found]) - truth) / errors
    assert np.sum(np.abs(away) > 3) <= 1 and np.all(errors < 0.4)
    assert abs(away.mean()) < 3 / np.sqrt(8)


def test_draws_are_of_the_density():
    found = run(normal, 4, 4000, numbers=(np.array([1.0, -2.0, 0.0, 5.0]), np.array([0.5, 1.0, 0.1, 2.0])))
    np.testing.assert_allclose(found.points.mean(axis=0), [1.0, -2.0, 0.0, 5.0], atol=0.15)
    np.testing.assert_allclose(found.points.std(axis=0), [0.5, 1.0, 0.1, 2.0], rtol=0.06)


def test_modes_have_their_shares():
    found = run(pair, 2, 4000)
    weights = np.exp(found.log_weights - log_sum_exp(found.log_weights))
    assert weights[found.points[:, 0] > 0].sum() == pytest.approx(0.8, abs=0.05)


def test_the_start():
    start = Start(np.array([1.0, -2.0]), np.array([0.5, 3.0]))
    points = np.random.default_rng(0).normal(size=(7, 2))
    truth = stats.t.logpdf(points, FREEDOM, start.centre, start.scale).sum(axis=1)
    np.testing.assert_allclose(log_start(points, start), truth, rtol=1e-12)
    ahead, behind = (log_start(points + sign * np.array([1e-5, 0.0]), start) for sign in (1, -1))
    np.testing.assert_allclose(slope_of_start(points, start)[:, 0], (ahead - behind) / 2e-5, rtol=1e-6)


def test_no_path():
    with pytest.raises(NoPath, match="density 0 at temperature 0"):
        run(lambda point, _: jnp.where(jnp.abs(point[0] - 50) < 1e-9, 0.0, -jnp.inf), 1, 100)
