"""The regularised incomplete beta function, with derivatives in all of its arguments."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import special

from fubini.base.arrays import Data

STEPS = np.linspace(-6.0, 3.0, 145)
LARGE = 16.0  # both parameters, from which on the value is by quadrature too, and Stirling's series are good


def _rule() -> tuple[np.ndarray, np.ndarray]:
    """Nodes and log weights of ∫ f(s) ds from 0 on, s = log(1 + e^(−π sinh τ)), close to 0 and far out"""
    z = np.pi * np.sinh(STEPS)
    return np.logaddexp(0.0, -z), np.log(np.pi * np.cosh(STEPS) * (STEPS[1] - STEPS[0])) - np.logaddexp(0.0, z)


NODES, LOG_WEIGHTS = _rule()


@jax.custom_jvp
def incomplete_beta(a: Data, b: Data, x: Data) -> Data:
    """I_x(a, b) = ∫₀ˣ t^(a−1) (1 − t)^(b−1) dt / B(a, b)

    >>> round(float(incomplete_beta(2.0, 1.0, 0.5)), 6), round(float(jax.grad(incomplete_beta)(2.0, 1.0, 0.5)), 4)
    (0.25, -0.1733)
    """
    a, b, x = (1.0 * jnp.asarray(part) for part in (a, b, x))
    is_large = (jnp.minimum(a, b) >= LARGE) & (x > 0) & (x < 1)
    part = _lesser_part(a, b, jnp.clip(x, _least(x), _most(x)))
    mass = jnp.sum(part.masses, axis=-1)
    return jnp.where(is_large, jnp.where(part.is_low, mass, 1.0 - mass), special.betainc(a, b, x))


@incomplete_beta.defjvp
def _differentiate(primals: tuple[Data, Data, Data], tangents: tuple[Data, Data, Data]) -> tuple[Data, Data]:
    a, b, x = (1.0 * jnp.asarray(part) for part in primals)
    inside = jnp.clip(x, _least(x), _most(x))
    slopes = (
        _slope_in_first(a, b, inside),
        -_slope_in_first(b, a, 1.0 - inside),  # I_x(a, b) = 1 − I_(1−x)(b, a)
        jnp.where((x > 0) & (x < 1), _density(a, b, inside), 0.0),
    )
    change = slopes[0] * tangents[0] + slopes[1] * tangents[1] + slopes[2] * tangents[2]
    return incomplete_beta(a, b, x), change


def _least(x: Data) -> float:
    """The least positive number of a precision."""
    return float(np.finfo(x.dtype).tiny)


def _most(x: Data) -> float:
    """The greatest number below 1."""
    return 1.0 - float(np.finfo(x.dtype).epsneg)


class LesserPart(NamedTuple):
    """The masses of [0, x], or of [x, 1] where that is the lesser, at nodes t, and log(t / mean) there."""

    is_low: Data
    masses: Data
    log_ratio: Data


def _lesser_part(a: Data, b: Data, x: Data) -> LesserPart:
    """By t = x e^(−s/a), or 1 − t = (1 − x) e^(−s/b), at nodes as wide as a peak in s, √(ab/(a + b))"""
    is_low, near, other, log_end = _side(a, b, x)
    near, other, log_end = near[..., None], other[..., None], log_end[..., None]
    width = jax.lax.stop_gradient(jnp.maximum(jnp.sqrt(near / (near + other) * other), 1.0))
    log_near = log_end - width * NODES.astype(x.dtype) / near
    log_far = jnp.log1p(-near / other * jnp.expm1(log_near))
    log_rest = jnp.log(other / (near + other)) + log_far  # the logarithm of the other of t and 1 − t
    log_step = jnp.log(width / near) + LOG_WEIGHTS.astype(x.dtype)
    masses = jnp.exp(_log_kernel(near, other, log_near, log_far) - log_rest + log_step)
    return LesserPart(is_low, masses, jnp.where(is_low[..., None], log_near, log_far))


def _side(a: Data, b: Data, x: Data) -> tuple[Data, Data, Data, Data]:
    """Whether x is below the mean, the parameter of that side and the other, and log x / mean, or this of 1 − x."""
    is_low = x * (a + b) <= a
    near, other = jnp.where(is_low, a, b), jnp.where(is_low, b, a)
    return is_low, near, other, jnp.log(jnp.where(is_low, x, 1.0 - x) * ((a + b) / near))


def _log_kernel(near: Data, other: Data, log_near: Data, log_far: Data) -> Data:
    """log t^a (1 − t)^b / B(a, b), by t and 1 − t over their means: no terms of the size of a cancel"""
    excess = jnp.expm1(log_near)
    distance = near * (excess - log_near) + other * (-near / other * excess - log_far)
    front = 0.5 * jnp.log(near / (near + other) * other / (2 * np.pi))
    return front + _stirling(near + other) - _stirling(near) - _stirling(other) - distance


def _stirling(z: Data) -> Data:
    """log Γ(z) − (z − ½) log z + z − ½ log 2π"""
    small, y = jnp.minimum(z, LARGE), jnp.maximum(z, LARGE)
    exact = special.gammaln(small) - (small - 0.5) * jnp.log(small) + small - 0.5 * np.log(2 * np.pi)
    series = (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / (1188 * y**2)) / y**2) / y**2) / y**2) / y
    return jnp.where(z < LARGE, exact, series)


def _digamma_less_log(z: Data) -> Data:
    """ψ(z) − log z"""
    small, y = jnp.minimum(z, LARGE), jnp.maximum(z, LARGE)
    series = -(1 / 12 - (1 / 120 - (1 / 252 - (1 / 240 - 1 / (132 * y**2)) / y**2) / y**2) / y**2) / y**2 - 0.5 / y
    return jnp.where(z < LARGE, special.digamma(small) - jnp.log(small), series)


def _density(a: Data, b: Data, x: Data) -> Data:
    _, near, other, log_end = _side(a, b, x)
    log_far = jnp.log1p(-near / other * jnp.expm1(log_end))
    return jnp.exp(_log_kernel(near, other, log_end, log_far) - jnp.log(x) - jnp.log1p(-x))


def _slope_in_first(a: Data, b: Data, x: Data) -> Data:
    """∂I_x(a, b)/∂a = ∫ p(t) (log t − ψ(a) + ψ(a + b)) dt from 0 to x, or less the same from x to 1: the lesser mass"""
    part = _lesser_part(a, b, x)
    mean_log = (_digamma_less_log(a) - _digamma_less_log(a + b))[..., None]
    slope = jnp.sum(part.masses * (part.log_ratio - mean_log), axis=-1)
    return jnp.where(part.is_low, slope, -slope)
