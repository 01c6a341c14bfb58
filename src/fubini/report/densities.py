"""Figures of the distribution of draws: a smooth density, or the share of each whole number."""

from __future__ import annotations

import numpy as np

from fubini.questions.draw_diagnostics import describe
from fubini.report.figure_axes import Axes, figure, padded, shown
from fubini.report.html_elements import Markup, element
from fubini.report.posterior_draws import Quantity

POINTS, BINS = 80, 512
MOST_VALUES = 30  # whole numbers that have a bar each


def smooth(numbers: np.ndarray, low: float, high: float, bounds: tuple[float | None, float | None]) -> np.ndarray:
    """A kernel density estimate at points between two ends, mirrored at the bounds of the support."""
    spread = min(numbers.std(), np.subtract(*np.quantile(numbers, (0.75, 0.25))) / 1.34 or np.inf)
    width = max(0.9 * spread * numbers.size**-0.2, (high - low) / BINS)
    counts, edges = np.histogram(numbers, bins=BINS, range=(low, high))
    centres, occupied = (edges[:-1] + edges[1:]) / 2, counts > 0
    at = np.linspace(low, high, POINTS)
    sources = [centres[occupied]] + [2 * bound - centres[occupied] for bound in bounds if bound is not None]
    total = sum(np.exp(-0.5 * ((at[:, None] - source) / width) ** 2) @ counts[occupied] for source in sources)
    inside = (at >= (bounds[0] if bounds[0] is not None else -np.inf)) & (
        at <= (bounds[1] if bounds[1] is not None else np.inf)
    )
    return np.where(inside, total, 0.0) / (numbers.size * width * np.sqrt(2 * np.pi))


def support(kind: str) -> tuple[float | None, float | None]:
    """The bounds of a domain by its kind."""
    return {"positive": (0.0, None), "unit": (0.0, 1.0), "simplex": (0.0, 1.0)}.get(kind, (None, None))


def density_figure(quantity: Quantity, kind: str = "real") -> Markup:
    """The posterior of one number: its density with the 90 % interval shaded and the mean, or bars."""
    numbers = quantity.finite
    if not numbers.size:
        return element("p", f"{quantity.name} has no finite draws.")
    mean, sd, low, high = describe(numbers)
    if quantity.is_discrete and numbers.max() - numbers.min() < MOST_VALUES:
        return _bars(quantity.name, numbers.astype(np.int64))
    words = f"Posterior of {quantity.name}: mean {shown(mean)}, 90 % interval {shown(low)} to {shown(high)}"
    if sd == 0:
        return element("p", f"{quantity.name} is {shown(mean)} in every draw.")
    left, right, heights = smooth_density(numbers, kind)
    return figure(f"Density of {quantity.name}", words, *curve(left, right, heights, mean, low, high))


def smooth_density(numbers: np.ndarray, kind: str) -> tuple[float, float, np.ndarray]:
    """The ends of a density of draws, within the support of its kind, and its heights between them."""
    bounds = support(kind)
    left, right = padded(*_ends(numbers))
    left = max(left, bounds[0]) if bounds[0] is not None else left
    right = min(right, bounds[1]) if bounds[1] is not None else right
    return left, right, smooth(numbers, left, right, bounds)


def curve(left: float, right: float, heights: np.ndarray, mean: float, low: float, high: float) -> list[Markup]:
    """A density curve, with an interval shaded and a line at the mean."""
    at = np.linspace(left, right, len(heights))
    axes = Axes((left, right), (0.0, float(heights.max()) * 1.08 or 1.0))
    within = (at >= low) & (at <= high)
    shaded = axes.points(
        np.concatenate([[low], at[within], [high]]),
        np.concatenate([[np.interp(low, at, heights)], heights[within], [np.interp(high, at, heights)]]),
    )
    start, end = (float(axes.across(np.asarray(x))) for x in (low, high))
    base, centre = float(axes.down(np.asarray(0.0))), float(axes.across(np.asarray(mean)))
    return [
        element("path", d=f"{shaded}L{end:.0f} {base:.1f}L{start:.0f} {base:.1f}Z", class_="area"),
        element("path", d=axes.points(at, heights), class_="line"),
        element("path", d=f"M{centre:.1f} {base:.1f}V10", class_="mark"),
        axes.frame(has_heights=False),
    ]


def _ends(numbers: np.ndarray) -> tuple[float, float]:
    """The range of a density: all draws, but of heavy tails what lies near the middle."""
    low, high = np.quantile(numbers, (0.005, 0.995))
    room = 0.5 * (high - low)
    return max(float(numbers.min()), low - room), min(float(numbers.max()), high + room)


def _bars(name: str, numbers: np.ndarray) -> Markup:
    values, counts = np.unique(numbers, return_counts=True)
    shares = counts / counts.sum()
    axes = Axes((values[0] - 0.6, values[-1] + 0.6), (0.0, float(shares.max()) * 1.08))
    base, half = float(axes.down(np.asarray(0.0))), 0.35
    bars = []
    for value, share in zip(values, shares, strict=True):
        left, right = (float(axes.across(np.asarray(value + side))) for side in (-half, half))
        top = float(axes.down(np.asarray(share)))
        bars.append(
            element(
                "rect",
                x=f"{left:.1f}",
                y=f"{top:.1f}",
                width=f"{right - left:.1f}",
                height=f"{base - top:.1f}",
                class_="bar",
            )
        )
    step = -(-len(values) // 8)
    ticks = [(float(value), str(value)) for value in values[::step]]
    words = f"Posterior of {name}: " + ", ".join(
        f"{value} with probability {share:.2g}" for value, share in zip(values[:8], shares[:8], strict=True)
    )
    return figure(f"Probability of each value of {name}", words, *bars, axes.frame(ticks))
