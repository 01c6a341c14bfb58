"""Reduction of a Gaussian mixture: the two components that are merged at the least cost, until few enough remain.

Runnalls (2007), "Kullback–Leibler approach to Gaussian mixture reduction", eq. 21: merging i and j, with their moments
kept, raises the divergence from the mixture by at most B(i, j) = ½ [(wᵢ + wⱼ) log|Pᵢⱼ| − wᵢ log|Pᵢ| − wⱼ log|Pⱼ|].
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp

from fubini.base.arrays import Data
from fubini.numerics.quadratic import diagonal
from fubini.numerics.small_matrices import lower_root


class ReducedMixture(NamedTuple):
    """Weights [..., k], means [..., k, d], covariances [..., k, d, d]; and which of them each component went into."""

    weight: Data
    mean: Data
    covariance: Data
    labels: Data


def reduce_mixture(weight: Data, mean: Data, covariance: Data, k: int) -> ReducedMixture:
    """At most k components in place of [..., J] of them, of the same mass, mean and covariance together."""
    batch = weight.shape[:-1]
    flat = [data.reshape((-1, *data.shape[len(batch) :])) for data in (weight, mean, covariance)]

    def reduce_one(w: Data, m: Data, P: Data) -> ReducedMixture:
        return _reduce(w, m, P, k)

    made = jax.vmap(reduce_one)(*flat)
    return ReducedMixture(*(data.reshape((*batch, *data.shape[1:])) for data in made))


def reduce_in_groups(weight: Data, mean: Data, covariance: Data, k: int, group: int, of_each: int) -> ReducedMixture:
    """At most k components in place of [..., J] of them, where neighbours that belong together are reduced first.

    Each `group` of components that follow one another becomes at most `of_each`; the work grows with the cube of those
    that are reduced at once.
    """
    count = weight.shape[-1]
    if count <= k or group <= of_each or count == group:
        return reduce_mixture(weight, mean, covariance, k)
    batch = weight.shape[:-1]
    groups = count // group

    def regrouped(data: Data, rank: int, *shape: int) -> Data:
        return data.reshape((*batch, *shape, *data.shape[data.ndim - rank :]))

    first = reduce_mixture(
        regrouped(weight, 0, groups, group),
        regrouped(mean, 1, groups, group),
        regrouped(covariance, 2, groups, group),
        of_each,
    )
    few = groups * of_each
    second = reduce_mixture(
        regrouped(first.weight, 0, few), regrouped(first.mean, 1, few), regrouped(first.covariance, 2, few), k
    )
    places = regrouped(first.labels + of_each * jnp.arange(groups)[:, None], 0, count)
    return second._replace(labels=jnp.take_along_axis(second.labels, places, axis=-1))


def _log_determinant(P: Data) -> Data:
    if P.shape[-1] == 1:
        return jnp.log(P[..., 0, 0])
    if P.shape[-1] == 2:
        return jnp.log(P[..., 0, 0] * P[..., 1, 1] - P[..., 0, 1] * P[..., 1, 0])
    pivots: Data = diagonal(lower_root(P))
    return 2.0 * jnp.sum(jnp.log(pivots), axis=-1)


def _merged(w: Data, m: Data, P: Data, v: Data, n: Data, Q: Data) -> tuple[Data, Data, Data]:
    """The moments of two components together."""
    total = w + v
    safe = jnp.where(total > 0, total, 1.0)
    a, b = jnp.where(total > 0, w / safe, 0.5), jnp.where(total > 0, v / safe, 0.5)
    gap = m - n
    spread = (a * b)[..., None, None] * gap[..., :, None] * gap[..., None, :]
    mean = a[..., None] * m + b[..., None] * n
    return total, mean, a[..., None, None] * P + b[..., None, None] * Q + spread


def _costs(w: Data, m: Data, P: Data, v: Data, n: Data, Q: Data) -> Data:
    total, _, both = _merged(w, m, P, v, n, Q)
    return 0.5 * (total * _log_determinant(both) - w * _log_determinant(P) - v * _log_determinant(Q))


class _State(NamedTuple):
    weight: Data
    mean: Data
    covariance: Data
    costs: Data  # of each pair i < j of those that remain; infinite elsewhere
    remains: Data
    labels: Data


def _reduce(weight: Data, mean: Data, covariance: Data, k: int) -> ReducedMixture:
    count = weight.shape[0]
    if count <= k:
        return _padded(weight, mean, covariance, k)
    every = (weight, mean, covariance)
    pairs = [*(data[:, None] for data in every), *(data[None, :] for data in every)]
    upper = jnp.arange(count)[:, None] < jnp.arange(count)[None, :]
    costs = jnp.where(upper, _costs(*pairs), jnp.inf)
    start = _State(*every, jax.lax.stop_gradient(costs), jnp.ones(count, bool), jnp.arange(count))

    def merge(_: Data, state: _State) -> _State:
        return _merge_cheapest(state)

    end = cast(_State, cast(Any, jax.lax).fori_loop(0, count - k, merge, start))
    alive = cast(Any, jnp).sort(cast(Any, jnp).unique(end.labels, size=k, fill_value=0))
    labels = jnp.searchsorted(alive, end.labels)
    return ReducedMixture(end.weight[alive], end.mean[alive], end.covariance[alive], labels)


def _merge_cheapest(state: _State) -> _State:
    count = state.weight.shape[0]
    i = jnp.argmin(jnp.min(state.costs, axis=1))
    j = jnp.argmin(state.costs[i])
    own = [data[i] for data in state[:3]]
    made = _merged(*own, *(data[j] for data in state[:3]))
    arrays = [data.at[i].set(new) for data, new in zip(state[:3], made, strict=True)]
    weight, mean, covariance = arrays
    fresh = jax.lax.stop_gradient(_costs(*(data[None] for data in made), *arrays))
    place = jnp.arange(count)
    before, after = place[:, None], place[None, :]
    remains = state.remains & (place != j)
    costs = jnp.where(before == i, fresh[None, :], jnp.where(after == i, fresh[:, None], state.costs))
    costs = jnp.where((before < after) & remains[:, None] & remains[None, :], costs, jnp.inf)
    return _State(weight, mean, covariance, costs, remains, jnp.where(state.labels == j, i, state.labels))


def _padded(weight: Data, mean: Data, covariance: Data, k: int) -> ReducedMixture:
    """Components of weight 0 beside the few there are."""
    missing = k - weight.shape[0]
    weight = jnp.concatenate([weight, jnp.zeros(missing, weight.dtype)])
    mean, covariance = (jnp.concatenate([d, jnp.repeat(d[:1], missing, axis=0)]) for d in (mean, covariance))
    return ReducedMixture(weight, mean, covariance, jnp.arange(k - missing))
