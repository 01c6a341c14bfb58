"""One network, ours against the peers: what is measured of it, and the row that shows it."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.peers import Marginals, Ours, Pgmpy, Planned, PyAgrum
from benchmarks.report import difference, duration, mebibytes, ratio, verdict
from benchmarks.timing import Child, Failed, OverTime, Times

LIMIT = 60.0  # seconds for one run of a peer
PATIENCE = 600.0  # seconds for one run of ours, and for answers that are compared and not timed
ROUND_BUDGET = 60.0  # seconds of measuring after which a network gets no further round
AGREEMENT = 1e-9
FASTER = {  # than pyAgrum, from nothing
    "asia": 3.0,
    **dict.fromkeys(("andes", "pigs", "water", "barley"), 8.0),
    **dict.fromkeys(("mildew", "link", "munin1"), 20.0),
}
FASTER_AGAIN = {"asia": 4.0, "andes": 20.0, "pigs": 20.0}  # than an engine of pyAgrum that was kept
ELSEWHERE, ELSEWHERE_AGAIN = 5.0, 12.0
LARGE = ("diabetes", "munin", "munin2", "munin3", "munin4")  # no aim was set for these
COLUMNS = (
    *("network", "nodes", "    first", "     best", " planning", "   repeat", "  pyAgrum", "     kept", "    pgmpy"),
    *(
        "  ratio",
        "aim",
        "met",
        "  again",
        "aim",
        "met",
        "marginals",
        "evidence",
        "    work",
        "passes",
        "MiB ours",
        "MiB pyAgrum",
    ),
)


@dataclass
class Measured:
    """What is known of one network; None where a contestant did not finish or was not asked."""

    name: str
    nodes: int = 0
    ours: Times | None = None
    repeat: Times | None = None
    planning: Times | None = None
    peer: Times | None = None
    kept: Times | None = None
    slow_peer: bool = False
    pgmpy: str = "-"
    plan: Planned | None = None
    memory: tuple[int | None, int | None] = (None, None)
    marginals: float | None = None
    evidence: float | None = None
    notes: list[str] = field(default_factory=list)

    def note(self, who: str, error: Failed) -> None:
        """Keep the last line of what went wrong."""
        self.notes.append(f"{self.name}, {who}: {str(error).strip().splitlines()[-1]}")

    @property
    def ratio(self) -> float | None:
        """How many times faster than pyAgrum; at least, where pyAgrum was stopped."""
        if self.ours is None or not (self.peer or self.slow_peer):
            return None
        return (self.peer.median if self.peer else LIMIT) / self.ours.median

    @property
    def ratio_again(self) -> float | None:
        """How many times faster than a kept engine of pyAgrum, with new evidence."""
        return self.kept.median / self.repeat.median if self.kept and self.repeat else None

    @property
    def has_aim(self) -> bool:
        """Whether an aim was set."""
        return self.name not in LARGE and ":" not in self.name

    @property
    def aims(self) -> tuple[float, float]:
        """How much faster than pyAgrum ours should be: from nothing, and with new evidence."""
        return FASTER.get(self.name, ELSEWHERE), FASTER_AGAIN.get(self.name, ELSEWHERE_AGAIN)

    @property
    def met(self) -> tuple[bool | None, bool | None]:
        """Whether the aims are; None where none was set, or pyAgrum did not finish."""
        pairs = zip((self.ratio, self.ratio_again), self.aims, strict=True)
        first, again = [None if not self.has_aim or found is None else found >= aim for found, aim in pairs]
        return first, again

    def row(self) -> tuple[object, ...]:
        """The cells under `COLUMNS`."""
        peer = (f">{LIMIT:g} s", "-") if self.slow_peer else (median(self.peer), median(self.kept))
        aims = [f"{aim:g}×" if self.has_aim else "-" for aim in self.aims]
        bound = ">" if self.slow_peer and self.ours else ""
        plan = (f"{self.plan.work:.2e}", self.plan.passes) if self.plan else ("-", "-")
        return (
            *(self.name, self.nodes, median(self.ours), best(self.ours)),
            *(median(self.planning), median(self.repeat), *peer, self.pgmpy),
            *(bound + ratio(self.ratio), aims[0], verdict(self.met[0])),
            *(ratio(self.ratio_again), aims[1], verdict(self.met[1])),
            *(difference(self.marginals), difference(self.evidence), *plan, *map(mebibytes, self.memory)),
        )


def median(times: Times | None) -> str:
    """The median as text."""
    return duration(times.median if times else None)


def best(times: Times | None) -> str:
    """The best as text."""
    return duration(times.best if times else None)


def measure(name: str, source: str, options: argparse.Namespace) -> Measured:
    """One network: peak memory of first runs, then rounds in turn, then the comparison of the answers."""
    found = Measured(name)
    with Child(Ours, source, options.threads) as ours, Child(PyAgrum, source, options.threads) as peer:
        found.nodes = ours.ask("nodes")
        peer.ask("nodes")
        warm_up = "first" if options.no_memory else "peak"
        contest = _Contest(found, ours, peer)
        peaks = contest.ask_ours(warm_up), contest.ask_peer(warm_up)
        found.memory = (None, None) if options.no_memory else peaks
        contest.take_turns(options.repeats)
        mine, theirs = contest.ask_ours("answer"), contest.ask_peer("answer", PATIENCE)
        if mine and theirs:
            found.marginals = distance(mine[0], theirs[0])
            found.evidence = abs(mine[1] - theirs[1])
    if find_spec("pgmpy") and (options.pgmpy or (found.nodes < 50 and ":" not in name)):
        found.pgmpy = _run_pgmpy(found, source, mine[0] if mine else None)
    return found


class _Contest:
    """Two contestants in their processes; one that fails or runs over time is not asked again."""

    def __init__(self, found: Measured, ours: Child, peer: Child) -> None:
        self.found = found
        self.ours: Child | None = ours
        self.peer: Child | None = peer

    def ask_ours(self, method: str) -> Any:
        """The answer, or None and a note."""
        try:
            return self.ours.ask(method, limit=PATIENCE) if self.ours else None
        except Failed as error:
            self.ours = self.found.note("ours", error)

    def ask_peer(self, method: str, limit: float | None = None) -> Any:
        """The answer, or None and a note."""
        try:
            return self.peer.ask(method, limit=limit or LIMIT) if self.peer else None
        except Failed as error:
            self.found.slow_peer = isinstance(error, OverTime) and self.found.peer is None
            self.peer = self.found.note("pyAgrum", error)

    def take_turns(self, rounds: int) -> None:
        """Rounds of each kind of run, until they are done or the time is spent."""
        times: dict[str, list[float]] = {"ours": [], "repeat": [], "peer": [], "kept": [], "planning": []}
        for _ in range(rounds):
            times["ours"].append(self.ask_ours("first"))
            times["repeat"].append(self.ask_ours("repeat"))
            times["peer"].append(self.ask_peer("first"))
            times["kept"].append(self.ask_peer("repeat"))
            self.found.plan = self.ask_ours("plan")
            times["planning"].append(self.found.plan.seconds if self.found.plan else None)
            if sum(second for kind in times.values() for second in kind if second is not None) > ROUND_BUDGET:
                break
        for kind, seconds in times.items():
            if None not in seconds:
                setattr(self.found, kind, Times(tuple(seconds)))


def distance(mine: Marginals, theirs: Marginals) -> float:
    """The largest difference of two sets of marginals; NaN if any is."""
    assert mine.keys() == theirs.keys(), "all marginals were asked of both"
    return float(np.max([np.abs(mine[name] - theirs[name]).max() for name in mine]))


def _run_pgmpy(found: Measured, source: str, mine: Marginals | None) -> str:
    """Its time, of one run; a note where its answer is another."""
    with Child(Pgmpy, source) as peer:
        try:
            peer.ask("nodes")
            seconds = peer.ask("first", limit=LIMIT)
            gap = distance(mine, peer.ask("infer", 0, limit=LIMIT)) if mine else 0.0
        except OverTime:
            return f">{LIMIT:g} s"
        except Failed as error:
            found.note("pgmpy", error)
            return "failed"
    if not gap <= AGREEMENT:
        found.notes.append(f"{found.name}: a marginal of pgmpy is {gap:.1e} from ours")
    return duration(seconds)
