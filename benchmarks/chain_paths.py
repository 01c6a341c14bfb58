"""Chains of tables on a GPU: smoothing, pairs of states, best paths and draws, by kernels and by our scan.

Answers are checked against NumPy in double precision: probabilities of states and of moves, the weight of the best
path; draws against those of the scan for the same key. `python -m benchmarks.chain_kernels` runs this too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import log_softmax, logsumexp

import fubini as fb
from benchmarks import sequence_peers as peers
from benchmarks.report import Aim, Table, duration, ratio
from benchmarks.timing import elapsed, interleaved

COLUMNS = ("contestant", "     run", " compile", " first/it", "        off")
LEAST_EQUAL = 0.999  # of drawn states that are those of the scan: rounding may turn a few
Arrays = tuple[np.ndarray, np.ndarray]


class Reference(NamedTuple):
    """Probabilities of states, of moves summed over time, and the weight of the best path of each sequence."""

    states: np.ndarray
    moves: np.ndarray
    best: np.ndarray


def reference(transitions: np.ndarray, likelihoods: np.ndarray) -> Reference:
    """Forward and backward by logarithms, and by maxima, in double precision."""
    moves, start = log_softmax(transitions, axis=1), np.full(likelihoods.shape[1:], -np.log(len(transitions)))
    forward, best = [start], start
    for seen in likelihoods:
        forward.append(logsumexp(forward[-1][:, :, None] + moves, axis=1) + seen)
        best = np.max(best[:, :, None] + moves, axis=1) + seen
    total: Any = logsumexp(forward[-1], axis=1)
    later, states = np.zeros(likelihoods.shape[1:]), np.empty_like(likelihoods)
    counts = np.zeros((len(total), *moves.shape))
    for t in reversed(range(len(likelihoods))):
        states[t] = np.exp(forward[t + 1] + later - total[:, None])
        ahead = likelihoods[t] + later
        counts += np.exp(forward[t][:, :, None] + moves + ahead[:, None, :] - total[:, None, None])
        later = logsumexp(moves + ahead[:, None, :], axis=2)
    return Reference(states, counts, np.max(best, axis=1))


def weight_of(first: np.ndarray, path: np.ndarray, transitions: np.ndarray, likelihoods: np.ndarray) -> np.ndarray:
    """The logarithm of the weight of a path of each sequence."""
    moves, before = log_softmax(transitions, axis=1), np.concatenate([first[None], path[:-1]])
    seen = np.take_along_axis(likelihoods, path[..., None], axis=2)[..., 0]
    return -np.log(len(transitions)) + (moves[before, path] + seen).sum(axis=0)


# -- questions ------------------------------------------------------------------------------------------------------


def smoothing(transitions: jax.Array, likelihoods: jax.Array) -> jax.Array:
    """The probabilities of states, over time, sequences and states."""
    return peers.our_chain(transitions, likelihoods).smooth().transposed(("t", "b", "x_next")).weights


def pairs(transitions: jax.Array, likelihoods: jax.Array) -> jax.Array:
    """The probabilities of moves, over time, sequences and both states."""
    return peers.our_chain(transitions, likelihoods).smooth_pairs().transposed(("t", "b", "x", "x_next")).weights


def best_path(transitions: jax.Array, likelihoods: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The first states, and those after each step."""
    best = peers.our_chain(transitions, likelihoods).argmax()
    return best["x"], best["x_next"]


def draw(transitions: jax.Array, likelihoods: jax.Array) -> tuple[jax.Array, jax.Array]:
    """One path of each sequence."""
    drawn = peers.our_chain(transitions, likelihoods).sample(jax.random.key(0))
    return drawn["x"], drawn["x_next"]


QUESTIONS: dict[str, Callable] = {
    "smoothing": smoothing,
    "pairs of states": pairs,
    "best path": best_path,
    "a draw": draw,
}


def distance(title: str, found: Any, scanned: Any, wanted: Reference, host: Arrays) -> float:
    """The greatest difference from double precision; of draws the share of states that are not the scan's."""
    parts = jax.tree.map(np.asarray, found)
    if title == "smoothing":
        return float(np.max(np.abs(parts - wanted.states)))
    if title == "pairs of states":
        off = np.max(np.abs(parts.sum(axis=2, dtype="float64") - wanted.states))
        return max(float(off), float(np.max(np.abs(parts.sum(axis=0, dtype="float64") / wanted.moves - 1))))
    if title == "best path":
        transitions, likelihoods = host
        return float(np.max(np.abs(weight_of(parts[0], parts[1], transitions, likelihoods) / wanted.best - 1)))
    return float(np.mean(parts[1] != np.asarray(scanned[1])))


def compare(shape: tuple, dtype: str, host: Arrays, engines: dict[str, str], rounds: int, near: float) -> list[Aim]:
    """Time and check each question by each engine, and print a row for each; the scan is the last engine."""
    data, wanted = tuple(jnp.asarray(each, dtype) for each in host), reference(*host)
    aims: list[Aim] = []
    for title, question in QUESTIONS.items():
        timed, first, found = {}, {}, {}
        for name, engine in engines.items():
            compiled = jax.jit(lambda *given, question=question: question(*given))  # one of its own for each engine
            start = time.perf_counter()
            with fb.engine(engine):
                found[name] = jax.block_until_ready(compiled(*data))
            first[name] = time.perf_counter() - start
            timed[name] = lambda compiled=compiled: jax.block_until_ready(compiled(*data))
        for function in timed.values():
            elapsed(function)
        medians = {name: times.median for name, times in interleaved(timed, rounds).items()}
        off = {name: distance(title, each, found["our scan"], wanted, host) for name, each in found.items()}
        table = Table(f"HMM {shape}, {dtype}: {title}", COLUMNS, first=26)
        leader = next(iter(medians.values()))
        for name, seconds in medians.items():
            compiling = duration(first[name] - seconds)
            table.row(name, duration(seconds), compiling, ratio(leader / seconds), f"{off[name]:.1e}")
        if "kernels" in found:
            bound = 1 - LEAST_EQUAL if title == "a draw" else near
            what, worst = f"HMM {shape}, {dtype}, {title}", off["kernels"]
            aims.append(Aim(f"{what}: distance", f"≤ {bound:.0e}", f"{worst:.1e}", worst <= bound))
            shorter = medians["our scan"] / medians["kernels"]
            aims.append(Aim(f"{what}: the scan's time over the kernels'", "> 1", ratio(shorter), shorter > 1))
    return aims
