"""Hypergeometric(first, second, draws): how many of t things are of the first kind, of n of that kind and m others."""

from __future__ import annotations

from numpyro.distributions import constraints

from fubini.algebra.build import ONE, ZERO, add, call, const, divide, minus, plus, times
from fubini.algebra.node import Node
from fubini.algebra.ranges import is_whole
from fubini.families.family import Family, register
from fubini.families.functions import lgamma, log_choose, square
from fubini.families.parameters import Parameters, Support
from fubini.families.signature import FACTORIAL, Match, Ratio, Signature, ends_below, other_offset


def log_hypergeometric(k: Node, parameters: Parameters) -> Node:
    """log C(n, k) C(m, t − k) / C(n + m, t)"""
    n, m, t = parameters["first"], parameters["second"], parameters["draws"]
    ways = plus(log_choose(n, k), log_choose(m, minus(t, k)))
    return minus(ways, log_choose(plus(n, m), t))


def from_ratio(ratio: Ratio, high: Node | None) -> Match | None:
    """Σ_k C(n, k) C(m, t − k)  =  C(n + m, t)"""
    d = other_offset(ratio.rising, -1.0, FACTORIAL)
    if d is None or ratio.slope is not ZERO or list(ratio.falling.values()) != [-1.0, -1.0]:
        return None
    first, last = ratio.falling
    if not (is_whole(first) and is_whole(last)) or not (ends_below(high, first) or ends_below(high, last)):
        return None
    n, t = minus(first, ONE), minus(last, ONE)
    m = add(((d, 1.0), (t, 1.0), (ONE, -1.0)))
    both = plus(n, m)
    not_drawn = plus(minus(both, t), ONE)
    ways = add(((lgamma(plus(both, ONE)), 1.0), (lgamma(last), -1.0), (lgamma(not_drawn), -1.0)))
    normaliser = add(((ways, 1.0), (lgamma(first), -1.0), (lgamma(plus(m, ONE)), -1.0)))
    return {"first": n, "second": m, "draws": t}, normaliser


def mean(parameters: Parameters) -> Node:
    """t n / (n + m)"""
    return divide(times(parameters["draws"], parameters["first"]), plus(parameters["first"], parameters["second"]))


def variance(parameters: Parameters) -> Node:
    """t n m (n + m − t) / (n + m)² (n + m − 1)"""
    n, m, t = parameters["first"], parameters["second"], parameters["draws"]
    both = plus(n, m)
    return divide(times(t, n, m, minus(both, t)), times(square(both), minus(both, ONE)))


def mode(parameters: Parameters) -> Node:
    """⌊(t + 1) (n + 1) / (n + m + 2)⌋"""
    n, m, t = parameters["first"], parameters["second"], parameters["draws"]
    return call("floor", divide(times(plus(t, ONE), plus(n, ONE)), plus(n, m, const(2.0))))


HYPERGEOMETRIC = register(
    Family(
        "Hypergeometric",
        {
            "first": constraints.nonnegative_integer,
            "second": constraints.nonnegative_integer,
            "draws": constraints.nonnegative_integer,
        },
        lambda p: Support(ZERO, p["draws"], True),
        log_hypergeometric,
        signature=Signature("ratio", from_ratio),
        mean=mean,
        variance=variance,
        mode=mode,
    )
)
