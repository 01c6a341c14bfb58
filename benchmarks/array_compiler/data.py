"""The data: simulated for the mixture, KOS for topics, 20 Newsgroups for naive Bayes."""

from __future__ import annotations

import csv
import gzip
import lzma
from pathlib import Path
from typing import NamedTuple

import numpy as np


class Documents(NamedTuple):
    """Words by document; labels where there are any."""

    doc: np.ndarray
    word: np.ndarray
    documents: int
    words: int
    labels: np.ndarray | None = None


def mixture(n: int, m: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the mixture's own prior, and their true classes."""
    g = np.random.default_rng(seed)
    z = g.choice(m, n, p=g.dirichlet(np.ones(m)))
    return g.normal(g.normal(0.0, 14.0, m)[z], 1.0), z


def kos(folder: Path) -> Documents:
    """Every pair of a document and a word in it once, as the paper has it."""
    with gzip.open(folder / "kos" / "docword.kos.txt.gz", "rt") as file:
        documents, words, _ = (int(file.readline()) for _ in range(3))
        rows = np.loadtxt(file, dtype=np.int64)
    return Documents(rows[:, 0] - 1, rows[:, 1] - 1, documents, words)


def newsgroups(folder: Path) -> Documents:
    """20 Newsgroups, 19 997 articles with their groups."""
    base = folder / "newsgroups20"
    with lzma.open(base / "tokens.txt.xz", "rt") as file:
        articles = [np.array(line.split(), np.int64) for line in file]
    with lzma.open(base / "docs.csv.xz", "rt", newline="") as file:
        labels = np.array([int(row["topic"]) for row in csv.DictReader(file)])
    with lzma.open(base / "vocab.txt.xz", "rt") as file:
        words = sum(1 for _ in file)
    doc = np.repeat(np.arange(len(articles)), [len(article) for article in articles])
    return Documents(doc, np.concatenate(articles), len(articles), words, labels)
