"""Independent draws of a density over one to three numbers.

Proposals are drawn from the multilinear interpolation of the density between the nodes of a grid around each of its
modes: a node by its density, then an offset with a triangular distribution along each axis. Metropolis–Hastings makes
them draws of the density itself; where nearly all are accepted, they are as good as independent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import scipy
from tqdm import tqdm

from fubini.base.arrays import Data
from fubini.errors import Intractable
from fubini.infer.sampler import Draw
from fubini.infer.stored_states import fault_of_numbers
from fubini.infer.target import Target
from fubini.infer.target_points import by_name, evaluation, operations, plausible_box
from fubini.numerics.frame import Frame, LogDensity, NoGrid, held
from fubini.numerics.mode_search import UNSEEN, Mode, Survey, surveyed
from fubini.numerics.randomness import fault_of_generator, generator_of, generator_state, words

MOST_NUMBERS = 3  # of a point
NODES = {1: (1025, 4097), 2: (49, 97, 193), 3: (33, 49)}  # along an axis: more where proposals are refused
POINTS = {1: 5_000, 2: 20_000, 3: 100_000}  # at which a density is looked at, about
WORK = 1e10  # operations that are worth it where another method is at hand: some seconds
PILOT = 1024  # proposals by which a grid is judged
ACCEPTED = 0.9  # of them, at least
HOPELESS = 0.5  # so few accepted that a finer grid is not tried
OVERWEIGHT = 10.0  # the density to that of the proposals, at most, with 1 for the average
HIGH = 8.0  # nats below the greatest density at which nodes that were looked at are compared too
TOGETHER = 1024  # proposals that are weighed at once
DISCARDED = 16  # steps of each chain before its draws


def is_worthwhile(target: Target) -> bool:
    """Whether a grid takes few operations, for so few numbers of a density that is quickly computed."""
    return target.size in POINTS and operations(target) * POINTS[target.size] <= WORK


class GridPath(NamedTuple):
    """Where chains go by the proposals weighed last: arrays [chain, transition, …]."""

    points: np.ndarray
    log_p: np.ndarray
    log_weight: np.ndarray  # the log density less the one that the proposals were drawn by
    moved: np.ndarray  # whether the proposal was accepted


class GridState(NamedTuple):
    """The path of each chain, how many of its transitions were made, and the generator of the next proposals."""

    path: GridPath
    made: np.ndarray
    generator: np.ndarray

    @property
    def present(self) -> GridPath:
        """The last transition that was made: arrays [chain, …]."""
        return GridPath(*(part[:, int(self.made) - 1] for part in self.path))


class GridSampler:
    """Metropolis–Hastings by proposals that a grid makes, which are nearly draws of the target."""

    name, warmup = "grid", DISCARDED

    def __init__(self, target: Target, progress: bool = False) -> None:
        self.target, self.progress = target, progress
        self._proposals: Proposals | None = None

    def init(self, key: Data, chains: int) -> GridState:
        """Survey the density, or say why no grid describes it well."""
        size, random = self.target.size, np.random.default_rng(words(key))
        try:
            self._proposals = self._surveyed(random)
        except NoGrid as reason:
            raise Intractable(
                f"a grid for {size} number{'s' * (size != 1)}",
                expected=f"at most {MOST_NUMBERS}, with a density that a grid describes: of few modes, "
                "without long tails",
                nearest=str(reason),
                advice='leave method= out, or use method="nuts"',
            ) from None
        path = self._walk(random, chains)
        return GridState(path, np.array(1), generator_state(random))

    def _walk(self, random: np.random.Generator, chains: int, before: GridPath | None = None) -> GridPath:
        """Draw and weigh some proposals for each chain, at once, and accept or refuse them one after another."""
        assert self._proposals is not None, "init comes first"
        shape = (chains, max(1, TOGETHER // chains))
        points, log_p, log_weight = _weighed(random, evaluation(self.target), self._proposals, math.prod(shape))
        luck = np.log(random.uniform(size=shape))
        new = GridPath(points.reshape(*shape, -1), log_p.reshape(shape), log_weight.reshape(shape), np.ones(shape))
        if before is None:  # chains begin with their first proposal
            return _accept(new, luck[:, 1:])
        joined = GridPath(*(np.concatenate([old[:, None], part], 1) for old, part in zip(before, new, strict=True)))
        return GridPath(*(part[:, 1:] for part in _accept(joined, luck)))

    def _surveyed(self, random: np.random.Generator) -> Proposals:
        if not 1 <= self.target.size <= MOST_NUMBERS:
            raise NoGrid(f"there are {self.target.size} numbers, and a grid grows with the power of them")
        with tqdm(disable=not self.progress, desc="grid: looking for modes", unit="point") as bar:
            return _proposals(random, evaluation(self.target, bar.update), self.target)

    def step(self, state: GridState, skip: int, draws: int, thin: int) -> tuple[GridState, Draw]:
        """Go along the path, and on by new proposals where it ends."""
        parts, missing, place = [], skip + draws * thin, 0
        while missing:
            if int(state.made) == state.path.log_p.shape[1]:
                random = generator_of(state.generator)
                path = self._walk(random, len(state.path.log_p), state.present)
                state = GridState(path, np.array(0), generator_state(random))
            begin = int(state.made)
            count = min(missing, state.path.log_p.shape[1] - begin)
            first = skip + max(1, (place - skip) // thin + 1) * thin - place - 1  # of those that are kept
            parts.append([part[:, begin + first : begin + count : thin] for part in state.path])
            state, missing, place = state._replace(made=np.array(begin + count)), missing - count, place + count
        points, log_p, _, moved = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
        return state, self._draw(points, log_p, moved)

    def _draw(self, points: np.ndarray, log_p: np.ndarray, moved: np.ndarray) -> Draw:
        return Draw(by_name(points, self.target.shapes), {"lp": log_p, "acceptance_rate": moved})

    def draw(self, state: GridState) -> Draw:
        """Read the present draws [chain, …]."""
        here = state.present
        return self._draw(here.points, here.log_p, here.moved)

    def fault(self, state: GridState, drawn: Draw, transitions: int) -> str | None:
        """A path goes through points that have a density and that proposals reach."""
        if np.isnan(state.path.log_weight).any():
            return "a weight is not a number"
        if not 1 <= int(state.made) <= state.path.log_p.shape[1]:
            return "it is past the end of its path"
        finite = fault_of_numbers((state.path.points, state.path.log_p))
        return finite or fault_of_generator(state.generator)


def _proposals(random: np.random.Generator, log_density: LogDensity, target: Target) -> Proposals:
    """The coarsest that are good, by a pilot."""
    survey, modes = surveyed(log_density, target.size, cache(lambda: plausible_box(target)))
    if _spills(random, log_density, modes):
        raise NoGrid("there is mass around the known modes, as between many of which a grid misses some")
    share = 0.0
    for count in NODES[target.size]:
        proposals = Proposals(log_density, modes, count)
        _, _, log_weight = _weighed(random, log_density, proposals, PILOT)
        luck = np.log(random.uniform(size=PILOT - 1))
        share = np.mean(np.diff(_accepted(log_weight, luck), prepend=0) > 0) if np.any(np.isfinite(log_weight)) else 0.0
        if share >= ACCEPTED and not _is_overweight(survey, proposals, log_weight):
            return proposals
        if share < HOPELESS:
            break
    if share >= ACCEPTED:
        raise NoGrid("the density between nodes is much greater than at them")
    raise NoGrid(f"between nodes the density bends too much: {share:.0%} of proposals are accepted")


def _spills(random: np.random.Generator, log_density: LogDensity, modes: Sequence[Mode]) -> bool:
    """Whether there is mass around the boxes of modes, as where there are many and a grid shows only some."""
    most = max(mode.log_mass for mode in modes)
    for mode in modes:
        wide = mode.frame.widened(2.0)
        points = wide.points(random.uniform(wide.low, wide.high, (PILOT, wide.size)))
        outside = ~held([other.frame for other in modes], points)
        log_volume = wide.log_cell(2) - math.log(PILOT)
        if outside.any() and np.logaddexp.reduce(log_density(points)[outside]) + log_volume > most + UNSEEN:
            return True
    return False


def _is_overweight(survey: Survey, proposals: Proposals, log_weight: np.ndarray) -> bool:
    """Whether the density is much greater than that of the proposals, at one of them or where it was looked at."""
    points, log_p = survey.high_nodes(HIGH)
    greatest = max(np.max(log_weight), np.max(log_p - proposals.log_density(points)))
    average = np.logaddexp.reduce(log_weight) - math.log(len(log_weight))
    return not greatest - average <= math.log(OVERWEIGHT)


def _weighed(
    random: np.random.Generator, log_density: LogDensity, proposals: Proposals, count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Proposals, their log density, and that less the one they were drawn by."""
    points = proposals.draw(random, count)
    log_p = log_density(points)
    return points, log_p, log_p - proposals.log_density(points)


