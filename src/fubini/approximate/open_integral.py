"""Integrals without a closed form, over unconstrained numbers: what the interpretation in force makes of them.

`exact` raises the error that says why there is no closed form. An approximating interpretation has a rule for the head
`INTEGRATE`, which gives weighted points in place of the density.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.errors import Intractable
from fubini.numerics.frame import Frame, LogDensity
from fubini.numerics.log_sum_exp import log_sum_exp
from fubini.numerics.normal_at_mode import Normal
from fubini.numerics.tempered_smc import TracedDensity
from fubini.terms.exactness import Exactness, thinned
from fubini.terms.heads import INTEGRATE, exact_integrate


@dataclass(frozen=True, eq=False)
class OpenDensity:
    """A density exp(log_density(x)) of points x [point, number], and what helps to find where it is.

    `plausible` is a box in which a prior puts the numbers, `normals` are approximations at the modes, `traced` is the
    same log density of one point, to be compiled and differentiated, with the data that it reads.
    """

    size: int
    log_density: LogDensity
    plausible: Callable[[], Frame | None]
    normals: Callable[[], list[Normal]]
    traced: Callable[[], tuple[TracedDensity, Any]]


@dataclass(frozen=True, eq=False)
class OpenIntegral:
    """The integral of a density over some variables, and the error that says why it has no closed form.

    `density` makes the density over unconstrained numbers, or raises where there is none.
    """

    names: tuple[Name, ...]
    error: Callable[[], Intractable]
    density: Callable[[], OpenDensity]

    def points(self) -> WeightedPoints:
        """Ask the interpretation in force for weighted points."""
        return interpret(INTEGRATE, self)


class WeightedPoints(NamedTuple):
    """Points [point, number] whose weights add up to the integral: ∫ f(x) g(x) dx ≈ Σ exp(log_weight) g(point)."""

    points: np.ndarray
    log_weights: np.ndarray
    exactness: Exactness

    @property
    def log_total(self) -> float:
        """log ∫ f"""
        return float(log_sum_exp(self.log_weights))

    @property
    def shares(self) -> np.ndarray:
        """Weights that add up to 1."""
        return np.exp(self.log_weights - self.log_total)

    def without_negligible(self) -> WeightedPoints:
        """Drop points far away, which together weigh less than rounding errors do."""
        kept = self.log_weights > self.log_total + math.log(np.finfo(float).eps) - math.log(len(self.points))
        return WeightedPoints(self.points[kept], self.log_weights[kept], self.exactness)

    def at_most(self, count: int) -> WeightedPoints:
        """Draw so many points systematically, each with the same weight, where there are more."""
        if len(self.points) <= count:
            return self
        places = np.searchsorted(np.cumsum(self.shares), (np.arange(count) + 0.5) / count)
        log_weights = np.full(count, self.log_total - np.log(count))
        chosen = self.points[np.minimum(places, len(self.points) - 1)]
        return WeightedPoints(chosen, log_weights, self.exactness | thinned(count))


@exact_integrate.rule
def refuse(integral: OpenIntegral) -> WeightedPoints:
    """∫ f has no closed form"""
    raise integral.error()
