"""Pareto(scale, alpha): α s^α x^(−α−1) beyond s."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from numpyro.distributions import constraints

from fubini.algebra.build import ONE, ZERO, add, const, divide, less, minus, negate, plus, scale, times
from fubini.algebra.node import Node
from fubini.families.family import Family, register
from fubini.families.functions import INFINITY, defined_if, log, log_rate, square
from fubini.families.parameters import Parameters, Support
from fubini.families.signature import Match, Signature


def log_pareto(x: Node, parameters: Parameters) -> Node:
    """log α + α log s − (α + 1) log x"""
    s, a = parameters["scale"], parameters["alpha"]
    return add(((log(a), 1.0), (times(a, log(s)), 1.0), (times(plus(a, ONE), log(x)), -1.0)))


def from_power(p: Node, low: Node, high: Node) -> Match | None:
    """∫ x^p dx from s on  =  s^(−α) / α, with α = −p − 1"""
    if high is not INFINITY or low is ZERO:
        return None
    a = scale(-1.0, plus(p, ONE))
    return {"scale": low, "alpha": a}, add(((times(a, log(low)), -1.0), (log_rate(a), -1.0)))


def mean(parameters: Parameters) -> Node:
    """α s / (α − 1), infinite up to α = 1"""
    below = minus(parameters["alpha"], ONE)
    return defined_if(below, divide(times(parameters["alpha"], parameters["scale"]), below), INFINITY)


def variance(parameters: Parameters) -> Node:
    """α s² / (α − 1)² (α − 2), infinite up to α = 2"""
    s, a = parameters["scale"], parameters["alpha"]
    below = minus(a, const(2.0))
    return defined_if(below, divide(times(a, square(s)), times(square(minus(a, ONE)), below)), INFINITY)


PARETO = register(
    Family(
        "Pareto",
        {"scale": constraints.positive, "alpha": constraints.positive},
        lambda p: Support(p["scale"], INFINITY),
        log_pareto,
        names=("Pareto",),
        signature=Signature("power", from_power),
        draw=lambda key, p: p["scale"] * jnp.exp(jax.random.exponential(key, p["alpha"].shape) / p["alpha"]),
        mean=mean,
        variance=variance,
        log_survival=lambda x, p: times(p["alpha"], minus(log(p["scale"]), log(x))),
        mode=lambda p: p["scale"],
        is_possible=lambda x, p: negate(less(x, p["scale"])),
        finite_needs=lambda p: (p["alpha"],),
        equation="∫ x^(−α−1) dx = s^(−α) / α",
    )
)
