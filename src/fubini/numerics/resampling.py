"""Systematic resampling of weighted points."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from fubini.base.arrays import Data


def systematic(key: Data, shares: Data) -> Data:
    """n positions with these shares [n, ...], one uniform number for each cell of the batch (Kitagawa 1996)."""
    n = shares.shape[0]
    first = jax.random.uniform(key, shares.shape[1:])
    places = (jnp.arange(n).reshape((n,) + (1,) * first.ndim) + first) / n
    edges = jnp.cumsum(shares, axis=0)

    def one(edge: Data, place: Data) -> Data:
        return jnp.minimum(jnp.searchsorted(edge, place * edge[-1], side="right"), n - 1)

    flat = jax.vmap(one, in_axes=1, out_axes=1)(edges.reshape(n, -1), places.reshape(n, -1))
    return flat.reshape(shares.shape)
