"""Gaussians in order by means and covariances, against steps one by one and a textbook's filter in NumPy."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.factors.carry import CarryLayout
from fubini.representations.gaussian_recurrence import GaussianRecurrence
from fubini.sequence.compiled import SequenceOutline
from fubini.sequence.links import links_of
from fubini.sequence.recurrence import recurrence_of
from fubini.sequence.steps import Steps

PAIR = fb.Reals[2]
slow = pytest.mark.slow
TURN = np.array([[0.9, 0.2], [-0.1, 0.8]])
DATA = np.random.default_rng(0).normal(size=(6, 2))


@contextmanager
def step_by_step() -> Iterator[None]:
    """An interpretation without recurrences."""
    rules = fb.RuleSet("own.recurrence", head=fb.heads.RECURRENCE)

    @rules.rule
    def none_at_all(layout: CarryLayout, steps: Steps) -> None:
        """one step after another"""

    with fb.Interpretation("own", (rules,), base=fb.exact):
        yield


def tracked(
    data: Any = DATA, *, noise: Any = 0.5, process: Any = 0.3, prior: Any = 1.0, mask: Any = None, plate: bool = False
) -> fb.Chain:
    """A plane that turns, seen with noise; over data of shape (time, 2), or (time, plate, 2)."""
    x, after = fb.Variable("x", PAIR), fb.Variable("y", PAIR)
    eye = np.eye(2)
    step = dist.MultivariateNormal(TURN @ x, scale_tril=process * eye)("y")
    names = ("t", "i") if plate else ("t",)
    seen = dist.MultivariateNormal(after, scale_tril=noise * eye)(fb.Array(data, names))
    if mask is not None:
        seen = seen ** fb.Array(mask, ("t",))
    init = dist.MultivariateNormal(np.zeros(2), scale_tril=prior * eye)("x")
    return fb.Chain(init=init, factor=step * seen, time="t", step={"x": "y"})


def kalman(data: np.ndarray, noise: float = 0.5, process: float = 0.3, prior: float = 1.0) -> tuple[float, np.ndarray]:
    """The log-evidence and the last mean, by the textbook; a step whose data are not numbers has none."""
    m, P, total = np.zeros(2), prior**2 * np.eye(2), 0.0
    for y in data:
        m, P = TURN @ m, TURN @ P @ TURN.T + process**2 * np.eye(2)
        if np.isnan(y).any():
            continue
        S = P + noise**2 * np.eye(2)
        total -= 0.5 * ((y - m) @ np.linalg.solve(S, y - m) + np.linalg.slogdet(2 * np.pi * S)[1])
        K = P @ np.linalg.inv(S)
        m, P = m + K @ (y - m), P - K @ P
    return total, m


# -- which steps have one -------------------------------------------------------------------------------------------


def steps_of(term: fb.Factor, semiring: fb.Semiring = fb.sum_product) -> Steps:
    return SequenceOutline("t", 6, links_of({"x": "y"}), (("x", PAIR), ("y", PAIR))).steps([term], semiring)


def test_recur_gaussians() -> None:
    """Rows of a density, summed; not maxima, not precisions, and not a step that says nothing of the state after it."""
    step = dist.MultivariateNormal(TURN @ fb.Variable("x", PAIR), scale_tril=np.eye(2))("y")
    steps = steps_of(step)
    assert isinstance(recurrence_of(steps.layout([]), steps), GaussianRecurrence)
    precisions = fb.Gaussian(info=np.zeros(4), precision=np.eye(4), inputs={"x": PAIR, "y": PAIR})
    one_row = dist.Normal(fb.Variable("x", PAIR)[0] - fb.Variable("y", PAIR)[0], 1.0)(0.3)
    for other in (steps_of(step, fb.max_product), steps_of(precisions), steps_of(one_row)):
        assert recurrence_of(other.layout([]), other) is None


def test_explain() -> None:
    """The way that is taken is said."""
    assert "filter() and smooth(): by means and covariances" in str(tracked().explain())


# -- what it computes -----------------------------------------------------------------------------------------------


def moments(factor: fb.Factor, name: str = "y") -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(factor.mean(name).data), np.asarray(factor.variance(name).data)


@pytest.mark.parametrize("question", ["smooth", *(pytest.param(name, marks=slow) for name in ("filter", "final"))])
def test_as_one_step_after_another(question: str) -> None:
    """Means and covariances over a plate, with data missing; all have mass 1."""
    data, mask = np.random.default_rng(1).normal(size=(4, 3, 2)), np.array([1.0, 0.0, 1.0, 0.0])
    chain = tracked(data, plate=True, mask=mask)

    def ask() -> list[Any]:
        answer = getattr(chain, question)()
        parts = [(answer, "y" if question != "final" else "x")]
        parts += [(answer.initial, "x")] if question == "smooth" else []
        return [each for part, name in parts for each in (*moments(part, name), part.sum(name).log().data)]

    found = ask()
    with step_by_step():
        expected = ask()
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)


def test_a_textbook() -> None:
    """Evidence and last mean, with data missing."""
    data = DATA.copy()
    data[2] = np.nan
    log, mean = kalman(data)
    chain = tracked(np.nan_to_num(data), mask=~np.isnan(data[:, 0]) * 1.0)
    np.testing.assert_allclose(float(chain.log_evidence()), log, rtol=1e-10)
    np.testing.assert_allclose(chain.final().mean("x").data, mean, rtol=1e-9)


@slow
def test_derivatives() -> None:
    """First and second, of the evidence in the noise and of a mean, as central differences of the textbook's."""
    with jax.enable_x64(True):
        log = lambda s: tracked(jnp.asarray(DATA), noise=s).log_evidence().data  # noqa: E731
        slope, curvature = jax.jit(lambda s: (jax.grad(log)(s), jax.hessian(log)(s)))(jnp.asarray(0.5))
    up, middle, down = (kalman(DATA, noise=0.5 + step)[0] for step in (1e-4, 0.0, -1e-4))
    np.testing.assert_allclose(slope, (up - down) / 2e-4, rtol=1e-6)
    np.testing.assert_allclose(curvature, (up - 2 * middle + down) / 1e-8, rtol=1e-4)


