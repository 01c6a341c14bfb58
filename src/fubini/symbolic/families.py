"""Families by their features: what a latent with these coefficients is distributed as, and its normaliser.

The log-density of a latent is Σ coefficient · feature; the features that occur, and the domain, say the family.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from fubini.index.build import ONE, add, call, const, minus, plus, power, scale, times
from fubini.index.node import Node
from fubini.index.ranges import bounds, exceeds_zero

Key = tuple[str, float]  # kind and power of a feature


class Recognised(NamedTuple):
    """A family, its parameters, and log ∫ exp(Σ coefficient · feature)."""

    family: str
    parameters: Mapping[str, Node]
    log_normaliser: Node


def _log(of: Node) -> Node:
    return call("log", of)


def _lgamma(of: Node) -> Node:
    return log_gamma(of)


def log_gamma(of: Node) -> Node:
    """log Γ of a shape: where it is not positive the integral diverges."""
    return call("lgamma" if bounds(of)[0] > 0 or exceeds_zero(of) else "lgamma_if_positive", of)


def exponential(of: Node) -> Node:
    """e^x, with what is a logarithm taken out: e^(a + 2 log b) = b² e^a"""
    parts = of.args if of.kind == "add" else ((of, 1.0),)
    logs = [(part, c) for part, c in parts if part.kind == "call" and part.args[0] == "log"]
    rest = add(part for part in parts if part not in logs)
    return times(*(power(part.args[1], c) for part, c in logs), call("exp", rest))


def gamma(found: Mapping[Key, Node]) -> Recognised:
    """∫ x^(a−1) e^(−b x) dx  =  Γ(a) / b^a"""
    a = plus(found.get(("log", 1.0), minus(ONE, ONE)), ONE)
    b = scale(-1.0, found[("power", 1.0)])
    return Recognised("Gamma", {"concentration": a, "rate": b}, minus(_lgamma(a), times(a, _log(b))))


def inverse_gamma(found: Mapping[Key, Node]) -> Recognised:
    """∫ x^(−a−1) e^(−b/x) dx  =  Γ(a) / b^a"""
    a = scale(-1.0, plus(found.get(("log", 1.0), minus(ONE, ONE)), ONE))
    b = scale(-1.0, found[("power", -1.0)])
    return Recognised("InverseGamma", {"concentration": a, "rate": b}, minus(_lgamma(a), times(a, _log(b))))


def generalised_gamma(found: Mapping[Key, Node]) -> Recognised | None:
    """∫ x^(a−1) e^(−b x^p) dx  =  Γ(a/p) / (|p| b^(a/p)), for any one power p"""
    powers = [exponent for kind, exponent in found if kind == "power"]
    if len(powers) != 1 or len(found) > 1 + (("log", 1.0) in found):
        return None
    (p,) = powers
    a = plus(found.get(("log", 1.0), minus(ONE, ONE)), ONE)
    shape, rate = scale(1 / p, a), scale(-1.0, found[("power", p)])
    value = add(((_lgamma(shape), 1.0), (times(shape, _log(rate)), -1.0), (ONE, -math.log(abs(p)))))
    if p == 2 and a is ONE:
        return Recognised("HalfNormal", {"scale": power(scale(2.0, rate), -0.5)}, value)
    return Recognised("GeneralizedGamma", {"concentration": shape, "rate": rate, "power": const(p)}, value)


def beta(found: Mapping[Key, Node]) -> Recognised:
    """∫ x^(a−1) (1 − x)^(b−1) dx  =  B(a, b)"""
    zero = minus(ONE, ONE)
    a, b = plus(found.get(("log", 1.0), zero), ONE), plus(found.get(("log1m", 1.0), zero), ONE)
    normaliser = add(((_lgamma(a), 1.0), (_lgamma(b), 1.0), (_lgamma(plus(a, b)), -1.0)))
    return Recognised("Beta", {"concentration1": a, "concentration0": b}, normaliser)


# Which features a family may have, besides the one it must have.
FAMILIES: dict[str, tuple[tuple[Key | None, frozenset[Key], Callable[[Mapping[Key, Node]], Recognised]], ...]] = {
    "positive": (
        (("power", 1.0), frozenset({("log", 1.0), ("power", 1.0)}), gamma),
        (("power", -1.0), frozenset({("log", 1.0), ("power", -1.0)}), inverse_gamma),
    ),
    "unit": ((None, frozenset({("log", 1.0), ("log1m", 1.0)}), beta),),
}


def recognised(domain: str, found: Mapping[Key, Node]) -> Recognised | None:
    """The family on this domain that has these features."""
    for needed, allowed, make in FAMILIES.get(domain, ()):
        if set(found) <= allowed and (needed is None or needed in found):
            return make(found)
    return generalised_gamma(found) if domain == "positive" else None
