"""Where a density over a few numbers is: the modes that hold all but a trace of it, each in a box along its own axes.

A coarse grid is zoomed and moved: of the nodes at which the density is within `DEPTH` nats of its greatest, the box
takes in those and one cell around them, and it grows on a side that they touch. Other modes are looked for around 0,
and on wider and wider grids around the first, as far as the prior says that numbers may be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from fubini.numerics.frame import Frame, LogDensity, NoGrid, held

DEPTH = 20.0  # nats below the greatest density of a mode at which its box ends
REACH = 4.0  # half the width of the first box
WIDER = 5.0  # each grid on which other modes are looked for, to the one before
WIDEST = {1: 625.0, 2: 125.0, 3: 125.0}  # the last of them, to the first mode and the first box, by the numbers
PASSES = 40  # grids along a climb
CLIMBS = 4  # from the highest peaks of each grid
MOST_MODES = 8  # where there are more, the density is too rugged
TILTED = 0.5  # a correlation for which axes are changed
ROUNDED = 0.01  # nats to which a density is known, at least
TRACE = math.log(1e-6)  # the share of the mass of a mode that is dropped
TOO_MANY = f"there are more than {MOST_MODES} modes"
UNSEEN = math.log(1e-4)  # the share that may have been seen outside all modes


@dataclass(frozen=True, eq=False)
class Mode:
    """A box, and the logarithm of the mass in it."""

    frame: Frame
    log_mass: float


class Survey:
    """A density, and the grids on which it was looked at."""

    def __init__(self, log_density: LogDensity, size: int, wide: int | None = None) -> None:
        self.log_density = log_density
        self.count = {1: 65, 2: 25}.get(size, 13)  # nodes along an axis, of a climb
        self.count_of_wide = wide or {1: 1025, 2: 49}.get(size, 21)  # and of a grid on which other modes are looked for
        self.looks: list[tuple[Frame, np.ndarray]] = []
        self.why = f"the density is 0, infinite or not a number at all points between {-REACH:g} and {REACH:g}"

    def look(self, frame: Frame, count: int, without: Sequence[Mode] = ()) -> np.ndarray:
        """Values on a grid; −∞ in the boxes of some modes."""
        values = frame.values(self.log_density, count)
        self.looks.append((frame, values))
        return np.where(_on(without, frame, count), -np.inf, values) if without else values

    def outside(self, modes: Sequence[Mode]) -> tuple[float, Frame]:
        """The greatest log mass, of all grids, that lies in none of the boxes, and a box around most of it."""
        masses: list[tuple[float, Frame]] = []
        for frame, values in self.looks:
            count = len(values)
            log_mass = np.where(_on(modes, frame, count), -np.inf, values) + frame.log_cell(count)
            place = np.unravel_index(log_mass.argmax(), values.shape)
            masses.append((float(np.logaddexp.reduce(log_mass, axis=None)), _cells_around(frame, place, count)))
        return max(masses, key=lambda pair: pair[0])

    def high_nodes(self, depth: float) -> tuple[np.ndarray, np.ndarray]:
        """Points so near to the greatest density, and the log densities there."""
        points = np.concatenate([frame.points(frame.nodes(len(values))) for frame, values in self.looks])
        values = np.concatenate([values.ravel() for _, values in self.looks])
        high = values >= values.max() - depth
        return points[high], values[high]


def _on(modes: Sequence[Mode], frame: Frame, count: int) -> np.ndarray:
    """Test which nodes of a grid are in the box of a mode."""
    return _in([mode.frame for mode in modes], frame, count)


def _in(boxes: Sequence[Frame], frame: Frame, count: int) -> np.ndarray:
    """Test which nodes of a grid are in a box."""
    return held(boxes, frame.points(frame.nodes(count))).reshape((count,) * frame.size)


def surveyed(
    log_density: LogDensity,
    size: int,
    plausible: Callable[[], Frame | None] = lambda: None,
    wide: int | None = None,
) -> tuple[Survey, list[Mode]]:
    """The modes of a density; `NoGrid` where one has no end, or there are too many to be sure of.

    Peaks of a grid outside the plausible box do not count: far out, a density may consist of rounding errors. `wide`
    is the number of nodes along an axis of the grids on which modes are looked for.
    """
    survey = Survey(log_density, size, wide)
    modes: list[Mode] = []
    for frame in _wider_and_wider(size, modes, plausible):
        values = survey.look(frame, survey.count_of_wide)
        starts = _peaks(frame, values, modes)
        if modes and starts and (limits := plausible()) is not None:
            values[~_in([limits, *(mode.frame for mode in modes)], frame, len(values))] = -np.inf
            starts = _peaks(frame, values, modes)
        for start in starts:
            reached = _climbed(survey, start, modes)
            if reached is not None and reached not in modes:
                modes.append(reached)
        if not modes:
            raise NoGrid(survey.why)
        if len(modes) > MOST_MODES:
            raise NoGrid(TOO_MANY)
    return _completed(survey, modes)


def _completed(survey: Survey, modes: list[Mode]) -> tuple[Survey, list[Mode]]:
    """Add modes that others hid, of which some mass was seen, and drop those that hold only a trace."""
    while len(modes) <= MOST_MODES:
        most = max(mode.log_mass for mode in modes)
        log_mass, start = survey.outside(modes)
        if log_mass < most + UNSEEN:
            return survey, [mode for mode in modes if mode.log_mass >= most + TRACE]
        hidden = _climbed(survey, start, modes, hidden=True)
        if hidden is None:
            raise NoGrid(f"there is mass beside the known modes, and there {survey.why}")
        modes = [*modes, hidden]
    raise NoGrid(TOO_MANY)


def _wider_and_wider(
    size: int, modes: Sequence[Mode], plausible: Callable[[], Frame | None] = lambda: None
) -> Iterator[Frame]:
    """Boxes in which modes are looked for: around 0, then around the first mode, as far as they are plausible."""
    yield Frame(np.eye(size), np.full(size, -REACH), np.full(size, REACH))
    first = modes[0].frame.straightened()
    middle, half = (first.low + first.high) / 2, (first.high - first.low) / 2
    widest = WIDEST[size] * np.maximum(half, REACH)
    limits = plausible()
    if limits is not None:
        widest = np.maximum(widest, np.maximum(middle - limits.low, limits.high - middle))
    while np.any(half < widest):
        half = np.minimum(WIDER * half, widest)
        yield Frame(first.axes, middle - half, middle + half)


def _cells_around(frame: Frame, place: tuple[np.intp, ...], count: int) -> Frame:
    """Two on each side of a node."""
    z, step = frame.nodes(count)[place], frame.spacing(count)
    return Frame(frame.axes, z - 2 * step, z + 2 * step)


def _known(modes: Sequence[Mode], point: np.ndarray) -> Mode | None:
    """The mode in whose box a point lies."""
    return next((mode for mode in modes if mode.frame.holds(point[None])[0]), None)


def _peaks(frame: Frame, values: np.ndarray, modes: Sequence[Mode]) -> list[Frame]:
    """Boxes around the highest few nodes that are higher than their neighbours and in no box of a mode yet."""
    tops = (scipy.ndimage.maximum_filter(values, size=3, mode="nearest") == values) & np.isfinite(values)
    places = np.argwhere(tops & ~_on(modes, frame, len(values)) if modes else tops)
    highest = np.argsort(-values[tuple(places.T)], kind="stable")[:CLIMBS]
    return [_cells_around(frame, tuple(place), len(values)) for place in places[highest]]


def _climbed(survey: Survey, frame: Frame, modes: Sequence[Mode], hidden: bool = False) -> Mode | None:
    """The mode that is reached from a box, a known one or, of a hidden one, what these do not hold.

    None where the box grows or moves for ever, or shrinks to nothing.
    """
    count, turned = survey.count, False
    for _ in range(PASSES):
        if np.any(frame.spacing(count) < 8 * np.spacing(np.maximum(np.abs(frame.low), np.abs(frame.high)))):
            survey.why = "a mode is narrower than the spacing of its numbers"
            return None
        values = survey.look(frame, count, without=modes if hidden else ())
        top = float(values.max())
        if not math.isfinite(top):
            return None
        place = np.unravel_index(values.argmax(), values.shape)
        known = _known(modes, frame.points(frame.nodes(count)[place])[0])
        if known is not None:
            return known
        near = values >= top - DEPTH
        own = None if turned else _along_its_axes(frame, near)
        turned = own is not None
        if own is not None:
            frame = own
            continue
        first, last = _hull(near)
        if np.all(first > 0) and np.all(last < count - 1) and np.all(last - first >= count // 3):
            log_mass = float(np.logaddexp.reduce(values, axis=None)) + frame.log_cell(count)
            if np.spacing(abs(top)) < ROUNDED:
                return Mode(_around(frame, first, last, count), log_mass)
            survey.why = f"a log density of {top:.3g} is rounded too much to be compared"
            return None
        frame = _around(frame, first, last, count)
    survey.why = "a mode has no end: the density is improper, or has very long tails"
    return None


def _hull(near: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first and last place along each axis."""
    places = np.argwhere(near)
    return places.min(axis=0), places.max(axis=0)


