"""Integrals of a density over one to three numbers, with a bound on the error.

Along each axis of a box around a mode, z = c + s sinh(t): tails that fall like a power of z fall exponentially in t.
One number goes by panels of t, which are halved where the density is not smooth (`kronrod.py`). For two and three the
trapezoidal rule converges faster than any power of its step (Trefethen and Weideman 2014, Theorem 5.1): several modes
share the density by smooth weights that add up to one, and the step is halved until grids agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy

from fubini.numerics.frame import Frame, LogDensity, NoGrid
from fubini.numerics.kronrod import sum_panels
from fubini.numerics.log_sum_exp import log_sum_exp
from fubini.numerics.mode_search import Survey, surveyed

MOST_NUMBERS = 3  # of a point
FIRST_STEP = 0.25  # in t
COARSEST = 8 * FIRST_STEP  # of the grids that are compared
TOLERANCE = 1e-8  # of the integral, relative, at which the step is small enough
ACCEPTABLE = 1e-2  # and at which an answer is given at all
MOST_POINTS = 2**20  # of the grid around one mode
NEGLIGIBLE = math.log(1e-16)  # the share of the integral beyond the ends of a grid
FIRST_END, LAST_END, GROWTH = 4.0, 40.0, 1.4  # in t, and how much further each look goes
DROP = 2.0  # nats below a mode at which the density of a normal is two standard deviations away
LOWEST = 30.0  # nats below the highest peak at which others count
MOST_PEAKS = 8
CLOSER = 13  # nodes along an axis of the grids that close in on a mode
CAUTION = 4.0  # the difference of two grids counts so many times
FAST = 1.4  # the power of the difference before, at most, that one is where the rule converges exponentially
ROUNDED = 1e-12  # a difference that is of rounding errors
WIDE_NODES = {1: 4097, 2: 97, 3: 25}  # along an axis of the grids on which modes are looked for
CLEAR = 8.0  # widths from a mode to where it counts no more
PANEL = 0.5  # in t, at first
AROUND = np.array([-30.0, -10.0, -3.0, 0.0, 3.0, 10.0, 30.0])  # ends of panels about a mode, in widths


class CubatureResult(NamedTuple):
    """log ∫ f, a bound on its error, and the points and log weights whose sum it is: log Σ exp(log_weights)."""

    log_value: float
    error: float
    points: np.ndarray
    log_weights: np.ndarray


class Grid(NamedTuple):
    """Log weights on a grid in t, an axis for each number, and the points [point, number]."""

    log_weights: np.ndarray
    points: np.ndarray
    step: float

    @property
    def log_total(self) -> float:
        """The trapezoidal rule."""
        return float(log_sum_exp(self.log_weights))

    def differences(self) -> list[float]:
        """Between the totals with step and twice the step, twice and four times, four and eight times; relative."""
        totals = [self._log_total_of_each(skip) for skip in (1, 2, 4, 8)]
        return [abs(math.expm1(min(wide - totals[0], 1.0) - (fine - totals[0]))) for fine, wide in pairwise(totals)]

    def _log_total_of_each(self, skip: int) -> float:
        """The total of each so manieth node, whose weights are so many times as large along each axis."""
        some = self.log_weights[tuple(slice(None, None, skip) for _ in self.log_weights.shape)]
        return float(log_sum_exp(some)) + some.ndim * math.log(skip)

    def error(self) -> float:
        """Bound the error of the total, relative.

        For a smooth density each halving of the step squares the difference. Where there are kinks and jumps, two grids
        may agree by chance: the differences before count as well.
        """
        now, before, first = self.differences()
        if before <= max(first**FAST, ROUNDED) and now <= max(before**FAST, ROUNDED):
            return CAUTION * now
        return CAUTION * max(now, before / 2, first / 4)


class Peak(NamedTuple):
    """A mode, and distances from it along the axes of its box at which the density falls off."""

    axes: np.ndarray
    centre: np.ndarray
    width: np.ndarray
    log_mass: float
    reach: np.ndarray  # points that its grid goes at least as far as

    @property
    def log_volume(self) -> float:
        """Return the log-volume of the box of these widths."""
        return float(np.sum(np.log(self.width)) + np.linalg.slogdet(self.axes)[1])

    def points(self, z: np.ndarray) -> np.ndarray:
        """[point, number], of distances in widths."""
        return (self.centre + self.width * z).reshape(-1, len(self.centre)) @ self.axes.T

    def is_at(self, point: np.ndarray) -> bool:
        """Whether a point lies within two widths."""
        return bool(np.all(np.abs(self.distances(point)) <= 2))

    def distances(self, points: np.ndarray) -> np.ndarray:
        """[point, number], in widths."""
        return (np.linalg.solve(self.axes, points.T).T - self.centre) / self.width

    def log_normal(self, points: np.ndarray) -> np.ndarray:
        """The normal density of these widths, times the mass."""
        return self.log_mass - 0.5 * np.sum(self.distances(points) ** 2, axis=1) - self.log_volume


def integrate(
    log_density: LogDensity, size: int, plausible: Callable[[], Frame | None] = lambda: None
) -> CubatureResult:
    """∫ exp(log_density(x)) dx over all points of `size` numbers; `NoGrid` where no grid describes the density."""
    if not 1 <= size <= MOST_NUMBERS:
        raise NoGrid(f"there are {size} numbers, and a grid grows with the power of them")
    survey, modes = surveyed(log_density, size, plausible, wide=WIDE_NODES[size])
    peaks = _peaks(survey, [mode.frame for mode in modes])
    if size == 1:
        parts = [_along_line(log_density, peaks)]
    else:
        parts = [_around_peak(log_density, peaks, which) for which in range(len(peaks))]
    log_value = float(log_sum_exp([part.log_value for part in parts]))
    shares = [math.exp(part.log_value - log_value) for part in parts]
    error = sum(share * part.error for share, part in zip(shares, parts, strict=True))
    if not error <= ACCEPTABLE:
        raise NoGrid(f"the finest grid has an error of {error:.1g}: the density is not smooth, or very narrow")
    points = np.concatenate([part.points for part in parts])
    return CubatureResult(log_value, error, points, np.concatenate([part.log_weights for part in parts]))


def _peaks(survey: Survey, boxes: Sequence[Frame]) -> list[Peak]:
    """The peaks on all grids on which the density was looked at, the highest first; each covers a box that holds it."""
    greatest = max(float(values.max()) for _, values in survey.looks)
    starts: list[tuple[Any, Frame, np.ndarray, np.ndarray]] = []
    for frame, values in survey.looks:
        tops = (scipy.ndimage.maximum_filter(values, size=3, mode="nearest") == values) & (values >= greatest - LOWEST)
        nodes, step = frame.nodes(len(values)), frame.spacing(len(values))
        starts.extend((values[index], frame, nodes[index], step) for index in map(tuple, np.argwhere(tops)))
    peaks: list[Peak] = []
    for _, frame, node, step in sorted(starts, key=lambda start: -start[0]):
        if any(peak.is_at(frame.points(node)) for peak in peaks):
            continue
        peak = _peak(survey.log_density, _cell(frame, node, step, boxes), boxes)
        if not any(other.is_at(peak.points(np.zeros(frame.size))) for other in peaks):
            peaks.append(peak)
        if len(peaks) > MOST_PEAKS:
            raise NoGrid(f"there are more than {MOST_PEAKS} modes")
    return peaks


def _peak(log_density: LogDensity, frame: Frame, boxes: Sequence[Frame]) -> Peak:
    """A peak, seen on grids closer and closer to it, and how wide it is there."""
    for _ in range(64):
        nodes, step = frame.nodes(CLOSER).reshape(-1, frame.size), frame.spacing(CLOSER)
        values = log_density(frame.points(nodes))
        top = float(values.max())
        centre = nodes[values >= top - DROP / 4].mean(axis=0)
        doubled = _doublings_to_drop(log_density, frame, centre, top)
        if np.all(doubled > 0):
            width = step * 2.0 ** (doubled.mean(axis=1) - 1.0)
            log_mass = top + float(np.sum(np.log(width)) + np.linalg.slogdet(frame.axes)[1])
            return Peak(frame.axes, centre, width, log_mass, _corners(boxes))
        frame = Frame(frame.axes, centre - 2 * step, centre + 2 * step)
    raise NoGrid("a mode is narrower than the spacing of its numbers")


def _cell(frame: Frame, node: np.ndarray, step: np.ndarray, boxes: Sequence[Frame]) -> Frame:
    """A node and one step around it, along the axes of the box that it lies in."""
    point = frame.points(node)
    first: np.ndarray = point[0]
    axes = next((box.axes for box in boxes if box.holds(point)[0]), frame.axes)
    centre = np.linalg.solve(axes, first)
    reach = np.abs(np.linalg.solve(axes, frame.axes)) @ step
    return Frame(axes, centre - reach, centre + reach)


def _corners(boxes: Sequence[Frame]) -> np.ndarray:
    """The corners of boxes, [corner, number]."""
    sides = [np.stack(np.meshgrid(*zip(box.low, box.high, strict=True)), axis=-1) for box in boxes]
    return np.concatenate([box.points(side) for box, side in zip(boxes, sides, strict=True)])


def _doublings_to_drop(log_density: LogDensity, frame: Frame, centre: np.ndarray, top: float) -> np.ndarray:
    """The number of doublings of a cell before the density has dropped, [axis, side]; 0 where it has after one cell."""
    steps = frame.spacing(CLOSER) * 2.0 ** np.arange(64)[:, None]
    moves = steps[:, :, None] * np.eye(frame.size)  # [doubling, axis, number]
    points = frame.points(centre + np.stack([-moves, moves]))
    drops = top - log_density(points).reshape(2, 64, frame.size)
    return np.argmax(drops >= DROP, axis=1).T


def _around_peak(log_density: LogDensity, peaks: Sequence[Peak], which: int) -> CubatureResult:
    """The integral of the share of the density that belongs to one mode."""
    peak = peaks[which]

    def log_share(points: np.ndarray) -> np.ndarray:
        values = log_density(points)
        if len(peaks) == 1:
            return values
        bells = np.stack([other.log_normal(points) for other in peaks])
        return values + bells[which] - log_sum_exp(bells, axis=0)

    ends, step = _ends(log_share, peak), FIRST_STEP
    while True:
        grid = _grid(log_share, peak, ends, step)
        error = grid.error() + sum(_unseen(log_density, grid, peak, other) for other in peaks if other is not peak)
        following = math.prod(2 * n for n in grid.log_weights.shape)
        if error <= TOLERANCE or following > MOST_POINTS:
            break
        step /= 2
    return _result(log_density, peaks, grid.points, grid.log_weights.ravel(), error)


def _unseen(log_density: LogDensity, grid: Grid, peak: Peak, other: Peak) -> float:
    """The share of a grid that may lie about another mode, where it is too coarse to see what belongs to that."""
    away = peak.distances(other.points(np.zeros(len(peak.centre))))[0]
    spacing = grid.step * peak.width * np.sqrt(1 + away**2)
    if np.all(spacing <= np.abs(np.linalg.solve(peak.axes, other.axes * other.width)).max(axis=1)):
        return 0.0
    sides = CLEAR * np.concatenate([np.eye(len(away)), -np.eye(len(away))])
    log_mass = float(log_density(other.points(sides)).max()) + other.log_volume + len(away) * math.log(2 * CLEAR)
    return math.exp(min(log_mass - grid.log_total, 1.0))


def _along_line(log_density: LogDensity, peaks: Sequence[Peak]) -> CubatureResult:
    """The integral over one number, by panels of t that begin and end at all modes."""
    peak = max(peaks, key=lambda each: each.log_mass)
    low, high = _ends(log_density, peak)[:, 0]
    places = np.concatenate([other.points(AROUND[:, None]) for other in peaks])
    marks = np.arcsinh(peak.distances(np.concatenate([places, peak.reach]))[:, 0])
    inside = marks[(marks > -low) & (marks < high)]
    count = math.ceil((low + high) / PANEL)
    parts: list[np.ndarray] = [inside, (low + high) / count * np.arange(count + 1) - low]
    ends = np.unique(np.concatenate(parts))

    def log_function(t: np.ndarray) -> np.ndarray:
        points = peak.points(np.sinh(t)[:, None])
        return log_density(points) + np.log(np.cosh(t)) + peak.log_volume

    panels = sum_panels(log_function, ends, TOLERANCE)
    points = peak.points(np.sinh(panels.nodes.ravel())[:, None])
    return _result(log_density, peaks, points, panels.log_weights.ravel(), panels.error)


def _result(
    log_density: LogDensity, peaks: Sequence[Peak], points: np.ndarray, log_weights: np.ndarray, error: float
) -> CubatureResult:
    """The points that are not negligible, with rounding added to the error."""
    log_total = float(log_sum_exp(log_weights))
    kept = log_weights > log_total + NEGLIGIBLE - math.log(len(log_weights))
    rounding = max(_rounding(log_density, peak, float(np.max(log_weights))) for peak in peaks)
    return CubatureResult(log_total, error + rounding, points[kept], log_weights[kept])


def _rounding(log_density: LogDensity, peak: Peak, log_weight: float) -> float:
    """Estimate the rounding errors of log densities, and of points that are close together far from 0."""
    close = log_density(peak.points(1e-12 * np.arange(16)[:, None] * np.ones(len(peak.centre))))
    noise = float(np.ptp(close)) if np.all(np.isfinite(close)) else 0.0
    spacing = np.max(8 * np.spacing(np.abs(peak.centre)) / peak.width)
    return float(64 * np.spacing(1.0 + abs(log_weight)) + spacing + noise)


def _grid(log_density: LogDensity, peak: Peak, ends: np.ndarray, step: float) -> Grid:
    """The grid from −ends[0] to ends[1] along each axis, with nodes at whole multiples of the step."""
    counts = np.rint(ends / step).astype(int)
    along: list[np.ndarray] = [step * np.arange(-low, high + 1) for low, high in counts.T]
    t = np.stack(np.meshgrid(*along, indexing="ij"), axis=-1)
    points = peak.points(np.sinh(t))
    log_jacobian = np.sum(np.log(np.cosh(t)), axis=-1)
    values = log_density(points).reshape(log_jacobian.shape)
    return Grid(values + log_jacobian + t.shape[-1] * math.log(step) + peak.log_volume, points, step)


def _ends(log_density: LogDensity, peak: Peak) -> np.ndarray:
    """The ends of t on either side of each axis, [side, axis], beyond which the integral is negligible."""
    size = len(peak.centre)
    corners = peak.distances(peak.reach)
    ends = np.maximum(np.arcsinh([-corners.min(axis=0), corners.max(axis=0)]), FIRST_END)
    while True:
        ends = np.ceil(ends / COARSEST) * COARSEST  # so that all grids have the same
        grid = _grid(log_density, peak, ends, 2 * FIRST_STEP)
        beyond = np.array([[_log_face(grid, axis, side) for axis in range(size)] for side in (0, -1)])
        short = beyond > grid.log_total + NEGLIGIBLE
        if not short.any():
            return ends
        if np.any(ends[short] >= LAST_END):
            raise NoGrid("the density has very long tails, or is improper")
        ends = np.where(short, np.minimum(ends * GROWTH, LAST_END), ends)
        if math.prod(np.sum(ends / FIRST_STEP, axis=0)) > MOST_POINTS:
            raise NoGrid("the density has long tails along several axes")


def _log_face(grid: Grid, axis: int, side: int) -> float:
    """The log mass on a side of a grid, and as much again for what falls off beyond it."""
    return float(log_sum_exp(np.take(grid.log_weights, side, axis=axis))) + math.log(2 / grid.step)
