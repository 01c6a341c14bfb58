"""Masses between two ends, and beside them, by their logarithms: normal, incomplete gamma and beta functions."""

from __future__ import annotations

from typing import cast

import jax.numpy as jnp
from jax.scipy import special

from fubini.algebra.build import ZERO, power, times
from fubini.algebra.node import Node, node
from fubini.base.arrays import Data
from fubini.base.scalar_functions import on_jax
from fubini.families.functions import INFINITY
from fubini.numerics.incomplete_beta import incomplete_beta


@on_jax(program="normal_mass")
def log_mass_of_normal(low: Data, high: Data) -> Data:
    """log(Φ(high) − Φ(low)), right in both tails"""
    flip = low + high > 0  # the left tail is the one that does not cancel
    a, b = jnp.where(flip, -high, low), jnp.where(flip, -low, high)
    log_a, log_b = cast(Data, special.log_ndtr(a)), cast(Data, special.log_ndtr(b))
    return log_b + jnp.log1p(-jnp.exp(jnp.minimum(log_a - log_b, 0.0)))


@on_jax(program="gamma_mass")
def log_mass_of_gamma(shape: Data, low: Data, high: Data) -> Data:
    """log ∫ x^(a−1) e^(−x) dx / Γ(a) from low to high, by the tail that does not cancel"""
    shape, low, high = (jnp.asarray(part, float) for part in (shape, low, high))
    end = jnp.where(jnp.isinf(high), low + 1.0, high)
    below = jnp.where(jnp.isinf(high), 1.0, special.gammainc(shape, end)) - special.gammainc(shape, low)
    above = special.gammaincc(shape, low) - jnp.where(jnp.isinf(high), 0.0, special.gammaincc(shape, end))
    return jnp.log(jnp.maximum(jnp.where(low > shape, above, below), 0.0))


@on_jax(program="beta_mass")
def log_mass_of_beta(a: Data, b: Data, low: Data, high: Data) -> Data:
    """log ∫ x^(a−1) (1 − x)^(b−1) dx / B(a, b) from low to high, by the side that does not cancel"""
    a, b, low, high = (jnp.asarray(part, float) for part in (a, b, low, high))
    below = incomplete_beta(a, b, high) - incomplete_beta(a, b, low)
    above = incomplete_beta(b, a, 1.0 - low) - incomplete_beta(b, a, 1.0 - high)
    return jnp.log(jnp.maximum(jnp.where(low * (a + b) > a, above, below), 0.0))


@on_jax(program="log_complement")
def log_one_minus_exp(x: Data) -> Data:
    """log(1 − e^x), −∞ from 0 on, with derivatives that are numbers"""
    safe = jnp.where(x < 0, x, -1.0)
    value = jnp.where(safe > -0.7, jnp.log(-jnp.expm1(safe)), jnp.log1p(-jnp.exp(safe)))
    return jnp.where(x < 0, value, -jnp.inf)


def normal_between(u: Data, low: Data, high: Data) -> Data:
    """z with (Φ(z) − Φ(low)) / (Φ(high) − Φ(low)) = u, right in both tails"""
    flip = low + high > 0  # the left tail is the one that does not cancel
    a, b = jnp.where(flip, -high, low), jnp.where(flip, -low, high)
    log_a, log_b = cast(Data, special.log_ndtr(a)), cast(Data, special.log_ndtr(b))
    share = jnp.log(u) + jnp.log1p(-jnp.exp(jnp.minimum(log_a - log_b, 0.0)))  # of Φ(b)
    z = jnp.clip(_normal_quantile(log_b + jnp.logaddexp(log_a - log_b, share)), a, b)
    return jnp.where(flip, -z, z)


def _normal_quantile(log_p: Data) -> Data:
    """z with log Φ(z) = log p, by Newton's steps from z² ≈ −2 log p far out"""
    far = jnp.minimum(log_p, -1.0)
    start = -jnp.sqrt(jnp.maximum(-2 * far - jnp.log(2 * jnp.pi) - jnp.log(-2 * far), 0.0))
    near = cast(Data, special.ndtri(jnp.exp(log_p)))
    z = jnp.where(log_p < -10.0, start, near)
    for _ in range(4):
        log_cdf = cast(Data, special.log_ndtr(z))
        hazard = jnp.exp(-0.5 * z**2 - 0.5 * jnp.log(2 * jnp.pi) - log_cdf)
        z = jnp.where(log_p < -10.0, z - (log_cdf - log_p) / hazard, z)
    return z


def log_complement(log_p: Node) -> Node:
    """log(1 − p)"""
    return node("call", log_one_minus_exp, log_p)


def normal_mass(low: Node, high: Node) -> Node:
    """log(Φ(high) − Φ(low))"""
    return node("call", log_mass_of_normal, low, high)


def gamma_mass(shape: Node, low: Node, high: Node) -> Node:
    """The logarithm of a mass of Gamma(a, 1)."""
    return ZERO if low is ZERO and high is INFINITY else node("call", log_mass_of_gamma, shape, low, high)


def beta_mass(a: Node, b: Node, low: Node, high: Node) -> Node:
    """The logarithm of a mass of Beta(a, b)."""
    return node("call", log_mass_of_beta, a, b, low, high)


def gamma_mass_of_power(shape: Node, rate: Node, exponent: float, low: Node, high: Node) -> Node:
    """log P(low < x < high), where rate · x^exponent is Gamma(shape, 1)"""
    ends = [end if end in (ZERO, INFINITY) else times(rate, power(end, exponent)) for end in (low, high)]
    if exponent < 0:
        ends = [{ZERO: INFINITY, INFINITY: ZERO}.get(end, end) for end in reversed(ends)]
    return gamma_mass(shape, *ends)
