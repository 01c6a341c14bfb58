"""Masses between two ends: incomplete gamma and beta functions, and the mean of an exponential, by their logarithms."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from jax.scipy.special import betainc, gammainc, gammaincc

from fubini.arrays import Data
from fubini.index.build import const
from fubini.index.node import Node, node
from fubini.measures.values import Number, combined

NOWHERE, INFINITE = const(0.0), const(math.inf)


def log_mass_of_gamma(shape: Data, low: Data, high: Data) -> Data:
    """log ∫ x^(a−1) e^(−x) dx / Γ(a) from low to high, by the tail that does not cancel"""
    shape, low, high = (jnp.asarray(part, float) for part in (shape, low, high))
    end = jnp.where(jnp.isinf(high), low + 1.0, high)
    below = jnp.where(jnp.isinf(high), 1.0, gammainc(shape, end)) - gammainc(shape, low)
    above = gammaincc(shape, low) - jnp.where(jnp.isinf(high), 0.0, gammaincc(shape, end))
    return jnp.log(jnp.maximum(jnp.where(low > shape, above, below), 0.0))


def log_mass_of_beta(a: Data, b: Data, low: Data, high: Data) -> Data:
    """log ∫ x^(a−1) (1 − x)^(b−1) dx / B(a, b) from low to high, by the side that does not cancel"""
    a, b, low, high = (jnp.asarray(part, float) for part in (a, b, low, high))
    below = betainc(a, b, high) - betainc(a, b, low)
    above = betainc(b, a, 1.0 - low) - betainc(b, a, 1.0 - high)
    return jnp.log(jnp.maximum(jnp.where(low * (a + b) > a, above, below), 0.0))


def log_mean_of_exponential(slope: Data) -> Data:
    """log ∫ e^(c u) du from 0 to 1  =  log (e^c − 1)/c"""
    slope = jnp.asarray(slope, float)
    size = jnp.abs(slope)
    some = jnp.where(size < 1e-5, 1.0, size)
    value = jnp.where(size < 1e-5, -size / 2 + size**2 / 24, jnp.log(-jnp.expm1(-some)) - jnp.log(some))
    return value + jnp.maximum(slope, 0.0)


def gamma_node(shape: Node, low: Node, high: Node) -> Node:
    """The logarithm of a mass of Gamma(a, 1)."""
    return const(0.0) if low is NOWHERE and high is INFINITE else node("call", log_mass_of_gamma, shape, low, high)


def beta_node(a: Node, b: Node, low: Node, high: Node) -> Node:
    """The logarithm of a mass of Beta(a, b)."""
    return node("call", log_mass_of_beta, a, b, low, high)


def exponential_node(slope: Node) -> Node:
    """log (e^c − 1)/c"""
    return node("call", log_mean_of_exponential, slope)


def gamma_mass(shape: Any, low: Any, high: Any) -> Number:
    """The logarithm of the mass of Gamma(shape, 1) between two ends"""
    return combined(gamma_node, shape, low, high)


def beta_mass(a: Any, b: Any, low: Any, high: Any) -> Number:
    """The logarithm of the mass of Beta(a, b) between two ends"""
    return combined(beta_node, a, b, low, high)


def mean_exponential(slope: Any) -> Number:
    """log (e^slope − 1)/slope"""
    return combined(exponential_node, slope)
