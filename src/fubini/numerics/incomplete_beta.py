"""The regularised incomplete beta function, with derivatives in all of its arguments."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import special

from fubini.base.arrays import Data

STEPS = np.linspace(-6.0, 3.0, 145)


def _rule() -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights, by their logarithms, of ∫ f(u) du from 0 to 1 with u = 1/(1 + e^(−π sinh s)), far down to 0"""
    z = np.pi * np.sinh(STEPS)
    log_nodes = -np.logaddexp(0.0, -z)
    return log_nodes, np.log(np.pi * np.cosh(STEPS) * (STEPS[1] - STEPS[0])) + log_nodes - np.logaddexp(0.0, z)


LOG_NODES, LOG_WEIGHTS = _rule()


@jax.custom_jvp
def incomplete_beta(a: Data, b: Data, x: Data) -> Data:
    """I_x(a, b) = ∫₀ˣ t^(a−1) (1 − t)^(b−1) dt / B(a, b)

    >>> round(float(incomplete_beta(2.0, 1.0, 0.5)), 6), round(float(jax.grad(incomplete_beta)(2.0, 1.0, 0.5)), 4)
    (0.25, -0.1733)
    """
    return special.betainc(a, b, x)


@incomplete_beta.defjvp
def _differentiate(primals: tuple[Data, Data, Data], tangents: tuple[Data, Data, Data]) -> tuple[Data, Data]:
    a, b, x = (jnp.asarray(part) for part in primals)
    inside = jnp.clip(x, _least(x), _most(x))
    log_density = (a - 1) * jnp.log(inside) + (b - 1) * jnp.log1p(-inside) - special.betaln(a, b)
    slopes = (
        _slope_in_first(a, b, inside),
        -_slope_in_first(b, a, 1.0 - inside),  # I_x(a, b) = 1 − I_(1−x)(b, a)
        jnp.where((x > 0) & (x < 1), jnp.exp(log_density), 0.0),
    )
    change = slopes[0] * tangents[0] + slopes[1] * tangents[1] + slopes[2] * tangents[2]
    return incomplete_beta(a, b, x), change


def _least(x: Data) -> float:
    """The least positive number of a precision."""
    return float(np.finfo(x.dtype).tiny)


def _most(x: Data) -> float:
    """The greatest number below 1."""
    return 1.0 - float(np.finfo(x.dtype).epsneg)


def _slope_in_first(a: Data, b: Data, x: Data) -> Data:
    """∂I_x(a, b)/∂a = ∫ p(t) (log t − ψ(a) + ψ(a + b)) dt from 0 to x, or less the same from x to 1: the lesser mass"""
    is_low = x * (a + b) <= a
    shape, other = jnp.where(is_low, a, b)[..., None], jnp.where(is_low, b, a)[..., None]
    end = jnp.where(is_low, x, 1.0 - x)[..., None]
    log_near = jnp.log(end) + LOG_NODES.astype(x.dtype) / shape  # log t or log(1 − t)
    near = jnp.exp(log_near)
    log_far = jnp.log1p(-jnp.minimum(near, _most(x)))
    log_t = jnp.where(is_low[..., None], log_near, log_far)
    mean_log = (special.digamma(a) - special.digamma(a + b))[..., None]
    front = shape * jnp.log(end) - jnp.log(shape) - special.betaln(shape, other)
    masses = jnp.exp(front + (other - 1) * log_far + LOG_WEIGHTS.astype(x.dtype))
    part = jnp.sum(masses * (log_t - mean_log), axis=-1)
    return jnp.where(is_low, part, -part)
