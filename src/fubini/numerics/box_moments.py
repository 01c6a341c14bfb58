"""Mass, mean and covariance of a normal distribution within a box of one or two dimensions.

The density within a box is log-concave: a Gauss–Legendre rule over the range that holds all but e⁻⁴⁰ of it, found from
the point of greatest density and the slope there, is accurate far out in a tail too, where differences of distribution
functions are not.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from fubini.base.arrays import Data, namespace, stop_gradient
from fubini.numerics.quadratic import diagonal

POINTS = 40
REACH = 9.0  # standard deviations: e^(−9²/2) = e⁻⁴⁰
DECAY = 40.0  # units of log-density
NODES, WEIGHTS = (part.astype(np.float64) for part in np.polynomial.legendre.leggauss(POINTS))


class BoxMoments(NamedTuple):
    """The logarithm of the mass in a box, and mean [..., d] and covariance [..., d, d] of the distribution there."""

    log_mass: Data
    mean: Data
    covariance: Data


def box_moments(low: Data, high: Data, mean: Data, covariance: Data) -> BoxMoments:
    """Moments of N(mean, covariance) given low ≤ x ≤ high, for arrays [..., d] with d of 1 or 2.

    An empty box, or one whose width is rounding alone, has no mass, and moments that are numbers.
    """
    xp = namespace(low, high, mean, covariance)
    deviation = xp.sqrt(diagonal(covariance))
    a, b = (_in_units(xp, side, mean, deviation) for side in (low, high))
    empty = xp.any(~_is_wide(xp, a, b), axis=-1)
    a, b = (xp.where(empty[..., None], side, edge) for side, edge in ((-1.0, a), (1.0, b)))
    if mean.shape[-1] == 1:
        log_mass, first, second = _interval(xp, a, b)
    else:
        rho = covariance[..., 0, 1] / (deviation[..., 0] * deviation[..., 1])
        log_mass, first, second = _rectangle(xp, a, b, xp.clip(rho, -1.0 + 1e-12, 1.0 - 1e-12))
    outer = deviation[..., :, None] * deviation[..., None, :]
    return BoxMoments(xp.where(empty, -xp.inf, log_mass), mean + deviation * first, second * outer)


def _in_units(xp: Any, side: Data, mean: Data, deviation: Data) -> Data:
    """(side − mean) / deviation; infinite sides stay, and derivatives along them are zero."""
    bounded = xp.isfinite(side)
    return xp.where(bounded, (xp.where(bounded, side, 0.0) - mean) / deviation, side)


def _is_wide(xp: Any, a: Data, b: Data) -> Data:
    """a < b, by more than the rounding of either."""
    sizes = [xp.where(xp.isfinite(side), xp.abs(side), 0.0) for side in (a, b)]
    return b - a > 16 * np.finfo(a.dtype).eps * xp.maximum(1.0, xp.maximum(*sizes))


def _range(xp: Any, low: Data, high: Data, mode: Data, slope: Data, spread: Any) -> tuple[Data, Data]:
    """The part of [low, high] that holds all but e⁻⁴⁰ of a density that falls off from its mode by slope and spread."""
    reach = REACH * spread
    fall = xp.where(xp.abs(slope) > DECAY / reach, DECAY / xp.where(slope == 0, 1.0, xp.abs(slope)), reach)
    up, down = xp.where(slope < 0, fall, reach), xp.where(slope > 0, fall, reach)
    return xp.maximum(low, stop_gradient(mode - down)), xp.minimum(high, stop_gradient(mode + up))


def _nodes(xp: Any, low: Data, high: Data) -> tuple[Data, Data]:
    """Points [..., n] between two ends, and the logarithms of their weights."""
    half = 0.5 * (high - low)[..., None]
    points = 0.5 * (high + low)[..., None] + half * NODES.astype(half.dtype)
    tiny = np.finfo(half.dtype).tiny
    return points, xp.log(xp.maximum(half, tiny)) + np.log(WEIGHTS).astype(half.dtype)


def _sums(xp: Any, logs: Data, *values: Data) -> tuple[Data, list[Data]]:
    """log Σ exp(logs) along the last axis, and the averages of values with these weights, in one product."""
    top = stop_gradient(xp.max(logs, axis=-1, keepdims=True))
    weights = xp.exp(logs - top)
    columns = xp.stack([xp.ones_like(logs), *(xp.broadcast_to(value, logs.shape) for value in values)], axis=-1)
    total, *sums = xp.moveaxis((weights[..., None, :] @ columns)[..., 0, :], -1, 0)
    return xp.log(total) + top[..., 0], [each / total for each in sums]


_LOG_ROOT = 0.5 * math.log(2 * math.pi)


def _interval(xp: Any, a: Data, b: Data) -> tuple[Data, Data, Data]:
    """One dimension, in standard units: log-mass, mean [..., 1], covariance [..., 1, 1]."""
    a, b = a[..., 0], b[..., 0]
    mode = stop_gradient(xp.clip(xp.zeros_like(a), a, b))
    points, logs = _nodes(xp, *_range(xp, a, b, mode, -mode, 1.0))
    gap = points - mode[..., None]
    log_mass, (first, second) = _sums(xp, logs - 0.5 * points**2 - _LOG_ROOT, gap, gap * gap)
    return log_mass, (mode + first)[..., None], (second - first * first)[..., None, None]


def _rectangle(xp: Any, a: Data, b: Data, rho: Data) -> tuple[Data, Data, Data]:
    """Two dimensions, in standard units with correlation rho: u₁ by a rule, and u₂ given u₁ by another."""
    u1, u2 = _mode(xp, a, b, rho)
    rest = xp.sqrt(1.0 - rho**2)
    slope = -(u1 - rho * u2) / rest**2
    x, outer = _nodes(xp, *_range(xp, a[..., 0], b[..., 0], u1, slope, 1.0))
    center, width = rho[..., None] * x, rest[..., None]
    low, high = a[..., 1, None], b[..., 1, None]
    mode = stop_gradient(xp.clip(center, low, high))
    y, inner = _nodes(xp, *_range(xp, low, high, mode, (center - mode) / width**2, width))
    exponent = -0.5 * ((y - center[..., None]) / width[..., None]) ** 2
    before = outer - 0.5 * x**2 - xp.log(width) - 2 * _LOG_ROOT
    logs = before[..., None] + inner + exponent
    flat = logs.reshape((*logs.shape[:-2], -1))
    dx, dy = (x - u1[..., None])[..., None], y - u2[..., None, None]
    dx, dy = (xp.broadcast_to(part, logs.shape).reshape(flat.shape) for part in (dx, dy))
    log_mass, (m1, m2, v11, v12, v22) = _sums(xp, flat, dx, dy, dx * dx, dx * dy, dy * dy)
    c11, c12, c22 = v11 - m1 * m1, v12 - m1 * m2, v22 - m2 * m2
    covariance = xp.stack([xp.stack([c11, c12], -1), xp.stack([c12, c22], -1)], -2)
    return log_mass, xp.stack([u1 + m1, u2 + m2], -1), covariance


def _mode(xp: Any, a: Data, b: Data, rho: Data) -> tuple[Data, Data]:
    """The point of a box where the density with correlation rho is greatest: the centre, or the best of four edges."""

    sides = [(a[..., axis], b[..., axis]) for axis in range(2)]

    def clipped(value: Data, axis: int) -> Data:
        return xp.clip(value, *sides[axis])

    zero = xp.zeros_like(rho)
    first = [clipped(zero, 0), *(xp.where(xp.isfinite(e), e, 0.0) for e in sides[0])]
    second = [xp.where(xp.isfinite(e), e, 0.0) for e in sides[1]]
    candidates = [(u, clipped(rho * u, 1)) for u in first]
    candidates += [(clipped(rho * u, 0), clipped(u, 1)) for u in second]
    us = xp.stack([clipped(u, 0) for u, _ in candidates], -1)
    vs = xp.stack([clipped(v, 1) for _, v in candidates], -1)
    best = xp.argmin(us**2 - 2 * rho[..., None] * us * vs + vs**2, axis=-1)[..., None]
    at = (xp.take_along_axis(part, best, axis=-1)[..., 0] for part in (us, vs))
    return tuple(map(stop_gradient, at))  # type: ignore[return-value]
