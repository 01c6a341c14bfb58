"""Forward and backward through chains of tables with up to 64 states: one program for each chunk and sequence.

The same three launches as in `chain_kernels`, where the K × K product of a chunk is made by matrix instructions, in
linear weights alone. Whether a product of positive weights may have left the range of the dtype, the answer says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data
from fubini.engines import chain_kernels
from fubini.engines.chain_kernels import ChainLogs, Launch, first_slopes, launch_of
from fubini.engines.kernel_arithmetic import NONE, Weights, finite

MOST_WIDE_STATES = 64
LEAST_SIZE = 16  # of a matrix that matrix instructions take


class WideAnswer(NamedTuple):
    """The log-evidence [N], its slopes as those of `chain_kernels`, and whether all products were in range."""

    total: Data
    slopes: ChainLogs | None
    safe: Data


def enter(logs: Data) -> Weights:
    """Weights over their greatest, the logarithm of that, and the least of those that are not zero."""
    top = finite(jnp.max(logs))
    weights = jnp.exp(logs - top)
    return Weights(weights, top, jnp.min(jnp.where(logs > NONE, weights, 1.0)))  # type: ignore[arg-type]


def least_of(weights: Data) -> Data:
    """The least positive weight, at most 1."""
    return jnp.min(jnp.where(weights > 0, weights, 1.0))


def rescale(weights: Data) -> tuple[Data, Data]:
    """Weights over their greatest, and the logarithm of that."""
    top = jnp.max(weights)
    top = jnp.where(top > 0, top, 1.0)
    return weights / top, jnp.log(top)


def one_number(number: Data, launch: Launch) -> Data:
    """An array of one number."""
    return jnp.full((1,), number, launch.dtype)


def wide_moves_of(ref: Any, launch: Launch) -> Callable[[Any], Weights]:
    """The weights from each state to each at a step; read once where they do not depend on time."""
    if launch.moving:
        return lambda t: enter(ref[t])
    move = enter(ref[0])
    return lambda t: move


def wide_chunk_kernel(moves: Any, seen: Any, product: Any, scale: Any, low: Any, *, launch: Launch) -> None:
    """The product of the steps of a chunk, and the logarithm of its scale."""
    move_at, count = wide_moves_of(moves, launch), chain_kernels.steps_of_chunk(launch)

    def step(t: Any, carry: tuple) -> tuple:
        whole, log, least = carry
        move, data = move_at(t), enter(seen[t, :])
        least = jnp.minimum(least, least_of(whole) * move.least * data.least)
        made = jnp.dot(whole, move.each, precision=jax.lax.Precision.HIGHEST) * data.each[None, :]  # type: ignore[call-overload]
        whole, top = rescale(made)
        return whole, log + top + move.top + data.top, least

    shape = (launch.states, launch.states)
    is_same = jax.lax.broadcasted_iota(np.int32, shape, 0) == jax.lax.broadcasted_iota(np.int32, shape, 1)
    zero, one = jnp.zeros((), launch.dtype), jnp.ones((), launch.dtype)
    same = jnp.where(is_same, jnp.ones(shape, launch.dtype), jnp.zeros(shape, launch.dtype))
    whole, log, least = jax.lax.fori_loop(np.int32(0), count, step, (same, zero, one))
    product[...] = whole
    scale[...], low[...] = one_number(log, launch), one_number(least, launch)


def wide_border_kernel(
    first: Any,
    product: Any,
    scale: Any,
    forward: Any,
    backward: Any,
    before: Any,
    total: Any,
    low: Any,
    *,
    launch: Launch,
) -> None:
    """Weights of the states before each chunk given what came before, and of what comes after it given the states."""
    count = np.int32(launch.chunks)

    def forth(c: Any, carry: tuple) -> tuple:
        now, log, least = carry
        forward[c, :] = now
        chunk = product[c]
        least = jnp.minimum(least, least_of(now) * least_of(chunk))
        now, top = rescale(jnp.sum(now[:, None] * chunk, axis=0))
        return now, log + top + jnp.sum(scale[c, :]), least

    def back(step: Any, carry: tuple) -> tuple:
        later, least = carry
        c = count - np.int32(1) - step
        backward[c, :] = later
        chunk = product[c]
        least = jnp.minimum(least, least_of(later) * least_of(chunk))
        return rescale(jnp.sum(chunk * later[None, :], axis=1))[0], least

    start = enter(first[...])
    now, log, least = jax.lax.fori_loop(np.int32(0), count, forth, (start.each, start.top, start.least))
    total[...] = one_number(log + jnp.log(jnp.sum(now)), launch)
    later, least = jax.lax.fori_loop(np.int32(0), count, back, (jnp.ones((launch.states,), launch.dtype), least))
    before[...] = later
    low[...] = one_number(least, launch)


def wide_inside_kernel(
    moves: Any,
    seen: Any,
    forward: Any,
    backward: Any,
    kept: Any,
    by_moves: Any,
    by_seen: Any,
    low: Any,
    *,
    launch: Launch,
) -> None:
    """The slopes of the log-evidence in the weights of a chunk, each times its weight unless that is zero."""
    from jax.experimental.pallas import triton

    move_at, count = wide_moves_of(moves, launch), chain_kernels.steps_of_chunk(launch)
    start, enough = forward[...], math.sqrt(launch.tiny)

    def forth(t: Any, carry: tuple) -> tuple:
        now, least = carry
        kept[t, :] = now
        move, data = move_at(t), enter(seen[t, :])
        least = jnp.minimum(least, least_of(now) * move.least * data.least)
        return rescale(jnp.sum(now[:, None] * move.each, axis=0) * data.each)[0], least  # type: ignore[operator]

    def back(step: Any, carry: tuple) -> tuple:
        later, sums, least = carry
        t = count - np.int32(1) - step
        move, data, now = move_at(t), enter(seen[t, :]), kept[t, :]
        least = jnp.minimum(least, least_of(later) * move.least * data.least)
        each: Any = move.each
        weights: Any = data.each
        ahead, weighed = jnp.sum(now[:, None] * each, axis=0), weights * later
        whole = jnp.sum(ahead * weighed)
        least = jnp.minimum(least, jnp.where(whole >= enough, jnp.ones_like(least), jnp.zeros_like(least)))
        by_seen[t, :] = ahead * jnp.where(weights > 0, weights, 1.0) * later / whole
        pairs = now[:, None] * (weighed / whole)[None, :]
        if launch.moving:
            by_moves[t] = pairs * jnp.where(each > 0, each, 1.0)
        else:
            sums = sums + pairs
        return rescale(jnp.sum(each * weighed[None, :], axis=1))[0], sums, least

    _, least = jax.lax.fori_loop(np.int32(0), count, forth, (start, jnp.ones((), launch.dtype)))
    if chain_kernels.has_gpu():
        triton.debug_barrier()  # other threads read what is kept
    sums = jnp.zeros((launch.states, launch.states), launch.dtype)
    _, sums, least = jax.lax.fori_loop(np.int32(0), count, back, (backward[...], sums, least))
    if not launch.moving:
        each: Any = move_at(0).each
        by_moves[0] = sums * jnp.where(each > 0, each, 1.0)
    low[...] = one_number(least, launch)


# -- launching ------------------------------------------------------------------------------------------------------


def laid_out(logs: ChainLogs) -> tuple[ChainLogs, Launch]:
    """Sequences first, whole chunks, and states filled up to a power of two with weights of zero."""
    _, states, count = logs.seen.shape
    size = max(LEAST_SIZE, 1 << (states - 1).bit_length())
    plain = launch_of(logs)
    launch = Launch(size, plain.length, plain.chunk, 1, count, plain.moving, plain.shared, plain.dtype)
    more, steps = (0, size - states), (0, plain.chunk * launch.chunks - plain.length)
    first = jnp.pad(logs.first.T, ((0, 0), more), constant_values=NONE)
    moves = jnp.pad(jnp.moveaxis(logs.moves, 3, 0), ((0, 0), (0, 0), more, more), constant_values=NONE)
    seen = jnp.pad(jnp.moveaxis(logs.seen, 2, 0), ((0, 0), (0, 0), more), constant_values=NONE)
    moves = jnp.pad(moves, ((0, 0), steps, (0, 0), (0, 0))) if plain.moving else moves
    return ChainLogs(first, moves, jnp.pad(seen, ((0, 0), steps, (0, 0)))), launch


def call_wide(
    kernel: Callable, launch: Launch, grid: tuple, takes: Sequence[tuple], gives: Sequence[tuple]
) -> Callable:
    """A kernel whose programs have a sequence each, and as many warps as its matrices need."""
    return chain_kernels.call(kernel, launch, grid, takes, gives, warps=1 if launch.states <= LEAST_SIZE else 4)


def wide_parts_of(launch: Launch) -> dict[str, tuple]:
    """Arrays of which a program of a chunk and a sequence takes a part."""
    size, chunks, count, steps = launch.states, launch.chunks, launch.sequences, launch.chunk
    rows = steps * chunks
    move_steps, move_rows = (steps, rows) if launch.moving else (1, 1)
    return {
        "moves": (
            (1 if launch.shared else count, move_rows, size, size),
            (None, move_steps, size, size),
            lambda c, n: (0 if launch.shared else n, c if launch.moving else 0, 0, 0),
        ),
        "seen": ((count, rows, size), (None, steps, size), lambda c, n: (n, c, 0)),
        "product": ((count, chunks, size, size), (None, None, size, size), lambda c, n: (n, c, 0, 0)),
        "number": ((count, chunks, 1), (None, None, 1), lambda c, n: (n, c, 0)),
        "border": ((count, chunks, size), (None, None, size), lambda c, n: (n, c, 0)),
        "slopes": (
            (count, move_rows if launch.moving else chunks, size, size),
            (None, move_steps, size, size),
            lambda c, n: (n, c, 0, 0),
        ),
    }


def border_parts_of(launch: Launch) -> dict[str, tuple]:
    """Arrays of which a program of a sequence takes a part."""
    size, chunks, count = launch.states, launch.chunks, launch.sequences
    return {
        "product": ((count, chunks, size, size), (None, chunks, size, size), lambda n: (n, 0, 0, 0)),
        "scale": ((count, chunks, 1), (None, chunks, 1), lambda n: (n, 0, 0)),
        "border": ((count, chunks, size), (None, chunks, size), lambda n: (n, 0, 0)),
        "vector": ((count, size), (None, size), lambda n: (n, 0)),
        "one": ((count, 1), (None, 1), lambda n: (n, 0)),
    }


class WideBorders(NamedTuple):
    """Weights between chunks forward and backward, those before the first step, the log-evidence; and if in range."""

    forward: Data
    backward: Data
    before: Data
    total: Data
    safe: Data


def wide_borders_of(full: ChainLogs, launch: Launch) -> WideBorders:
    """The first two launches."""
    parts, own = wide_parts_of(launch), border_parts_of(launch)
    takes, gives = [parts["moves"], parts["seen"]], [parts["product"], parts["number"], parts["number"]]
    by_chunk = call_wide(wide_chunk_kernel, launch, (launch.chunks, launch.sequences), takes, gives)
    products, scales, low = by_chunk(full.moves, full.seen)
    takes = [own["vector"], own["product"], own["scale"]]
    gives = [own["border"], own["border"], own["vector"], own["one"], own["one"]]
    between = call_wide(wide_border_kernel, launch, (launch.sequences,), takes, gives)
    forward, backward, before, total, lower = between(full.first, products, scales)
    safe = (jnp.min(low) >= launch.tiny) & (jnp.min(lower) >= launch.tiny)
    return WideBorders(forward, backward, before, total, safe)


def forward_backward(logs: ChainLogs, with_slopes: bool) -> WideAnswer:
    """The log-evidence, in two launches, and with its slopes in three."""
    states = logs.seen.shape[1]
    full, launch = laid_out(logs)
    borders, parts = wide_borders_of(full, launch), wide_parts_of(launch)
    total = borders.total[:, 0]
    if not with_slopes:
        return WideAnswer(total, None, borders.safe)
    takes = [parts["moves"], parts["seen"], parts["border"], parts["border"]]
    gives = [parts["seen"], parts["slopes"], parts["seen"], parts["number"]]
    inside = call_wide(wide_inside_kernel, launch, (launch.chunks, launch.sequences), takes, gives)
    _, by_moves, by_seen, low = inside(full.moves, full.seen, borders.forward, borders.backward)
    by_moves = by_moves[:, : launch.length] if launch.moving else jnp.sum(by_moves, axis=1, keepdims=True)
    first = first_slopes(logs.first, jnp.log(borders.before[:, :states].T).astype(launch.dtype))
    each = ChainLogs(
        first,
        jnp.moveaxis(by_moves[:, :, :states, :states], 0, 3),
        jnp.moveaxis(by_seen[:, : launch.length, :states], 0, 2),
    )
    return WideAnswer(total, each, borders.safe & (jnp.min(low) >= launch.tiny))
