"""The cost of an operation beside the arithmetic in it, on tables so small that the arithmetic is nothing.

- NumPy tables of 2 × 2: `(f * g).sum("x")` and single operations, against funsor's NumPy back end (in log space and
  linear) and plain NumPy. Aim: `(f * g).sum("x")` below 60 µs.
- The same on JAX arrays, called eagerly, so that each call finds its compiled function in our cache; against an
  einsum jitted by hand.
- A sum of products of log-weights inside `jax.jit`, against the two ways to write it by hand: a matrix product of
  exponentials with the maxima taken out, which loses what lies far below them, and logsumexp over the broadcast sum.
  Time of a call, and of tracing and compiling.

All rows of a table are timed in turn, in one process: the median of the rounds, the best beside it, ratio of medians.
"""

from __future__ import annotations

import argparse
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import NamedTuple

import funsor
import jax
import jax.numpy as jnp
import numpy as np

import fubini as fb
from benchmarks.report import Aim, Table, duration, print_header, print_summary, ratio
from benchmarks.timing import Times, elapsed, interleaved

warnings.filterwarnings("ignore", module="funsor")
funsor.set_backend("numpy")
# Its NumPy back end compares against this type wherever jax is imported, but only its JAX back end sets it.
funsor.util._JAX_COMPILED_FUNCTION_TYPE = type(jax.jit(lambda: 0))

SIZES = (2, 64, 512)
WIDEST_BROADCAST = 64  # above this, the cube of logsumexp is no contest
COLUMNS = ("operation", "     ours", "     best", "peer          ", "     time", "     best", "peer/ours")
OURS = "ours"

Contestants = Mapping[str, Callable[[], object]]


class Row(NamedTuple):
    """Ours and its peers at one operation."""

    what: str
    contestants: Contestants


def show(table: Table, row: Row, times: Mapping[str, Times]) -> None:
    """One line for each peer."""
    ours = times[OURS]
    for peer in [name for name in row.contestants if name != OURS] or ["-"]:
        other = times.get(peer)
        cells = (
            (duration(other.median), duration(other.best), ratio(other.median / ours.median)) if other else ("-",) * 3
        )
        table.row(row.what, duration(ours.median), duration(ours.best), peer, *cells)


def run(title: str, rows: list[Row], rounds: int) -> dict[str, Mapping[str, Times]]:
    """Time and show the rows."""
    table = Table(title, COLUMNS, first=30, left=(3,))
    found = {}
    for row in rows:
        found[row.what] = times = interleaved(row.contestants, rounds)
        show(table, row, times)
    return found


def numpy_rows() -> list[Row]:
    """Tiny NumPy tables."""
    random = np.random.default_rng(0)
    a, b = random.uniform(0.1, 1.0, (2, 2, 2))
    f, g = fb.Table(a, ("x", "y")), fb.Table(b, ("x", "z"))
    u, v = fb.Table.from_log(np.log(a), ("x", "y")), fb.Table.from_log(np.log(b), ("x", "z"))
    log_f, log_g = _funsor(np.log(a), "xy"), _funsor(np.log(b), "xz")
    lin_f, lin_g = _funsor(a, "xy"), _funsor(b, "xz")
    ops = funsor.ops
    joined = {
        "funsor, log": lambda: (log_f + log_g).reduce(ops.logaddexp, "x"),
        "funsor, linear": lambda: (lin_f * lin_g).reduce(ops.add, "x"),
        "numpy.einsum": lambda: np.einsum("xy,xz->yz", a, b),
    }
    return [
        Row('(f * g).sum("x")', {OURS: lambda: (f * g).sum("x"), **joined}),
        Row('(f * g).sum("x"), from logs', {OURS: lambda: (u * v).sum("x"), "funsor, log": joined["funsor, log"]}),
        Row('fb.eliminate([f, g], ("x",))', {OURS: lambda: fb.eliminate([f, g], ("x",)), **joined}),
        Row(
            'f.sum("x")',
            {
                OURS: lambda: f.sum("x"),
                "funsor, log": lambda: log_f.reduce(ops.logaddexp, "x"),
                "funsor, linear": lambda: lin_f.reduce(ops.add, "x"),
                "numpy": lambda: a.sum(0),
            },
        ),
        Row("f(x=0)", {OURS: lambda: f(x=0), "funsor": lambda: lin_f(x=0), "numpy": lambda: a[0]}),
        Row(
            "f / g",
            {
                OURS: lambda: f / g,
                "funsor, linear": lambda: lin_f / lin_g,
                "numpy": lambda: a[:, :, None] / b[:, None, :],
            },
        ),
        Row(
            "f * g (stays lazy)",
            {
                OURS: lambda: f * g,
                "funsor, linear": lambda: lin_f * lin_g,
                "numpy": lambda: a[:, :, None] * b[:, None, :],
            },
        ),
        Row('fb.Table(a, ("x", "y"))', {OURS: lambda: fb.Table(a, ("x", "y")), "funsor": lambda: _funsor(a, "xy")}),
    ]


