"""BetaBinomial(concentration1, concentration0, total_count): a Binomial number whose probability is a Beta."""

from __future__ import annotations

import jax
from numpyro.distributions import constraints

from fubini.algebra.build import ONE, ZERO, add, divide, minus, plus, times
from fubini.algebra.node import Node
from fubini.base.arrays import Data
from fubini.families.beta import log_beta_normaliser
from fubini.families.family import Family, register
from fubini.families.functions import lgamma, log_beta, log_choose, square
from fubini.families.parameters import Arrays, Parameters, Support
from fubini.families.signature import FACTORIAL, Match, Ratio, Signature, ends_below, other_offset


def log_beta_binomial(k: Node, parameters: Parameters) -> Node:
    """log C(n, k) + log B(k + a, n − k + b) − log B(a, b)"""
    a, b, n = parameters["concentration1"], parameters["concentration0"], parameters["total_count"]
    inside = log_beta(plus(k, a), plus(minus(n, k), b))
    return add(((log_choose(n, k), 1.0), (inside, 1.0), (log_beta(a, b), -1.0)))


def from_ratio(ratio: Ratio, high: Node | None) -> Match | None:
    """Σ Γ(k + a) Γ(n − k + b) / k! (n − k)!  =  B(a, b) Γ(a + b + n) / n!"""
    a = other_offset(ratio.rising, 1.0, FACTORIAL)
    downs = [offset for offset, power in ratio.falling.items() if power == -1]
    if a is None or len(downs) != 1 or ratio.slope is not ZERO or not ends_below(high, downs[0]):
        return None
    (above,) = downs
    top = other_offset(ratio.falling, 1.0, {above: -1.0})
    if top is None:
        return None
    n = minus(above, ONE)
    b = minus(top, n)
    front = log_beta_normaliser(a, b)
    normaliser = add(((front, 1.0), (lgamma(plus(a, b, n)), 1.0), (lgamma(above), -1.0)))
    return {"concentration1": a, "concentration0": b, "total_count": n}, normaliser


def mean(parameters: Parameters) -> Node:
    """n a / (a + b)"""
    a, b = parameters["concentration1"], parameters["concentration0"]
    return divide(times(parameters["total_count"], a), plus(a, b))


def variance(parameters: Parameters) -> Node:
    """n a b (a + b + n) / (a + b)² (a + b + 1)"""
    a, b, n = parameters["concentration1"], parameters["concentration0"], parameters["total_count"]
    return divide(times(n, a, b, plus(a, b, n)), times(square(plus(a, b)), plus(a, b, ONE)))


def draw(key: Data, parameters: Arrays) -> Data:
    """A Binomial whose probability is a Beta."""
    first, second = jax.random.split(key)
    probs = jax.random.beta(first, parameters["concentration1"], parameters["concentration0"])
    return jax.random.binomial(second, parameters["total_count"], probs)


BETA_BINOMIAL = register(
    Family(
        "BetaBinomial",
        {
            "concentration1": constraints.positive,
            "concentration0": constraints.positive,
            "total_count": constraints.nonnegative_integer,
        },
        lambda p: Support(ZERO, p["total_count"], True),
        log_beta_binomial,
        names=("BetaBinomial",),
        signature=Signature("ratio", from_ratio),
        draw=draw,
        mean=mean,
        variance=variance,
        equation="Σ Γ(k + a) Γ(n − k + b)/(k! (n − k)!) = B(a, b) Γ(a + b + n)/n!",
    )
)
