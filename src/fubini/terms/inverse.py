"""Solving v(y) = t for the one real variable y of an invertible Value, with the derivative of the solution."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from fubini.base import ops
from fubini.base.arrays import Data, is_traced
from fubini.base.names import Name
from fubini.base.ops import Op, lift
from fubini.base.scalar_functions import REAL, Inverse
from fubini.terms.operators import matmul
from fubini.terms.value import Apply, Array, Value, Variable, to_value


class InverseFunction(NamedTuple):
    """y = value, and log |dy/dt|."""

    name: Name
    value: Value
    log_jacobian: Value


def solve(value: Value, target: Value, name: Name) -> InverseFunction | None:
    """The y with value(y) = target; None where the value is not known to be invertible in it.

    >>> from fubini.base.domains import Real
    >>> solution = solve(ops.exp(2.0 * Variable("y", Real)), to_value(4.0), "y")
    >>> round(float(solution.value), 6), round(float(solution.log_jacobian), 6)
    (0.693147, -2.079442)
    """
    log_jacobian = to_value(0.0)
    while not isinstance(value, Variable):
        step = _step(value, target, name)
        if step is None:
            return None
        value, target, slope = step
        log_jacobian = log_jacobian + (_total(slope) if slope.output.shape else slope)
    return InverseFunction(name, target, log_jacobian) if value.name == name else None


def _step(value: Value, target: Value, name: Name) -> tuple[Value, Value, Value] | None:
    """One op peeled off: its argument, what that must equal, and log |d argument / d target|, elementwise."""
    if not isinstance(value, Apply):
        return None
    moving = [position for position, arg in enumerate(value.args) if name in arg.inputs]
    if len(moving) != 1:
        return None
    (position,) = moving
    inside = value.args[position]
    if value.op is matmul:
        return _linear_system(value.args[0], inside, target) if position == 1 else None
    scalar = value.op.scalar
    known = scalar is not None and scalar.inverse is not None
    rule = _of_scalar(scalar.inverse) if known else _INVERSES.get((value.op, position))  # type: ignore[union-attr]
    if rule is None or inside.output.shape != value.output.shape:
        return None
    held = next((arg for k, arg in enumerate(value.args) if k != position), None)
    if value.op in (ops.multiply, ops.divide) and _is_known_zero(held):
        return None
    argument, slope = rule(target, held)
    return inside, argument, slope + 0.0 * argument


def _is_known_zero(value: Value | None) -> bool:
    return isinstance(value, Array) and not is_traced(value.array) and not np.all(np.asarray(value.array))


def _of_scalar(inverse: Inverse) -> Callable:
    """The rule of a scalar function: outside of its image, what is the image of nothing has no mass."""
    low, high = inverse.image

    def rule(t: Value, held: Value | None) -> tuple[Value, Value]:
        if inverse.image == REAL:
            return inverse.solve(ops, t)
        inside = ops.logical_and(ops.greater(t, low), ops.less(t, high))
        argument, slope = inverse.solve(ops, ops.where(inside, t, inverse.inside))
        return argument, ops.where(inside, slope, -np.inf)

    return rule


def _linear_system(matrix: Value, inside: Value, target: Value) -> tuple[Value, Value, Value] | None:
    shape = matrix.output.shape
    if len(shape) != 2 or shape[0] != shape[1] or len(inside.output.shape) != 1:
        return None
    return inside, matmul(_inverted(matrix), target), -_log_determinant(matrix)


@lift
def _inverted(matrix: Data) -> Data:
    return jnp.linalg.inv(matrix)


@lift
def _log_determinant(matrix: Data) -> Data:
    return jnp.linalg.slogdet(matrix)[1]


@lift
def _total(values: Data) -> Data:
    return jnp.sum(values)


def _log_size(value: Value) -> Value:
    return ops.log(ops.absolute(value))


# For each op of arithmetic and the position of its argument: t ↦ (that argument, log |d argument / dt|).
_INVERSES: dict[tuple[Op, int], Callable] = {
    (ops.add, 0): lambda t, c: (t - c, 0.0 * t),
    (ops.add, 1): lambda t, c: (t - c, 0.0 * t),
    (ops.subtract, 0): lambda t, c: (t + c, 0.0 * t),
    (ops.subtract, 1): lambda t, c: (c - t, 0.0 * t),
    (ops.negative, 0): lambda t, c: (-t, 0.0 * t),
    (ops.multiply, 0): lambda t, c: (t / c, -_log_size(c)),
    (ops.multiply, 1): lambda t, c: (t / c, -_log_size(c)),
    (ops.divide, 0): lambda t, c: (t * c, _log_size(c)),
    (ops.divide, 1): lambda t, c: (c / t, _log_size(c) - 2.0 * _log_size(t)),
}
