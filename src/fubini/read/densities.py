"""Log-densities of families in index notation: what an elimination can look into.

numpyro's own `log_prob` is not read: it carries masks and validity tests that hide the form. A family without an entry
here is opaque, and right all the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from fubini.index.build import (
    ONE,
    add,
    call,
    const,
    divide,
    equal,
    less,
    minus,
    negate,
    plus,
    power,
    scale,
    times,
    where,
)
from fubini.index.node import Node
from fubini.index.ranges import bounds

LOG_2PI = math.log(2 * math.pi)
MINUS_INFINITY = call("log", const(0.0))

Density = Callable[[Node, Mapping[str, Node]], Node]
SCALAR: dict[str, Density] = {}


def scalar(*names: str) -> Callable[[Density], Density]:
    """Register the log-density of one number: of a value, given the parameters by name."""

    def register(function: Density) -> Density:
        SCALAR.update(dict.fromkeys(names, function))
        return function

    return register


def log(of: Node) -> Node:
    """log of a node"""
    return call("log", of)


def lgamma(of: Node) -> Node:
    """log Γ of a node"""
    return call("lgamma", of)


def log_beta(a: Node, b: Node) -> Node:
    """log B(a, b)"""
    return add(((lgamma(a), 1.0), (lgamma(b), 1.0), (lgamma(plus(a, b)), -1.0)))


def log_choose(n: Node, k: Node) -> Node:
    """log n! / k! (n − k)!"""
    left = plus(minus(n, k), ONE)
    return add(((lgamma(plus(n, ONE)), 1.0), (lgamma(plus(k, ONE)), -1.0), (lgamma(left), -1.0)))


def one_minus(of: Node) -> Node:
    """1 − x"""
    return minus(ONE, of)


@scalar("Normal")
def log_normal(x: Node, at: Mapping[str, Node]) -> Node:
    """−½ (x − μ)² / σ² − log σ − ½ log 2π"""
    square = times(power(minus(x, at["loc"]), 2.0), power(at["scale"], -2.0))
    return add(((square, -0.5), (log(at["scale"]), -1.0), (ONE, -0.5 * LOG_2PI)))


@scalar("HalfNormal")
def log_half_normal(x: Node, at: Mapping[str, Node]) -> Node:
    """log 2 − ½ x² / σ² − log σ − ½ log 2π"""
    square = times(power(x, 2.0), power(at["scale"], -2.0))
    return add(((square, -0.5), (log(at["scale"]), -1.0), (ONE, math.log(2) - 0.5 * LOG_2PI)))


@scalar("LogNormal")
def log_log_normal(x: Node, at: Mapping[str, Node]) -> Node:
    """The normal density of log x, over x"""
    return minus(log_normal(log(x), at), log(x))


@scalar("Cauchy")
def log_cauchy(x: Node, at: Mapping[str, Node]) -> Node:
    """−log π − log σ − log(1 + ((x − μ)/σ)²)"""
    square = times(power(minus(x, at["loc"]), 2.0), power(at["scale"], -2.0))
    return add(((ONE, -math.log(math.pi)), (log(at["scale"]), -1.0), (log(plus(ONE, square)), -1.0)))


@scalar("HalfCauchy")
def log_half_cauchy(x: Node, at: Mapping[str, Node]) -> Node:
    """log 2 − log π − log σ − log(1 + (x/σ)²)"""
    square = times(power(x, 2.0), power(at["scale"], -2.0))
    return add(((ONE, math.log(2 / math.pi)), (log(at["scale"]), -1.0), (log(plus(ONE, square)), -1.0)))


@scalar("StudentT")
def log_student_t(x: Node, at: Mapping[str, Node]) -> Node:
    """log Γ((ν+1)/2) − log Γ(ν/2) − ½ log νπ − log σ − (ν+1)/2 log(1 + ((x − μ)/σ)²/ν)"""
    df, half = at["df"], scale(0.5, plus(at["df"], ONE))
    square = times(power(minus(x, at["loc"]), 2.0), power(at["scale"], -2.0), power(df, -1.0))
    front = add(((lgamma(half), 1.0), (lgamma(scale(0.5, df)), -1.0), (log(df), -0.5), (ONE, -0.5 * math.log(math.pi))))
    return add(((front, 1.0), (log(at["scale"]), -1.0), (times(half, log(plus(ONE, square))), -1.0)))


@scalar("Laplace")
def log_laplace(x: Node, at: Mapping[str, Node]) -> Node:
    """−|x − μ|/b − log 2b"""
    return add(((divide(call("abs", minus(x, at["loc"])), at["scale"]), -1.0), (log(scale(2.0, at["scale"])), -1.0)))


@scalar("Gamma")
def log_gamma(x: Node, at: Mapping[str, Node]) -> Node:
    """α log β − log Γ(α) + (α − 1) log x − β x"""
    a, b = at["concentration"], at["rate"]
    return add(((times(a, log(b)), 1.0), (lgamma(a), -1.0), (times(minus(a, ONE), log(x)), 1.0), (times(b, x), -1.0)))


@scalar("InverseGamma")
def log_inverse_gamma(x: Node, at: Mapping[str, Node]) -> Node:
    """α log β − log Γ(α) − (α + 1) log x − β / x"""
    a, b = at["concentration"], at["rate"]
    return add(((times(a, log(b)), 1.0), (lgamma(a), -1.0), (times(plus(a, ONE), log(x)), -1.0), (divide(b, x), -1.0)))


@scalar("Exponential")
def log_exponential(x: Node, at: Mapping[str, Node]) -> Node:
    """log β − β x"""
    return minus(log(at["rate"]), times(at["rate"], x))


@scalar("Beta")
def log_beta_density(x: Node, at: Mapping[str, Node]) -> Node:
    """(a − 1) log x + (b − 1) log(1 − x) − log B(a, b)"""
    a, b = at["concentration1"], at["concentration0"]
    logs = (times(minus(a, ONE), log(x)), 1.0), (times(minus(b, ONE), log(one_minus(x))), 1.0)
    return add((*logs, (log_beta(a, b), -1.0)))


@scalar("Uniform")
def log_uniform(x: Node, at: Mapping[str, Node]) -> Node:
    """−log(high − low) inside"""
    if (at["low"], at["high"]) == (const(0.0), ONE) and bounds(x) == (0.0, 1.0) and x.kind == "get":
        return const(0.0)  # a probability
    inside = times(negate(less(x, at["low"])), negate(less(at["high"], x)))
    return where(inside, scale(-1.0, log(minus(at["high"], at["low"]))), MINUS_INFINITY)


@scalar("Bernoulli", "BernoulliProbs", "BernoulliLogits")
def log_bernoulli(x: Node, at: Mapping[str, Node]) -> Node:
    """x log p + (1 − x) log(1 − p)"""
    if "logits" in at:
        return minus(times(x, at["logits"]), log_one_plus_exp(at["logits"]))
    p = at["probs"]
    if may_be_certain(p):
        return where(equal(x, ONE), log(p), log(one_minus(p)))  # never −∞ − (−∞)
    return plus(times(x, log(p)), times(one_minus(x), log(one_minus(p))))


def may_be_certain(p: Node) -> bool:
    """A probability that can be 0 or 1: one that finite latents decide, or a number."""
    if any(leaf.is_integer and leaf.role == "site" for leaf in p.leaves):
        return True
    low, high = bounds(p)
    return not any(leaf.role in ("site", "opaque") for leaf in p.leaves) and (low <= 0 or high >= 1)


@scalar("Binomial", "BinomialProbs", "BinomialLogits")
def log_binomial(x: Node, at: Mapping[str, Node]) -> Node:
    """log C(n, x) + x log p + (n − x) log(1 − p), for x ≤ n"""
    n = at["total_count"]
    if "logits" in at:
        return add(
            ((log_choose(n, x), 1.0), (times(x, at["logits"]), 1.0), (times(n, log_one_plus_exp(at["logits"])), -1.0))
        )
    p = at["probs"]
    return add(((log_choose(n, x), 1.0), (times(x, log(p)), 1.0), (times(minus(n, x), log(one_minus(p))), 1.0)))


def log_one_plus_exp(of: Node) -> Node:
    """log(1 + e^x), for all x"""
    return plus(call("max", of, const(0.0)), call("log1p", call("exp", scale(-1.0, call("abs", of)))))


@scalar("Poisson")
def log_poisson(x: Node, at: Mapping[str, Node]) -> Node:
    """x log λ − λ − log x!"""
    return add(((times(x, log(at["rate"])), 1.0), (at["rate"], -1.0), (lgamma(plus(x, ONE)), -1.0)))


@scalar("Geometric", "GeometricProbs")
def log_geometric(x: Node, at: Mapping[str, Node]) -> Node:
    """x log(1 − p) + log p"""
    return plus(times(x, log(one_minus(at["probs"]))), log(at["probs"]))


@scalar("DiscreteUniform")
def log_discrete_uniform(x: Node, at: Mapping[str, Node]) -> Node:
    """−log(high − low + 1) inside"""
    inside = times(negate(less(x, at["low"])), negate(less(at["high"], x)))
    return where(inside, scale(-1.0, log(plus(minus(at["high"], at["low"]), ONE))), MINUS_INFINITY)


@scalar("Delta")
def log_delta(x: Node, at: Mapping[str, Node]) -> Node:
    """0 at the point, −∞ elsewhere"""
    return where(equal(x, at["v"]), at.get("log_density", const(0.0)), MINUS_INFINITY)
