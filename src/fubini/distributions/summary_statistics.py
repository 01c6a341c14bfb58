"""Mean, variance and entropy of numpyro's distributions, as values with a name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpyro.distributions as numpyro_families

from fubini.base.arrays import Data


class SummaryStatistic(NamedTuple):
    """A number, or an array of a draw's shape, that a distribution of numpyro has or raises NotImplementedError for."""

    name: str
    compute: Callable[[numpyro_families.Distribution], Data]


def compute_mean(distribution: Any) -> Data:
    """E x, of the shape of x"""
    return jnp.broadcast_to(distribution.mean, distribution.batch_shape + distribution.event_shape)


def compute_variance(distribution: Any) -> Data:
    """E (x − E x)², entry by entry, of the shape of x"""
    return jnp.broadcast_to(distribution.variance, distribution.batch_shape + distribution.event_shape)


def compute_entropy(distribution: Any) -> Data:
    """− E log p(x), summed over independent entries"""
    return jnp.sum(jnp.broadcast_to(distribution.entropy(), distribution.batch_shape))


MEAN = SummaryStatistic("mean", compute_mean)
VARIANCE = SummaryStatistic("variance", compute_variance)
ENTROPY = SummaryStatistic("entropy", compute_entropy)
