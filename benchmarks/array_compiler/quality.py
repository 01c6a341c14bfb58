"""What samplers reach, at the sweeps of the paper's logs: accuracy of mixtures, log-likelihood of topics and classes.

    python -m benchmarks.array_compiler.quality [--data FOLDER] [--sets 20]

Labels start uniformly at random. The figures of the paper are means of 50 data sets for mixtures, else single runs.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import gammaln

from benchmarks.array_compiler import data as sources
from benchmarks.array_compiler import models, samplers
from benchmarks.report import Aim, Table, print_header, print_summary

PAPER = {  # mean accuracy by the sweeps that its seconds allow: 0.394 s a sweep with 50 classes, 0.072 s with 25
    (10_000, 50): {3: 0.259, 5: 0.308, 13: 0.371, 25: 0.395, 51: 0.404},
    (5_000, 25): {14: 0.510, 28: 0.538, 69: 0.554, 139: 0.550, 278: 0.548},
}
TOPICS = {50: (-4.2728e6, -4.2345e6), 100: (-4.5595e6, -4.5352e6)}  # after one sweep, and two
CLASSES = -21_550_343  # after one sweep


def mixtures(sets: int) -> list[Aim]:
    """Mean accuracy over data sets."""
    aims = []
    for (n, m), published in PAPER.items():
        found: dict[int, list[float]] = {sweeps: [] for sweeps in published}
        for seed in range(sets):
            t, truth = sources.mixture(n, m, seed)
            sampler = models.mixture(n, m).condition(t=t).eliminate("theta", "mu").gibbs("z")
            start = np.random.default_rng(1000 + seed).integers(0, m, n)
            sweep = samplers.ours(sampler, "z", start, np.arange(n), seed)
            for turn in range(1, max(published) + 1):
                sweep()
                if turn in found:
                    found[turn].append(samplers.accuracy(sampler.machine.values("z"), truth, m))
        table = Table(
            f"mixture {n:,} / {m}: accuracy, {sets} data sets", ("sweeps", " ours", "error", "paper"), first=8
        )
        for sweeps, shares in found.items():
            error = np.std(shares, ddof=1) / np.sqrt(sets)
            table.row(sweeps, f"{np.mean(shares):.3f}", f"{error:.3f}", f"{published[sweeps]:.3f}")
        last = max(published)
        mean, error = np.mean(found[last]), np.std(found[last], ddof=1) / np.sqrt(sets)
        met = bool(mean >= published[last] - 2 * error)
        aims.append(Aim(f"mixture {n:,} / {m}, {last} sweeps", f"{published[last]:.3f} − 2 errors", f"{mean:.3f}", met))
    return aims


def topics(folder: Path, seeds: int) -> list[Aim]:
    """log p(words, topics), parameters integrated out."""
    kos, aims = sources.kos(folder), []
    table = Table("topics on KOS: log p(w, z)", ("topics, sweeps", "      ours", "spread", "     paper"))
    for k, published in TOPICS.items():
        sampler = (
            models.topics(kos.documents, kos.words, k, kos.doc)
            .condition(w=kos.word)
            .eliminate("theta", "phi")
            .gibbs("z")
        )
        logs = np.zeros((seeds, len(published)))
        for seed in range(seeds):
            start = np.random.default_rng(seed).integers(0, k, len(kos.doc))
            sweep = samplers.ours(sampler, "z", start, np.arange(len(kos.doc)), seed)
            for turn in range(len(published)):
                sweep()
                logs[seed, turn] = samplers.topics_log_joint(kos, sampler.machine.values("z"), k)
        for turn, paper in enumerate(published):
            mean, spread = logs[:, turn].mean(), logs[:, turn].std(ddof=1)
            table.row(f"{k}, {turn + 1}", f"{mean:,.0f}", f"{spread:,.0f}", f"{paper:,.0f}")
            met = bool(mean >= paper - max(3 * spread, 0.001 * abs(paper)))
            aims.append(Aim(f"topics {k}, sweep {turn + 1}", f"within 0.1 % of {paper:,.0f}", f"{mean:,.0f}", met))
    return aims


def classes(folder: Path) -> list[Aim]:
    """Accuracy and log p(words, classes) of naive Bayes, a tenth of the labels held out."""
    news = sources.newsgroups(folder)
    assert news.labels is not None
    held = np.flatnonzero(np.arange(news.documents) % 10 == 0)
    start = news.labels.copy()
    start[held] = np.random.default_rng(1).integers(0, 20, len(held))
    sampler: Any = (
        models.naive_bayes(news.documents, news.words, 20, news.doc)
        .condition(w=news.word)
        .eliminate("theta", "phi")
        .gibbs("z")
    )
    sweep = samplers.ours(sampler, "z", start, held)
    table = Table("naive Bayes, labels held out", ("sweeps", "accuracy", "  log p(w, z)"), first=8)
    logs: list[float] = []
    shares: list[float] = []
    for turn in range(5):
        sweep()
        z = sampler.machine.values("z")
        shares.append(float((z[held] == news.labels[held]).mean()))
        logs.append(_log_joint(news, z, 20))
        table.row(turn + 1, f"{shares[-1]:.3f}", f"{logs[-1]:,.0f}")
    return [
        Aim("naive Bayes: accuracy", "about 0.82", f"{shares[-1]:.3f}", shares[-1] >= 0.815),
        Aim(
            "naive Bayes: log p after a sweep",
            f"about {CLASSES:,}",
            f"{logs[0]:,.0f}",
            abs(logs[0] - CLASSES) < 1e-4 * -CLASSES,
        ),
    ]


def _log_joint(data: sources.Documents, z: np.ndarray, k: int) -> float:
    """log p(w, z), proportions and words of classes integrated out"""
    counts = np.zeros((k, data.words))
    np.add.at(counts, (z[data.doc], data.word), 1)
    labels = np.bincount(z, minlength=k)
    words = gammaln(counts + 1).sum() - gammaln(counts.sum(1) + data.words).sum() + k * gammaln(data.words)
    return float(words + gammaln(labels + 1).sum() - gammaln(len(z) + k) + gammaln(k))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("FUBINI_DATA"), help="default: $FUBINI_DATA")
    parser.add_argument("--sets", type=int, default=20)
    options = parser.parse_args()
    print_header(("numba", "numpy"))
    aims = mixtures(options.sets)
    if options.data:
        aims += topics(Path(options.data), 5)
        aims += classes(Path(options.data))
    print_summary(aims)


if __name__ == "__main__":
    main()
