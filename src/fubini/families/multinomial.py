"""Multinomial(total_count, probs): how many of n trials fall on each label."""

from __future__ import annotations

from typing import Any

from numpyro.distributions import constraints

from fubini.algebra.build import ONE, equal, plus, scale, times
from fubini.algebra.node import Node
from fubini.algebra.sums import total
from fubini.families.family import Family, register
from fubini.families.functions import lgamma, log
from fubini.families.parameters import Vector


def log_multinomial(x: Vector, parameters: Any) -> Node:
    """log n! − Σ log x! + Σ x log p"""
    c, entry = x
    logs = times(entry, log(parameters["probs"].along(c)))
    outside = scale(-1.0, lgamma(plus(entry, ONE)))
    return plus(lgamma(plus(parameters["total_count"], ONE)), total([c], plus(logs, outside)))


MULTINOMIAL = register(
    Family(
        "Multinomial",
        {"probs": constraints.simplex, "total_count": constraints.nonnegative_integer},
        lambda parameters: None,
        log_multinomial,
        names=("Multinomial", "MultinomialProbs"),
        event_dim=1,
        is_possible=lambda x, p: equal(total([x.over], x.entry), p["total_count"]),
    )
)
