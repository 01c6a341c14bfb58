"""NegativeBinomial(total_count, probs or logits): a Poisson number whose rate is a Gamma."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from numpyro.distributions import constraints

from fubini.algebra.build import ONE, ZERO, add, call, divide, minus, plus, times
from fubini.algebra.node import Node
from fubini.base.arrays import Data
from fubini.families.bernoulli import probability
from fubini.families.family import Family, register
from fubini.families.functions import (
    defined_if,
    exp,
    exponential,
    lgamma,
    log,
    log_gamma,
    log_one_plus_exp,
    log_rate,
    one_minus,
)
from fubini.families.incomplete_functions import beta_mass
from fubini.families.parameters import NATURAL, Arrays, Parameters
from fubini.families.recurrences import from_factorial, rising
from fubini.families.signature import FACTORIAL, Match, Ratio, Signature, other_offset
from fubini.families.summand import Summand


def log_negative_binomial(k: Node, parameters: Parameters) -> Node:
    """log Γ(k + r) − log Γ(r) − log k! + k log p + r log(1 − p)"""
    r = parameters["total_count"]
    front = add(((lgamma(plus(k, r)), 1.0), (lgamma(r), -1.0), (lgamma(plus(k, ONE)), -1.0)))
    if "logits" in parameters:
        logits = parameters["logits"]
        return add(((front, 1.0), (times(k, logits), 1.0), (times(plus(k, r), log_one_plus_exp(logits)), -1.0)))
    p = parameters["probs"]
    return add(((front, 1.0), (times(k, log(p)), 1.0), (times(r, log(one_minus(p))), 1.0)))


def from_ratio(ratio: Ratio, high: Node | None) -> Match | None:
    """Σ Γ(k + r) ρ^k / k!  =  Γ(r) (1 − ρ)^(−r)"""
    r = other_offset(ratio.rising, 1.0, FACTORIAL)
    if high is not None or r is None or ratio.falling:
        return None
    rho = exponential(ratio.slope)
    return {"total_count": r, "probs": rho}, minus(log_gamma(r), times(r, log_rate(minus(ONE, rho))))


def odds(parameters: Parameters) -> Node:
    """p/(1 − p)"""
    if "logits" in parameters:
        return exp(parameters["logits"])
    return divide(parameters["probs"], one_minus(parameters["probs"]))


def mode(parameters: Parameters) -> Node:
    """⌊(r − 1) p/(1 − p)⌋, 0 up to r = 1"""
    above = minus(parameters["total_count"], ONE)
    return defined_if(above, call("floor", times(above, odds(parameters))), ZERO)


def draw(key: Data, parameters: Arrays) -> Data:
    """A Poisson whose rate is a Gamma."""
    first, second = jax.random.split(key)
    is_by_logits = "logits" in parameters
    ratio = jnp.exp(parameters["logits"]) if is_by_logits else parameters["probs"] / (1 - parameters["probs"])
    return jax.random.poisson(second, jax.random.gamma(first, parameters["total_count"]) * ratio)


NEGATIVE_BINOMIAL = register(
    Family(
        "NegativeBinomial",
        {"total_count": constraints.positive, "probs": constraints.unit_interval},
        NATURAL,
        log_negative_binomial,
        names=("NegativeBinomialProbs", "NegativeBinomial", "NegativeBinomialLogits"),
        alternatives={"logits": constraints.real},
        signature=Signature("ratio", from_ratio),
        draw=draw,
        finite_draws={"probs": constraints.less_than(1.0)},
        mean=lambda p: times(p["total_count"], odds(p)),
        variance=lambda p: times(p["total_count"], odds(p), plus(ONE, odds(p))),
        moments=lambda p, most: from_factorial(rising(p["total_count"], [odds(p)] * most)),
        summand=lambda p: Summand("NegativeBinomial", {"total_count": p["total_count"]}, {"probs": probability(p)}),
        log_tail=lambda p, low: beta_mass(low, p["total_count"], ZERO, probability(p)),
        mode=mode,
        finite_needs=lambda p: (one_minus(probability(p)),),
        equation="Σ Γ(k + r) ρᵏ/k! = Γ(r) (1 − ρ)⁻ʳ",
    )
)
