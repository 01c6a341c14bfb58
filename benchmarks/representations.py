"""Representations of factors beside dense tables: agreement, the numbers stored at once, and time.

    python -m benchmarks.representations --data DATA sparse
    python -m benchmarks.representations --data DATA diagram
    python -m benchmarks.representations train
    python -m benchmarks.representations quadrants

`sparse` and `diagram`: link, mildew, diabetes and munin1 under `fb.represent` of every variable, with the leaves of
each observed at values that the network itself drew, and without evidence. The log-evidence by one forward pass, step
by step; then all marginals. One row for each network and representation:

- `peak`: the entries of all factors that are held at the same time, at most; `largest`: those of the largest result;
  of a table its cells, of a Sparse the cells stored (a key and a weight each), of a Diagram children and terminals;
- `as tables`: the peak of the plan that is made for tables, where the planner does not ask for storage;
- `MiB`: the bytes of what is held at the peak;
- `evidence`, `marginals`: the largest difference to tables, of the log-evidence and of a marginal;
- `time`: the evidence, best of some runs, of tables that are converted; `all`: all marginals once, conversion
  included; `ratio`: time over that of tables.

`train`: the log-evidence of square grids of coupled binary variables, row by row, with the boundary as a train of
bounded rank, beside exact elimination. `quadrants`: see quadrants.py.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

import fubini as fb
from benchmarks.networks import SEED, draw_sample, find_networks
from benchmarks.quadrants import QUESTIONS, compare_quadrants
from benchmarks.report import Aim, Table, difference, duration, print_header, print_summary, ratio
from benchmarks.timing import elapsed
from examples.quadrants import SETTINGS
from fubini.base.interpretations import interpret
from fubini.base.semirings import sum_product
from fubini.eliminate.forward import embed, find_plan, run_step
from fubini.eliminate.prepare import prepared, problem_of
from fubini.factors.diagram import Diagram
from fubini.factors.represent import converted
from fubini.factors.sparse import Sparse
from fubini.factors.train import Train

NETWORKS = ("link", "mildew", "diabetes", "munin1")
CAPACITY = 2**28
LIMIT = 64 * 2**30  # bytes that a plan for tables may ask for: what is stored is less
AGREEMENT = 1e-9

KINDS = {"dense": fb.rep.Dense(), "sparse": fb.rep.Sparse(CAPACITY), "diagram": fb.rep.Diagram()}


# -- what is stored -------------------------------------------------------------------------------------------------


def count_entries(factor: fb.Factor) -> int:
    """The numbers that a factor stores, a key and its weight being one."""
    if isinstance(factor, Sparse):
        return factor.stored
    return factor.entry_count if isinstance(factor, Diagram) else factor.pair.weights.size


def count_bytes(factor: fb.Factor) -> int:
    """The bytes of its arrays."""
    if isinstance(factor, Sparse):
        return 16 * factor.stored
    return 8 * count_entries(factor)


@dataclass
class Peak:
    """The most that is held at once in a forward pass, and the largest result."""

    entries: int = 0
    bytes: int = 0
    largest: int = 0

    def see(self, held: Sequence[fb.Factor | None], made: fb.Factor) -> None:
        """Take a moment of the pass into account."""
        alive = [factor for factor in held if factor is not None]
        self.entries = max(self.entries, sum(map(count_entries, alive)))
        self.bytes = max(self.bytes, sum(map(count_bytes, alive)))
        self.largest = max(self.largest, count_entries(made))


def run_forward(factors: Sequence[fb.Factor], peak: Peak | None = None, as_tables: bool = False) -> float:
    """The log-evidence, by the steps of the plan; what no step reads again is let go."""
    terms, summed = prepared(list(factors), names_of(factors), (), sum_product)
    problem = problem_of(terms, summed, (), None, LIMIT)
    plan = find_plan(problem._replace(storages=()) if as_tables else problem, False)
    slots: list = [*(embed(sum_product, term) for term in terms), *[None] * len(plan.steps)]
    for position, step in enumerate(plan.steps):
        slots[len(terms) + position] = made = run_step(step, slots, sum_product)
        if peak is not None:
            peak.see(slots, made)
        for slot in step.operands:
            if plan.last_use[slot] == position:
                slots[slot] = None
    return sum(float(slots[slot].log().data) for slot in plan.results)


def names_of(factors: Sequence[fb.Factor]) -> tuple[str, ...]:
    """The variables of factors, each once."""
    return tuple(dict.fromkeys(str(name) for factor in factors for name in factor.inputs))


def represented(factors: Sequence[fb.Factor], kind: str) -> Any:
    """All variables of the factors so represented."""
    return fb.represent(**{name: KINDS[kind] for name in names_of(factors)})


# -- networks -------------------------------------------------------------------------------------------------------


def observe_leaves(network: fb.Network) -> dict[str, object]:
    """Values of the variables without children, from one ancestral sample."""
    parents = {name for factor in network.factors for name in factor.names[:-1]}
    sample = draw_sample(network, np.random.default_rng(SEED))
    return {name: network.variables[name].label(value) for name, value in sample.items() if name not in parents}


@dataclass(frozen=True)
class Found:
    """What one representation gave on one network."""

    peak: Peak
    peak_as_tables: Peak
    seconds: float
    log_evidence: float
    marginals: dict[str, np.ndarray] | None
    all_seconds: float | None


def measure(tables: Sequence[Any], kind: str, repeats: int, with_marginals: bool) -> Found:
    """The evidence with its peak, timed, and all marginals."""
    given = [table for table in tables if table.inputs]
    with represented(given, kind):
        factors = converted(given)
    peak, peak_as_tables = Peak(), Peak()
    run_forward(factors, peak_as_tables, as_tables=True)
    value = run_forward(factors, peak) + sum(float(table.log().data) for table in tables if not table.inputs)
    seconds = min(elapsed(lambda: run_forward(factors)) for _ in range(repeats))
    if not with_marginals:
        return Found(peak, peak_as_tables, seconds, value, None, None)
    found: dict[str, np.ndarray] = {}
    with represented(given, kind):
        took = elapsed(lambda: found.update(_weights(fb.marginals(given, names_of(given), memory_limit=LIMIT))))
    return Found(peak, peak_as_tables, seconds, value, found, took)


def _weights(marginals: dict) -> dict[str, np.ndarray]:
    return {name: np.asarray(marginal.weights) for name, marginal in marginals.items()}


def gap(found: Found, dense: Found) -> float | None:
    """The largest difference of a marginal."""
    if found.marginals is None or dense.marginals is None:
        return None
    return max(float(np.abs(found.marginals[name] - dense.marginals[name]).max()) for name in dense.marginals)


COLUMNS = ("network", "kind   ", "       peak", "  as tables", "    largest", "    MiB", "evidence", "marginals",
           "    time", " ratio", "     all", " ratio")  # fmt: skip


def compare_networks(kind: str, options: argparse.Namespace) -> list[Aim]:
    """Each network, observed and not, dense and in the representation."""
    known, aims = find_networks(Path(options.data)), []
    for observed in (True, False):
        table = Table(f"{kind}, {'leaves observed' if observed else 'without evidence'}", COLUMNS, first=10, left=(1,))
        for name in options.networks:
            network = fb.io.read_bif(known[name])
            tables = network.condition(observe_leaves(network)).observed_factors if observed else list(network.factors)
            with_marginals = name not in options.evidence_alone
            dense = measure(tables, "dense", options.repeats, with_marginals)
            found = measure(tables, kind, options.repeats, with_marginals)
            print_rows(table, name, kind, dense, found)
            aims += judge(name, kind, observed, dense, found)
    return aims


def print_rows(table: Table, name: str, kind: str, dense: Found, found: Found) -> None:
    """One row for the tables, one for the representation."""
    for label, one in (("dense", dense), (kind, found)):
        is_other = one is found
        table.row(
            name, label, f"{one.peak.entries:,}", f"{one.peak_as_tables.entries:,}", f"{one.peak.largest:,}",
            f"{one.peak.bytes / 2**20:.1f}",
            difference(abs(one.log_evidence - dense.log_evidence)) if is_other else "",
            difference(gap(one, dense)) if is_other else "",
            duration(one.seconds), ratio(one.seconds / dense.seconds) if is_other else "",
            duration(one.all_seconds),
            ratio(one.all_seconds / dense.all_seconds) if is_other and one.all_seconds and dense.all_seconds else "",
        )  # fmt: skip


def judge(name: str, kind: str, observed: bool, dense: Found, found: Found) -> list[Aim]:
    """Agreement, and for Sparse on mildew and link half the peak at three times the time."""
    where = f"{name}, {'observed' if observed else 'no evidence'}"
    worst = max(abs(found.log_evidence - dense.log_evidence), gap(found, dense) or 0.0)
    aims = [Aim(f"{where}: agreement with tables", f"{AGREEMENT:g}", difference(worst), worst <= AGREEMENT)]
    if kind == "sparse" and name in ("mildew", "link"):
        share, times = found.peak.entries / dense.peak.entries, found.seconds / dense.seconds
        aims.append(Aim(f"{where}: peak of tables", "0.5×", ratio(share), share <= 0.5))
        aims.append(Aim(f"{where}: time of tables", "3×", ratio(times), times <= 3))
    return aims


# -- trains ---------------------------------------------------------------------------------------------------------


def couple(side: int, strength: float) -> list[list[fb.Table]]:
    """For each row of a grid the couplings within it and to the row above, with random fields."""
    random = np.random.default_rng(0)
    pair = np.exp(strength * np.array([[1.0, -1.0], [-1.0, 1.0]]))
    rows = []
    for i in range(side):
        here = [fb.Table(np.exp(random.normal(0.0, 0.3, 2)), (f"c{j}_{i}",)) for j in range(side)]
        here += [fb.Table(pair, (f"c{j}_{i}", f"c{j + 1}_{i}")) for j in range(side - 1)]
        here += [fb.Table(pair, (f"c{j}_{i - 1}", f"c{j}_{i}")) for j in range(side) if i]
        rows.append(here)
    return rows


def sweep(rows: Sequence[Sequence[fb.Table]], side: int, rank: int) -> tuple[float, float]:
    """The log-evidence with the boundary as a train, and the errors of its roundings added up."""
    boundary: fb.Factor = Train.ones({f"c{j}_0": fb.Bint[2] for j in range(side)}, rank)
    for i, row in enumerate(rows):
        if i:
            boundary = _times(boundary, Train.ones({f"c{j}_{i}": fb.Bint[2] for j in range(side)}, rank))
        for term in row:
            boundary = _times(boundary, term)
        if i:
            boundary = boundary.sum(*(f"c{j}_{i - 1}" for j in range(side)))
    assert isinstance(boundary, Train)
    return float(boundary.sum(*boundary.inputs).log().data), float(np.max(boundary.rounding_error))


def _times(f: fb.Factor, g: fb.Factor) -> fb.Factor:
    return interpret(fb.heads.MULTIPLY, f, g)


def compare_trains(options: argparse.Namespace) -> list[Aim]:
    """Grids of growing side, and ranks; the greatest rank is to be as good as exact."""
    columns = ("side", "rank", "log-evidence", "   error", "roundings", "    time", "   exact")
    table = Table("the boundary of a grid as a train", columns, first=5)
    aims = []
    for side in options.sides:
        rows = couple(side, 0.3)
        factors = [term for row in rows for term in row]
        exact = run_forward(factors)
        known = elapsed(lambda factors=factors: run_forward(factors))
        gaps = []
        for rank in options.ranks:
            value, roundings = sweep(rows, side, rank)
            took = elapsed(lambda rows=rows, side=side, rank=rank: sweep(rows, side, rank))
            gaps.append(abs(value - exact))
            shown = (f"{value:.6f}", difference(gaps[-1]), difference(roundings), duration(took))
            table.row(side, rank, *shown, duration(known))
        aims.append(Aim(f"side {side}, rank {options.ranks[-1]}", "1e-06", difference(gaps[-1]), gaps[-1] <= 1e-6))
    return aims


# -- the command ----------------------------------------------------------------------------------------------------


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.representations", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("FUBINI_DATA"), help="default: $FUBINI_DATA")
    parser.add_argument("--networks", type=lambda text: tuple(text.split(",")), default=NETWORKS)
    parser.add_argument("--evidence-alone", type=lambda text: tuple(text.split(",")), default=())
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--sides", type=lambda text: tuple(map(int, text.split(","))), default=(6, 10, 14))
    parser.add_argument("--ranks", type=lambda text: tuple(map(int, text.split(","))), default=(2, 4, 8, 16))
    parser.add_argument("--setting", default="HARD", choices=SETTINGS, help="of the quadrants")
    parser.add_argument("--only", nargs="+", default=["truncated", "particles", "grid"], help="of the quadrants")
    parser.add_argument("--questions", nargs="*", choices=QUESTIONS, default=QUESTIONS, help="of the quadrants")
    parser.add_argument("--particles", type=lambda text: tuple(map(int, text.split(","))), default=(1000, 10_000))
    parser.add_argument("--cells", type=lambda text: tuple(map(int, text.split(","))), default=(80, 160, 320))
    parser.add_argument("representation", choices=("sparse", "diagram", "train", "quadrants"))
    options = parser.parse_args(arguments)
    if options.representation in ("sparse", "diagram") and options.data is None:
        parser.error("say --data DIR or set FUBINI_DATA")
    return options


def main() -> None:
    """Run one of the comparisons."""
    options = parse()
    print_header(("numpy", "scipy", "jax"), "")
    if options.representation == "train":
        aims = compare_trains(options)
    elif options.representation == "quadrants":
        jax.config.update("jax_enable_x64", True)
        aims = compare_quadrants(options)
    else:
        aims = compare_networks(options.representation, options)
    print_summary(aims, [])


if __name__ == "__main__":
    main()