def _accept(proposals: GridPath, luck: np.ndarray) -> GridPath:
    """The path of chains that begin with the first of these proposals, and accept or refuse each of the others."""
    positions = np.stack([_accepted(*pair) for pair in zip(proposals.log_weight, luck, strict=True)])
    positions = np.pad(positions, ((0, 0), (1, 0)))
    points, log_p, log_weight, _ = (part[np.arange(len(positions))[:, None], positions] for part in proposals)
    moved = np.diff(positions, axis=1, prepend=-1).astype(bool).astype(float)
    return GridPath(points, log_p, log_weight, moved)


def _accepted(log_weight: np.ndarray, luck: np.ndarray) -> np.ndarray:
    """The place at which a chain of Metropolis–Hastings is after each of some proposals; the first is where it was."""
    weights, now, positions = log_weight.tolist(), 0, []
    for step, chance in enumerate(luck.tolist(), 1):
        if chance < weights[step] - weights[now]:
            now = step
        positions.append(now)
    return np.array(positions, int)


# -- proposals ------------------------------------------------------------------------------------------------------


class Interpolation:
    """The density between the nodes of a grid, as a multiple of exp(`log_scale`), of which draws are easily made."""

    def __init__(self, frame: Frame, values: np.ndarray) -> None:
        count = len(values)
        self.frame, self.step, self.log_scale = frame, frame.spacing(count), float(values.max())
        weights = np.exp(values - self.log_scale)
        self.log_mass = self.log_scale + math.log(weights.sum()) + frame.log_cell(count)
        self._upto = np.cumsum(weights.ravel())
        self._nodes = frame.nodes(count).reshape(-1, frame.size)
        beyond = [
            np.linspace(low - step, high + step, count + 2)
            for low, high, step in zip(frame.low, frame.high, self.step, strict=True)
        ]
        self._between = scipy.interpolate.RegularGridInterpolator(
            beyond, np.pad(weights, 1), bounds_error=False, fill_value=0.0
        )

    def draw(self, random: np.random.Generator, count: int) -> np.ndarray:
        """Points [draw, number]."""
        chosen = np.searchsorted(self._upto, random.uniform(0.0, self._upto[-1], count))
        z = self._nodes[np.minimum(chosen, len(self._nodes) - 1)]
        return self.frame.points(z + self.step * random.triangular(-1.0, 0.0, 1.0, z.shape))

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """Of points [point, number]."""
        with np.errstate(divide="ignore"):
            return np.log(self._between(self.frame.coordinates(points))) + self.log_scale


