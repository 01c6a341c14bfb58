"""Topics by the thousand, classes proposed or all weighed; and block models, looking at edges of an entry or at all.

    python -m benchmarks.array_compiler.many_classes [--data FOLDER] [--classes 1000 2000] [--seconds 10]

Contestants take turns, medians are shown. log p(w, z) is that after as many seconds of sweeps, from the same labels.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import fubini as fb
from benchmarks.array_compiler import data as sources
from benchmarks.array_compiler import samplers
from benchmarks.report import Aim, Table, duration, print_header, print_summary, ratio
from benchmarks.timing import interleaved
from fubini import dist
from fubini.compile.pipeline import PASSES

ALPHA, BETA = 0.1, 0.01  # of topics in a document, of words in a topic


@fb.model
def topics(documents, words, k, doc):
    theta = yield dist.Dirichlet(ALPHA * jnp.ones(k)).expand([documents])
    phi = yield dist.Dirichlet(BETA * jnp.ones(words)).expand([k])
    z = yield dist.Categorical(theta[doc])
    w = yield dist.Categorical(phi[z])


@fb.model
def blocks(nodes, k, ends):
    share = yield dist.Dirichlet(jnp.ones(k))
    rate = yield dist.Gamma(2.0, 1.0).expand([k, k])
    z = yield dist.Categorical(share).expand([nodes])
    edges = yield dist.Poisson(rate[z[ends[0]], z[ends[1]]])


def log_after(sampler: Any, sweep: samplers.Sweep, kos: sources.Documents, k: int, seconds: float) -> tuple[float, int]:
    """log p(w, z) after so many seconds of sweeps, and how many these were."""
    spent, count = 0.0, 0
    while spent < seconds:
        begin = time.perf_counter()
        sweep()
        spent, count = spent + time.perf_counter() - begin, count + 1
    return samplers.topics_log_joint(kos, sampler.machine.values("z"), k, ALPHA, BETA), count


def many_topics(folder: Path, classes: list[int], seconds: float) -> list[Aim]:
    """Topics on KOS."""
    kos, aims = sources.kos(folder), []
    n, items = len(kos.doc), np.arange(len(kos.doc))
    columns = ("topics", "proposed", "all classes", "by hand", "faster", "log p, proposed", "log p, all classes")
    table = Table(f"topics on KOS: an update, and log p(w, z) after {seconds:g} s", columns, first=8)
    without = {"proposed": (), "all classes": tuple(one.name for one in PASSES if one.name == "propose")}
    for k in classes:
        post = topics(kos.documents, kos.words, k, kos.doc).condition(w=kos.word).eliminate("theta", "phi")
        start = np.random.default_rng(1).integers(0, k, n)
        made = {name: post.gibbs("z", without=passes) for name, passes in without.items()}
        sweeps = {name: samplers.ours(sampler, "z", start, items) for name, sampler in made.items()}
        found = interleaved({**sweeps, "by hand": samplers.topics_by_hand(kos, start, k)}, 3)
        update = {name: times.median / n for name, times in found.items()}
        logs = []
        for name, sampler in made.items():
            sampler.machine.set({"z": start})
            log, count = log_after(sampler, sweeps[name], kos, k, seconds)
            logs.append(f"{log:,.0f} ({count} sweeps)")
        faster = update["all classes"] / update["proposed"]
        table.row(f"{k:,}", *(duration(update[name]) for name in (*without, "by hand")), ratio(faster), *logs)
        if k >= 1000:
            aims.append(Aim(f"{k:,} topics: proposed against all", "≥ 3×", ratio(faster), faster >= 3))
    return aims


def block_models() -> None:
    """Graphs of ten edges a node."""
    table = Table("block models: an update", ("nodes, classes", "difference", "without", "faster"), first=16)
    g = np.random.default_rng(0)
    for nodes, k in ((1_000, 5), (1_000, 20), (5_000, 5)):
        post = blocks(nodes, k, g.integers(0, nodes, (2, 10 * nodes))).condition(edges=g.poisson(1.0, 10 * nodes))
        start, updates = g.integers(0, k, nodes), []
        for without, count in (((), nodes), (("difference",), 20)):
            machine = post.eliminate("share", "rate").gibbs("z", without=without).machine
            machine.set({"z": start})
            uniforms, items = machine.uniforms(g, count), np.arange(count)
            seconds = interleaved({"": lambda: machine.sweep("z", uniforms, items)}, 5)[""].median  # noqa: B023
            updates.append(seconds / count)
        table.row(f"{nodes:,}, {k}", *map(duration, updates), ratio(updates[1] / updates[0]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("FUBINI_DATA"), help="default: $FUBINI_DATA")
    parser.add_argument("--classes", type=int, nargs="+", default=[1000, 2000])
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    print_header(("numba", "numpy"))
    block_models()
    print_summary(many_topics(Path(options.data), options.classes, options.seconds) if options.data else [])


if __name__ == "__main__":
    main()
