"""Weibull(scale, concentration): x such that (x/s)^c is a standard exponential number."""

from __future__ import annotations

import jax
from numpyro.distributions import constraints

from fubini.algebra.build import ONE, add, call, divide, minus, plus, power, scale, times
from fubini.algebra.node import Node
from fubini.base.arrays import Data
from fubini.families.family import Family, register
from fubini.families.functions import exp, lgamma, log, square
from fubini.families.parameters import POSITIVE, Arrays, Parameters


def log_weibull(x: Node, parameters: Parameters) -> Node:
    """log c + (c − 1) log x − c log s − (x/s)^c"""
    s, c = parameters["scale"], parameters["concentration"]
    logs = (log(c), 1.0), (times(minus(c, ONE), log(x)), 1.0), (times(c, log(s)), -1.0)
    return add((*logs, (cumulative_hazard(x, parameters), -1.0)))


def cumulative_hazard(x: Node, parameters: Parameters) -> Node:
    """(x/s)^c"""
    s, c = parameters["scale"], parameters["concentration"]
    return times(call("pow", x, c), call("pow", s, scale(-1.0, c)))


def moment(parameters: Parameters, order: float) -> Node:
    """E[x^k]  =  s^k Γ(1 + k/c)"""
    shape = plus(ONE, scale(order, power(parameters["concentration"], -1.0)))
    return times(power(parameters["scale"], order), exp(lgamma(shape)))


def mode(parameters: Parameters) -> Node:
    """s ((c − 1)/c)^(1/c)"""
    c = parameters["concentration"]
    return times(parameters["scale"], call("pow", divide(minus(c, ONE), c), power(c, -1.0)))


def draw(key: Data, parameters: Arrays) -> Data:
    """A root of an exponential number."""
    c = parameters["concentration"]
    return parameters["scale"] * jax.random.exponential(key, c.shape) ** (1 / c)


WEIBULL = register(
    Family(
        "Weibull",
        {"scale": constraints.positive, "concentration": constraints.positive},
        POSITIVE,
        log_weibull,
        names=("Weibull",),
        draw=draw,
        mean=lambda p: moment(p, 1.0),
        variance=lambda p: minus(moment(p, 2.0), square(moment(p, 1.0))),
        log_survival=lambda x, p: scale(-1.0, cumulative_hazard(x, p)),
        mode=mode,
        mode_needs=lambda p: (minus(p["concentration"], ONE),),
    )
)
