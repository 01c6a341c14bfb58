"""Mean, variance and entropy of numpyro's distributions, as values with a name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpyro.distributions as numpyro_families

from fubini.base.arrays import Data
from fubini.distributions.same_distribution import TRUNCATED
from fubini.numerics.box_moments import BoxMoments, box_moments


class SummaryStatistic(NamedTuple):
    """A number, or an array of a draw's shape, that a distribution of numpyro has or raises NotImplementedError for."""

    name: str
    compute: Callable[[numpyro_families.Distribution], Data]


def _between(distribution: Any) -> BoxMoments | None:
    """The moments of a normal number between two ends, right in both tails; None of other distributions."""
    if not isinstance(distribution, TRUNCATED) or not isinstance(distribution.base_dist, numpyro_families.Normal):
        return None
    normal = distribution.base_dist
    ends = [getattr(distribution, "low", -jnp.inf), getattr(distribution, "high", jnp.inf)]
    low, high, loc, scale = (
        jnp.broadcast_to(jnp.asarray(part, jnp.result_type(float)), distribution.batch_shape)[..., None]
        for part in (*ends, normal.loc, normal.scale)
    )
    return box_moments(low, high, loc, scale[..., None] ** 2)


def compute_mean(distribution: Any) -> Data:
    """E x, of the shape of x"""
    if (moments := _between(distribution)) is not None:
        return moments.mean[..., 0]
    return jnp.broadcast_to(distribution.mean, distribution.batch_shape + distribution.event_shape)


def compute_variance(distribution: Any) -> Data:
    """E (x − E x)², entry by entry, of the shape of x"""
    if (moments := _between(distribution)) is not None:
        return moments.covariance[..., 0, 0]
    return jnp.broadcast_to(distribution.variance, distribution.batch_shape + distribution.event_shape)


def compute_entropy(distribution: Any) -> Data:
    """− E log p(x), summed over independent entries"""
    return jnp.sum(jnp.broadcast_to(distribution.entropy(), distribution.batch_shape))


MEAN = SummaryStatistic("mean", compute_mean)
VARIANCE = SummaryStatistic("variance", compute_variance)
ENTROPY = SummaryStatistic("entropy", compute_entropy)
