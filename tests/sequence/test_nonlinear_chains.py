"""Chains whose steps are not linear: extended, unscented and iterated, against published recursions in NumPy."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.base.arrays import double_precision

from .published_recursions import Case, by_points, by_slopes, iterated, smoother

STEPS = 12
DT = 0.05
RANDOM = np.random.default_rng(0)

METHODS: dict[str, tuple[Callable, Callable]] = {
    "extended": (fb.linearize, by_slopes),
    "unscented": (fb.unscented, by_points(1.0, 0.0, None)),
    "scaled": (lambda **given: fb.unscented(alpha=0.5, beta=2.0, kappa=1.0, **given), by_points(0.5, 2.0, 1.0)),
}


# -- a pendulum as a model ------------------------------------------------------------------------------------------

SWING = 0.4 * np.array([[DT**3 / 3, DT**2 / 2], [DT**2 / 2, DT]])
PENDULUM = Case(
    np.array([1.5, 0.0]),
    np.diag([0.2, 0.3]),
    lambda x, t: np.stack([x[0] + DT * x[1], x[1] - 9.8 * DT * np.sin(x[0])]),
    lambda x: SWING,
    lambda x: np.sin(x[:1]),
    lambda x: np.array([[0.09]]),
    np.ma.masked_array(
        np.sin(1.3 * np.cos(3 * DT * np.arange(STEPS))) + 0.3 * RANDOM.normal(size=STEPS),
        np.isin(np.arange(STEPS), (4, 5)),
    ),
)


@fb.model
def pendulum(start, spread, noise, n):
    x = yield dist.Markov(
        dist.MultivariateNormal(start, spread),
        lambda x: dist.MultivariateNormal(jnp.stack([x[0] + DT * x[1], x[1] - 9.8 * DT * jnp.sin(x[0])]), SWING),
        n,
    )
    y = yield dist.Normal(jnp.sin(x[:, 0]), noise)


def swinging(y: np.ndarray = PENDULUM.y) -> fb.Joint:
    return pendulum(PENDULUM.m, PENDULUM.P, 0.3, len(y)).condition(y=y)


@pytest.mark.parametrize(("method", "passes"), [("extended", 1), ("extended", 4), ("unscented", 3)])
def test_pendulum(method: str, passes: int) -> None:
    """Smoothed moments and the evidence, with two observations that are missing."""
    make, line = METHODS[method]
    own = make(iterations=passes)
    expected = iterated(PENDULUM, line, passes)
    with own:
        log_evidence, marginal = swinging().log_evidence(), swinging().marginal("x")
    assert marginal.exactness.marks == (f"projected({own})",) == log_evidence.exactness.marks
    np.testing.assert_allclose(float(log_evidence), expected.log_evidence, rtol=1e-9)
    np.testing.assert_allclose(marginal.mean("x").data, expected.smoothed[0], atol=1e-9)
    np.testing.assert_allclose(marginal.covariance("x").data, expected.smoothed[1], atol=1e-9)


# -- bearings as a chain of factors ---------------------------------------------------------------------------------

MOVE = np.eye(4) + DT * np.eye(4, k=2)
PUSH = 0.3 * RANDOM.normal(size=(STEPS, 4))  # a control of each step
WANDER = 0.1 * (np.eye(4) + 0.3)
bearing = fb.lift(lambda up, right: jnp.arctan(up / right))
SENSORS = np.array([[-1.0, 0.5], [1.0, 1.0]])


def angles(x: np.ndarray) -> np.ndarray:
    """Bearings from both sensors, by logarithms, which have complex steps."""
    away = x[:2] - SENSORS
    return np.stack([np.arctan(away[k, 1] / away[k, 0]) for k in range(2)])


BEARINGS = Case(
    np.array([0.3, -1.5, 0.5, 0.2]),
    np.diag([0.1, 0.2, 0.3, 0.1]),
    lambda x, t: MOVE @ x + PUSH[t - 1],
    lambda x: WANDER * 0.1,
    angles,
    lambda x: np.diag([0.01, 0.04]),
    np.ma.masked_array(RANDOM.normal(size=(STEPS + 1, 2)) * 0.1 + angles(np.array([0.3, -1.5])), False),
)
BEARINGS.y[0] = np.ma.masked


def tracker(y: np.ndarray, engine: Callable = np.asarray, method: str | None = None) -> fb.Chain:
    """The chain from one step before the first observation, with axes of y before that of time as a batch."""
    x, x_next = fb.Variable("x", fb.Reals[4]), fb.Variable("x_next", fb.Reals[4])
    names = ("b", "t")[-(y.ndim - 1) :]
    seen = [
        dist.Normal(bearing(x_next[1] - s[1], x_next[0] - s[0]), scale)(fb.Array(engine(y[..., k]), names))
        for k, (s, scale) in enumerate(zip(SENSORS, (0.1, 0.2), strict=True))
    ]
    push = fb.Array(engine(PUSH), ("t",), fb.Reals[4])
    move = dist.MultivariateNormal(engine(MOVE) @ x + push, engine(0.1 * WANDER))("x_next")
    start = dist.MultivariateNormal(engine(BEARINGS.m), engine(BEARINGS.P))("x")
    return fb.Chain(init=start, factor=seen[0] * seen[1] * move, time="t", step={"x": "x_next"}, method=method)


@pytest.mark.parametrize("method", ["extended", "unscented"])
def test_bearings(method: str) -> None:
    """Filtered and smoothed moments of a chain with a control for each step."""
    make, line = METHODS[method]
    expected = smoother(BEARINGS, line)
    chain = tracker(np.asarray(BEARINGS.y[1:]))
    with make():
        filtered, smooth, log_evidence = chain.filter(), chain.smooth(), chain.log_evidence()
    np.testing.assert_allclose(float(log_evidence), expected.log_evidence, rtol=1e-9)
    for found, (mean, covariance) in ((filtered, expected.filtered), (smooth, expected.smoothed)):
        np.testing.assert_allclose(found.mean("x_next").data, mean[1:], atol=1e-9)
        np.testing.assert_allclose(found.covariance("x_next").data, covariance[1:], atol=1e-9)
    np.testing.assert_allclose(smooth.initial.mean("x").data, expected.smoothed[0][0], atol=1e-9)
    assert filtered.exactness.marks == (f"projected({make()})",)


@pytest.mark.parametrize("method", ["extended", "unscented"])
def test_iterated_filter(method: str) -> None:
    """Each update is linearised again at its own result."""
    make, line = METHODS[method]
    expected = smoother(BEARINGS, line, updates=5).filtered
    with make(iterations=5):
        filtered = tracker(np.asarray(BEARINGS.y[1:])).filter()
    np.testing.assert_allclose(filtered.mean("x_next").data, expected[0][1:], atol=1e-9)
    np.testing.assert_allclose(filtered.covariance("x_next").data, expected[1][1:], atol=1e-9)


# -- stochastic volatility ------------------------------------------------------------------------------------------

RETURNS = RANDOM.normal(size=STEPS + 1) * 0.4
VOLATILITY = Case(
    np.array([0.2]),
    np.array([[0.5]]),
    lambda x, t: 0.95 * x - 0.1 * np.tanh(x),
    lambda x: np.array([[0.09]]),
    lambda x: 0.5 * np.exp(x),  # returns in the mean of their volatility
    lambda x: np.exp(x)[None],
    np.ma.masked_array(RETURNS, np.arange(STEPS + 1) == 0),
)


def volatility(y: np.ndarray, noise: float = 0.3, **given: object) -> fb.Chain:
    x, x_next = fb.Variable("x", fb.Real), fb.Variable("x_next", fb.Real)
    move = dist.Normal(0.95 * x - 0.1 * fb.ops.tanh(x), noise)("x_next")
    seen = dist.Normal(0.5 * fb.ops.exp(x_next), fb.ops.exp(0.5 * x_next))(fb.Array(y, ("t",)))
    start = dist.Normal(0.2, np.sqrt(0.5))("x")
    return fb.Chain(init=start, factor=move * seen, time="t", step={"x": "x_next"}, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(("method", "passes"), [("unscented", 1), ("scaled", 3)])
def test_stochastic_volatility(method: str, passes: int) -> None:
    """Noise whose scale is the state's, and observations in its mean; points of numbers with one axis."""
    make, line = METHODS[method]
    expected = iterated(VOLATILITY, line, passes)
    chain = volatility(RETURNS[1:])
    with make(iterations=passes):
        smooth, log_evidence = chain.smooth(), chain.log_evidence()
    np.testing.assert_allclose(float(log_evidence), expected.log_evidence, rtol=1e-9)
    np.testing.assert_allclose(smooth.mean("x_next").data, expected.smoothed[0][1:, 0], atol=1e-9)
    np.testing.assert_allclose(smooth.variance("x_next").data, expected.smoothed[1][1:, 0, 0], atol=1e-9)


def test_the_most_probable_path() -> None:
    """Gauss–Newton ends where the log-density of the path is flat."""
    y = np.asarray(BEARINGS.y[1:])
    with fb.linearize(iterations=20):
        smooth = tracker(y).smooth()
    path = np.concatenate([[smooth.initial.mean("x").data], smooth.mean("x_next").data])

    def log_density(path: jnp.ndarray) -> jnp.ndarray:
        away = path[1:, None, :2] - SENSORS
        seen = (y - jnp.arctan(away[..., 1] / away[..., 0])) / jnp.array([0.1, 0.2])
        moved = path[1:] - path[:-1] @ MOVE.T - PUSH
        start = path[0] - BEARINGS.m
        squares = jnp.sum(seen**2) + jnp.sum(moved * jnp.linalg.solve(0.1 * WANDER, moved.T).T)
        return -0.5 * (squares + start @ jnp.linalg.solve(BEARINGS.P, start))

    with double_precision():
        assert np.max(np.abs(jax.grad(log_density)(jnp.asarray(path)))) < 1e-7
