"""ChiSquared(df): a sum of k squares of standard normal numbers, a Gamma of shape k/2 and rate ½."""

from __future__ import annotations

import jax
from numpyro.distributions import constraints

from fubini.algebra.build import const, minus, scale
from fubini.algebra.node import Node
from fubini.families.family import Family, register
from fubini.families.gamma import log_gamma_density
from fubini.families.parameters import POSITIVE, Parameters


def log_chi_squared(x: Node, parameters: Parameters) -> Node:
    """log Gamma(x; k/2, ½)"""
    return log_gamma_density(x, {"concentration": scale(0.5, parameters["df"]), "rate": const(0.5)})


CHI_SQUARED = register(
    Family(
        "ChiSquared",
        {"df": constraints.positive},
        POSITIVE,
        log_chi_squared,
        names=("Chi2",),
        draw=lambda key, p: 2 * jax.random.gamma(key, p["df"] / 2),
        mean=lambda p: p["df"],
        variance=lambda p: scale(2.0, p["df"]),
        mode=lambda p: minus(p["df"], const(2.0)),
        mode_needs=lambda p: (minus(p["df"], const(2.0)),),
    )
)
