"""Observations of which entries are missing: they are integrated out, and latents where other sites read them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as numpyro_families

from fubini.algebra.label_digits import MOST
from fubini.base.arrays import Data
from fubini.base.domains import Domain
from fubini.distributions.array_distribution import made
from fubini.distributions.array_slices import sliced
from fubini.distributions.density import Distribution
from fubini.errors import DomainError, NoRule
from fubini.models.fixed import Fixed
from fubini.models.outline import SiteOutline


@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True)
class Partly:
    """An array of which only some entries are observed; `gaps` are the others, where other sites read them."""

    value: Data
    present: Data
    gaps: Fixed | None = None  # the places of independent entries, or events, that are missing: one array for each axis

    def gap(self, source: Distribution) -> Distribution:
        """The distribution of the entries that are missing."""
        assert self.gaps is not None
        return sliced(source, self.gaps.value)

    def filled(self, gap: Data, domain: Domain) -> Data:
        """The whole array, the missing entries at these values, which are of this domain."""
        assert self.gaps is not None
        batch, event = _split(np.shape(self.value), len(self.gaps.value))
        missing = np.zeros(batch, bool)
        missing[self.gaps.value] = True
        if domain.size is not None and domain.size ** min(math.prod(gap.shape), 64) <= MOST:
            # Read so, labels are summed after what has a closed form given all of them.
            order = np.argsort(np.concatenate([np.flatnonzero(~missing), np.flatnonzero(missing)]))
            seen = jnp.asarray(self.value)[np.nonzero(~missing)]
            return jnp.concatenate([seen.astype(gap.dtype), gap])[order].reshape(np.shape(self.value))
        place = np.where(missing, np.cumsum(missing.ravel()).reshape(batch) - 1, 0)
        return jnp.where(missing.reshape(*batch, *(1 for _ in event)), gap[place], self.value)

    def tree_flatten(self) -> tuple[tuple, Fixed | None]:
        return (self.value, self.present), self.gaps

    @classmethod
    def tree_unflatten(cls, gaps: Fixed | None, children: tuple) -> Partly:
        value, present = children
        return cls(value, present, gaps)


def name_of_missing(name: str) -> str:
    """The site of the missing entries of a site."""
    return f"{name}_missing"


def partly_observed(value: np.ndarray, present: np.ndarray, site: SiteOutline, path: str, is_read: bool) -> Partly:
    """An observation with entries missing, which are a site of their own where others read them."""
    if not is_read:
        return Partly(value, present)
    assert site.domain is not None
    batch, event = _split(present.shape, present.ndim - site.event_rank)
    by_event = present.reshape(*batch, -1)
    there = by_event.all(axis=-1)
    if np.any(by_event.any(axis=-1) != there):
        raise NoRule(
            f"missing entries inside the events {event} of {path!r}, which other sites depend on",
            expected="events that are there or missing as a whole, or independent entries",
            advice="write what is missing as a site of its own, given what is there",
        )
    if not batch:
        raise DomainError(
            f"the value of {path!r}, which is missing as a whole",
            expected="an array of which some entries are there",
            advice=f"leave {path!r} out of the observations: it is a latent then",
        )
    places = np.nonzero(~there)
    return Partly(value, present, Fixed(places, (batch, *(tuple(place.tolist()) for place in places))))


def _split(shape: tuple[int, ...], rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return shape[:rank], shape[rank:]


def log_density_of_present(source: Distribution, value: Partly) -> Data:
    """log p of the entries that are there, the others integrated out."""
    numpyro_distribution: Any = made(source)
    if not numpyro_distribution.event_shape:
        inside = jnp.where(
            value.present, value.value, numpyro_distribution.support.feasible_like(jnp.asarray(value.value))
        )
        return jnp.sum(jnp.where(value.present, numpyro_distribution.log_prob(inside), 0.0))
    base: Any = numpyro_distribution
    while isinstance(base, (numpyro_families.Independent, numpyro_families.ExpandedDistribution)):
        base = base.base_dist
    if isinstance(base, numpyro_families.MultivariateNormal):
        return _of_normal(base, jnp.asarray(value.value), jnp.asarray(value.present))
    inner: Any = (
        numpyro_distribution.base_dist
        if isinstance(numpyro_distribution, numpyro_families.Independent)
        else numpyro_distribution
    )
    if not inner.event_shape:
        inside = jnp.where(value.present, value.value, inner.support.feasible_like(jnp.asarray(value.value)))
        return jnp.sum(jnp.where(value.present, inner.log_prob(inside), 0.0))
    raise NoRule(
        f"missing entries inside the event of {source}",
        expected="independent entries, or a multivariate normal",
        advice="leave the whole event out with .mask(…), or make the missing entries a site of their own",
    )


def _of_normal(numpyro_distribution: Any, value: Data, present: Data) -> Data:
    """N(x_o; μ_o, Σ_oo): the missing entries made independent of the others, standard and at their mean."""
    both = present[..., :, None] & present[..., None, :]
    covariance = jnp.where(both, numpyro_distribution.covariance_matrix, jnp.eye(value.shape[-1]))
    at = jnp.where(present, value, numpyro_distribution.loc)
    log_p = numpyro_families.MultivariateNormal(numpyro_distribution.loc, covariance).log_prob(at)
    return jnp.sum(log_p) + 0.5 * jnp.log(2 * jnp.pi) * jnp.sum(~jnp.broadcast_to(present, at.shape))
