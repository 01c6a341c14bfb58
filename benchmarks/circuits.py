"""Circuits: a PSDD over rankings of ten items, evaluated at many rows. Run, compile, memory, and ratios.

- Complete rows, and rows of which the last five ranks are missing: log p of each.
- Marginals of all 100 Booleans given those rows, and the most probable ranking.

Contestants: ours on NumPy (float64) and on JAX (float32), an evaluator in plain Python, one row after another (timed on
a few rows, and scaled up), and klaycircuits in JAX where it is installed: the same diagram, without weights of
elements, which it does not have. Contestants take turns; times are medians of the rounds. Compile is the first call
less a later one; memory is the peak beyond what was held before.

    python -m benchmarks.circuits --rows 10000
"""

from __future__ import annotations

import argparse
import importlib.util
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.report import Aim, Table, duration, mebibytes, print_header, print_summary, ratio
from benchmarks.timing import elapsed, interleaved, peak_memory
from fubini.factors.circuits import Circuit, learn, permutations
from fubini.numerics import sdd
from fubini.numerics.permutation_structure import permutation_constraints

HAS_KLAY = importlib.util.find_spec("klay") is not None
ITEMS, FEW = 10, 10  # the rows that plain Python is timed on
COLUMNS = ("contestant", "     run", " compile", "  memory", "it/ours, JAX")


def learned(rows: np.ndarray) -> Circuit:
    """A circuit with weights of its own."""
    return learn(permutations(ITEMS), rows, pseudo_count=1.0)


def random_rows(count: int) -> np.ndarray:
    """Rankings, as Booleans."""
    orders = np.random.default_rng(0).permuted(np.tile(np.arange(ITEMS), (count, 1)), axis=1)
    return np.eye(ITEMS, dtype=np.int32)[orders].reshape(count, -1)


def plain_evaluator(f: Circuit) -> Callable[[np.ndarray], list[float]]:
    """log p of rows in plain Python: logarithms of sums, element by element."""
    structure, weights = f.diagram, f.weights_of_nodes
    variables, log_theta = structure.variable.tolist(), np.asarray(weights.log_theta).tolist()
    with np.errstate(divide="ignore"):
        leaves = (np.log(weights.leaves) + weights.shift).tolist()
    elements: list[list[tuple[int, int, float]]] = [[] for _ in range(structure.count)]
    for owner, prime, sub, theta in zip(*(part.tolist() for part in structure.elements), log_theta, strict=True):
        elements[owner].append((prime, sub, theta))

    def log_sum(logs: list[float]) -> float:
        top = max(logs)
        return top if top == -math.inf else top + math.log(sum(math.exp(log - top) for log in logs))

    def evaluate(row: list[int]) -> float:
        values = [log_sum(w) if row[v] < 0 else w[row[v]] for v, w in zip(variables, leaves, strict=True)]
        for own in elements[structure.leaves :]:
            values.append(log_sum([values[prime] + values[sub] + theta for prime, sub, theta in own]))
        return values[-1]

    return lambda rows: [evaluate(row) for row in rows.tolist()]


def klay_evaluator() -> Callable[..., Any]:
    """log of the weighted count of rankings, from log-weights of the literals, by klaycircuits."""
    import klay

    circuit = klay.Circuit()
    manager, diagram = sdd.compile_diagram(*permutation_constraints(ITEMS))
    circuit.add_sdd(diagram)
    del manager
    return jax.jit(jax.vmap(circuit.to_jax_function("log")))


def literal_weights(rows: np.ndarray) -> tuple[jax.Array, jax.Array]:
    """log 1 where a row admits a literal, log 0 where it does not."""
    return tuple(jnp.where((rows < 0) | (rows == value), 0.0, -jnp.inf) for value in (1, 0))  # type: ignore[return-value]


