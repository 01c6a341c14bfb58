"""Rows on one device, a GPU say: `JAX_PLATFORMS=cuda python -m benchmarks.scale.device`.

Rows that lie on the device: seconds of the evidence, asked again and within `jit`, beside reading the same numbers once
(their sum alone, which is as fast as memory allows). Streams of rows of this machine's memory over the device's mesh:
bytes a second beside what copying the same chunks to the device makes, and beside what reading them by NumPy makes.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fubini as fb
from benchmarks.models_of_rows import normal, regression
from benchmarks.report import Aim, Table, duration, print_header, print_summary, ratio

RESIDENT, STREAMED, COLUMNS, CHUNK, ROUNDS = 1_000_000_000, 200_000_000, 5, 1 << 22, 5


def seconds(run: Callable[[], Any]) -> tuple[float, float]:
    """Of the first time, and the median of later ones."""
    first, *others = [_once(run) for _ in range(ROUNDS + 1)]
    return first, statistics.median(others)


def _once(run: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    jax.block_until_ready(run())
    return time.perf_counter() - begun


def resident(rows: int) -> list[Aim]:
    """Evidence of rows that lie on the device."""
    aims = []
    table = Table(
        f"{rows:,} numbers on the device", ("question", "   first", "   again", "  GB/s", "one sum"), first=34
    )
    read = jax.jit(jnp.sum)
    y = jax.jit(lambda key: 0.5 + jax.random.normal(key, (rows,), jnp.float32))(jax.random.key(0))
    X = y[: rows // COLUMNS * COLUMNS].reshape(-1, COLUMNS)
    z = jax.jit(lambda X: X.sum(1) + 0.1 * jnp.sin(jnp.arange(len(X))))(X)

    def of_normal(y: Any) -> Any:
        return normal(len(y)).condition(y=y).log_evidence().data

    def of_regression(X: Any, z: Any) -> Any:
        return regression(X).condition(y=z).log_evidence().data

    asked: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "normal": (of_normal, (y,)),
        "normal, within jit": (jax.jit(of_normal), (y,)),
        f"regression on {COLUMNS}": (of_regression, (X, z)),
        f"regression on {COLUMNS}, within jit": (jax.jit(of_regression), (X, z)),
    }
    for name, (ask, data) in asked.items():
        size = sum(array.nbytes for array in data)
        _, alone = seconds(lambda data=data: [read(array) for array in data])
        first, again = seconds(lambda ask=ask, data=data: ask(*data))
        table.row(name, duration(first), duration(again), f"{size / again / 1e9:.0f}", ratio(again / alone))
        aims.append(Aim(f"{name}, beside one sum", "3×", ratio(again / alone), again <= 3 * alone))
    return aims


def streamed(rows: int) -> list[Aim]:
    """Evidence of rows that come chunk by chunk from this machine's memory."""
    numbers = np.random.default_rng(0).standard_normal(rows)
    mesh = jax.make_mesh((1,), ("rows",))

    def copied() -> Any:
        return [jax.device_put(numbers[start : start + CHUNK]) for start in range(0, rows, CHUNK)]

    def read() -> float:
        return sum(float(numbers[start : start + CHUNK].sum()) for start in range(0, rows, CHUNK))

    def ask(place: bool) -> Any:
        stream = fb.Stream(numbers, chunk=CHUNK)
        return normal(rows).condition(y=fb.shard(stream, mesh, "rows") if place else stream).log_evidence().data

    table = Table(f"{rows:,} numbers in memory, in chunks", ("what", "   first", "   again", "  GB/s"), first=34)
    runs: dict[str, Callable[[], Any]] = {
        "copied to the device": copied,
        "read by NumPy": read,
        "stream, summed by NumPy": lambda: ask(False),
        "stream, summed on the device": lambda: ask(True),
    }
    speed = {}
    with jax.enable_x64(True):
        for name, run in runs.items():
            first, again = seconds(run)
            speed[name] = numbers.nbytes / again / 1e9
            table.row(name, duration(first), duration(again), f"{speed[name]:.1f}")
    share = speed["stream, summed on the device"] / speed["copied to the device"]
    return [Aim("stream, beside copying it", "0.7×", ratio(share), share >= 0.7)]


def main() -> None:
    """Both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1.0, help="a part of the rows")
    given = parser.parse_args()
    print_header(("jax", "numpy"), f"; {jax.devices()[0]}")
    aims = resident(int(RESIDENT * given.rows)) + streamed(int(STREAMED * given.rows))
    print_summary(aims)


if __name__ == "__main__":
    main()
