"""Time per sweep or update of compiled samplers beside hand-written ones and others' libraries, and what passes save.

    python -m benchmarks.array_compiler [--data FOLDER] [--quick]

Random numbers are part of a sweep. "simplify + compile" starts with an empty cache of compiled code. Contestants take
turns, medians are shown. KOS and 20 Newsgroups are found through FUBINI_DATA or --data.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import jax
import numpy as np

from benchmarks.array_compiler import data as sources
from benchmarks.array_compiler import models, samplers
from benchmarks.array_compiler.many_chains import canaries, throughput
from benchmarks.report import Aim, Table, duration, print_header, print_summary, ratio
from benchmarks.timing import interleaved
from fubini.compile.exact import room
from fubini.compile.pipeline import PASSES

PUBLISHED = {"mixture": 0.255, "naive Bayes": 21.32e-3, "KOS 50": 303.0, "KOS 100": 329.0}
PUBLISHED |= {"ClinicalTrial": 115.9e-6, "LinearRegression": 33e-6}  # Hakaru's, seconds
AIMS: list[Aim] = []


def compiled(make, label: str, start: np.ndarray, items: np.ndarray):
    """A sampler, and the seconds from the model to its first update."""
    begin = time.perf_counter()
    sampler = make()
    sampler.machine.set({label: start})
    sampler.machine.sweep(label, np.zeros(1), items[:1])
    return sampler, time.perf_counter() - begin


def mixture(table: Table, rounds: int) -> None:
    for n, m in ((10_000, 50), (5_000, 25)):
        t, truth = sources.mixture(n, m, 0)
        start, items = np.random.default_rng(1).integers(0, m, n), np.arange(n)
        make = lambda: models.mixture(n, m).condition(t=t).eliminate("theta", "mu").gibbs("z")  # noqa: B023, E731
        sampler, first = compiled(make, "z", start, items)
        found = interleaved(
            {
                "ours": samplers.ours(sampler, "z", start, items),
                "by hand": samplers.mixture_by_hand(t, start, m),
            },
            rounds,
        )
        mine, hand = found["ours"].median, found["by hand"].median
        name = f"mixture {n:,} / {m}"
        table.row(name, duration(mine), duration(mine / n), duration(hand), ratio(hand / mine), "-", duration(first))
        AIMS.append(Aim(f"{name}: sweep ≤ by hand", "≤ 1.00×", ratio(mine / hand), mine <= hand))
        AIMS.append(Aim(f"{name}: simplify + compile", "< 3 s", duration(first), first < 3))
        sampler.machine.set({"z": start})
        sweep = samplers.ours(sampler, "z", start, items)
        shares = []
        for turn in range(100):
            sweep()
            if turn + 1 in (1, 10, 100):
                shares.append(f"{samplers.accuracy(sampler.machine.values('z'), truth, m):.3f}")
        print(f"    accuracy after 1, 10, 100 sweeps: {', '.join(shares)}", flush=True)


def topics(table: Table, folder: Path, rounds: int) -> None:
    kos = sources.kos(folder)
    for k in (50, 100):
        n = len(kos.doc)
        start, items = np.random.default_rng(1).integers(0, k, n), np.arange(n)
        make = lambda: (  # noqa: E731
            models.topics(kos.documents, kos.words, k, kos.doc)  # noqa: B023
            .condition(w=kos.word)
            .eliminate("theta", "phi")
            .gibbs("z")
        )
        sampler, first = compiled(make, "z", start, items)
        contestants = {
            "ours": samplers.ours(sampler, "z", start, items),
            "by hand": samplers.topics_by_hand(kos, start, k),
            "tomotopy": samplers.topics_by_tomotopy(kos, k),
        }
        found = interleaved({name: sweep for name, sweep in contestants.items() if sweep is not None}, rounds)
        mine, hand = found["ours"].median, found["by hand"].median
        peer = found["tomotopy"].median if "tomotopy" in found else None
        lda = samplers.topics_by_lda(kos, k)
        others = f"tomotopy {duration(peer)}, lda {duration(lda)}"
        name = f"topics KOS / {k}"
        table.row(name, duration(mine), duration(mine / n), duration(hand), ratio(hand / mine), others, duration(first))
        aim = None if peer is None else mine <= 1.1 * peer
        AIMS.append(
            Aim(f"{name}: sweep against tomotopy's", "≤ 1.10×", ratio(None if peer is None else mine / peer), aim)
        )
        AIMS.append(
            Aim(f"{name}: faster than lda", "< 1.00×", ratio(lda and mine / lda), None if not lda else mine < lda)
        )
        AIMS.append(Aim(f"{name}: simplify + compile", "< 3 s", duration(first), first < 3))
        sampler.machine.set({"z": start})
        sweep, logs = samplers.ours(sampler, "z", start, items), []
        for _ in range(3):
            sweep()
            logs.append(f"{samplers.topics_log_joint(kos, sampler.machine.values('z'), k):,.0f}")
        print(f"    log p(w, z) after sweeps 1 to 3: {', '.join(logs)}", flush=True)


def naive_bayes(table: Table, folder: Path, rounds: int) -> None:
    news = sources.newsgroups(folder)
    assert news.labels is not None
    held = np.flatnonzero(np.arange(news.documents) % 10 == 0)
    start = news.labels.copy()
    start[held] = np.random.default_rng(1).integers(0, 20, len(held))
    make = lambda: (  # noqa: E731
        models.naive_bayes(news.documents, news.words, 20, news.doc)
        .condition(w=news.word)
        .eliminate("theta", "phi")
        .gibbs("z")
    )
    sampler, first = compiled(make, "z", start, held)
    rows = [sampler.program.numbers[name] for name in ("F0_first", "F0_place", "F0_value")]
    found = interleaved(
        {
            "ours": samplers.ours(sampler, "z", start, held),
            "by hand": samplers.naive_bayes_by_hand(rows, news, start, 20, held),
        },
        rounds,
    )
    mine, hand = found["ours"].median, found["by hand"].median
    update = mine / len(held)
    table.row("naive Bayes", duration(mine), duration(update), duration(hand), ratio(hand / mine), "-", duration(first))
    right = (sampler.machine.values("z")[held] == news.labels[held]).mean()
    print(f"    accuracy on labels held out: {right:.3f} (paper: about 0.82)", flush=True)
    AIMS.append(Aim("naive Bayes: an update", "< 50 µs", duration(update), update < 50e-6))
    AIMS.append(Aim("naive Bayes: accuracy held out", "≥ 0.82", f"{right:.3f}", bool(right >= 0.82)))
    AIMS.append(Aim("naive Bayes: simplify + compile", "< 3 s", duration(first), first < 3))


def exact(rounds: int) -> None:
    """Exact posteriors: one call of the compiled function on arrays of 10 000."""
    n, g = 10_000, np.random.default_rng(0)
    x = g.integers(0, 32_768, n).astype(float)
    makers = {
        "ClinicalTrial": (
            lambda: (
                models.clinical_trial(n)
                .condition(control=g.integers(0, 2, n), treated=g.integers(0, 2, n))
                .kernel("effective")
            ),
            {},
            60e-6,
        ),
        "LinearRegression": (
            lambda: models.linear_regression(x).condition(y=g.normal(2 * x + 5, 3.0)).kernel("tau", "a", "b"),
            {"tau": 1.0, "a": 2.0},
            20e-6,
        ),
    }
    table = Table("exact posteriors of 10 000 points", ("model", "    call", "published", "to first call"), first=18)
    for name, (make, given, wanted) in makers.items():
        begin = time.perf_counter()
        kernel = make()
        arrays = [*kernel.arrays(given), *room(kernel.compiled)]
        kernel.function(*arrays)
        first = time.perf_counter() - begin
        call = interleaved({"": lambda: kernel.function(*arrays)}, rounds)[""].median  # noqa: B023
        table.row(name, duration(call), duration(PUBLISHED[name]), duration(first))
        AIMS.append(Aim(f"{name}: a call", f"< {duration(wanted)}", duration(call), call < wanted))
        AIMS.append(Aim(f"{name}: simplify + compile", "< 3 s", duration(first), first < 3))


def ablation(rounds: int) -> None:
    """What a pass saves: time per update of the mixture without it, as in the paper's table 2."""
    n, m = 10_000, 50
    t, _ = sources.mixture(n, m, 0)
    start = np.random.default_rng(1).integers(0, m, n)
    post = models.mixture(n, m).condition(t=t).eliminate("theta", "mu")
    table = Table(f"mixture {n:,} / {m}: an update without passes", ("without", "update", "times slower"), first=32)
    whole = None
    for without in ((), *((one.name,) for one in PASSES), ("difference", "hoist"), ("difference", "fuse")):
        machine = post.gibbs("z", without=without).machine
        machine.set({"z": start})
        items = np.arange(2 if {"histogram"} & set(without) else 20 if {"difference"} & set(without) else n)
        machine.sweep("z", np.random.default_rng(0).random(1), items[:1])
        seconds = []
        for turn in range(rounds):
            begin = time.perf_counter()
            machine.sweep("z", np.random.default_rng(turn).random(len(items)), items)
            seconds.append((time.perf_counter() - begin) / len(items))
        update = float(np.median(seconds))
        whole = update if whole is None else whole
        table.row(", ".join(without) or "nothing", duration(update), ratio(update / whole))
        if without == ("difference",):
            AIMS.append(Aim("mixture: against O(n) an update", "≥ 20×", ratio(update / whole), update >= 20 * whole))


