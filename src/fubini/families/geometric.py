"""Geometric(probs): failures before the first success, p (1 − p)ᵏ."""

from __future__ import annotations

import jax
from numpyro.distributions import constraints

from fubini.algebra.build import ONE, ZERO, divide, minus, plus, scale, times
from fubini.algebra.node import Node
from fubini.families.family import Family, register
from fubini.families.functions import exponential, log, log_rate, one_minus, square
from fubini.families.parameters import NATURAL, Parameters
from fubini.families.recurrences import from_factorial, rising
from fubini.families.signature import Match, Ratio, Signature
from fubini.families.summand import Summand


def log_geometric(x: Node, parameters: Parameters) -> Node:
    """x log(1 − p) + log p"""
    return plus(times(x, log(one_minus(parameters["probs"]))), log(parameters["probs"]))


def from_ratio(ratio: Ratio, high: Node | None) -> Match | None:
    """Σ ρ^k  =  1 / (1 − ρ)"""
    if high is not None or ratio.rising or ratio.falling:
        return None
    stop = minus(ONE, exponential(ratio.slope))
    return {"probs": stop}, scale(-1.0, log_rate(stop))


def moments(parameters: Parameters, most: int) -> list[Node]:
    """Those of a NegativeBinomial of one failure, with ρ = 1 − p"""
    rho = minus(ONE, parameters["probs"])
    return from_factorial(rising(ONE, [divide(rho, minus(ONE, rho))] * most))


GEOMETRIC = register(
    Family(
        "Geometric",
        {"probs": constraints.unit_interval},
        NATURAL,
        log_geometric,
        names=("Geometric", "GeometricProbs"),
        signature=Signature("ratio", from_ratio),
        finite_draws={"probs": constraints.positive},
        draw=lambda key, p: jax.random.geometric(key, p["probs"]) - 1,
        mean=lambda p: divide(one_minus(p["probs"]), p["probs"]),
        variance=lambda p: divide(one_minus(p["probs"]), square(p["probs"])),
        moments=moments,
        summand=lambda p: Summand("NegativeBinomial", {"total_count": ONE}, {"probs": one_minus(p["probs"])}),
        mode=lambda p: ZERO,
        finite_needs=lambda p: (p["probs"],),
        equation="Σ ρᵏ = 1/(1 − ρ)",
    )
)
