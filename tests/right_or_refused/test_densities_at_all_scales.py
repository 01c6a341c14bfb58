"""A density with latents integrated out is finite, −∞ or not a number at any point, in both precisions: never +∞.

The oracle is the normal density with its covariance written out, in decimal arithmetic of so many digits that nothing
is lost between scales of 1e-320 and 1e300.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist

pytestmark = pytest.mark.right_or_refused

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(5, 2))
MOVE = np.eye(4) + np.eye(4, k=2)  # positions move by velocities
STEPS = 4
DIGITS = Context(prec=1300, Emax=10**9, Emin=-(10**9))
LOG_2_PI = Decimal("1.8378770664093454835606594728112352797227949472755668")


@fb.model
def regression(inputs):
    t = yield dist.HalfNormal(1.0)
    s = yield dist.HalfNormal(1.0)
    w = yield dist.Normal(0.0, t).expand([2])
    y = yield dist.Normal(inputs @ w, s)


@fb.model
def level():
    t = yield dist.HalfNormal(1.0)
    s = yield dist.HalfNormal(1.0)
    x = yield dist.Markov(dist.Normal(0.0, 1.0), lambda x: dist.Normal(x, t), STEPS)
    y = yield dist.Normal(x, s)


@fb.model
def tracker(move):
    t = yield dist.HalfNormal(1.0)
    s = yield dist.HalfNormal(1.0)
    x = yield dist.Markov(dist.Normal(jnp.zeros(4), 1.0), lambda x: dist.Normal(move @ x, t), STEPS)
    y = yield dist.Normal(x[:, :2], s)


@fb.model
def groups():
    t = yield dist.HalfNormal(1.0)
    s = yield dist.HalfNormal(1.0)
    m = yield dist.Normal(0.0, t).expand([3])
    y = yield dist.Normal(m[jnp.array([0, 0, 1, 1, 2])], s)


def tracker_covariance() -> tuple[np.ndarray, np.ndarray]:
    """Of positions at all times: of the first state, and of each unit of variance of a step."""
    powers = [np.linalg.matrix_power(MOVE, k)[:2] for k in range(STEPS)]
    first, steps = (np.zeros((2 * STEPS, 2 * STEPS)) for _ in range(2))
    for a in range(STEPS):
        for b in range(STEPS):
            here = np.s_[2 * a : 2 * a + 2, 2 * b : 2 * b + 2]
            first[here] = powers[a] @ powers[b].T
            steps[here] = sum((powers[a - k] @ powers[b - k].T for k in range(1, min(a, b) + 1)), np.zeros((2, 2)))
    return first, steps


TIMES = np.minimum.outer(np.arange(STEPS), np.arange(STEPS)) * 1.0
SAME = np.equal.outer(*2 * [np.array([0, 0, 1, 1, 2])]) * 1.0
CASES: dict[str, tuple[Callable[[Any], Any], str, tuple[int, ...], Any]] = {  # covariance: constant + t² of the second
    "regression": (lambda array: regression(array(X)), "w", (5,), (np.zeros((5, 5)), X)),
    "level": (lambda array: level(), "x", (STEPS,), (np.ones((STEPS, STEPS)), TIMES)),
    "tracker": (lambda array: tracker(array(MOVE)), "x", (STEPS, 2), tracker_covariance()),
    "groups": (lambda array: groups(), "m", (5,), (np.zeros((5, 5)), SAME)),
}


def observations(name: str, dtype: Any) -> np.ndarray:
    return np.random.default_rng(1).normal(size=CASES[name][2]).astype(dtype)


@cache
def eliminated(name: str, dtype: Any) -> Any:
    make, latent, *_ = CASES[name]
    array = np.asarray if dtype is np.float64 else (lambda a: jnp.asarray(a, dtype))
    return make(array).condition(y=array(observations(name, dtype))).eliminate(latent)


def expected(name: str, dtype: Any, t: float, s: float) -> Decimal:
    with localcontext(DIGITS):
        constant, moved = (_decimals(part.astype(dtype)) for part in CASES[name][3])
        if name == "regression":
            moved = [[sum(a * b for a, b in zip(p, q, strict=True)) for q in moved] for p in moved]
        t2, s2 = Decimal(float(t)) ** 2, Decimal(float(s)) ** 2
        covariance = [
            [a + t2 * b + (s2 if i == j else 0) for j, (a, b) in enumerate(zip(p, q, strict=True))]
            for i, (p, q) in enumerate(zip(constant, moved, strict=True))
        ]
        prior = _log(Decimal(2)) - LOG_2_PI - (t2 + s2) / 2  # two half-normals: log(2/π)
        return prior + _log(Decimal(2)) + _normal(_decimals(observations(name, dtype).reshape(1, -1))[0], covariance)


def _decimals(array: np.ndarray) -> list[list[Decimal]]:
    return [[Decimal(float(number)) for number in row] for row in array]


def _log(x: Decimal) -> Decimal:
    return (+x).ln(Context(prec=40, Emax=10**9, Emin=-(10**9)))


def _normal(y: list[Decimal], covariance: list[list[Decimal]]) -> Decimal:
    """By elimination: log N(y; 0, LDLᵀ)."""
    rows, total = [[*row, value] for row, value in zip(covariance, y, strict=True)], Decimal(0)
    for i, row in enumerate(rows):
        total -= (_log(row[i]) + LOG_2_PI + row[-1] ** 2 / row[i]) / 2
        for other in rows[i + 1 :]:
            factor = other[i] / row[i]
            other[:] = [a - factor * b for a, b in zip(other, row, strict=True)]
    return total


def points(dtype: Any, count: int) -> np.ndarray:
    """Scales t and s: one ordinary, both anything, or near to each other."""
    random, limits = np.random.default_rng(2), (-320, 300) if dtype is np.float64 else (-44, 38)
    logs = random.uniform(*limits, (count, 2))
    quarter = count // 4
    logs[:quarter, 0] = random.uniform(-2, 2, quarter)
    logs[quarter : 2 * quarter, 1] = random.uniform(-2, 2, quarter)
    logs[2 * quarter : 3 * quarter, 1] = logs[2 * quarter : 3 * quarter, 0] + random.uniform(-12, 12, quarter)
    return np.maximum(10.0 ** np.clip(logs, *limits), np.finfo(dtype).smallest_subnormal).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", CASES)
def test_compiled_densities_are_right_or_not_numbers_at_all_scales(name: str, dtype: Any) -> None:
    scales, model = points(dtype, 40), eliminated(name, dtype)
    many = np.asarray(model.log_prob(t=scales[:, 0], s=scales[:, 1]))
    tolerance, right = Decimal(1e-7 if dtype is np.float64 else 1e-3), 0
    for place, (t, s) in enumerate(scales):
        exact = expected(name, dtype, t, s)
        for found in (many[place], model.log_prob(t=t, s=s)):
            assert not np.isposinf(found), (t, s)
            if np.isfinite(found):
                assert abs(Decimal(float(found)) - exact) <= tolerance * (1 + abs(exact)), (t, s)
                right += 1
            elif name != "groups" and np.finfo(dtype).smallest_normal < min(t, s) and not np.isneginf(found):
                assert abs(exact) > Decimal(float(np.finfo(dtype).max)) / 100, (t, s)  # else it is a number
    assert right > 15


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_tracker_with_exact_observations(dtype: Any) -> None:
    model, at = eliminated("tracker", dtype), dict(t=dtype(0.06), s=dtype(7e-23))
    exact = float(expected("tracker", dtype, at["t"], at["s"]))
    assert float(model.log_prob(**at)) == pytest.approx(exact, rel=1e-4)
    assert float(jax.jit(lambda values: model.log_prob(**values))(at)) == pytest.approx(exact, rel=1e-4)


@fb.model
def regression_of_log_scale(inputs):
    log_s = yield dist.Normal(0.0, 100.0)
    w = yield dist.Normal(0.0, 1.0).expand([inputs.shape[1]])
    y = yield dist.Normal(inputs @ w, jnp.exp(log_s))


@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_a_regression_with_hardly_any_noise(rows: int) -> None:
    """Fewer rows than columns, as many, and more, which cannot all be met."""
    inputs = np.random.default_rng(3).normal(size=(rows, 3))
    y = inputs @ np.array([0.5, -1.0, 2.0]) + (np.arange(rows) == 4)
    model = regression_of_log_scale(inputs).condition(y=y).eliminate("w")
    for log_s in (-10.0, -40.0, -346.0, -400.0, -750.0):
        found = float(model.log_prob(log_s=log_s))
        assert not np.isposinf(found)
        if rows < 5 and log_s > -700:  # y ~ N(0, X Xᵀ + s²)
            with localcontext(DIGITS):
                x, noise = _decimals(inputs), Decimal(float(np.exp(log_s))) ** 2
                products = [[sum(a * b for a, b in zip(p, q, strict=True)) for q in x] for p in x]
                for place in range(rows):
                    products[place][place] += noise
                exact = float(_normal(_decimals(y[None])[0], products))
            prior = -0.5 * (log_s / 100.0) ** 2 - np.log(100.0) - 0.5 * np.log(2 * np.pi)
            assert found == pytest.approx(exact + prior, rel=1e-9)
    slope = jax.grad(lambda log_s: model.log_prob(log_s=log_s))(-3.0)
    step = (float(model.log_prob(log_s=-2.999)) - float(model.log_prob(log_s=-3.001))) / 0.002
    assert float(slope) == pytest.approx(step, rel=1e-2)


@fb.model
def mixture():
    a = yield dist.Gamma(0.5, 1.0)
    b = yield dist.HalfNormal(1.0)
    rate = yield dist.Gamma(a, b)
    z = yield dist.Bernoulli(0.3).expand([4])
    y = yield dist.Exponential(rate).expand([3])
    x = yield dist.Normal(z * b, a)


def test_densities_of_other_families_are_never_infinite() -> None:
    """Rates and labels integrated out, at parameters of all scales."""
    for dtype in (np.float64, np.float32):
        array = np.asarray if dtype is np.float64 else jnp.asarray
        y, x = array(np.array([0.5, 1.0, 2.0], dtype)), array(np.array([0.0, 0.1, 1.0, 2.0], dtype))
        model = mixture().condition(y=y, x=x).eliminate("rate", "z")
        scales = points(dtype, 80)
        many = np.asarray(model.log_prob(a=scales[:, 0], b=scales[:, 1]))
        assert not np.isposinf(many).any() and np.isfinite(many).sum() > 10


def test_a_density_that_is_infinite_is_not_a_number() -> None:
    """A gamma density with a shape below 1 has a pole at 0."""
    model = mixture().condition(y=np.ones(3), x=np.ones(4)).eliminate("rate", "z")
    assert not np.isposinf(model.log_prob(a=0.0, b=1.0))
    assert not np.isposinf(np.asarray(model.log_prob(a=np.zeros(2), b=np.ones(2)))).any()
