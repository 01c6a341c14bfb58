"""TruncatedNormal(loc, scale, low, high): a normal number between two ends."""

from __future__ import annotations

import jax
from numpyro.distributions import constraints

from fubini.algebra.build import call, minus
from fubini.algebra.node import Node
from fubini.base.arrays import Data
from fubini.families.family import Family, register
from fubini.families.normal import log_mass, log_normal
from fubini.families.parameters import ENDS, Arrays, Parameters, interval


def log_truncated_normal(x: Node, parameters: Parameters) -> Node:
    """The normal density over the mass between the ends"""
    return minus(log_normal(x, parameters), log_mass(parameters, parameters["low"], parameters["high"]))


def draw(key: Data, parameters: Arrays) -> Data:
    """μ + σ times a standard normal number between the ends"""
    low, high = ((parameters[end] - parameters["loc"]) / parameters["scale"] for end in ("low", "high"))
    return parameters["loc"] + parameters["scale"] * jax.random.truncated_normal(key, low, high)


TRUNCATED_NORMAL = register(
    Family(
        "TruncatedNormal",
        {"loc": constraints.real, "scale": constraints.positive, **ENDS},
        interval,
        log_truncated_normal,
        draw=draw,
        mode=lambda p: call("min", call("max", p["loc"], p["low"]), p["high"]),
        is_read=False,
    )
)
