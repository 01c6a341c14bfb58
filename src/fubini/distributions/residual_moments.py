"""A density at a value by two moments of its family: value − mean, the covariance, and the power it is raised to."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as numpyro_families

from fubini.base.arrays import Data
from fubini.base.ops import Op, lift
from fubini.distributions.blueprint import Blueprint
from fubini.distributions.power import PowerDistribution
from fubini.distributions.summary_statistics import compute_covariance, compute_mean

# Values of these are labels, or add up to a number: they have no mean, or no covariance with an inverse.
WITHOUT_MOMENTS = ("Categorical", "OneHot", "OrderedLogistic", "Delta", "Multinomial", "DirichletMultinomial")


def has_moments(blueprint: Blueprint) -> bool:
    """Whether a mean and a covariance say something of the family."""
    return not blueprint.family.startswith(WITHOUT_MOMENTS)


class ResidualMoments:
    """value − E x, Cov x and the power of each entry, flat and end to end, of a distribution over these leaves."""

    reads_arguments_alone = True

    def __init__(self, blueprint: Blueprint) -> None:
        self.blueprint = blueprint
        self.__name__ = f"moments_of_{blueprint.family}"

    def __call__(self, value: Data, *leaves: Data) -> Data:
        made = self.blueprint.build(map(jnp.asarray, leaves))
        value = jnp.asarray(value)
        event = len(made.event_shape)
        batch = np.broadcast_shapes(jnp.shape(value)[: jnp.ndim(value) - event], made.batch_shape)
        made = made if batch == made.batch_shape else made.expand(batch)
        shape = batch + made.event_shape
        base, power = _without_powers(made)
        size = math.prod(shape)
        mean, covariance = compute_mean(base), compute_covariance(base)
        parts = [value - mean, covariance, jnp.broadcast_to(power, shape)]
        kind = jnp.result_type(float)
        return jnp.concatenate(
            [
                jnp.broadcast_to(part, own).reshape(-1).astype(kind)
                for part, own in zip(parts, (shape, shape * 2, shape), strict=True)
            ]
        ).reshape(size * (size + 2))


def size_of(length: int) -> int:
    """The number k of residuals, of k (k + 2) numbers.

    >>> size_of(15)
    3
    """
    return round(math.sqrt(length + 1)) - 1


def _without_powers(made: Any) -> tuple[Any, Data]:
    """The distribution without masks and powers, and the power of each entry, over batch and event."""
    shape = made.batch_shape + made.event_shape
    one = jnp.ones(())
    if isinstance(made, numpyro_families.MaskedDistribution):
        inner, power = _without_powers(made.base_dist)
        mask = made._mask
        own = one if mask is None else jnp.asarray(mask, power.dtype)
        return _like(made, inner), power * _over_event(own, made)
    if isinstance(made, PowerDistribution):
        inner, power = _without_powers(made.base_dist)
        return _like(made, inner), power * _over_event(jnp.asarray(made.exponent), made)
    if isinstance(made, (numpyro_families.ExpandedDistribution, numpyro_families.Independent)):
        inner, power = _without_powers(made.base_dist)
        if inner is made.base_dist:
            return made, jnp.ones(())
        if isinstance(made, numpyro_families.Independent):
            return inner.to_event(made.reinterpreted_batch_ndims), power
        spread = jnp.broadcast_to(power, made.base_dist.batch_shape + made.event_shape)
        return inner.expand(made.batch_shape), jnp.broadcast_to(spread, shape)
    return made, one


def _like(made: Any, inner: Any) -> Any:
    return inner if inner.batch_shape == made.batch_shape else inner.expand(made.batch_shape)


def _over_event(power: Data, made: Any) -> Data:
    """A power for each entry of the batch, over the event too."""
    spread = jnp.broadcast_to(power, made.batch_shape)
    return spread.reshape(spread.shape + (1,) * len(made.event_shape))


@lru_cache(maxsize=4096)
def residual_moments(blueprint: Blueprint) -> Op:
    """The op of the value, then the leaves."""
    return lift(ResidualMoments(blueprint))
