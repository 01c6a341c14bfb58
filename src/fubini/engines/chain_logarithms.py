"""Chains of tables forward and backward by logarithms: weights w · exp(l), where w is 1, or 0 for a weight of zero.

Nothing underflows, however widely weights differ; derivatives of all orders go through both parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fubini.base import lax_loops
from fubini.base.arrays import Data
from fubini.engines.chain_evidence import ChainWeights
from fubini.engines.chain_kernels import ChainLogs
from fubini.engines.kernel_arithmetic import NONE, finite
from fubini.numerics.scaled import LOG_GREATEST


class Evidence(NamedTuple):
    """The evidence of each sequence, weight · exp(log), where the logarithm is constant."""

    weight: Data
    log: Data


class Pair(NamedTuple):
    """w and l of weights w · exp(l)."""

    ones: Data
    logs: Data


class LogStates(NamedTuple):
    """The weights of the states, w · exp(l), and the logarithm that is taken out of them, for each sequence."""

    states: Pair
    log: Data


def _product(*pairs: Pair) -> Pair:
    """Π w · exp(Σ l)"""
    ones, logs = pairs[0]
    for pair in pairs[1:]:
        ones, logs = ones * pair.ones, logs + pair.logs
    return Pair(ones, logs)


def _greatest(pair: Pair, axis: int) -> Data:
    """The greatest logarithm of a positive weight along an axis, which is kept."""
    return finite(jnp.max(jax.lax.stop_gradient(jnp.where(pair.ones > 0, pair.logs, NONE)), axis=axis, keepdims=True))


def _linear(pair: Pair) -> Data:
    """w · exp(l), where a weight of zero has a finite derivative."""
    return pair.ones * jnp.exp(jnp.minimum(pair.logs, LOG_GREATEST[pair.logs.dtype.name]))


def _total(pair: Pair, axis: int) -> tuple[Data, Data]:
    """Σ w · exp(l) over an axis, and the logarithm that is taken out of it."""
    top = _greatest(pair, axis)
    return jnp.sum(_linear(Pair(pair.ones, pair.logs - top)), axis=axis), jnp.squeeze(top, axis)


def _summed(pair: Pair, axis: int) -> Pair:
    """Σ w · exp(l) over an axis, its value in the logarithm."""
    total, top = _total(pair, axis)
    constant = jax.lax.stop_gradient(total)
    scale = jnp.where(constant > 0, constant, 1.0)
    return Pair(total / scale, top + jnp.log(scale))


# -- forward and backward -------------------------------------------------------------------------------------------


def _parts(weights: ChainWeights) -> tuple[Pair, Pair, Pair]:
    return tuple(Pair(*both) for both in zip(*weights, strict=True))  # type: ignore[return-value]


def _ahead(now: Pair, move: Pair) -> Pair:
    """α_{t−1} moves_t"""
    return _summed(_product(Pair(now.ones[:, None], now.logs[:, None]), move), 0)


def _forth(now: Pair, move: Pair, seen: Pair) -> Pair:
    """α_t = seen_t · (α_{t−1} moves_t)"""
    return _product(_ahead(now, move), seen)


def _back(later: Pair, move: Pair, seen: Pair) -> Pair:
    """β_{t−1} = moves_t (seen_t · β_t)"""
    ahead = _product(seen, later)
    return _summed(_product(move, Pair(ahead.ones[None], ahead.logs[None])), 1)


def _scanned(
    weights: ChainWeights, begin: Pair, step: Callable, keep: bool, reverse: bool = False
) -> tuple[LogStates, LogStates | None]:
    """The weights at the end, and those that enter each step if they are kept."""
    _, moves, seen = _parts(weights)
    is_moving = moves.ones.shape[0] > 1

    def lightened(pair: Pair) -> tuple[Pair, Data]:
        top = _greatest(pair, 0)
        return Pair(pair.ones, pair.logs - top), top[0]

    def body(now: tuple[Pair, Data], parts: tuple) -> tuple[tuple, Any]:
        states, log = now
        move = parts[1] if is_moving else Pair(moves.ones[0], moves.logs[0])
        after, top = lightened(step(states, move, parts[0]))
        return (after, log + top), (LogStates(states, log) if keep else None)

    last, every = lax_loops.scan(body, lightened(begin), (seen, moves) if is_moving else (seen,), reverse=reverse)
    return LogStates(*last), every


def _forward(weights: ChainWeights, keep: bool) -> tuple[LogStates, Any]:
    return _scanned(weights, _parts(weights)[0], _forth, keep)


def _backward(weights: ChainWeights) -> tuple[LogStates, Any]:
    ones = jnp.ones(weights.ones.seen.shape[1:], weights.ones.seen.dtype)
    return _scanned(weights, Pair(ones, jnp.zeros_like(ones)), _back, True, reverse=True)


def evidence_by_logs(weights: ChainWeights) -> Evidence:
    """Σ over the states of α after the last step."""
    return _evidence(_forward(weights, False)[0])


def _evidence(last: LogStates) -> Evidence:
    weight, top = _total(last.states, 0)
    return Evidence(weight, last.log + top)


# -- both together --------------------------------------------------------------------------------------------------


class BothWays(NamedTuple):
    """At each step: α before it and after its moves, and β after it; β before the first; and the logarithms that their
    products are to be multiplied by to be the weight of the evidence, before the first step and at each."""

    before: Pair
    ahead: Pair
    later: Pair
    begin: Pair
    begin_log: Data
    log: Data


def _both_ways(weights: ChainWeights) -> tuple[BothWays, Evidence]:
    first, moves, seen = _parts(weights)
    last, there = _forward(weights, True)
    begin, back = _backward(weights)
    evidence = _evidence(last)
    ahead = _each_step(_ahead, moves, there.states)

    def scale(product: Pair, log: Data, axis: int) -> Data:
        mass, top = map(jax.lax.stop_gradient, _total(product, axis))
        weight, is_there = jax.lax.stop_gradient(evidence.weight), mass > 0
        quotient = jnp.where(is_there, weight, 1.0) / jnp.where(is_there, mass, 1.0)
        return jnp.where(is_there, jnp.log(quotient) - top, log - evidence.log)

    begin_log = scale(_product(first, begin.states), begin.log, 0)
    log = scale(_product(ahead, seen, back.states), there.log + back.log, 1)
    return BothWays(there.states, ahead, back.states, begin.states, begin_log, log), evidence


def _each_step(function: Callable, moves: Pair, *others: Pair) -> Any:
    """function(others_t, moves_t) for each t: one step after another, as all pairs of states at once would be many."""
    if moves.ones.shape[0] > 1:
        return jax.lax.map(lambda parts: function(*parts), (*others, moves))
    same = Pair(moves.ones[0], moves.logs[0])
    return jax.lax.map(lambda parts: function(*parts, same), others)


def evidence_and_slopes_by_logs(weights: ChainWeights) -> tuple[Evidence, ChainLogs]:
    """The evidence of each sequence, and the slopes of its weight in each w."""
    first, moves, seen = _parts(weights)
    found, evidence = _both_ways(weights)
    log = found.log[:, None]
    by_first = _linear(Pair(found.begin.ones, found.begin.logs + first.logs + found.begin_log))
    after = _product(found.ahead, found.later)
    by_seen = _linear(Pair(after.ones, after.logs + seen.logs + log))
    later = _product(seen, found.later, Pair(jnp.ones_like(log), log))

    def pairs(before: Pair, after: Pair, move: Pair) -> Data:
        both = _product(Pair(*(data[:, None] for data in before)), Pair(*(data[None] for data in after)))
        return _linear(Pair(both.ones, both.logs + move.logs))

    if moves.ones.shape[0] > 1:
        return evidence, ChainLogs(by_first, _each_step(pairs, moves, found.before, later), by_seen)
    same = Pair(moves.ones[0], moves.logs[0])

    def add(total: Data, parts: tuple[Pair, Pair]) -> tuple[Data, None]:
        return total + pairs(*parts, same), None

    states, count = seen.ones.shape[1:]
    nothing = jnp.zeros((states, states, count), seen.ones.dtype)
    by_moves = lax_loops.scan(add, nothing, (found.before, later))[0][None]
    return evidence, ChainLogs(by_first, by_moves, by_seen)


def smoothed_by_logs(weights: ChainWeights) -> tuple[Pair, Pair, Data]:
    """Return α · β before the first step and after each as w and l, and log, where exp(log) times their sum is the
    evidence."""
    first, _, seen = _parts(weights)
    found, evidence = _both_ways(weights)
    begin = _product(first, found.begin)
    after = _product(found.ahead, seen, found.later)
    pairs = Pair(begin.ones, begin.logs + found.begin_log), Pair(after.ones, after.logs + found.log[:, None])
    return *pairs, evidence.log
