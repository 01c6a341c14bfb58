"""Forward and backward through chains of tables in three fused kernels (Pallas), for many sequences at once.

A chain has K states, T steps and N sequences. Its weights are logarithms, −∞ where a weight is zero: `first` [K, N] of
the state before the first step, `moves` [T or 1, K, K, N or 1] from the state before a step to the state after it,
`seen` [T, K, N] of the state after it. Time is cut into C chunks of L steps:

1. for each chunk and block of sequences: the K × K product of its steps, in registers;
2. for each block of sequences: the vectors at the borders of the chunks, forward and backward, and the evidence;
3. for each chunk and block: forward again inside the chunk, then backward, the slopes of the log-evidence on the way.

A program computes in linear weights, rescaled at each step. Where a product of positive weights may have left the range
of the dtype, it computes once more by logarithms: nothing underflows, however widely weights differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data, is_traced
from fubini.engines.kernel_arithmetic import BY_LOGS, BY_MAX, LINEAR, NONE, Arithmetic, Vector, Weights, finite

MOST_STATES = 5  # of a chain whose K × K product is in registers: of 8 states it takes minutes to compile
BLOCKS = (32, 64)  # sequences that one program takes: one for each thread

Matrix = list[list[Data]]


def has_gpu(leaves: Sequence[Any] = ()) -> bool:
    """Whether programs run on a GPU, and these arrays are not elsewhere."""
    placed = [leaf for leaf in leaves if isinstance(leaf, jax.Array) and not is_traced(leaf)]
    return jax.default_backend() == "gpu" and all(
        device.platform == "gpu" for leaf in placed for device in leaf.devices()
    )


class ChainLogs(NamedTuple):
    """The logarithms of the weights of a chain; or, for each of them, the slope of the log-evidence."""

    first: Data
    moves: Data
    seen: Data


@dataclass(frozen=True)
class Launch:
    """The sizes of a chain, and how it is cut."""

    states: int
    length: int
    chunk: int
    block: int
    blocks: int
    moving: bool  # the moves depend on time
    shared: bool  # the moves are the same for all sequences
    dtype: Any
    is_max: bool = False  # the greatest weight is taken in place of sums

    @property
    def chunks(self) -> int:
        return -(-self.length // self.chunk)

    @property
    def sequences(self) -> int:
        """The number of sequences, filled up to whole blocks."""
        return self.block * self.blocks

    @property
    def warps(self) -> int:
        """The number of warps that have one thread for each sequence of a block."""
        return self.block // 32

    @property
    def tiny(self) -> float:
        """A bound below which products may lose digits on the way to the next rescaling."""
        return float(np.finfo(self.dtype).tiny) * 16 * self.states


def launch_of(logs: ChainLogs) -> Launch:
    """Cut a chain: 3 L steps inside chunks and 2 C between them depend on each other, least at L = √(2 T / 3)."""
    length, states, count = logs.seen.shape
    chunk = max(1, round(math.sqrt(2 * length / 3)))
    chunk = -(-length // -(-length // chunk))
    block = next((size for size in BLOCKS if count <= size), BLOCKS[-1])
    moving, shared = logs.moves.shape[0] > 1, logs.moves.shape[3] == 1
    return Launch(states, length, chunk, block, -(-count // block), moving, shared, logs.seen.dtype)


# -- what a program reads -------------------------------------------------------------------------------------------


MovesAt = Callable[[Any], Weights]


def moves_of(ref: Any, launch: Launch) -> Callable[[Arithmetic], MovesAt]:
    """The weights from each state to each at a step, in rows; read once where they do not depend on time."""
    states, lanes = range(launch.states), 0 if launch.shared else slice(None)

    def read(t: Any) -> Vector:
        return [ref[t, i, j, lanes] for i in states for j in states]

    if launch.moving:
        return lambda arithmetic: lambda t: arithmetic.enter(read(t))
    logs = read(0)

    def same(arithmetic: Arithmetic) -> MovesAt:
        move = arithmetic.enter(logs)
        return lambda t: move

    return same


def read_vector(ref: Any, t: Any, launch: Launch, arithmetic: Arithmetic) -> Weights:
    """One weight for each state."""
    return arithmetic.enter([ref[t, k, :] for k in range(launch.states)])


def _write_vector(ref: Any, t: Any, weights: Vector, arithmetic: Arithmetic) -> None:
    for k, weight in enumerate(weights):
        ref[t, k, :] = arithmetic.log(weight)


def rows_of(flat: Sequence[Data], states: int) -> Matrix:
    """A matrix by rows, of its cells in order."""
    return [list(flat[i * states : (i + 1) * states]) for i in range(states)]


def columns_of(flat: Sequence[Data], states: int) -> Matrix:
    """The columns of a matrix, of its cells in order."""
    return [list(flat[j::states]) for j in range(states)]


def run_carefully(run: Callable[[Arithmetic], Data], launch: Launch) -> None:
    """Run in linear weights, and once more by logarithms where the least product was too small; maxima by those."""
    from jax.experimental import pallas as pl  # takes long to import

    if launch.is_max:
        run(BY_MAX)
        return
    least = run(LINEAR)

    @pl.when(jnp.min(least) < launch.tiny)
    def _() -> None:
        run(BY_LOGS)


def steps_of_chunk(launch: Launch) -> Data:
    """The number of steps of this program's chunk: the last one may have fewer."""
    from jax.experimental import pallas as pl

    return jnp.minimum(np.int32(launch.chunk), np.int32(launch.length) - pl.program_id(0) * np.int32(launch.chunk))


