"""Gamma(concentration, rate): bᵃ/Γ(a) x^(a−1) e^(−b x)."""

from __future__ import annotations

import jax
from numpyro.distributions import constraints

from fubini.algebra.build import ONE, ZERO, add, const, divide, minus, plus, power, scale, times
from fubini.algebra.node import Node
from fubini.families.family import Family, register
from fubini.families.functions import digamma, lgamma, log, log_gamma, log_rate, square
from fubini.families.incomplete_functions import gamma_mass_of_power
from fubini.families.parameters import POSITIVE, Parameters
from fubini.families.recurrences import rising
from fubini.families.signature import LINEAR, LOG, Features, Match, features
from fubini.families.summand import Summand


def log_gamma_density(x: Node, parameters: Parameters) -> Node:
    """α log β − log Γ(α) + (α − 1) log x − β x"""
    a, b = parameters["concentration"], parameters["rate"]
    return add(((times(a, log(b)), 1.0), (lgamma(a), -1.0), (times(minus(a, ONE), log(x)), 1.0), (times(b, x), -1.0)))


def from_features(coefficients: Features) -> Match:
    """∫ x^(a−1) e^(−b x) dx  =  Γ(a) / b^a"""
    a = plus(coefficients.get(LOG, ZERO), ONE)
    b = scale(-1.0, coefficients[LINEAR])
    return {"concentration": a, "rate": b}, minus(log_gamma(a), times(a, log_rate(b)))


def special_case(parameters: Parameters) -> tuple[str, tuple[Node, ...]] | None:
    """Gamma(1, b) = Exponential(b), Gamma(k/2, ½) = ChiSquared(k)"""
    a, b = parameters["concentration"], parameters["rate"]
    if a is ONE:
        return "Exponential", (b,)
    return ("ChiSquared", (plus(a, a),)) if b is const(0.5) else None


GAMMA = register(
    Family(
        "Gamma",
        {"concentration": constraints.positive, "rate": constraints.positive},
        POSITIVE,
        log_gamma_density,
        names=("Gamma",),
        signature=features("positive", LINEAR, (LOG,), from_features),
        draw=lambda key, p: jax.random.gamma(key, p["concentration"]) / p["rate"],
        mean=lambda p: divide(p["concentration"], p["rate"]),
        variance=lambda p: divide(p["concentration"], square(p["rate"])),
        moments=lambda p, most: rising(p["concentration"], [power(p["rate"], -1.0)] * most),
        mean_logs=lambda p: {"log": minus(digamma(p["concentration"]), log(p["rate"]))},
        summand=lambda p: Summand("Gamma", {"concentration": p["concentration"]}, {"rate": p["rate"]}),
        log_mass=lambda p, low, high: gamma_mass_of_power(p["concentration"], p["rate"], 1.0, low, high),
        special_case=special_case,
        gamma_of_power=lambda p: (p["concentration"], p["rate"], 1.0),
        mode=lambda p: divide(minus(p["concentration"], ONE), p["rate"]),
        mode_needs=lambda p: (minus(p["concentration"], ONE),),
        finite_needs=lambda p: (p["concentration"], p["rate"]),
        equation="∫ x^(a−1) e^(−b x) dx = Γ(a)/bᵃ",
    )
)
