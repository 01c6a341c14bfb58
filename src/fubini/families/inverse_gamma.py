"""InverseGamma(concentration, rate): bᵃ/Γ(a) x^(−a−1) e^(−b/x)."""

from __future__ import annotations

import jax
from numpyro.distributions import constraints

from fubini.algebra.build import ONE, ZERO, add, const, divide, minus, plus, scale, times
from fubini.algebra.node import Node
from fubini.families.family import Family, register
from fubini.families.functions import INFINITY, defined_if, digamma, lgamma, log, log_gamma, log_rate, square
from fubini.families.incomplete_functions import gamma_mass_of_power
from fubini.families.parameters import POSITIVE, Parameters
from fubini.families.signature import INVERSE, LOG, Features, Match, features


def log_inverse_gamma(x: Node, parameters: Parameters) -> Node:
    """α log β − log Γ(α) − (α + 1) log x − β / x"""
    a, b = parameters["concentration"], parameters["rate"]
    return add(((times(a, log(b)), 1.0), (lgamma(a), -1.0), (times(plus(a, ONE), log(x)), -1.0), (divide(b, x), -1.0)))


def from_features(coefficients: Features) -> Match:
    """∫ x^(−a−1) e^(−b/x) dx  =  Γ(a) / b^a"""
    a = scale(-1.0, plus(coefficients.get(LOG, ZERO), ONE))
    b = scale(-1.0, coefficients[INVERSE])
    return {"concentration": a, "rate": b}, minus(log_gamma(a), times(a, log_rate(b)))


def mean(parameters: Parameters) -> Node:
    """β / (α − 1), infinite up to α = 1"""
    below = minus(parameters["concentration"], ONE)
    return defined_if(below, divide(parameters["rate"], below), INFINITY)


def variance(parameters: Parameters) -> Node:
    """(β / (α − 1))² / (α − 2), infinite up to α = 2"""
    a, b = parameters["concentration"], parameters["rate"]
    below = minus(a, const(2.0))
    return defined_if(below, divide(square(divide(b, minus(a, ONE))), below), INFINITY)


def moments(parameters: Parameters, most: int) -> list[Node]:
    """E[x^j] = β^j / (α − 1) … (α − j), infinite up to α = j"""
    a, products = parameters["concentration"], [ONE]
    for j in range(1, most + 1):
        products.append(divide(times(products[-1], parameters["rate"]), minus(a, const(float(j)))))
    return [ONE, *(defined_if(minus(a, const(float(j))), products[j], INFINITY) for j in range(1, most + 1))]


INVERSE_GAMMA = register(
    Family(
        "InverseGamma",
        {"concentration": constraints.positive, "rate": constraints.positive},
        POSITIVE,
        log_inverse_gamma,
        names=("InverseGamma",),
        signature=features("positive", INVERSE, (LOG,), from_features),
        draw=lambda key, p: 1 / (jax.random.gamma(key, p["concentration"]) / p["rate"]),
        moments=moments,
        mean_logs=lambda p: {"log": minus(log(p["rate"]), digamma(p["concentration"]))},
        mean=mean,
        variance=variance,
        log_mass=lambda p, low, high: gamma_mass_of_power(p["concentration"], p["rate"], -1.0, low, high),
        gamma_of_power=lambda p: (p["concentration"], p["rate"], -1.0),
        mode=lambda p: divide(p["rate"], plus(p["concentration"], ONE)),
        finite_needs=lambda p: (p["concentration"], p["rate"]),
        equation="∫ x^(−a−1) e^(−b/x) dx = Γ(a)/bᵃ",
    )
)
