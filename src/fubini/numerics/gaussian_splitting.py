"""A normal distribution as a sum of narrower ones along some of its axes.

Along one axis, in standard units, N(0, 1) is N(0, 1 − v) around a point drawn from N(0, v). The points of a
Gauss–Hermite rule in place of that draw, and v = 1 − 1/n for n of them, keep all moments up to the order 2 n − 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data, namespace
from fubini.numerics.mixture_masses import Terms
from fubini.numerics.scaled import positive_log
from fubini.numerics.small_matrices import lower_root, lower_solved


class SplitGaussian(NamedTuple):
    """The logarithms of the weights [n], the means [..., n, d], and the covariance [..., d, d] of each of them."""

    log_weights: np.ndarray
    mean: Data
    covariance: Data


def split_gaussian(mean: Data, covariance: Data, axes: Sequence[int], count: int) -> SplitGaussian:
    """N(mean, covariance) as count^len(axes) narrower ones, for arrays [..., d] and [..., d, d]."""
    nodes, log_weights = _rule(count)
    share = 1.0 - 1.0 / count
    logs, means = np.zeros(1), mean[..., None, :]
    for axis in axes:
        column = covariance[..., :, axis] / namespace(covariance).sqrt(covariance[..., axis, axis])[..., None]
        moved = means[..., :, None, :] + nodes.astype(mean.dtype)[:, None] * column[..., None, None, :]
        means = moved.reshape((*moved.shape[:-3], -1, moved.shape[-1]))
        logs = (logs[:, None] + log_weights).reshape(-1)
        covariance = covariance - share * column[..., :, None] * column[..., None, :]
    return SplitGaussian(logs, means, covariance)


def with_moments(pieces: Terms, whole: Terms) -> Terms:
    """The pieces [..., n] scaled, moved and stretched together, so that their sum has the moments of the whole [...].

    With Σ̃ = L̃ L̃ᵀ of the pieces as they are, and Σ = L Lᵀ of their sum: x  →  m + L L̃⁻¹ (x − m̃).
    """
    top = jax.lax.stop_gradient(jnp.max(pieces.log_weight, axis=-1, keepdims=True))
    weights = jnp.exp(pieces.log_weight - jnp.where(jnp.isfinite(top), top, 0.0))
    total = jnp.sum(weights, axis=-1, keepdims=True)
    shares = jnp.where(total > 0, weights / jnp.where(total > 0, total, 1.0), 1.0 / weights.shape[-1])
    gap = pieces.mean - jnp.sum(shares[..., None] * pieces.mean, axis=-2, keepdims=True)
    spread = pieces.covariance + gap[..., :, None] * gap[..., None, :]
    own = jnp.sum(shares[..., None, None] * spread, axis=-3)
    eye = jnp.broadcast_to(jnp.eye(own.shape[-1], dtype=own.dtype), own.shape)
    stretch = (lower_root(whole.covariance) @ lower_solved(lower_root(own), eye))[..., None, :, :]
    moved = whole.mean[..., None, :] + (stretch @ gap[..., None])[..., 0]
    stretched = stretch @ pieces.covariance @ jnp.swapaxes(stretch, -1, -2)
    return Terms(positive_log(shares) + whole.log_weight[..., None], moved, stretched)


@lru_cache(maxsize=64)
def _rule(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Points of variance 1 − 1/n, and the logarithms of their weights."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    return nodes * np.sqrt(1.0 - 1.0 / count), np.log(weights / weights.sum())
