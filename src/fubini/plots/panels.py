"""Panels of a picture: each draws one site on axes, and says in a sentence what is to be seen.

The subject of the sentence says what it is that is drawn: "exact posterior", "smoothed distribution".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fubini.report.figure_axes import shown

# Colours that those who do not see red or green tell apart (Okabe and Ito 2008).
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
MAIN, DARK, LIGHT = COLOURS[0], "#222222", "0.85"
SPOKEN = 4  # entries of an array that a sentence names


@dataclass(frozen=True)
class Density:
    """One number: its density, mean and 90 % interval."""

    name: str
    at: np.ndarray
    heights: np.ndarray
    mean: float
    low: float
    high: float
    height: float = 1.0

    def draw(self, axes: Any, subject: str) -> str:
        """A curve with the interval shaded and a line at the mean."""
        within = (self.at >= self.low) & (self.at <= self.high)
        inside = np.concatenate([[self.low], self.at[within], [self.high]])
        axes.fill_between(inside, np.interp(inside, self.at, self.heights), color=MAIN, alpha=0.25, lw=0)
        axes.plot(self.at, self.heights, color=MAIN)
        axes.axvline(self.mean, color=DARK, lw=1)
        axes.set(xlabel=self.name, yticks=[], ylim=(0, None))
        axes.spines["left"].set_visible(False)
        return f"{subject} of {self.name}: {_number(self.mean, self.low, self.high)}"


@dataclass(frozen=True)
class Shares:
    """One label: the probability of each of its values."""

    name: str
    labels: Sequence[str]
    shares: np.ndarray
    height: float = 1.0

    def draw(self, axes: Any, subject: str) -> str:
        """Bars."""
        axes.bar(range(len(self.shares)), self.shares, color=MAIN, width=0.8)
        places = _spread(len(self.labels), 10)
        axes.set_xticks(places, [self.labels[place] for place in places])
        axes.set(xlabel=self.name, ylabel="probability", ylim=(0, None))
        best = [int(place) for place in np.argsort(-self.shares)[:SPOKEN]]
        words = ", ".join(f"{self.labels[place]} with probability {self.shares[place]:.2g}" for place in best)
        return f"{subject} of {self.name}: {words}"


@dataclass(frozen=True)
class Intervals:
    """A few numbers of an array: the mean and the 90 % interval of each, one below the other."""

    name: str
    entries: Sequence[str]
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @property
    def height(self) -> float:
        """Higher where there are more of them."""
        return 0.55 + 0.11 * len(self.entries)

    def draw(self, axes: Any, subject: str) -> str:
        """A dot at each mean, on a line from 5 % to 95 %."""
        rows = np.arange(len(self.entries))
        axes.hlines(rows, self.low, self.high, color=MAIN, lw=2)
        axes.plot(self.mean, rows, "o", color=DARK, markersize=4)
        axes.set_yticks(rows, self.entries)
        axes.set(xlabel=self.name, ylim=(len(rows) - 0.4, -0.6))
        return f"{subject} of {self.name}: {_some(self.entries, self.mean, self.low, self.high)}"


@dataclass(frozen=True)
class Band:
    """Numbers along an axis: their means, a band around them, and points beside them."""

    name: str
    across: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    points: np.ndarray | None = None
    width: str = "90 % band"
    along: str = ""
    height: float = 1.4

    def draw(self, axes: Any, subject: str) -> str:
        """A line in a band."""
        axes.fill_between(self.across, self.low, self.high, color=MAIN, alpha=0.25, lw=0, label=self.width)
        axes.plot(self.across, self.mean, color=MAIN, label="mean")
        if self.points is not None:
            axes.plot(self.across, self.points, ".", color=DARK, markersize=4, label="data")
        axes.set(xlabel=self.along, ylabel=self.name, xlim=_ends(self.across))
        axes.legend(loc="best", fontsize="small", frameon=False)
        places = [0, len(self.mean) // 2, len(self.mean) - 1]
        words = ", ".join(f"{shown(self.mean[place])} at {shown(self.across[place])}" for place in places)
        beside = ", with the data as points" if self.points is not None else ""
        return f"{subject} of {self.name} over {len(self.mean)} positions with a {self.width}{beside}: mean {words}"


@dataclass(frozen=True)
class Points:
    """A series that is seen, alone."""

    name: str
    across: np.ndarray
    points: np.ndarray
    along: str = ""
    height: float = 1.2

    def draw(self, axes: Any, subject: str) -> str:
        """Points joined by a thin line."""
        axes.plot(self.across, self.points, ".-", color=DARK, markersize=4, lw=0.6)
        axes.set(xlabel=self.along, ylabel=self.name, xlim=_ends(self.across))
        low, high = float(np.nanmin(self.points)), float(np.nanmax(self.points))
        return f"the series {self.name}, {len(self.points)} points between {shown(low)} and {shown(high)}"


@dataclass(frozen=True)
class Regimes:
    """Labels along an axis: the probability of each value, [position, value]."""

    name: str
    across: np.ndarray
    labels: Sequence[str]
    shares: np.ndarray
    along: str = ""
    height: float = 1.0

    def draw(self, axes: Any, subject: str) -> str:
        """Areas that add up to one."""
        step = float(np.diff(self.across).min()) if len(self.across) > 1 else 1.0
        edges = np.append(self.across - step / 2, self.across[-1] + step / 2)
        below = np.zeros(len(self.across))
        for place, label in enumerate(self.labels):
            above = below + self.shares[:, place]
            axes.stairs(above, edges, baseline=below, fill=True, color=COLOURS[place % len(COLOURS)], label=label)
            below = above
        axes.set(xlabel=self.along, ylabel=f"P({self.name})", ylim=(0, 1), xlim=(edges[0], edges[-1]))
        if self.across.dtype.kind in "iu":
            axes.xaxis.get_major_locator().set_params(integer=True)
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small", frameon=False)
        best = np.bincount(self.shares.argmax(axis=1), minlength=len(self.labels))
        words = ", ".join(f"{label} at {count}" for label, count in zip(self.labels, best, strict=False))
        return f"{subject} of {self.name} at {len(self.across)} positions, the most probable value: {words}"


@dataclass(frozen=True)
class Image:
    """A matrix of means."""

    name: str
    mean: np.ndarray
    height: float = field(default=1.4)

    def draw(self, axes: Any, subject: str) -> str:
        """Shades, with a scale beside them."""
        image = axes.imshow(self.mean, aspect="auto", cmap="cividis", interpolation="nearest")
        axes.figure.colorbar(image, ax=axes)
        axes.set(title=f"mean of {self.name}", xlabel="column", ylabel="row")
        low, high = float(self.mean.min()), float(self.mean.max())
        rows, columns = self.mean.shape
        means = f"{rows} rows and {columns} columns of means between {shown(low)} and {shown(high)}"
        return f"{subject} of {self.name}, {means}"


@dataclass(frozen=True)
class Ranks:
    """Ranks in bins: how many there are in each, and the band in which 99 % of counts are if ranks are uniform."""

    name: str
    counts: np.ndarray
    expected: np.ndarray
    low: np.ndarray
    high: np.ndarray
    height: float = 1.0

    def draw(self, axes: Any, subject: str) -> str:
        """Bars before the band."""
        bins = len(self.counts)
        edges = np.linspace(0.0, 1.0, bins + 1)
        axes.stairs(self.high, edges, baseline=self.low, fill=True, color=LIGHT, label="99 % band")
        axes.stairs(self.expected, edges, color=DARK, lw=1)
        axes.bar((edges[:-1] + edges[1:]) / 2, self.counts, color=MAIN, alpha=0.7, width=0.85 / bins)
        axes.set(xlabel=f"rank of {self.name}", ylabel="simulations", xlim=(0, 1), ylim=(0, None))
        outside = int(np.sum((self.counts < self.low) | (self.counts > self.high)))
        where = "all in" if not outside else f"{outside} outside"
        band = f"the 99 % band of {self.low.min():.0f} to {self.high.max():.0f}"
        return f"{subject} of {self.name}: {bins} bins of {self.counts.min()} to {self.counts.max()}, {where} {band}"


Panel = Ranks | Density | Shares | Intervals | Band | Points | Regimes | Image


def _ends(across: np.ndarray) -> tuple[float, float]:
    room = 0.01 * float(across[-1] - across[0]) or 0.5
    return float(across[0]) - room, float(across[-1]) + room


def _spread(count: int, most: int) -> range:
    """Places spread evenly, at most so many."""
    return range(0, count, -(-count // most))


def _number(mean: float, low: float, high: float) -> str:
    return f"mean {shown(mean)}, 90 % interval {shown(low)} to {shown(high)}"


def _some(entries: Sequence[str], mean: np.ndarray, low: np.ndarray, high: np.ndarray) -> str:
    words = [f"{entry} {_number(*three)}" for entry, *three in zip(entries[:SPOKEN], mean, low, high, strict=False)]
    more = len(entries) - len(words)
    return "; ".join([*words, *([f"{more} more"] if more > 0 else [])])
