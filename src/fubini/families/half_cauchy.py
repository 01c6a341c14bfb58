"""HalfCauchy(scale): the size of a Cauchy number around 0."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from numpyro.distributions import constraints

from fubini.algebra.build import ONE, ZERO, add, plus, power, times
from fubini.algebra.node import Node
from fubini.families.family import Family, register
from fubini.families.functions import log
from fubini.families.parameters import POSITIVE, Parameters


def log_half_cauchy(x: Node, parameters: Parameters) -> Node:
    """log 2 − log π − log σ − log(1 + (x/σ)²)"""
    square = times(power(x, 2.0), power(parameters["scale"], -2.0))
    return add(((ONE, math.log(2 / math.pi)), (log(parameters["scale"]), -1.0), (log(plus(ONE, square)), -1.0)))


HALF_CAUCHY = register(
    Family(
        "HalfCauchy",
        {"scale": constraints.positive},
        POSITIVE,
        log_half_cauchy,
        names=("HalfCauchy",),
        draw=lambda key, p: p["scale"] * jnp.abs(jax.random.cauchy(key, p["scale"].shape)),
        mode=lambda p: ZERO,
    )
)
