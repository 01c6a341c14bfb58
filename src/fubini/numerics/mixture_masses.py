"""Masses of the terms that were merged into components, such that each component has the mass that it should."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from fubini.base.arrays import Data


class Terms(NamedTuple):
    """Logarithms of weights [..., n], means [..., n, d] and covariances [..., n, d, d]."""

    log_weight: Data
    mean: Data
    covariance: Data


def log_masses_kept(log_weight: Data, labels: Data, log_masses: Data) -> Data:
    """log w_i + log v_j − log Σ_{i in j} w_i, j being the label of term i [..., n], and v_j the mass of j [..., k]."""
    own = labels[..., None, :] == jnp.arange(log_masses.shape[-1])[:, None]
    totals = jax.nn.logsumexp(jnp.where(own, log_weight[..., None, :], -jnp.inf), axis=-1)
    some = jnp.isfinite(totals) & jnp.isfinite(log_masses)
    change = jnp.where(some, jnp.where(some, log_masses, 0.0) - jnp.where(some, totals, 0.0), -jnp.inf)
    return log_weight + jnp.take_along_axis(change, labels, axis=-1)
