"""Powers of x between two ends: ∫ x^p dx, moments and draws by their logarithms.

With q = p + 1, d = log(high/low) and s = |q|, x is e^(−t) high for positive q and e^t low for negative q, where t has
the density e^(−s t) between 0 and d. Nothing overflows, ends 0 and ∞ are allowed, and q = 0 is no exception.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from fubini.base.arrays import Data

NEAR = 1e-3  # s d below which 1 − e^(−s d) is taken by its series
FAR = 20.0  # s d above which the other end does not matter to a variance


class _Scaled(NamedTuple):
    """q, s, d, the end where most of the mass is and its logarithm; whether 0 ≤ low < high, and d is finite."""

    q: Data
    s: Data
    d: Data
    top: Data
    log_top: Data
    is_open: Data
    is_finite: Data


def _scaled(p: Data, low: Data, high: Data) -> _Scaled:
    p, low, high = jnp.broadcast_arrays(*(jnp.asarray(part, jnp.result_type(float)) for part in (p, low, high)))
    q = p + 1
    is_open = (low >= 0) & (low < high)
    is_finite = is_open & (low > 0) & jnp.isfinite(high)
    logs = [_log(low), _log(high)]
    d = jnp.where(is_finite, logs[1] - logs[0], 1.0)
    return _Scaled(
        q,
        jnp.where(q > 0, q, -q),
        d,
        jnp.where(q > 0, high, low),
        jnp.where(q > 0, logs[1], logs[0]),
        is_open,
        is_finite,
    )


def _log(end: Data) -> Data:
    """log of an end, with a derivative that is a number where the end is 0 or ∞"""
    is_inside = (end > 0) & jnp.isfinite(end)
    return jnp.where(is_inside, jnp.log(jnp.where(is_inside, end, 1.0)), jnp.where(end > 0, jnp.inf, -jnp.inf))


def log_integral_of_power(p: Data, low: Data, high: Data) -> Data:
    """log ∫ x^p dx: −∞ where the ends leave nothing, ∞ where it diverges, not a number below 0"""
    q, s, d, _, log_top, is_open, is_finite = _scaled(p, low, high)
    small = s * d < NEAR
    sd = jnp.where(small, 1.0, s * d)
    near = jnp.log(d) - 0.5 * s * d + (s * d) ** 2 / 24
    between = jnp.where(small, near, jnp.log(-jnp.expm1(-sd)) - jnp.log(jnp.where(small, 1.0, s)))
    beyond = jnp.where(s > 0, -jnp.log(jnp.where(s > 0, s, 1.0)), jnp.inf)
    safe = jnp.where(jnp.isfinite(log_top), log_top, 0.0)
    front = jnp.where(jnp.isfinite(log_top), q * safe, jnp.where(s > 0, jnp.inf, 0.0))
    value = jnp.where(is_open, front + jnp.where(is_finite, between, beyond), -jnp.inf)
    return jnp.where(jnp.asarray(low) < 0, jnp.nan, value)


def mean_of_power(p: Data, low: Data, high: Data) -> Data:
    """∫ x^(p+1) dx / ∫ x^p dx"""
    return jnp.exp(log_integral_of_power(p + 1, low, high) - log_integral_of_power(p, low, high))


def variance_of_power(p: Data, low: Data, high: Data) -> Data:
    """E[x²] − E[x]², or of one end alone where the other does not matter"""
    q, s, d, top, *_, is_finite = _scaled(p, low, high)
    zero, two = log_integral_of_power(p, low, high), log_integral_of_power(p + 2, low, high)
    both = jnp.maximum(jnp.exp(two - zero) - mean_of_power(p, low, high) ** 2, 0.0)
    up = top**2 * q / ((q + 1) ** 2 * (q + 2))
    down = -(top**2) * q / ((q + 1) ** 2 * (-q - 2))
    alone = ~is_finite | (jnp.where(q > 0, s, s - 2) * d > FAR)
    return jnp.where(alone, jnp.where(q > 0, up, jnp.where(q < -2, down, jnp.inf)), both)


def draw_power(key: Data, p: Data, low: Data, high: Data) -> Data:
    """x with a given mass below it, a uniform number: t = −log(1 − u (1 − e^(−s d)))/s"""
    q, s, d, top, _, _, is_finite = _scaled(p, low, high)
    u = jax.random.uniform(key, q.shape)
    small = is_finite & (s * d < NEAR**2)
    mass = jnp.where(is_finite, jnp.expm1(-s * d), -1.0)
    t = jnp.where(small, u * d, -jnp.log1p(u * mass) / jnp.where(small, 1.0, s))
    return jnp.clip(top * jnp.exp(jnp.where(q > 0, -t, t)), low, high)
