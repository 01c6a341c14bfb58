"""A box of points with a few numbers each, along axes of its own, and grids in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

LogDensity = Callable[[np.ndarray], np.ndarray]  # of points [point, number]; −∞ where there is none


class NoGrid(Exception):
    """The reason why no grid describes a density."""


class Frame(NamedTuple):
    """The points axes · z, for z between low and high."""

    axes: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @property
    def size(self) -> int:
        """The number of coordinates of a point."""
        return len(self.low)

    @property
    def is_straight(self) -> bool:
        """Whether its axes are those of the numbers."""
        return np.array_equal(self.axes, np.diag(np.diag(self.axes)))

    def spacing(self, count: int) -> np.ndarray:
        """Return the distance between nodes, so many along each axis."""
        return (self.high - self.low) / (count - 1)

    def log_cell(self, count: int) -> float:
        """The logarithm of the volume of a cell."""
        return float(np.sum(np.log(self.spacing(count))) + np.linalg.slogdet(self.axes)[1])

    def nodes(self, count: int) -> np.ndarray:
        """Coordinates z of a grid, [axis, …, number]."""
        along: list[np.ndarray] = [np.linspace(low, high, count) for low, high in zip(self.low, self.high, strict=True)]
        return np.stack(np.meshgrid(*along, indexing="ij"), axis=-1)

    def points(self, z: np.ndarray) -> np.ndarray:
        """[point, number], of coordinates."""
        return z.reshape(-1, self.size) @ self.axes.T

    def coordinates(self, points: np.ndarray) -> np.ndarray:
        """[point, number], of points."""
        return np.linalg.solve(self.axes, points.T).T

    def holds(self, points: np.ndarray) -> np.ndarray:
        """Whether points lie in the box."""
        z = self.coordinates(points)
        return np.all((self.low <= z) & (z <= self.high), axis=1)

    def values(self, log_density: LogDensity, count: int) -> np.ndarray:
        """The log density at the nodes of a grid, [axis, …]."""
        return log_density(self.points(self.nodes(count))).reshape((count,) * self.size)

    def straightened(self) -> Frame:
        """The box along the axes of the numbers that holds this one."""
        corners = self.points(np.stack(np.meshgrid(*zip(self.low, self.high, strict=True)), axis=-1))
        return Frame(np.eye(self.size), corners.min(axis=0), corners.max(axis=0))

    def widened(self, times: float) -> Frame:
        """The same middle."""
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        return Frame(self.axes, middle - times * half, middle + times * half)


def held(frames: Sequence[Frame], points: np.ndarray) -> np.ndarray:
    """Whether points lie in one of the boxes."""
    return np.any([frame.holds(points) for frame in frames], axis=0)
