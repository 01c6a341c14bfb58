"""Nonlinear filters and smoothers as they are published, in NumPy, one step after another.

Särkkä and Svensson, Bayesian Filtering and Smoothing, second edition, 2023, chapters 7 to 10, 13 and 14: extended and
unscented filters and smoothers, the iterated extended filter and smoother, and iterated posterior linearisation.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Case(NamedTuple):
    """x_0 ~ N(m, P), x_t ~ N(f(x, t), Q(x)), y_t ~ N(h(x), R(x)); an observation that is masked is none."""

    m: np.ndarray
    P: np.ndarray
    f: Callable
    Q: Callable
    h: Callable
    R: Callable
    y: np.ma.MaskedArray


class Found(NamedTuple):
    """Moments of all states, filtered and smoothed, and the log-evidence."""

    filtered: tuple[np.ndarray, np.ndarray]
    smoothed: tuple[np.ndarray, np.ndarray]
    log_evidence: float


class Line(NamedTuple):
    """A x + b, with noise of covariance S."""

    A: np.ndarray
    b: np.ndarray
    S: np.ndarray


def slope(f: Callable, x: np.ndarray) -> np.ndarray:
    """Complex steps: exact to rounding."""
    return np.stack([np.imag(f(x + 1e-30j * e)) / 1e-30 for e in np.eye(len(x))], axis=-1)


def by_slopes(f: Callable, noise: Callable, m: np.ndarray, P: np.ndarray) -> Line:
    """The first order of Taylor's series."""
    A = slope(f, m)
    return Line(A, f(m) - A @ m, noise(m))


def by_points(alpha: float, beta: float, kappa: float | None) -> Callable:
    """Statistical linear regression by the points of the unscented transform."""

    def line(f: Callable, noise: Callable, m: np.ndarray, P: np.ndarray) -> Line:
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
        A = np.linalg.solve(P, (away.T * in_covariance) @ gap).T
        S = (gap.T * in_covariance) @ gap + np.tensordot(weights, np.stack([noise(x) for x in points]), 1)
        return Line(A, mean - A @ m, S - A @ P @ A.T)

    return line


def smoother(case: Case, line: Callable, at: tuple[np.ndarray, np.ndarray] | None = None, updates: int = 1) -> Found:
    """The filter, and the smoother of Rauch, Tung and Striebel; linearised at the filter's states, or at given ones."""
    m, P, log_p, kept = case.m, case.P, 0.0, []
    for t, y in enumerate(case.y):
        C = np.zeros((len(m), len(m)))
        if t:
            where = (m, P) if at is None else (at[0][t - 1], at[1][t - 1])
            move = line(lambda x, t=t: case.f(x, t), case.Q, *where)
            m, P, C = move.A @ m + move.b, move.A @ P @ move.A.T + move.S, P @ move.A.T
        predicted = m, P
        if not np.any(np.ma.getmaskarray(y)):
            y = np.atleast_1d(np.asarray(y))
            for _ in range(updates):
                where = (m, P) if at is None else (at[0][t], at[1][t])
                seen = line(case.h, case.R, *where)
                S = seen.A @ predicted[1] @ seen.A.T + seen.S
                gap = y - seen.A @ predicted[0] - seen.b
                K = predicted[1] @ seen.A.T @ np.linalg.inv(S)
                m, P = predicted[0] + K @ gap, predicted[1] - K @ S @ K.T
            log_p += -0.5 * (gap @ np.linalg.solve(S, gap) + np.linalg.slogdet(2 * np.pi * S)[1])
        kept.append((m, P, *predicted, C))
    smooth = [kept[-1][:2]]
    for (m, P, *_), (_, _, m_next, P_next, C) in zip(kept[-2::-1], kept[:0:-1], strict=True):
        G = C @ np.linalg.inv(P_next)
        later, later_P = smooth[0]
        smooth.insert(0, (m + G @ (later - m_next), P + G @ (later_P - P_next) @ G.T))
    filtered = np.stack([each[0] for each in kept]), np.stack([each[1] for each in kept])
    means, covariances = zip(*smooth, strict=True)
    return Found(filtered, (np.stack(means), np.stack(covariances)), log_p)


def iterated(case: Case, line: Callable, passes: int) -> Found:
    """Linearised again at the smoothed states, so often in all."""
    found = smoother(case, line)
    for _ in range(passes - 1):
        found = smoother(case, line, found.smoothed)
    return found
