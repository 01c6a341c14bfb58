"""Moments of normal distributions in boxes: closed forms, quadrature, far tails, and derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import erfcx

from fubini.numerics.box_moments import box_moments

INF = np.inf


def test_half_a_line() -> None:
    box = box_moments(*(np.array(part) for part in ([0.0], [INF], [0.0], [[1.0]])))
    assert np.exp(box.log_mass) == pytest.approx(0.5, rel=1e-12)
    assert box.mean[0] == pytest.approx(np.sqrt(2 / np.pi), rel=1e-12)
    assert box.covariance[0, 0] == pytest.approx(1 - 2 / np.pi, rel=1e-12)


@pytest.mark.parametrize("edge", [1.0, 8.0, 40.0])
def test_tails(edge: float) -> None:
    """The mean above an edge is √(2/π) / erfcx(edge/√2), the variance 1 + edge·mean − mean²."""
    box = box_moments(*(np.array(part) for part in ([edge], [INF], [0.0], [[1.0]])))
    mean = np.sqrt(2 / np.pi) / erfcx(edge / np.sqrt(2))
    assert box.mean[0] == pytest.approx(mean, rel=1e-10)
    log_mass = np.log(erfcx(edge / np.sqrt(2)) / 2) - edge**2 / 2
    assert box.log_mass == pytest.approx(log_mass, rel=1e-10)


def test_a_quadrant() -> None:
    box = box_moments(*(np.array(part) for part in ([0.0, 0.0], [INF, INF], [0.3, -0.4], [[1.0, 0.6], [0.6, 2.0]])))
    assert np.exp(box.log_mass) == pytest.approx(0.30256, abs=1e-5)
    assert box.mean == pytest.approx([1.0748, 1.0618], abs=1e-4)
    assert box.covariance == pytest.approx(np.array([[0.4948, 0.1207], [0.1207, 0.6538]]), abs=1e-4)


def test_the_whole_plane() -> None:
    covariance = np.array([[1.0, 0.6], [0.6, 2.0]])
    box = box_moments(np.full(2, -INF), np.full(2, INF), np.array([0.3, -0.4]), covariance)
    assert box.log_mass == pytest.approx(0.0, abs=1e-10)
    assert box.mean == pytest.approx([0.3, -0.4], abs=1e-10)
    assert box.covariance == pytest.approx(covariance, abs=1e-9)


@pytest.mark.parametrize("high", [0.5, 1.0, np.nextafter(1.0, 2.0)])
def test_an_empty_box_has_no_mass(high: float) -> None:
    """Nor one whose width is rounding alone, of which there is no variance."""
    box = box_moments(*(np.array(part) for part in ([1.0], [high], [0.0], [[1.0]])))
    assert box.log_mass == -INF
    assert np.isfinite(box.mean).all()


@pytest.mark.parametrize(
    ("low", "high"),
    [([0.0], [INF]), ([-INF], [0.5]), ([-INF], [INF]), ([0.0, 0.0], [INF, INF]), ([-INF, -INF], [0.2, INF])],
)
def test_derivatives(low: Sequence[float], high: Sequence[float]) -> None:
    """Of every moment, in means and covariances, where sides are infinite too."""
    size = len(low)

    def moments(z: Any) -> Any:
        deviations = jnp.exp(z[size : 2 * size])
        correlation = jnp.eye(size) + jnp.tanh(z[-1]) * (1.0 - jnp.eye(size))
        covariance = deviations[:, None] * deviations * correlation
        box = box_moments(jnp.array(low), jnp.array(high), z[:size], covariance)
        return jnp.concatenate([box.log_mass[None], box.mean, box.covariance.reshape(-1)])

    with jax.enable_x64(True):
        point = jnp.array([0.3, -0.2, 0.1, 0.4, 0.5])[: 2 * size + 1]
        derivative = np.asarray(jax.jit(jax.jacrev(moments))(point)).T
        ends = [
            np.stack([np.asarray(moments(point + step)) for step in sign * 1e-5 * np.eye(len(point))])
            for sign in (1, -1)
        ]
        assert derivative == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-6)
