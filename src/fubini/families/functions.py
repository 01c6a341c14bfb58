"""Functions of index notation that log-densities and normalisers are written in."""

from __future__ import annotations

import math

from fubini.algebra.build import ONE, ZERO, add, call, const, less, minus, negate, plus, power, scale, times, where
from fubini.algebra.node import Node
from fubini.algebra.ranges import bounds, exceeds_zero

LOG_2PI = math.log(2 * math.pi)
INFINITY = const(math.inf)
MINUS_INFINITY = call("log", ZERO)
UNDEFINED = call("log", const(-1.0))  # not a number


def log(x: Node) -> Node:
    """log x"""
    return call("log", x)


def exp(x: Node) -> Node:
    """e^x"""
    return call("exp", x)


def lgamma(x: Node) -> Node:
    """log Γ(x)"""
    return call("lgamma", x)


def digamma(x: Node) -> Node:
    """The derivative of log Γ"""
    return call("digamma", x)


def log_beta(a: Node, b: Node) -> Node:
    """log B(a, b)"""
    return add(((lgamma(a), 1.0), (lgamma(b), 1.0), (lgamma(plus(a, b)), -1.0)))


def log_choose(n: Node, k: Node) -> Node:
    """log n! / k! (n − k)!"""
    remaining = plus(minus(n, k), ONE)
    return add(((lgamma(plus(n, ONE)), 1.0), (lgamma(plus(k, ONE)), -1.0), (lgamma(remaining), -1.0)))


def one_minus(x: Node) -> Node:
    """1 − x"""
    return minus(ONE, x)


def square(x: Node) -> Node:
    """x²"""
    return power(x, 2.0)


def log_one_plus_exp(x: Node) -> Node:
    """log(1 + e^x), for all x: log(a + b) − log b at x = log a − log b, the log-odds of a number, say"""
    logs = {c: _inside_log(part) for part, c in x.args} if x.kind == "add" and len(x.args) == 2 else {}
    a, b = logs.get(1.0), logs.get(-1.0)
    if a is not None and b is not None:
        return minus(log(plus(a, b)), log(b))
    return plus(call("max", x, ZERO), call("log1p", call("exp", scale(-1.0, call("abs", x)))))


def _inside_log(of: Node) -> Node | None:
    """a of log a"""
    if of.kind != "call" or of.args[0] not in ("log", "log1p"):
        return None
    return plus(ONE, of.args[1]) if of.args[0] == "log1p" else of.args[1]


def is_inside(x: Node, low: Node, high: Node) -> Node:
    """[low ≤ x ≤ high]"""
    return times(negate(less(x, low)), negate(less(high, x)))


def defined_if(positive: Node, value: Node, otherwise: Node = UNDEFINED) -> Node:
    """A value where a number is positive, else not a number or another value."""
    return where(less(ZERO, positive), value, otherwise)


# -- normalisers, which are infinite or undefined where an integral diverges ----------------------------------------


def log_gamma(shape: Node) -> Node:
    """log Γ of a shape: where it is not positive the integral diverges."""
    return call("lgamma" if bounds(shape)[0] > 0 or exceeds_zero(shape) else "lgamma_if_positive", shape)


def log_multivariate_gamma(shape: Node, p: int) -> Node:
    """log Γ_p(a)  =  ¼ p (p − 1) log π + Σ_{j < p} log Γ(a − ½ j)"""
    parts = [(log_gamma(minus(shape, const(0.5 * j))), 1.0) for j in range(p)]
    return add(((ONE, 0.25 * p * (p - 1) * math.log(math.pi)), *parts))


def log_rate(rate: Node) -> Node:
    """log of a rate or a precision: −∞ where it is not positive, for the integral is infinite there."""
    return call("log", rate if bounds(rate)[0] >= 0 else call("max", rate, ZERO))


def is_never_positive(rate: Node) -> bool:
    """A rate with which no integral is finite."""
    return bounds(rate)[1] <= 0


def exponential(x: Node) -> Node:
    """e^x, with what is a logarithm taken out: e^(a + 2 log b) = b² e^a"""
    parts = x.args if x.kind == "add" else ((x, 1.0),)
    logs = [(part, c) for part, c in parts if part.kind == "call" and part.args[0] == "log"]
    others = add(part for part in parts if part not in logs)
    return times(*(power(part.args[1], c) for part, c in logs), call("exp", others))
