"""Forms of arithmetic with weights inside a kernel: as they are, by logarithms, or greatest in place of sums.

An algorithm serves all of them.

Weights are lists of arrays, one for each state, so that they stay in registers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import jax.numpy as jnp

from fubini.base.arrays import Data

NONE = -math.inf

Vector = list[Data]


class Weights(NamedTuple):
    """Weights over their greatest, the logarithm of that, and the least of those that are not zero, at most 1."""

    each: Vector
    top: Data
    least: Data


class Arithmetic(ABC):
    """Sums of products of weights, in one of these forms."""

    one: float
    zero: float

    @abstractmethod
    def enter(self, logs: Sequence[Data]) -> Weights:
        """Weights over their greatest, from their logarithms."""

    @abstractmethod
    def times(self, x: Data, y: Data) -> Data:
        """x · y"""

    @abstractmethod
    def dot(self, xs: Sequence[Data], ys: Sequence[Data]) -> Data:
        """Σ x · y"""

    @abstractmethod
    def rescale(self, xs: Sequence[Data]) -> tuple[Vector, Data]:
        """Weights over their greatest, and the logarithm of that."""

    @abstractmethod
    def least(self, xs: Sequence[Data]) -> Data:
        """The least positive weight, at most 1; 1 where weights cannot leave the range."""

    @abstractmethod
    def log(self, x: Data) -> Data:
        """log x"""

    @abstractmethod
    def inverse(self, x: Data) -> Data:
        """1 / x"""

    @abstractmethod
    def number(self, x: Data) -> Data:
        """x itself."""

    @abstractmethod
    def or_one(self, x: Data) -> Data:
        """x where it is positive, 1 where it is zero."""


class LinearArithmetic(Arithmetic):
    """Weights as they are, the greatest near 1."""

    one, zero = 1.0, 0.0

    def enter(self, logs: Sequence[Data]) -> Weights:
        top = finite(greatest(logs))
        weights = [jnp.exp(log - top) for log in logs]
        least = [jnp.where(log > NONE, weight, 1.0) for log, weight in zip(logs, weights, strict=True)]
        return Weights(weights, top, reduce(jnp.minimum, least))

    def times(self, x: Data, y: Data) -> Data:
        return x * y

    def dot(self, xs: Sequence[Data], ys: Sequence[Data]) -> Data:
        return added([x * y for x, y in zip(xs, ys, strict=True)])

    def rescale(self, xs: Sequence[Data]) -> tuple[Vector, Data]:
        top = greatest(xs)
        top = jnp.where(top > 0, top, 1.0)
        inverse = 1.0 / top
        return [x * inverse for x in xs], jnp.log(top)

    def least(self, xs: Sequence[Data]) -> Data:
        return reduce(jnp.minimum, [jnp.where(x > 0, x, 1.0) for x in xs])

    def log(self, x: Data) -> Data:
        return jnp.log(x)

    def inverse(self, x: Data) -> Data:
        return 1.0 / x

    def number(self, x: Data) -> Data:
        return x

    def or_one(self, x: Data) -> Data:
        return jnp.where(x > 0, x, 1.0)


class LogArithmetic(Arithmetic):
    """Logarithms of weights."""

    one, zero = 0.0, NONE

    def enter(self, logs: Sequence[Data]) -> Weights:
        return Weights(*self.rescale(logs), self.least(logs))

    def times(self, x: Data, y: Data) -> Data:
        return x + y

    def dot(self, xs: Sequence[Data], ys: Sequence[Data]) -> Data:
        sums = [x + y for x, y in zip(xs, ys, strict=True)]
        top = finite(greatest(sums))
        return top + jnp.log(added([jnp.exp(each - top) for each in sums]))

    def rescale(self, xs: Sequence[Data]) -> tuple[Vector, Data]:
        top = finite(greatest(xs))
        return [x - top for x in xs], top

    def least(self, xs: Sequence[Data]) -> Data:
        return jnp.ones_like(xs[0])

    def log(self, x: Data) -> Data:
        return x

    def inverse(self, x: Data) -> Data:
        return -x

    def number(self, x: Data) -> Data:
        return jnp.exp(x)

    def or_one(self, x: Data) -> Data:
        return jnp.where(x > NONE, x, 0.0)


class MaxArithmetic(LogArithmetic):
    """Logarithms of weights, the greatest of which is taken in place of their sum."""

    def dot(self, xs: Sequence[Data], ys: Sequence[Data]) -> Data:
        return greatest([x + y for x, y in zip(xs, ys, strict=True)])


LINEAR, BY_LOGS, BY_MAX = LinearArithmetic(), LogArithmetic(), MaxArithmetic()


def greatest(xs: Sequence[Data]) -> Data:
    """The greatest of them."""
    return reduce(jnp.maximum, xs)


def added(xs: Sequence[Data]) -> Data:
    """The sum of them."""
    return reduce(lambda x, y: x + y, xs)


def finite(top: Data) -> Data:
    """A logarithm, 0 in place of −∞."""
    return jnp.where(top > NONE, top, 0.0)
