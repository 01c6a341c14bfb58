"""Representations where they are exact: chains without cuts, and means over many seeds."""

from __future__ import annotations

from typing import NamedTuple

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
    exact, log_evidence = linear.smooth(), float(linear.log_evidence())
    with fb.represent(x=made):
        assert float(linear.log_evidence()) == pytest.approx(log_evidence, abs=1e-9)
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


K = 3
SLOPES = np.array([0.9, -0.5, 0.2])
MOVES = np.random.default_rng(0).dirichlet(np.ones(K), size=K)


def readings(length: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=length)


def switching_chain(length: int) -> fb.Chain:
    """s_t ~ MOVES[s_{t−1}], x_t ~ N(SLOPES[s_t] x_{t−1}, 0.4²), y_t ~ N(x_t, 0.3²)"""
    x, x_next = fb.Variable("x", fb.Real), fb.Variable("x_next", fb.Real)
    step = (
        fb.Table(MOVES, ("s", "s_next"))
        * dist.Normal(fb.Array(SLOPES, ("s_next",)) * x, 0.4)("x_next")
        * dist.Normal(x_next, 0.3)(fb.Array(readings(length), ("t",)))
    )
    init = fb.Table(np.full(K, 1 / K), ("s",)) * dist.Normal(0.0, 1.0)("x")
    return fb.Chain(init=init, factor=step, time="t", step={"s": "s_next", "x": "x_next"})


class Paths(NamedTuple):
    """Every path of labels: its last label, its log-weight times evidence, mean and variance of the last state."""

    label: np.ndarray
    log: np.ndarray
    mean: np.ndarray
    variance: np.ndarray


def by_enumeration(length: int) -> Paths:
    """A Kalman filter along each of the K^(T + 1) paths, all at once."""
    paths = Paths(np.arange(K), np.full(K, -np.log(K)), np.zeros(K), np.ones(K))
    for value in readings(length):
        old, new = (index.reshape(-1) for index in np.indices((len(paths.label), K)))
        mean, variance = SLOPES[new] * paths.mean[old], SLOPES[new] ** 2 * paths.variance[old] + 0.16
        total = variance + 0.09
        log = -0.5 * np.log(2 * np.pi * total) - 0.5 * (value - mean) ** 2 / total
        gain = variance / total
        moved = paths.log[old] + np.log(MOVES[paths.label[old], new]) + log
        paths = Paths(new, moved, mean + gain * (value - mean), variance * (1 - gain))
    return paths


def test_switching_system_of_ten_steps_against_enumeration() -> None:
    """K = 3, T = 10, no component dropped: the real states are integrated out first, for all 3^11 paths of labels."""
    length = 10
    terms: list[fb.Factor] = [fb.Table(np.full(K, 1 / K), ("s0",)), dist.Normal(0.0, 1.0)("x0")]
    for t, value in enumerate(readings(length)):
        before, after = fb.Variable(f"x{t}", fb.Real), fb.Variable(f"x{t + 1}", fb.Real)
        terms.append(fb.Table(MOVES, (f"s{t}", f"s{t + 1}")))
        terms.append(dist.Normal(fb.Array(SLOPES, (f"s{t + 1}",)) * before, 0.4)(f"x{t + 1}"))
        terms.append(dist.Normal(after, 0.3)(float(value)))
    reals, labels = [f"x{t}" for t in range(length + 1)], [f"s{t}" for t in range(length + 1)]
    paths = by_enumeration(length)
    evidence = fb.eliminate(terms, [*reals, *labels])
    assert evidence.exactness.is_exact
    assert float(evidence.log()) == pytest.approx(np.logaddexp.reduce(paths.log), abs=1e-6)
    last = fb.eliminate(terms, [*reals, *labels[:-1]])
    weights = np.exp(paths.log - np.logaddexp.reduce(paths.log))
    assert last.normalize().weights == pytest.approx(np.bincount(paths.label, weights), abs=1e-6)
    per_path = fb.eliminate(terms, reals[:-1])._joined()  # a Gaussian of the last state for each path
    assert isinstance(per_path, fb.Gaussian)
    mean = fb.expectation(per_path.sum(reals[-1]), per_path.mean(reals[-1]))
    assert float(mean) == pytest.approx(weights @ paths.mean, abs=1e-6)


def test_switching_chain_with_a_window_of_its_length() -> None:
    """K = 3, T = 6: no label is projected out before the end."""
    length = 6
    with fb.moment_matching(window=length):
        answer = float(switching_chain(length).log_evidence())
    assert answer == pytest.approx(np.logaddexp.reduce(by_enumeration(length).log), abs=1e-6)


def test_switching_chain_with_a_component_for_each_path() -> None:
    """K = 3, T = 4: 3^4 components of each label, none merged."""
    with fb.represent(x=fb.rep.Mixture(K**4)):
        answer = float(switching_chain(4).log_evidence())
    assert answer == pytest.approx(np.logaddexp.reduce(by_enumeration(4).log), abs=1e-6)


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
