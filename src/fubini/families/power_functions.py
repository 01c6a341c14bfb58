"""Powers of x between two ends, in index notation."""

from __future__ import annotations

from fubini.algebra.node import Node, node
from fubini.base.scalar_functions import on_jax
from fubini.numerics import power_laws

LOG_INTEGRAL = on_jax()(power_laws.log_integral_of_power)
VARIANCE = on_jax()(power_laws.variance_of_power)


def log_integral(p: Node, low: Node, high: Node) -> Node:
    """log ∫ x^p dx from low to high"""
    return node("call", LOG_INTEGRAL, p, low, high)


def variance(p: Node, low: Node, high: Node) -> Node:
    """The variance of x with the density x^p between low and high"""
    return node("call", VARIANCE, p, low, high)
