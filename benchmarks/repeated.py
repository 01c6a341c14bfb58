"""A closed question asked again, on many rows: against one reading of the data, and against the first answer.

`python -m benchmarks.repeated --rows 20000000`: aim, within twice the time of adding up the data once. Then the sum of
two scalar densities that no rule joins, when its structure is known: aim, below 1 ms.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import jax.numpy as jnp
import numpy as np

import fubini as fb
from fubini import dist

ROUNDS = 7


@fb.model
def level(n: int) -> Any:
    """A mean of normal data."""
    mu = yield dist.Normal(0.0, 1.0)
    yield dist.Normal(mu * jnp.ones(n), 1.0).named("y")


def seconds(ask: Callable[[], object]) -> float:
    """Of one answer."""
    began = time.perf_counter()
    ask()
    return time.perf_counter() - began


def main() -> None:
    """Print a line for each question."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    rows = parser.parse_args().rows
    y = np.random.default_rng(0).normal(size=rows)
    post = level(rows).condition(y=y)
    print(f"{rows:,} rows\nquestion          first     again   reading   ratio")
    for name, ask in (("log_evidence", post.log_evidence), ("marginal", lambda: post.marginal("mu"))):
        first = seconds(ask)
        times = [(seconds(ask), seconds(y.sum)) for _ in range(ROUNDS)]
        again, reading = (median(column) for column in zip(*times, strict=True))
        print(f"{name:14} {first:7.2f} s {1e3 * again:6.1f} ms {1e3 * reading:6.1f} ms  {again / reading:6.2f}")
    rate = fb.Variable("r", fb.Positive)
    factors = [dist.Gamma(2.0, 3.0)("r"), dist.Poisson(rate)(4)]
    times = [seconds(lambda: fb.eliminate(factors, ["r"])) for _ in range(50)]
    print(f"Gamma times Poisson, integrated: first {1e3 * times[0]:.1f} ms, again {1e3 * median(times):.2f} ms")


if __name__ == "__main__":
    main()
