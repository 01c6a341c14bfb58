"""Marginals of a plate of tables, Gaussians or mixtures on JAX: `python -m benchmarks.scale.marginals`.

Of each number of rows, the seconds to trace and compile (of the processor, so that other processes count little), the
seconds of the next call, and how many equations the program has.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fubini as fb
from fubini import dist

Question = tuple[list[Any], dict[str, tuple[str, ...]]]
ROWS = (8, 800, 80_000)


def tables(rows: int) -> Question:
    """w for all rows, z of each."""
    rng = np.random.default_rng(0)
    link, seen = rng.dirichlet(np.full(4, 5.0), (rows, 3)), rng.random((rows, 4))
    factors = [_table(np.full(3, 1 / 3), "w"), _table(link, "i", "w", "z"), _table(seen, "i", "z")]
    return factors, {"w": (), "z": ("i",)}


def gaussians(rows: int) -> Question:
    """m for all rows, a of each around it."""
    m, a = fb.Variable("m", fb.Real), fb.Variable("a", fb.Real)
    y = np.random.default_rng(0).normal(size=rows)
    seen = dist.Normal(a, 1.0)(_array(y, "i"))
    return [dist.Normal(0.0, 1.0)("m"), dist.Normal(m, _array(np.ones(rows), "i"))("a"), seen], {"m": (), "a": ("i",)}


def mixtures(rows: int) -> Question:
    """k of each row, and a around the centre that it names."""
    y, a = np.random.default_rng(0).normal(size=rows), fb.Variable("a", fb.Real)
    centre = _array(np.broadcast_to([-1.0, 1.0], (rows, 2)), "i", "k")
    kind = _table(np.full((rows, 2), 0.5), "i", "k")
    return [kind, dist.Normal(centre, 1.0)("a"), dist.Normal(a, 1.0)(_array(y, "i"))], {"k": ("i",), "a": ("i",)}


def _table(weights: Any, *names: str) -> fb.Table:
    return fb.Table(jnp.asarray(weights, jnp.float32), names)


def _array(numbers: Any, *names: str) -> Any:
    return fb.Array(jnp.asarray(numbers, jnp.float32), names)


def measure(question: Question) -> tuple[float, float, int]:
    """Seconds to trace and compile, those of a call after that, and equations."""
    factors, scopes = question

    def marginals(factors: list[Any]) -> dict[str, Any]:
        return fb.marginals(factors, scopes, plates=("i",))

    start = time.process_time()
    program = jax.jit(marginals).trace(factors)
    compiled = program.lower().compile()
    to_compile = time.process_time() - start
    jax.block_until_ready(compiled(factors))
    start = time.perf_counter()
    jax.block_until_ready(compiled(factors))
    return to_compile, time.perf_counter() - start, len(program.jaxpr.eqns)


def main() -> None:
    """Print a line for each kind of factor and number of rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=ROWS)
    jax.config.update("jax_enable_compilation_cache", False)
    jax.block_until_ready(jnp.ones(2) + 1)
    makes: list[Callable[[int], Question]] = [tables, gaussians, mixtures]
    print(f"{'factors':12}{'rows':>10}{'compile s':>12}{'call ms':>12}{'equations':>12}")
    for make in makes:
        for rows in parser.parse_args().rows:
            compile_seconds, call, equations = measure(make(rows))
            print(f"{make.__name__:12}{rows:>10,}{compile_seconds:>12.2f}{1e3 * call:>12.2f}{equations:>12,}")


if __name__ == "__main__":
    main()
