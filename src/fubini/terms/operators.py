"""Python's operators, as ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fubini.base import ops
from fubini.base.arrays import Data, namespace


def _matrix_product(a: Data, b: Data) -> Data:
    return namespace(a, b).matmul(a, b)


matmul = ops.lift(_matrix_product)


class Operators:
    """`x + y` is `ops.add(x, y)`, and so on; what an op builds is up to the class, through `_apply_op`."""

    _truths: Callable[..., tuple]  # the arguments of a symbol, which have to be truth values

    def __add__(self, other: Any) -> Any:
        return ops.add(self, other)

    def __radd__(self, other: Any) -> Any:
        return ops.add(other, self)

    def __sub__(self, other: Any) -> Any:
        return ops.subtract(self, other)

    def __rsub__(self, other: Any) -> Any:
        return ops.subtract(other, self)

    def __mul__(self, other: Any) -> Any:
        return ops.multiply(self, other)

    def __rmul__(self, other: Any) -> Any:
        return ops.multiply(other, self)

    def __truediv__(self, other: Any) -> Any:
        return ops.divide(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return ops.divide(other, self)

    def __floordiv__(self, other: Any) -> Any:
        return ops.floor_divide(self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return ops.floor_divide(other, self)

    def __mod__(self, other: Any) -> Any:
        return ops.remainder(self, other)

    def __rmod__(self, other: Any) -> Any:
        return ops.remainder(other, self)

    def __pow__(self, other: Any) -> Any:
        return ops.power(self, other)

    def __rpow__(self, other: Any) -> Any:
        return ops.power(other, self)

    def __matmul__(self, other: Any) -> Any:
        return matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return matmul(other, self)

    def __neg__(self) -> Any:
        return ops.negative(self)

    def __abs__(self) -> Any:
        return ops.absolute(self)

    def __eq__(self, other: Any) -> Any:
        return ops.equal(self, other)

    def __ne__(self, other: Any) -> Any:
        return ops.not_equal(self, other)

    def __lt__(self, other: Any) -> Any:
        return ops.less(self, other)

    def __le__(self, other: Any) -> Any:
        return ops.less_equal(self, other)

    def __gt__(self, other: Any) -> Any:
        return ops.greater(self, other)

    def __ge__(self, other: Any) -> Any:
        return ops.greater_equal(self, other)

    def __and__(self, other: Any) -> Any:
        return ops.logical_and(*self._truths("&", self, other))

    def __or__(self, other: Any) -> Any:
        return ops.logical_or(*self._truths("|", self, other))

    def __invert__(self) -> Any:
        return ops.logical_not(*self._truths("~", self))

    __rand__, __ror__ = __and__, __or__  # of truth values, which commute
    __hash__ = object.__hash__  # by identity: a container asks for that first, and never compares