def growth(rounds: int, largest: int) -> None:
    """Time per update as data grow."""
    sizes, m = [size for size in (1_000, 10_000, 100_000, 1_000_000) if size <= largest], 20
    table = Table("mixture with 20 classes: an update as data grow", ("n", "update"), first=12)
    found = []
    for n in sizes:
        t, _ = sources.mixture(n, m, 0)
        start, items = np.random.default_rng(1).integers(0, m, n), np.arange(1_000)
        machine = models.mixture(n, m).condition(t=t).eliminate("theta", "mu").gibbs("z").machine
        machine.set({"z": start})
        uniforms = np.random.default_rng(0).random(len(items))
        machine.sweep("z", uniforms, items)
        seconds = interleaved({"": lambda: machine.sweep("z", uniforms, items)}, rounds)[""].median  # noqa: B023
        found.append(seconds / len(items))
        table.row(f"{n:,}", duration(found[-1]))
    slope = float(np.polyfit(np.log(sizes), np.log(found), 1)[0])
    AIMS.append(Aim("time per update grows with n", "exponent < 0.1", f"{slope:.3f}", slope < 0.1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("FUBINI_DATA"), help="default: $FUBINI_DATA")
    parser.add_argument("--quick", action="store_true", help="few rounds, data up to 100 000")
    options = parser.parse_args()
    rounds = 5 if options.quick else 21
    print_header(("numba", "jax", "numpy"))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FUBINI_CACHE"] = folder
        columns = (
            "sampler",
            "   sweep",
            "  update",
            " by hand",
            "ratio",
            "                      others",
            "to first update",
        )
        table = Table("time per sweep", columns, first=22)
        mixture(table, rounds)
        if options.data:
            topics(table, Path(options.data), min(rounds, 11))
            naive_bayes(table, Path(options.data), min(rounds, 11))
        exact(rounds)
        ablation(min(rounds, 5))
        chains = [1, 4] if options.quick or jax.default_backend() == "cpu" else [1, 64, 1024]
        canaries(10_000, 50, chains[-1])
        AIMS.extend(throughput(10_000, 50, chains))
        growth(min(rounds, 11), 100_000 if options.quick else 1_000_000)
    published = ", ".join(f"{name} {duration(seconds)}" for name, seconds in PUBLISHED.items())
    print_summary(AIMS, (f"published (Hakaru): {published}; naive Bayes is per update, samplers are per sweep",))


if __name__ == "__main__":
    main()
