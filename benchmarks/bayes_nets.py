"""All marginals of the discrete networks in `bayes_nets/discrete`, against pyAgrum and, where it finishes, pgmpy.

Evidence stands on 5 % of the variables, drawn from the network itself. One row for each network:

- `first`: ours with every cache of plans and kernels cleared; `planning` is the part of it that finds the plan;
- `repeat`: ours again with other values of the same observed variables, so that the program is found in the cache;
- `pyAgrum`: LazyPropagation built, evidence set, makeInference, all posteriors fetched as NumPy arrays; 60 s at most;
  `kept`: the same with other evidence on an engine that was kept;
- `pgmpy`: one query of VariableElimination for each variable; 60 s at most;
- `ratio`: the median of pyAgrum over that of `first`, `again`: that of `kept` over `repeat`, with the aims beside them;
- `marginals`, `evidence`: the largest difference of a marginal and of the log-evidence to pyAgrum's;
- `work`: multiply-adds of the forward pass as planned, all `passes` over slices together;
- `MiB`: growth of a fresh process at the peak of its first run.

Times are medians of interleaved runs, the best beside them. Then the growth of cost with size on chains and grids, the
single query on alarm in a fresh process, 1,000 cases of evidence on alarm (`net.condition_many` against a loop over an
engine of pyAgrum that is kept), and the aims met and missed.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.contest import AGREEMENT, COLUMNS, Measured, best, distance, measure, median
from benchmarks.networks import find_networks
from benchmarks.peers import Ours, PyAgrum
from benchmarks.report import Aim, Table, difference, print_header, print_summary, ratio, verdict
from benchmarks.timing import Child, Times, set_threads

CASES, CASES_AIM = 1000, 300.0  # cases of evidence on alarm, and how many times faster than a loop of pyAgrum
QUICK = ("alarm", "andes", "asia", "child", "hepar2", "insurance", "pathfinder", "water")


def measure_growth(kind: str, sizes: Sequence[int], options: argparse.Namespace) -> list[Measured]:
    """Chains or grids of growing size."""
    table = Table(f"{kind}s: growth of cost with size", COLUMNS)
    found = []
    for size in sizes:
        found.append(measure(f"{kind}:{size}", f"{kind}:{size}", options))
        table.row(*found[-1].row())
    print_exponents(kind, found)
    return found


def print_exponents(kind: str, found: Sequence[Measured]) -> None:
    """Powers of the number of nodes fitted to work and times; for grids also the exponential in the side."""
    done = [(one, one.plan, one.planning, one.ours) for one in found if one.plan and one.planning and one.ours]
    if len(done) < 2:
        return
    nodes, sides = np.log([one.nodes for one, *_ in done]), [float(one.name.split(":")[1]) for one, *_ in done]
    costs = {
        "work": [plan.work for _, plan, _, _ in done],
        "planning": [planning.median for _, _, planning, _ in done],
        "first": [ours.median for *_, ours in done],
    }
    for what, values in costs.items():
        line = f"{what} grows as nodes^{np.polyfit(nodes, np.log(values), 1)[0]:.2f}"
        exponent = np.polyfit(sides, np.log2(values), 1)[0]
        print(line if kind == "chain" else f"{line}, or as 2^({exponent:.2f} side)")


def measure_query(source: str, options: argparse.Namespace) -> Aim:
    """One marginal of alarm given one observation, each time in a process that has only imported and read."""
    seconds = []
    for _ in range(options.repeats):
        with Child(Ours, source) as ours:
            seconds.append(ours.ask("query", "LVFAILURE", {"HR": "HIGH"}))
    times = Times(tuple(seconds))
    table = Table(
        "P(LVFAILURE | HR = HIGH) on alarm, in a fresh process", ("", "   median", "     best", "  aim", "met")
    )
    table.row("ours", median(times), best(times), "20 ms", verdict(times.median < 20e-3))
    return Aim("single query on alarm, cold", "< 20 ms", median(times), times.median < 20e-3)


def measure_cases(source: str, options: argparse.Namespace) -> list[Aim]:
    """Many cases of evidence in one call, and one after another by pyAgrum."""
    with Child(Ours, source, options.threads) as ours, Child(PyAgrum, source, options.threads) as peer:
        for one in (ours, peer):
            one.ask("prepare_cases", CASES)
        gap = distance(ours.ask("infer_cases"), peer.ask("infer_cases"))
        seconds = [(ours.ask("time_cases"), peer.ask("time_cases")) for _ in range(options.repeats)]
    mine, theirs = (Times(times) for times in zip(*seconds, strict=True))
    faster = theirs.median / mine.median
    columns = ("", "   median", "     best", "    ratio", "      aim", "met", "marginals")
    table = Table(f"{CASES:,} cases of evidence on alarm: all marginals", columns)
    table.row(
        "ours", median(mine), best(mine), ratio(faster), ratio(CASES_AIM), verdict(faster >= CASES_AIM), f"{gap:.1e}"
    )
    table.row("pyAgrum", median(theirs), best(theirs), "", "", "", "")
    title = f"{CASES:,} cases on alarm"
    return [
        Aim(f"{title}: faster than pyAgrum", ratio(CASES_AIM), ratio(faster), faster >= CASES_AIM),
        Aim(f"{title}: agreement", f"{AGREEMENT:g}", difference(gap), gap <= AGREEMENT),
    ]


def speed_aims(found: Measured) -> list[Aim]:
    """From nothing, and with new evidence; ahead of pyAgrum at all, and by how much."""
    shown = f"{median(found.ours)}, {'>' if found.slow_peer else ''}{ratio(found.ratio)}"
    again = f"{median(found.repeat)}, {ratio(found.ratio_again)}"
    first_aim, again_aim = found.aims
    return [
        Aim(f"{found.name}: faster than pyAgrum", f"{first_aim:g}×", shown, found.met[0]),
        Aim(f"{found.name}: with new evidence", f"{again_aim:g}×", again, found.met[1]),
    ]


def ahead_aim(rows: Sequence[Measured]) -> Aim:
    """On every network, of every kind of run."""
    known = [(one.name, each) for one in rows for each in (one.ratio, one.ratio_again) if each is not None]
    behind = sorted({name for name, each in known if each < 1})
    shown = f"{len(known) - len(behind)} of {len(known)}" + (f", not {', '.join(behind)}" if behind else "")
    return Aim("ahead of pyAgrum", "all", shown, not behind)


def agreement_aim(rows: Sequence[Measured]) -> Aim:
    """The worst of all differences to pyAgrum; NaN is worst of all. Undecided where some could not be compared."""
    known = [gap for one in rows for gap in (one.marginals, one.evidence) if gap is not None]
    worst = float(np.max(known)) if known else None
    what = f"agreement with pyAgrum on {len(known) // 2} of {len(rows)}"
    agree = worst is None or worst <= AGREEMENT
    return Aim(what, f"{AGREEMENT:g}", difference(worst), None if agree and len(known) < 2 * len(rows) else agree)


def repeat_aim(rows: Sequence[Measured]) -> Aim:
    """A repeat costs the first time less its planning; a tenth is left to noise."""
    known = [(one.name, one.ours, one.repeat, one.planning) for one in rows if one.ours and one.repeat and one.planning]
    late = [name for name, ours, again, planning in known if again.best > 1.1 * (ours.best - planning.best)]
    shown = f"{len(known) - len(late)} of {len(known)}" + (f", not {', '.join(late)}" if late else "")
    return Aim("repeat at most first less planning", "all", shown, not late)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bayes_nets", description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("FUBINI_DATA"), help="default: $FUBINI_DATA")
    parser.add_argument("--networks", help="names with commas between; default: all")
    parser.add_argument("--repeats", type=int, help="rounds; default 5, or 3 if quick")
    parser.add_argument("--quick", action="store_true", help="eight networks, three rounds, small chains and grids")
    parser.add_argument("--pgmpy", action="store_true", help="pgmpy on every network, not only below 50 nodes")
    parser.add_argument("--no-memory", action="store_true", help="do not measure peak memory")
    parser.add_argument("--no-growth", action="store_true", help="no chains and grids")
    parser.add_argument("--threads", type=int, help="of each contestant; default: what each takes by itself")
    options = parser.parse_args(arguments)
    if options.data is None:
        parser.error("say --data DIR or set FUBINI_DATA")
    options.repeats = options.repeats or (3 if options.quick else 5)
    known = find_networks(Path(options.data))
    chosen = options.networks.split(",") if options.networks else QUICK if options.quick else list(known)
    if not set(chosen) <= known.keys():
        parser.error(f"no network {', '.join(sorted(set(chosen) - known.keys()))}; there are {', '.join(known)}")
    options.sources = {name: known[name] for name in chosen}
    options.alarm = known["alarm"]
    return options


def main() -> None:
    options = parse()
    set_threads(options.threads)
    threads = f"; threads: {options.threads or 'as each takes by itself'}"
    print_header(("numpy", "jax", "pyAgrum", "pgmpy"), threads)
    aims = [measure_query(options.alarm, options), *measure_cases(options.alarm, options)]
    table = Table("all marginals given evidence on 5 % of the variables", COLUMNS)
    rows = []
    for name, source in options.sources.items():
        rows.append(measure(name, source, options))
        table.row(*rows[-1].row())
    grown = []
    if not options.no_growth:
        grown += measure_growth("chain", (64, 256) if options.quick else (64, 256, 1024, 4096), options)
        grown += measure_growth("grid", (4, 8) if options.quick else (4, 8, 12, 16), options)
    aims += [aim for one in rows if one.has_aim for aim in speed_aims(one)]
    aims += [ahead_aim(rows), agreement_aim(rows), repeat_aim(rows)]
    print_summary(aims, [note for one in (*rows, *grown) for note in one.notes])


if __name__ == "__main__":
    main()
