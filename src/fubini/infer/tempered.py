"""Draws by sequential Monte Carlo over temperatures: right also where modes lie far apart.

Each chain is a population of its own, taken from a wide start to the density (`fubini.numerics.tempered_smc`). Modes
keep the shares of points that they had while points still went from one to another, so that no chain has to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fubini.base.arrays import Data, is_double_precision
from fubini.errors import Intractable, SamplerWarning, warn
from fubini.infer.agreement import warn_of_disagreement
from fubini.infer.normals_at_modes import normals_at_modes
from fubini.infer.sampler import Draw
from fubini.infer.stored_states import fault_of_numbers, fault_of_range, first_fault
from fubini.infer.target import Target
from fubini.infer.target_points import by_name, evaluation, flat_density, plausible_box
from fubini.numerics.log_sum_exp import log_sum_exp
from fubini.numerics.randomness import fault_of_generator, generator_of, generator_state, words
from fubini.numerics.tempered_smc import NoPath, Path, Population, Start, start_around

GROUPS = 16  # of the points of a chain
LEAST = 32  # points of a group
MOST_NUMBERS = 100  # unless it is asked for
APART = 1.0  # nats between the log evidences of chains


def is_temperable(target: Target) -> bool:
    """Whether there are few enough numbers for points to follow the density from the prior."""
    return target.size <= MOST_NUMBERS


class TemperedState(NamedTuple):
    """Of each chain: its points [chain, group, point, number] in random order, how many were drawn, and what it found.

    `log_f` and `slopes` are those of the density at the points.
    """

    points: np.ndarray
    log_f: np.ndarray
    slopes: np.ndarray
    log_evidence: np.ndarray
    step: np.ndarray  # of the moves
    made: np.ndarray  # draws, of all chains alike
    generators: np.ndarray


class TemperedSampler:
    """Points of tempered populations, one after another; when all were drawn, they are moved and drawn again."""

    name, warmup = "smc", 0

    def __init__(self, target: Target, draws: int) -> None:
        self.target, self.each = target, max(LEAST, -(-draws // GROUPS))
        self._start: Start | None = None

    @property
    def size(self) -> int:
        """Points of a chain."""
        return GROUPS * self.each

    def init(self, key: Data, chains: int) -> TemperedState:
        """Take a population for each chain to the density."""
        try:
            each = [self._population(np.random.default_rng([*words(key), chain])) for chain in range(chains)]
        except NoPath as reason:
            raise Intractable(
                f'method="smc" with {self.size:,} points for each chain',
                expected="points that can follow the density from the prior to where the data put it",
                nearest=str(reason),
                advice="ask for more draws, which are as many points; check the scale of data and priors",
            ) from None
        return _joined(each)

    def _population(self, random: np.random.Generator) -> tuple[np.ndarray, ...]:
        """Points that all weigh the same, with log f, slopes, log evidence, step and generator."""
        path = self._path(random)
        now, log_totals = path.follow(GROUPS, self.each)
        now = _shuffled(random, path.moved(now.anew(random, log_totals), 1.0))
        log_evidence = log_sum_exp(log_totals) - np.log(GROUPS)
        return (*now, np.asarray(log_evidence), np.asarray(path.step), generator_state(random))

    def _path(self, random: np.random.Generator, step: float | None = None) -> Path:
        if self._start is None:
            normals = lambda: normals_at_modes(self.target, evaluation(self.target))  # noqa: E731
            self._start = start_around(plausible_box(self.target), normals)
        return Path(random, flat_density(self.target), self.target.numbers, self._start, step)

    def step(self, state: TemperedState, skip: int, draws: int, thin: int) -> tuple[TemperedState, Draw]:
        """Go through the points, and on with new ones when they end."""
        drawn: list[tuple[np.ndarray, np.ndarray]] = []
        for transition in range(1, skip + draws * thin + 1):
            state = self._next(state)
            if transition > skip and (transition - skip) % thin == 0:
                drawn.append(self._present(state))
        if not drawn:
            return state, Draw({}, {})
        points, log_f = (np.stack(part, axis=1) for part in zip(*drawn, strict=True))
        return state, self._draw(points, log_f, state)

    def _next(self, state: TemperedState) -> TemperedState:
        """One more point of each chain is drawn."""
        if int(state.made) < self.size:
            return state._replace(made=state.made + 1)
        each = []
        for chain in range(len(state.points)):
            random = generator_of(state.generators[chain])
            path = self._path(random, float(state.step[chain]))
            now = Population(state.points[chain], state.log_f[chain], state.slopes[chain])
            now = _shuffled(random, path.moved(now, 1.0))
            each.append((*now, state.log_evidence[chain], np.asarray(path.step), generator_state(random)))
        return _joined(each)

    def _present(self, state: TemperedState) -> tuple[np.ndarray, np.ndarray]:
        """The points [chain, number] drawn last, and log f there."""
        place = divmod(int(state.made) - 1, self.each)
        return state.points[(slice(None), *place)], state.log_f[(slice(None), *place)]

    def draw(self, state: TemperedState) -> Draw:
        """Read the present draws [chain, …]."""
        points, log_f = self._present(state)
        return self._draw(points, log_f, state)

    def _draw(self, points: np.ndarray, log_f: np.ndarray, state: TemperedState) -> Draw:
        dtype = np.float64 if is_double_precision() else np.float32
        log_evidence = np.broadcast_to(state.log_evidence.reshape(-1, *[1] * (log_f.ndim - 1)), log_f.shape)
        values = {name: value.astype(dtype) for name, value in by_name(points, self.target.shapes).items()}
        return Draw(values, {"lp": log_f, "log_marginal_likelihood": log_evidence.copy()})

    def fault(self, state: TemperedState, drawn: Draw, transitions: int) -> str | None:
        """Points have a density, as many were drawn as there are, and steps are positive."""
        finite = fault_of_numbers((state.points, state.log_f, state.log_evidence, state.step))
        ranges = fault_of_range("made", state.made, 1, self.size), fault_of_range("step", state.step, 0.0, None)
        return finite or first_fault((*ranges, *map(fault_of_generator, state.generators)))


def _joined(chains: Sequence[tuple[np.ndarray, ...]]) -> TemperedState:
    """The populations of all chains, of which the first point is drawn."""
    points, log_f, slopes, log_evidence, step, generators = (np.stack(part) for part in zip(*chains, strict=True))
    return TemperedState(points, log_f, slopes, log_evidence, step, np.array(1), generators)


def _shuffled(random: np.random.Generator, now: Population) -> Population:
    """Points in random order."""
    groups, each = now.log_f.shape
    order = random.permutation(groups * each)
    return Population(*(part.reshape(groups * each, *part.shape[2:])[order].reshape(part.shape) for part in now))


def warn_of_populations(drawn: Draw) -> None:
    """Warn where chains do not agree, in their draws or in the evidence that they found."""
    found = drawn.info["log_marginal_likelihood"][:, 0]
    if np.ptp(found) > APART:
        warn(
            SamplerWarning(
                f"populations that do not agree: log evidences from {found.min():.4g} to {found.max():.4g}",
                expected=f"within {APART:g} of each other",
                advice="ask for more draws, which are as many points that look for modes",
            )
        )
    else:
        warn_of_disagreement(drawn.values)
