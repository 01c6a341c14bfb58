"""Uniform(low, high): 1/(high − low) between the ends."""

from __future__ import annotations

import jax

from fubini.algebra.build import ONE, ZERO, add, minus, plus, power, scale, times, where
from fubini.algebra.node import Node
from fubini.algebra.ranges import bounds
from fubini.families.family import Family, register
from fubini.families.functions import MINUS_INFINITY, is_inside, log, log_rate, square
from fubini.families.parameters import ENDS, REAL, Parameters, interval
from fubini.families.signature import Match, Signature


def flat(parameters: Parameters) -> Node:
    """−log(high − low)"""
    return scale(-1.0, log(minus(parameters["high"], parameters["low"])))


def log_uniform(x: Node, parameters: Parameters) -> Node:
    """−log(high − low) inside"""
    low, high = parameters["low"], parameters["high"]
    if (low, high) == (ZERO, ONE) and bounds(x) == (0.0, 1.0) and x.kind == "get":
        return ZERO  # a probability
    return where(is_inside(x, low, high), flat(parameters), MINUS_INFINITY)


def from_ends(low: Node, high: Node) -> Match | None:
    """∫ dx from a to b  =  b − a"""
    if REAL.low is low or REAL.high is high:
        return None
    return {"low": low, "high": high}, log_rate(minus(high, low))


def moments(parameters: Parameters, most: int) -> list[Node]:
    """E[x^j] = Σ_i a^i b^(j−i) / (j + 1)"""
    low, high = parameters["low"], parameters["high"]
    return [
        add((times(power(low, float(i)), power(high, float(j - i))), 1 / (j + 1)) for i in range(j + 1))
        for j in range(most + 1)
    ]


UNIFORM = register(
    Family(
        "Uniform",
        ENDS,
        interval,
        lambda x, p: flat(p),
        log_density_everywhere=log_uniform,
        names=("Uniform",),
        signature=Signature("flat", from_ends),
        draw=lambda key, p: p["low"] + (p["high"] - p["low"]) * jax.random.uniform(key, p["low"].shape),
        mean=lambda p: scale(0.5, plus(p["low"], p["high"])),
        variance=lambda p: scale(1 / 12, square(minus(p["high"], p["low"]))),
        moments=moments,
        flat=flat,
        equation="∫ dx = b − a",
    )
)
