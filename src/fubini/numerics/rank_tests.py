"""Whether ranks are uniform: by counts in bins, by their mean, and by how far they are from the middle.

Ranks [simulation, entry] go from 0 to the number of draws. Simulations are independent, entries of one need not be.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, cast

import numpy as np
from scipy import special

MOST_BINS = 20
IN_A_BIN = 5  # ranks that are expected in each, at least


class RankTests(NamedTuple):
    """p-values of the counts, the mean and the spread of ranks, and by how much they differ from uniform ones."""

    counts: float
    centre: float
    spread: float
    shift: float  # the mean of the ranks from 0 to 1, less a half
    excess: float  # the mean square of these differences over that of uniform ranks, less one
    worst: int  # the entry whose counts are the least uniform

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name}={number:.3g}" for name, number in self._asdict().items())
        return f"RankTests({numbers})"

    @property
    def least(self) -> float:
        """The least of the p-values."""
        return min(self.counts, self.centre, self.spread)


class RankBins(NamedTuple):
    """Counts of ranks in bins, how many are expected in each, and the band in which 99 % of counts are."""

    counts: np.ndarray
    expected: np.ndarray
    low: np.ndarray
    high: np.ndarray


def ranks_of(truth: np.ndarray, draws: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """How many of draws [draw, …] are below a value […]; of those that are equal, a random number."""
    below, equal = np.sum(draws < truth, axis=0), np.sum(draws == truth, axis=0)
    ties = cast("np.ndarray", cast(Any, random).integers(0, equal + 1))
    return below + ties


def bins_of(ranks: np.ndarray, draws: int, band: float = 0.99) -> RankBins:
    """Counts of ranks [simulation] in as many bins as leave enough in each."""
    bins = max(2, min(MOST_BINS, len(ranks) // IN_A_BIN, draws + 1))
    share = np.bincount(np.arange(draws + 1) * bins // (draws + 1), minlength=bins) / (draws + 1)
    counts = np.bincount(ranks * bins // (draws + 1), minlength=bins)
    low, high = (_binomial_quantile((1 + sign * band) / 2, len(ranks), share) for sign in (-1, 1))
    return RankBins(counts, len(ranks) * share, low, high)


def rank_tests(ranks: np.ndarray, draws: int) -> RankTests:
    """Tests of ranks [simulation, entry]; the least p-value of the counts of entries is multiplied by their number.

    Mean and spread are averaged over the entries of a simulation first, so that entries may depend on each other.
    """
    each = np.array([_counts_test(column, draws) for column in ranks.T])
    off = (ranks + 0.5) / (draws + 1) - 0.5
    square = (1 - (draws + 1.0) ** -2) / 12  # of uniform ranks
    shift, excess = off.mean(axis=1), (off**2 / square - 1).mean(axis=1)
    return RankTests(
        min(1.0, float(each.min()) * len(each)),
        _mean_test(shift),
        _mean_test(excess),
        float(shift.mean()),
        float(excess.mean()),
        int(each.argmin()),
    )


def _counts_test(ranks: np.ndarray, draws: int) -> float:
    """χ² of the counts in bins."""
    bins = bins_of(ranks, draws)
    statistic = float(np.sum((bins.counts - bins.expected) ** 2 / bins.expected))
    return float(special.chdtrc(len(bins.counts) - 1, statistic))


def _mean_test(values: np.ndarray) -> float:
    """Student's t of a mean of 0."""
    if np.ptp(values) == 0:
        return 1.0 if values[0] == 0 else 0.0
    statistic = abs(float(values.mean())) / float(values.std(ddof=1)) * math.sqrt(len(values))
    return 2 * float(special.stdtr(len(values) - 1, -statistic))


def _binomial_quantile(probability: float, count: int, share: np.ndarray) -> np.ndarray:
    """The least k with P(K ≤ k) ≥ probability; `scipy.stats` has it too, but is slow to import."""
    k = np.ceil(special.bdtrik(probability, count, share))
    below = np.maximum(k - 1, 0)
    return cast("np.ndarray", np.where(special.bdtr(below, count, share) >= probability, below, k))
