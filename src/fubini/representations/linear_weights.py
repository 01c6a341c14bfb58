"""Tables of a chain in linear weights: a few multiplications for each step, the scale of each taken out.

Whether a product of weights may be outside the range of the dtype is known afterwards, from its least weights; if so,
the general way is taken instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data
from fubini.base.domains import Domain
from fubini.base.names import Name
from fubini.base.semirings import Semiring
from fubini.eliminate.plan import Plan
from fubini.factors.table import Table
from fubini.numerics.contraction import contract_plain
from fubini.numerics.named_axes import align
from fubini.numerics.scaled import LOG_GREATEST, SAFE_LOG, Scaled, greatest_of, positive_log

Names = tuple[Name, ...]


class LinearWeights(NamedTuple):
    """Linear weights along time: greatest 1 at each time and batch cell, the logarithm of what was taken out, and how
    far the least positive weight of each time is below the greatest."""

    data: Data
    names: Names
    log: Data
    log_names: Names
    least: Data


def to_weights(table: Table, time: Name | None, inner: Sequence[Name], dtype: Any) -> LinearWeights:
    """A table in linear weights, scaled over the `inner` names; time, where it has it, in front."""
    names = table.names
    if time is not None and time in names:
        names = (time, *(name for name in names if name != time))
    pair = table.aligned(names)
    weights = jnp.asarray(pair.weights, dtype)
    shift = jnp.broadcast_to(jnp.asarray(pair.shift, dtype), weights.shape)
    logs = jax.lax.stop_gradient(positive_log(weights) + shift)
    axes = tuple(axis for axis, name in enumerate(names) if name in inner)
    top = jnp.max(logs, axis=axes, keepdims=True, initial=-jnp.inf)
    top = jnp.where(jnp.isfinite(top), top, 0.0)
    everything = tuple(range(1 if time is not None and time in names else 0, weights.ndim))
    least = jnp.min(jnp.where(logs > -jnp.inf, logs - top, 0.0), axis=everything, initial=0.0)
    exponent = jnp.where(weights == 0, jnp.minimum(shift - top, LOG_GREATEST[weights.dtype.name]), shift - top)
    half = jnp.exp(exponent / 2)
    rest = tuple(name for name in names if name not in inner)
    return LinearWeights(weights * half * half, names, jnp.squeeze(top, axes), rest, least)


def run_plain(plan: Plan, operands: Sequence[tuple[Data, Names]], semiring: Semiring) -> tuple[Data, Names]:
    """A plan of contractions on weights as they are."""
    slots = list(operands)
    for step in plan.steps:
        if len(step.operands) == 2:
            (x, x_names), (y, y_names) = (slots[slot] for slot in step.operands)
            slots.append(contract_plain(semiring, x, x_names, y, y_names, step.keep))
        else:
            ((x, names),) = (slots[slot] for slot in step.operands)
            gone = tuple(axis for axis, name in enumerate(names) if name not in step.keep)
            slots.append((semiring.add(jnp, x, gone), tuple(name for name in names if name in step.keep)))
    return reduce(lambda a, b: _multiplied(semiring, a, b), [slots[slot] for slot in plan.results])


def _multiplied(semiring: Semiring, a: tuple[Data, Names], b: tuple[Data, Names]) -> tuple[Data, Names]:
    return contract_plain(semiring, *a, *b, frozenset(a[1]) | frozenset(b[1]))


class Gauged(NamedTuple):
    """Weights whose greatest is 1, and the logarithm of what was taken out."""

    weights: Data
    log: Data


def gauged(weights: Data, axes: tuple[int, ...]) -> Gauged:
    """Weights over their greatest along the axes."""
    top = greatest_of(weights, axes)
    return Gauged(weights / top, jnp.log(jnp.squeeze(top, axes)))


def room_of(least: Data, dtype: Any) -> Data:
    """The log-distance below the greatest weight at which products with weights `least` below it are in range."""
    return 2 * SAFE_LOG[np.dtype(dtype).name] + least


def spread_out(data: Data, names: Names, onto: Sequence[tuple[Name, Domain]]) -> Data:
    """The array over all of these names, in order."""
    aligned = align(data, names, tuple(name for name, _ in onto))
    return jnp.broadcast_to(aligned, tuple(domain.extent for _, domain in onto))


def table_of(weights: Data, logs: Data, log_names: Names, inputs: dict[Name, Domain]) -> Table:
    """weights · exp(logs)."""
    shift = jnp.broadcast_to(align(logs, log_names, tuple(inputs)), weights.shape)
    return Table._of(Scaled(weights, shift.astype(weights.dtype)), inputs)
