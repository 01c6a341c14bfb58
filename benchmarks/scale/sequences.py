"""Chains over a mesh of simulated devices: sequences, one long sequence, and 10⁸ steps.

python -m benchmarks.scale.sequences            ratios to one device
python -m benchmarks.scale.sequences --long     10⁸ steps of three states: seconds and peak memory
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import jax
import jax.numpy as jnp
import numpy as np

import fubini as fb

ROUNDS = 7


def chain_of(likelihoods: Any, moves: Any, names: tuple[str, ...]) -> fb.Chain:
    """A hidden Markov model."""
    states = len(moves)
    step = fb.Table(moves, ("x", "x1")) * fb.Table(likelihoods, (*names, "x1"))
    init = fb.Table(np.full(states, 1.0 / states, np.float32), ("x",))
    return fb.Chain(init=init, factor=step, time="t", step={"x": "x1"})


def interleaved(runs: dict[str, Callable[[], Any]], rounds: int = ROUNDS) -> dict[str, float]:
    """The median seconds of each of several functions, one after another in each round."""
    for run in runs.values():
        jax.block_until_ready(run())
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            begun = time.perf_counter()
            jax.block_until_ready(run())
            seconds[name].append(time.perf_counter() - begun)
    return {name: float(np.median(own)) for name, own in seconds.items()}


def by_hand(likelihoods: Any, moves: Any) -> Any:
    """The log-evidence by a scan of weights, one step after another."""

    def step(state: tuple, seen: Any) -> tuple[tuple, None]:
        weights, log = state
        made = (weights @ moves) * seen
        top = jnp.max(made)
        return (made / top, log + jnp.log(top)), None

    first = jnp.full(len(moves), 1.0 / len(moves), likelihoods.dtype)
    (weights, log), _ = jax.lax.scan(step, (first, jnp.zeros((), likelihoods.dtype)), likelihoods)
    return jnp.log(jnp.sum(weights)) + log


def data_of(shape: tuple[int, ...], states: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    moves = random.dirichlet(np.ones(states), states).astype(np.float32)
    return random.uniform(0.1, 1.0, (*shape, states)).astype(np.float32), moves


def sequences() -> None:
    """64 sequences of 1,024 steps and 16 states: evidence and smoothing over 8 devices and on one."""
    likelihoods, moves = data_of((64, 1024), 16)
    mesh = jax.make_mesh((8,), ("tracks",))
    names = ("track", "t")
    one = chain_of(jnp.asarray(likelihoods), moves, names)
    many = chain_of(fb.shard(likelihoods, mesh, "tracks"), moves, names)
    for name, ask in ASKS.items():
        seconds = interleaved({"one": lambda ask=ask: ask(one), "mesh": lambda ask=ask: ask(many)})
        ratio = seconds["mesh"] / seconds["one"]
        print(f"64 × 1,024 × 16, {name}: {seconds['mesh'] * 1e3:.1f} ms over 8 devices, {ratio:.2f} × one device")


def long_sequence() -> None:
    """2²⁰ steps of three states, time over 8 devices."""
    likelihoods, moves = data_of((2**20,), 3)
    mesh = jax.make_mesh((8,), ("time",))
    one = chain_of(jnp.asarray(likelihoods), moves, ("t",))
    many = chain_of(fb.shard(likelihoods, mesh, "time"), moves, ("t",))
    scan, given = jax.jit(by_hand), (jnp.asarray(likelihoods), jnp.asarray(moves))
    for name, ask in ASKS.items():
        runs = {"one": lambda ask=ask: ask(one), "mesh": lambda ask=ask: ask(many)}
        if name == "evidence":
            runs["hand"] = lambda: scan(*given)
        seconds = interleaved(runs, 3)
        ratio = seconds["mesh"] / seconds["one"]
        text = f"2²⁰ × 3, {name}: {seconds['mesh'] * 1e3:.0f} ms over 8 devices, {ratio:.2f} × in order on one device"
        print(text + (f", {seconds['mesh'] / seconds['hand']:.2f} × a scan by hand" if "hand" in seconds else ""))


ASKS: dict[str, Callable[[fb.Chain], Any]] = {
    "evidence": lambda chain: chain.log_evidence().array,
    "smooth": lambda chain: chain.smooth().weights,
}


class Drawn:
    """Observations of 10⁸ steps, made where they are asked for: each device has its own part alone."""

    dtype = np.dtype(np.float32)

    def __init__(self, length: int, emissions: np.ndarray) -> None:
        self.shape, self.emissions = (length, emissions.shape[0]), emissions

    def __getitem__(self, where: tuple) -> np.ndarray:
        first, last, _ = where[0].indices(self.shape[0])
        seen = np.random.default_rng(first).integers(0, self.emissions.shape[1], last - first, dtype=np.int8)
        return self.emissions.T[seen]


def long_run(length: int) -> None:
    """The evidence of 10⁸ steps."""
    random = np.random.default_rng(0)
    moves = random.dirichlet(5 * np.ones(3), 3).astype(np.float32)
    emissions = random.dirichlet(np.ones(4), 3).astype(np.float32)
    mesh = jax.make_mesh((8,), ("time",))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    begun = time.perf_counter()
    likelihoods = fb.shard(Drawn(length, emissions), mesh, "time")
    placed = time.perf_counter()
    value = float(chain_of(likelihoods, moves, ("t",)).log_evidence())
    ended = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{length:,} steps of 3 states over 8 devices: log-evidence {value:.6g} in {ended - placed:.1f} s with "
        f"compilation ({placed - begun:.1f} s to make the data), {peak - before:.2f} GiB above import for "
        f"{likelihoods.nbytes / 2**30:.2f} GiB of data"
    )


def main() -> None:
    """Print the ratios, or the figures of the long run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--length", type=int, default=10**8)
    given = parser.parse_args()
    if given.long:
        long_run(given.length)
    else:
        sequences()
        long_sequence()


if __name__ == "__main__":
    main()
