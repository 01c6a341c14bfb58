"""Rankings of sushi as a probabilistic sentential decision diagram (PSDD) over 100 Booleans.

5,000 people ranked ten kinds of sushi (Kamishima 2003). "tuna@1" is true where tuna is liked best; of the assignments
of the 100 Booleans, 10! = 3,628,800 are rankings, and the circuit of their constraint has 5,530 elements. Its weights,
P(next kind | kinds named so far), are learned in one pass. The models of Mallows and of Plackett and Luce are circuits
of the same structure, with 1 and 9 free numbers; a mixture of four circuits, by expectation maximisation, has its prior
at Plackett and Luce's in each class. Three splits into 4,500 people to learn from and 500 held out.

The learned circuit is then conditioned, and joined with Gaussian scores: who likes a kind j-th best gives it a score
around level j, so that scores of some kinds, with noise, say something of the ranking of all.

    python -m examples.rankings --data data
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from scipy.stats import norm

import fubini as fb
from fubini import dist
from fubini.factors.circuits import Circuit, choices, learn, permutations

FILE = "sushi/sushi_rankings.csv.gz"
HELD_OUT, SPLITS = 500, 3
PSEUDO_COUNTS = (1.0, 2.0, 4.0, 8.0)  # tried on 500 of those to learn from
CLASSES, CLASS_PSEUDO_COUNT, STEPS = 4, 4.0, 40
NOISE = 0.5  # of a score, in standard deviations of the scores of a person

# -- data -------------------------------------------------------------------------------------------------------------


class Rankings(NamedTuple):
    """The kinds, and for each person the kind at each rank, the best first."""

    kinds: list[str]
    orders: np.ndarray


def read(folder: str | Path) -> Rankings:
    """Read the file: a row has the rank of each kind, from 1."""
    with gzip.open(Path(folder) / FILE, "rt") as file:
        kinds, *rows = csv.reader(file)
    return Rankings(kinds, np.argsort(np.asarray(rows, int), 1))


def names_of(kinds: Sequence[str]) -> list[list[str]]:
    """The Booleans: a row for each rank."""
    return [[f"{kind}@{rank}" for kind in kinds] for rank in range(1, len(kinds) + 1)]


def as_rows(orders: np.ndarray) -> np.ndarray:
    """The values of the Booleans for each person."""
    n = orders.shape[1]
    return np.eye(n, dtype=np.int8)[orders].reshape(len(orders), n * n)


# -- Mallows, and Plackett and Luce: what comes next, given the set of those before ----------------------------------


def sets_before(orders: np.ndarray) -> np.ndarray:
    """The kinds ahead of each rank, as bits."""
    return np.cumsum(1 << orders, 1) - (1 << orders)


def count_choices(orders: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """How often a kind came next after a set of kinds, (2^n, n)."""
    n = orders.shape[1]
    cells = sets_before(orders) * n + orders
    return np.bincount(cells.ravel(), np.repeat(weights, n), 2**n * n).reshape(2**n, n)


def remaining(n: int) -> np.ndarray:
    """Whether a kind is not in a set, (2^n, n)."""
    return np.arange(2**n)[:, None] >> np.arange(n) & 1 == 0


def normalized(weights: np.ndarray) -> np.ndarray:
    """Probabilities of what comes next, zero after all."""
    weights = np.where(remaining(weights.shape[1]), weights, 0.0)
    return weights / np.maximum(weights.sum(1, keepdims=True), 1e-300)


def plackett_luce(counts: np.ndarray, steps: int = 100) -> np.ndarray:
    """p(j | S) ∝ w_j, of greatest likelihood: w_j = N_j / Σ_S N_S / Σ_{k ∉ S} w_k, N choices (Hunter 2004)"""
    n = counts.shape[1]
    free, worth = remaining(n), np.full(n, 1 / n)
    for _ in range(steps):
        share = counts[:-1].sum(1) / (free[:-1] @ worth)
        worth = counts.sum(0) / (share @ free[:-1])
        worth /= worth.sum()
    return normalized(np.broadcast_to(worth, counts.shape))


def mallows(orders: np.ndarray) -> np.ndarray:
    """p(j | S) ∝ φ^(kinds ∉ S that the consensus has before j): Kendall's distance, of greatest likelihood"""
    n = orders.shape[1]
    place = np.argsort(consensus(orders))
    ahead = remaining(n).astype(int) @ (place[:, None] < place)
    counts = count_choices(orders, np.ones(len(orders)))

    def loss(phi: float) -> float:
        return -float(np.sum(counts * np.log(np.where(counts > 0, normalized(phi**ahead), 1.0))))

    return normalized(minimize_scalar(loss, bounds=(1e-3, 1.0), method="bounded").x ** ahead)


