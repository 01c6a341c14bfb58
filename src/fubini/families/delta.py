"""Delta(v): one point, which may have a density of its own."""

from __future__ import annotations

from numpyro.distributions import constraints

from fubini.algebra.build import ZERO, equal, where
from fubini.algebra.node import Node
from fubini.families.family import Family, register
from fubini.families.functions import MINUS_INFINITY
from fubini.families.parameters import Parameters, Support


def at_the_point(parameters: Parameters) -> Node:
    """log_density, 0 unless it is a parameter"""
    return parameters.get("log_density", ZERO)


def log_delta(x: Node, parameters: Parameters) -> Node:
    """0 at the point, −∞ elsewhere"""
    return where(equal(x, parameters["v"]), at_the_point(parameters), MINUS_INFINITY)


DELTA = register(
    Family(
        "Delta",
        {"v": constraints.real},
        lambda p: Support(p["v"], p["v"], True),
        lambda x, p: at_the_point(p),
        log_density_everywhere=log_delta,
        names=("Delta",),
        alternatives={"log_density": constraints.real},
        draw=lambda key, p: p["v"],
        mean=lambda p: p["v"],
        variance=lambda p: ZERO,
        mode=lambda p: p["v"],
    )
)
