"""HalfNormal(scale): the size of a normal number around 0."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from numpyro.distributions import constraints

from fubini.algebra.build import ONE, ZERO, add, const, power, scale, times
from fubini.algebra.node import Node
from fubini.families.family import Family, register
from fubini.families.functions import LOG_2PI, log, square
from fubini.families.generalized_gamma import from_one_power
from fubini.families.incomplete_functions import gamma_mass_of_power
from fubini.families.parameters import POSITIVE, Parameters
from fubini.families.signature import Features, Match, features


def log_half_normal(x: Node, parameters: Parameters) -> Node:
    """log 2 − ½ x² / σ² − log σ − ½ log 2π"""
    exponent = times(power(x, 2.0), power(parameters["scale"], -2.0))
    return add(((exponent, -0.5), (log(parameters["scale"]), -1.0), (ONE, math.log(2) - 0.5 * LOG_2PI)))


def from_features(coefficients: Features) -> Match:
    """∫ e^(−b x²) dx  =  ½ √(π/b),  σ = 1/√(2b)"""
    shape_and_rate, normaliser = from_one_power(2.0, coefficients)
    return {"scale": power(scale(2.0, shape_and_rate["rate"]), -0.5)}, normaliser


def gamma_of_power(parameters: Parameters) -> tuple[Node, Node, float]:
    """x²/2σ² is Gamma(½, 1)"""
    return const(0.5), times(const(0.5), power(parameters["scale"], -2.0)), 2.0


def moments(parameters: Parameters, most: int) -> list[Node]:
    """E[x^j] = (j − 1) σ² E[x^(j−2)]"""
    powers = [ONE, scale(math.sqrt(2 / math.pi), parameters["scale"])]
    for j in range(2, most + 1):
        powers.append(scale(j - 1.0, times(square(parameters["scale"]), powers[j - 2])))
    return powers[: most + 1]


HALF_NORMAL = register(
    Family(
        "HalfNormal",
        {"scale": constraints.positive},
        POSITIVE,
        log_half_normal,
        names=("HalfNormal",),
        signature=features("positive", ("power", 2.0), (), from_features),
        draw=lambda key, p: p["scale"] * jnp.abs(jax.random.normal(key, p["scale"].shape)),
        mean=lambda p: scale(math.sqrt(2 / math.pi), p["scale"]),
        variance=lambda p: scale(1 - 2 / math.pi, square(p["scale"])),
        moments=moments,
        log_mass=lambda p, low, high: gamma_mass_of_power(*gamma_of_power(p), low, high),
        gamma_of_power=gamma_of_power,
        mode=lambda p: ZERO,
        finite_needs=lambda p: (power(p["scale"], -2.0),),
        equation="∫ e^(−b x²) dx = ½ √(π/b)",
    )
)
