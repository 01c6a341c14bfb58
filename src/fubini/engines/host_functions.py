"""What JAX's primitives compute, on NumPy: entry by entry, along axes, products and factors of matrices.

A function is called as f(*arrays, **params), with the parameters of the primitive; several results are a tuple.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import linalg, special

Function = Callable[..., Any]


def _entrywise(function: Function) -> Function:
    """A function of arrays alone, that has no use for what else a primitive says."""
    return lambda *arrays, **_: function(*arrays)


def _over_axes(function: Function) -> Function:
    return lambda x, *, axes, **_: function(x, axis=tuple(axes))


def _extreme_place(function: Function) -> Function:
    return lambda x, *, axes, index_dtype, **_: function(x, axis=axes[0]).astype(index_dtype)


def _running(function: Function) -> Function:
    def run(x: np.ndarray, *, axis: int, reverse: bool, **_: Any) -> np.ndarray:
        return np.flip(function(np.flip(x, axis), axis), axis) if reverse else function(x, axis)

    return run


def _log_cumulative(x: np.ndarray, axis: int) -> np.ndarray:
    return np.logaddexp.accumulate(x, axis)


def _quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a / b, of whole numbers towards zero, and −1 where b is 0"""
    if not np.issubdtype(a.dtype, np.integer):
        return np.divide(a, b)
    nonzero = np.where(b == 0, 1, b)
    return np.where(b == 0, np.array(-1).astype(a.dtype), (a - np.fmod(a, nonzero)) // nonzero).astype(a.dtype)


def _remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The sign is that of a; of whole numbers a where b is 0"""
    if not np.issubdtype(a.dtype, np.integer):
        return np.fmod(a, b)
    return np.where(b == 0, a, np.fmod(a, np.where(b == 0, 1, b)))


def _converted(x: np.ndarray, *, new_dtype: Any, **_: Any) -> np.ndarray:
    """Numbers of another type; whole ones that it cannot hold are the nearest that it can, as in XLA."""
    x, target = np.asarray(x), np.dtype(new_dtype)
    if not (np.issubdtype(x.dtype, np.floating) and np.issubdtype(target, np.integer)):
        return x.astype(target)
    ends, inside = np.iinfo(target), np.nan_to_num(np.trunc(x), nan=0.0, posinf=np.inf, neginf=-np.inf)
    below, above = inside <= float(ends.min), inside >= float(ends.max)
    middle = np.where(below | above, 0, inside).astype(target)
    return np.where(below, target.type(ends.min), np.where(above, target.type(ends.max), middle))


def _bits(x: np.ndarray, *, new_dtype: Any, **_: Any) -> np.ndarray:
    x, target = np.ascontiguousarray(x), np.dtype(new_dtype)
    if x.dtype.itemsize == target.itemsize:
        return x.reshape(-1).view(target).reshape(x.shape)
    if x.dtype.itemsize > target.itemsize:
        return x.reshape(-1).view(target).reshape(*x.shape, x.dtype.itemsize // target.itemsize)
    return x.reshape(-1).view(target).reshape(x.shape[:-1])


def _in_total_order(function: Function) -> Function:
    """A comparison in which −0 is below 0, and what is no number is beyond all others."""

    def compare(a: np.ndarray, b: np.ndarray, **_: Any) -> np.ndarray:
        if not np.issubdtype(a.dtype, np.floating):
            return function(a, b)
        kind = np.dtype(f"i{a.dtype.itemsize}")
        first, second = (_bits(x, new_dtype=kind) for x in (a, b))
        return function(*(bits ^ ((bits >> (8 * kind.itemsize - 1)) & np.iinfo(kind).max) for bits in (first, second)))

    return compare


def _shifted(function: Function, is_signed: bool) -> Function:
    """A shift of bits; 0, or the sign, where it is by as many as there are."""

    def shift(x: np.ndarray, by: np.ndarray, **_: Any) -> np.ndarray:
        size = 8 * x.dtype.itemsize
        kind = x.dtype.type if is_signed else np.dtype(f"u{x.dtype.itemsize}").type
        own, count = x.astype(kind), by.astype(kind)
        inside = function(own, np.minimum(count, kind(size - 1)))
        if not is_signed:
            inside = np.where(count >= size, kind(0), inside)
        return inside.astype(x.dtype)

    return shift


def _chosen(which: np.ndarray, *cases: np.ndarray, **_: Any) -> np.ndarray:
    if which.shape != cases[0].shape:
        which = which.reshape(which.shape + (1,) * (cases[0].ndim - which.ndim))
    if len(cases) == 2:
        return np.where(which.astype(bool), cases[1], cases[0])
    return np.take_along_axis(np.stack(cases), np.broadcast_to(which, cases[0].shape)[None].astype(int), 0)[0]


def _contracted(a: np.ndarray, b: np.ndarray, *, dimension_numbers: Any, **_: Any) -> np.ndarray:
    """Σ over pairs of axes, for each place of others, by one matrix product"""
    (of_a, of_b), (batch_a, batch_b) = dimension_numbers
    free_a = [axis for axis in range(a.ndim) if axis not in (*of_a, *batch_a)]
    free_b = [axis for axis in range(b.ndim) if axis not in (*of_b, *batch_b)]
    batch, rows = [a.shape[i] for i in batch_a], [a.shape[i] for i in free_a]
    columns, inner = [b.shape[i] for i in free_b], math.prod(a.shape[i] for i in of_a)
    left = a.transpose((*batch_a, *free_a, *of_a)).reshape((*batch, math.prod(rows), inner))
    right = b.transpose((*batch_b, *of_b, *free_b)).reshape((*batch, inner, math.prod(columns)))
    return np.matmul(left, right).reshape((*batch, *rows, *columns))


def _spread(x: np.ndarray, *, shape: Any, broadcast_dimensions: Any, **_: Any) -> np.ndarray:
    own = [1] * len(shape)
    for axis, place in enumerate(broadcast_dimensions):
        own[place] = x.shape[axis]
    return np.broadcast_to(x.reshape(own), shape)


def _counted(*, dtype: Any, shape: Any, dimension: int, **_: Any) -> np.ndarray:
    own = [1] * len(shape)
    own[dimension] = shape[dimension]
    return np.broadcast_to(np.arange(shape[dimension], dtype=dtype).reshape(own), shape)


def _cut(x: np.ndarray, *, start_indices: Any, limit_indices: Any, strides: Any, **_: Any) -> np.ndarray:
    steps = strides or [1] * x.ndim
    return x[tuple(map(slice, start_indices, limit_indices, steps))]


def _parts(x: np.ndarray, *, sizes: Sequence[int], axis: int, **_: Any) -> tuple[np.ndarray, ...]:
    return tuple(np.split(x, np.cumsum(sizes)[:-1], axis))


def _padded(x: np.ndarray, value: np.ndarray, *, padding_config: Any, **_: Any) -> np.ndarray:
    """Numbers between and around the entries; fewer where there are less than none"""
    sides = list(zip(x.shape, padding_config, strict=True))
    shape = [max(0, low + high + n + max(0, n - 1) * between) for n, (low, high, between) in sides]
    result = np.full(shape, value, x.dtype)
    places = [low + np.arange(n) * (between + 1) for n, (low, _, between) in sides]
    inside = [(place >= 0) & (place < size) for place, size in zip(places, shape, strict=True)]
    result[np.ix_(*(place[ok] for place, ok in zip(places, inside, strict=True)))] = x[np.ix_(*inside)]
    return result


def _sorted(*arrays: np.ndarray, dimension: int, num_keys: int, **_: Any) -> tuple[np.ndarray, ...]:
    """Sorted along an axis by the first arrays, equal ones in their order"""
    moved = [np.moveaxis(array, dimension, -1) for array in arrays]
    order = np.lexsort(moved[:num_keys][::-1], axis=-1)
    return tuple(np.moveaxis(np.take_along_axis(array, order, -1), -1, dimension) for array in moved)


def _factor(x: np.ndarray, **_: Any) -> np.ndarray:
    """The lower Cholesky factor; not numbers where a matrix has none"""
    try:
        return np.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        flat = x.reshape(-1, *x.shape[-2:])
        return np.stack([_factor_of_one(matrix) for matrix in flat]).reshape(x.shape)


def _factor_of_one(matrix: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return np.full_like(matrix, np.nan)


def _solved(
    a: np.ndarray,
    b: np.ndarray,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    unit_diagonal: bool,
    **_: Any,
) -> np.ndarray:
    """a⁻¹ b for triangular a, by substitution, all matrices at once; infinite or no numbers where a is singular"""
    a, b = (a if left_side else np.swapaxes(a, -1, -2)), (b if left_side else np.swapaxes(b, -1, -2))
    if transpose_a:
        a, lower = np.swapaxes(a, -1, -2), not lower
    if not left_side:
        lower = not lower
    if a.ndim == 2 and a.size and a.diagonal().all():
        x = linalg.solve_triangular(a, b, lower=lower, unit_diagonal=unit_diagonal, check_finite=False)
        return x if left_side else np.swapaxes(x, -1, -2)
    x = np.array(b)
    size = a.shape[-1]
    for place in range(size) if lower else reversed(range(size)):
        known = slice(0, place) if lower else slice(place + 1, size)
        x[..., place, :] -= (a[..., place, None, known] @ x[..., known, :])[..., 0, :]
        if not unit_diagonal:
            x[..., place, :] /= a[..., place, place, None]
    return x if left_side else np.swapaxes(x, -1, -2)


def _rounded_away(x: np.ndarray) -> np.ndarray:
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


def _polygamma(order: np.ndarray, x: np.ndarray) -> np.ndarray:
    return special.polygamma(order.astype(int), x)


FUNCTIONS: dict[str, Function] = {
    **{
        name: _entrywise(getattr(np, known))
        for name, known in {
            **{name: name for name in ("sign", "floor", "ceil", "exp", "exp2", "log", "expm1", "log1p", "tanh", "sin")},
            **{name: name for name in ("cos", "tan", "sinh", "cosh", "sqrt", "cbrt", "square", "add", "nextafter")},
            **{"neg": "negative", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh"},
            **{"acosh": "arccosh", "atanh": "arctanh", "atan2": "arctan2", "abs": "abs", "is_finite": "isfinite"},
            **{"sub": "subtract", "mul": "multiply", "max": "maximum", "min": "minimum", "pow": "power"},
            **{"eq": "equal", "ne": "not_equal", "ge": "greater_equal", "gt": "greater", "le": "less_equal"},
            **{"lt": "less", "not": "invert", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"},
        }.items()
    },
    **{
        name: _entrywise(getattr(special, known))
        for name, known in {
            **{"logistic": "expit", "lgamma": "gammaln", "digamma": "psi", "erf": "erf", "erfc": "erfc"},
            **{"erf_inv": "erfinv", "igamma": "gammainc", "igammac": "gammaincc", "zeta": "zeta"},
            **{"regularized_incomplete_beta": "betainc", "bessel_i0e": "i0e", "bessel_i1e": "i1e"},
        }.items()
    },
    "polygamma": _entrywise(_polygamma),
    "rsqrt": _entrywise(lambda x: 1.0 / np.sqrt(x)),
    "div": _entrywise(_quotient),
    "rem": _entrywise(_remainder),
    "integer_pow": lambda x, *, y, **_: x**y if y >= 0 else 1.0 / x**-y,
    "one_minus_square": _entrywise(lambda x: (1 - x) * (1 + x)),
    "add_any": _entrywise(np.add),
    "eq_to": _in_total_order(np.equal),
    "le_to": _in_total_order(np.less_equal),
    "lt_to": _in_total_order(np.less),
    "round": lambda x, *, rounding_method, **_: np.rint(x) if int(rounding_method) else _rounded_away(x),
    "clamp": _entrywise(lambda low, x, high: np.minimum(np.maximum(x, low), high)),
    "shift_left": _shifted(np.left_shift, is_signed=False),
    "shift_right_logical": _shifted(np.right_shift, is_signed=False),
    "shift_right_arithmetic": _shifted(np.right_shift, is_signed=True),
    "convert_element_type": _converted,
    "bitcast_convert_type": _bits,
    "select_n": _chosen,
    "stop_gradient": _entrywise(lambda x: x),
    "copy": _entrywise(lambda x: x),
    "copy_p": _entrywise(lambda x: x),
    "optimization_barrier": lambda *arrays, **_: arrays,
    "reduce_sum": _over_axes(np.sum),
    "reduce_prod": _over_axes(np.prod),
    "reduce_max": _over_axes(np.max),
    "reduce_min": _over_axes(np.min),
    "reduce_and": _over_axes(np.bitwise_and.reduce),
    "reduce_or": _over_axes(np.bitwise_or.reduce),
    "argmax": _extreme_place(np.argmax),
    "argmin": _extreme_place(np.argmin),
    "cumsum": _running(np.cumsum),
    "cumprod": _running(np.cumprod),
    "cummax": _running(np.maximum.accumulate),
    "cummin": _running(np.minimum.accumulate),
    "cumlogsumexp": _running(_log_cumulative),
    "dot_general": _contracted,
    "broadcast_in_dim": _spread,
    "reshape": lambda x, *, new_sizes, **_: x.reshape(new_sizes),
    "squeeze": lambda x, *, dimensions, **_: np.squeeze(x, tuple(dimensions)),
    "transpose": lambda x, *, permutation, **_: x.transpose(permutation),
    "rev": lambda x, *, dimensions, **_: np.flip(x, tuple(dimensions)),
    "concatenate": lambda *arrays, dimension, **_: np.concatenate(arrays, dimension),
    "split": _parts,
    "stack": lambda *arrays, axis, **_: np.stack(arrays, axis),
    "unstack": lambda x, *, axis, **_: tuple(np.moveaxis(x, axis, 0)),
    "iota": _counted,
    "slice": _cut,
    "pad": _padded,
    "sort": _sorted,
    "cholesky": _factor,
    "triangular_solve": _solved,
}