def consensus(orders: np.ndarray) -> np.ndarray:
    """The order with the fewest pairs that people have the other way round: the mean, moving one kind at a time."""
    ranks = np.argsort(orders, 1)
    against = (ranks[:, :, None] > ranks[:, None]).sum(0)  # people who have the first kind behind the second
    best = list(np.argsort(ranks.mean(0)))
    moves = [(a, b) for a in range(len(best)) for b in range(len(best))]
    while True:
        tried = [best, *([*(rest := [*best[:a], *best[a + 1 :]])[:b], best[a], *rest[b:]] for a, b in moves)]
        costs = [np.triu(against[np.ix_(order, order)], 1).sum() for order in tried]
        if min(costs) == costs[0]:
            return np.asarray(best)
        best = tried[int(np.argmin(costs))]


def log_likelihood(probabilities: np.ndarray, orders: np.ndarray) -> float:
    """The mean over people of log p(ranking)."""
    return float(np.log(probabilities[sets_before(orders), orders]).sum(1).mean())


# -- circuits ---------------------------------------------------------------------------------------------------------


def learn_psdd(base: Circuit, orders: np.ndarray) -> Circuit:
    """A circuit with the pseudo-count that is best for the last 500 of those to learn from."""
    rows = as_rows(orders)
    most, few = rows[:-HELD_OUT], rows[-HELD_OUT:]
    scores = [learn(base, most, pseudo_count=count).log_evidence(few).mean() for count in PSEUDO_COUNTS]
    return learn(base, rows, pseudo_count=PSEUDO_COUNTS[int(np.argmax(scores))])


def learn_mixture(base: Circuit, orders: np.ndarray, names: list[list[str]], classes: int, seed: int = 0) -> Circuit:
    """p(taste, ranking) by expectation maximisation, a circuit for each taste, its prior at Plackett and Luce's."""
    rows = as_rows(orders)
    shares = np.random.default_rng(seed).dirichlet(np.ones(classes), len(rows)).T
    joint = base
    for _ in range(STEPS):
        worths = np.stack([plackett_luce(count_choices(orders, share), 20) for share in shares])
        prior = choices(fb.Array(worths, ("taste",)), names)
        weights = fb.Array(shares, ("taste",))
        given = learn(base, rows, pseudo_count=CLASS_PSEUDO_COUNT, row_weights=weights, prior=prior)
        joint = given.multiply(fb.Table(shares.mean(1), ("taste",)))
        logs = joint.log_evidence(rows)
        shares = np.exp(logs - logsumexp(logs, 0))
    return joint


def expected_ranks(f: Circuit, n: int) -> np.ndarray:
    """E[rank of each kind], from 1."""
    at = dict(zip(f.variables, f.marginal_probabilities(), strict=True))
    return np.arange(1, n + 1) @ np.reshape([at[name] for name in f.slots], (n, n))


def best_ranking(f: Circuit, kinds: Sequence[str]) -> list[str]:
    """The most probable ranking, the best kind first."""
    best, n = f.argmax(), len(kinds)
    chosen = np.reshape([best[name] for name in f.slots], (n, n))
    return [kinds[item] for item in chosen.argmax(1)]


# -- Gaussian scores --------------------------------------------------------------------------------------------------


def levels(n: int) -> np.ndarray:
    """The score of a kind at each rank: normal quantiles, the best highest."""
    return norm.isf((np.arange(n) + 0.5) / n)


def score_factors(kind: str, score: float, n: int) -> list[fb.Table]:
    """p(score | rank of the kind) = Π_j N(score; level j, noise)^[kind@j], a factor for each Boolean."""
    density = dist.Normal(fb.Array(levels(n), ("rank",)), NOISE)(score).log().data
    return [fb.Table.from_log([0.0, log], (f"{kind}@{rank}",)) for rank, log in enumerate(np.asarray(density), 1)]


