"""Semirings as data: how weights enter, ⊕, ⊗, their units, and how results leave.

A table's weights are pairs (w, s) meaning w·exp(s). A semiring is *homogeneous* where ⊗ is the product of numbers and
⊕ commutes with positive scaling, so that the shift s can be pulled out of every sum; the others embed their weights
into plain arrays of a carrier of their own, with s = 0.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fubini.base.arrays import Data
from fubini.errors import DomainError, Intractable

Pair = tuple[Data, Data]


def same_pair(xp: Any, weights: Data, shift: Data) -> Pair:
    """Weights as they are: the carrier of a semiring of non-negative numbers."""
    return weights, shift


def plain_weights(xp: Any, weights: Data, shift: Data) -> Pair:
    """Weights with their shift multiplied in."""
    return weights * xp.exp(shift), 0.0


@dataclass(frozen=True, eq=False)
class Semiring:
    """⊕ with unit `zero`, ⊗ with unit `one`; functions take the array namespace first.

    A new one is a value, here (min, max), the bottleneck of the best assignment:

    >>> bottleneck = Semiring(
    ...     "bottleneck",
    ...     add=lambda xp, a, axis: xp.min(a, axis=axis),
    ...     multiply=lambda xp, a, b: xp.maximum(a, b),
    ...     zero=np.inf,
    ...     one=-np.inf,
    ...     embed=lambda xp, weights, shift: (weights * xp.exp(shift), 0.0),
    ... )
    """

    name: str
    add: Callable[[Any, Data, tuple[int, ...]], Data]
    multiply: Callable[[Any, Data, Data], Data]
    zero: float
    one: float
    embed: Callable[[Any, Data, Data], Pair] = same_pair
    read: Callable[[Any, Data, Data], Pair] = same_pair
    power: Callable[[Any, Data, float], Data] | None = None
    homogeneous: bool = False
    ufunc: np.ufunc | None = None  # ⊕ of two arrays, where NumPy has it: sums are then accumulated in place

    def __post_init__(self) -> None:
        if not self.homogeneous and self.embed is same_pair:
            object.__setattr__(self, "embed", plain_weights)
        if self.homogeneous and self.ufunc not in (np.add, np.maximum):
            raise DomainError(
                f"the semiring {self.name} as homogeneous",
                expected="⊕ to be the sum or the maximum, given as ufunc=np.add or np.maximum",
                advice="leave homogeneous=False: the semiring then works on plain arrays",
            )

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...] | str:
        return (builtin_semiring, (self.name,)) if self in _BUILTIN else super().__reduce__()

    def product(self, xp: Any, carrier: Data, axis: int) -> Data:
        """⊗ along one axis, by halving: associativity is all it needs."""
        size = carrier.shape[axis]
        if size == 0:
            return xp.full(carrier.shape[:axis] + carrier.shape[axis + 1 :], self.one, carrier.dtype)
        carrier = xp.moveaxis(carrier, axis, 0)
        while carrier.shape[0] > 1:
            half = carrier.shape[0] // 2
            rest = carrier[2 * half :]
            carrier = xp.concatenate([self.multiply(xp, carrier[:half], carrier[half : 2 * half]), rest])
        return carrier[0]

    def repeat(self, xp: Any, carrier: Data, exponent: float) -> Data:
        """a ⊗ … ⊗ a, `exponent` times."""
        if self.power is not None:
            return self.power(xp, carrier, exponent)
        if exponent != int(exponent) or exponent < 0:
            raise Intractable(
                f"the power {exponent} in the semiring {self.name}",
                expected="a whole number: the semiring has no `power`",
                advice="give the Semiring a power= function",
            )
        return self.product(xp, xp.broadcast_to(carrier, (int(exponent), *carrier.shape)), 0)


def _sum(xp: Any, weights: Data, axis: tuple[int, ...]) -> Data:
    return xp.sum(weights, axis=axis)


def _max(xp: Any, weights: Data, axis: tuple[int, ...]) -> Data:
    return xp.max(weights, axis=axis)


def _min(xp: Any, weights: Data, axis: tuple[int, ...]) -> Data:
    return xp.min(weights, axis=axis)


def _times(xp: Any, a: Data, b: Data) -> Data:
    return a * b


def _plus(xp: Any, a: Data, b: Data) -> Data:
    return a + b


def _power(xp: Any, a: Data, exponent: float) -> Data:
    return a**exponent


def _indicator(xp: Any, weights: Data, shift: Data) -> Pair:
    return xp.where(weights == 0, 0.0, xp.where(weights > 0, 1.0, weights)), 0.0


def _cost(xp: Any, weights: Data, shift: Data) -> Pair:
    zero = weights == 0
    return xp.where(zero, xp.inf, -xp.log(xp.where(zero, 1.0, weights)) - shift), 0.0


def _weight_of_cost(xp: Any, cost: Data, shift: Data) -> Pair:
    infinite = cost == xp.inf
    return xp.where(infinite, 0.0, 1.0), xp.where(infinite, 0.0, -cost)


sum_product = Semiring("sum_product", _sum, _times, 0.0, 1.0, power=_power, homogeneous=True, ufunc=np.add)
max_product = Semiring("max_product", _max, _times, 0.0, 1.0, power=_power, homogeneous=True, ufunc=np.maximum)
min_sum = Semiring(
    "min_sum",
    _min,
    _plus,
    np.inf,
    0.0,
    embed=_cost,
    read=_weight_of_cost,
    power=lambda xp, cost, exponent: cost * exponent,
)
counting = Semiring("counting", _sum, _times, 0.0, 1.0, embed=_indicator, power=_power, homogeneous=True, ufunc=np.add)
boolean = Semiring(
    "boolean", _max, _times, 0.0, 1.0, embed=_indicator, power=_power, homogeneous=True, ufunc=np.maximum
)

_BUILTIN = (sum_product, max_product, min_sum, counting, boolean)


def builtin_semiring(name: str) -> Semiring:
    """Return the built-in semiring of a name.

    >>> builtin_semiring("counting")
    counting
    """
    return next(semiring for semiring in _BUILTIN if semiring.name == name)
