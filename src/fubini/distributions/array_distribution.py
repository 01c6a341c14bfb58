"""A distribution at work: draws, log-densities and supports of one whose parameters are arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as numpyro_families
from numpyro.distributions import constraints

from fubini.base.arrays import Data
from fubini.distributions.blueprint import Blueprint, LogProbability
from fubini.distributions.density import Distribution
from fubini.errors import DomainError, NoRule, listed
from fubini.terms.value import to_array


def parameters(distribution: Distribution) -> list[Data]:
    """The arrays of a closed distribution, in the order of its leaf values."""
    if distribution.inputs:
        raise DomainError(
            f"{distribution}, which depends on {listed(distribution.inputs)}",
            expected="a distribution whose parameters are arrays",
            advice="in a joint distribution, use the values that its sites send",
        )
    return [jnp.asarray(to_array(value).array) for value in distribution.leaf_values]


def parameter_keys(distribution: Distribution) -> list[str]:
    """The names of these arrays, those of inner distributions included.

    >>> parameter_keys(fb.dist.Normal(0.0, 1.0).expand([3]))
    ['loc', 'scale']
    """
    keys: list[str] = []
    for key, arg in zip(distribution.keys, distribution.args, strict=True):
        keys.extend(parameter_keys(arg) if isinstance(arg, Distribution) else [key])
    return keys


def made(distribution: Distribution) -> Any:
    """numpyro's distribution."""
    return distribution.blueprint.build(iter(parameters(distribution)))


def draw(distribution: Distribution, key: Data) -> Data:
    """One value; of parameters that are not numbers, none: NaN, or −1 of whole numbers."""
    given = parameters(distribution)
    sampler = _with_whole_count(without_slopes(distribution.blueprint, given))
    value = in_domain(distribution, sample_numpyro(sampler, key))
    floats = [leaf for leaf in given if jnp.issubdtype(leaf.dtype, jnp.floating)]
    lost = sum((jnp.any(jnp.isnan(leaf)) for leaf in floats), start=jnp.asarray(False))
    none = jnp.nan if jnp.issubdtype(value.dtype, jnp.floating) else -1
    return jnp.where(lost, jnp.asarray(none, value.dtype), value)


def sample_numpyro(made: Any, key: Data) -> Data:
    """One value of numpyro's distribution; an error where it has no sampler, or one by quantiles that are not there."""
    try:
        return made.sample(key)
    except NotImplementedError as error:
        raise NoRule(f"a draw from {type(made).__name__}", expected="a family that can be sampled") from error
    except ImportError as error:
        base = type(getattr(made, "base_dist", made)).__name__
        raise NoRule(
            f"a draw from {type(made).__name__} of {base}",
            expected="a family that can be sampled",
            nearest=f"it is drawn by quantiles of {base}, which numpyro does not compute here",
            advice=f"the positive half of a {base} around 0 is dist.FoldedDistribution(dist.{base}(…)), with draws",
        ) from error


def without_slopes(blueprint: Blueprint, leaves: Sequence[Data]) -> Any:
    """numpyro's distribution, of whole numbers at parameters without derivatives, which their draws do not have.

    The loops of some samplers could not be differentiated.
    """
    made = blueprint.build(iter(leaves))
    return blueprint.build(iter(map(jax.lax.stop_gradient, leaves))) if made.is_discrete else made


def _with_whole_count(numpyro_distribution: Any) -> Any:
    """Counts that are floats, as a parameter is, in the type that numpyro's samplers need."""
    base = numpyro_distribution
    while isinstance(getattr(base, "base_dist", None), numpyro_families.Distribution):
        base = base.base_dist
    count = base.__dict__.get("total_count")
    is_count = type(base).arg_constraints.get("total_count") == constraints.nonnegative_integer
    if is_count and jnp.issubdtype(jnp.result_type(count), jnp.floating):
        base.total_count = jnp.asarray(count).astype(int)
    return numpyro_distribution


def draw_and_log_density(distribution: Distribution, key: Data) -> tuple[Data, Data]:
    """One value and its log-density in one pass: what a flow computed on the way out is not inverted again."""
    numpyro_distribution = made(distribution)
    if not isinstance(numpyro_distribution, numpyro_families.TransformedDistribution):
        value = draw(distribution, key)
        return value, log_density(distribution, value)
    value, intermediates = numpyro_distribution.sample_with_intermediates(key)
    return in_domain(distribution, value), jnp.sum(numpyro_distribution.log_prob(value, intermediates))


def in_domain(distribution: Distribution, value: Data) -> Data:
    """Convert draws to the type of the domain, since some of numpyro's samplers count in floats."""
    discrete = distribution.domain.is_discrete
    return value.astype(int) if discrete and not jnp.issubdtype(value.dtype, jnp.integer) else value


def log_density(distribution: Distribution, value: Data) -> Data:
    """log p(value), summed over an array of independent values; −inf outside the support."""
    return LogProbability(distribution.blueprint)(spread(distribution, value), *parameters(distribution))


def spread(distribution: Distribution, value: Data) -> Data:
    """A value of fewer entries than the distribution has, one for all along an axis, at each of these."""
    array, shape = jnp.asarray(value), distribution.domain.shape
    return array if array.shape == shape else jnp.broadcast_to(array, np.broadcast_shapes(array.shape, shape))


def support(distribution: Distribution) -> Any:
    """The support of its values, given its parameters."""
    return made(distribution).support


def blank(distribution: Distribution) -> Data:
    """Zeros of the shape and kind of a value."""
    domain = distribution.domain
    return jnp.zeros(domain.shape, jax.dtypes.canonicalize_dtype(int if domain.is_discrete else float))
