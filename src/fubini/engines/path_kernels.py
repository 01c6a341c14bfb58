"""Best paths and draws of chains of tables by fused kernels: for each state, the one it came from.

After the two launches of `chain_kernels`, by maxima or by sums:

3. for each chunk and block of sequences: forward inside the chunk, for each state after a step the state before it, by
   arg max or by inverse transform; then backward, these pointers followed from each state at the end of the chunk;
4. for each block: from the last state through the chunks, backward.

The states of each step are then read off. Draws of one sequence are as many sequences beside each other, so that equal
uniform numbers draw the paths of a scan, up to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data
from fubini.engines.chain_kernels import (
    ChainLogs,
    Launch,
    borders_of,
    call,
    columns_of,
    filled_up,
    launch_of,
    moves_of,
    parts_of,
    read_vector,
    run_carefully,
    steps_of_chunk,
)
from fubini.engines.kernel_arithmetic import BY_LOGS, Arithmetic, Vector, finite, greatest


class Pointers(NamedTuple):
    """The state before each step, for each state at the end of its chunk [chunks, steps, K, N]; logarithms of the
    weights of the last state [K, N]; how many steps there are; and whether products were in range, if that is open."""

    paths: Data
    last: Data
    length: int
    safe: Data | None


# -- the kernels ----------------------------------------------------------------------------------------------------


def first_greatest(weights: Sequence[Data]) -> Data:
    """The index of the greatest weight, the first of equals."""
    index, top = jnp.zeros(weights[0].shape, np.int32), weights[0]
    for k, weight in enumerate(weights[1:], 1):
        index = jnp.where(weight > top, np.int32(k), index)
        top = jnp.maximum(top, weight)
    return index


def inverse_transform(weights: Sequence[Data], uniform: Data) -> Data:
    """The index k with Σ_{i<k} w_i ≤ u Σ_i w_i < Σ_{i≤k} w_i."""
    below = list(accumulate(weights))
    index = last = jnp.zeros(uniform.shape, np.int32)
    for k, (weight, sum_below) in enumerate(zip(weights, below, strict=True)):
        index = jnp.where(sum_below <= uniform * below[-1], np.int32(k + 1), index)
        last = jnp.where(weight > 0, np.int32(k), last)
    return jnp.minimum(index, last)  # rounding may carry the product up to the total: the last positive weight is meant


def follow(values: Sequence[Data], index: Data) -> Data:
    """values[index]"""
    chosen = values[0]
    for k, value in enumerate(values[1:], 1):
        chosen = jnp.where(index == np.int32(k), value, chosen)
    return chosen


def _origin(weights: Vector, uniform: Data | None, arithmetic: Arithmetic) -> Data:
    """The state that one came from: the best, or a draw."""
    if uniform is None:
        return first_greatest(weights)
    if arithmetic is BY_LOGS:
        top = finite(greatest(weights))
        weights = [jnp.exp(weight - top) for weight in weights]
    return inverse_transform(weights, uniform)


def _point(moves: Any, seen: Any, forward: Any, uniform: Any, paths: Any, after: Any, launch: Launch) -> None:
    states, count, moves_at = range(launch.states), steps_of_chunk(launch), moves_of(moves, launch)

    def run(arithmetic: Arithmetic) -> Data:
        move_at = moves_at(arithmetic)

        def forth(t: Any, carry: tuple) -> tuple:
            now, low = carry
            move, data = move_at(t), read_vector(seen, t, launch, arithmetic)
            low = jnp.minimum(low, arithmetic.least(now) * move.least * data.least)
            number = None if uniform is None else uniform[t, :]
            columns = columns_of(move.each, launch.states)
            for j, column in enumerate(columns):
                weights = [arithmetic.times(weight, each) for weight, each in zip(now, column, strict=True)]
                paths[t, j, :] = _origin(weights, number, arithmetic)
            made = [arithmetic.times(arithmetic.dot(now, columns[j]), data.each[j]) for j in states]
            return arithmetic.rescale(made)[0], low

        def back(step: Any, ends: list[Data]) -> list[Data]:
            t = count - np.int32(1) - step
            before = [paths[t, j, :] for j in states]
            ends = [follow(before, end) for end in ends]
            for j in states:
                paths[t, j, :] = ends[j]
            return ends

        start = read_vector(forward, 0, launch, arithmetic)
        now, low = jax.lax.fori_loop(np.int32(0), count, forth, (start.each, start.least))
        for k in states:
            after[0, k, :] = arithmetic.log(now[k])
        same = [jnp.full((launch.block,), j, np.int32) for j in states]
        jax.lax.fori_loop(np.int32(0), count, back, same)
        return low

    run_carefully(run, launch)


def best_kernel(moves: Any, seen: Any, forward: Any, paths: Any, after: Any, *, launch: Launch) -> None:
    """ψ_t(j) = arg max_i α_{t−1}(i) moves_t(i, j), followed from the end of the chunk; and α at its end."""
    _point(moves, seen, forward, None, paths, after, launch)


def draw_kernel(moves: Any, seen: Any, forward: Any, uniform: Any, paths: Any, after: Any, *, launch: Launch) -> None:
    """ψ_t(j) ~ α_{t−1}(i) moves_t(i, j) by the number of the step, followed from the end of the chunk; and α there."""
    _point(moves, seen, forward, uniform, paths, after, launch)


def ends_kernel(firsts: Any, last: Any, ends: Any, begin: Any, *, launch: Launch) -> None:
    """The states at the ends of chunks, from the last one on, and the state before the first step."""
    count = np.int32(launch.chunks)

    def back(step: Any, state: Data) -> Data:
        c = count - np.int32(1) - step
        ends[c, :] = state
        return follow([firsts[c, j, :] for j in range(launch.states)], state)

    begin[:] = jax.lax.fori_loop(np.int32(0), count, back, last[:])


# -- launching ------------------------------------------------------------------------------------------------------


def best_pointers(logs: ChainLogs) -> Pointers:
    """Where the best path to each state came from, in three launches."""
    launch = replace(launch_of(logs), is_max=True)
    return _pointers(logs, borders_of(filled_up(logs, launch), launch).forward, None, launch)


def drawn_pointers(logs: ChainLogs, uniforms: Data) -> Pointers:
    """Where each state came from, drawn by numbers [T, N · draws], the draws of a sequence beside each other."""
    launch, count = launch_of(logs), logs.seen.shape[2]
    forward = borders_of(filled_up(logs, launch), launch).forward[..., :count]
    repeats = uniforms.shape[1] // count
    first, moves, seen = (jnp.repeat(part, repeats, axis=-1) for part in logs)
    many = ChainLogs(first, logs.moves if launch.shared else moves, seen)
    pointers = _pointers(many, jnp.repeat(forward, repeats, axis=-1), uniforms, launch_of(many))
    return pointers._replace(last=pointers.last[:, ::repeats])


def _pointers(logs: ChainLogs, forward: Data, uniforms: Data | None, launch: Launch) -> Pointers:
    """The third launch."""
    full, parts, count = filled_up(logs, launch), parts_of(launch), logs.seen.shape[2]
    lanes = launch.sequences
    forward = jnp.pad(forward, ((0, 0), (0, 0), (0, lanes - forward.shape[2])))
    takes, given = [parts["moves"], parts["seen"], parts["border"]], [full.moves, full.seen, forward]
    if uniforms is not None:
        rows = launch.chunk * launch.chunks
        takes.append(((rows, lanes), (launch.chunk, launch.block), lambda c, n: (c, n)))
        given.append(jnp.pad(uniforms, ((0, rows - launch.length), (0, lanes - count))).astype(launch.dtype))
    kernel = best_kernel if uniforms is None else draw_kernel
    gives = [(*parts["seen"], np.int32), parts["border"]]
    paths, after = call(kernel, launch, (launch.chunks, launch.blocks), takes, gives, launch.warps)(*given)
    paths = paths.reshape(launch.chunks, launch.chunk, launch.states, lanes)[..., :count]
    return Pointers(paths, after[-1, :, :count], launch.length, None)


def states_from(pointers: Pointers, last: Data) -> Data:
    """The states before the first step and after each [T + 1, N], given the last ones [N]; −1 where there is none."""
    chunks, chunk, states, count = pointers.paths.shape
    cut = launch_of(ChainLogs(*(jnp.zeros(shape) for shape in ((1, 1), (1, 1, 1, 1), (1, states, count)))))
    launch = replace(cut, length=chunks, chunk=1)
    lanes, more = launch.block, launch.sequences - count
    firsts = jnp.pad(pointers.paths[:, 0], ((0, 0), (0, 0), (0, more)))
    takes = [
        (firsts.shape, (chunks, states, lanes), lambda n: (0, 0, n)),
        ((count + more,), (lanes,), lambda n: (n,)),
    ]
    gives = [((chunks, count + more), (chunks, lanes), lambda n: (0, n), np.int32), (*takes[1], np.int32)]
    known = jnp.pad(jnp.maximum(last, 0).astype(np.int32), (0, more))
    ends, begin = call(ends_kernel, launch, (launch.blocks,), takes, gives, launch.warps)(firsts, known)
    index = ends[:, None, None, :count]
    inside = jnp.take_along_axis(pointers.paths, jnp.broadcast_to(index, (chunks, chunk, 1, count)), axis=2)
    before = inside.reshape(chunks * chunk, count)[1 : pointers.length]
    path = jnp.concatenate([begin[None, :count], before, known[None, :count]])
    return jnp.where(last < 0, -1, path)
