"""Importance sampling from Student's t around modes: heavier tails than those of most densities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from fubini.numerics.frame import LogDensity
from fubini.numerics.log_sum_exp import log_sum_exp


class Normal(NamedTuple):
    """A normal approximation at a mode: the mode, a root L of its covariance L Lᵀ, and the log mass under it."""

    mode: np.ndarray
    root: np.ndarray
    log_mass: float

    def is_at(self, point: np.ndarray) -> bool:
        """Whether a point is this mode, but for a small part of a standard deviation."""
        return bool(np.linalg.norm(np.linalg.solve(self.root, point - self.mode)) < SAME)


SAME = 0.1  # standard deviations

# Shares of the draws, degrees of freedom and multiples of the root: some draws look far beyond the modes.
PROPOSALS = ((0.7, 5.0, 1.0), (0.2, 5.0, 3.0), (0.1, 1.0, 3.0))


class Weighed(NamedTuple):
    """Points [point, number], log f(point)/q(point)/n, and the standard error of the log of their sum."""

    points: np.ndarray
    log_weights: np.ndarray
    error: float


def importance_sample(random: np.random.Generator, log_density: LogDensity, at: Sequence[Normal], n: int) -> Weighed:
    """∫ f(x) dx  ≈  Σ_i f(x_i) / (n q(x_i)),  x_i ~ q"""
    log_shares = np.array([normal.log_mass for normal in at])
    shares = np.exp(log_shares - log_sum_exp(log_shares))
    shares = 0.9 * shares + 0.1 / len(at)
    parts = [
        (share * part, df, times, normal)
        for share, normal in zip(shares, at, strict=True)
        for part, df, times in PROPOSALS
    ]
    counts = random.multinomial(n, [part[0] for part in parts])
    points = np.concatenate(
        [
            _draws(random, normal, df, times, int(count))
            for count, (_, df, times, normal) in zip(counts, parts, strict=True)
        ]
    )
    log_q = log_sum_exp(
        [np.log(share) + _log_t(points, normal, df, times) for share, df, times, normal in parts], axis=0
    )
    log_weights = log_density(points) - log_q - np.log(n)
    ratios = np.exp(log_weights - log_weights.max(initial=-np.inf))
    error = float(ratios.std() / ratios.mean() / np.sqrt(n)) if np.any(ratios > 0) else np.inf
    return Weighed(points, log_weights, error)


def _draws(random: np.random.Generator, normal: Normal, df: float, times: float, count: int) -> np.ndarray:
    noise = random.normal(size=(count, len(normal.mode)))
    mixed = np.sqrt(random.chisquare(df, count) / df)[:, None]
    return normal.mode + times * (noise / mixed) @ normal.root.T


def _log_t(points: np.ndarray, normal: Normal, df: float, times: float) -> np.ndarray:
    """The density of Student's t with the location and root of a normal."""
    size, root = len(normal.mode), times * normal.root
    z = np.linalg.solve(root, (points - normal.mode).T)
    front = gammaln((df + size) / 2) - gammaln(df / 2) - 0.5 * size * np.log(df * np.pi)
    return front - np.linalg.slogdet(root)[1] - (df + size) / 2 * np.log1p(np.sum(z**2, axis=0) / df)
