"""Figures of chains: traces of draws one after another, and ranks of each chain's draws among all."""

from __future__ import annotations

import numpy as np

from fubini.report.figure_axes import Axes, figure, padded
from fubini.report.html_elements import Markup, element
from fubini.report.posterior_draws import Quantity

COLOURS = 6  # that follow each other, in style.css
BINS = 20
MOST_CHAINS = 8  # that are drawn


def trace_figure(quantity: Quantity, points: int) -> Markup:
    """The draws of each chain one after another; of long chains every k-th."""
    draws = quantity.draws.astype(np.float64)
    numbers = quantity.finite
    step = max(1, -(-draws.shape[1] // points))
    axes = Axes((0.0, float(max(draws.shape[1] - 1, 1))), padded(float(numbers.min()), float(numbers.max())))
    at = np.arange(0, draws.shape[1], step)
    lines = []
    for chain, row in enumerate(draws[:MOST_CHAINS, ::step]):
        known = np.isfinite(row)
        lines.append(element("path", d=axes.points(at[known], row[known]), class_=f"chain c{chain % COLOURS}"))
    thinned = f", one draw in {step}" if step > 1 else ""
    words = f"Draws of {quantity.name} one after another, {draws.shape[0]} chains of {draws.shape[1]:,}{thinned}"
    return figure(f"Trace of {quantity.name}{thinned}", words, *lines, axes.frame())


def rank_shares(draws: np.ndarray, bins: int = BINS) -> np.ndarray:
    """How the ranks of each chain's draws, among the draws of all, are spread: [chain, bin], 1 where evenly.

    Equal draws have the ranks between them in turn, so that values that occur often do not stand out.
    """
    chains, count = draws.shape
    order = np.argsort(draws.T.reshape(-1), kind="stable")  # draws of one step beside each other
    ranks = np.empty(chains * count)
    ranks[order] = np.arange(chains * count)
    ranks = ranks.reshape(count, chains).T
    counts = [np.histogram(row, bins=bins, range=(0, chains * count))[0] for row in ranks]
    return np.array(counts) * bins / count


def rank_figure(quantity: Quantity) -> Markup:
    """The ranks of each chain's draws: level where the chains agree."""
    draws = quantity.draws.astype(np.float64)
    bins = max(2, min(BINS, draws.shape[1] // 5))
    shares = rank_shares(draws, bins)
    axes = Axes((0.0, float(draws.size)), (0.0, max(2.0, float(shares.max()) * 1.05)))
    edges = np.repeat(np.linspace(0, draws.size, bins + 1), 2)[1:-1]
    lines = [
        element("path", d=axes.points(edges, np.repeat(row, 2)), class_=f"chain c{chain % COLOURS}")
        for chain, row in enumerate(shares[:MOST_CHAINS])
    ]
    level = element("path", d=axes.points(np.array([0.0, draws.size]), np.ones(2)), class_="mark")
    away = np.abs(shares - 1).max()
    words = f"Ranks of the draws of {quantity.name}, by chain: at most {away:.0%} from level; level where chains agree"
    return figure(f"Ranks of {quantity.name}, by chain", words, level, *lines, axes.frame())
