"""Message passing on the networks of `bayes_nets`, against `fb.marginals`; then belief propagation on a large grid.

Evidence stands on 5 % of the variables of discrete networks, drawn from the network itself; the others are asked as
they are. One row for each network:

- `hugin`, `shafer`: the largest difference of a marginal to that of `fb.marginals`, and of the log-evidence;
- `loopy`: the same of belief propagation, which is exact where the factors form a tree, its Bethe evidence less the
  evidence, and the iterations it took;
- seconds of `fb.marginals`, of both junction trees and of belief propagation, in one run each.

For Gaussian networks the difference is that of means and standard deviations.

The grid has 200 × 200 variables of 8 states with random tables, sent all at once in bundles; beside PGMax where that is
installed (it is not a dependency).
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.extend.backend
import jax.numpy as jnp
import numpy as np

import fubini as fb
from benchmarks.networks import draw_evidence, find_networks, load
from benchmarks.report import Aim, Table, print_header, print_summary

QUICK = ("alarm", "asia", "cancer", "child", "earthquake", "insurance", "sachs", "survey")
AGREEMENT = 1e-9
MOST_ITERATIONS = 30  # of belief propagation on graphs with cycles
COLUMNS = (
    "network     ",
    "variables",
    "tree",
    "   hugin",
    "  shafer",
    "evidence",
    "   loopy",
    "   bethe",
    "iterations",
    "marginals s",
    "hugin s",
    "shafer s",
    "loopy s",
)


def discrete_factors(source: str) -> list[fb.Factor]:
    network = load(source)
    evidence = draw_evidence(network)[0]
    return [f({k: v for k, v in evidence.items() if k in f.inputs}) for f in network.factors]


def other_factors(file: Path) -> list[fb.Factor]:
    """The densities of a network with real variables."""
    return list(fb.io.read_json(file).factors)


def real_networks(data: Path, kind: str) -> list[Path]:
    """The files of networks with real variables, but one, mehra, which has not been tried."""
    return [file for file in sorted((data / "bayes_nets" / kind).glob("*.json*")) if "mehra" not in file.name]


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = run()
    return result, time.perf_counter() - start


def gap(ours: Any, theirs: Any) -> float:
    """The largest difference of two sets of marginals: of weights, or of means and standard deviations."""
    return max(_gap_of(ours[name], theirs[name], name) for name in theirs)


def _gap_of(f: fb.Factor, g: fb.Factor, name: str) -> float:
    if f.inputs[name].is_finite:
        return float(np.abs(f.weights - g.weights).max())
    first, second = ((float(h.mean(name)), float(h.variance(name)) ** 0.5) for h in (f, g))
    return max(abs(a - b) / (1 + abs(b)) for a, b in zip(first, second, strict=True))


def belief_propagation(factors: list[fb.Factor]) -> Any:
    """The result, or None where messages are not closed: mixtures of ever more terms on a cycle."""
    domains = [domain for factor in factors for domain in factor.inputs.values()]
    if any(d.is_finite for d in domains) and not all(d.is_finite for d in domains):
        return None
    return fb.propagate(factors, method="belief propagation", iterations=MOST_ITERATIONS)


def measure(name: str, factors: list[fb.Factor], table: Table) -> dict[str, Any]:
    names = list(dict.fromkeys(n for factor in factors for n in factor.inputs))
    known, seconds = timed(lambda: fb.marginals(factors, names))
    log_evidence = float(fb.eliminate(factors, names).log())
    hugin, hugin_seconds = timed(lambda: fb.propagate(factors))
    shafer, shafer_seconds = timed(lambda: fb.propagate(factors, method="shafer-shenoy"))
    loopy, loopy_seconds = timed(lambda: belief_propagation(factors))
    row = {
        "tree": loopy is not None and loopy.exactness.is_exact,
        "hugin": gap(hugin.marginals, known),
        "shafer": gap(shafer.marginals, known),
        "evidence": max(abs(float(r.log_evidence) - log_evidence) for r in (hugin, shafer)),
        "loopy": gap(loopy.marginals, known) if loopy else np.nan,
        "bethe": float(loopy.log_evidence) - log_evidence if loopy else np.nan,
    }
    shown = [f"{row[key]:.1e}" for key in ("hugin", "shafer", "evidence", "loopy", "bethe")]
    count = "-" if loopy is None else f"{loopy.iterations}" if loopy.converged else f">{loopy.iterations}"
    times = [f"{s:.3f}" for s in (seconds, hugin_seconds, shafer_seconds, loopy_seconds)]
    table.row(name, str(len(names)), "yes" if row["tree"] else "", *shown, count, *times)
    return row


def grid_factors(side: int, states: int) -> list[fb.Factor]:
    """Random tables of one variable, and of each pair of neighbours."""
    random = np.random.default_rng(0)
    factors = []
    for i in range(side):
        for j in range(side):
            factors.append(fb.Table(random.uniform(0.1, 1.0, states), (f"x{i}_{j}",)))
            for near in ([f"x{i - 1}_{j}"] if i else []) + ([f"x{i}_{j - 1}"] if j else []):
                factors.append(fb.Table(random.uniform(0.5, 1.0, (states, states)), (near, f"x{i}_{j}")))
    return factors


def measure_peer(factors: list[fb.Factor], side: int, ours: Any, table: Table) -> None:
    """PGMax on the same grid, where it is installed: a hundred sweeps, compiled before."""
    try:
        from pgmax import fgraph, fgroup, infer, vgroup
    except ImportError:
        print("PGMax is not installed")
        return
    pairs = [f for f in factors if len(f.inputs) == 2]
    alone = np.stack([f.weights for f in factors if len(f.inputs) == 1])
    states = alone.shape[-1]
    variables = vgroup.NDVarArray(num_states=states, shape=(side, side))
    graph = fgraph.FactorGraph(variable_groups=variables)
    ends = [[variables[tuple(map(int, name[1:].split("_")))] for name in f.inputs] for f in pairs]
    logs = np.log(np.stack([f.weights for f in pairs]))
    graph.add_factors(fgroup.PairwiseFactorGroup(variables_for_factors=ends, log_potential_matrix=logs))
    if not hasattr(jax.lib, "xla_bridge"):  # PGMax 0.6.1 asks for it, and newer versions of JAX have it elsewhere
        jax.lib.xla_bridge = jax.extend.backend  # type: ignore[attr-defined]
    inferer = infer.build_inferer(graph.bp_state, backend="bp")
    start = inferer.init(evidence_updates={variables: np.log(alone).reshape(side, side, states)})
    run = jax.jit(lambda arrays: inferer.run(arrays, num_iters=100, damping=0.0, temperature=1.0))
    _, first = timed(lambda: jax.block_until_ready(run(start)))
    arrays, seconds = timed(lambda: jax.block_until_ready(run(start)))
    found = infer.get_marginals(inferer.get_beliefs(arrays))[variables]
    table.row("PGMax: one sweep of all messages", f"{seconds / 100:.4f}")
    table.row("PGMax: a hundred sweeps and compilation", f"{first:.2f}")
    names = [f"x{i}_{j}" for i in (0, side // 2, side - 1) for j in (0, side // 3)]
    theirs = [found[tuple(map(int, name[1:].split("_")))] for name in names]
    worst = max(np.abs(ours.marginals[n].weights - t).max() for n, t in zip(names, theirs, strict=True))
    table.row("PGMax: largest difference of six marginals", f"{worst:.1e}")


def measure_jax(factors: list[fb.Factor], table: Table) -> None:
    """The same on JAX in single precision, compiled before."""
    on_jax = [fb.Table(jnp.asarray(f.weights), f.names) for f in factors]
    ask = {"method": "belief propagation", "tolerance": 0.0}
    seconds = {}
    for count in (1, 101):
        timed(lambda count=count: fb.propagate(on_jax, iterations=count, **ask))
        _, seconds[count] = timed(lambda count=count: float(fb.propagate(on_jax, iterations=count, **ask).log_evidence))
    table.row("on JAX: one sweep of all messages", f"{(seconds[101] - seconds[1]) / 100:.4f}")


def measure_grid(side: int, states: int) -> None:
    factors, building = timed(lambda: grid_factors(side, states))
    _, one = timed(lambda: fb.propagate(factors, method="belief propagation", iterations=1))
    full, seconds = timed(lambda: fb.propagate(factors, method="belief propagation", iterations=101, tolerance=0.0))
    table = Table(f"grid of {side} × {side} variables, {states} states", ("", "   seconds"))
    table.row("making the factors", f"{building:.2f}")
    table.row("bundling them and the first two sweeps", f"{one:.2f}")
    table.row("one sweep of all messages", f"{(seconds - one) / 100:.4f}")
    table.row("a hundred sweeps, all in all", f"{seconds:.2f}")
    measure_jax(factors, table)
    measure_peer(factors, side, full, table)
    print(full)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.propagation", description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("FUBINI_DATA"), help="default: $FUBINI_DATA")
    parser.add_argument("--networks", help="names with commas between; default: all")
    parser.add_argument("--quick", action="store_true", help="eight networks and a grid of 20 × 20")
    parser.add_argument("--grid", type=int, default=200, help="the side of the grid")
    parser.add_argument("--no-networks", action="store_true", help="the grid alone")
    parser.add_argument("--no-grid", action="store_true", help="no grid")
    options = parser.parse_args(arguments)
    if options.data is None:
        parser.error("say --data DIR or set FUBINI_DATA")
    return options


def main() -> None:
    options = parse()
    data = Path(options.data)
    print_header(("numpy", "jax"), "")
    sources = find_networks(data)
    others = {file.name.split(".")[0]: file for kind in ("gaussian", "clg") for file in real_networks(data, kind)}
    chosen = options.networks.split(",") if options.networks else QUICK if options.quick else [*sources, *others]
    table = Table("message passing against fb.marginals", COLUMNS)
    chosen = [] if options.no_networks else chosen
    rows = [
        measure(name, discrete_factors(sources[name]) if name in sources else other_factors(others[name]), table)
        for name in chosen
    ]
    if not options.no_grid:
        measure_grid(20 if options.quick else options.grid, 8)
    if options.no_networks:
        return
    worst = max(max(row["hugin"], row["shafer"], row["evidence"]) for row in rows)
    trees = [row["loopy"] for row in rows if row["tree"]]
    aims = [Aim("junction trees equal fb.marginals", f"{AGREEMENT:g}", f"{worst:.1e}", worst <= AGREEMENT)]
    if trees:
        aims.append(
            Aim(
                f"belief propagation on {len(trees)} trees",
                f"{AGREEMENT:g}",
                f"{max(trees):.1e}",
                max(trees) <= AGREEMENT,
            )
        )
    print_summary(aims, [])


if __name__ == "__main__":
    main()
