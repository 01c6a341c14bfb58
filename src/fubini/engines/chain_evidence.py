"""The log-evidence of a chain of tables by kernels, as a function that JAX differentiates.

A weight is w · exp(l), where w is 1, or 0 for a weight of zero; derivatives go through both, so that they are there in
weights of zero too. Evidence with its gradient is one way forward and backward. Kernels have no derivatives of their
own: those of the slopes, second derivatives of the evidence, are those of another function of the same weights. That
function also answers where kernels of many states, which have no logarithms, leave the range of the dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from fubini.base import lax_loops
from fubini.base.arrays import Data
from fubini.engines.chain_kernels import MOST_STATES, ChainLogs, total_and_slopes_of, total_of
from fubini.engines.kernel_arithmetic import NONE, finite
from fubini.engines.wide_chain_kernels import forward_backward

GREATEST = {"float64": 700.0, "float32": 80.0}  # the logarithm of a slope that a weight of zero may have


class ChainWeights(NamedTuple):
    """The weights of a chain as w · exp(l): w and l each as `ChainLogs` has them."""

    ones: ChainLogs
    logs: ChainLogs

    def along(self, slopes: ChainLogs, change: ChainWeights) -> Data:
        """Σ slope · (dw + w · dl), of each sequence"""
        steps = [
            slope * (d_one + one * d_log)
            for slope, one, d_one, d_log in zip(slopes, self.ones, change.ones, change.logs, strict=True)
        ]
        return sum(jnp.sum(step, axis=tuple(range(step.ndim - 1))) for step in steps)  # type: ignore[return-value]


ByScan = Callable[[ChainWeights], Data]


def logs_of(weights: ChainWeights) -> ChainLogs:
    """The logarithms of the weights, −∞ where they are zero."""
    return ChainLogs(*(jnp.where(w > 0, log, NONE) for w, log in zip(*weights, strict=True)))


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def log_evidence(by_scan: ByScan, weights: ChainWeights) -> Data:
    """The log-evidence of each sequence; `by_scan` is the same function, for second derivatives."""
    logs = logs_of(weights)
    if not _has_many_states(logs):
        return total_of(logs)
    answer = forward_backward(logs, False)
    return lax_loops.cond(answer.safe, lambda: answer.total, lambda: by_scan(weights))


def _has_many_states(logs: ChainLogs) -> bool:
    return logs.seen.shape[1] > MOST_STATES


@log_evidence.defjvp
def _(by_scan: ByScan, primals: tuple, tangents: tuple) -> tuple[Data, Data]:
    """The derivative of the log-evidence by its slopes."""
    (weights,), (change,) = primals, tangents
    total, slopes = log_evidence_and_slopes(by_scan, weights)
    return total, weights.along(slopes, change)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def log_evidence_and_slopes(by_scan: ByScan, weights: ChainWeights) -> tuple[Data, ChainLogs]:
    """The log-evidence of each sequence, and its slopes in w: the probabilities of states and of moves where w is 1."""
    logs, axes = logs_of(weights), ChainLogs((0,), (1, 2), (1,))

    def in_weights(slopes: ChainLogs) -> ChainLogs:
        return ChainLogs(*map(_slope, weights.ones, weights.logs, logs, slopes, axes))

    if not _has_many_states(logs):
        total, slopes = total_and_slopes_of(logs)
        return total, in_weights(slopes)
    total, slopes, safe = forward_backward(logs, True)
    assert slopes is not None
    count = weights.ones.seen.shape[2]
    return lax_loops.cond(
        safe, lambda: (total, in_weights(slopes)), lambda: _scanned(by_scan, *_for_each(weights, count))
    )


def _scanned(by_scan: ByScan, ones: ChainLogs, logs: ChainLogs) -> tuple[Data, ChainLogs]:
    """The evidence and its slopes in w, where no weight is shared by sequences."""
    total, pull = jax.vjp(lambda w: by_scan(ChainWeights(w, logs)), ones)
    return total, pull(jnp.ones_like(total))[0]


def _slope(one: Data, log: Data, positive: Data, slope: Data, axes: tuple[int, ...]) -> Data:
    """The slope in w; where w is zero, the kernel's is relative to the greatest weight along the axes."""
    top, most = finite(jnp.max(positive, axis=axes, keepdims=True)), GREATEST[slope.dtype.name]
    far = jnp.minimum(slope, math.exp(most)) * jnp.exp(jnp.minimum(log - top, most))
    return jnp.where(one > 0, slope, jnp.minimum(far, math.exp(most)))


@log_evidence_and_slopes.defjvp
def _(by_scan: ByScan, primals: tuple, tangents: tuple) -> tuple:
    """The derivatives of `by_scan` and of its own slopes."""
    (weights,), (change,) = primals, tangents
    count = weights.ones.seen.shape[2]
    _, d_answer = jax.jvp(partial(_scanned, by_scan), _for_each(weights, count), _for_each(change, count))
    return log_evidence_and_slopes(by_scan, weights), d_answer


def _for_each(weights: ChainWeights, count: int) -> ChainWeights:
    """The same weights, the moves for each sequence: so are their slopes."""

    def spread(part: ChainLogs) -> ChainLogs:
        return part._replace(moves=jnp.broadcast_to(part.moves, (*part.moves.shape[:3], count)))

    return ChainWeights(*map(spread, weights))
