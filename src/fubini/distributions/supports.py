"""From the support of a distribution to the domain of its values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpyro.distributions import constraints

from fubini.base.domains import Bint, Domain, Integer, Nat, Positive, PositiveDefinite, Real, Simplex, Unit

_SIMPLE = (
    (constraints.boolean, Bint[2]),
    (constraints.nonnegative_integer, Nat),
    (constraints.positive_integer, Nat),
    (constraints.positive, Positive),
    (constraints.nonnegative, Positive),
    (constraints.softplus_positive, Positive),
    (constraints.unit_interval, Unit),
)


def domain_of(support: Any, shape: tuple[int, ...]) -> Domain:
    """The domain of values of this shape. A support that depends on parameters is checked with each density instead.

    >>> domain_of(constraints.positive, ()), domain_of(constraints.integer_interval(0, 4), (3,))
    (Positive, Bint[5, 3])
    """
    inner = support
    while hasattr(inner, "base_constraint"):
        inner = inner.base_constraint
    for constraint, domain in _SIMPLE:
        if type(inner) is type(constraint) and inner == constraint:
            return domain.with_shape(shape)
    if inner == constraints.simplex:
        return Simplex[shape[-1]].with_shape(shape)
    if inner == constraints.positive_definite:
        return PositiveDefinite[shape[-1]].with_shape(shape)
    if getattr(inner, "is_discrete", False):
        return _integers(inner).with_shape(shape)
    return Real.with_shape(shape)


def _integers(support: Any) -> Domain:
    """Bounded from zero where the bounds are known numbers."""
    low, high = getattr(support, "lower_bound", None), getattr(support, "upper_bound", None)
    if isinstance(low, (int, np.integer)) and low == 0 and isinstance(high, (int, np.integer)):
        return Bint[int(high) + 1]
    return Nat if isinstance(low, (int, np.integer)) and low >= 0 else Integer


POSITIVE = frozenset({"Pareto", "LowerTruncatedPowerLaw", "DoublyTruncatedPowerLaw"})  # wherever their values begin
INTERVALS = {"positive": (0.0, np.inf), "unit": (0.0, 1.0)}


def within(low: Any, high: Any, domain: Domain) -> bool:
    """Whether known ends of a support are in a domain of numbers.

    >>> within(0.0, 5.0, Positive), within(0.0, 5.0, Unit)
    (True, False)
    """
    if domain.kind not in INTERVALS:
        return False
    least, most = INTERVALS[domain.kind]
    return bool(np.all(np.asarray(low) >= least) and np.all(np.asarray(high) <= most))


def is_everywhere(support: Any) -> bool:
    """All real numbers: nothing to check."""
    while hasattr(support, "base_constraint"):
        support = support.base_constraint
    return support == constraints.real