def _ones(launch: Launch) -> Data:
    return jnp.ones((launch.block,), launch.dtype)


# -- the kernels ----------------------------------------------------------------------------------------------------


def chunk_kernel(moves: Any, seen: Any, product: Any, scale: Any, *, launch: Launch) -> None:
    """The product of the steps of a chunk: logarithms of the weights over their greatest, and the logarithm of that."""
    states, count, moves_at = range(launch.states), steps_of_chunk(launch), moves_of(moves, launch)

    def run(arithmetic: Arithmetic) -> Data:
        move_at = moves_at(arithmetic)

        def step(t: Any, carry: tuple) -> tuple:
            flat, log, low = carry
            move, data = move_at(t), read_vector(seen, t, launch, arithmetic)
            low = jnp.minimum(low, arithmetic.least(flat) * move.least * data.least)
            columns = columns_of(move.each, launch.states)
            made = [
                arithmetic.times(arithmetic.dot(row, columns[j]), data.each[j])
                for row in rows_of(flat, launch.states)
                for j in states
            ]
            flat, top = arithmetic.rescale(made)
            return flat, log + top + move.top + data.top, low

        ones = _ones(launch)
        one, zero = jnp.full_like(ones, arithmetic.one), jnp.full_like(ones, arithmetic.zero)
        same = [one if i == j else zero for i in states for j in states]
        flat, log, low = jax.lax.fori_loop(np.int32(0), count, step, (same, jnp.zeros_like(ones), ones))
        for i in states:
            for j in states:
                product[0, i, j, :] = arithmetic.log(flat[i * launch.states + j])
        scale[0, :] = log
        return low

    run_carefully(run, launch)


def border_kernel(
    first: Any, product: Any, scale: Any, forward: Any, backward: Any, before: Any, total: Any, *, launch: Launch
) -> None:
    """Weights of the states before each chunk given what came before, and of what comes after it given the states."""
    states, count = range(launch.states), np.int32(launch.chunks)

    def run(arithmetic: Arithmetic) -> Data:
        def read(c: Any) -> Weights:
            return arithmetic.enter([product[c, i, j, :] for i in states for j in states])

        def forth(c: Any, carry: tuple) -> tuple:
            now, log, low = carry
            _write_vector(forward, c, now, arithmetic)
            chunk = read(c)
            low = jnp.minimum(low, arithmetic.least(now) * chunk.least)
            columns = columns_of(chunk.each, launch.states)
            now, top = arithmetic.rescale([arithmetic.dot(now, column) for column in columns])
            return now, log + top + chunk.top + scale[c, :], low

        def back(step: Any, carry: tuple) -> tuple:
            later, low = carry
            c = count - np.int32(1) - step
            _write_vector(backward, c, later, arithmetic)
            chunk = read(c)
            low = jnp.minimum(low, arithmetic.least(later) * chunk.least)
            return arithmetic.rescale([arithmetic.dot(row, later) for row in rows_of(chunk.each, len(states))])[0], low

        ones = _ones(launch)
        start = arithmetic.enter([first[k, :] for k in states])
        now, log, low = jax.lax.fori_loop(np.int32(0), count, forth, (start.each, start.top, start.least))
        unit = [jnp.full_like(ones, arithmetic.one)] * launch.states
        total[:] = log + arithmetic.log(arithmetic.dot(now, unit))
        later, low = jax.lax.fori_loop(np.int32(0), count, back, (unit, low))
        for k in states:
            before[k, :] = arithmetic.log(later[k])
        return low

    run_carefully(run, launch)


