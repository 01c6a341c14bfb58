"""Dirichlet(concentration): Γ(Σ α)/Π Γ(α_c) Π x_c^(α_c − 1) on a simplex."""

from __future__ import annotations

from typing import Any, cast

import jax
from numpyro.distributions import constraints

from fubini.algebra.build import ONE, add, call, const, divide, minus, plus, times
from fubini.algebra.node import Index, Node
from fubini.algebra.sums import total
from fubini.families.family import Family, register
from fubini.families.functions import lgamma, log, log_gamma, one_minus
from fubini.families.parameters import Vector, Vectors
from fubini.families.signature import Match, Signature


def log_dirichlet(x: Vector, parameters: Vectors) -> Node:
    """log Γ(Σ α) − Σ log Γ(α) + Σ (α − 1) log x"""
    c, entry = parameters["concentration"]
    logs = total([c], times(minus(entry, ONE), log(x.along(c))))
    return add(((lgamma(total([c], entry)), 1.0), (total([c], lgamma(entry)), -1.0), (logs, 1.0)))


def from_logs(c: Index, concentration: Node) -> Match:
    """∫ Π_c x_c^(α_c − 1) dx  =  Π Γ(α_c) / Γ(Σ α_c)"""
    normaliser = minus(total([c], log_gamma(concentration)), call("lgamma", total([c], concentration)))
    return {"concentration": concentration}, normaliser


def mean(parameters: Vectors) -> Vector:
    """α_c / Σ α"""
    c, entry = parameters["concentration"]
    return Vector(c, divide(entry, total([c], entry)))


def variance(parameters: Vectors) -> Vector:
    """m_c (1 − m_c) / (Σ α + 1)"""
    c, entry = parameters["concentration"]
    share = mean(parameters).entry
    return Vector(c, divide(times(share, one_minus(share)), plus(total([c], entry), ONE)))


def mode(parameters: Vectors) -> Vector:
    """(α_c − 1) / (Σ α − d)"""
    c, entry = parameters["concentration"]
    return Vector(c, divide(minus(entry, ONE), minus(total([c], entry), const(float(c.size)))))


def above_one(parameters: Vectors) -> Vector:
    """α_c − 1"""
    c, entry = parameters["concentration"]
    return Vector(c, minus(entry, ONE))


DIRICHLET = register(
    Family(
        "Dirichlet",
        {"concentration": constraints.independent(cast(Any, constraints.positive), 1)},
        lambda parameters: None,
        log_dirichlet,
        names=("Dirichlet",),
        event_dim=1,
        signature=Signature("simplex", from_logs),
        draw=lambda key, p: jax.random.dirichlet(key, p["concentration"]),
        mean=mean,
        variance=variance,
        mode=mode,
        mode_needs=lambda p: (above_one(p),),
        finite_needs=lambda p: (p["concentration"],),
        equation="∫ Π x_c^(a_c−1) dx = (Π Γ(a_c))/Γ(Σ a_c)",
    )
)
