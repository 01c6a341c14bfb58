"""Evidence and draws by sequential Monte Carlo over temperatures (Del Moral, Doucet and Jasra 2006, section 2.3).

Points go from a wide product of Student's t, q, to the density f along the path q^(1−β) f^β. Each temperature β is as
far from the one before as the weights allow; then points are chosen anew by weight, and moved by Hamiltonian Monte
Carlo. They are in groups that never meet, so that the spread of the groups' evidences is their standard error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import gammaln

from fubini.base.arrays import Data
from fubini.numerics.frame import Frame
from fubini.numerics.log_sum_exp import log_sum_exp
from fubini.numerics.normal_at_mode import Normal

TracedDensity = Callable[[Data, Any], Data]  # log f of the numbers of one point, and of the data that it reads

GROUPS = 16  # of points, at most
GROUP = 32  # points of a group, where there are enough for more than two
MOST_TEMPERATURES = 500
SHARE = 0.7  # effective points of a step between temperatures, of all points
FREEDOM = 2.0  # degrees of q's Student's t: tails as heavy as those of most densities
FORGOTTEN = 0.1  # correlation of log f/q before and after the moves at one temperature
MOST_TRAJECTORIES = 12  # at one temperature
FIRST_STEP = 1.5  # of one number
QUARTER = math.pi / 2  # the length of a trajectory: a quarter of a turn is far from where it began
MOST_STEPS = 24  # of a trajectory
TAIL = 2.0  # points further out, in widths of the middle 68 %, do not widen the spread
ACCEPTANCE = 0.7, 0.9  # steps are shortened below, lengthened above
STUCK = 0.05  # acceptance at which points do not move
HALVINGS = 60  # of the interval in which the next temperature lies
BLOCK = 256  # points that are moved at once
BOX = 7.0  # standard deviations between the ends of the box in which a prior puts a number
FAR = 5.0  # standard deviations at a mode, where there is no prior


class Start(NamedTuple):
    """The middle and the scale of each number, of a wide distribution that the points are drawn from first."""

    centre: np.ndarray
    scale: np.ndarray


class Tempered(NamedTuple):
    """Points [point, number] with their log weights and the standard error of log Σ weights."""

    points: np.ndarray
    log_weights: np.ndarray
    error: float


class NoPath(Exception):
    """The reason why points could not follow the path."""


class Population(NamedTuple):
    """Points [group, point, number], log f [group, point] there, and its slopes [group, point, number]."""

    points: np.ndarray
    log_f: np.ndarray
    slopes: np.ndarray

    def chosen(self, places: np.ndarray) -> Population:
        """Those at some places [group, point] of their groups."""
        rows = np.arange(len(places))[:, None]
        return Population(*(part[rows, places] for part in self))

    def anew(self, random: np.random.Generator, log_totals: np.ndarray) -> Population:
        """Points of all groups chosen by the evidence of these, so that all weigh the same."""
        groups, each = self.log_f.shape
        places = systematic(random, np.repeat(log_totals, each))
        return Population(*(part.reshape(groups * each, *part.shape[2:])[places].reshape(part.shape) for part in self))

    def halves(self) -> list[Population]:
        """The first and the second half of the groups."""
        middle = len(self.points) // 2
        return [Population(*(part[:middle] for part in self)), Population(*(part[middle:] for part in self))]

    def spread(self) -> np.ndarray:
        """A root of the covariance of the points, of their variances alone where there are few."""
        points = self.points.reshape(-1, self.points.shape[-1])
        low, middle, high = np.quantile(points, (0.16, 0.5, 0.84), axis=0)
        points = np.clip(points, middle - TAIL * (high - low), middle + TAIL * (high - low))
        size, deviation = points.shape[1], points.std(axis=0)
        deviation = np.where(deviation > 0, deviation, 1.0)
        if len(points) < 10 * size:
            return np.diag(deviation)
        correlation = np.corrcoef((points / deviation).T).reshape(size, size)
        correlation = 0.99 * np.where(np.isfinite(correlation), correlation, 0.0) + 0.01 * np.eye(size)
        np.fill_diagonal(correlation, 1.0)
        return deviation[:, None] * np.linalg.cholesky(correlation)


def tempered_smc(
    random: np.random.Generator, log_density: TracedDensity, numbers: Any, start: Start, n: int
) -> Tempered:
    """∫ f(x) dx and draws of f/∫f, from n points; `NoPath` where the points cannot follow."""
    groups = max(2, min(GROUPS, n // GROUP))
    each = max(2, n // groups)
    now, log_totals = Path(random, log_density, numbers, start).follow(groups, each)
    log_weights = np.repeat(log_totals - math.log(groups * each), each)
    return Tempered(now.points.reshape(groups * each, -1), log_weights, standard_error(log_totals))


def start_around(box: Frame | None, normals: Callable[[], Sequence[Normal]]) -> Start:
    """Where a prior puts the numbers; where there is none, far around the highest mode."""
    if box is not None:
        return Start((box.low + box.high) / 2, np.maximum(box.high - box.low, 1e-6) / BOX)
    highest = max(normals(), key=lambda normal: normal.log_mass)
    return Start(highest.mode, FAR * np.sqrt(np.sum(highest.root**2, axis=1)))


def standard_error(log_totals: np.ndarray) -> float:
    """Of the log of the mean of evidences; where a few of them are most of the mean, as if they were log-normal."""
    shares = np.exp(log_totals - log_totals.max())
    seen = shares.std(ddof=1) / shares.mean()
    expected = math.sqrt(math.expm1(min(log_totals.var(ddof=1), 700.0)))
    return float(max(seen, expected) / math.sqrt(len(log_totals)))


def log_start(points: Any, start: Start, xp: Any = np) -> Any:
    """log q of points […, number]"""
    front = gammaln((FREEDOM + 1) / 2) - gammaln(FREEDOM / 2) - 0.5 * math.log(FREEDOM * math.pi)
    z = (points - start.centre) / start.scale
    return xp.sum(front - xp.log(start.scale) - (FREEDOM + 1) / 2 * xp.log1p(z**2 / FREEDOM), axis=-1)


def slope_of_start(points: Any, start: Start) -> Any:
    """∂ log q / ∂ x"""
    z = (points - start.centre) / start.scale
    return -(FREEDOM + 1) / FREEDOM * z / (1 + z**2 / FREEDOM) / start.scale


def _next_temperature(log_ratio: np.ndarray, beta: float) -> float:
    """The temperature at which the weights are worth a share of the points: at most 1."""

    def excess(to: float) -> float:
        log_weights = (to - beta) * log_ratio
        return float(2 * log_sum_exp(log_weights) - log_sum_exp(2 * log_weights)) - math.log(SHARE * len(log_ratio))

    if excess(1.0) >= 0:
        return 1.0
    low, high = beta, 1.0
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if excess(middle) >= 0 else (low, middle)
    return high


def systematic(random: np.random.Generator, log_weights: np.ndarray) -> np.ndarray:
    """As many places as there are weights, each about as often as its share."""
    n = len(log_weights)
    ends = np.cumsum(np.exp(log_weights - log_sum_exp(log_weights)))
    return np.minimum(np.searchsorted(ends, (np.arange(n) + random.uniform()) / n), n - 1)


def _correlation(before: np.ndarray, after: np.ndarray) -> float:
    with np.errstate(invalid="ignore"):
        found = float(np.corrcoef(before.ravel(), after.ravel())[0, 1])
    return found if math.isfinite(found) else 0.0


class Path:
    """Moves of points at the temperatures of a path; steps are shortened and lengthened on the way."""

    def __init__(
        self,
        random: np.random.Generator,
        log_density: TracedDensity,
        numbers: Any,
        start: Start,
        step: float | None = None,
    ) -> None:
        self.random, self.numbers, self.start = random, numbers, start
        self.trajectory = _trajectory(log_density)
        self.step = FIRST_STEP * len(start.centre) ** -0.25 if step is None else step

    def follow(self, groups: int, each: int) -> tuple[Population, np.ndarray]:
        """Take points from the start to the density: their groups, and the log evidence that each group found."""
        shape = (groups, each, len(self.start.centre))
        now = self.begin(self.start.centre + self.start.scale * self.random.standard_t(FREEDOM, shape))
        log_totals, beta = np.zeros(groups), 0.0
        for _ in range(MOST_TEMPERATURES):
            log_ratio = self.log_ratio(now)
            if not np.any(log_ratio > -np.inf, axis=1).all():
                raise NoPath(f"all {each:,} draws of a group have density 0 at temperature {beta:.3g}")
            beta_before, beta = beta, _next_temperature(log_ratio[log_ratio > -np.inf], beta)
            log_weights = (beta - beta_before) * log_ratio
            log_totals += log_sum_exp(log_weights, axis=1) - math.log(each)
            now = self.moved(now.chosen(np.stack([systematic(self.random, row) for row in log_weights])), beta)
            if beta == 1.0:
                return now, log_totals
        raise NoPath(f"after {MOST_TEMPERATURES} temperatures the last is {beta:.3g}")

    def begin(self, points: np.ndarray) -> Population:
        """The density at points: a step of no length."""
        unknown = Population(points, np.full(points.shape[:2], -np.inf), np.zeros_like(points))
        return self._gone(unknown, 1.0, np.eye(points.shape[-1]), 0.0, 1)[0]

    def moved(self, now: Population, beta: float) -> Population:
        """Points whose log f/q has little to do with what it was before.

        Half of the groups is moved along the spread of the other half, in turn. The spread of the points themselves
        would lean on where they are, and the moves would not leave the density as it is.
        """
        began, halves, rate = self.log_ratio(now), now.halves(), 0.0
        for _ in range(MOST_TRAJECTORIES):
            count, rates = max(1, min(MOST_STEPS, round(QUARTER / self.step))), [0.0, 0.0]
            for which in (0, 1):
                spread = halves[1 - which].spread()
                halves[which], rates[which] = self._gone(halves[which], beta, spread, self.step, count)
            now, rate = Population(*(np.concatenate(pair) for pair in zip(*halves, strict=True))), sum(rates) / 2
            if rate < ACCEPTANCE[0]:
                self.step *= 0.7
            elif rate > ACCEPTANCE[1] and self.step < QUARTER / 2:
                self.step *= 1.2
            if rate > ACCEPTANCE[0] / 2 and _correlation(began, self.log_ratio(now)) <= FORGOTTEN:
                break
        if rate < STUCK:
            raise NoPath(f"the draws do not move at temperature {beta:.3g}")
        return now

    def log_ratio(self, now: Population) -> np.ndarray:
        """log f/q"""
        return np.where(np.isfinite(now.log_f), now.log_f - log_start(now.points, self.start), -np.inf)

    def _gone(
        self, now: Population, beta: float, spread: np.ndarray, step: float, count: int
    ) -> tuple[Population, float]:
        """Points at the end of a trajectory each, and how many went there."""
        groups, each, size = now.points.shape
        flat = [part.reshape(groups * each, *part.shape[2:]) for part in now]
        speeds = self.random.normal(size=(groups * each, size))
        jitter, chance = self.random.uniform(size=(2, groups * each))
        found = self.trajectory((*flat, speeds, jitter, chance), self.numbers, beta, spread, step, count, self.start)
        *moved, taken = (np.asarray(part, np.float64) for part in found)
        return Population(*(new.reshape(old.shape) for new, old in zip(moved, now, strict=True))), float(taken.mean())


@lru_cache(maxsize=64)
def _trajectory(log_density: TracedDensity) -> Callable[..., tuple[Data, ...]]:
    """A trajectory of each point by Hamiltonian Monte Carlo, compiled once for each density."""

    def finite(point: Data, numbers: Any) -> Data:
        log_f = log_density(point, numbers)
        return jnp.where(jnp.isfinite(log_f), log_f, -jnp.inf)

    @jax.jit
    def trajectory(
        given: tuple[Data, ...], numbers: Any, beta: Data, spread: Data, step: Data, count: Data, start: Start
    ) -> tuple[Data, ...]:
        def force(point: Data, slope: Data) -> Data:
            return spread.T @ ((1 - beta) * slope_of_start(point, start) + beta * slope)

        def log_path(point: Data, log_f: Data) -> Data:
            return (1 - beta) * log_start(point, start, jnp) + beta * log_f

        def one(given: tuple[Data, ...]) -> tuple[Data, ...]:
            point, log_f, slope, speed, jitter, chance = given
            length = step * (0.7 + 0.6 * jitter)

            def leap(_: Any, now: tuple[Data, ...]) -> tuple[Data, ...]:
                at, _, slope, speed = now
                half = speed + 0.5 * length * force(at, slope)
                there = at + length * (spread @ half)
                log_f, slope = jax.value_and_grad(finite)(there, numbers)
                return there, log_f, slope, half + 0.5 * length * force(there, slope)

            end = cast(Any, jax.lax).fori_loop(0, count, leap, (point, log_f, slope, speed))
            there, log_there, slope_there, last = cast("tuple[Data, ...]", end)
            gain = log_path(there, log_there) - log_path(point, log_f)
            gain = gain - 0.5 * (jnp.sum(last**2) - jnp.sum(speed**2))
            taken = jnp.log(chance) < gain  # not where the gain is not a number
            return (
                jnp.where(taken, there, point),
                jnp.where(taken, log_there, log_f),
                jnp.where(taken, slope_there, slope),
                taken,
            )

        return cast("tuple[Data, ...]", cast(Any, jax.lax).map(one, given, batch_size=BLOCK))

    return trajectory
