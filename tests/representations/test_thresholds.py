"""A threshold autoregression: another line on each side of zero, which the state before the step decides."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import numpy as np
import pytest
from scipy import stats

import fubini as fb
from fubini import dist

Y = np.array([0.4, -0.9, 1.3])


def threshold_chain() -> fb.Chain:
    x, x_next = fb.Variable("x", fb.Real), fb.Variable("x_next", fb.Real)
    rising, falling = dist.Normal(0.5 * x + 1.0, 0.6)("x_next"), dist.Normal(-0.5 * x, 0.8)("x_next")
    step = fb.Piecewise([({"x": (-np.inf, 0.0)}, rising), ({"x": (0.0, np.inf)}, falling)])
    seen = dist.Normal(x_next, 0.7)(fb.Array(Y, ("t",)))
    return fb.Chain(init=dist.Normal(0.0, 1.0)("x"), factor=step * seen, time="t", step={"x": "x_next"})


@cache
def by_grid() -> tuple[float, np.ndarray, np.ndarray]:
    """Log-evidence, and the means after each step and before the first, given everything."""
    chain = threshold_chain()
    with fb.represent(x=fb.rep.Grid((-8, 8), 200)):
        smooth, log_evidence = chain.smooth(), float(chain.log_evidence())
    return log_evidence, np.asarray(smooth.mean("x_next").data), np.asarray(smooth.initial.mean("x").data)


@pytest.mark.parametrize(
    ("made", "error"),
    [(fb.rep.Truncated(), 0.01), (fb.rep.Mixture(8), 0.002), (fb.rep.Particles(2000, jax.random.key(0)), 0.05)],
    ids=str,
)
def test_evidence(made: Any, error: float) -> None:
    with fb.represent(x=made):
        log_evidence = float(threshold_chain().log_evidence())
    assert log_evidence == pytest.approx(by_grid()[0], abs=error)


def test_smoother() -> None:
    _, after, initial = by_grid()
    with fb.represent(x=fb.rep.Truncated()):
        smooth = threshold_chain().smooth()
    assert np.asarray(smooth.mean("x_next").data) == pytest.approx(after, abs=0.01)
    assert float(smooth.initial.mean("x").data) == pytest.approx(float(initial), abs=0.03)
    assert smooth.exactness.marks == ("projected(Truncated())",)


def cut_chain(first: Any, second: Any) -> fb.Chain:
    """Weights that jump at two numbers."""
    x, x_next = fb.Variable("x", fb.Real), fb.Variable("x_next", fb.Real)
    jumps = fb.ops.where(x_next > first, 0.0, -1.0) + fb.ops.where(x_next < second, 0.0, -0.5)
    step = dist.Normal(0.9 * x, 0.5)("x_next") * fb.weight(log=jumps) * dist.Normal(x_next, 0.7)(fb.Array(Y, ("t",)))
    return fb.Chain(init=dist.Normal(0.0, 1.0)("x"), factor=step, time="t", step={"x": "x_next"})


def half_of_a_normal(edge: Any) -> Any:
    x = fb.Variable("x", fb.Real)
    return (dist.Normal(0.0, 1.0)("x") * fb.weight(log=fb.ops.where(x > edge, 0.0, -1.0))).sum("x").log().data


def test_jumps_at_numbers_that_a_trace_does_not_know() -> None:
    """In any order, and with derivatives; where one of them is no number, neither is the answer."""

    def log_evidence(first: Any, second: Any) -> Any:
        with fb.represent(x=fb.rep.Truncated()):
            return cut_chain(first, second).log_evidence().data

    with jax.enable_x64(True):
        compiled = jax.jit(jax.value_and_grad(log_evidence))
        assert compiled(0.9, -0.3)[0] == pytest.approx(log_evidence(0.9, -0.3), abs=1e-9)
        assert compiled(0.2, 0.2)[0] == pytest.approx(float(compiled(0.2, 0.2 + 1e-7)[0]), abs=1e-6)
        ends = [float(compiled(edge, 0.7)[0]) for edge in (0.199, 0.201)]
        assert float(compiled(0.2, 0.7)[1]) == pytest.approx((ends[1] - ends[0]) / 0.002, rel=1e-3)
        assert np.isnan(compiled(0.2, np.nan)[0])
        with pytest.raises(fb.FubiniError, match="infinite or none"):
            fb.checked(jax.jit(half_of_a_normal))(np.inf)


EDGES = np.array([[-0.5, 0.0, 0.7], [0.1, 0.2, -1.0]])


@pytest.mark.parametrize(
    "above",
    [
        lambda x, e: x > e,
        lambda x, e: e < x,
        lambda x, e: x - e > 0.0,
        lambda x, e: ~(x <= e),
        lambda x, e: 2 * x > 2 * e,
    ],
    ids=["x > e", "e < x", "x - e > 0", "not x <= e", "2 x > 2 e"],
)
def test_edges_that_differ_along_a_batch(above: Any) -> None:
    """E[exp(−[x ≤ e])] for each e, on both engines and in a trace."""
    expected = np.log(stats.norm.sf(EDGES) + np.exp(-1.0) * stats.norm.cdf(EDGES))

    def log_mass(edges: Any) -> Any:
        x, e = fb.Variable("x", fb.Real), fb.Array(edges, ("b", "c"))
        jump = fb.weight(log=fb.ops.where(above(x, e), 0.0, -1.0))
        return (dist.Normal(0.0, 1.0)("x") * jump).sum("x").log().data

    assert log_mass(EDGES) == pytest.approx(expected, abs=1e-12)
    assert log_mass(jax.numpy.asarray(EDGES)) == pytest.approx(expected, abs=1e-5)
    assert jax.jit(log_mass)(jax.numpy.asarray(EDGES)) == pytest.approx(expected, abs=1e-5)


def test_edges_that_differ_along_time() -> None:
    """A side of another threshold is seen at each step; against quadrature by matrices, in a chain and in a model."""
    thresholds, sides = np.array([-0.5, 0.3, 1.0]), np.array([1, 0, 1])
    points = np.linspace(-8.0, 8.0, 1601) + 0.00123
    width = points[1] - points[0]
    move = stats.norm.pdf(points[None], 0.9 * points[:, None], 0.4) * width
    seen = np.where((points > thresholds[:, None]) == (sides[:, None] == 1), 0.9, 0.1)
    weights = stats.norm.pdf(points) * seen[0]
    for k in (1, 2):
        weights = (weights @ move) * seen[k]
    expected = np.log(weights.sum() * width)
    mean, variance, matched = 0.0, 1.0, 0.0  # a Gaussian with the moments of the state after each step
    for side_seen in seen:
        weights = stats.norm.pdf(points, mean, np.sqrt(variance)) * side_seen * width
        matched += np.log(weights.sum())
        weights /= weights.sum()
        centre = points @ weights
        mean, variance = 0.9 * centre, 0.81 * ((points - centre) ** 2 @ weights) + 0.16

    x, x_next = fb.Variable("x", fb.Real), fb.Variable("x_next", fb.Real)
    first = dist.Bernoulli(fb.ops.where(x > thresholds[0], 0.9, 0.1))(sides[0])
    edge, side = fb.Array(thresholds[1:], ("t",)), fb.Array(sides[1:], ("t",))
    step = dist.Normal(0.9 * x, 0.4)("x_next") * dist.Bernoulli(fb.ops.where(x_next > edge, 0.9, 0.1))(side)
    chain = fb.Chain(init=dist.Normal(0.0, 1.0)("x") * first, factor=step, time="t", step={"x": "x_next"})

    @fb.model
    def model(thresholds):
        x = yield dist.Markov(dist.Normal(0.0, 1.0), lambda x: dist.Normal(0.9 * x, 0.4), 3)
        side = yield dist.Bernoulli(jax.numpy.where(x > thresholds, 0.9, 0.1))

    with fb.represent(x=fb.rep.Grid((-7, 7), 400)):
        assert float(chain.log_evidence()) == pytest.approx(expected, abs=2e-3)
        assert float(model(thresholds).condition(side=sides).log_evidence()) == pytest.approx(expected, abs=2e-3)
    with fb.represent(x=fb.rep.Truncated()):
        assert float(chain.log_evidence()) == pytest.approx(matched, abs=2e-3)
