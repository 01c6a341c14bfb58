"""Binomial(total_count, probs or logits): how many of n trials succeed."""

from __future__ import annotations

import jax
from numpyro.distributions import constraints

from fubini.algebra.build import ONE, ZERO, add, call, const, divide, minus, plus, times
from fubini.algebra.node import Node
from fubini.base.arrays import Data
from fubini.families.bernoulli import probability
from fubini.families.family import Family, register
from fubini.families.functions import exponential, lgamma, log, log_choose, log_one_plus_exp, one_minus
from fubini.families.parameters import Arrays, Parameters, Support
from fubini.families.recurrences import from_factorial
from fubini.families.signature import FACTORIAL, Match, Ratio, Signature, ends_below, other_offset
from fubini.families.summand import Summand


def log_binomial(x: Node, parameters: Parameters) -> Node:
    """log C(n, x) + x log p + (n − x) log(1 − p), for x ≤ n"""
    n = parameters["total_count"]
    if "logits" in parameters:
        logits = parameters["logits"]
        return add(((log_choose(n, x), 1.0), (times(x, logits), 1.0), (times(n, log_one_plus_exp(logits)), -1.0)))
    p = parameters["probs"]
    return add(((log_choose(n, x), 1.0), (times(x, log(p)), 1.0), (times(minus(n, x), log(one_minus(p))), 1.0)))


def from_ratio(ratio: Ratio, high: Node | None) -> Match | None:
    """Σ ρ^k / k! (n − k)!  =  (1 + ρ)^n / n!"""
    above = other_offset(ratio.falling, -1.0, {})
    if above is None or ratio.rising != FACTORIAL or not ends_below(high, above):
        return None
    n, rho = minus(above, ONE), exponential(ratio.slope)
    normaliser = minus(times(n, call("log", plus(ONE, rho))), lgamma(above))
    return {"total_count": n, "probs": divide(rho, plus(ONE, rho))}, normaliser


def moments(parameters: Parameters, most: int) -> list[Node]:
    """E[k (k − 1) … (k − j + 1)] = n (n − 1) … (n − j + 1) p^j"""
    falling = [ONE]
    for j in range(most):
        falling.append(times(falling[j], minus(parameters["total_count"], const(float(j))), probability(parameters)))
    return from_factorial(falling)


def mode(parameters: Parameters) -> Node:
    """⌊(n + 1) p⌋, at most n"""
    n = parameters["total_count"]
    return call("min", call("floor", times(plus(n, ONE), probability(parameters))), n)


def draw(key: Data, parameters: Arrays) -> Data:
    """Successes among n trials."""
    p = parameters["probs"] if "probs" in parameters else jax.nn.sigmoid(parameters["logits"])
    return jax.random.binomial(key, parameters["total_count"], p)


BINOMIAL = register(
    Family(
        "Binomial",
        {"total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval},
        lambda p: Support(ZERO, p["total_count"], True),
        log_binomial,
        names=("Binomial", "BinomialProbs", "BinomialLogits"),
        alternatives={"logits": constraints.real},
        signature=Signature("ratio", from_ratio),
        draw=draw,
        mean=lambda p: times(p["total_count"], probability(p)),
        variance=lambda p: times(p["total_count"], probability(p), one_minus(probability(p))),
        moments=moments,
        summand=lambda p: Summand("Binomial", {"total_count": p["total_count"]}, {"probs": probability(p)}),
        mode=mode,
        equation="Σ ρᵏ/(k! (n − k)!) = (1 + ρ)ⁿ/n!",
    )
)
