"""Chains whose steps are not linear: extended, unscented and iterated, against published recursions in NumPy."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.base.arrays import double_precision
from fubini.errors import DataError, Intractable

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


@pytest.mark.parametrize(("method", "passes"), [("extended", 1), ("extended", 4), ("unscented", 3), ("scaled", 1)])
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


@pytest.mark.parametrize(("method", "passes"), [("extended", 1), ("unscented", 1), ("scaled", 3)])
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


# -- bad input --------------------------------------------------------------------------------------------------------

X, X_NEXT = fb.Variable("x", fb.Real), fb.Variable("x_next", fb.Real)
MOVED = dist.Normal(fb.ops.sin(X), 0.3)("x_next")
SEEN = fb.Array(np.array([0.5, 0.2, 0.1]), ("t",))
size = fb.lift(lambda x: jnp.sqrt(x**2))


def short(seen: fb.Factor, moved: fb.Factor = MOVED, init: fb.Factor | None = None) -> fb.Chain:
    start = dist.Normal(0.0, 1.0)("x") if init is None else init
    return fb.Chain(init=start, factor=moved * seen, time="t", step={"x": "x_next"})


def vanishing() -> fb.Chain:
    """A scale that is zero at the first mean that is predicted, which is zero."""
    return short(dist.Normal(X_NEXT, size(X_NEXT))(SEEN))


def test_a_singular_linearisation() -> None:
    with fb.linearize():
        with pytest.raises(
            DataError, match=r"linearize\(\) of 'Normal\(loc=x_next, scale=<lambda>.*at t = 0\n.*positive definite"
        ):
            vanishing().log_evidence()
        with pytest.raises(
            DataError, match=r"Normal\(loc=<lambda>\(x_next\), scale=1\).*at t = 0\n.*slopes that are numbers"
        ):
            short(dist.Normal(size(X_NEXT), 1.0)(SEEN)).smooth()
        late = dist.Normal(X_NEXT, fb.ops.exp(fb.Array(np.array([0.0, 0.0, -np.inf]), ("t",)) * (1.0 + X_NEXT**2)))(
            SEEN
        )
        with pytest.raises(DataError, match=r"at t = 2\n"):
            short(late).filter()
        with pytest.raises(DataError, match=r"at t = 0\n(.*\n)*.*powers below 0"):
            short(dist.Normal(fb.ops.exp(X_NEXT), 1.0)(SEEN) ** -1.0).log_evidence()


def test_a_singular_linearisation_under_jit() -> None:
    with fb.linearize():
        found = jax.jit(lambda scale: short(dist.Normal(X_NEXT, scale * size(X_NEXT))(SEEN)).log_evidence().data)(1.0)
    assert np.isnan(found)


@pytest.mark.parametrize(
    ("chain", "said"),
    [
        (
            lambda: short(
                dist.Categorical(fb.lift(lambda x: jax.nn.softmax(jnp.stack([x, -x])))(X_NEXT))(
                    fb.Array(np.array([0, 1, 1]), ("t",))
                )
            ),
            r"Categorical.*\n.*a mean and a covariance",
        ),
        (
            lambda: short(dist.Normal(fb.ops.where(X_NEXT > 0.0, 1.0, 0.0), 1.0)(SEEN)),
            r"where\(x_next.*\n.*have slopes\n.*jump",
        ),
        (
            lambda: short(dist.Normal(X_NEXT, 1.0)(SEEN), dist.Normal(fb.ops.sin(X_NEXT - X), 1.0)(0.0)),
            r"a step of a linearised chain\n.*a density of 'x_next' that says where it is",
        ),
        (
            lambda: short(dist.Normal(X_NEXT, 1.0)(SEEN), init=fb.Table(1.0)),
            r"the start of a linearised chain\n.*a density of 'x'",
        ),
        (
            lambda: fb.Chain(
                init=dist.Normal(0.0, 1.0)("x") * fb.Table([0.5, 0.5], ("s",)),
                factor=MOVED * fb.Table(np.eye(2), ("s", "s_next")) * dist.Normal(X_NEXT, 1.0)(SEEN),
                time="t",
                step={"x": "x_next", "s": "s_next"},
            ),
            r"states that are real numbers.*\n.*'s' is Bint\[2\]",
        ),
        (
            lambda: fb.Chain(
                init=dist.Normal(0.0, 1.0)("x") * dist.Normal(0.0, 1.0)("g"),
                factor=dist.Normal(fb.ops.sin(X) * fb.Variable("g", fb.Real), 0.3)("x_next")
                * dist.Normal(X_NEXT, 1.0)(SEEN),
                time="t",
                step={"x": "x_next"},
                sum=("g",),
            ),
            r"'g' is Real\n.*a state that does not move",
        ),
    ],
)
@pytest.mark.parametrize("method", ["extended", "unscented"])
def test_what_is_not_linearised(method: str, chain: Callable, said: str) -> None:
    with METHODS[method][0](), pytest.raises(Intractable, match=said):
        chain().log_evidence()


def test_a_step_that_has_no_derivative() -> None:
    own = jax.custom_vjp(jnp.sin)  # which has no forward derivative
    own.defvjp(lambda x: (jnp.sin(x), x), lambda x, slope: (slope * jnp.cos(x),))
    sine = fb.lift(lambda x: own(x))
    chain = short(dist.Normal(sine(X_NEXT), 1.0)(SEEN))
    with fb.linearize(), pytest.raises(Intractable, match=r"functions that JAX can differentiate(.*\n)*.*unscented"):
        chain.log_evidence()
    with fb.unscented():
        found = chain.log_evidence()
        expected = short(dist.Normal(fb.ops.sin(X_NEXT), 1.0)(SEEN)).log_evidence()
    np.testing.assert_allclose(float(found), float(expected), rtol=1e-12)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: fb.linearize(iterations=0), r"linearize\(iterations=0\)\n.*a whole number of passes, at least 1"),
        (lambda: fb.unscented(iterations=2.5), r"unscented\(iterations=2.5\)\n.*a whole number"),
        (lambda: fb.unscented(alpha=0), r"unscented\(alpha=0\)\n.*a number above 0"),
        (lambda: fb.unscented(alpha=float("nan")), r"unscented\(alpha=nan\)"),
        (lambda: fb.unscented(beta=-1.0), r"unscented\(beta=-1.0\)\n.*at least 0"),
        (lambda: fb.unscented(kappa="3"), r"unscented\(kappa='3'\)\n.*None for 3 − n"),
    ],
)
def test_options_out_of_range(make: Callable, said: str) -> None:
    with pytest.raises(DataError, match=said):
        make()


def test_a_kappa_that_leaves_no_spread() -> None:
    with fb.unscented(kappa=-1.0), pytest.raises(DataError, match=r"of a state of 1 numbers\n.*kappa above -1"):
        vanishing().log_evidence()
