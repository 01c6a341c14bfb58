"""Where a density over a few numbers is: a box, along axes of its own, that holds all but a trace of it.

A coarse grid is zoomed and moved: of the nodes at which the density is within `DEPTH` nats of its greatest, the box
takes in those and one cell around them, and it grows by twice its width on a side that they touch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import reduce
from typing import NamedTuple

import numpy as np
from scipy.ndimage import maximum_filter

LogDensity = Callable[[np.ndarray], np.ndarray]  # of points [point, number]; −∞ where there is none
DEPTH = 20.0  # nats below the greatest density at which it is left out
WIDEST = 4.0  # half the width of the first box
PASSES = 60  # grids looked at
PEAKS = 4  # hills of the first grid that are looked at
TILTED = 0.5  # a correlation for which axes are changed


class Frame(NamedTuple):
    """The points axes · z, for z between low and high."""

    axes: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @property
    def size(self) -> int:
        """How many numbers a point has."""
        return len(self.low)

    def spacing(self, count: int) -> np.ndarray:
        """Between nodes, so many along each axis."""
        return (self.high - self.low) / (count - 1)

    def nodes(self, count: int) -> np.ndarray:
        """Coordinates z of a grid, [axis, …, number]."""
        along = [np.linspace(low, high, count) for low, high in zip(self.low, self.high, strict=True)]
        return np.stack(np.meshgrid(*along, indexing="ij"), axis=-1)

    def points(self, z: np.ndarray) -> np.ndarray:
        """[point, number], of coordinates."""
        return z.reshape(-1, self.size) @ self.axes.T

    def values(self, log_density: LogDensity, count: int) -> np.ndarray:
        """The log density at the nodes of a grid, [axis, …]."""
        return log_density(self.points(self.nodes(count))).reshape((count,) * self.size)

    def with_all_of(self, other: Frame) -> Frame:
        """The box along the same axes that holds another too."""
        corners = other.points(np.stack(np.meshgrid(*zip(other.low, other.high, strict=True)), axis=-1))
        z = np.linalg.solve(self.axes, corners.T)
        return Frame(self.axes, np.minimum(self.low, z.min(axis=1)), np.maximum(self.high, z.max(axis=1)))


class Hill(NamedTuple):
    """A box around a greatest density, and the logarithm of that."""

    frame: Frame
    height: float


def framed(log_density: LogDensity, size: int) -> Frame | None:
    """The box of a density; None where no end of it is found."""
    whole = Frame(np.eye(size), np.full(size, -WIDEST), np.full(size, WIDEST))
    hills: list[Hill] = []
    for start in _peaks(log_density, whole):
        hill = _climbed(log_density, start)
        if hill is None:
            return None
        hills.append(hill)
    hills.sort(key=lambda hill: -hill.height)
    seen = [hill.frame for hill in hills if hill.height > hills[0].height - DEPTH]
    return reduce(Frame.with_all_of, seen) if seen else None


def _coarse(size: int) -> int:
    """Nodes along an axis of a grid that is only looked at."""
    return {1: 65, 2: 25}.get(size, 13)


def _peaks(log_density: LogDensity, whole: Frame) -> Iterator[Frame]:
    """Boxes around the nodes that are higher than their neighbours, the highest first."""
    count = _coarse(whole.size)
    values, nodes, spacing = whole.values(log_density, count), whole.nodes(count), whole.spacing(count)
    places = np.argwhere((maximum_filter(values, size=3, mode="nearest") == values) & np.isfinite(values))
    for place in sorted(map(tuple, places), key=lambda place: -values[place])[:PEAKS]:
        yield Frame(whole.axes, nodes[place] - 2 * spacing, nodes[place] + 2 * spacing)


def _climbed(log_density: LogDensity, frame: Frame) -> Hill | None:
    """The box that is reached from one; None where it grows or moves for ever."""
    count, turned = _coarse(frame.size), False
    for _ in range(PASSES):
        values = frame.values(log_density, count)
        top = float(values.max())
        if not math.isfinite(top):
            return None
        near = values > top - DEPTH
        first, last = _hull(near)
        own = None if turned else _along_its_axes(frame, near)
        turned = own is not None
        if own is not None:
            frame = own
            continue
        frame = _around(frame, first, last, count)
        if np.all(first > 0) and np.all(last < count - 1) and np.all(last - first >= count // 3):
            return Hill(frame, top)
    return None


def _hull(near: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first and last place along each axis."""
    places = np.argwhere(near)
    return places.min(axis=0), places.max(axis=0)


def _around(frame: Frame, first: np.ndarray, last: np.ndarray, count: int) -> Frame:
    """From one cell before the first place to one after the last; by twice the width of the box beyond a side of it."""
    step, width = frame.spacing(count), frame.high - frame.low
    low = np.where(first == 0, frame.low - 2 * width, frame.low + (first - 1) * step)
    high = np.where(last == count - 1, frame.high + 2 * width, frame.low + (last + 1) * step)
    return Frame(frame.axes, low, high)


def _along_its_axes(frame: Frame, near: np.ndarray) -> Frame | None:
    """A box along axes in which the places are not correlated; None where they are few, or hardly are in this one."""
    z = frame.nodes(len(near))[near]
    if frame.size == 1 or len(z) < 3**frame.size:
        return None
    spread = np.cov(z.T) + np.diag(frame.spacing(len(near)) ** 2) / 6  # of a node and a triangular offset
    covariance = frame.axes @ spread @ frame.axes.T
    straight, is_straight = not _is_tilted(covariance), np.array_equal(frame.axes, np.diag(np.diag(frame.axes)))
    if is_straight if straight else not _is_tilted(spread):
        return None
    axes = np.diag(np.sqrt(np.diag(covariance))) if straight else np.linalg.cholesky(covariance)
    own = np.linalg.solve(axes, frame.points(z).T).T
    low, high = own.min(axis=0), own.max(axis=0)
    return Frame(axes, low - 0.1 * (high - low), high + 0.1 * (high - low))


def _is_tilted(covariance: np.ndarray) -> bool:
    sd = np.sqrt(np.diag(covariance))
    return bool(np.any(np.abs(covariance / np.outer(sd, sd) - np.eye(len(sd))) > TILTED))
