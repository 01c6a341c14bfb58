"""One model asked eagerly, under `jit` and eagerly again, in both precisions: the same answers."""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as numpyro_dist
import pytest

import fubini as fb
from fubini import dist

pytestmark = pytest.mark.right_or_refused

D = np.array([1.0, 2.0, 3.0])
M, X = 0.5, np.array([1.0, 2.0, 2.5])
KEY = jax.random.key(0)


@fb.model
def coroutine(d):
    m = yield dist.Normal(0.0, 1.0)
    x = yield dist.Normal(m * d, 1.0)


def numpyro_model() -> None:
    m = numpyro.sample("m", numpyro_dist.Normal(0.0, 1.0))
    numpyro.sample("x", numpyro_dist.Normal(m * D, 1.0).to_event(1))


MODELS: dict[str, Callable] = {
    "named": lambda: fb.JointNamed(dict(m=dist.Normal(0.0, 1.0), x=lambda m: dist.Normal(m * D, 1.0))),
    "coroutine": lambda: coroutine(D),
    "NumPyro": lambda: fb.from_numpyro(numpyro_model),
}


def _log_normal(value: np.ndarray, covariance: np.ndarray) -> float:
    logdet = np.linalg.slogdet(2 * np.pi * covariance)[1]
    return float(-0.5 * (logdet + value @ np.linalg.solve(covariance, value)))


PRECISION = 1 + D @ D
ANSWERS: dict[str, tuple[Callable, float]] = {
    "log_prob": (
        lambda model, m, x: model.log_prob({"m": m, "x": x}),
        -0.5 * (M**2 + ((X - M * D) ** 2).sum()) - 2 * math.log(2 * math.pi),
    ),
    "log_evidence": (
        lambda model, m, x: model.condition(x=x).log_evidence().data,
        _log_normal(X, np.eye(3) + np.outer(D, D)),
    ),
    "marginal": (lambda model, m, x: model.condition(x=x).marginal("m").mean("m").data, D @ X / PRECISION),
}


@pytest.mark.parametrize("double", [False, True], ids=["float32", "float64"])
@pytest.mark.parametrize("order", ["jit eager", "eager jit eager"])
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_eager_and_jit_in_any_order(make: Callable, order: str, double: bool) -> None:
    within: AbstractContextManager = jax.enable_x64(True) if double else nullcontext()
    with within:
        for ask, expected in ANSWERS.values():
            model = make()

            def question(m: float, x: np.ndarray, ask: Callable = ask, model: object = model) -> object:
                return ask(model, m, x)

            for step in order.split():
                found = jax.jit(question)(M, X) if step == "jit" else question(M, X)
                assert float(found) == pytest.approx(expected, rel=1e-5)
                eager = 64 if step == "eager" or double else 32
                assert found.dtype == np.dtype(f"float{eager}")


@pytest.mark.parametrize("array", [np.asarray, jnp.asarray], ids=["numpy", "jax"])
def test_draws_eager_then_jit_then_eager(array: Callable) -> None:
    model, x = coroutine(array(D)), array(X)
    for ask in (lambda x: model.sample(KEY).m, lambda x: model.condition(x=x).predict(KEY, draws=2)):
        first = ask(x)
        jax.jit(ask)(x)
        again = ask(x)
        for one, other in zip(jax.tree.leaves(first), jax.tree.leaves(again), strict=True):
            np.testing.assert_array_equal(one, other)
            assert one.dtype == other.dtype


@pytest.mark.parametrize("question", ["log_evidence", "marginal", "map"])
def test_arrays_that_are_changed_in_place(question) -> None:
    """What was read of an array is not what it holds later, and another array with the old numbers finds the old."""

    @fb.model
    def line(x):
        w = yield dist.Normal(0.0, 1.0)
        y = yield dist.Normal(w * x, 1.0)

    def ask(x, y):
        post = line(x).condition(y=y)
        answers = {
            "log_evidence": lambda: float(post.log_evidence()),
            "marginal": lambda: float(post.marginal("w").mean("w")),
            "map": lambda: float(post.map().w),
        }
        return answers[question]()

    x, y = np.array([1.0, 2.0, 3.0]), np.ones(3)
    first, kept = ask(x, y), (x.copy(), y.copy())
    x[0], y[0] = 50.0, 7.0
    assert ask(*kept) == pytest.approx(first, rel=1e-12)
    assert ask(x, y) != pytest.approx(first, rel=1e-3)