def inside_kernel(
    moves: Any, seen: Any, forward: Any, backward: Any, by_moves: Any, by_seen: Any, *, launch: Launch
) -> None:
    """The slopes of the log-evidence in the weights of a chunk, each times its weight unless that is zero.

    For moves these are the expected numbers of them, for what is seen the probabilities of the states. The slopes in
    weights that are zero are relative to the greatest weight of the step.
    """
    states, count, moves_at = range(launch.states), steps_of_chunk(launch), moves_of(moves, launch)
    cells = [(k, j) for k in states for j in states]
    enough = math.sqrt(launch.tiny)

    def run(arithmetic: Arithmetic) -> Data:
        move_at = moves_at(arithmetic)
        times, is_linear = arithmetic.times, arithmetic is LINEAR
        is_late = is_linear and not launch.moving  # moves that stay the same are multiplied in at the end

        def forth(t: Any, carry: tuple) -> tuple:
            now, low = carry
            move, data = move_at(t), read_vector(seen, t, launch, arithmetic)
            low = jnp.minimum(low, arithmetic.least(now) * move.least * data.least)
            columns = columns_of(move.each, launch.states)
            now = arithmetic.rescale([times(arithmetic.dot(now, columns[j]), data.each[j]) for j in states])[0]
            for k in states:
                by_seen[t, k, :] = now[k]  # kept here until the way back
            return now, low

        def back(step: Any, carry: tuple) -> tuple:
            later, sums, low = carry
            t = count - np.int32(1) - step
            move, data = move_at(t), read_vector(seen, t, launch, arithmetic)
            low = jnp.minimum(low, arithmetic.least(later) * move.least * data.least)
            kept = jnp.maximum(t - np.int32(1), np.int32(0))
            now = [jnp.where(t == 0, start.each[k], by_seen[kept, k, :]) for k in states]
            ahead = [arithmetic.dot(now, column) for column in columns_of(move.each, launch.states)]
            weighed = [times(data.each[j], later[j]) for j in states]
            whole = arithmetic.dot(ahead, weighed)
            if is_linear:
                low = jnp.minimum(low, jnp.where(whole >= enough, jnp.ones_like(low), jnp.zeros_like(low)))
            inverse = arithmetic.inverse(whole)
            for j in states:
                share = times(times(arithmetic.or_one(data.each[j]), later[j]), inverse)
                by_seen[t, j, :] = arithmetic.number(times(ahead[j], share))
            shares = [times(weight, inverse) for weight in weighed]
            for cell, (k, j) in enumerate(cells):
                weight = now[k] if is_late else times(now[k], arithmetic.or_one(move.each[cell]))
                slope = arithmetic.number(times(weight, shares[j]))
                if launch.moving:
                    by_moves[t, k, j, :] = slope
                else:
                    sums[cell] = sums[cell] + slope
            earlier = [arithmetic.dot(row, weighed) for row in rows_of(move.each, launch.states)]
            return arithmetic.rescale(earlier)[0], sums, low

        start, end = read_vector(forward, 0, launch, arithmetic), read_vector(backward, 0, launch, arithmetic)
        _, low = jax.lax.fori_loop(np.int32(0), count, forth, (start.each, start.least))
        low = jnp.minimum(low, end.least)
        sums = [] if launch.moving else [jnp.zeros((launch.block,), launch.dtype)] * launch.states**2
        _, sums, low = jax.lax.fori_loop(np.int32(0), count, back, (end.each, sums, low))
        if not launch.moving:
            move = move_at(0)
            for cell, (k, j) in enumerate(cells):
                by_moves[0, k, j, :] = sums[cell] * arithmetic.or_one(move.each[cell]) if is_late else sums[cell]
        return low

    run_carefully(run, launch)


# -- launching ------------------------------------------------------------------------------------------------------


def call(
    kernel: Callable, launch: Launch, grid: tuple, takes: Sequence[tuple], gives: Sequence[tuple], warps: int
) -> Callable:
    """A kernel over a grid. Arrays are given as their shape, the shape of a program's part, and its position.

    What a kernel gives has the dtype of the weights, unless another one stands last.
    """
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    on_gpu = has_gpu()
    return pl.pallas_call(
        partial(kernel, launch=launch),
        grid=grid,
        in_specs=[pl.BlockSpec(part, position) for _, part, position in takes],
        out_specs=[pl.BlockSpec(part, position) for _, part, position, *_ in gives],
        out_shape=[jax.ShapeDtypeStruct(shape, *(dtype or [launch.dtype])) for shape, _, _, *dtype in gives],
        interpret=not on_gpu,
        compiler_params=triton.CompilerParams(num_warps=warps, num_stages=2) if on_gpu else None,
        name=kernel.__name__,
    )