def _funsor(array: np.ndarray, names: str) -> funsor.Tensor:
    inputs = OrderedDict((name, funsor.Bint[size]) for name, size in zip(names, array.shape, strict=True))
    return funsor.Tensor(array, inputs)


def eager_jax_rows() -> list[Row]:
    """Tiny JAX tables, each call finding what was compiled before."""
    a, b = (jnp.asarray(half) for half in np.random.default_rng(0).uniform(0.1, 1.0, (2, 2, 2)))
    f, g = fb.Table(a, ("x", "y")), fb.Table(b, ("x", "z"))
    by_hand = jax.jit(lambda a, b: jnp.einsum("xy,xz->yz", a, b))
    add_up = jax.jit(lambda a: a.sum(0))
    return [
        Row(
            '(f * g).sum("x")',
            {
                OURS: lambda: (f * g).sum("x").weights.block_until_ready(),
                "jitted einsum": lambda: by_hand(a, b).block_until_ready(),
            },
        ),
        Row(
            'f.sum("x")',
            {
                OURS: lambda: f.sum("x").weights.block_until_ready(),
                "jitted sum": lambda: add_up(a).block_until_ready(),
            },
        ),
    ]


def contract_logs(a: jax.Array, b: jax.Array) -> jax.Array:
    """log Σ_x exp(a(x, y) + b(x, z)), ours."""
    return (fb.Table.from_log(a, ("x", "y")) * fb.Table.from_log(b, ("x", "z"))).sum("x").log().data


def shifted_matrix_product(a: jax.Array, b: jax.Array) -> jax.Array:
    """The same by hand, maxima taken out."""
    top_a, top_b = a.max(0), b.max(0)
    return jnp.log(jnp.exp(a - top_a).T @ jnp.exp(b - top_b)) + top_a[:, None] + top_b


def broadcast_logsumexp(a: jax.Array, b: jax.Array) -> jax.Array:
    """The same by hand, over the cube."""
    return jax.nn.logsumexp(a[:, :, None] + b[:, None, :], axis=0)


def functions(size: int) -> dict[str, Callable]:
    """Ours and the ways by hand that are a contest at this size."""
    every = {OURS: contract_logs, "matrix product": shifted_matrix_product, "logsumexp": broadcast_logsumexp}
    return every if size <= WIDEST_BROADCAST else {name: every[name] for name in (OURS, "matrix product")}


def jitted_row(size: int) -> Row:
    a, b = (jnp.asarray(half) for half in np.random.default_rng(0).normal(size=(2, size, size)))
    compiled = {name: jax.jit(function) for name, function in functions(size).items()}
    for function in compiled.values():
        np.testing.assert_allclose(function(a, b), compiled[OURS](a, b), rtol=1e-4, atol=1e-4)
    contestants = {name: lambda run=run: run(a, b).block_until_ready() for name, run in compiled.items()}
    return Row(f"log Σ exp, {size} × {size} × {size}", contestants)


def compile_times(size: int, rounds: int) -> dict[str, Times]:
    """Seconds to trace and compile from nothing."""
    a = b = jnp.zeros((size, size))
    readings: dict[str, list[float]] = {name: [] for name in functions(size)}
    for _ in range(rounds):
        for name, function in functions(size).items():
            jax.clear_caches()
            readings[name].append(elapsed(lambda function=function: jax.jit(function).lower(a, b).compile()))
    return {name: Times(tuple(seconds)) for name, seconds in readings.items()}


def show_compile_times(rounds: int) -> None:
    table = Table("tracing and compiling", COLUMNS, first=30, left=(3,))
    for size in SIZES:
        times = compile_times(size, rounds)
        show(table, Row(f"log Σ exp, {size} × {size} × {size}", dict.fromkeys(times, lambda: None)), times)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead", description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=25)
    rounds = parser.parse_args().rounds
    print_header(("numpy", "jax", "funsor"))
    tiny = run("NumPy tables, 2 × 2", numpy_rows(), rounds)
    run("JAX tables, 2 × 2, eager", eager_jax_rows(), rounds)
    run("log-weights inside jax.jit, per call", [jitted_row(size) for size in SIZES], rounds)
    show_compile_times(max(3, rounds // 8))
    times = tiny['(f * g).sum("x")']
    ours, peer = times[OURS].median, times["funsor, log"].median
    shown = f"{duration(ours)} (best {duration(times[OURS].best)}; funsor {duration(peer)})"
    print_summary([Aim('(f * g).sum("x") on tiny NumPy tables', "< 60 µs", shown, ours < 60e-6)])


if __name__ == "__main__":
    main()
