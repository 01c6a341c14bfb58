"""Expectation–maximisation against recursions that are written out here, step by step."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.errors import DomainError, Intractable, UnknownName

K, T = 3, 60
Numbers = tuple[np.ndarray, ...]


def start_of_hmm() -> Numbers:
    """Probabilities of the first state and of moves, means and scales."""
    rng = np.random.default_rng(1)
    return rng.dirichlet(np.ones(K)), rng.dirichlet(np.ones(K), size=K), np.array([-1.0, 0.0, 1.0]), np.ones(K)


def baum_welch(numbers: Numbers, y: np.ndarray, steps: int) -> tuple[list[float], Numbers]:
    """Rabiner 1989, eqs. 40 and 53, by the scaled recursions of eqs. 91 to 97; the first state is not observed."""
    pi, A, mu, s = numbers
    history = []
    for _ in range(steps):
        B = np.exp(-0.5 * ((y[..., None] - mu) / s) ** 2) / (s * np.sqrt(2 * np.pi))
        first, moves, states, total = np.zeros(K), np.zeros((K, K)), np.zeros(y.shape + (K,)), 0.0
        for sequence, seen in enumerate(B):
            alpha, beta, c = [pi], [np.ones(K)], []
            for t in range(len(seen)):
                ahead = (alpha[-1] @ A) * seen[t]
                c.append(ahead.sum())
                alpha.append(ahead / c[-1])
            for t in reversed(range(len(seen))):
                beta.insert(0, A @ (seen[t] * beta[0]) / c[t])
            together = [a * b for a, b in zip(alpha, beta, strict=True)]
            first += together[0]
            moves += sum(alpha[t][:, None] * A * (seen[t] * beta[t + 1]) / c[t] for t in range(len(seen)))
            states[sequence] = together[1:]
            total += np.log(c).sum()
        history.append(total)
        n = states.sum((0, 1))
        pi, A, mu = first / first.sum(), moves / moves.sum(1, keepdims=True), (states * y[..., None]).sum((0, 1)) / n
        s = np.sqrt((states * (y[..., None] - mu) ** 2).sum((0, 1)) / n)
    return history, (pi, A, mu, s)


def hmm(numbers: Numbers, y: Any) -> fb.Chain:
    """Several sequences of one hidden Markov model."""
    pi, A, mu, s = numbers
    first, moves = fb.param(pi, fb.Simplex, name="first"), fb.param(A, fb.Simplex, name="moves")
    means, scales = fb.param(mu, name="means"), fb.param(s, fb.Positive, name="scales")
    x, after = fb.Variable("x", fb.Bint[K]), fb.Variable("x_next", fb.Bint[K])
    seen = dist.Normal(means[after], scales[after])(fb.Array(y, ("b", "t")))
    step = dist.Categorical(moves[x])("x_next") * seen
    return fb.Chain(init=dist.Categorical(first)("x"), factor=step, time="t", step={"x": "x_next"})


def compare(fitted: Any, history: list[float], numbers: Numbers, near: float = 1e-8) -> None:
    """The objectives and the parameters after as many steps."""
    np.testing.assert_allclose(fitted.history, history, rtol=near)
    for own, wanted in zip(fitted.params.values(), numbers, strict=True):
        np.testing.assert_allclose(own, wanted, rtol=near, atol=near)


def sequences(count: int = 2) -> np.ndarray:
    """Data of a model with three states."""
    rng = np.random.default_rng(0)
    states = np.cumsum(rng.random((count, T)) < 0.2, axis=1) % K
    return np.array([-2.0, 0.0, 2.0])[states] + 0.7 * rng.normal(size=(count, T))


def test_a_chain_of_tables_is_moved_as_by_baum_and_welch() -> None:
    y, start = sequences(), start_of_hmm()
    fitted = fb.fit(hmm(start, y), method="em", steps=8, progress=False)
    compare(fitted, *baum_welch(start, y, 8))
    assert list(fitted.params) == ["first", "moves", "means", "scales"]
    assert (np.diff(fitted.history) >= 0).all()


def test_single_precision() -> None:
    y, start = sequences(), start_of_hmm()
    given = tuple(jnp.asarray(each, jnp.float32) for each in start)
    fitted = fb.fit(hmm(given, jnp.asarray(y, jnp.float32)), method="em", steps=4, progress=False)
    compare(fitted, *baum_welch(start, y, 4), near=2e-4)
    assert all(value.dtype == np.float32 for value in fitted.params.values())


def kalman_em(A: np.ndarray, Q: np.ndarray, C: np.ndarray, R: np.ndarray, y: np.ndarray, steps: int) -> Any:
    """Shumway and Stoffer 1982, eqs. 9 to 14, by a covariance filter; the first state is N(0, I) and stays so."""
    d, history = len(A), []
    for _ in range(steps):
        m, P, total = [np.zeros(d)], [np.eye(d)], 0.0
        predicted = []
        for seen in y:
            ahead, V = A @ m[-1], A @ P[-1] @ A.T + Q
            S = C @ V @ C.T + R
            off = seen - C @ ahead
            total -= 0.5 * (off @ np.linalg.solve(S, off) + np.linalg.slogdet(2 * np.pi * S)[1])
            gain = V @ C.T @ np.linalg.inv(S)
            m.append(ahead + gain @ off)
            P.append(V - gain @ S @ gain.T)
            predicted.append(V)
        ms, Ps, cross = [m[-1]], [P[-1]], []
        for t in reversed(range(len(y))):
            J = P[t] @ A.T @ np.linalg.inv(predicted[t])
            cross.insert(0, J @ Ps[0])
            ms.insert(0, m[t] + J @ (ms[0] - A @ m[t]))
            Ps.insert(0, P[t] + J @ (Ps[0] - predicted[t]) @ J.T)
        history.append(total)
        second = [P_ + np.outer(m_, m_) for m_, P_ in zip(ms, Ps, strict=True)]
        before, after = sum(second[:-1]), sum(second[1:])
        lagged = sum(x + np.outer(a, b) for x, a, b in zip(cross, ms[:-1], ms[1:], strict=True))  # E x_t x_{t+1}ᵀ
        A = lagged.T @ np.linalg.inv(before)
        Q = (after - A @ lagged - lagged.T @ A.T + A @ before @ A.T) / len(y)
        Q = (Q + Q.T) / 2
        outer = sum(np.outer(seen, mean) for seen, mean in zip(y, ms[1:], strict=True))
        C = outer @ np.linalg.inv(after)
        R = (y.T @ y - C @ outer.T - outer @ C.T + C @ after @ C.T) / len(y)
        R = (R + R.T) / 2
    return history, (A, Q, C, R)


def test_a_chain_of_gaussians_is_moved_as_by_shumway_and_stoffer() -> None:
    rng = np.random.default_rng(2)
    y = np.cumsum(rng.normal(size=(T, 2)), axis=0) * 0.3 + rng.normal(size=(T, 2))
    start = (np.array([[0.9, 0.1], [0.0, 0.8]]), np.eye(2), np.array([[1.0, 0.2], [0.1, 1.0]]), 0.5 * np.eye(2))
    A, C = fb.param(start[0], name="A"), fb.param(start[2], name="C")
    Q, R = (fb.param(start[i], fb.PositiveDefinite, name=name) for i, name in ((1, "Q"), (3, "R")))
    x, after = fb.Variable("x", fb.Reals[2]), fb.Variable("x_next", fb.Reals[2])
    move = dist.MultivariateNormal(A @ x, covariance_matrix=Q)("x_next")
    seen = dist.MultivariateNormal(C @ after, covariance_matrix=R)(fb.Array(y, ("t",)))
    init = dist.MultivariateNormal(np.zeros(2), covariance_matrix=np.eye(2))("x")
    chain = fb.Chain(init=init, factor=move * seen, time="t", step={"x": "x_next"})
    fitted = fb.fit(chain, method="em", steps=6, progress=False)
    history, (A1, Q1, C1, R1) = kalman_em(*start, y, 6)
    np.testing.assert_allclose(fitted.history, history, rtol=1e-8)
    for name, wanted in (("A", A1), ("Q", Q1), ("C", C1), ("R", R1)):
        np.testing.assert_allclose(fitted.params[name], wanted, rtol=1e-8, atol=1e-8)
    assert (np.diff(fitted.history) >= 0).all()
