"""Affine Values: v(x, y, …) = b + A_x x + A_y y + …, with coefficients that may depend on bounded integers."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import NamedTuple

import jax
import numpy as np

from fubini.algebra.responses import MOST_ENTRIES
from fubini.base import ops
from fubini.base.arrays import Data, is_jax, namespace
from fubini.base.domains import Real, merge_inputs
from fubini.base.names import Name
from fubini.base.ops import Lifted, Op
from fubini.numerics.named_axes import align
from fubini.terms.degree import degree
from fubini.terms.value import Apply, Array, Value, Variable, compute, to_array


class Affine(NamedTuple):
    """constant + Σ slopes[x] · x, where x is flattened: a slope has one event axis more than the constant."""

    constant: Array
    slopes: dict[Name, Array]


def affine(value: Value, names: Collection[Name]) -> Affine | None:
    """The coefficients of a Value in the names given; None where it is not affine in them together.

    >>> from fubini.base.domains import Real
    >>> x, y = Variable("x", Real), Variable("y", Real)
    >>> coefficients = affine(2.0 * x + 1.0 - y, {"x", "y"})
    >>> coefficients.constant.data, coefficients.slopes["x"].data, coefficients.slopes["y"].data
    (array(1.), array([2.]), array([-1.]))
    """
    present = [name for name in value.inputs if name in names]
    if degree(value, present) > 1:
        return None
    memo: dict[int, Affine] = {}

    def visit(term: Value) -> Affine:
        if not any(name in term.inputs for name in present):
            return Affine(to_array(term), {})
        if id(term) not in memo:
            memo[id(term)] = _of_node(term, visit)
        return memo[id(term)]

    coefficients = visit(value)
    memo.clear()  # arrays that `visit`, which refers to itself, would keep
    return coefficients


def needs_large_matrix(value: Value, names: Collection[Name]) -> bool:
    """Whether it has a lifted function in it whose derivative has too many entries to be made."""
    is_lifted = isinstance(value, Apply) and isinstance(value.op.function, Lifted)
    moving = sum(math.prod(child.output.shape) for child in value.value_children if set(names) & set(child.inputs))
    if is_lifted and math.prod(value.output.shape) * moving > MOST_ENTRIES:
        return True
    return any(needs_large_matrix(child, names) for child in value.value_children)


def _of_node(term: Value, visit: Callable[[Value], Affine]) -> Affine:
    if isinstance(term, Variable):
        shape = term.output.shape
        size = math.prod(shape)
        slope = Array(np.eye(size).reshape((*shape, size)))
        return Affine(Array(np.zeros(shape)), {term.name: slope})
    parts = [visit(child) for child in term.value_children]
    if not isinstance(term, Apply):
        return _of_binder(term, parts)
    return _of_lifted(term, parts) if isinstance(term.op.function, Lifted) else _of_op(term, parts)


def _of_binder(term: Value, parts: list[Affine]) -> Affine:
    """Treat further event axes like any others, in a term that is linear in its children."""
    constants = [part.constant for part in parts]
    slopes = {}
    for name in _names(parts):
        children = [_slope(part, name, parts) if k in term.linear_children else part.constant
                    for k, part in enumerate(parts)]  # fmt: skip
        slope = term._ground(*children)
        size = children[term.linear_children[0]].output.shape[-1]
        slopes[name] = _real(slope, (*term.output.shape, size))
    return Affine(_real(term._ground(*constants), term.output.shape), slopes)


def _of_op(term: Apply, parts: list[Affine]) -> Affine:
    shape = term.output.shape
    constant = _real(compute(term.op, [part.constant for part in parts], term.output), shape)
    slopes: dict[Name, Array] = {}
    for name in _names(parts):
        slopes[name] = _slope_of_op(term.op, parts, name, shape)
    return Affine(constant, slopes)


def _slope_of_op(op: Op, parts: list[Affine], name: Name, shape: tuple[int, ...]) -> Array:
    """The slope of each op that is affine in what varies: a sum, a multiple, a quotient, a choice."""
    given = [_spread(part.slopes[name], shape) if name in part.slopes else None for part in parts]
    if op in (ops.add, ops.subtract):
        first, second = given
        if second is None:
            assert first is not None
            return first
        return _combined(op, first, second) if first is not None else _signed(op, second)
    if op is ops.negative:
        return _signed(ops.subtract, given[0])
    if op in (ops.multiply, ops.divide):
        moving = 0 if given[0] is not None else 1
        held = parts[1 - moving].constant
        return _combined(op, given[moving], _column(held, len(shape)))
    if op is ops.power:  # to the first, or to the nought: any other is not affine
        return _combined(ops.multiply, given[0], _column(parts[1].constant, len(shape)))
    assert op is ops.where, f"{op} is affine in nothing"
    zero = Array(np.zeros((1,) * (len(shape) + 1)))
    branches = [zero if slope is None else slope for slope in given[1:]]
    output = Real.with_shape(np.broadcast_shapes(*(branch.output.shape for branch in branches)))
    return compute(ops.where, [_column(parts[0].constant, len(shape)), *branches], output)


def _of_lifted(term: Apply, parts: list[Affine]) -> Affine:
    """f(b + A x) = f(b) + f′ A x, the derivative being the same everywhere."""
    constants = [part.constant for part in parts]
    constant = _real(compute(term.op, constants, term.output), term.output.shape)
    slopes: dict[Name, Array] = {}
    for position, part in enumerate(parts):
        if not part.slopes:
            continue
        jacobian = _jacobian(term.op, position)
        floats = [_as_floats(value) if k == position else value for k, value in enumerate(constants)]
        shape = (*term.output.shape, *part.constant.output.shape)
        local = compute(jacobian, floats, Real.with_shape(shape))
        for name, slope in part.slopes.items():
            chained = _chained(local, slope, term.output.shape)
            slopes[name] = _combined(ops.add, slopes[name], chained) if name in slopes else chained
    return Affine(constant, slopes)


@lru_cache(maxsize=1024)
def _jacobian(op: Op, position: int) -> Op:
    return ops.lift(jax.jacfwd(ops.at_call(op.function.function), position))  # type: ignore[union-attr]


def _chained(outer: Array, inner: Array, shape: tuple[int, ...]) -> Array:
    """outer[o…, a…] · inner[a…, n], by name."""
    inputs = merge_inputs(outer.inputs, inner.inputs)
    names = tuple(inputs)
    size = inner.output.shape[-1]
    left = align(outer.array, outer.names, names, len(outer.output.shape))
    right = align(inner.array, inner.names, names, len(inner.output.shape))
    left = left.reshape((*left.shape[: len(names)], math.prod(shape), -1))
    right = right.reshape((*right.shape[: len(names)], -1, size))
    made = left if _is_identity(right) else namespace(left, right).matmul(left, right)
    full = tuple(inputs[name].size for name in names)
    return _named(namespace(made).broadcast_to(made, (*full, *made.shape[-2:])).reshape((*full, *shape, size)), inputs)


def _is_identity(matrix: Data) -> bool:
    """The slope of a variable in itself, which is no reason to copy what it is multiplied by."""
    return not is_jax(matrix) and matrix.ndim == 2 and np.array_equal(matrix, np.eye(len(matrix)))


def _named(data: object, inputs: dict) -> Array:
    names = tuple(inputs)
    return Array._of(data, names, inputs, Real.with_shape(data.shape[len(names) :]))  # type: ignore[attr-defined]


def _names(parts: list[Affine]) -> list[Name]:
    return list(dict.fromkeys(name for part in parts for name in part.slopes))


def _slope(part: Affine, name: Name, parts: list[Affine]) -> Array:
    """A child's slope; zero where it does not depend on the name."""
    if name in part.slopes:
        return part.slopes[name]
    size = next(other.slopes[name].output.shape[-1] for other in parts if name in other.slopes)
    return Array(np.zeros((*part.constant.output.shape, size)))


