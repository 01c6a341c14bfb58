"""Mean, variance and entropy of numpyro's distributions, as values with a name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpyro.distributions as numpyro_families

from fubini.base.arrays import Data
from fubini.distributions.monotone_transform import Monotone
from fubini.distributions.same_distribution import TRUNCATED
from fubini.numerics.box_moments import BoxMoments, box_moments
from fubini.numerics.power_laws import mean_of_power, variance_of_power


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


def _size_of_student(distribution: Any) -> tuple[Data, Data] | None:
    """Mean and variance of |x|, with x Student's t at μ = σ z; None of other distributions.

    E|x|  =  2 σ t(z) (ν + z²)/(ν − 1) + μ (2 F(z) − 1),  E x²  =  μ² + σ² ν/(ν − 2)
    """
    base: Any = distribution.base_dist if isinstance(distribution, numpyro_families.FoldedDistribution) else None
    if not isinstance(base, numpyro_families.StudentT):
        return None
    df, loc, scale = jnp.broadcast_arrays(*(jnp.asarray(part, float) for part in (base.df, base.loc, base.scale)))
    z, standard = loc / scale, numpyro_families.StudentT(df)
    tail = 2 * scale * jnp.exp(standard.log_prob(z)) * (df + z**2) / jnp.where(df > 1, df - 1, 1.0)
    mean = tail + loc * (2 * standard.cdf(z) - 1)
    second = loc**2 + scale**2 * df / jnp.where(df > 2, df - 2, 1.0)
    return jnp.where(df > 1, mean, jnp.inf), jnp.where(df > 2, second - mean**2, jnp.inf)


def _affine(distribution: Any) -> tuple[Any, Monotone] | None:
    """The base and the transform of an affine function of one number; None of other distributions."""
    if not isinstance(distribution, numpyro_families.TransformedDistribution) or len(distribution.transforms) != 1:
        return None
    (transform,) = distribution.transforms
    return (distribution.base_dist, transform) if isinstance(transform, Monotone) and transform.is_affine else None


def compute_mean(distribution: Any) -> Data:
    """E x, of the shape of x"""
    if (affine := _affine(distribution)) is not None:
        return affine[1](compute_mean(affine[0]))
    if (moments := _between(distribution)) is not None:
        return moments.mean[..., 0]
    if (size := _size_of_student(distribution)) is not None:
        return size[0]
    if isinstance(distribution, numpyro_families.DoublyTruncatedPowerLaw):
        return mean_of_power(distribution.alpha, distribution.low, distribution.high)
    return jnp.broadcast_to(distribution.mean, distribution.batch_shape + distribution.event_shape)


def compute_variance(distribution: Any) -> Data:
    """E (x − E x)², entry by entry, of the shape of x"""
    if (affine := _affine(distribution)) is not None:
        return affine[1].slope ** 2 * compute_variance(affine[0])
    if (moments := _between(distribution)) is not None:
        return moments.covariance[..., 0, 0]
    if (size := _size_of_student(distribution)) is not None:
        return size[1]
    if isinstance(distribution, numpyro_families.DoublyTruncatedPowerLaw):
        return variance_of_power(distribution.alpha, distribution.low, distribution.high)
    return jnp.broadcast_to(distribution.variance, distribution.batch_shape + distribution.event_shape)


def compute_entropy(distribution: Any) -> Data:
    """− E log p(x), summed over independent entries"""
    return jnp.sum(jnp.broadcast_to(distribution.entropy(), distribution.batch_shape))


def compute_covariance(distribution: Any) -> Data:
    """E (x − E x)(x − E x)ᵀ of all numbers of x, of the shape of x twice"""
    shape = distribution.batch_shape + distribution.event_shape
    inner = distribution
    while isinstance(inner, (numpyro_families.ExpandedDistribution, numpyro_families.Independent)):
        inner = inner.base_dist
    if not inner.event_shape:
        return _of_independent(compute_variance(distribution).reshape(-1, 1, 1)).reshape(shape + shape)
    if type(inner) not in COVARIANCES:
        raise NotImplementedError
    blocks = COVARIANCES[type(inner)](inner)
    size = inner.event_shape[-1]
    blocks = jnp.broadcast_to(blocks, (*shape[:-1], size, size)).reshape(-1, size, size)
    return _of_independent(blocks).reshape(shape + shape)


def _of_independent(blocks: Data) -> Data:
    """The covariances of independent vectors: a block each on the diagonal."""
    count, size, _ = blocks.shape
    return jnp.einsum("nij,nm->nimj", blocks, jnp.eye(count, dtype=blocks.dtype)).reshape(count * size, count * size)


def _of_student(made: Any) -> Data:
    """L Lᵀ · ν / (ν − 2); infinite up to two degrees of freedom"""
    spread = jnp.where(made.df > 2, made.df / (made.df - 2), jnp.inf)
    return spread[..., None, None] * made.scale_tril @ jnp.swapaxes(made.scale_tril, -1, -2)


def _of_dirichlet(made: Any) -> Data:
    """(diag(m) − m mᵀ) / (Σ a + 1)"""
    mean = made.mean
    spread = mean[..., None] * jnp.eye(mean.shape[-1]) - mean[..., :, None] * mean[..., None, :]
    return spread / (jnp.sum(made.concentration, axis=-1)[..., None, None] + 1)


# The covariances of the entries of vectors.
COVARIANCES: dict[type, Callable[[Any], Data]] = {
    numpyro_families.MultivariateNormal: lambda made: made.covariance_matrix,
    numpyro_families.LowRankMultivariateNormal: lambda made: made.covariance_matrix,
    numpyro_families.MultivariateStudentT: _of_student,
    numpyro_families.Dirichlet: _of_dirichlet,
}

MEAN = SummaryStatistic("mean", compute_mean)
VARIANCE = SummaryStatistic("variance", compute_variance)
COVARIANCE = SummaryStatistic("covariance", compute_covariance)
ENTROPY = SummaryStatistic("entropy", compute_entropy)
