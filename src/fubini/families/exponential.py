"""Exponential(rate): β e^(−β x), a Gamma of shape 1."""

from __future__ import annotations

import jax
from numpyro.distributions import constraints

from fubini.algebra.build import ONE, ZERO, minus, power, scale, times
from fubini.algebra.node import Node
from fubini.families.family import Family, register
from fubini.families.functions import digamma, log
from fubini.families.parameters import POSITIVE, Parameters
from fubini.families.recurrences import rising
from fubini.families.summand import Summand


def log_exponential(x: Node, parameters: Parameters) -> Node:
    """log β − β x"""
    return minus(log(parameters["rate"]), times(parameters["rate"], x))


EXPONENTIAL = register(
    Family(
        "Exponential",
        {"rate": constraints.positive},
        POSITIVE,
        log_exponential,
        names=("Exponential",),
        draw=lambda key, p: jax.random.exponential(key, p["rate"].shape) / p["rate"],
        mean=lambda p: power(p["rate"], -1.0),
        variance=lambda p: power(p["rate"], -2.0),
        moments=lambda p, most: rising(ONE, [power(p["rate"], -1.0)] * most),
        mean_logs=lambda p: {"log": minus(digamma(ONE), log(p["rate"]))},
        summand=lambda p: Summand("Gamma", {"concentration": ONE}, {"rate": p["rate"]}),
        log_survival=lambda x, p: scale(-1.0, times(p["rate"], x)),
        mode=lambda p: ZERO,
    )
)
