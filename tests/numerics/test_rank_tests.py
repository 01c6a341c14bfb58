"""Tests of ranks against uniform ranks, and against ranks that are known not to be."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

from fubini.numerics.rank_tests import bins_of, rank_tests, ranks_of

RANDOM = np.random.default_rng(0)


def test_ranks_with_ties_are_uniform():
    """Of labels, where the value and all draws are equal in law: by enumeration of what ties may be."""
    truth, draws = np.array([1.0, 2.0, 1.0]), np.array([[0.0, 2.0, 1.0], [2.0, 2.0, 1.0]])
    many = np.array([ranks_of(truth, draws, RANDOM) for _ in range(3000)])
    np.testing.assert_array_equal(many[:, 0], 1)
    for entry in (1, 2):  # two equal draws: 0, 1 or 2 of them are below
        np.testing.assert_allclose(np.bincount(many[:, entry]) / 3000, 1 / 3, atol=0.03)
    labels = np.array(
        [ranks_of(np.array(draw[0]), draw[1:], RANDOM) for draw in RANDOM.integers(0, 2, (4000, 6))], dtype=int
    )
    np.testing.assert_allclose(np.bincount(labels) / 4000, 1 / 6, atol=0.025)


def test_bins():
    bins = bins_of(np.arange(103) % 13, 12)
    assert len(bins.counts) == 13 and bins.counts.sum() == 103 and bins.expected.sum() == pytest.approx(103)
    assert np.all((bins.low <= bins.counts) & (bins.counts <= bins.high))
    uneven = bins_of(RANDOM.integers(0, 8, 25), 7)  # eight ranks in five bins
    np.testing.assert_allclose(uneven.expected, 25 * np.array([2, 2, 1, 2, 1]) / 8)


def test_p_values_of_uniform_ranks_are_uniform():
    """Of the mean and the spread of entries that depend on each other; counts are corrected, and no smaller."""
    found = []
    for _ in range(300):
        common, own = RANDOM.integers(0, 20, (80, 1)), RANDOM.integers(0, 20, (80, 3))
        found.append(rank_tests(np.where(RANDOM.random((80, 3)) < 0.7, common, own), 19))
    for part in ("centre", "spread"):
        assert kstest([getattr(one, part) for one in found], "uniform").pvalue > 1e-3
    assert np.mean([one.counts < 0.05 for one in found]) < 0.1


BETAS = {  # of the rank from 0 to 1: which test finds it, and the sign of what it finds
    "low": ((1.0, 2.0), "centre", "shift", -1),
    "high": ((2.0, 1.0), "centre", "shift", 1),
    "at the ends": ((0.5, 0.5), "spread", "excess", 1),
    "in the middle": ((3.0, 3.0), "spread", "excess", -1),
}


@pytest.mark.parametrize("name", BETAS)
def test_ranks_that_are_not_uniform(name):
    beta, part, size, sign = BETAS[name]
    ranks = np.floor(RANDOM.beta(*beta, (200, 1)) * 100).astype(int)
    found = rank_tests(ranks, 99)
    assert getattr(found, part) < 1e-4 and found.counts < 1e-2 and np.sign(getattr(found, size)) == sign


def test_ranks_that_are_all_the_same():
    assert rank_tests(np.zeros((20, 1), int), 9).least == 0.0
