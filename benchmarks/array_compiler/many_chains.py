"""Many chains side by side: blocked sweeps on XLA, on whatever device JAX runs on, and what they rest on.

    python -m benchmarks.array_compiler.many_chains [--chains 1 16 256 1024] [--points 10000] [--classes 50]

- Label updates per second of blocked sweeps of the mixture, as chains are added.
- Canaries: sums by class, by scattering and by products with indicators, and a small update of a large array in a loop:
  each has been hundreds of times slower in some version of jaxlib than it need be.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.array_compiler import data as sources
from benchmarks.array_compiler import models
from benchmarks.report import Aim, Table, duration, print_header, print_summary, ratio

SWEEPS = 20


def seconds(call: Callable[[], Any], rounds: int = 5) -> float:
    """The median of some calls, after one that compiles."""
    jax.block_until_ready(call())
    found = []
    for _ in range(rounds):
        begin = time.perf_counter()
        jax.block_until_ready(call())
        found.append(time.perf_counter() - begin)
    return float(np.median(found))


def throughput(points: int, classes: int, chains: list[int]) -> list[Aim]:
    """Blocked sweeps of the mixture."""
    t, _ = sources.mixture(points, classes, 0)
    sampler = models.mixture(points, classes).condition(t=t).gibbs("z", blocked=True)
    columns = ("chains", "  first run", "   a sweep", "label updates a second", "times one chain")
    table = Table(f"blocked sweeps of a mixture of {points:,} points, {classes} classes", columns, first=8)
    rates: list[float] = []
    for count in chains:
        run = lambda seed, many=count: sampler.run(  # noqa: E731
            jax.random.key(seed), sweeps=SWEEPS, thin=SWEEPS, keep=1, chains=many, progress=False
        )
        begin = time.perf_counter()
        run(0)
        first = time.perf_counter() - begin
        begin = time.perf_counter()
        run(1)
        again = (time.perf_counter() - begin) / SWEEPS
        rates.append(count * points / again)
        table.row(f"{count:,}", duration(first), duration(again), f"{rates[-1]:,.0f}", ratio(rates[-1] / rates[0]))
    return [Aim("label updates a second, most chains", "report", f"{rates[-1]:,.0f}", None)]


def canaries(points: int, classes: int, chains: int) -> None:
    """Sums by class, and a small update of a large array."""
    g = np.random.default_rng(0)
    x = jnp.asarray(g.normal(size=points), jnp.float32)
    z = jnp.asarray(g.integers(0, classes, (chains, points)))

    def scattered(z: Any) -> Any:
        return jax.ops.segment_sum(x, z, classes)

    def multiplied(z: Any) -> Any:
        return x @ (z[:, None] == jnp.arange(classes)).astype(x.dtype)

    def looped(counts: Any) -> Any:
        return jax.lax.fori_loop(0, 1000, lambda i, counts: counts.at[i % classes].add(1.0), counts)

    table = Table(f"canaries: {chains} chains, {points:,} points, {classes} classes", ("what", "  a call"), first=44)
    for name, function in {"by scattering": scattered, "by products with indicators": multiplied}.items():
        compiled = jax.jit(jax.vmap(function))
        table.row(f"sums by class, {name}", duration(seconds(lambda: compiled(z))))  # noqa: B023
    update = jax.jit(looped)
    for size in (64, 1_000_000):
        start = jnp.zeros(size)
        table.row(f"1,000 updates of an array of {size:,}", duration(seconds(lambda: update(start))))  # noqa: B023


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chains", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--classes", type=int, default=50)
    options = parser.parse_args()
    print_header(("jax", "jaxlib", "numpy"))
    print(f"device: {jax.devices()[0].device_kind}")
    canaries(options.points, options.classes, options.chains[-1])
    print_summary(throughput(options.points, options.classes, options.chains))


if __name__ == "__main__":
    main()
