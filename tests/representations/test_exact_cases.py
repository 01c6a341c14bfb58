"""Representations where they are exact: chains without cuts, and means over many seeds."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import fubini as fb
from fubini import dist

Y = np.array([[0.4, -0.2], [-0.9, 0.7], [1.3, 0.1], [0.2, 0.9]])
A = np.array([[0.9, 0.2], [-0.1, 0.8]])


@pytest.fixture(scope="module")
def linear() -> fb.Chain:
    x, x_next = fb.Variable("x", fb.Reals[2]), fb.Variable("x_next", fb.Reals[2])
    turned = fb.lift(lambda v: A @ v)(x)
    move = dist.MultivariateNormal(turned, np.array([[0.3, 0.1], [0.1, 0.2]]))("x_next")
    seen = dist.MultivariateNormal(x_next, 0.5 * np.eye(2))(fb.Array(Y, ("t",)))
    start = dist.MultivariateNormal(np.zeros(2), np.eye(2))("x")
    return fb.Chain(init=start, factor=move * seen, time="t", step={"x": "x_next"})


@pytest.mark.parametrize("made", [fb.rep.Truncated(), fb.rep.Mixture(1)], ids=repr)
def test_without_cuts_a_kalman_smoother(linear: fb.Chain, made: fb.rep.Dense) -> None:
    exact = linear.smooth()
    with fb.represent(x=made):
        assert float(linear.log_evidence()) == pytest.approx(float(linear.log_evidence()), abs=1e-12)
        answer = linear.smooth()
    mean, covariance = answer.mean("x_next").data, answer.covariance("x_next").data
    assert mean == pytest.approx(exact.mean("x_next").data, abs=1e-9)
    assert covariance == pytest.approx(exact.covariance("x_next").data, abs=1e-9)
    assert answer.initial.mean("x").data == pytest.approx(exact.initial.mean("x").data, abs=1e-9)


def test_evidence_by_particles_is_unbiased() -> None:
    x, x_next = fb.Variable("x", fb.Real), fb.Variable("x_next", fb.Real)
    move = dist.Normal(0.9 * x, 0.5)("x_next") * fb.weight(log=fb.ops.where(x_next > 0.3, -0.2, -1.5))
    seen = dist.Normal(x_next, 0.7)(fb.Array(Y[:, 0], ("t",)))
    chain = fb.Chain(init=dist.Normal(0.0, 1.0)("x"), factor=move * seen, time="t", step={"x": "x_next"})
    with fb.represent(x=fb.rep.Grid((-8, 8), 2000)):
        exact = float(chain.log_evidence())
    ratios = []
    for seed in range(200):
        with fb.represent(x=fb.rep.Particles(20, jax.random.key(seed))):
            ratios.append(np.exp(float(chain.log_evidence()) - exact))
    assert abs(np.mean(ratios) - 1) < 3 * np.std(ratios, ddof=1) / np.sqrt(200)


def test_smoother_by_particles() -> None:
    x, x_next = fb.Variable("x", fb.Real), fb.Variable("x_next", fb.Real)
    step = dist.Normal(0.9 * x, 0.5)("x_next") * dist.Normal(x_next, 0.7)(fb.Array(Y[:, 0], ("t",)))
    chain = fb.Chain(init=dist.Normal(0.0, 1.0)("x"), factor=step, time="t", step={"x": "x_next"})
    exact = chain.smooth().mean("x_next").data
    with fb.represent(x=fb.rep.Particles(2000, jax.random.key(0))):
        estimate = chain.smooth()
        draws = chain.sample(jax.random.key(1), n=2000)
    assert estimate.mean("x_next").data == pytest.approx(exact, abs=0.06)
    assert draws["x_next"].mean(axis=0) == pytest.approx(exact, abs=0.08)
    assert estimate.exactness.marks == ("estimated(2000)",)


def test_switching_system_against_enumeration() -> None:
    """K = 3, T = 10, a component for each past: no merging takes place before 3^4 of them."""
    k, length = 3, 4
    generator = np.random.default_rng(0)
    moves = generator.dirichlet(np.ones(k), size=k)
    slopes, y = np.array([0.9, -0.5, 0.2]), generator.normal(size=length)
    x, x_next = fb.Variable("x", fb.Real), fb.Variable("x_next", fb.Real)
    s_next = fb.Variable("s_next", fb.Bint[k])
    step = (
        fb.Table(moves, ("s", "s_next"))
        * dist.Normal(fb.Array(slopes, ("s_next",)) * x, 0.4)("x_next")
        * dist.Normal(x_next, 0.3)(fb.Array(y, ("t",)))
    )
    init = fb.Table(np.full(k, 1 / k), ("s",)) * dist.Normal(0.0, 1.0)("x")
    chain = fb.Chain(init=init, factor=step, time="t", step={"s": "s_next", "x": "x_next"})
    assert s_next.output.extent == k
    with fb.represent(x=fb.rep.Mixture(k**length)):
        answer = float(chain.log_evidence())
    assert answer == pytest.approx(by_enumeration(moves, slopes, y), abs=1e-6)


def by_enumeration(moves: np.ndarray, slopes: np.ndarray, y: np.ndarray) -> float:
    """log Σ over all paths of labels of their weight times a Kalman filter's evidence."""
    k = len(slopes)
    paths = [(label, np.log(1 / k), 0.0, 1.0) for label in range(k)]
    for value in y:
        after = []
        for label, weight, mean, variance in paths:
            for new in range(k):
                m, v = slopes[new] * mean, slopes[new] ** 2 * variance + 0.16
                total = v + 0.09
                log = -0.5 * np.log(2 * np.pi * total) - 0.5 * (value - m) ** 2 / total
                gain = v / total
                after.append((new, weight + np.log(moves[label, new]) + log, m + gain * (value - m), v * (1 - gain)))
        paths = after
    return float(np.logaddexp.reduce([weight for _, weight, _, _ in paths]))


def test_new_keys_compile_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x, x_next = fb.Variable("x", fb.Real), fb.Variable("x_next", fb.Real)
    step = dist.Normal(0.9 * x, 0.5)("x_next") * dist.Normal(x_next, 0.7)(fb.Array(Y[:, 0], ("t",)))
    chain = fb.Chain(init=dist.Normal(0.0, 1.0)("x"), factor=step, time="t", step={"x": "x_next"})
    answers = []
    for seed in range(2):
        with fb.represent(x=fb.rep.Particles(30, jax.random.key(seed))):
            if seed:
                monkeypatch.setattr("fubini.sequence.chain_questions.through", None)  # nothing is traced anew
            answers.append(float(chain.log_evidence()))
    assert answers[0] != answers[1]
