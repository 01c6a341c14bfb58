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
from scipy.interpolate import RegularGridInterpolator
from scipy.ndimage import minimum_filter
from tqdm import tqdm

from fubini.base.arrays import Data
from fubini.errors import Intractable
from fubini.infer.sampler import Draw
from fubini.infer.stored_states import fault_of_numbers
from fubini.infer.target import Target
from fubini.infer.target_points import by_name, evaluation, plausible_box
from fubini.numerics.frame import Frame, LogDensity, NoGrid, held
from fubini.numerics.mode_search import UNSEEN, Mode, Survey, surveyed
from fubini.numerics.randomness import fault_of_generator, generator_of, generator_state, words

MOST_NUMBERS = 3  # of a point
NODES = {1: (1025, 4097), 2: (49, 97, 193), 3: (33, 49)}  # along an axis: more where proposals are refused
PILOT = 1024  # proposals by which a grid is judged
ACCEPTED = 0.9  # of them, at least
HOPELESS = 0.5  # so few accepted that a finer grid is not tried
OVERWEIGHT = 10.0  # the density to that of the proposals, at most, with 1 for the average
HIGH = 8.0  # nats below the greatest density at which nodes that were looked at are compared too
TOGETHER = 1024  # proposals that are weighed at once
DISCARDED = 16  # steps of each chain before its draws


class WeighedProposals(NamedTuple):
    """Proposals [chain, proposal, …] that chains will take in order: how likely each is, and when it is accepted."""

    points: np.ndarray
    log_p: np.ndarray
    log_weight: np.ndarray  # the log density less the one that they were drawn by
    luck: np.ndarray  # the logarithm of a uniform number


class GridState(NamedTuple):
    """Of each chain: its point, log density and log weight, whether it just moved, and the proposals to come."""

    point: np.ndarray
    log_p: np.ndarray
    log_weight: np.ndarray
    moved: np.ndarray
    ahead: WeighedProposals
    used: np.ndarray  # how many of these are behind
    generator: np.ndarray


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
        ahead = self._weigh(random, chains)
        first, log_p, log_weight = ahead.points[:, 0], ahead.log_p[:, 0], ahead.log_weight[:, 0]
        return GridState(first, log_p, log_weight, np.ones(chains), ahead, np.array(1), generator_state(random))

    def _weigh(self, random: np.random.Generator, chains: int) -> WeighedProposals:
        """Draw and weigh some proposals for each chain, at once."""
        assert self._proposals is not None, "init comes first"
        shape = (chains, max(1, TOGETHER // chains))
        points, log_p, log_weight = _weighed(random, evaluation(self.target), self._proposals, math.prod(shape))
        luck = np.log(random.uniform(size=shape))
        return WeighedProposals(points.reshape(*shape, -1), log_p.reshape(shape), log_weight.reshape(shape), luck)

    def _surveyed(self, random: np.random.Generator) -> Proposals:
        if not 1 <= self.target.size <= MOST_NUMBERS:
            raise NoGrid(f"there are {self.target.size} numbers, and a grid grows with the power of them")
        with tqdm(disable=not self.progress, desc="grid: looking for modes", unit="point") as bar:
            return _proposals(random, evaluation(self.target, bar.update), self.target)

    def step(self, state: GridState, skip: int, draws: int, thin: int) -> tuple[GridState, Draw]:
        """Accept or refuse proposals one after another, and weigh new ones where there are none."""
        parts, missing = [], skip + draws * thin
        while missing:
            if int(state.used) == state.ahead.luck.shape[1]:
                random = generator_of(state.generator)
                ahead = self._weigh(random, len(state.point))
                state = state._replace(ahead=ahead, used=np.array(0), generator=generator_state(random))
            count = min(missing, state.ahead.luck.shape[1] - int(state.used))
            state, part = _walk(state, count)
            parts.append(part)
            missing -= count
        read = skip + thin * np.arange(1, draws + 1) - 1
        points, log_p, moved = (np.concatenate(part, axis=1)[:, read] for part in zip(*parts, strict=True))
        return state, self._draw(points, log_p, moved)

    def _draw(self, points: np.ndarray, log_p: np.ndarray, moved: np.ndarray) -> Draw:
        return Draw(by_name(points, self.target.shapes), {"lp": log_p, "acceptance_rate": moved})

    def draw(self, state: GridState) -> Draw:
        """Read the present draws [chain, …]."""
        return self._draw(state.point, state.log_p, state.moved)

    def fault(self, state: GridState, drawn: Draw, transitions: int) -> str | None:
        """A state is at a point that has a density and that proposals reach."""
        if np.isnan(state.log_weight).any() or np.isnan(state.ahead.log_weight).any():
            return "a weight is not a number"
        if not 0 <= int(state.used) <= state.ahead.luck.shape[1]:
            return "it has used more proposals than there are"
        finite = fault_of_numbers((state.point, state.log_p, state.ahead.points))
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


def _walk(state: GridState, count: int) -> tuple[GridState, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The state after so many transitions, and points, log densities and moves [chain, transition] on the way."""
    begin, end = int(state.used), int(state.used) + count
    ahead = WeighedProposals(*(part[:, begin:end] for part in state.ahead))
    weights = np.concatenate([state.log_weight[:, None], ahead.log_weight], axis=1)
    steps = np.stack([_accepted(*pair) for pair in zip(weights, ahead.luck, strict=True)])
    every = (np.arange(len(steps))[:, None], steps)
    points = np.concatenate([state.point[:, None], ahead.points], axis=1)[every]
    log_p = np.concatenate([state.log_p[:, None], ahead.log_p], axis=1)[every]
    moved = np.diff(steps, axis=1, prepend=0).astype(bool).astype(float)
    last = state._replace(point=points[:, -1], log_p=log_p[:, -1], log_weight=weights[every][:, -1], moved=moved[:, -1])
    return last._replace(used=np.array(end)), (points, log_p, moved)


def _accepted(log_weight: np.ndarray, luck: np.ndarray) -> np.ndarray:
    """The place at which a chain of Metropolis–Hastings is after each of some proposals; the first is where it was."""
    weights, now, positions = log_weight.tolist(), 0, []
    for step, chance in enumerate(luck.tolist(), 1):
        if chance < weights[step] - weights[now]:
            now = step
        positions.append(now)
    return np.array(positions)


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
        self._between = RegularGridInterpolator(beyond, np.pad(weights, 1), bounds_error=False, fill_value=0.0)

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
    return minimum_filter(inside, size=3, mode="nearest")
