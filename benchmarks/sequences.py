"""Sequences: ours against scans written by hand, funsor and dynamax. Run, compile, memory, and growth with length.

- Hidden Markov models, (sequences, length, states): evidence with its gradient, and smoothing.
- A linear-Gaussian model, the plane rotating: filter, smoother, evidence with its gradient.
- A switching model of 400 steps, two regimes, five dimensions, under moment matching.
- Memory and time of chains of a thousand to a million steps, with the fitted exponent of time against length.

Contestants take turns; times are medians of the rounds, ratios are theirs over ours. Compile is the first call less a
later one. Peers that are not installed are left out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import sequence_peers as peers
from benchmarks.report import Table, duration, mebibytes, print_header, ratio
from benchmarks.timing import elapsed, interleaved, peak_memory

MARKOV = ((100, 600, 3), (700, 1800, 3), (20, 1800, 16), (1, 70000, 8))
KALMAN = (1_000, 10_000, 50_000)
LENGTHS = (1_000, 10_000, 100_000, 1_000_000)
COLUMNS = ("contestant", "     run", " compile", "ours/it")
Contest = Mapping[str, Callable[[], object]]


def ready(function: Callable, *arrays: jax.Array) -> Callable[[], object]:
    """A jitted call that waits for its result."""
    compiled = jax.jit(function)
    return lambda: jax.block_until_ready(compiled(*arrays))


def contest(title: str, contestants: Contest, rounds: int) -> None:
    """Time them in turn, and print a row for each; ratios are to the first."""
    first = {name: elapsed(function) for name, function in contestants.items()}
    times = interleaved(contestants, rounds)
    table = Table(title, COLUMNS, first=26)
    ours = next(iter(times.values())).median
    for name, found in times.items():
        table.row(name, duration(found.median), duration(first[name] - found.median), ratio(ours / found.median))


def markov_data(shape: tuple[int, int, int]) -> tuple[jax.Array, jax.Array]:
    """Random log-transitions and log-likelihoods."""
    count, length, states = shape
    rng = np.random.default_rng(0)
    transitions = rng.normal(size=(states, states))
    return jnp.asarray(transitions, jnp.float32), jnp.asarray(rng.normal(size=(length, count, states)), jnp.float32)


def markov(shape: tuple[int, int, int], rounds: int, others: bool, methods: Sequence[str]) -> None:
    """One hidden Markov model: evidence and gradient, then smoothing."""
    data = markov_data(shape)
    evidence: dict[str, Callable] = {
        "ours": peers.our_evidence(None),
        **{f"ours, {method}": peers.our_evidence(method) for method in methods},
        "vector scan, logarithms": peers.log_scan,
        "vector scan, weights": peers.linear_scan,
        "associative scan": peers.associative_scan,
    }
    if others and peers.HAS_FUNSOR:
        evidence["funsor"] = peers.funsor_evidence
    graded = {name: ready(jax.value_and_grad(function, (0, 1)), *data) for name, function in evidence.items()}
    contest(f"HMM {shape}: evidence and gradient", graded, rounds)
    smoothing = {"ours": ready(peers.our_smoother(None), *data)}
    if others and peers.HAS_DYNAMAX:
        smoothing["dynamax"] = ready(peers.dynamax_smoother, *data)
    contest(f"HMM {shape}: smoothing", smoothing, rounds)


def kalman_data(length: int) -> jax.Array:
    """A track of the rotating plane."""
    rng = np.random.default_rng(1)
    state, rows = np.zeros(2), []
    for _ in range(length):
        state = peers.ROTATION @ state + peers.PROCESS * rng.normal(size=2)
        rows.append(state + peers.NOISE * rng.normal(size=2))
    return jnp.asarray(np.array(rows), jnp.float32)


def kalman(length: int, rounds: int, others: bool, methods: Sequence[str]) -> None:
    """One linear-Gaussian model: filter, smoother, evidence and gradient."""
    data = kalman_data(length)
    for what, ours in (("filter", peers.our_kalman_filter), ("smoother", peers.our_kalman_smoother)):
        contestants = {"ours": ready(ours(None), data)}
        contestants |= {f"ours, {method}": ready(ours(method), data) for method in methods}
        if others and peers.HAS_DYNAMAX:
            contestants["dynamax"] = ready(peers.dynamax_kalman(what), data)
        contest(f"linear-Gaussian, {length:,} steps: {what}", contestants, rounds)
    graded = {"ours": ready(jax.value_and_grad(peers.our_kalman_evidence(None)), data)}
    for method in methods:
        graded[f"ours, {method}"] = ready(jax.value_and_grad(peers.our_kalman_evidence(method)), data)
    if others and peers.HAS_DYNAMAX:
        graded["dynamax"] = ready(jax.value_and_grad(peers.dynamax_kalman("evidence")), data)
    contest(f"linear-Gaussian, {length:,} steps: evidence and gradient", graded, rounds)


def switching(rounds: int) -> None:
    """The switching model at two windows."""
    data = jnp.asarray(np.random.default_rng(2).normal(size=(400, 5)), jnp.float32)
    contestants = {
        f"ours, window {window}": ready(jax.value_and_grad(partial(peers.switching_evidence, window=window)), data)
        for window in (1, 3)
    }
    contest("switching, 400 steps, 2 regimes, 5 dimensions: evidence and gradient", contestants, rounds)


def growth(lengths: Sequence[int]) -> None:
    """Time and memory of evidence with its gradient, and the exponent of time against length."""
    table = Table("growth with length, one sequence of 8 states", ("steps", "     run", "  memory"), first=10)
    seconds = []
    for length in lengths:
        data = markov_data((1, length, 8))
        call = ready(jax.value_and_grad(peers.our_evidence("sequential"), (0, 1)), *data)
        memory = peak_memory(call)
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
        table.row(f"{length:,}", duration(seconds[-1]), mebibytes(memory))
    exponent = np.polyfit(np.log(lengths), np.log(seconds), 1)[0]
    longest = np.polyfit(np.log(lengths[-2:]), np.log(seconds[-2:]), 1)[0]
    print(f"\ntime grows as length to the power {exponent:.2f} over all, {longest:.2f} over the last two")


def main(argv: Sequence[str] | None = None) -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", choices=("markov", "kalman", "switching", "growth"), default=None)
    parser.add_argument("--without-peers", action="store_true", help="leave funsor and dynamax out")
    parser.add_argument("--chosen", action="store_true", help="ours by the chosen method alone: less to compile")
    parser.add_argument("--quick", action="store_true", help="the smallest of each")
    asked = parser.parse_args(argv)
    installed = [name for name, is_there in (("funsor", peers.HAS_FUNSOR), ("dynamax", peers.HAS_DYNAMAX)) if is_there]
    print_header(("jax", "numpy", *installed), f"; {jax.devices()[0]}")
    methods = () if asked.chosen else ("sequential", "parallel")
    parts, others = asked.only or ("markov", "kalman", "switching", "growth"), not asked.without_peers
    if "markov" in parts:
        for shape in MARKOV[: 1 if asked.quick else None]:
            markov(shape, asked.rounds, others, methods)
    if "kalman" in parts:
        for length in KALMAN[: 1 if asked.quick else None]:
            kalman(length, asked.rounds, others, methods)
    if "switching" in parts:
        switching(asked.rounds)
    if "growth" in parts:
        growth(LENGTHS[:2] if asked.quick else LENGTHS)


if __name__ == "__main__":
    main()
