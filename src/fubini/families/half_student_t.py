"""HalfStudentT(df, scale): the size of Student's t around 0; in `fubini.distributions`, a FoldedDistribution of it."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from numpyro.distributions import constraints

from fubini.algebra.build import ONE, ZERO, add, const, divide, minus, plus, power, scale, times
from fubini.algebra.node import Node
from fubini.families.family import Family, register
from fubini.families.functions import INFINITY, defined_if, exp, lgamma, square
from fubini.families.parameters import POSITIVE, Parameters
from fubini.families.student_t import log_student_t


def log_half_student_t(x: Node, parameters: Parameters) -> Node:
    """log 2 + log t(x)"""
    return plus(const(math.log(2)), log_student_t(x, {**parameters, "loc": ZERO}))


def mean(parameters: Parameters) -> Node:
    """2 σ √(ν/π) Γ((ν + 1)/2) / (Γ(ν/2) (ν − 1)), infinite up to ν = 1"""
    df = parameters["df"]
    ratio = exp(minus(lgamma(scale(0.5, plus(df, ONE))), lgamma(scale(0.5, df))))
    above = minus(df, ONE)
    size = times(const(2 / math.sqrt(math.pi)), power(df, 0.5), ratio, parameters["scale"])
    return defined_if(above, divide(size, above), INFINITY)


def variance(parameters: Parameters) -> Node:
    """σ² ν/(ν − 2) − (E x)², infinite up to ν = 2"""
    df = parameters["df"]
    above = minus(df, const(2.0))
    second = divide(times(df, square(parameters["scale"])), above)
    return defined_if(above, add(((second, 1.0), (square(mean(parameters)), -1.0))), INFINITY)


HALF_STUDENT_T = register(
    Family(
        "HalfStudentT",
        {"df": constraints.positive, "scale": constraints.positive},
        POSITIVE,
        log_half_student_t,
        draw=lambda key, p: p["scale"] * jnp.abs(jax.random.t(key, p["df"], p["scale"].shape)),
        mean=mean,
        variance=variance,
        mode=lambda p: ZERO,
        folds="StudentT",
        equation="∫ (s + w x²)^(−p) dx = ½ √(π/w) Γ(p − ½)/Γ(p) s^(½ − p)",
        plain_words="the size of a Student's t",
    )
)
