"""BetaPrime(concentration1, concentration0): the odds y/(1 − y) of a Beta number y."""

from __future__ import annotations

import jax
from numpyro.distributions import constraints

from fubini.algebra.build import ONE, add, call, const, divide, minus, plus, times
from fubini.algebra.node import Node
from fubini.base.arrays import Data
from fubini.families.beta import log_beta_normaliser
from fubini.families.family import Family, register
from fubini.families.functions import INFINITY, defined_if, log, log_beta, square
from fubini.families.parameters import POSITIVE, Arrays, Parameters
from fubini.families.signature import Match, Signature


def log_beta_prime(x: Node, parameters: Parameters) -> Node:
    """(a − 1) log x − (a + b) log(1 + x) − log B(a, b)"""
    a, b = parameters["concentration1"], parameters["concentration0"]
    tail = times(plus(a, b), log(plus(ONE, x)))
    return add(((times(minus(a, ONE), log(x)), 1.0), (tail, -1.0), (log_beta(a, b), -1.0)))


def from_sum(a: Node, b: Node, c: Node, d: Node) -> Match:
    """∫ x^(a−1) (c + d x)^(−a−b) dx  =  B(a, b) / (d^a c^b); the parameters are those of x d/c"""
    whole = log_beta_normaliser(a, b)
    normaliser = add(((whole, 1.0), (times(a, call("log", d)), -1.0), (times(b, call("log", c)), -1.0)))
    return {"concentration1": a, "concentration0": b}, normaliser


def mean(parameters: Parameters) -> Node:
    """a / (b − 1), infinite up to b = 1"""
    below = minus(parameters["concentration0"], ONE)
    return defined_if(below, divide(parameters["concentration1"], below), INFINITY)


def variance(parameters: Parameters) -> Node:
    """a (a + b − 1) / (b − 2) (b − 1)², infinite up to b = 2"""
    a, b = parameters["concentration1"], parameters["concentration0"]
    below = minus(b, const(2.0))
    spread = divide(times(a, minus(plus(a, b), ONE)), times(below, square(minus(b, ONE))))
    return defined_if(below, spread, INFINITY)


def draw(key: Data, parameters: Arrays) -> Data:
    """A ratio of two Gammas."""
    first, second = jax.random.split(key)
    above = jax.random.gamma(first, parameters["concentration1"])
    return above / jax.random.gamma(second, parameters["concentration0"])


BETA_PRIME = register(
    Family(
        "BetaPrime",
        {"concentration1": constraints.positive, "concentration0": constraints.positive},
        POSITIVE,
        log_beta_prime,
        signature=Signature("sum", from_sum),
        draw=draw,
        mean=mean,
        variance=variance,
        mode=lambda p: divide(minus(p["concentration1"], ONE), plus(p["concentration0"], ONE)),
        mode_needs=lambda p: (minus(p["concentration1"], ONE),),
    )
)
