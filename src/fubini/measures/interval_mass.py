"""Masses between two ends as functions of a program, and the mean of an exponential, by their logarithms."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from fubini.algebra.build import ZERO
from fubini.algebra.node import Node, node
from fubini.base.arrays import Data
from fubini.base.scalar_functions import on_jax
from fubini.families import incomplete_functions as masses
from fubini.measures.values import Number, combined


@on_jax(program="mean_exponential")
def log_mean_of_exponential(slope: Data) -> Data:
    """log ∫ e^(c u) du from 0 to 1  =  log (e^c − 1)/c"""
    slope = jnp.asarray(slope, float)
    size = jnp.abs(slope)
    some = jnp.where(size < 1e-5, 1.0, size)
    value = jnp.where(size < 1e-5, -size / 2 + size**2 / 24, jnp.log(-jnp.expm1(-some)) - jnp.log(some))
    return value + jnp.maximum(slope, 0.0)


def exponential_node(slope: Node) -> Node:
    """log (e^c − 1)/c"""
    return ZERO if slope is ZERO else node("call", log_mean_of_exponential, slope)


def gamma_mass(shape: Any, low: Any, high: Any) -> Number:
    """The logarithm of the mass of Gamma(shape, 1) between two ends

    >>> round(float(gamma_mass(1, 0, 1)), 6)
    -0.458675
    """
    return combined(masses.gamma_mass, shape, low, high)


def beta_mass(a: Any, b: Any, low: Any, high: Any) -> Number:
    """The logarithm of the mass of Beta(a, b) between two ends

    >>> round(float(beta_mass(1, 1, 0.25, 0.75)), 6)
    -0.693147
    """
    return combined(masses.beta_mass, a, b, low, high)


def mean_exponential(slope: Any) -> Number:
    """log (e^slope − 1)/slope

    >>> round(float(mean_exponential(1)), 6)
    0.541325
    """
    return combined(exponential_node, slope)
