"""All marginals of the discrete networks in `bayes_nets/discrete`, against pyAgrum and, where it finishes, pgmpy.

Evidence stands on 5 % of the variables, drawn from the network itself. One row for each network:

- `first`: ours with every cache of plans and kernels cleared; `planning` is the part of it that finds the plan;
- `repeat`: ours again with other values of the same observed variables, so that the plan is found in the cache;
- `pyAgrum`: LazyPropagation built, evidence set, makeInference, all posteriors fetched as NumPy arrays; 60 s at most;
- `pgmpy`: one query of VariableElimination for each variable; 60 s at most;
- `ratio`: the median of pyAgrum over that of `first`, with the aim beside it;
- `marginals`, `evidence`: the largest difference of a marginal and of the log-evidence to pyAgrum's;
- `work`: multiply-adds of the forward pass as planned, all `passes` over slices together;
- `MiB`: growth of a fresh process at the peak of its first run.

Times are medians of interleaved runs, the best beside them. Then the growth of cost with size on chains and grids, the
single query on alarm in a fresh process, and the aims met and missed.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.networks import find_networks
from benchmarks.peers import Marginals, Ours, Pgmpy, Planned, PyAgrum
from benchmarks.report import Aim, Table, difference, duration, mebibytes, print_header, print_summary, ratio, verdict
from benchmarks.timing import Child, Failed, OverTime, Times, set_threads

LIMIT = 60.0  # seconds for one run of a peer
PATIENCE = 600.0  # seconds for one run of ours
ROUND_BUDGET = 60.0  # seconds of measuring after which a network gets no further round
AGREEMENT = 1e-9
SMALL = 2e-3  # seconds below which a small network need not beat a peer
FASTER = {
    **dict.fromkeys(("andes", "pigs", "barley", "link", "pathfinder"), 1.3),
    **dict.fromkeys(("water", "mildew", "munin1"), 3.0),
}
LARGE = ("diabetes", "munin", "munin2", "munin3", "munin4")  # no aim was set for these
QUICK = ("alarm", "andes", "asia", "child", "hepar2", "insurance", "pathfinder", "water")
COLUMNS = (
    *("network", "nodes", "    first", "     best", " planning", "   repeat", "  pyAgrum", "     best", "    pgmpy"),
    *("ratio", "aim", "met", "marginals", "evidence", "    work", "passes", "MiB ours", "MiB pyAgrum"),
)


@dataclass
class Measured:
    """What is known of one network; None where a contestant did not finish or was not asked."""

    name: str
    nodes: int = 0
    ours: Times | None = None
    repeat: Times | None = None
    peer: Times | None = None
    slow_peer: bool = False
    pgmpy: str = "-"
    plan: Planned | None = None
    memory: tuple[int | None, int | None] = (None, None)
    marginals: float | None = None
    evidence: float | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def ratio(self) -> float | None:
        """How many times faster than pyAgrum; at least, where pyAgrum was stopped."""
        if self.ours is None or not (self.peer or self.slow_peer):
            return None
        return (self.peer.median if self.peer else LIMIT) / self.ours.median

    @property
    def aim(self) -> str:
        if self.name in FASTER:
            return f"{FASTER[self.name]:g}×"
        return "-" if self.name in LARGE or ":" in self.name else "1× or 2 ms"

    @property
    def met(self) -> bool | None:
        if self.aim == "-":
            return None
        if self.ours is None or self.ratio is None:
            return False if self.ours is None else None
        small = self.name not in FASTER and self.ours.median < SMALL
        return small or self.ratio >= FASTER.get(self.name, 1.0)

    def row(self) -> tuple[object, ...]:
        """The cells under `COLUMNS`."""
        peer = (f">{LIMIT:g} s", "-") if self.slow_peer else (_median(self.peer), _best(self.peer))
        bound = ">" if self.slow_peer and self.ours else ""
        plan = (f"{self.plan.work:.2e}", self.plan.passes) if self.plan else ("-", "-")
        return (
            *(self.name, self.nodes, _median(self.ours), _best(self.ours)),
            *(duration(self.plan.seconds if self.plan else None), _median(self.repeat), *peer, self.pgmpy),
            *(bound + ratio(self.ratio), self.aim, verdict(self.met)),
            *(difference(self.marginals), difference(self.evidence), *plan, *map(mebibytes, self.memory)),
        )


def _median(times: Times | None) -> str:
    return duration(times.median if times else None)


def _best(times: Times | None) -> str:
    return duration(times.best if times else None)


def measure(name: str, source: str, options: argparse.Namespace) -> Measured:
    """One network: peak memory of first runs, then rounds in turn, then the comparison of the answers."""
    found = Measured(name)
    with Child(Ours, source, options.threads) as ours, Child(PyAgrum, source, options.threads) as peer:
        found.nodes = ours.ask("nodes")
        peer.ask("nodes")
        warm_up = "first" if options.no_memory else "peak"
        peak = _attempt(found, "ours", lambda: ours.ask(warm_up, limit=PATIENCE))
        peer_peak = _attempt(found, "pyAgrum", lambda: peer.ask(warm_up, limit=LIMIT))
        found.memory = (None, None) if options.no_memory else (peak, peer_peak)
        found.slow_peer = peer_peak is None and any("pyAgrum: no answer" in note for note in found.notes)
        _take_turns(found, ours if peak is not None else None, peer if peer_peak is not None else None, options)
        if peak is not None:
            found.plan = ours.ask("plan")
        if peak is not None and peer_peak is not None:
            mine = _attempt(found, "ours", lambda: ours.ask("answer", limit=PATIENCE))
            theirs = _attempt(found, "pyAgrum", lambda: peer.ask("answer", limit=LIMIT))
            _compare(found, mine, theirs)
    if options.pgmpy or (found.nodes < 50 and ":" not in name):
        found.pgmpy = _run_pgmpy(found, source)
    return found


def _attempt(found: Measured, who: str, run: Callable[[], Any]) -> Any:
    """The result, or None and a note."""
    try:
        return run()
    except Failed as error:
        found.notes.append(f"{found.name}, {who}: {str(error).strip().splitlines()[-1]}")
        return None


def _take_turns(found: Measured, ours: Child | None, peer: Child | None, options: argparse.Namespace) -> None:
    first, again, others = [], [], []
    for _ in range(options.repeats):
        if ours:
            first.append(ours.ask("first"))
            again.append(ours.ask("repeat"))
        if peer:
            others.append(peer.ask("first"))
        if sum(first) + sum(again) + sum(others) > ROUND_BUDGET:
            break
    found.ours, found.repeat, found.peer = (Times(tuple(times)) if times else None for times in (first, again, others))


def _compare(found: Measured, mine: Any, theirs: Any) -> None:
    if mine and theirs:
        found.marginals = _distance(mine[0], theirs[0])
        found.evidence = abs(mine[1] - theirs[1])


def _distance(mine: Marginals, theirs: Marginals) -> float:
    assert mine.keys() == theirs.keys(), "all marginals were asked of both"
    return max(float(np.abs(mine[name] - theirs[name]).max()) for name in mine)


def _run_pgmpy(found: Measured, source: str) -> str:
    """Its time, of one run."""
    with Child(Pgmpy, source) as peer:
        try:
            peer.ask("nodes")
            return duration(peer.ask("first", limit=LIMIT))
        except OverTime:
            return f">{LIMIT:g} s"
        except Failed as error:
            found.notes.append(f"{found.name}, pgmpy: {str(error).strip().splitlines()[-1]}")
            return "failed"


def measure_growth(kind: str, sizes: Sequence[int], options: argparse.Namespace) -> list[Measured]:
    """Chains or grids of growing size, and the exponents fitted to work and time."""
    table = Table(f"{kind}s: growth of cost with size", COLUMNS)
    found = []
    for size in sizes:
        found.append(measure(f"{kind}:{size}", f"{kind}:{size}", options))
        table.row(*found[-1].row())
    done = [one for one in found if one.ours and one.plan]
    if len(done) > 1:
        nodes = np.log([one.nodes for one in done])
        side = [float(one.name.split(":")[1]) for one in done]
        for what, values in (
            ("work", [one.plan.work for one in done if one.plan]),
            ("planning", [one.plan.seconds for one in done if one.plan]),
            ("first", [one.ours.median for one in done if one.ours]),
        ):
            power = np.polyfit(nodes, np.log(values), 1)[0]
            line = f"{what} grows as nodes^{power:.2f}"
            print(line if kind == "chain" else f"{line}, or as 2^({np.polyfit(side, np.log2(values), 1)[0]:.2f} side)")
    return found


def measure_query(source: str, options: argparse.Namespace) -> Aim:
    """One marginal of alarm given one observation, each time in a process that has only imported and read."""
    seconds = []
    for _ in range(options.repeats):
        with Child(Ours, source) as ours:
            seconds.append(ours.ask("query", "LVFAILURE", {"HR": "HIGH"}))
    times = Times(tuple(seconds))
    table = Table("P(LVFAILURE | HR = HIGH) on alarm, in a fresh process", ("", "   median", "     best", "aim", "met"))
    table.row("ours", _median(times), _best(times), "20 ms", verdict(times.median < 20e-3))
    return Aim("single query on alarm, cold", "< 20 ms", _median(times), times.median < 20e-3)


def speed_aim(found: Measured) -> Aim:
    shown = f"{_median(found.ours)}, {'>' if found.slow_peer else ''}{ratio(found.ratio)}"
    return Aim(f"{found.name}: faster than pyAgrum", found.aim, shown, found.met)


def agreement_aim(rows: Sequence[Measured]) -> Aim:
    known = [max(one.marginals, one.evidence) for one in rows if one.marginals is not None and one.evidence is not None]
    worst = max(known, default=None)
    what = f"agreement with pyAgrum on {len(known)} of {len(rows)}"
    return Aim(what, f"{AGREEMENT:g}", difference(worst), None if worst is None else worst <= AGREEMENT)


def repeat_aim(rows: Sequence[Measured]) -> Aim:
    """A repeat costs the first time less its planning, with a tenth for noise."""
    known = [one for one in rows if one.ours and one.repeat and one.plan]
    late = [one.name for one in known if one.repeat.best > 1.1 * (one.ours.best - one.plan.seconds) + 1e-4]  # type: ignore
    shown = f"{len(known) - len(late)} of {len(known)}" + (f", not {', '.join(late)}" if late else "")
    return Aim("repeat ≤ first less planning", "all", shown, not late)


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
    query = measure_query(options.alarm, options)
    table = Table("all marginals given evidence on 5 % of the variables", COLUMNS)
    rows = []
    for name, source in options.sources.items():
        rows.append(measure(name, source, options))
        table.row(*rows[-1].row())
    grown = []
    if not options.no_growth:
        grown += measure_growth("chain", (64, 256) if options.quick else (64, 256, 1024, 4096), options)
        grown += measure_growth("grid", (4, 8) if options.quick else (4, 8, 12, 16), options)
    aims = [query, *(speed_aim(one) for one in rows if one.aim != "-"), agreement_aim(rows), repeat_aim(rows)]
    print_summary(aims, [note for one in (*rows, *grown) for note in one.notes])


if __name__ == "__main__":
    main()
