"""Our samplers and their rivals, each as a sweep to be timed."""

from __future__ import annotations

import importlib.util
import logging
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import gammaln

from benchmarks.array_compiler import by_hand
from benchmarks.array_compiler.data import Documents

Sweep = Callable[[], object]


def ours(sampler: Any, label: str, start: np.ndarray, items: np.ndarray, seed: int = 0) -> Sweep:
    """A sweep of a compiled sampler, random numbers and refreshed statistics included."""
    g, machine = np.random.default_rng(seed), sampler.machine
    machine.set({label: start})

    def sweep() -> None:
        if machine.program.drifts:
            machine.restart()
        machine.sweep(label, machine.uniforms(g, len(items)), items)

    return sweep


def mixture_by_hand(t: np.ndarray, start: np.ndarray, m: int, seed: int = 0) -> Sweep:
    g, z = np.random.default_rng(seed), start.copy()

    def sweep() -> None:
        n, s = np.bincount(z, minlength=m).astype(float), np.bincount(z, t, minlength=m)
        by_hand.mixture(t, z, n, s, g.random(len(t)), 14.0)

    return sweep


def topics_by_hand(data: Documents, start: np.ndarray, k: int, seed: int = 0) -> Sweep:
    g, z = np.random.default_rng(seed), start.copy()
    by_doc, by_word = np.zeros((data.documents, k)), np.zeros((data.words, k))
    np.add.at(by_doc, (data.doc, z), 1)
    np.add.at(by_word, (data.word, z), 1)
    whole = by_word.sum(0)
    return lambda: by_hand.topics(data.doc, data.word, z, by_doc, by_word, whole, g.random(len(z)))


def naive_bayes_by_hand(rows: Any, data: Documents, start: np.ndarray, m: int, items: np.ndarray) -> Sweep:
    g, z = np.random.default_rng(0), start.copy()
    first, place, value = rows
    length = np.bincount(data.doc, minlength=data.documents).astype(float)
    counts = np.zeros((data.words, m))
    np.add.at(counts, (data.word, z[data.doc]), 1)
    n = np.bincount(z, minlength=m).astype(float)
    whole = counts.sum(0)
    return lambda: by_hand.naive_bayes(items, first, place, value, length, z, counts, whole, n, g.random(len(items)))


def topics_by_tomotopy(data: Documents, k: int) -> Sweep | None:
    """tomotopy with one worker; None where it is not installed."""
    if importlib.util.find_spec("tomotopy") is None:
        return None
    import tomotopy

    model = tomotopy.LDAModel(k=k, alpha=1.0, eta=1.0, seed=1)
    model.optim_interval = 0
    for words in np.split(data.word, np.flatnonzero(np.diff(data.doc)) + 1):
        model.add_doc([str(word) for word in words])
    model.train(0, workers=1)
    return lambda: model.train(1, workers=1)


def topics_by_lda(data: Documents, k: int, sweeps: int = 3) -> float | None:
    """Seconds of a sweep of PyPI's `lda`, from the difference of two fits; None where it is not installed."""
    if importlib.util.find_spec("lda") is None:
        return None
    import lda

    logging.getLogger("lda").setLevel(logging.ERROR)
    counts = np.zeros((data.documents, data.words), np.int64)
    counts[data.doc, data.word] = 1
    seconds = []
    for count in (1, 1 + sweeps):
        model = lda.LDA(n_topics=k, n_iter=count, alpha=1.0, eta=1.0, random_state=1, refresh=10**9)
        begin = time.perf_counter()
        model.fit(counts)
        seconds.append(time.perf_counter() - begin)
    return (seconds[1] - seconds[0]) / sweeps


def accuracy(z: np.ndarray, truth: np.ndarray, m: int) -> float:
    """The share of labels that agree under the best matching of classes."""
    table = np.zeros((m, m))
    np.add.at(table, (z, truth), 1)
    return float(table[linear_sum_assignment(-table)].sum() / len(z))


def topics_log_joint(data: Documents, z: np.ndarray, k: int, alpha: float = 1.0, beta: float = 1.0) -> float:
    """log p(w, z), topics and proportions integrated out"""
    by_doc, by_word = np.zeros((data.documents, k)), np.zeros((k, data.words))
    np.add.at(by_doc, (data.doc, z), 1)
    np.add.at(by_word, (z, data.word), 1)
    return float(_log_prob(by_word, beta) + _log_prob(by_doc, alpha))


def _log_prob(counts: np.ndarray, concentration: float) -> float:
    """log Π_r B(a + n_r) / B(a), of rows of counts"""
    rows, size = counts.shape
    entries = gammaln(counts + concentration).sum() - rows * size * gammaln(concentration)
    return entries + rows * gammaln(size * concentration) - gammaln(counts.sum(1) + size * concentration).sum()