class Proposals:
    """The sum of the interpolations around all modes, each without what is well inside the box of one before."""

    def __init__(self, log_density: LogDensity, modes: Sequence[Mode], count: int) -> None:
        self.parts: list[Interpolation] = []
        for mode in modes:
            frame, values = mode.frame, mode.frame.values(log_density, count)
            for part in self.parts:
                values = np.where(_well_inside(part.frame, frame, count), -np.inf, values)
            self.parts.append(Interpolation(frame, values))

    def draw(self, random: np.random.Generator, count: int) -> np.ndarray:
        """Points [draw, number], in random order."""
        log_mass = np.array([part.log_mass for part in self.parts])
        share = np.exp(log_mass - log_mass.max())
        counts = random.multinomial(count, share / share.sum())
        drawn = [part.draw(random, int(size)) for part, size in zip(self.parts, counts, strict=True)]
        return random.permutation(np.concatenate(drawn))

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """Of points [point, number], up to a constant: about that of the target."""
        return np.logaddexp.reduce([part.log_density(points) for part in self.parts])


def _well_inside(box: Frame, frame: Frame, count: int) -> np.ndarray:
    """Of the nodes of a grid on `frame`, whether all their neighbours lie in a box."""
    inside = box.holds(frame.points(frame.nodes(count))).reshape((count,) * frame.size)
    return scipy.ndimage.minimum_filter(inside, size=3, mode="nearest")
