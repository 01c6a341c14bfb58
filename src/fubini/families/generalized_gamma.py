"""GeneralizedGamma(concentration, rate, power): x such that x^p is Gamma(a, b), of a power that is a number."""

from __future__ import annotations

import math

import jax
from numpyro.distributions import constraints

from fubini.algebra.build import ONE, ZERO, add, const, divide, minus, plus, power, scale, times
from fubini.algebra.node import Node
from fubini.base.arrays import Data
from fubini.families.family import Family, register
from fubini.families.functions import exp, lgamma, log, log_gamma, log_rate, square
from fubini.families.incomplete_functions import gamma_mass_of_power
from fubini.families.parameters import POSITIVE, Arrays, Parameters
from fubini.families.signature import INVERSE, LINEAR, LOG, Features, Match, Signature


def log_generalized_gamma(x: Node, parameters: Parameters) -> Node:
    """log |p| + a log b − log Γ(a) + (p a − 1) log x − b x^p"""
    a, b, p = parameters["concentration"], parameters["rate"], _power(parameters)
    front = add(((ONE, math.log(abs(p))), (times(a, log(b)), 1.0), (lgamma(a), -1.0)))
    powers = minus(times(minus(scale(p, a), ONE), log(x)), times(b, power(x, p)))
    return plus(front, powers)


def _power(parameters: Parameters) -> float:
    assert parameters["power"].kind == "const"
    return parameters["power"].args[0]


def from_one_power(p: float, coefficients: Features) -> Match:
    """∫ x^(a−1) e^(−b x^p) dx  =  Γ(a/p) / (|p| b^(a/p))"""
    a = plus(coefficients.get(LOG, ZERO), ONE)
    shape, rate = scale(1 / p, a), scale(-1.0, coefficients[("power", p)])
    normaliser = add(((log_gamma(shape), 1.0), (times(shape, log_rate(rate)), -1.0), (ONE, -math.log(abs(p)))))
    return {"concentration": shape, "rate": rate, "power": const(p)}, normaliser


def from_features(domain: str, coefficients: Features) -> Match | None:
    """Any one power, but those of a Gamma, an InverseGamma and a HalfNormal, which have names of their own"""
    powers = [key for key in coefficients if key[0] == "power"]
    has_log = LOG in coefficients
    if domain != "positive" or len(powers) != 1 or len(coefficients) > 1 + has_log:
        return None
    if powers[0] in (LINEAR, INVERSE) or (powers[0][1] == 2 and not has_log):
        return None
    return from_one_power(powers[0][1], coefficients)


def moment(parameters: Parameters, order: float) -> Node:
    """E[x^s]  =  Γ(a + s/p) / Γ(a) b^(s/p)"""
    a, p = parameters["concentration"], _power(parameters)
    logs = (log_gamma(plus(a, const(order / p))), 1.0), (lgamma(a), -1.0), (log(parameters["rate"]), -order / p)
    return exp(add(logs))


def mode(parameters: Parameters) -> Node:
    """((p a − 1) / p b)^(1/p)"""
    return power(divide(_least_shape(parameters), parameters["rate"]), 1 / _power(parameters))


def _least_shape(parameters: Parameters) -> Node:
    """a − 1/p"""
    return minus(parameters["concentration"], const(1 / _power(parameters)))


def draw(key: Data, parameters: Arrays) -> Data:
    """A root of a Gamma."""
    return (jax.random.gamma(key, parameters["concentration"]) / parameters["rate"]) ** (1 / parameters["power"])


def gamma_of_power(parameters: Parameters) -> tuple[Node, Node, float]:
    """b x^p is Gamma(a, 1)"""
    return parameters["concentration"], parameters["rate"], parameters["power"].args[0]


GENERALIZED_GAMMA = register(
    Family(
        "GeneralizedGamma",
        {"concentration": constraints.positive, "rate": constraints.positive, "power": constraints.real},
        POSITIVE,
        log_generalized_gamma,
        signature=Signature("features", from_features),
        draw=draw,
        moments=lambda p, most: [moment(p, float(j)) for j in range(most + 1)],
        mean=lambda p: moment(p, 1.0),
        variance=lambda p: minus(moment(p, 2.0), square(moment(p, 1.0))),
        log_mass=lambda p, low, high: gamma_mass_of_power(*gamma_of_power(p), low, high),
        gamma_of_power=gamma_of_power,
        mode=mode,
        mode_needs=lambda p: (_least_shape(p),),
        finite_needs=lambda p: (p["concentration"], p["rate"]),
        equation="∫ x^(a−1) e^(−b xᵖ) dx = Γ(a/p)/(|p| b^(a/p))",
        plain_words="root of a Gamma",
    )
)
