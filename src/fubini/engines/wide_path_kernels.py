"""Best paths and draws of chains of tables with up to 64 states: one program for each chunk and sequence.

The launches of `path_kernels`. Sums are made by matrix instructions, in linear weights alone: the answer says whether
all was in range. Maxima have no such instructions: a program has one row of the product of a chunk, by logarithms.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data
from fubini.engines import chain_kernels
from fubini.engines.chain_kernels import ChainLogs, Launch
from fubini.engines.kernel_arithmetic import NONE, finite
from fubini.engines.path_kernels import Pointers
from fubini.engines.wide_chain_kernels import (
    border_parts_of,
    call_wide,
    enter,
    laid_out,
    least_of,
    one_number,
    rescale,
    wide_borders_of,
    wide_moves_of,
    wide_parts_of,
)


def _over_greatest(logs: Data) -> tuple[Data, Data]:
    top = finite(jnp.max(logs))
    return logs - top, top


def _numbered(launch: Launch) -> Data:
    """The number of its row in each cell of a matrix of states."""
    return jax.lax.broadcasted_iota(np.int32, (launch.states, launch.states), 0)


# -- the kernels ----------------------------------------------------------------------------------------------------


def wide_row_kernel(moves: Any, seen: Any, product: Any, scale: Any, *, launch: Launch) -> None:
    """One row of the product of a chunk by maxima, from the state of its number, and the logarithm of its scale."""
    from jax.experimental import pallas as pl

    count, row = chain_kernels.steps_of_chunk(launch), pl.program_id(2)

    def step(t: Any, carry: tuple) -> tuple:
        now, log = carry
        move = moves[t if launch.moving else 0]
        now, top = _over_greatest(jnp.max(now[:, None] + move, axis=0) + seen[t, :])
        return now, log + top

    numbers = jax.lax.broadcasted_iota(np.int32, (launch.states,), 0)
    zero, none = jnp.zeros(numbers.shape, launch.dtype), jnp.full(numbers.shape, NONE, launch.dtype)
    begin = jnp.where(numbers == row, zero, none), jnp.zeros((), launch.dtype)
    product[...], log = jax.lax.fori_loop(np.int32(0), count, step, begin)
    scale[...] = one_number(log, launch)


def wide_best_border_kernel(first: Any, product: Any, forward: Any, *, launch: Launch) -> None:
    """Logarithms of the greatest weights of the states before each chunk."""

    def forth(c: Any, now: Data) -> Data:
        forward[c, :] = now
        return _over_greatest(jnp.max(now[:, None] + product[c], axis=0))[0]

    jax.lax.fori_loop(np.int32(0), np.int32(launch.chunks), forth, _over_greatest(first[...])[0])


def _follow(pointers: Any, paths: Any, count: Data, launch: Launch) -> None:
    """Follow the pointers of a chunk from each state at its end."""
    from jax.experimental.pallas import triton

    if chain_kernels.has_gpu():
        triton.debug_barrier()  # other threads read what is kept
    numbers = _numbered(launch)

    def back(step: Any, ends: Data) -> Data:
        t = count - np.int32(1) - step
        ends = jnp.max(jnp.where(numbers == ends[None, :], pointers[t, :][:, None], np.int32(0)), axis=0)
        paths[t, :] = ends
        return ends

    same = jax.lax.broadcasted_iota(np.int32, (launch.states,), 0)
    jax.lax.fori_loop(np.int32(0), count, back, same)


def wide_best_kernel(
    moves: Any, seen: Any, forward: Any, pointers: Any, paths: Any, after: Any, *, launch: Launch
) -> None:
    """ψ_t(j) = arg max_i α_{t−1}(i) moves_t(i, j), followed from the end of the chunk; and α at its end."""
    count, numbers = chain_kernels.steps_of_chunk(launch), _numbered(launch)

    def forth(t: Any, now: Data) -> Data:
        weights = now[:, None] + moves[t if launch.moving else 0]
        top = jnp.max(weights, axis=0)
        pointers[t, :] = jnp.min(jnp.where(weights == top[None, :], numbers, np.int32(launch.states)), axis=0)
        return _over_greatest(top + seen[t, :])[0]

    after[...] = jax.lax.fori_loop(np.int32(0), count, forth, forward[...])
    _follow(pointers, paths, count, launch)


def wide_draw_kernel(
    moves: Any,
    seen: Any,
    forward: Any,
    uniform: Any,
    pointers: Any,
    paths: Any,
    after: Any,
    low: Any,
    *,
    launch: Launch,
) -> None:
    """ψ_t(j) ~ α_{t−1}(i) moves_t(i, j) by the number of the step, followed from the end of the chunk; and α there."""
    move_at, count, numbers = wide_moves_of(moves, launch), chain_kernels.steps_of_chunk(launch), _numbered(launch)
    shape, none = numbers.shape, jnp.zeros(numbers.shape, np.int32)
    columns = jax.lax.broadcasted_iota(np.int32, shape, 1)
    up_to = jnp.where(columns <= numbers, jnp.ones(shape, launch.dtype), jnp.zeros(shape, launch.dtype))

    def forth(t: Any, carry: tuple) -> tuple:
        now, least = carry
        move, data = move_at(t), enter(seen[t, :])
        each: Any = move.each
        least = jnp.minimum(least, least_of(now) * move.least * data.least)
        weights = now[:, None] * each
        below = jnp.dot(up_to, weights, precision=jax.lax.Precision.HIGHEST)
        total = jnp.max(below, axis=0)
        is_below = below <= (jnp.sum(uniform[t, :]) * total)[None, :]
        index = jnp.max(jnp.where(is_below, numbers + np.int32(1), none), axis=0)
        last = jnp.max(jnp.where(weights > 0, numbers, none), axis=0)
        pointers[t, :] = jnp.minimum(index, last)
        return rescale(total * data.each)[0], least

    start = forward[...], jnp.ones((), launch.dtype)
    now, least = jax.lax.fori_loop(np.int32(0), count, forth, start)
    after[...], low[...] = now, one_number(least, launch)
    _follow(pointers, paths, count, launch)


# -- launching ------------------------------------------------------------------------------------------------------


def wide_best_pointers(logs: ChainLogs) -> Pointers:
    """Where the best path to each state came from, in three launches."""
    full, launch = laid_out(logs)
    parts, own, size = wide_parts_of(launch), border_parts_of(launch), launch.states
    shape = parts["product"][0]
    by_row = [(part[0], part[1], _with_row(part[2])) for part in (parts["moves"], parts["seen"])]
    gives = [
        (shape, (None, None, None, size), lambda c, n, row: (n, c, row, 0)),
        ((*shape[:3], 1), (None, None, None, 1), lambda c, n, row: (n, c, row, 0)),
    ]
    grid = (launch.chunks, launch.sequences)
    rows, scales = call_wide(wide_row_kernel, launch, (*grid, size), by_row, gives)(full.moves, full.seen)
    scales = jnp.where(jnp.max(rows, axis=3, keepdims=True) > NONE, scales, NONE)
    products = rows + scales - finite(jnp.max(scales, axis=2, keepdims=True))
    between = call_wide(wide_best_border_kernel, launch, grid[1:], [own["vector"], own["product"]], [own["border"]])
    (forward,) = between(full.first, products)
    takes, whole = [parts["moves"], parts["seen"], parts["border"]], (*parts["seen"], np.int32)
    inside = call_wide(wide_best_kernel, launch, grid, takes, [whole, whole, parts["border"]])
    _, paths, after = inside(full.moves, full.seen, forward)
    return _pointers(paths, after, launch, logs.seen.shape[1], None)


def _with_row(position: Any) -> Any:
    return lambda c, n, row: position(c, n)


def wide_drawn_pointers(logs: ChainLogs, uniforms: Data) -> Pointers:
    """Where each state came from, drawn by numbers [T, N · draws], the draws of a sequence beside each other."""
    full, launch = laid_out(logs)
    borders, states, lanes = wide_borders_of(full, launch), logs.seen.shape[1], uniforms.shape[1]
    draws, parts, rows = lanes // launch.sequences, wide_parts_of(launch), launch.chunk * launch.chunks

    def of_draw(part: tuple) -> tuple:
        return part[0], part[1], lambda c, n: part[2](c, jax.lax.div(n, np.int32(draws)))

    def for_draw(name: str, *dtype: Any) -> tuple:
        shape, part, position = parts[name]
        return (lanes, *shape[1:]), part, position, *dtype

    numbers = jnp.pad(uniforms.T, ((0, 0), (0, rows - launch.length)))[..., None].astype(launch.dtype)
    one_a_step = ((lanes, rows, 1), (None, launch.chunk, 1), lambda c, n: (n, c, 0))
    takes = [*(of_draw(parts[name]) for name in ("moves", "seen", "border")), one_a_step]
    gives = [for_draw("seen", np.int32), for_draw("seen", np.int32), for_draw("border"), for_draw("number")]
    inside = call_wide(wide_draw_kernel, launch, (launch.chunks, lanes), takes, gives)
    _, paths, after, low = inside(full.moves, full.seen, borders.forward, numbers)
    safe = borders.safe & (jnp.min(low) >= launch.tiny)
    pointers = _pointers(paths, jnp.log(after), launch, states, safe)
    return pointers._replace(last=pointers.last[:, ::draws])


def _pointers(paths: Data, after: Data, launch: Launch, states: int, safe: Data | None) -> Pointers:
    """Sequences last, and states that are there alone."""
    lanes = paths.shape[0]
    by_chunk = paths.reshape(lanes, launch.chunks, launch.chunk, launch.states)[..., :states]
    return Pointers(jnp.moveaxis(by_chunk, 0, 3), after[:, -1, :states].T, launch.length, safe)
