"""Chains of tables on a GPU: evidence with its gradient by kernels, our scan, a scan of matrices by hand, and funsor.

For each (sequences, length, states): the median time of a call, of many calls in a row that are waited for together;
the time of the first call less that; and how far evidence and gradient are from those of NumPy, forward and backward in
double precision. On a machine without a GPU the kernels are left out, and funsor where it is not installed. After that
`benchmarks.chain_paths`: smoothing, pairs of states, best paths and draws; `--evidence` leaves these out.

    JAX_PLATFORMS=cuda python -m benchmarks.chain_kernels
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import log_softmax, logsumexp

import fubini as fb
from benchmarks import chain_paths
from benchmarks import sequence_peers as peers
from benchmarks.report import Aim, Table, duration, print_header, print_summary, ratio
from benchmarks.timing import elapsed, interleaved
from fubini.engines.chain_kernels import has_gpu
from fubini.engines.wide_chain_kernels import MOST_WIDE_STATES

SHAPES = ((700, 1800, 3), (704, 1800, 5), (704, 1800, 8), (20, 1800, 16))
TOLERANCES = {"float32": 1e-4, "float64": 1e-10}
AIMS = {(700, 1800, 3): 0.1e-3, (20, 1800, 16): 0.12e-3}  # seconds, in single precision
COLUMNS = ("contestant", "     run", " compile", " first/it", "evidence off", "gradient off")
Arrays = tuple[np.ndarray, np.ndarray]


def random_data(shape: tuple[int, int, int]) -> Arrays:
    """Random log-transitions and log-likelihoods, in numbers that single precision has."""
    count, length, states = shape
    rng = np.random.default_rng(0)
    both = rng.normal(size=(states, states)), rng.normal(size=(length, count, states))
    return both[0].astype("float32").astype("float64"), both[1].astype("float32").astype("float64")


def reference(transitions: np.ndarray, likelihoods: np.ndarray) -> tuple[float, Arrays]:
    """The log-evidence and its gradient, forward and backward by logarithms in double precision."""
    states = len(transitions)
    moves = log_softmax(transitions, axis=1)
    forward = [np.full(likelihoods.shape[1:], -np.log(states))]
    for seen in likelihoods:
        forward.append(logsumexp(forward[-1][:, :, None] + moves, axis=1) + seen)
    total: Any = logsumexp(forward[-1], axis=1)
    later, counts, posteriors = np.zeros(likelihoods.shape[1:]), np.zeros_like(moves), np.empty_like(likelihoods)
    for t in reversed(range(len(likelihoods))):
        posteriors[t] = np.exp(forward[t + 1] + later - total[:, None])
        ahead = likelihoods[t] + later
        counts += np.exp(forward[t][:, :, None] + moves + ahead[:, None, :] - total[:, None, None]).sum(axis=0)
        later = logsumexp(moves + ahead[:, None, :], axis=2)
    slopes = counts - counts.sum(axis=1, keepdims=True) * np.exp(moves)
    return float(total.sum()), (slopes, posteriors)


def engines_of(states: int) -> dict[str, str]:
    """Our engines on this machine."""
    fused = {"kernels": "kernel"} if has_gpu() and states <= MOST_WIDE_STATES else {}
    return {**fused, "our scan": "rules"}


def contestants(states: int) -> dict[str, tuple[Callable, AbstractContextManager]]:
    """Functions of the evidence, and the engine that each is traced under."""
    ours = peers.our_evidence(None)
    return {
        **{name: (ours, fb.engine(engine)) for name, engine in engines_of(states).items()},
        "associative scan by hand": (peers.associative_scan, nullcontext()),
        **({"funsor": (peers.funsor_evidence, nullcontext())} if peers.HAS_FUNSOR else {}),
    }


def many_calls(compiled: Callable, data: tuple, calls: int) -> Callable[[], object]:
    """Many calls in a row, waited for together."""
    return lambda: jax.block_until_ready([compiled(*data) for _ in range(calls)][-1])


def distance(found: Any, wanted: np.ndarray | float) -> float:
    """The greatest difference over the greatest number."""
    return float(np.max(np.abs(np.asarray(found, "float64") - wanted)) / np.max(np.abs(wanted)))


def compare(shape: tuple[int, int, int], dtype: str, rounds: int, calls: int) -> list[Aim]:
    """Time and check all contestants in one precision, and print a row for each."""
    host = random_data(shape)
    wanted = reference(*host)
    data = tuple(jnp.asarray(each, dtype) for each in host)
    timed, first, off = {}, {}, {}
    for name, (function, engine) in contestants(shape[2]).items():
        compiled = jax.jit(jax.value_and_grad(function, (0, 1)))
        start = time.perf_counter()
        with engine:
            value, slopes = jax.block_until_ready(compiled(*data))
        first[name] = time.perf_counter() - start
        off[name] = distance(value, wanted[0]), max(map(distance, slopes, wanted[1]))
        timed[name] = many_calls(compiled, data, calls)
    for function in timed.values():
        elapsed(function)
    medians = {name: times.median / calls for name, times in interleaved(timed, rounds).items()}
    table = Table(f"HMM {shape}, {dtype}: evidence and gradient", COLUMNS, first=26)
    leader = next(iter(medians.values()))
    for name, seconds in medians.items():
        compiling = duration(first[name] - seconds)
        table.row(name, duration(seconds), compiling, ratio(leader / seconds), *(f"{each:.1e}" for each in off[name]))
    return aims_of(shape, dtype, medians, first, off)


def aims_of(shape: tuple, dtype: str, medians: dict, first: dict, off: dict) -> list[Aim]:
    """What was wanted of the kernels."""
    title, near = f"HMM {shape}, {dtype}", TOLERANCES[dtype]
    if "kernels" not in medians:
        return [Aim(f"{title}: by kernels", "an answer", "none on this machine, or of so many states", None)]
    worst, seconds = max(off["kernels"]), medians["kernels"]
    aims = [Aim(f"{title}: distance from double precision", f"≤ {near:.0e}", f"{worst:.1e}", worst <= near)]
    if "funsor" in medians:
        times_as_long = medians["funsor"] / seconds
        aims.append(Aim(f"{title}: funsor's time over ours", "> 1", ratio(times_as_long), times_as_long > 1))
    if dtype == "float32" and shape in AIMS:
        bound, compiling = AIMS[shape], first["kernels"] - seconds
        aims.append(Aim(f"{title}: time", f"≤ {duration(bound)}", duration(seconds), seconds <= bound))
        aims.append(Aim(f"{title}: compile", "< 1 s", duration(compiling), compiling < 1))
    return aims


def shape_of(text: str) -> tuple[int, int, int]:
    """A shape as it is written: 700x1800x3."""
    count, length, states = map(int, text.split("x"))
    return count, length, states


def main(argv: Sequence[str] | None = None) -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=50, help="calls in a row that are waited for together")
    parser.add_argument("--shapes", nargs="*", type=shape_of, default=SHAPES, help="as 700x1800x3")
    parser.add_argument("--dtypes", nargs="*", choices=tuple(TOLERANCES), default=tuple(TOLERANCES))
    parser.add_argument("--evidence", action="store_true", help="evidence with its gradient alone")
    asked = parser.parse_args(argv)
    print_header(("jax", "numpy"), f"; {jax.devices()[0]}")
    aims = []
    for shape in asked.shapes:
        for dtype in asked.dtypes:
            with jax.enable_x64(dtype == "float64"):
                aims += compare(shape, dtype, asked.rounds, asked.calls)
                if not asked.evidence:
                    host, near = random_data(shape), TOLERANCES[dtype]
                    aims += chain_paths.compare(shape, dtype, host, engines_of(shape[2]), asked.rounds, near)
    print_summary(aims)


if __name__ == "__main__":
    main()