def test_gradient_in_every_number() -> None:
    """Of data, process noise and prior together, in a map over two noises, as central differences."""
    with jax.enable_x64(True):

        def log(data: jax.Array, process: jax.Array, prior: jax.Array, noise: jax.Array) -> jax.Array:
            return tracked(data, noise=noise, process=process, prior=prior).log_evidence().data

        slopes = jax.jit(jax.vmap(jax.grad(log, (0, 1, 2)), (None, None, None, 0)))
        found = slopes(jnp.asarray(DATA), jnp.asarray(0.3), jnp.asarray(1.0), jnp.asarray([0.5, 0.7]))
    along = np.random.default_rng(3).normal(size=DATA.shape)
    at = lambda e, place, noise: kalman(  # noqa: E731
        DATA + e * along * (place == 0), noise, 0.3 + e * (place == 1), 1.0 + e * (place == 2)
    )[0]
    for row, noise in enumerate((0.5, 0.7)):
        for place in range(3):
            slope = (np.asarray(found[place][row]) * (along if place == 0 else 1.0)).sum()
            np.testing.assert_allclose(slope, (at(1e-5, place, noise) - at(-1e-5, place, noise)) / 2e-5, rtol=1e-6)


# -- where covariances lose digits ----------------------------------------------------------------------------------


def sum_seen(prior: Any, data: Any) -> fb.Chain:
    """Two constants of which the sum alone is seen: with a wide prior, almost nothing but that is known."""
    x, after = fb.Variable("x", PAIR), fb.Variable("y", PAIR)
    step = dist.MultivariateNormal(x, scale_tril=0.1 * np.eye(2))("y")
    seen = dist.Normal(after[0] + after[1], 0.1)(fb.Array(data, ("t",)))
    init = dist.MultivariateNormal(np.zeros(2), scale_tril=prior * np.eye(2))("x")
    return fb.Chain(init=init, factor=step * seen, time="t", step={"x": "y"})


@pytest.mark.parametrize("traced", [True, pytest.param(False, marks=slow)])
def test_rows_where_covariances_lose_digits(traced: bool) -> None:
    """Single precision as double precision, though the variances of sum and difference are 10⁸ times apart."""
    data = np.random.default_rng(4).normal(size=5)
    ask = lambda y: sum_seen(np.float32(1e3) if y.dtype == np.float32 else 1e3, y).log_evidence().data  # noqa: E731
    single = jnp.asarray(data, jnp.float32)
    found = jax.jit(jax.value_and_grad(ask))(single) if traced else (ask(single), None)
    np.testing.assert_allclose(found[0], ask(data), rtol=1e-4)
    if traced:
        along = np.array([1.0, -1.0, 0.5, 2.0, 0.0])
        at = lambda step: float(ask(data + step * along))  # noqa: E731
        np.testing.assert_allclose(found[1] @ along, (at(1e-3) - at(-1e-3)) / 2e-3, rtol=1e-3)


@slow
def test_a_start_that_says_nothing() -> None:
    """The first observation makes the state known; before it there is no covariance."""
    chain = tracked()
    flat = fb.Chain(init=fb.Table(np.ones(())), factor=chain.factor, time="t", step={"x": "y"})
    wide = tracked(prior=1e5)
    np.testing.assert_allclose(flat.filter().mean("y").data, wide.filter().mean("y").data, rtol=1e-6)
