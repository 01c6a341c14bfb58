"""Predictive checks: what the model would predict again, beside what was observed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fubini.report.densities import smooth
from fubini.report.figure_axes import Axes, figure, padded, shown
from fubini.report.html_elements import Markup, Part, element, table
from fubini.report.posterior_draws import PosteriorDraws

REPLICATED = 30  # data sets that are drawn beside the observed one
MOST = 60  # observations that have an interval each
DRAWS = 1000  # predictive draws that are looked at
NUMBERS = 2_000_000
STATISTICS = {"mean": np.mean, "standard deviation": np.std, "least": np.min, "greatest": np.max}


def predictive_checks(draws: PosteriorDraws) -> Iterator[Part]:
    """The checks of each observed site."""
    for name, observed in draws.observed.items():
        predicted = draws.predictive.get(name)
        if predicted is None or predicted.dtype.kind not in "biuf" or predicted.shape[2:] != observed.shape:
            continue
        replicated = _thinned(predicted.reshape(-1, observed.size))
        values = observed.astype(np.float64).reshape(-1)
        known = np.isfinite(values)
        if known.any():
            yield element("h3", name)
            yield from _checks(name, values[known], replicated[:, known].astype(np.float64))


def _thinned(replicated: np.ndarray) -> np.ndarray:
    """Some data sets of many, spread evenly."""
    most = max(50, min(DRAWS, NUMBERS // replicated.shape[1]))
    return replicated[:: max(1, -(-len(replicated) // most))]


def _checks(name: str, observed: np.ndarray, replicated: np.ndarray) -> Iterator[Part]:
    low, high = np.quantile(replicated, (0.05, 0.95), axis=0)
    within = int(((observed >= low) & (observed <= high)).sum())
    yield element("p", coverage(name, within, observed.size))
    figures = [_intervals(name, observed, low, high, np.median(replicated, axis=0))]
    if observed.size > 4 and np.ptp(observed) > 0:
        figures.append(_overlay(name, observed, replicated))
    yield element("div", figures, class_="figures")
    if observed.size > 1:
        compared = {word: _compared(statistic, observed, replicated) for word, statistic in STATISTICS.items()}
        rows = [(word, *cells) for word, (cells, _) in compared.items()]
        head = ("statistic", "observed", "predicted, 90 % interval", "share above the observed")
        yield table(f"Statistics of {name}, observed and predicted", head, rows)
        yield element("p", _said([word for word, (_, is_unusual) in compared.items() if is_unusual]))


def coverage(name: str, within: int, count: int) -> str:
    """How many observations lie in their 90 % predictive intervals, in words.

    >>> coverage("y", 9, 10)
    '9 of 10 observations of y (90 %) lie within their 90 % predictive intervals, as they should.'
    """
    share = within / count
    chance = 2 * (0.9 * 0.1 / count) ** 0.5 + 0.5 / count
    if share < 0.9 - chance:
        verdict = "fewer than they should: the model does not predict these data well"
    elif share > 0.9 + chance:
        verdict = "more than they should: the predictions are wider than the data need"
    else:
        verdict = "as they should"
    said = f"{within:,} of {count:,} observations of {name} ({share:.0%}".replace("%", " %")
    return f"{said}) lie within their 90 % predictive intervals, {verdict}."


def _compared(statistic: Callable[..., Any], observed: np.ndarray, replicated: np.ndarray) -> tuple[tuple, bool]:
    """A statistic of the data, its predictive interval, the share above; and whether that is unusual."""
    known, predicted = float(statistic(observed)), statistic(replicated, axis=1)
    low, high = np.quantile(predicted, (0.05, 0.95))
    above = float((predicted > known).mean() + 0.5 * (predicted == known).mean())
    return (shown(known), f"{shown(low)} to {shown(high)}", f"{above:.2f}"), not 0.02 <= above <= 0.98


def _said(extreme: list[str]) -> str:
    if not extreme:
        return "None of these statistics of the data is unusual under the model."
    return f"Unusual under the model: {', '.join(extreme)} of the data. The model misses something that shows there."


def _intervals(name: str, observed: np.ndarray, low: np.ndarray, high: np.ndarray, middle: np.ndarray) -> Markup:
    """Each observation with its predictive interval; of many, some of them."""
    places = np.arange(observed.size)[:: max(1, -(-observed.size // MOST))]
    ends = np.concatenate([observed[places], low[places], high[places]])
    axes = Axes((-0.5, observed.size - 0.5), padded(float(ends.min()), float(ends.max())))
    across, radius = axes.across(places), 3 if places.size < 40 else 2
    parts = []
    for x, a, b, m, y in zip(across, *(axes.down(v[places]) for v in (low, high, middle, observed)), strict=True):
        parts.append(element("path", d=f"M{x:.1f} {a:.1f}V{b:.1f}M{x - 2:.1f} {m:.1f}h4", class_="whisker"))
        parts.append(element("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=radius, class_="dot"))
    some = f", {places.size} of {observed.size:,}" if places.size < observed.size else ""
    words = f"Observations of {name}{some}, as points, with their 90 % predictive intervals as lines"
    ticks = [(float(place), str(place)) for place in places[:: max(1, -(-places.size // 6))]]
    return figure(f"{name}: observed (points) and 90 % predicted (lines){some}", words, *parts, axes.frame(ticks))


def _overlay(name: str, observed: np.ndarray, replicated: np.ndarray) -> Markup:
    """The distribution of the data over those of data sets that the model predicts."""
    some = replicated[:: max(1, len(replicated) // REPLICATED)][:REPLICATED]
    low, high = np.quantile(np.concatenate([some.reshape(-1), observed]), (0.002, 0.998))
    left, right = padded(float(low), float(high), 0.1)
    left, right = min(left, observed.min()), max(right, observed.max())
    curves = [smooth(row, left, right, (None, None)) for row in (*some, observed) if np.ptp(row) > 0]
    axes = Axes((left, right), (0.0, float(max(curve.max() for curve in curves)) * 1.05))
    at = np.linspace(left, right, curves[0].size)
    lines = [element("path", d=axes.points(at, curve), class_="faint") for curve in curves[:-1]]
    lines.append(element("path", d=axes.points(at, curves[-1]), class_="line strong"))
    words = f"The distribution of {name}, observed (thick line) over {len(some)} data sets predicted by the model"
    return figure(
        f"{name}: observed (thick line) over {len(some)} predicted data sets",
        words,
        *lines,
        axes.frame(has_heights=False),
    )
