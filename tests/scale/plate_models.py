"""Models of rows of data, and their data."""

import csv
import lzma
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import fubini as fb

RNG = np.random.default_rng(22)


class Case(NamedTuple):
    """A model of rows, those it takes as arguments, and those that are observed."""

    model: Any
    arguments: tuple[np.ndarray, ...]
    observed: np.ndarray

    def post(self, place: Any) -> Any:
        """The posterior, of data that are placed so."""
        return self.model(*map(place, self.arguments)).condition(y=place(self.observed))


@fb.model
def normal(like):
    v = yield fb.dist.InverseGamma(3.0, 2.0).named("v")
    m = yield fb.dist.Normal(1.0, 2 * jnp.sqrt(v)).named("m")
    yield fb.dist.Normal(m + jnp.zeros(like.shape), jnp.sqrt(v)).named("y")


@fb.model
def regression(X):
    v = yield fb.dist.InverseGamma(3.0, 2.0).named("v")
    w = yield fb.dist.Normal(0.0, 2 * jnp.sqrt(v)).expand([X.shape[1]]).named("w")
    yield fb.dist.Normal(X @ w, jnp.sqrt(v)).named("y")


@fb.model
def groups(group):
    m = yield fb.dist.Normal(0.0, 2.0).named("m")
    a = yield fb.dist.Normal(m, 1.0).expand([12]).named("a")
    yield fb.dist.Normal(a[group], 0.5).named("y")


@fb.model
def logistic(X):
    w = yield fb.dist.Normal(0.0, 1.0).expand([X.shape[1]]).named("w")
    yield fb.dist.Bernoulli(logits=X @ w).named("y")


@fb.model
def mixture(like):
    p = yield fb.dist.Dirichlet(jnp.ones(3)).named("p")
    m = yield fb.dist.Normal(0.0, 3.0).expand([3]).named("m")
    k = yield fb.dist.Categorical(p).expand([like.shape[0]]).named("k")
    yield fb.dist.Normal(m[k], 1.0).named("y")


def cases(rows: int) -> dict[str, Case]:
    """The models, with so many rows."""
    X = RNG.normal(size=(rows, 3)).astype(np.float32)
    w = np.array([0.5, -1.0, 2.0])
    group = RNG.integers(0, 12, rows).astype(np.int32)
    y = (X @ w + RNG.normal(size=rows)).astype(np.float32)
    by_group = (RNG.normal(size=12)[group] + 0.5 * RNG.normal(size=rows)).astype(np.float32)
    label = RNG.integers(0, 3, rows)
    mixed = (3.0 * label - 3.0 + RNG.normal(size=rows)).astype(np.float32)
    binary = (RNG.uniform(size=rows) < 1 / (1 + np.exp(-X @ w))).astype(np.int32)
    return {
        "normal": Case(normal, (y,), y),
        "regression": Case(regression, (X,), y),
        "groups": Case(groups, (group,), by_group),
        "logistic": Case(logistic, (X,), binary),
        "mixture": Case(mixture, (mixed,), mixed),
    }


@fb.model
def naive_bayes(topic, classes, words):
    rate = yield fb.dist.Dirichlet(1.5 * jnp.ones(words)).expand([classes]).named("rate")
    yield fb.dist.Categorical(rate[topic]).named("y")


def tokens(folder: Path, words: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The groups and the words of the first tokens of 20 Newsgroups, each of the most frequent words."""
    with lzma.open(folder / "docs.csv.xz", "rt", newline="") as file:
        groups = np.array([int(row["topic"]) for row in csv.DictReader(file)], np.int32)
    with lzma.open(folder / "tokens.txt.xz", "rt") as file:
        articles = [np.array(line.split()[:40], np.int32) for line in file]
    topic, word = np.repeat(groups, list(map(len, articles))), np.concatenate(articles)
    frequent = np.argsort(-np.bincount(word), kind="stable")[:words]
    place = np.full(word.max() + 1, -1, np.int32)
    place[frequent] = np.arange(words)
    kept = place[word] >= 0
    step = max(int(kept.sum()) // count, 1)
    return topic[kept][::step][:count], place[word[kept]][::step][:count]
