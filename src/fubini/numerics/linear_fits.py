"""Functions of a Gaussian vector as linear functions with noise: by slopes at its mean, or by sigma points.

A function gives residuals e(z) and their covariance R(z), for each cell. The fit is e ≈ A z + b, of covariance Ω + R.
Särkkä and Svensson, Bayesian Filtering and Smoothing, 2023, chapters 7 to 9 and 14.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data
from fubini.numerics.quadratic import diagonal, times_vector, transposed
from fubini.numerics.small_matrices import lower_solved
from fubini.numerics.written_out import is_tiny, lower_root

LOG_TWO_PI = math.log(2 * math.pi)

cholesky: Callable[[Data], Data] = jnp.linalg.cholesky  # their types tell nothing of Data
solve: Callable[[Data, Data], Data] = jnp.linalg.solve


def root_of(K: Data) -> Data:
    """L of K = L Lᵀ, lower triangular; not a number where there is none."""
    return lower_root(K) if is_tiny(K) else cholesky(K)


def over_lower(M: Data, L: Data) -> Data:
    """M L⁻¹ for a lower triangular L: from the last row of Lᵀ up."""
    turned = lower_solved(transposed(L)[..., ::-1, ::-1], transposed(M)[..., ::-1, :])
    return transposed(turned[..., ::-1, :])


class Normal(NamedTuple):
    """The mean and the covariance of a vector, for each cell."""

    mean: Data
    covariance: Data


class Residuals(NamedTuple):
    """Residuals at a point, their covariance, and the power that each one's density is raised to; 0 leaves it out."""

    values: Data
    covariance: Data
    power: Data


class LinearFit(NamedTuple):
    """A z + b with noise: `spread` is Ω, what the line misses, and `covariance` is R."""

    slope: Data
    offset: Data
    spread: Data
    covariance: Data
    power: Data


class NoiseRows(NamedTuple):
    """|A z − r|² and the logarithm of the constant before its exponential; `ok` where the noise has a density."""

    matrix: Data
    vector: Data
    log: Data
    ok: Data


Function = Callable[[Data], Residuals]  # of points over (*cells, point, element)