def contest(title: str, contestants: dict[str, Callable[[], object]], scale: dict[str, float], rounds: int) -> dict:
    """Time them in turn, and print a row for each."""
    first = {name: elapsed(function) for name, function in contestants.items()}
    memory = {name: peak_memory(function) for name, function in contestants.items()}
    times = {name: found.median * scale.get(name, 1.0) for name, found in interleaved(contestants, rounds).items()}
    table = Table(title, COLUMNS, first=26)
    for name, seconds in times.items():
        compiled = None if name in scale or name == "ours, NumPy" else first[name] - seconds
        size = None if name in scale else memory[name]
        table.row(name, duration(seconds), duration(compiled), mebibytes(size), ratio(seconds / times["ours, JAX"]))
    return times


def evidence(f: Circuit, rows: np.ndarray, title: str, rounds: int) -> dict:
    """log p of each row."""
    g, many = jax.tree.map(jnp.asarray, f), jnp.asarray(rows)
    run = jax.jit(lambda g, rows: g.log_evidence(rows))
    plain, few = plain_evaluator(f), rows[:FEW]
    contestants: dict[str, Callable[[], object]] = {
        "ours, JAX": lambda: jax.block_until_ready(run(g, many)),
        "ours, NumPy": lambda: f.log_evidence(rows),
        "plain Python": lambda: plain(few),
    }
    if HAS_KLAY:
        klay, literals = klay_evaluator(), literal_weights(rows)
        contestants["klaycircuits, JAX"] = lambda: jax.block_until_ready(klay(*literals))
    times = contest(title, contestants, {"plain Python": len(rows) / FEW}, rounds)
    np.testing.assert_allclose(plain(few), f.log_evidence(few), rtol=1e-9)
    np.testing.assert_allclose(run(g, many)[:FEW], f.log_evidence(few), rtol=1e-4)
    if HAS_KLAY:
        counts = permutations(ITEMS).log_evidence(few)
        np.testing.assert_allclose(np.ravel(klay(*literals))[:FEW], counts, atol=1e-4)
    return times


def questions(f: Circuit, rows: np.ndarray, rounds: int) -> None:
    """Marginals given rows, and the most probable ranking."""
    g, some = jax.tree.map(jnp.asarray, f), jnp.asarray(rows)
    run = jax.jit(lambda g, rows: g.marginal_probabilities(rows))
    best = jax.jit(lambda g: g.argmax())
    contest(
        f"Marginals of {f.diagram.vtree.count} Booleans at {len(rows):,} rows",
        {
            "ours, JAX": lambda: jax.block_until_ready(run(g, some)),
            "ours, NumPy": lambda: f.marginal_probabilities(rows),
        },
        {},
        rounds,
    )
    contest(
        "The most probable ranking",
        {"ours, JAX": lambda: jax.block_until_ready(best(g)), "ours, NumPy": lambda: f.argmax()},
        {},
        rounds,
    )


def aims_of(times: dict, what: str) -> list[Aim]:
    """What the aims say of these times."""
    ours = min(times["ours, JAX"], times["ours, NumPy"])
    faster = times["plain Python"] / ours
    aims = [Aim(f"{what}: plain Python / ours", "≥ 50×", ratio(faster), faster >= 50)]
    if "klaycircuits, JAX" in times:
        slower = times["ours, JAX"] / times["klaycircuits, JAX"]
        aims.append(Aim(f"{what}: ours, JAX / klaycircuits", "≤ 1.5×", ratio(slower), slower <= 1.5))
    return aims


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables and the aims."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    print_header(("jax", "numpy", "pysdd", "klaycircuits"))
    rows = random_rows(options.rows)
    f = learned(rows)
    print(
        f"{f.count_models():,} rankings; {f.diagram.count:,} nodes, {f.size:,} elements, {len(f.diagram.layers)} layers"
    )
    missing = np.where(np.arange(ITEMS**2) < ITEMS**2 // 2, rows, -1)
    aims = aims_of(evidence(f, rows, f"{len(rows):,} complete rows", options.rounds), "complete rows")
    aims += aims_of(evidence(f, missing, f"{len(rows):,} rows, half missing", options.rounds), "half missing")
    questions(f, missing[: max(1, options.rows // 10)], options.rounds)
    notes = () if HAS_KLAY else ("klaycircuits is not installed: no comparison.",)
    print_summary(aims, notes)


if __name__ == "__main__":
    main()
