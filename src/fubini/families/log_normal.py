"""LogNormal(loc, scale): e^y for a normal y."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from numpyro.distributions import constraints

from fubini.algebra.build import ONE, add, minus, times
from fubini.algebra.node import Node
from fubini.families.family import Family, register
from fubini.families.functions import exp, log, square
from fubini.families.normal import log_mass, log_normal
from fubini.families.parameters import POSITIVE, REAL, Parameters


def log_log_normal(x: Node, parameters: Parameters) -> Node:
    """The normal density of log x, over x"""
    return minus(log_normal(log(x), parameters), log(x))


def exp_of(parameters: Parameters, variances: float) -> Node:
    """e^(μ + c σ²)"""
    return exp(add(((parameters["loc"], 1.0), (square(parameters["scale"]), variances))))


def moment(parameters: Parameters, j: float) -> Node:
    """E[x^j] = e^(j μ + ½ j² σ²)"""
    return exp(add(((parameters["loc"], j), (square(parameters["scale"]), 0.5 * j**2))))


LOG_NORMAL = register(
    Family(
        "LogNormal",
        {"loc": constraints.real, "scale": constraints.positive},
        POSITIVE,
        log_log_normal,
        names=("LogNormal",),
        draw=lambda key, p: jnp.exp(p["loc"] + p["scale"] * jax.random.normal(key, p["loc"].shape)),
        mean=lambda p: exp_of(p, 0.5),
        variance=lambda p: times(minus(exp(square(p["scale"])), ONE), square(exp_of(p, 0.5))),
        mean_logs=lambda p: {"log": p["loc"]},
        moments=lambda p, most: [moment(p, float(j)) for j in range(most + 1)],
        log_survival=lambda x, p: log_mass(p, log(x), REAL.high),
        mode=lambda p: exp_of(p, -1.0),
        equation="∫ exp(−½ p (log x − m)²) dx/x = √(2π/p)",
    )
)
