"""ChiSquared(df): a sum of k squares of standard normal numbers, a Gamma of shape k/2 and rate ½."""

from __future__ import annotations

import jax
from numpyro.distributions import constraints

from fubini.algebra.build import const, minus, plus, scale
from fubini.algebra.node import Node
from fubini.families.family import Family, register
from fubini.families.functions import digamma, log
from fubini.families.gamma import log_gamma_density
from fubini.families.parameters import POSITIVE, Parameters
from fubini.families.recurrences import rising
from fubini.families.summand import Summand


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
        moments=lambda p, most: rising(scale(0.5, p["df"]), [const(2.0)] * most),
        mean_logs=lambda p: {"log": plus(digamma(scale(0.5, p["df"])), log(const(2.0)))},
        summand=lambda p: Summand("Gamma", {"concentration": scale(0.5, p["df"])}, {"rate": const(0.5)}),
        mode=lambda p: minus(p["df"], const(2.0)),
        mode_needs=lambda p: (minus(p["df"], const(2.0)),),
    )
)
