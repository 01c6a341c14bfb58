"""The quadrant model under each representation, beside the same computation by hand and by other libraries.

`python -m benchmarks.representations quadrants`. One row for each representation, size and contestant:

- `first`: the first asking, compiling included; `again`: the best of some rounds in which contestants take turns;
- `ratio`: ours over theirs, of `again`; `MiB`: by how much the process grew at its largest in one more asking.

For all questions of a chain, `first` and `again` are printed for ours alone. cuthbert and particles take part where
they can be imported: particles 0.4 asks for a NumPy below 2 but runs with
a later one (`pip install --no-deps particles`).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax

import fubini as fb
from benchmarks import quadrant_peers as peers
from benchmarks.report import Aim, Table, duration, mebibytes, ratio
from benchmarks.timing import elapsed, interleaved, peak_memory
from examples.quadrants import SETTINGS, quadrants

BOUNDS = (-8, 8)
QUESTIONS = ("log_evidence", "filter", "smooth")
SLOWER = 1.5  # ours over hand-written code, at most
COMPILED = 3.0  # seconds


class Contest(NamedTuple):
    """A representation of F, and those who compute the same."""

    label: str
    named: dict[str, Any]
    others: dict[str, Callable[[], peers.Asked]]


def contests(options: argparse.Namespace) -> Iterator[Contest]:
    """Gaussians, particles of several numbers, grids of several sizes."""
    setting, key = SETTINGS[options.setting], jax.random.key(0)
    if "truncated" in options.only:
        yield Contest("Truncated", {"F": fb.rep.Truncated()}, {"by hand, JAX": partial(peers.gaussians, setting)})
    if "particles" in options.only:
        for count in options.particles:
            named = {"F": fb.rep.Particles(count, key)}
            makers = {"by hand, JAX": peers.bootstrap, "cuthbert": peers.cuthbert, "particles": peers.particles}
            others = {name: partial(maker, setting, count, key) for name, maker in makers.items()}
            yield Contest(f"Particles({count})", named, others)
    if "grid" in options.only:
        for count in options.cells:
            others = {"separable, NumPy": partial(peers.grid, setting, BOUNDS, count)}
            yield Contest(f"Grid {count}", {"F": fb.rep.Grid(BOUNDS, count)}, others)


def ask(chain: fb.Chain, named: dict[str, Any], question: str = "log_evidence") -> Any:
    """One question, its arrays waited for."""
    with fb.represent(**named):
        answer = getattr(chain, question)()
    return jax.block_until_ready(jax.tree.leaves(answer))


def compare_quadrants(options: argparse.Namespace) -> list[Aim]:
    """Ours and theirs for the log-evidence, then the other questions."""
    chain = quadrants(SETTINGS[options.setting])
    columns = ("representation", "contestant      ", "   first", "   again", "  ratio", "    MiB", "log-evidence")
    table = Table(f"log-evidence, {options.setting}", columns, first=18)
    aims: list[Aim] = []
    for label, named, others in contests(options):
        ours = partial(ask, chain, named)
        made = {"Fubini": ours, **dict(_made(others))}
        first = {name: elapsed(function) for name, function in made.items()}
        times = interleaved(made, options.repeats)
        for name, function in made.items():
            value = float(chain_evidence(chain, named)) if name == "Fubini" else function()
            share = None if name == "Fubini" else times["Fubini"].best / times[name].best
            memory = mebibytes(peak_memory(function))
            table.row(
                label, name, duration(first[name]), duration(times[name].best), ratio(share), memory, f"{value:.4f}"
            )
            if share is not None:
                aims.append(Aim(f"{label}, {name}: run", f"{SLOWER}×", ratio(share), share <= SLOWER))
        aims.append(
            Aim(f"{label}: first asking", duration(COMPILED), duration(first["Fubini"]), first["Fubini"] <= COMPILED)
        )
    return aims + ask_all(options, chain)


def chain_evidence(chain: fb.Chain, named: dict[str, Any]) -> Any:
    """The log-evidence itself."""
    with fb.represent(**named):
        return chain.log_evidence()


def _made(others: dict[str, Callable[[], peers.Asked]]) -> Iterator[tuple[str, peers.Asked]]:
    for name, maker in others.items():
        try:
            yield name, maker()
        except ImportError as missing:
            print(f"{name}: not installed ({missing})")


def ask_all(options: argparse.Namespace, chain: fb.Chain) -> list[Aim]:
    """Every question of the chain under the smallest of each kind."""
    columns = ("representation", *(f"{name:>12}" for name in options.questions for _ in range(2)))
    table = Table("questions", columns, first=18)
    aims = []
    seen: set[str] = set()
    for label, named, _ in contests(options):
        kind = label.partition("(")[0].partition(" ")[0]
        if kind in seen:
            continue
        seen.add(kind)
        cells = []
        for question in options.questions:
            function = partial(ask, chain, named, question)
            first, again = elapsed(function), elapsed(function)
            cells += [duration(first), duration(again)]
            aims.append(Aim(f"{label}, {question}: first", duration(COMPILED), duration(first), first <= COMPILED))
        table.row(label, *cells)
    return aims
