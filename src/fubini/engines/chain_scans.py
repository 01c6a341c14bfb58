"""Chains of tables forward and backward by two scans, in linear weights that are rescaled at each step.

The states of a step are in rows and sequences in columns, so that a step is one sum of products over short rows. What
does not depend on the step before is computed for all steps at once. Whether a product of positive weights may have
left the range of the dtype is known afterwards; then the ways go by logarithms (`chain_logarithms`).

A weight that left the range need not matter, as where a datum is far from what most states would give. If each state
may follow each, with weights m_ij of at least δ of the greatest, what comes after a step has weights β_i = Σ_j m_ij x_j
that differ by 1/δ at most between states: what was lost of one is no more than tiny/δ of the evidence. And where both
ways are known, it is no more than tiny over the mass of α · β.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base import lax_loops
from fubini.base.arrays import Data
from fubini.engines.chain_evidence import ChainWeights
from fubini.engines.chain_kernels import ChainLogs
from fubini.engines.chain_logarithms import (
    Evidence,
    Pair,
    evidence_and_slopes_by_logs,
    evidence_by_logs,
    smoothed_by_logs,
)
from fubini.engines.kernel_arithmetic import NONE, finite
from fubini.numerics.in_range import if_in_range, is_open
from fubini.numerics.scaled import LOG_GREATEST, SAFE_LOG, Scaled, gauged, greatest_of, least_of

FEW_STATES = 16  # sums over more of them are matrix products
BLOCK = 4  # steps whose moves are counted at once: the counts are read and written once for all of them
SMALL = 1024  # bytes up to which XLA makes a loop on a CPU one function; of larger ones each turn has a cost of its own
FEW_WEIGHTS = 256  # of a step, up to which that cost is most of it: then a turn makes several steps
TURN = 4  # of these


class LinearChain(NamedTuple):
    """The weights of a chain over their greatest, what a weight of 1 was multiplied by for that, the logarithm of what
    was taken out, and for each step the log-distance below the greatest at which weights that enter it are in range.

    `is_near` says that all possible moves are in range, and no weight of zero is in units far above the greatest;
    `is_full` that all moves are possible, none of them far below the greatest.
    """

    weights: ChainLogs
    scales: ChainLogs
    log: Data
    room: Data
    is_near: Data
    is_full: Data


def to_linear(weights: ChainWeights) -> LinearChain:
    """w · exp(l) in linear weights, the greatest 1 at each step; a weight of zero keeps its derivative."""
    axes = ChainLogs((0,), (1, 2), (1,))
    positive = [jax.lax.stop_gradient(jnp.where(one > 0, log, NONE)) for one, log in zip(*weights, strict=True)]
    tops = [finite(jnp.max(log, axis=own, keepdims=True)) for log, own in zip(positive, axes, strict=True)]
    most = LOG_GREATEST[weights.logs.seen.dtype.name]
    scales = [jnp.exp(jnp.minimum(log - top, most)) for log, top in zip(weights.logs, tops, strict=True)]
    data = [one * scale for one, scale in zip(weights.ones, scales, strict=True)]
    _, moves_least, seen_least = (
        jnp.min(jnp.where(log > NONE, log - top, 0.0), axis=tuple(range(1, log.ndim)))
        for log, top in zip(positive, tops, strict=True)
    )
    length = weights.ones.seen.shape[0]
    first, moves, seen = (jnp.squeeze(top, own) for top, own in zip(tops, axes, strict=True))
    moves = length * moves[0] if moves.shape[0] == 1 else jnp.sum(moves, axis=0)
    safe_log = SAFE_LOG[seen.dtype.name]
    room = jnp.broadcast_to(2 * safe_log + moves_least + seen_least, (length,))
    zeros = [
        jnp.max(jnp.where(one > 0, NONE, log - top), initial=NONE)
        for one, log, top in zip(weights.ones, weights.logs, tops, strict=True)
    ]
    tiny = math.log(np.finfo(seen.dtype).tiny)
    is_near = jnp.all(moves_least >= tiny) & jnp.all(jnp.stack(zeros) <= safe_log / 2)
    is_full = jnp.all(moves_least >= -safe_log / 2) & jnp.all(weights.ones.moves > 0)
    log = first + moves + jnp.sum(seen, axis=0)
    return LinearChain(ChainLogs(*data), ChainLogs(*scales), log, room, is_near, is_full)


def _ahead(now: Data, move: Data) -> Data:
    """Σ_i now(i) move(i, j)"""
    if move.shape[2] == 1 and move.shape[0] > FEW_STATES:
        return jnp.einsum("in,ij->jn", now, move[:, :, 0], precision="highest")
    return jnp.sum(now[:, None] * move, axis=0)


def _behind(later: Data, move: Data) -> Data:
    """Σ_j move(i, j) later(j)"""
    return _ahead(later, jnp.swapaxes(move, 0, 1))


def _steps_of_a_turn(chain: LinearChain) -> int:
    """How many steps a turn of a loop makes."""
    _, moves, seen = chain.weights
    few = math.prod(seen.shape[1:])
    numbers = math.prod(moves.shape[1:]) + 2 * few
    return TURN if few <= FEW_WEIGHTS and numbers * seen.dtype.itemsize > SMALL else 1


# -- forward and backward -------------------------------------------------------------------------------------------


class Forward(NamedTuple):
    """The evidence, and whether every weight was in range; what was taken out at each step; and, if they are kept, the
    weights of the states that enter a step, and of those after its moves."""

    evidence: Evidence
    safe: Data
    tops: Data
    before: Data | None
    ahead: Data | None


def forward(chain: LinearChain, keep: bool) -> Forward:
    """α_t = seen_t · (α_{t−1} moves_t)"""
    first, moves, seen = chain.weights
    is_moving = moves.shape[0] > 1

    def step(now: Data, parts: tuple) -> tuple[Data, tuple]:
        ahead = _ahead(now, parts[1] if is_moving else moves[0])
        made = ahead * parts[0]
        top = greatest_of(made, (0,))
        return made / top, (top[0], *((now, ahead) if keep else (least_of(now, (0,)),)))

    over = (seen, moves) if is_moving else (seen,)
    last, (tops, *kept) = lax_loops.scan(step, first, over, unroll=_steps_of_a_turn(chain))
    before, ahead = kept if keep else (None, None)
    entering = kept[0] if before is None else before
    least = least_of(entering, tuple(range(1, entering.ndim)))
    safe = jnp.all(least >= jnp.exp(-chain.room)) & jnp.all(last == last)
    evidence = Evidence(jnp.sum(last, axis=0), chain.log + jnp.sum(jnp.log(tops), axis=0))
    return Forward(evidence, safe, tops, before, ahead)


class Backward(NamedTuple):
    """The weights of all that comes after a step given the state there, rescaled; those before the first step; and what
    was taken out at each."""

    later: Data
    begin: Data
    tops: Data


def backward(chain: LinearChain) -> Backward:
    """β_{t−1} = moves_t (seen_t · β_t)"""
    _, moves, seen = chain.weights
    is_moving = moves.shape[0] > 1

    def step(later: Data, parts: tuple) -> tuple[Data, tuple]:
        made = _behind(parts[0] * later, parts[1] if is_moving else moves[0])
        top = greatest_of(made, (0,))
        return made / top, (later, top[0])

    last = jnp.ones(seen.shape[1:], seen.dtype)
    over = (seen, moves) if is_moving else (seen,)
    begin, (later, tops) = lax_loops.scan(step, last, over, reverse=True, unroll=_steps_of_a_turn(chain))
    return Backward(later, begin, tops)


class BothWays(NamedTuple):
    """Both ways; what products of their weights are to be multiplied by to be the weight of the evidence, before the
    first step and at each; whether every weight that they need was in range; and whether what was not is of no account
    for the evidence and its slopes."""

    there: Forward
    back: Backward
    begin_scale: Data
    scale: Data
    safe: Data
    is_whole: Data


def both_ways(chain: LinearChain) -> BothWays:
    """Σ_j α_t(j) β_t(j) is the evidence at each t."""
    there, back = forward(chain, keep=True), backward(chain)
    assert there.ahead is not None
    weight = jax.lax.stop_gradient(there.evidence.weight)
    mass = jax.lax.stop_gradient(jnp.sum(there.ahead * chain.weights.seen * back.later, axis=1))
    begin_mass = jax.lax.stop_gradient(jnp.sum(chain.weights.first * back.begin, axis=0))

    def far() -> tuple[Data, Data]:
        """An impossible sequence has no such quotient: what was taken out on the ways there and back has."""
        down, up = jnp.log(there.tops), jnp.log(back.tops)
        after = jnp.cumsum((up - down)[::-1], axis=0)[::-1]
        most = LOG_GREATEST[mass.dtype.name]
        return jnp.exp(jnp.minimum(after[0], most)), jnp.exp(jnp.minimum(after - up, most))

    possible = weight > 0
    nowhere = jnp.zeros_like(weight), jnp.zeros_like(mass)
    begin_far, each_far = lax_loops.cond(jnp.all(possible), lambda: nowhere, far)

    def quotient(whole: Data, otherwise: Data) -> Data:
        return jnp.where(possible, weight, otherwise) / jnp.where(possible & (whole > 0), whole, 1.0)

    enough = math.sqrt(float(np.finfo(mass.dtype).tiny) * 16 * there.ahead.shape[1])
    is_enough = (mass >= enough * there.tops) & (begin_mass >= enough)
    begin_scale, scale = quotient(begin_mass, begin_far), quotient(mass, each_far)
    safe = there.safe & jnp.all(is_enough | ~possible)
    return BothWays(there, back, begin_scale, scale, safe, chain.is_near & jnp.all(is_enough & possible))


# -- evidence -------------------------------------------------------------------------------------------------------


def evidence(weights: ChainWeights, drops_small: bool) -> Evidence:
    """The evidence of each sequence; its derivatives are by one way forward and backward."""
    return _in_range(weights, drops_small) if is_open() else _graded_evidence(drops_small, weights)


def _in_range(weights: ChainWeights, drops_small: bool) -> Evidence:
    chain = to_linear(weights)
    found = forward(chain, keep=False)
    if drops_small:
        return found.evidence
    return if_in_range(found.safe | chain.is_full, lambda: found.evidence, lambda: evidence_by_logs(weights))


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _graded_evidence(drops_small: bool, weights: ChainWeights) -> Evidence:
    return _in_range(weights, drops_small)


@_graded_evidence.defjvp
def _(drops_small: bool, primals: tuple, tangents: tuple) -> tuple[Evidence, Evidence]:
    """The derivative of the log-evidence by its slopes."""
    (weights,), (change,) = primals, tangents
    value, slopes = evidence_and_slopes(weights, drops_small)
    return value, Evidence(weights.along(slopes, change), jnp.zeros_like(value.log))


def evidence_and_slopes(weights: ChainWeights, drops_small: bool) -> tuple[Evidence, ChainLogs]:
    """The evidence of each sequence, and the slopes of its weight in each w."""
    chain = to_linear(weights)
    found = both_ways(chain)
    in_linear_weights = found.there.evidence, _slopes(chain, found)
    if drops_small:
        return in_linear_weights
    safe = found.safe | found.is_whole
    return lax_loops.cond(safe, lambda: in_linear_weights, lambda: evidence_and_slopes_by_logs(weights))


def _slopes(chain: LinearChain, found: BothWays) -> ChainLogs:
    """∂Z: β_0 in the first weights, α_{t−1} (seen_t · β_t) in those of moves, β_t · α_{t−1} moves_t in what is seen."""
    before, ahead = found.there.before, found.there.ahead
    assert before is not None and ahead is not None
    later = found.back.later * found.scale[:, None]
    after = later * chain.weights.seen
    is_moving = chain.weights.moves.shape[0] > 1
    moved = before[:, :, None] * after[:, None] if is_moving else _counts(before, after)[None]
    slopes = ChainLogs(found.back.begin * found.begin_scale, moved, later * ahead)
    return ChainLogs(*(slope * scale for slope, scale in zip(slopes, chain.scales, strict=True)))


def _counts(before: Data, after: Data) -> Data:
    """Σ_t before_t(i) after_t(j)"""
    _, states, count = before.shape
    if states > FEW_STATES:
        return jnp.einsum("tin,tjn->ijn", before, after, precision="highest")

    def add(total: Data, parts: tuple[Data, Data]) -> tuple[Data, None]:
        return total + jnp.sum(parts[0][:, :, None] * parts[1][:, None], axis=0), None

    def in_blocks(part: Data) -> Data:
        return jnp.pad(part, ((0, -len(part) % BLOCK), (0, 0), (0, 0))).reshape(-1, BLOCK, states, count)

    empty = jnp.zeros((states, states, count), before.dtype)
    return lax_loops.scan(add, empty, (in_blocks(before), in_blocks(after)))[0]


# -- smoothing ------------------------------------------------------------------------------------------------------


def smoothed(weights: ChainWeights, drops_small: bool) -> tuple[Pair, Pair, Data]:
    """Return α · β before the first step and after each as w and l, and log, where exp(log) times their sum is the
    evidence: added to the logarithms of the states, it would take their digits."""
    chain = to_linear(weights)
    found = both_ways(chain)
    there, back = found.there, found.back

    def scaled(forth: Data, later: Data, scale: Data) -> Pair:
        ones, logs, *_ = gauged(Scaled(later, jnp.zeros_like(later)))
        is_lost = scale == 0
        log = jnp.where(is_lost, 0.0, jnp.log(jnp.where(is_lost, 1.0, scale)))
        log, is_lost = (jnp.expand_dims(data, -2) for data in (log, is_lost))
        return Pair(jnp.where(is_lost, 0.0, forth * ones), logs + log)

    def in_linear_weights() -> tuple[Pair, Pair, Data]:
        assert there.ahead is not None
        begin = scaled(chain.weights.first, back.begin, found.begin_scale)
        after = scaled(there.ahead * chain.weights.seen, back.later, found.scale)
        return begin, after, there.evidence.log

    if drops_small:
        return in_linear_weights()
    entering = least_of(back.later, (1, 2))
    safe = found.safe & jnp.all(entering >= jnp.exp(-chain.room))
    return if_in_range(safe, in_linear_weights, lambda: smoothed_by_logs(weights))
