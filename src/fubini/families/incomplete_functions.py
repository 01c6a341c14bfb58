"""Masses between two ends by their logarithms: of a normal, and incomplete gamma and beta functions."""

from __future__ import annotations

from typing import cast

import jax.numpy as jnp
from jax.scipy import special

from fubini.algebra.build import ZERO, power, times
from fubini.algebra.node import Node, node
from fubini.base.arrays import Data
from fubini.base.scalar_functions import on_jax
from fubini.families.functions import INFINITY


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
    below = special.betainc(a, b, high) - special.betainc(a, b, low)
    above = special.betainc(b, a, 1.0 - low) - special.betainc(b, a, 1.0 - high)
    return jnp.log(jnp.maximum(jnp.where(low * (a + b) > a, above, below), 0.0))


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