def predict_score(f: Circuit, kind: str, n: int) -> tuple[float, float]:
    """The mean and standard deviation of a kind's score: Σ_j P(kind@j) N(score; level j, noise)."""
    at = dict(zip(f.variables, f.marginal_probabilities(), strict=True))
    ranks = fb.Table([at[f"{kind}@{rank}"] for rank in range(1, n + 1)], ("rank",))
    score = (ranks * dist.Normal(fb.Array(levels(n), ("rank",)), NOISE)("score")).sum("rank")
    return float(score.mean("score")), float(score.variance("score")) ** 0.5


# -- the report -------------------------------------------------------------------------------------------------------


def compare(data: Rankings, splits: int) -> None:
    """Held-out log-likelihood of each model."""
    names = names_of(data.kinds)
    base = permutations(len(data.kinds), names)
    print(f"{base.count_models():,} rankings, {base.size:,} elements\n\nheld-out log-likelihood of a ranking")
    print(f"{'split':>8}{'uniform':>10}{'Mallows':>10}{'Plackett–Luce':>15}{'PSDD':>10}{f'{CLASSES} PSDDs':>10}")
    table = []
    for split in range(splits):
        order = np.random.default_rng(split).permutation(len(data.orders))
        train, test = data.orders[order[:-HELD_OUT]], data.orders[order[-HELD_OUT:]]
        psdd, mixture = learn_psdd(base, train), learn_mixture(base, train, names, CLASSES)
        scores = (
            -float(np.log(base.count_models())),
            log_likelihood(mallows(train), test),
            log_likelihood(plackett_luce(count_choices(train, np.ones(len(train)))), test),
            float(psdd.log_evidence(as_rows(test)).mean()),
            float(logsumexp(mixture.log_evidence(as_rows(test)), 0).mean()),
        )
        table.append(scores)
        print_scores(str(split), scores)
    print_scores("mean", np.mean(table, 0))


def print_scores(label: str, scores: Sequence[float] | np.ndarray) -> None:
    """One row of the table."""
    a, b, c, d, e = scores
    print(f"{label:>8}{a:>10.3f}{b:>10.3f}{c:>15.3f}{d:>10.3f}{e:>10.3f}", flush=True)


def ask(data: Rankings) -> None:
    """Condition the circuit of all people, and join it with scores."""
    kinds, n = data.kinds, len(data.kinds)
    psdd = learn_psdd(permutations(n, names_of(kinds)), data.orders)
    first = psdd.multiply(fb.Table([0.0, 1.0], ("sea_urchin@1",)))
    scores = {"egg": 1.6, "squid": 0.9, "fatty_tuna": -1.4}
    scored = psdd.multiply(*(factor for kind, score in scores.items() for factor in score_factors(kind, score, n)))
    assert isinstance(first, Circuit) and isinstance(scored, Circuit)
    print(f"\nP(sea urchin is first) = {float(first.sum(*first.variables)):.4f}")
    print(f"log density of the scores {scores} = {float(scored.sum(*scored.variables).log()):.4f}")
    print(f"\n{'expected rank':<16}{'of all':>12}{'urchin first':>14}{'scored':>10}{'   predicted score':>20}")
    columns = [expected_ranks(f, n) for f in (psdd, first, scored)]
    for kind, *ranks in zip(kinds, *columns, strict=True):
        mean, deviation = predict_score(scored, kind, n)
        print(f"{kind:<16}{ranks[0]:>12.2f}{ranks[1]:>14.2f}{ranks[2]:>10.2f}{mean:>13.2f} ± {deviation:.2f}")
    print(f"\nmost probable: {', '.join(best_ranking(psdd, kinds))}")
    print(f"given the scores: {', '.join(best_ranking(scored, kinds))}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare the models on held-out people, then ask the circuit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("FUBINI_DATA", "data"), help="folder with the data sets")
    parser.add_argument("--splits", type=int, default=SPLITS)
    options = parser.parse_args(arguments)
    data = read(options.data)
    compare(data, options.splits)
    ask(data)


if __name__ == "__main__":
    main()
