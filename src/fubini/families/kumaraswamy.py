"""Kumaraswamy(concentration1, concentration0): a b x^(a−1) (1 − x^a)^(b−1)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from numpyro.distributions import constraints

from fubini.algebra.build import ONE, add, call, divide, minus, plus, power, scale, times
from fubini.algebra.node import Node
from fubini.base.arrays import Data
from fubini.families.family import Family, register
from fubini.families.functions import exp, log, log_beta, one_minus, square
from fubini.families.parameters import UNIT, Arrays, Parameters


def log_kumaraswamy(x: Node, parameters: Parameters) -> Node:
    """log a + log b + (a − 1) log x + (b − 1) log(1 − x^a)"""
    a, b = parameters["concentration1"], parameters["concentration0"]
    above = times(minus(b, ONE), log(one_minus(call("pow", x, a))))
    return add(((log(a), 1.0), (log(b), 1.0), (times(minus(a, ONE), log(x)), 1.0), (above, 1.0)))


def moment(parameters: Parameters, order: float) -> Node:
    """E[x^k]  =  b B(1 + k/a, b)"""
    a, b = parameters["concentration1"], parameters["concentration0"]
    return times(b, exp(log_beta(plus(ONE, scale(order, power(a, -1.0))), b)))


def mode(parameters: Parameters) -> Node:
    """((a − 1)/(a b − 1))^(1/a)"""
    a, b = parameters["concentration1"], parameters["concentration0"]
    return call("pow", divide(minus(a, ONE), minus(times(a, b), ONE)), power(a, -1.0))


def draw(key: Data, parameters: Arrays) -> Data:
    """(1 − u^(1/b))^(1/a), with 1 − u^(1/b) from an exponential number −log u"""
    a, b = parameters["concentration1"], parameters["concentration0"]
    return (-jnp.expm1(-jax.random.exponential(key, b.shape) / b)) ** (1 / a)


KUMARASWAMY = register(
    Family(
        "Kumaraswamy",
        {"concentration1": constraints.positive, "concentration0": constraints.positive},
        UNIT,
        log_kumaraswamy,
        names=("Kumaraswamy",),
        draw=draw,
        mean=lambda p: moment(p, 1.0),
        variance=lambda p: minus(moment(p, 2.0), square(moment(p, 1.0))),
        log_survival=lambda x, p: times(p["concentration0"], log(one_minus(call("pow", x, p["concentration1"])))),
        mode=mode,
        mode_needs=lambda p: (minus(p["concentration1"], ONE), minus(p["concentration0"], ONE)),
    )
)
