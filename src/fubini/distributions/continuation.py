"""The other entries of an array given its first ones along one axis: new groups, the future of a chain."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpyro.distributions as numpyro_families

from fubini.base.arrays import Data
from fubini.distributions.array_distribution import draw, made, parameters
from fubini.distributions.array_slices import sliced
from fubini.distributions.density import Distribution
from fubini.distributions.markov_chain import Markov, markov_chain
from fubini.errors import NoRule
from fubini.families.family import Family, read_family

_OUTER = (
    numpyro_families.ExpandedDistribution,
    numpyro_families.Independent,
    numpyro_families.MaskedDistribution,
)


def longer_axis(shape: tuple[int, ...], first: tuple[int, ...]) -> int | None:
    """The one axis along which a shape is longer than that of its first entries; None where they do not fit.

    >>> longer_axis((5, 3), (4, 3)), longer_axis((5, 3), (4, 2))
    (0, None)
    """
    if len(shape) != len(first):
        return None
    axes = [axis for axis, (size, old) in enumerate(zip(shape, first, strict=True)) if size != old]
    return axes[0] if len(axes) == 1 and shape[axes[0]] > first[axes[0]] else None


def is_independent_along(distribution: Distribution, axis: int) -> bool:
    """Whether the entries of its values along an axis are independent of each other."""
    numpyro_distribution: Any = made(distribution)
    count = len(numpyro_distribution.batch_shape)
    while isinstance(numpyro_distribution, _OUTER):
        if isinstance(numpyro_distribution, numpyro_families.Independent):
            count += numpyro_distribution.reinterpreted_batch_ndims
        numpyro_distribution = numpyro_distribution.base_dist
    return axis < count


def draw_continued(distribution: Distribution, key: Data, first: Data, axis: int) -> Data:
    """x ~ p(x | the first entries of x along an axis)

    >>> from fubini import dist
    >>> x = draw_continued(dist.Normal(np.zeros(5), 1.0), jax.random.key(0), jnp.ones(3), 0)
    >>> x[:3].tolist(), x.shape
    ([1.0, 1.0, 1.0], (5,))
    """
    if is_independent_along(distribution, axis):
        whole = draw(distribution, key)
        entries = (slice(None),) * axis + (slice(first.shape[axis]),)
        return whole.at[entries].set(first.astype(whole.dtype))
    return jnp.concatenate([first, _draw_later(distribution, key, first, axis).astype(first.dtype)], axis)


def _draw_later(distribution: Distribution, key: Data, first: Data, axis: int) -> Data:
    """Draw the later entries of a value along an axis of its event, given the first ones."""
    chain = markov_chain(distribution)
    if chain is not None and axis == first.ndim - chain.event_dim:
        return chain.draw_later(key, first)
    base = _base(distribution)
    family = _with_later_entries(base)
    if family is None or family.draw_later is None or axis != first.ndim - 1:
        raise NoRule(
            f"the later entries of a value of {distribution} given its first {first.shape[axis]} along axis {axis}",
            expected="independent entries along that axis, dist.Markov, a NumPyro scan, or a family whose later"
            " entries are known given the first: a multivariate normal, a random walk",
            advice='predict(…, new="name") draws the whole site from the new model given the rest',
        )
    given = dict(zip(base.keys, parameters(base), strict=True))
    return family.draw_later(key, given, first, distribution.domain.shape[axis] - first.shape[axis])


def _base(distribution: Distribution) -> Distribution:
    """A distribution without expansions and masks."""
    inner = distribution.args[0] if distribution.family in ("ExpandedDistribution", "MaskedDistribution") else None
    return _base(inner) if isinstance(inner, Distribution) else distribution


def _with_later_entries(base: Distribution) -> Family | None:
    """The record of a family, where no parameter is a distribution itself."""
    is_plain = not any(isinstance(arg, Distribution) for arg in base.args)
    return read_family(base.family) if is_plain else None


def rest_given_first(distribution: Distribution, first: Data, axis: int) -> Distribution:
    """p(x[n:] | x[:n]), the distribution of the other entries of an array along its first axis.

    >>> from fubini import dist
    >>> rest_given_first(dist.Normal(np.zeros(5), 1.0), jnp.ones(3), 0).domain
    Reals[2]
    """
    n = first.shape[axis]
    if is_independent_along(distribution, axis):
        return sliced(distribution, (slice(None),) * axis + (slice(n, None),))
    chain = markov_chain(distribution)
    if chain is None or axis or chain.event_dim != first.ndim:
        raise NoRule(
            f"the distribution of the later entries of {distribution} given the first {n}",
            expected="independent entries, or one dist.Markov",
        )
    return Markov(chain.after(first[-1], n), lambda value, t: chain.after(value, t + n), chain.length - n)
