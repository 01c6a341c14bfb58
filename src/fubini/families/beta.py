"""Beta(concentration1, concentration0): x^(a−1) (1 − x)^(b−1) / B(a, b)."""

from __future__ import annotations

import jax
from numpyro.distributions import constraints

from fubini.algebra.build import ONE, ZERO, add, call, const, divide, minus, plus, power, scale, times
from fubini.algebra.node import Node
from fubini.families.family import Family, register
from fubini.families.functions import digamma, log, log_beta, log_gamma, one_minus, square
from fubini.families.incomplete_functions import beta_mass
from fubini.families.parameters import UNIT, Parameters
from fubini.families.recurrences import rising
from fubini.families.signature import LOG, LOG1M, Features, Match, features


def log_beta_density(x: Node, parameters: Parameters) -> Node:
    """(a − 1) log x + (b − 1) log(1 − x) − log B(a, b)"""
    a, b = parameters["concentration1"], parameters["concentration0"]
    logs = (times(minus(a, ONE), log(x)), 1.0), (times(minus(b, ONE), log(one_minus(x))), 1.0)
    return add((*logs, (log_beta(a, b), -1.0)))


def log_beta_normaliser(a: Node, b: Node) -> Node:
    """log B(a, b), infinite where a or b is not positive"""
    return add(((log_gamma(a), 1.0), (log_gamma(b), 1.0), (call("lgamma", plus(a, b)), -1.0)))


def from_features(coefficients: Features) -> Match:
    """∫ x^(a−1) (1 − x)^(b−1) dx  =  B(a, b)"""
    a, b = plus(coefficients.get(LOG, ZERO), ONE), plus(coefficients.get(LOG1M, ZERO), ONE)
    return {"concentration1": a, "concentration0": b}, log_beta_normaliser(a, b)


def variance(parameters: Parameters) -> Node:
    """a b / (a + b)² (a + b + 1)"""
    a, b = parameters["concentration1"], parameters["concentration0"]
    return divide(times(a, b), times(square(plus(a, b)), plus(a, b, ONE)))


def mode(parameters: Parameters) -> Node:
    """(a − 1) / (a + b − 2)"""
    a, b = parameters["concentration1"], parameters["concentration0"]
    return divide(minus(a, ONE), plus(a, b, const(-2.0)))


def moments(parameters: Parameters, most: int) -> list[Node]:
    """E[x^j] = E[x^(j−1)] (a + j − 1)/(a + b + j − 1)"""
    a, b = parameters["concentration1"], parameters["concentration0"]
    return rising(a, [power(plus(a, b, scale(float(j), ONE)), -1.0) for j in range(most)])


def mean_logs(parameters: Parameters) -> dict[str, Node]:
    """E[log x] = ψ(a) − ψ(a + b), and E[log(1 − x)] = ψ(b) − ψ(a + b)"""
    a, b = parameters["concentration1"], parameters["concentration0"]
    return {"log": minus(digamma(a), digamma(plus(a, b))), "log1m": minus(digamma(b), digamma(plus(a, b)))}


BETA = register(
    Family(
        "Beta",
        {"concentration1": constraints.positive, "concentration0": constraints.positive},
        UNIT,
        log_beta_density,
        names=("Beta",),
        signature=features("unit", None, (LOG, LOG1M), from_features),
        draw=lambda key, p: jax.random.beta(key, p["concentration1"], p["concentration0"]),
        mean=lambda p: divide(p["concentration1"], plus(p["concentration1"], p["concentration0"])),
        variance=variance,
        mean_logs=mean_logs,
        moments=moments,
        log_mass=lambda p, low, high: beta_mass(p["concentration1"], p["concentration0"], low, high),
        mode=mode,
        mode_needs=lambda p: (minus(p["concentration1"], ONE), minus(p["concentration0"], ONE)),
        finite_needs=lambda p: (p["concentration1"], p["concentration0"]),
        equation="∫ x^(a−1) (1 − x)^(b−1) dx = B(a, b)",
    )
)