def _real(value: Array, shape: tuple[int, ...]) -> Array:
    return Array._of(value.array, value.names, value.inputs, Real.with_shape(shape), value.mark)


def _as_floats(value: Array) -> Array:
    data = value.array if np.dtype(value.array.dtype).kind == "f" else value.array.astype(float)
    return _real(Array._of(data, value.names, value.inputs, Real, value.mark), value.output.shape)


def _spread(slope: Array, shape: tuple[int, ...]) -> Array:
    """A slope repeated over a larger event shape, as broadcasting repeats the value."""
    own = slope.output.shape
    if own[:-1] == shape:
        return slope
    batch = slope.array.shape[: len(slope.names)]
    data = slope.array.reshape((*batch, *(1,) * (len(shape) + 1 - len(own)), *own))
    data = namespace(data).broadcast_to(data, (*batch, *shape, own[-1]))
    return Array._of(data, slope.names, slope.inputs, Real.with_shape((*shape, own[-1])))


def _column(value: Array, rank: int) -> Array:
    """A constant with an event of full rank and one axis more, to multiply slopes by."""
    own = value.output.shape
    batch = value.array.shape[: len(value.names)]
    shape = (*(1,) * (rank - len(own)), *own, 1)
    return Array._of(value.array.reshape((*batch, *shape)), value.names, value.inputs, value.output.with_shape(shape))


def _signed(op: Op, slope: Array | None) -> Array:
    assert slope is not None
    sign = -1.0 if op is ops.subtract else 1.0
    return Array._of(slope.array * sign, slope.names, slope.inputs, slope.output)


def _combined(op: Op, first: Array | None, second: Array) -> Array:
    assert first is not None
    output = Real.with_shape(np.broadcast_shapes(first.output.shape, second.output.shape))
    return compute(op, [first, second], output)
