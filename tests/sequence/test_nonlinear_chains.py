"""Chains whose steps are not linear: extended, unscented and iterated, against published recursions in NumPy.

Särkkä and Svensson, Bayesian Filtering and Smoothing, second edition, 2023: algorithms 7.1 and 13.1 (extended), 8.9 and
14.6 (unscented).
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist

STEPS = 12


# -- the published recursions ---------------------------------------------------------------------------------------


class Case(NamedTuple):
    """x_0 ~ N(m, P), x_t ~ N(f(x), Q), y_t ~ N(h(x), R(x)), of NumPy functions, with a state y_0 or not."""

    m: np.ndarray
    P: np.ndarray
    f: Callable
    Q: np.ndarray
    h: Callable
    R: Callable
    y: np.ma.MaskedArray


class Found(NamedTuple):
    """Moments of all states, filtered and smoothed, and the log-evidence."""

    filtered: tuple[np.ndarray, np.ndarray]
    smoothed: tuple[np.ndarray, np.ndarray]
    log_evidence: float


def slope(f: Callable, x: np.ndarray) -> np.ndarray:
    """Complex steps: exact to rounding."""
    columns = [np.imag(f(x + 1e-30j * e)) / 1e-30 for e in np.eye(len(x))]
    return np.stack(columns, axis=-1)


def by_slopes(f: Callable, m: np.ndarray, P: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, covariance and cross-covariance of f(x), by Taylor's series."""
    F = slope(f, m)
    return f(m), F @ P @ F.T, P @ F.T


def by_points(alpha: float, beta: float, kappa: float | None) -> Callable:
    """The same by the unscented transform."""

    def moments(f: Callable, m: np.ndarray, P: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        n = len(m)
        k = max(3 - n, 0) if kappa is None else kappa
        lam = alpha**2 * (n + k) - n
        L = np.linalg.cholesky(P) * np.sqrt(n + lam)
        points = np.stack([m, *(m + L.T), *(m - L.T)])
        weights = np.full(2 * n + 1, 1 / (2 * (n + lam)))
        weights[0] = lam / (n + lam)
        in_covariance = weights.copy()
        in_covariance[0] += 1 - alpha**2 + beta
        values = np.stack([f(x) for x in points])
        mean = weights @ values
        gap, away = values - mean, points - m
        return mean, (gap.T * in_covariance) @ gap, (away.T * in_covariance) @ gap

    return moments


def recursion(case: Case, moments: Callable) -> Found:
    """The filter, then the smoother of Rauch, Tung and Striebel with the same moments."""
    m, P, log_p, kept = case.m, case.P, 0.0, []
    for t, y in enumerate(case.y):
        C = np.zeros((len(m), len(m)))
        if t:
            before = m, P
            m, S, C = moments(case.f, *before)
            P = S + case.Q
        predicted = m, P
        if not np.ma.is_masked(y):
            mean, S, D = moments(case.h, m, P)
            S = S + case.R(m)
            gap = np.atleast_1d(y) - mean
            K = D @ np.linalg.inv(S)
            log_p += -0.5 * (gap @ np.linalg.solve(S, gap) + np.linalg.slogdet(2 * np.pi * S)[1])
            m, P = m + K @ gap, P - K @ S @ K.T
        kept.append((m, P, *predicted, C))
    smooth = [kept[-1][:2]]
    for (m, P, *_), (_, _, m_next, P_next, C) in zip(kept[-2::-1], kept[:0:-1], strict=True):
        G = C @ np.linalg.inv(P_next)
        later, later_P = smooth[0]
        smooth.insert(0, (m + G @ (later - m_next), P + G @ (later_P - P_next) @ G.T))
    filtered = np.stack([each[0] for each in kept]), np.stack([each[1] for each in kept])
    return Found(filtered, tuple(map(np.stack, zip(*smooth, strict=True))), log_p)


# -- the cases --------------------------------------------------------------------------------------------------------

DT = 0.05
PENDULUM_NOISE = 0.4 * np.array([[DT**3 / 3, DT**2 / 2], [DT**2 / 2, DT]])


def pendulum() -> Case:
    """An angle and its speed; its sine is seen."""
    random = np.random.default_rng(0)
    y = np.sin(1.3 * np.cos(3 * DT * np.arange(STEPS))) + 0.3 * random.normal(size=STEPS)
    return Case(
        np.array([1.5, 0.0]),
        np.diag([0.2, 0.3]),
        lambda x: np.stack([x[0] + DT * x[1], x[1] - 9.8 * DT * np.sin(x[0])]),
        PENDULUM_NOISE,
        lambda x: np.sin(x[:1]),
        lambda x: np.array([[0.09]]),
        np.ma.masked_array(y, np.isin(np.arange(STEPS), (4, 5))),
    )


@fb.model
def pendulum_model(n):
    x = yield dist.Markov(
        dist.MultivariateNormal(jnp.array([1.5, 0.0]), jnp.diag(jnp.array([0.2, 0.3]))),
        lambda x: dist.MultivariateNormal(
            jnp.stack([x[0] + DT * x[1], x[1] - 9.8 * DT * jnp.sin(x[0])]), PENDULUM_NOISE
        ),
        n,
    )
    y = yield dist.Normal(jnp.sin(x[:, 0]), 0.3)


METHODS = {
    "extended": (fb.linearize, by_slopes),
    "unscented": (fb.unscented, by_points(1.0, 0.0, None)),
    "scaled": (lambda: fb.unscented(alpha=0.5, beta=2.0, kappa=1.0), by_points(0.5, 2.0, 1.0)),
}


@pytest.mark.parametrize("method", METHODS)
def test_pendulum(method: str) -> None:
    """Smoothed moments and the evidence, with two observations that are missing."""
    interpretation, moments = METHODS[method]
    case = pendulum()
    expected = recursion(case, moments)
    post = pendulum_model(STEPS).condition(y=case.y)
    with interpretation():
        log_evidence, marginal = post.log_evidence(), post.marginal("x")
    assert marginal.exactness.marks == (f"projected({interpretation()})",) == log_evidence.exactness.marks
    np.testing.assert_allclose(float(log_evidence), expected.log_evidence, rtol=1e-9)
    np.testing.assert_allclose(marginal.mean("x").data, expected.smoothed[0], atol=1e-9)
    np.testing.assert_allclose(marginal.covariance("x").data, expected.smoothed[1], atol=1e-9)
