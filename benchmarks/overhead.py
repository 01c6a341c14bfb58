"""The cost of an operation beside the arithmetic in it, on tables so small that the arithmetic is nothing.

- NumPy tables of 2 × 2: `(f * g).sum("x")` and single operations, against funsor's NumPy back end (in log space and
  linear) and plain NumPy. Aim: `(f * g).sum("x")` below 60 µs.
- The same on JAX arrays, called eagerly, so that each call finds its compiled function in our cache; against an
  einsum jitted by hand.
- A sum of products of log-weights inside `jax.jit`, against the two ways to write it by hand: a matrix product of
  exponentials with the maxima taken out, which loses what lies far below them, and logsumexp over the broadcast sum.
  Time of a call, and of tracing and compiling.
- Two Gaussians over three real variables, fused and one variable integrated out: in NumPy against funsor and plain
  NumPy (aim: below 150 µs), and ten thousand of them inside `jax.jit` against the formula by hand (aim: within 1.2×).

All rows of a table are timed in turn, in one process: the median of the rounds, the best beside it, ratio of medians.
"""

from __future__ import annotations

import argparse
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

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


CELLS = 10_000


def gaussian_arrays(batch: tuple[int, ...]) -> list[np.ndarray]:
    """h and K of two Gaussians."""
    random = np.random.default_rng(0)
    roots = random.normal(size=(2, *batch, 3, 4))
    h, K = random.normal(size=(2, *batch, 3)), roots @ roots.swapaxes(-1, -2)
    return [h[0], K[0], h[1], K[1]]


def fused_by_hand(xp: Any, h: Any, K: Any, g: Any, L: Any) -> tuple:
    """h′, K′ and the log-constant after x, the first variable, is eliminated."""
    h, K = h + g, K + L
    pivot, row, first = K[..., 0, 0], K[..., 0, 1:], h[..., 0]
    rest = K[..., 1:, 1:] - row[..., :, None] * row[..., None, :] / pivot[..., None, None]
    log = 0.5 * (first * first / pivot + xp.log(2 * xp.pi / pivot))
    return h[..., 1:] - row * (first / pivot)[..., None], rest, log


def gaussian_row() -> Row:
    """Fuse and marginalise in NumPy."""
    h, K, g, L = gaussian_arrays(())
    inputs = {name: fb.Real for name in "xyz"}
    a, b = fb.Gaussian(info=h, precision=K, inputs=inputs), fb.Gaussian(info=g, precision=L, inputs=inputs)
    reals = OrderedDict((name, funsor.Real) for name in "xyz")
    p, q = (funsor.gaussian.Gaussian(info_vec=v, precision=M, inputs=reals) for v, M in ((h, K), (g, L)))
    contestants = {
        OURS: lambda: (a * b).sum("x"),
        "funsor": lambda: (p + q).reduce(funsor.ops.logaddexp, "x"),
        "numpy": lambda: fused_by_hand(np, h, K, g, L),
    }
    return Row('(f * g).sum("x"), 3 reals', contestants)


def jitted_gaussian_row() -> Row:
    """The same, many at once inside a jitted function."""
    arrays = [jnp.asarray(array) for array in gaussian_arrays((CELLS,))]
    inputs = {"i": fb.Bint[CELLS], **{name: fb.Real for name in "xyz"}}
    a = fb.Gaussian(info=arrays[0], precision=arrays[1], inputs=inputs)
    b = fb.Gaussian(info=arrays[2], precision=arrays[3], inputs=inputs)
    ours = jax.jit(lambda f, g: (f * g).sum("x"))
    by_hand = jax.jit(lambda h, K, g, L: fused_by_hand(jnp, h, K, g, L))
    made, (_, K, log) = ours(a, b), by_hand(*arrays)
    np.testing.assert_allclose(made.precision.data, K, rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(made.scale.log().data, log, rtol=1e-3, atol=1e-3)
    contestants = {
        OURS: lambda: jax.block_until_ready(ours(a, b).matrix),
        "by hand": lambda: jax.block_until_ready(by_hand(*arrays)),
    }
    return Row(f"the same in jit, {CELLS:,} cells", contestants)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead", description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=25)
    rounds = parser.parse_args().rounds
    print_header(("numpy", "jax", "funsor"))
    tiny = run("NumPy tables, 2 × 2", numpy_rows(), rounds)
    run("JAX tables, 2 × 2, eager", eager_jax_rows(), rounds)
    run("log-weights inside jax.jit, per call", [jitted_row(size) for size in SIZES], rounds)
    show_compile_times(max(3, rounds // 8))
    gaussians = run("Gaussians", [gaussian_row(), jitted_gaussian_row()], rounds)
    times = tiny['(f * g).sum("x")']
    ours, peer = times[OURS].median, times["funsor, log"].median
    shown = f"{duration(ours)} (best {duration(times[OURS].best)}; funsor {duration(peer)})"
    fused, compiled = gaussians.values()
    share = compiled[OURS].median / compiled["by hand"].median
    found = f"{duration(fused[OURS].median)} (funsor {duration(fused['funsor'].median)})"
    print_summary(
        [
            Aim('(f * g).sum("x") on tiny NumPy tables', "< 60 µs", shown, ours < 60e-6),
            Aim("two Gaussians fused, one variable eliminated", "< 150 µs", found, fused[OURS].median < 150e-6),
            Aim("the same inside jit", "within 1.2× of by hand", ratio(share), share < 1.2),
        ]
    )


if __name__ == "__main__":
    main()
