"""Particles: normal, funnel, bimodal and discrete states, against filters on a grid; the evidence is unbiased.

A particle filter has the contract of a sampler, `init` and `step`, along time; what runs its steps is a scan, so that
the evidence has derivatives. It keeps no state between calls, and has nothing to resume.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

import fubini as fb
from fubini import dist

Y = np.array([0.4, -0.9, 1.3])
POINTS = np.linspace(-10.0, 10.0, 801)
CELL = POINTS[1] - POINTS[0]
RUNS, PARTICLES = 12, 1000
SHARES = np.array([[0.8, 0.2], [0.3, 0.7]])
LEVELS = np.array([-1.0, 1.5])


def normal(x: Any, loc: Any, scale: Any) -> Any:
    return np.exp(-0.5 * ((x - loc) / scale) ** 2) / (scale * np.sqrt(2 * np.pi))


class Case(NamedTuple):
    """A chain; by hand, weights of the first state, of moves [before, after], of a datum [state]; and the points."""

    chain: Callable[[], fb.Chain]
    start: np.ndarray
    move: np.ndarray
    seen: Callable[[float], np.ndarray]
    points: np.ndarray

    def filtered(self) -> tuple[float, list[float]]:
        """The evidence, and the mean of the state after each step given the data so far."""
        weights, means = self.start, []
        for y in Y:
            weights = (weights @ self.move) * self.seen(y)
            means.append(float(weights @ self.points / weights.sum()))
        return float(weights.sum()), means


x, x_next = fb.Variable("x", fb.Real), fb.Variable("x_next", fb.Real)
DATA = fb.Array(Y, ("t",))


def chain_of(init: Any, factor: Any) -> fb.Chain:
    return fb.Chain(init=init, factor=factor, time="t", step={"x": "x_next"})


def linear() -> fb.Chain:
    return chain_of(dist.Normal(0.0, 1.0)("x"), dist.Normal(0.9 * x, 0.5)("x_next") * dist.Normal(x_next, 0.7)(DATA))


def volatility() -> fb.Chain:
    """A funnel at each step: the state is the logarithm of a variance."""
    move = dist.Normal(0.9 * x, 0.8)("x_next")
    return chain_of(dist.Normal(0.0, 1.0)("x"), move * dist.Normal(0.0, fb.ops.exp(0.5 * x_next))(DATA))


def two_sided() -> fb.Chain:
    """The square of the state is seen: it has two modes."""
    move = dist.Normal(0.9 * x, 0.5)("x_next")
    return chain_of(dist.Normal(0.0, 1.0)("x"), move * dist.Normal(x_next * x_next, 0.7)(DATA))


def labels() -> fb.Chain:
    seen = dist.Normal(fb.Array(LEVELS, ("x_next",)), 0.7)(DATA)
    return chain_of(fb.Table([0.5, 0.5], ("x",)), fb.Table(SHARES, ("x", "x_next")) * seen)


def on_grid(chain: Callable[[], fb.Chain], scale: float, seen: Callable[[float], np.ndarray]) -> Case:
    move = normal(POINTS, 0.9 * POINTS[:, None], scale) * CELL
    return Case(chain, normal(POINTS, 0.0, 1.0) * CELL, move, seen, POINTS)


CASES = {
    "normal": on_grid(linear, 0.5, lambda y: normal(y, POINTS, 0.7)),
    "funnel": on_grid(volatility, 0.8, lambda y: normal(y, 0.0, np.exp(0.5 * POINTS))),
    "bimodal": on_grid(two_sided, 0.5, lambda y: normal(y, POINTS**2, 0.7)),
    "discrete": Case(labels, np.array([0.5, 0.5]), SHARES, lambda y: normal(y, LEVELS, 0.7), np.arange(2.0)),
}


@pytest.mark.parametrize("name", CASES)
def test_particles_are_those_of_the_filter(name: str) -> None:
    """Over many runs: the mean of the evidence, and of the state after each step, within five standard errors."""
    chain, (evidence, means) = CASES[name].chain(), CASES[name].filtered()
    evidences, states = [], []
    for number in range(RUNS):
        with fb.monte_carlo(jax.random.fold_in(jax.random.key(1), number), PARTICLES, "x_next"):
            evidences.append(np.exp(float(chain.log_evidence())))
            filtered = chain.filter()
        states.append(np.asarray(filtered.mean("x_next").data))
    for drawn, expected, bias in ((evidences, evidence, 0.0), (states, means, 5.0 / PARTICLES)):
        error = np.std(drawn, axis=0) / np.sqrt(RUNS)
        assert np.all(np.abs(np.mean(drawn, axis=0) - expected) < 5 * error + bias), (drawn[0], expected)
