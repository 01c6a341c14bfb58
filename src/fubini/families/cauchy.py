"""Cauchy(loc, scale): 1 / πσ (1 + ((x − μ)/σ)²)."""

from __future__ import annotations

import math

import jax
from numpyro.distributions import constraints

from fubini.algebra.build import ONE, add, minus, plus, power, times
from fubini.algebra.node import Node
from fubini.families.family import Family, register
from fubini.families.functions import log
from fubini.families.parameters import REAL, Parameters
from fubini.families.signature import Match, Signature
from fubini.families.student_t import from_power
from fubini.families.summand import Summand


def log_cauchy(x: Node, parameters: Parameters) -> Node:
    """−log π − log σ − log(1 + ((x − μ)/σ)²)"""
    square = times(power(minus(x, parameters["loc"]), 2.0), power(parameters["scale"], -2.0))
    return add(((ONE, -math.log(math.pi)), (log(parameters["scale"]), -1.0), (log(plus(ONE, square)), -1.0)))


def from_quadratic(exponent: Node, weight: Node, mean: Node, least: Node) -> Match | None:
    """A Student of one degree of freedom"""
    (parameters, normaliser) = from_power(exponent, weight, mean, least)
    if parameters["df"] is not ONE:
        return None
    return {"loc": parameters["loc"], "scale": parameters["scale"]}, normaliser


CAUCHY = register(
    Family(
        "Cauchy",
        {"loc": constraints.real, "scale": constraints.positive},
        REAL,
        log_cauchy,
        names=("Cauchy",),
        signature=Signature("quadratic", from_quadratic),
        draw=lambda key, p: p["loc"] + p["scale"] * jax.random.cauchy(key, p["loc"].shape),
        summand=lambda p: Summand("Cauchy", {"loc": p["loc"], "scale": p["scale"]}),
        mode=lambda p: p["loc"],
        folded="HalfCauchy",
    )
)