class SigmaPoints(NamedTuple):
    """The scaled unscented transform (Julier and Uhlmann 1997; Wan and van der Merwe 2000).

    κ is 3 − n where that is positive, and else 0, unless it is given: no weight is then negative.
    """

    alpha: float
    beta: float
    kappa: float | None

    def spread(self, size: int) -> float:
        """n + λ = α² (n + κ)"""
        kappa = max(3.0 - size, 0.0) if self.kappa is None else self.kappa
        return self.alpha**2 * (size + kappa)

    def weights(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Those of means and of covariances: first of the centre."""
        spread = self.spread(size)
        others = np.full(2 * size, 0.5 / spread)
        centre = 1.0 - size / spread
        return np.concatenate([[centre], others]), np.concatenate([[centre + 1.0 - self.alpha**2 + self.beta], others])


def fit_by_slopes(function: Function, at: Normal) -> LinearFit:
    """e(z) ≈ e(m) + e′(m) (z − m): the first order of Taylor's series at the mean."""
    size = at.mean.shape[-1]

    def moved(shift: Data) -> tuple[Data, Residuals]:
        residuals = function((at.mean + shift)[..., None, :])
        return residuals.values[..., 0, :], residuals

    shift = jnp.zeros(size, at.mean.dtype)
    slope: Data
    here: Residuals
    slope, here = cast(Any, jax).jacfwd(moved, has_aux=True)(shift)
    covariance = here.covariance[..., 0, :, :]
    offset = here.values[..., 0, :] - times_vector(slope, at.mean)
    return LinearFit(slope, offset, jnp.zeros_like(covariance), covariance, here.power[..., 0, :])


def fit_by_sigma_points(rule: SigmaPoints) -> Callable[[Function, Normal], LinearFit]:
    """A = Cov[e, z] P⁻¹ by points, b = E e − A m, and Ω the covariance of e − A z."""

    def fit(function: Function, at: Normal) -> LinearFit:
        size = at.mean.shape[-1]
        in_mean, in_covariance = (jnp.asarray(each, at.mean.dtype) for each in rule.weights(size))
        unit = np.sqrt(rule.spread(size)) * np.concatenate([np.zeros((1, size)), np.eye(size), -np.eye(size)])
        root = root_of(at.covariance)
        away = jnp.asarray(unit, at.mean.dtype) @ transposed(root)
        values, covariance, power = function(at.mean[..., None, :] + away)
        kept = power[..., :1, :] > 0
        values = jnp.where(kept, values, 0.0)
        mean = jnp.sum(in_mean[:, None] * values, axis=-2)
        gap = values - mean[..., None, :]
        both = transposed(in_covariance[:, None] * gap) @ jnp.asarray(unit, at.mean.dtype)  # Cov[e, z] L⁻ᵀ
        slope = over_lower(both, root)
        missed = gap - away @ transposed(slope)
        spread = transposed(in_covariance[:, None] * missed) @ missed
        noise = jnp.sum(in_mean[:, None, None] * covariance, axis=-3)
        return LinearFit(slope, mean - times_vector(slope, at.mean), spread, noise, power[..., 0, :])

    return fit


def to_rows(fit: LinearFit) -> NoiseRows:
    """N(A z + b; 0, Ω + R/s) times the constant by which N(e; 0, R)ˢ differs from N(e; 0, R/s)."""
    kept = fit.power > 0
    both = kept[..., :, None] & kept[..., None, :]
    power = jnp.where(kept, fit.power, 1.0)
    covariance = jnp.where(both, fit.covariance, jnp.eye(kept.shape[-1], dtype=fit.covariance.dtype))
    own = jnp.log(jnp.abs(diagonal(root_of(covariance)))) + 0.5 * LOG_TWO_PI
    A, b, noise = _kept(fit)
    root = root_of(noise)
    ok = jnp.all(jnp.isfinite(root), axis=(-2, -1)) & jnp.all(diagonal(root) > 0, axis=-1)
    ok = ok & jnp.all(fit.power >= 0, axis=-1)
    ok = ok & jnp.all(jnp.isfinite(A), axis=(-2, -1)) & jnp.all(jnp.isfinite(b), axis=-1)
    rows = lower_solved(root, jnp.concatenate([A, -b[..., None]], axis=-1))
    raised = jnp.where(fit.power == 1.0, 0.0, (1.0 - power) * own - 0.5 * jnp.log(power))
    constant = jnp.where(kept, raised - jnp.log(diagonal(root)) - 0.5 * LOG_TWO_PI, 0.0)
    return NoiseRows(rows[..., :-1], rows[..., -1], jnp.sum(constant, axis=-1), ok)


# -- moments from one stage to the next -----------------------------------------------------------------------------


def given_information(now: Normal, K: Data, h: Data) -> Normal:
    """N(m, P) times exp(h·z − ½ z·K z): P⁺ = (1 + P K)⁻¹ P, m⁺ = m + P⁺ (h − K m)"""
    m, P = now
    eye = jnp.eye(m.shape[-1], dtype=m.dtype)
    X = solve(eye + P @ K, P)
    X = 0.5 * (X + transposed(X))
    return Normal(m + times_vector(X, h - times_vector(K, m)), X)


def given_zero(now: Normal, fit: LinearFit) -> Normal:
    """N(m, P) given that A z + b with its noise is zero: P⁺ = P − WᵀW with W = L⁻¹ A P, L Lᵀ = A P Aᵀ + Ω + R/s."""
    m, P = now
    A, b, noise = _kept(fit)
    AP = A @ P
    L = root_of(AP @ transposed(A) + noise)
    away = b + times_vector(A, m)
    both = lower_solved(L, jnp.concatenate([AP, -away[..., None]], axis=-1))
    W, w = both[..., :-1], both[..., -1]
    return Normal(m + times_vector(transposed(W), w), P - transposed(W) @ W)


def _kept(fit: LinearFit) -> tuple[Data, Data, Data]:
    """A, b and Ω + R/s; zero and of noise 1 where a residual is left out."""
    kept = fit.power > 0
    both = kept[..., :, None] & kept[..., None, :]
    scale = 1.0 / jnp.sqrt(jnp.where(kept, fit.power, 1.0))
    eye = jnp.eye(kept.shape[-1], dtype=fit.covariance.dtype)
    noise = scale[..., :, None] * jnp.where(both, fit.covariance, eye) * scale[..., None, :]
    noise = noise + jnp.where(both, fit.spread, 0.0)
    return jnp.where(kept[..., None], fit.slope, 0.0), jnp.where(kept, fit.offset, 0.0), noise


def with_linear(now: Normal, F: Data, b: Data, C: Data) -> Normal:
    """The moments of z and F z + b + noise of covariance C together."""
    m, P = now
    FP = F @ P
    block = FP @ transposed(F) + C
    rows = [jnp.concatenate([P, transposed(FP)], axis=-1), jnp.concatenate([FP, block], axis=-1)]
    return Normal(jnp.concatenate([m, times_vector(F, m) + b], axis=-1), jnp.concatenate(rows, axis=-2))
