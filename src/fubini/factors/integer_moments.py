"""Mean and variance of a bounded integer, given the other inputs of a factor: Values of these, from its logarithm."""

from __future__ import annotations

import numpy as np

from fubini.base import ops
from fubini.base.names import Name
from fubini.errors import NoRule
from fubini.terms.factor import Factor
from fubini.terms.indexing import fold
from fubini.terms.value import Value, Variable


def mean_given_others(f: Factor, name: Name) -> Value:
    """Σ_a a f(a, x) / Σ_a f(a, x)"""
    return average_given_others(f, name, _numbers(f, name))


def variance_given_others(f: Factor, name: Name) -> Value:
    """Σ_a (a − mean(x))² f(a, x) / Σ_a f(a, x)"""
    gap = _numbers(f, name) - mean_given_others(f, name)
    return average_given_others(f, name, gap * gap)


def _numbers(f: Factor, name: Name) -> Value:
    """The integer as a real number."""
    domain = f.inputs[name]
    if not domain.is_finite or domain.shape:
        raise NoRule(f"a moment of {name!r}: {domain!r} under {f}", expected="a real variable, or one bounded integer")
    return Variable(name, domain) * 1.0


def average_given_others(f: Factor, name: Name, value: Value) -> Value:
    """Σ_a v(a) f(a, x) / Σ_a f(a, x)"""
    log = f.log()
    total = fold(ops.logaddexp, log, name)
    empty = ops.equal(total, -np.inf)  # where there is no mass there is no mean
    share = ops.exp(log - ops.where(empty, 0.0, total))
    return fold(ops.add, share * value, name) + ops.where(empty, np.nan, 0.0)