def filled_up(logs: ChainLogs, launch: Launch) -> ChainLogs:
    """Whole chunks and whole blocks of sequences; what is added has weights of 1, and nothing comes of it."""
    more = launch.sequences - logs.seen.shape[2]
    steps = launch.chunk * launch.chunks - launch.length
    lanes = (0, 0 if launch.shared else more)
    return ChainLogs(
        jnp.pad(logs.first, ((0, 0), (0, more))),
        jnp.pad(logs.moves, ((0, steps if launch.moving else 0), (0, 0), (0, 0), lanes)),
        jnp.pad(logs.seen, ((0, steps), (0, 0), (0, more))),
    )


class Borders(NamedTuple):
    """Between chunks: logarithms of weights forward and backward, those before the first step, and the log-evidence."""

    forward: Data
    backward: Data
    before: Data
    total: Data


def parts_of(launch: Launch) -> dict[str, tuple]:
    """Arrays of which a program of a chunk and a block takes a part."""
    size, steps, lanes = launch.states, launch.chunk, launch.block
    rows, count, chunks = steps * launch.chunks, launch.sequences, launch.chunks
    times, wide = launch.moving, not launch.shared
    return {
        "moves": (
            (rows if times else 1, size, size, count if wide else 1),
            (steps if times else 1, size, size, lanes if wide else 1),
            lambda c, n: (c if times else 0, 0, 0, n if wide else 0),
        ),
        "seen": ((rows, size, count), (steps, size, lanes), lambda c, n: (c, 0, n)),
        "product": ((chunks, size, size, count), (1, size, size, lanes), lambda c, n: (c, 0, 0, n)),
        "scale": ((chunks, count), (1, lanes), lambda c, n: (c, n)),
        "border": ((chunks, size, count), (1, size, lanes), lambda c, n: (c, 0, n)),
        "slopes": (
            (rows if times else chunks, size, size, count),
            (steps if times else 1, size, size, lanes),
            lambda c, n: (c, 0, 0, n),
        ),
    }


def borders_of(logs: ChainLogs, launch: Launch) -> Borders:
    """The first two launches."""
    parts, grid = parts_of(launch), (launch.chunks, launch.blocks)
    takes, gives = [parts["moves"], parts["seen"]], [parts["product"], parts["scale"]]
    product, scale = call(chunk_kernel, launch, grid, takes, gives, launch.warps)(logs.moves, logs.seen)
    size, lanes, count, chunks = launch.states, launch.block, launch.sequences, launch.chunks
    vector = ((size, count), (size, lanes), lambda n: (0, n))
    matrices = (product.shape, (chunks, size, size, lanes), lambda n: (0, 0, 0, n))
    border = ((chunks, size, count), (chunks, size, lanes), lambda n: (0, 0, n))
    totals = ((count,), (lanes,), lambda n: (n,))
    takes = [vector, matrices, (scale.shape, (chunks, lanes), lambda n: (0, n))]
    gives = [border, border, vector, totals]
    return Borders(
        *call(border_kernel, launch, (launch.blocks,), takes, gives, launch.warps)(logs.first, product, scale)
    )


def total_of(logs: ChainLogs) -> Data:
    """The log-evidence [N], in two launches."""
    launch = launch_of(logs)
    return borders_of(filled_up(logs, launch), launch).total[: logs.seen.shape[2]]


def total_and_slopes_of(logs: ChainLogs) -> tuple[Data, ChainLogs]:
    """The log-evidence [N] and its slope for each weight and sequence, in three launches.

    Slopes are times the weight where that is positive: probabilities and expected numbers of moves. Where a weight is
    zero they are relative to the greatest of its vector or matrix.
    """
    launch, count = launch_of(logs), logs.seen.shape[2]
    full = filled_up(logs, launch)
    borders, parts = borders_of(full, launch), parts_of(launch)
    takes = [parts["moves"], parts["seen"], parts["border"], parts["border"]]
    grid, gives = (launch.chunks, launch.blocks), [parts["slopes"], parts["seen"]]
    inside = call(inside_kernel, launch, grid, takes, gives, launch.warps)
    moves, seen = inside(full.moves, full.seen, borders.forward, borders.backward)
    moves = moves[: launch.length] if launch.moving else jnp.sum(moves, axis=0, keepdims=True)
    first = first_slopes(logs.first, borders.before[:, :count])
    return borders.total[:count], ChainLogs(first, moves[..., :count], seen[: launch.length, :, :count])


def first_slopes(first: Data, before: Data) -> Data:
    """The probabilities of the first state; where it has no weight, the slope relative to the greatest."""
    top = finite(jnp.max(first, axis=0))
    weights = jnp.where(first > NONE, first - top, 0.0)
    whole = jax.scipy.special.logsumexp(first - top + before, axis=0)
    return jnp.exp(weights + before - whole)
