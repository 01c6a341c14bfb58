"""StudentT(df, loc, scale): a normal number whose precision is Gamma(ν/2, ν/2)."""

from __future__ import annotations

import math

import jax
from numpyro.distributions import constraints

from fubini.algebra.build import ONE, add, call, const, divide, minus, plus, power, scale, times
from fubini.algebra.node import Node
from fubini.families.family import Family, register
from fubini.families.functions import INFINITY, defined_if, lgamma, log, log_gamma, log_rate, square
from fubini.families.parameters import REAL, Parameters
from fubini.families.signature import Match, Signature


def log_student_t(x: Node, parameters: Parameters) -> Node:
    """log Γ((ν+1)/2) − log Γ(ν/2) − ½ log νπ − log σ − (ν+1)/2 log(1 + ((x − μ)/σ)²/ν)"""
    df, half = parameters["df"], scale(0.5, plus(parameters["df"], ONE))
    squared = times(power(minus(x, parameters["loc"]), 2.0), power(parameters["scale"], -2.0), power(df, -1.0))
    front = add(((lgamma(half), 1.0), (lgamma(scale(0.5, df)), -1.0), (log(df), -0.5), (ONE, -0.5 * math.log(math.pi))))
    return add(((front, 1.0), (log(parameters["scale"]), -1.0), (times(half, log(plus(ONE, squared))), -1.0)))


def from_power(exponent: Node, weight: Node, mean: Node, least: Node) -> Match:
    """∫ (s + w (x − m)²)^(−p) dx  =  √(π/w) · Γ(p − ½)/Γ(p) · s^(½ − p)"""
    lower = minus(exponent, scale(0.5, ONE))
    normaliser = add(
        (
            (ONE, 0.5 * math.log(math.pi)),
            (log_rate(weight), -0.5),
            (log_gamma(lower), 1.0),
            (call("lgamma", exponent), -1.0),
            (times(lower, log_rate(least)), -1.0),
        )
    )
    df = scale(2.0, lower)
    return {"df": df, "loc": mean, "scale": power(divide(least, times(weight, df)), 0.5)}, normaliser


def from_quadratic(exponent: Node, weight: Node, mean: Node, least: Node) -> Match | None:
    """All but a Cauchy, which has a name of its own"""
    match = from_power(exponent, weight, mean, least)
    return None if match[0]["df"] is ONE else match


def variance(parameters: Parameters) -> Node:
    """σ² ν/(ν − 2), infinite up to ν = 2, not defined up to ν = 1"""
    df = parameters["df"]
    above = minus(df, const(2.0))
    spread = divide(times(df, square(parameters["scale"])), above)
    return defined_if(minus(df, ONE), defined_if(above, spread, INFINITY))


STUDENT_T = register(
    Family(
        "StudentT",
        {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive},
        REAL,
        log_student_t,
        names=("StudentT",),
        signature=Signature("quadratic", from_quadratic),
        draw=lambda key, p: p["loc"] + p["scale"] * jax.random.t(key, p["df"], p["loc"].shape),
        mean=lambda p: defined_if(minus(p["df"], ONE), p["loc"]),
        variance=variance,
        mode=lambda p: p["loc"],
        folded="HalfStudentT",
    )
)
