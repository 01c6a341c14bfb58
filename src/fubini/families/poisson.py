"""Poisson(rate): λᵏ e^(−λ) / k!."""

from __future__ import annotations

import jax
from numpyro.distributions import constraints

from fubini.algebra.build import ONE, ZERO, add, call, plus, power, times
from fubini.algebra.node import Node
from fubini.families.family import Family, register
from fubini.families.functions import exponential, lgamma, log
from fubini.families.incomplete_functions import gamma_mass
from fubini.families.parameters import NATURAL, Parameters
from fubini.families.recurrences import from_factorial
from fubini.families.signature import FACTORIAL, Match, Ratio, Signature
from fubini.families.summand import Summand


def log_poisson(x: Node, parameters: Parameters) -> Node:
    """x log λ − λ − log x!"""
    rate = parameters["rate"]
    return add(((times(x, log(rate)), 1.0), (rate, -1.0), (lgamma(plus(x, ONE)), -1.0)))


def from_ratio(ratio: Ratio, high: Node | None) -> Match | None:
    """Σ λ^k / k!  =  e^λ"""
    if high is not None or ratio.rising != FACTORIAL or ratio.falling:
        return None
    rate = exponential(ratio.slope)
    return {"rate": rate}, rate


POISSON = register(
    Family(
        "Poisson",
        {"rate": constraints.nonnegative},
        NATURAL,
        log_poisson,
        names=("Poisson",),
        signature=Signature("ratio", from_ratio),
        draw=lambda key, p: jax.random.poisson(key, p["rate"]),
        mean=lambda p: p["rate"],
        variance=lambda p: p["rate"],
        moments=lambda p, most: from_factorial([power(p["rate"], float(j)) for j in range(most + 1)]),
        summand=lambda p: Summand("Poisson", {"rate": p["rate"]}),
        log_tail=lambda p, low: gamma_mass(low, ZERO, p["rate"]),
        mode=lambda p: call("floor", p["rate"]),
        equation="Σ λᵏ/k! = e^λ",
        degree=(1, False),  # but for log x!, in which there is no rate
    )
)
