"""Normal(loc, scale): e^(−(x − μ)²/2σ²) / σ√(2π)."""

from __future__ import annotations

import jax
from numpyro.distributions import constraints

from fubini.algebra.build import ONE, add, divide, minus, plus, power, scale, times
from fubini.algebra.node import Node
from fubini.families.family import Family, register
from fubini.families.functions import LOG_2PI, log, log_rate, square
from fubini.families.incomplete_functions import normal_mass
from fubini.families.parameters import REAL, Parameters
from fubini.families.signature import Match, Signature
from fubini.families.summand import Summand


def log_normal(x: Node, parameters: Parameters) -> Node:
    """−½ (x − μ)² / σ² − log σ − ½ log 2π"""
    exponent = times(power(minus(x, parameters["loc"]), 2.0), power(parameters["scale"], -2.0))
    return add(((exponent, -0.5), (log(parameters["scale"]), -1.0), (ONE, -0.5 * LOG_2PI)))


def from_square(precision: Node, mean: Node, slope: Node) -> Match:
    """∫ exp(−½ p (x − m)² + s x) dx  =  √(2π/p) · exp(s m + s²/2p)"""
    moved_mean = plus(mean, divide(slope, precision))
    moved = plus(times(slope, mean), scale(0.5, divide(power(slope, 2.0), precision)))
    normaliser = add(((ONE, 0.5 * LOG_2PI), (log_rate(precision), -0.5), (moved, 1.0)))
    return {"loc": moved_mean, "scale": power(precision, -0.5)}, normaliser


def moments(parameters: Parameters, most: int) -> list[Node]:
    """E[x^j] = μ E[x^(j−1)] + (j − 1) σ² E[x^(j−2)]"""
    mean, variance = parameters["loc"], square(parameters["scale"])
    powers = [ONE, mean]
    for j in range(2, most + 1):
        powers.append(plus(times(mean, powers[j - 1]), scale(j - 1.0, times(variance, powers[j - 2]))))
    return powers


def log_mass(parameters: Parameters, low: Node, high: Node) -> Node:
    """log(Φ((high − μ)/σ) − Φ((low − μ)/σ))"""
    return normal_mass(*(standardised(end, parameters) for end in (low, high)))


def standardised(x: Node, parameters: Parameters) -> Node:
    """(x − μ)/σ, of an infinite end itself"""
    if x in (REAL.low, REAL.high):
        return x
    return divide(minus(x, parameters["loc"]), parameters["scale"])


NORMAL = register(
    Family(
        "Normal",
        {"loc": constraints.real, "scale": constraints.positive},
        REAL,
        log_normal,
        names=("Normal",),
        signature=Signature("square", from_square),
        draw=lambda key, p: p["loc"] + p["scale"] * jax.random.normal(key, p["loc"].shape),
        mean=lambda p: p["loc"],
        variance=lambda p: square(p["scale"]),
        moments=moments,
        summand=lambda p: Summand("Normal", {"loc": p["loc"], "scale": p["scale"]}, powers={"scale": 2.0}),
        log_mass=log_mass,
        log_survival=lambda x, p: log_mass(p, x, REAL.high),
        truncated="TruncatedNormal",
        exponential="LogNormal",
        mode=lambda p: p["loc"],
        finite_needs=lambda p: (power(p["scale"], -2.0),),
        equation="∫ exp(−½ p (x − m)²) dx = √(2π/p)",
        degree=(2, False),
    )
)
