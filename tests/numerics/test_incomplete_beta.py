"""Derivatives of the regularised incomplete beta function, against differences of SciPy's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from fubini.numerics.incomplete_beta import incomplete_beta


def difference(a, b, x, place):
    """A derivative in a or b, of fourth order."""
    at, step = (a, b)[place], 1e-3 * (a, b)[place]
    low, less, more, high = (
        special.betainc(*((a + d, b) if place == 0 else (a, b + d)), x) for d in (-2 * step, -step, step, 2 * step)
    )
    return (8 * (more - less) - (high - low)) / (12 * step)


@pytest.mark.parametrize("wide", [False, True])
def test_derivatives_at_random_numbers(wide):
    """Small and large parameters, within three standard deviations of the mean and elsewhere."""
    rng = np.random.default_rng(0)
    a, b = np.exp(rng.uniform(-2, 7, (2, 60)))
    mean, spread = a / (a + b), np.sqrt(a * b / (a + b + 1)) / (a + b)
    x = np.clip(
        np.where(np.arange(60) % 3, mean + 1.5 * spread * rng.normal(size=60), rng.uniform(size=60)), 1e-3, 0.999
    )
    a, b, x = (np.asarray(part, float if wide else np.float32) for part in (a, b, x))
    with jax.enable_x64(wide):
        slopes = jax.jit(jax.vmap(jax.grad(incomplete_beta, (0, 1, 2))))(*map(jnp.asarray, (a, b, x)))
    a, b, x = (part.astype(float) for part in (a, b, x))
    for place in (0, 1):
        expected = difference(a, b, x, place)
        np.testing.assert_allclose(slopes[place], expected, rtol=1e-5 if wide else 2e-3, atol=1e-8 if wide else 1e-6)
    density = np.exp((a - 1) * np.log(x) + (b - 1) * np.log1p(-x) - special.betaln(a, b))
    np.testing.assert_allclose(slopes[2], density, rtol=2e-6 if wide else 2e-3, atol=1e-9 if wide else 1e-6)


def test_second_derivatives_and_ends():
    with jax.enable_x64(True):
        curved = jax.grad(jax.grad(incomplete_beta))(2.0, 3.0, 0.4)
        ends = jax.vmap(jax.grad(incomplete_beta, (0, 1, 2)))(jnp.full(2, 2.0), jnp.full(2, 3.0), jnp.array([0.0, 1.0]))
    step = 1e-3
    around = [special.betainc(2.0 + d, 3.0, 0.4) for d in (-step, 0, step)]
    assert float(curved) == pytest.approx((around[0] - 2 * around[1] + around[2]) / step**2, rel=1e-4)
    np.testing.assert_allclose(ends, np.zeros((3, 2)), atol=1e-12)


def wide_difference(a, b, x, place):
    """A derivative in a or b, of sixth order, by steps of a share of the width in which it changes."""
    step = min(0.05 * np.sqrt((a / b if place == 0 else b / a) * (a + b)), 0.02 * (a, b)[place])
    changes = (-3, -2, -1, 1, 2, 3)
    values = [special.betainc(*((a + k * step, b) if place == 0 else (a, b + k * step)), x) for k in changes]
    return np.dot([-1, 9, -45, 45, -9, 1], values) / (60 * step)


LARGE = [(10.0**k, 10.0**k) for k in range(9)] + [(1e6, 3.0), (2.0, 1e7), (1e5, 1e7)]


@pytest.mark.parametrize("offset", [0.0, -1.1, 0.7])
def test_large_parameters(offset):
    a, b = np.transpose(LARGE)
    mean, spread = a / (a + b), np.sqrt(a * b / (a + b + 1)) / (a + b)
    x = np.clip(mean + offset * spread, mean / 5, 1 - (1 - mean) / 5)
    with jax.enable_x64(True):
        values, slopes = jax.jit(jax.vmap(jax.value_and_grad(incomplete_beta, (0, 1))))(*map(jnp.asarray, (a, b, x)))
    np.testing.assert_allclose(values, special.betainc(a, b, x), rtol=2e-8)
    for place in (0, 1):
        expected = [wide_difference(*numbers, place) for numbers in zip(a, b, x, strict=True)]
        np.testing.assert_allclose(slopes[place], expected, rtol=1e-6)


def test_large_parameters_in_single_precision():
    values = [float(incomplete_beta(size, size, 0.5)) for size in (1e3, 1e5, 1e8)]
    np.testing.assert_allclose(values, 0.5, rtol=1e-4)
