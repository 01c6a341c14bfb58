"""Products of all steps of chains of tables, by one scan in linear weights that are rescaled at each step.

The state before the first step and the state after are in rows, sequences in columns: many short chains side by side.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from fubini.base import lax_loops
from fubini.base.arrays import Data
from fubini.engines.chain_evidence import ChainWeights
from fubini.engines.chain_scans import FEW_STATES
from fubini.engines.kernel_arithmetic import NONE, finite
from fubini.numerics.scaled import LOG_GREATEST, SAFE_LOG


class ChainProduct(NamedTuple):
    """Weights from the state before the first step to the state after the last, times exp(log), for each sequence;
    and whether all of it was in range."""

    weights: Data
    log: Data
    safe: Data


def product(weights: ChainWeights) -> ChainProduct:
    """P_t(k, j) = Σ_i P_{t−1}(k, i) moves_t(i, j) seen_t(j); the first weights do not enter.

    Nothing is compared between sequences on the way: each has a bound of its own on the weights that enter a step.
    """
    moves, moves_log, moves_least = _linear(weights.ones.moves, weights.logs.moves, (1, 2))
    seen, seen_log, seen_least = _linear(weights.ones.seen, weights.logs.seen, (1,))
    (length, states, count), is_moving = seen.shape, moves.shape[0] > 1
    bound = jnp.exp(2 * SAFE_LOG[seen.dtype.name] + moves_least + seen_least)

    def step(carry: tuple[Data, Data], parts: tuple) -> tuple[tuple[Data, Data], Data]:
        now, least = carry
        least = jnp.minimum(least, jnp.where(now > 0, jax.lax.stop_gradient(now) * parts[1], 1.0))
        made = _ahead(now, parts[2] if is_moving else moves[0]) * parts[0]
        top = jax.lax.stop_gradient(jnp.max(made, axis=(0, 1)))
        top = jnp.where(top > 0, top, 1.0)
        return (made / top, least), top

    begin = jnp.broadcast_to(jnp.eye(states, dtype=seen.dtype)[:, :, None], (states, states, count))
    xs = (seen, bound, moves) if is_moving else (seen, bound)
    (last, least), tops = lax_loops.scan(step, (begin, jnp.ones_like(begin)), xs)
    safe = jnp.all(least >= 1.0) & jnp.all(last == last)
    taken = jnp.broadcast_to(moves_log, (length, moves_log.shape[1])) + seen_log + jnp.log(tops)
    return ChainProduct(last, jnp.sum(taken, axis=0), safe)


def _linear(ones: Data, logs: Data, axes: tuple[int, ...]) -> tuple[Data, Data, Data]:
    """w · exp(l) over the greatest of each step and sequence, its logarithm, and how far the least is below."""
    positive = jax.lax.stop_gradient(jnp.where(ones > 0, logs, NONE))
    top = finite(jnp.max(positive, axis=axes, keepdims=True))
    data = ones * jnp.exp(jnp.minimum(logs - top, LOG_GREATEST[logs.dtype.name]))
    least = jnp.min(jnp.where(positive > NONE, positive - top, 0.0), axis=axes)
    return data, jnp.squeeze(top, axes), least


def _ahead(now: Data, move: Data) -> Data:
    """Σ_i now(k, i) move(i, j)"""
    if move.shape[0] > FEW_STATES:
        product = "kin,ij->kjn" if move.shape[2] == 1 else "kin,ijn->kjn"
        return jnp.einsum(product, now, move[:, :, 0] if move.shape[2] == 1 else move, precision="highest")
    return jnp.sum(now[:, :, None] * move, axis=1)
