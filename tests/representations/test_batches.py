"""Batch inputs of a chain: each value has its own answer, whether the start, the data or both have them.

Without cuts a Kalman smoother has the exact answers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist

MEANS = np.array([[-0.5, 0.8], [0.1, 1.2]])
Y = np.array([[[0.4, -0.9, 1.3], [0.2, 0.9, -0.4]], [[0.9, 0.3, 0.3], [-0.7, 0.1, 0.5]]])


def chain(start: tuple[str, ...], data: tuple[str, ...], means: Any = MEANS, y: Any = Y) -> fb.Chain:
    """A linear chain whose start has some of the batches a and c, and whose data has some of b and c."""
    x, x_next = fb.Variable("x", fb.Real), fb.Variable("x_next", fb.Real)
    means = fb.Array(means[(0,) * (2 - len(start))], start)
    y = fb.Array(y[(0,) * (2 - len(data))], (*data, "t"))
    step = dist.Normal(0.9 * x, 0.5)("x_next") * dist.Normal(x_next, 0.7)(y)
    return fb.Chain(init=dist.Normal(means, 0.8)("x"), factor=step, time="t", step={"x": "x_next"})


EVERYWHERE = (("a", "c"), ("b", "c"))


def evidence(model: fb.Chain, key: Any) -> tuple:
    return (over(model.evidence(), "a", "b", "c"),)


def filtered(model: fb.Chain, key: Any) -> tuple:
    return (over(model.filter().mean("x_next"), "t", "a", "b", "c"),)


def smoothed(model: fb.Chain, key: Any) -> tuple:
    answer = model.smooth()
    return over(answer.mean("x_next"), "t", "a", "b", "c"), over(answer.initial.mean("x"), "a", "b", "c")


def drawn(model: fb.Chain, key: Any) -> tuple:
    """Means over draws: of every state, and of the first. Batches come in the order of the inputs: a, c, b."""
    draws = model.sample(key, n=100)
    return draws["x_next"].mean(axis=0).swapaxes(2, 3), draws["x"].mean(axis=0).swapaxes(1, 2)


def over(answer: Any, *names: str) -> Any:
    """Numbers over those of the names that the answer has, in their order."""
    own = tuple(answer.inputs)
    numbers = answer.weights if isinstance(answer, fb.Factor) else answer.data
    return numbers.transpose([own.index(name) for name in names if name in own])


QUESTIONS = {question.__name__: question for question in (evidence, filtered, smoothed, drawn)}
EXACT = {"drawn": "smoothed"}


@cache
def exact(question: str, start: tuple[str, ...], data: tuple[str, ...]) -> tuple:
    return QUESTIONS[EXACT.get(question, question)](chain(start, data), None)


def require_mean(draws: np.ndarray, expected: np.ndarray, bias: float) -> None:
    """Raise unless the mean of estimates is the expected number, but for four standard errors and a bias."""
    error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    assert draws.shape[1:] == expected.shape
    assert np.all(np.abs(draws.mean(axis=0) - expected) < 4 * error + bias)


def estimates(question: Callable, model: fb.Chain, seeds: int, n: int) -> list[np.ndarray]:
    answers = []
    for seed in range(seeds):
        key, draw_key = jax.random.split(jax.random.key(seed))
        with fb.represent(x=fb.rep.Particles(n, key)):
            answers.append(question(model, draw_key))
    return [np.stack(each) for each in zip(*answers, strict=True)]


@pytest.mark.parametrize("question", QUESTIONS)
def test_particles(question: str) -> None:
    bias = 0.0 if question == "evidence" else 0.01
    answers = estimates(QUESTIONS[question], chain(*EVERYWHERE), 25, 100)
    for answer, expected in zip(answers, exact(question, *EVERYWHERE), strict=True):
        require_mean(answer, expected, bias)


@pytest.mark.parametrize(("start", "data"), [(("a",), ()), ((), ("b",))])
def test_particles_of_a_batch_in_one_place(start: tuple[str, ...], data: tuple[str, ...]) -> None:
    (answer,) = estimates(evidence, chain(start, data), 30, 100)
    require_mean(answer, exact("evidence", start, data)[0], 0.0)


@pytest.mark.parametrize("questions", [("evidence", "filtered"), ("smoothed", "drawn")], ids="-".join)
def test_particles_under_jit_in_single_precision(questions: tuple[str, ...]) -> None:
    @jax.jit
    @jax.vmap
    def ask(key: Any) -> list[tuple]:
        own, draw_key = jax.random.split(key)
        with fb.represent(x=fb.rep.Particles(100, own)):
            model = chain(*EVERYWHERE, jnp.asarray(MEANS, jnp.float32), jnp.asarray(Y, jnp.float32))
            return [QUESTIONS[question](model, draw_key) for question in questions]

    for question, answers in zip(questions, ask(jax.random.split(jax.random.key(1), 40)), strict=True):
        for answer, expected in zip(answers, exact(question, *EVERYWHERE), strict=True):
            assert answer.dtype == jnp.float32
            require_mean(np.asarray(answer), expected, 1e-6 if question == "evidence" else 0.01)


@pytest.mark.parametrize("made", [fb.rep.Truncated(), fb.rep.Mixture(2), fb.rep.Grid((-7, 7), 400)], ids=repr)
def test_without_draws(made: Any) -> None:
    error = 1e-4 if isinstance(made, fb.rep.Grid) else 1e-9
    with fb.represent(x=made):
        answers = [*evidence(chain(*EVERYWHERE), None), *smoothed(chain(*EVERYWHERE), None)]
    expected = [*exact("evidence", *EVERYWHERE), *exact("smoothed", *EVERYWHERE)]
    for answer, right in zip(answers, expected, strict=True):
        assert answer == pytest.approx(right, abs=error)


def test_particles_of_labels_beside_gaussians() -> None:
    """A batch in the start and the data of the Gaussians alone: labels are drawn for each value of it."""
    moves, slopes = np.array([[0.7, 0.3], [0.2, 0.8]]), np.array([0.9, -0.5])
    x, x_next = fb.Variable("x", fb.Real), fb.Variable("x_next", fb.Real)
    step = (
        fb.Table(moves, ("s", "s_next"))
        * dist.Normal(fb.Array(slopes, ("s_next",)) * x, 0.5)("x_next")
        * dist.Normal(x_next, 0.7)(fb.Array(Y[0], ("c", "t")))
    )
    init = fb.Table([0.4, 0.6], ("s",)) * dist.Normal(fb.Array(MEANS[0], ("c",)), 0.8)("x")
    model = fb.Chain(init=init, factor=step, time="t", step={"s": "s_next", "x": "x_next"})
    draws = []
    for seed in range(30):
        with fb.represent(s=fb.rep.Particles(50, jax.random.key(seed))):
            draws.append(model.evidence().weights)
    require_mean(np.stack(draws), np.array([by_enumeration(moves, slopes, c) for c in range(2)]), 0.0)


def by_enumeration(moves: np.ndarray, slopes: np.ndarray, c: int) -> float:
    """Σ over paths of labels of their probability times the density of the data given them."""
    total = 0.0
    for path in itertools.product(range(2), repeat=4):
        weight, mean, variance = (0.4, 0.6)[path[0]], MEANS[0, c], 0.64
        for old, new, y in zip(path, path[1:], Y[0, c], strict=False):
            mean, variance = slopes[new] * mean, slopes[new] ** 2 * variance + 0.25
            seen = variance + 0.49
            weight *= moves[old, new] * np.exp(-0.5 * (y - mean) ** 2 / seen) / np.sqrt(2 * np.pi * seen)
            gain = variance / seen
            mean, variance = mean + gain * (y - mean), variance * (1 - gain)
        total += weight
    return total