def _around(frame: Frame, first: np.ndarray, last: np.ndarray, count: int) -> Frame:
    """Return the box from one cell before the first index to one after the last, or beyond a side of the grid.

    By twice its width where the places are a few at that side, to get ahead; by half of it where they are all.
    """
    step = frame.spacing(count)
    further = (frame.high - frame.low) * (2.0 - 1.5 * (last - first) / (count - 1))
    low = np.where(first == 0, frame.low - further, frame.low + (first - 1) * step)
    high = np.where(last == count - 1, frame.high + further, frame.low + (last + 1) * step)
    return Frame(frame.axes, low, high)


def _along_its_axes(frame: Frame, near: np.ndarray) -> Frame | None:
    """A box along axes in which the places are not correlated; None where they are few, or hardly are in this one."""
    z = frame.nodes(len(near))[near]
    if frame.size == 1 or len(z) < 3**frame.size:
        return None
    spread = np.cov(z.T) + np.diag(frame.spacing(len(near)) ** 2) / 6  # of a node and a triangular offset
    covariance = frame.axes @ spread @ frame.axes.T
    straight = not _is_tilted(covariance)
    if not _is_tilted(spread) and straight == frame.is_straight:
        return None
    axes = np.diag(np.sqrt(np.diag(covariance))) if straight else frame.axes @ np.linalg.cholesky(spread)
    own = np.linalg.solve(axes, frame.points(z).T).T
    low, high = own.min(axis=0), own.max(axis=0)
    return Frame(axes, low - 0.1 * (high - low), high + 0.1 * (high - low))


def _is_tilted(covariance: np.ndarray) -> bool:
    sd = np.sqrt(np.diag(covariance))
    return bool(np.any(np.abs(covariance / np.outer(sd, sd) - np.eye(len(sd))) > TILTED))
