"""Independent draws of a density over one to three numbers.

Proposals are drawn from the multilinear interpolation of the density between the nodes of a grid: a node by its
density, then an offset with a triangular law along each axis. Metropolis–Hastings makes them draws of the density
itself; where nearly all are accepted, they are as good as independent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from scipy.interpolate import RegularGridInterpolator
from tqdm import tqdm

from fubini.arrays import Data
from fubini.factors.randomness import words
from fubini.infer.frame import Frame, LogDensity, framed
from fubini.infer.nuts import Sampled, Settings
from fubini.infer.target import Free, Shapes, Target

MOST_NUMBERS = 3  # of a point
NODES = {1: (1025, 4097), 2: (49, 97, 193), 3: (33, 49)}  # along an axis: more where proposals are refused
ACCEPTED = 0.9  # of all proposals, at least
HOPELESS = 0.5  # so few accepted that a finer grid is not tried
HEAVIEST = 10.0  # the density to that of the proposals, at most, with 1 for the average
DISCARDED = 16  # steps of each chain before its draws
BLOCK = 512  # points at which the density is computed at once, of a model with few data
WORK = 2**25  # numbers that may be looked at at once


def grid(key: Data, target: Target, settings: Settings) -> Sampled | None:
    """Draws of a target, or None where there are too many numbers or no grid describes it well."""
    if target.size > MOST_NUMBERS:
        return None
    with tqdm(disable=not settings.progress, desc="grid", unit="point") as bar:
        log_density = _evaluation(target, bar)
        frame = framed(log_density, target.size)
        if frame is None:
            return None
        random = np.random.default_rng(words(key))
        for count in NODES[target.size]:
            proposals = Interpolation(frame, frame.values(log_density, count))
            points, stats, heaviest = _corrected(random, log_density, proposals, settings)
            accepted = stats["acceptance_rate"].mean()
            if accepted >= ACCEPTED and heaviest <= HEAVIEST:
                return Sampled(_by_name(points, target.shapes), stats)
            if accepted < HOPELESS:
                return None
    return None


def _by_name(points: Any, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """Points […, number] as arrays […, *shape]."""
    ends = np.cumsum([math.prod(shape) for shape in shapes.values()])
    return {
        name: points[..., end - math.prod(shape) : end].reshape(*points.shape[:-1], *shape)
        for (name, shape), end in zip(shapes.items(), ends, strict=True)
    }


class Interpolation:
    """The density between the nodes of a grid, of which draws are easily made."""

    def __init__(self, frame: Frame, values: np.ndarray) -> None:
        count = len(values)
        self.frame, self.step = frame, frame.spacing(count)
        weights = np.exp(values - values.max())
        self.log_total = math.log(weights.sum())
        self.upto = np.cumsum(weights.ravel())
        self.nodes = frame.nodes(count).reshape(-1, frame.size)
        beyond = [
            np.linspace(low - step, high + step, count + 2)
            for low, high, step in zip(frame.low, frame.high, self.step, strict=True)
        ]
        self.between = RegularGridInterpolator(beyond, np.pad(weights, 1), bounds_error=False, fill_value=0.0)

    def draw(self, random: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Points [draw, number], and the logarithm of their density up to the size of a cell."""
        chosen = np.searchsorted(self.upto, random.uniform(0.0, self.upto[-1], count))
        z = self.nodes[np.minimum(chosen, len(self.nodes) - 1)]
        z = z + self.step * random.triangular(-1.0, 0.0, 1.0, z.shape)
        with np.errstate(divide="ignore"):
            return self.frame.points(z), np.log(self.between(z)) - self.log_total


def _corrected(
    random: np.random.Generator, log_density: LogDensity, proposals: Interpolation, settings: Settings
) -> tuple[np.ndarray, dict[str, np.ndarray], float]:
    """Draws [chain, draw, number] by Metropolis–Hastings, what is said of them, and the heaviest weight."""
    shape = (settings.chains, DISCARDED + settings.draws)
    points, log_proposed = proposals.draw(random, math.prod(shape))
    log_p = log_density(points)
    log_weight = log_p - log_proposed
    weight = np.exp(log_weight - np.max(log_weight))
    steps = np.array(
        [_accepted(mine.tolist(), np.log(random.uniform(size=shape[1])).tolist()) for mine in log_weight.reshape(shape)]
    )
    kept = (np.arange(settings.chains)[:, None] * shape[1] + steps)[:, DISCARDED:]
    moved = np.diff(steps, axis=1)[:, DISCARDED - 1 :] > 0
    return points[kept], {"lp": log_p[kept], "acceptance_rate": moved.astype(float)}, 1 / float(weight.mean())


def _accepted(log_weight: list[float], log_luck: list[float]) -> list[int]:
    """The proposal at which a chain is, at each step."""
    now, found = 0, []
    for step, (mine, luck) in enumerate(zip(log_weight, log_luck, strict=True)):
        if luck < mine - log_weight[now]:
            now = step
        found.append(now)
    return found


# -- the density at many points -------------------------------------------------------------------------------------


def _evaluation(target: Target, bar: Any) -> LogDensity:
    """The log density of a target at points, computed a block at a time."""
    read = sum(np.size(leaf) for leaf in jax.tree_util.tree_leaves(target.numbers))
    block = max(min(BLOCK, WORK // max(read, 1)), 16)
    one = _compiled(target.log_density, tuple(target.shapes.items()))

    def log_density(points: np.ndarray) -> np.ndarray:
        count = -(-len(points) // block)
        filled = np.resize(points, (count * block, points.shape[1])).reshape(count, block, -1)
        values = []
        for part in filled:
            values.append(one(part, target.numbers))
            bar.update(block)
        found = np.concatenate([np.asarray(value, np.float64) for value in values])[: len(points)]
        return np.where(np.isnan(found), -np.inf, found)

    return log_density


@lru_cache(maxsize=64)
def _compiled(log_density: Callable[[Free, Any], Data], shapes: Shapes) -> Callable[[np.ndarray, Any], Data]:
    """At points [point, number], compiled once for each density."""
    return jax.jit(
        lambda points, numbers: jax.vmap(lambda point: log_density(_by_name(point, dict(shapes)), numbers))(points)
    )
