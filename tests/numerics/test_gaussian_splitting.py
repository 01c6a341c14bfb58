"""A Gaussian as a sum of narrower ones."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fubini.numerics.gaussian_splitting import split_gaussian, with_moments
from fubini.numerics.mixture_masses import Terms
from fubini.numerics.mixture_reduction import reduce_in_groups, reduce_mixture

MEAN = np.array([1.0, -2.0])
COVARIANCE = np.array([[2.0, 0.6], [0.6, 0.5]])


@pytest.mark.parametrize(("axes", "count"), [([0], 3), ([0, 1], 3), ([1], 5)])
def test_the_sum_has_the_moments_of_the_whole(axes: list[int], count: int) -> None:
    """Mean and covariance are those of the whole, along an axis moments up to order 2 n − 1; pieces are narrower."""
    pieces = split_gaussian(MEAN, COVARIANCE, axes, count)
    weights = np.exp(pieces.log_weights)
    assert len(weights) == count ** len(axes) and weights.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(weights @ pieces.mean, MEAN, atol=1e-12)
    gap = pieces.mean - MEAN
    np.testing.assert_allclose((weights * gap.T) @ gap + pieces.covariance, COVARIANCE, atol=1e-12)
    for axis in axes:
        own, wide = np.sqrt(pieces.covariance[axis, axis]), np.sqrt(COVARIANCE[axis, axis])
        for order in range(1, 2 * count):
            each = [stats.norm.moment(order, m, own) for m in pieces.mean[:, axis]]
            assert weights @ each == pytest.approx(stats.norm.moment(order, MEAN[axis], wide), rel=1e-9)
        assert own**2 < 0.5 * wide**2


def test_pieces_are_given_moments() -> None:
    logs, means = np.log(np.array([0.2, 0.5, 0.3])), np.array([[0.0, 1.0], [1.0, -1.0], [2.0, 0.0]])
    wide = np.broadcast_to(0.3 * np.eye(2), (3, 2, 2))
    found = with_moments(Terms(logs, means, wide), Terms(np.array(0.7), MEAN, COVARIANCE))
    weights = np.exp(np.asarray(found.log_weight, float))
    mean, gap = np.asarray(found.mean, float), np.asarray(found.mean, float) - MEAN
    assert weights.sum() == pytest.approx(np.exp(0.7), rel=1e-5)
    shares = weights / weights.sum()
    np.testing.assert_allclose(shares @ mean, MEAN, atol=1e-5)
    spread = np.asarray(found.covariance, float) + gap[:, :, None] * gap[:, None, :]
    np.testing.assert_allclose(np.einsum("i,ijk->jk", shares, spread), COVARIANCE, atol=1e-5)


def test_groups_are_reduced_first() -> None:
    """The total weight and mean stay, labels say where each component went; where groups are single, as at once."""
    random = np.random.default_rng(0)
    weight, mean = random.uniform(0.1, 1.0, 24), random.normal(size=(24, 2))
    covariance = np.broadcast_to(0.1 * np.eye(2), (24, 2, 2))
    found = reduce_in_groups(weight, mean, covariance, 4, 8, 3)
    np.testing.assert_allclose(np.asarray(found.weight).sum(), weight.sum(), rtol=1e-5)
    np.testing.assert_allclose(np.asarray(found.weight) @ np.asarray(found.mean), weight @ mean, rtol=1e-4, atol=1e-5)
    for component in range(4):
        own = np.asarray(found.labels) == component
        np.testing.assert_allclose(np.asarray(found.weight)[component], weight[own].sum(), rtol=1e-5)
    at_once, alone = reduce_mixture(weight, mean, covariance, 4), reduce_in_groups(weight, mean, covariance, 4, 1, 1)
    np.testing.assert_array_equal(np.asarray(at_once.labels), np.asarray(alone.labels))
