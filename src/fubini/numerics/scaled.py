"""Arithmetic of scaled weights: pairs (w, s) that mean w · exp(s), elementwise, in either engine.

The shift s is a scalar where the weights' range fits the dtype, an array where it does not, so that nothing underflows
however widely log-weights differ. Whenever a shift is chosen from data it is held constant and w absorbs the rest;
derivatives pass through w and stay finite where a weight is zero.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base import lax_loops
from fubini.base.arrays import Data, namespace, stop_gradient
from fubini.base.semirings import Semiring, sum_product

# Logarithms of weights that may be multiplied once more without leaving the normal range of the dtype.
SAFE_LOG = {"float64": 345.0, "float32": 40.0, "float16": 4.0, "bfloat16": 40.0}


LIMIT = 2 * SAFE_LOG["float64"]

# The logarithm of the greatest number of the dtype: the exponent of the derivative at a zero weight stops there.
LOG_GREATEST = {"float64": 709.0, "float32": 88.0, "float16": 11.0, "bfloat16": 88.0}


class Scaled(NamedTuple):
    """w · exp(s), with bounds on |log w| over the positive weights where they are known (NumPy, scalar s)."""

    weights: Data
    shift: Data
    low: float = math.nan
    high: float = math.nan

    @property
    def is_linear(self) -> bool:
        """The shift is one number."""
        return type(self.shift) is float or np.ndim(self.shift) == 0


def positive_log(weights: Data) -> Data:
    """log w, and −inf at zero, without a warning."""
    xp = namespace(weights)
    zero = weights == 0
    return xp.where(zero, -xp.inf, xp.log(xp.where(zero, 1.0, weights)))


def gauged(pair: Scaled) -> Scaled:
    """The same numbers with weights 0 or 1 (in value; derivatives are kept) and everything else in the shift."""
    weights, shift, *_ = pair
    xp = namespace(weights, shift)
    constant = stop_gradient(weights)
    positive = constant > 0
    scale = xp.where(positive, constant, 1.0)
    return Scaled(weights / scale, xp.broadcast_to(shift, weights.shape) + xp.log(scale))


def bounded(pair: Scaled) -> Scaled:
    """A linear pair of NumPy arrays with bounds read off its weights, rescaled where the greatest is far from 1."""
    weights, shift, *_ = pair
    if not weights.size:
        return Scaled(weights, shift, 0.0, 0.0)
    low, high = weights.min(), weights.max()
    if not high > 0:
        return Scaled(weights, shift, 0.0, 0.0)
    if low <= 0:
        low = np.min(weights, where=weights > 0, initial=high)
    below, above = math.log(low), math.log(high)
    if 1e-3 < high < 1e3 or not above - below < LIMIT:
        return Scaled(weights, shift, below, above)
    return Scaled(weights / high, shift + above, below - above, 0.0)


def linear(pair: Scaled) -> Scaled | None:
    """The pair with a scalar shift, with bounds; None where the range of a NumPy array is too wide for that."""
    weights, shift, *_ = pair
    if pair.is_linear:
        return pair if pair.low == pair.low else bounded(pair)
    logarithm = positive_log(weights) + shift
    top = logarithm.max(initial=-np.inf)
    if top == -np.inf:
        return Scaled(weights, 0.0, 0.0, 0.0)
    low = np.min(logarithm, where=logarithm > -np.inf, initial=top) - top
    if not low > -LIMIT:
        return None
    with np.errstate(under="ignore"):
        return Scaled(weights * np.exp(np.where(weights > 0, shift - top, 0.0)), float(top), float(low), 0.0)


def fits(low: float, high: float) -> bool:
    """Double precision holds every positive number between exp(low) and exp(high)."""
    return low > -LIMIT and high < LIMIT


def fitting(a: Scaled, b: Scaled, sign: int = 1) -> tuple[Scaled | None, Scaled | None]:
    """NumPy: both with scalar shifts such that any product (sign −1: quotient) of weights fits; else None.

    Bounds grow loose from one contraction to the next; they are read off the weights anew where they no longer do.
    """
    x, y = linear(a), linear(b)
    for read_anew in (False, True):
        if x is None or y is None:
            break
        if read_anew:
            x, y = bounded(x), bounded(y)
        ends = (y.low, y.high) if sign > 0 else (-y.high, -y.low)
        if fits(x.low + ends[0], x.high + ends[1]):
            return x, y
    return None, None


def read_log(pair: Scaled) -> Data:
    """log w + s."""
    return positive_log(pair.weights) + pair.shift


def read_linear(pair: Scaled) -> Data:
    """w · exp(s): 0 or infinite where the dtype holds no such number; a zero has a finite derivative."""
    weights, shift, *_ = pair
    xp = namespace(weights, shift)
    if xp is np and pair.is_linear and shift == 0:
        return weights
    limit = 0.9 * LOG_GREATEST[np.dtype(xp.result_type(weights, shift)).name]
    with np.errstate(over="ignore", under="ignore"):
        shift = xp.where(weights == 0, xp.minimum(shift, limit), shift)
        near = xp.clip(shift, -limit, limit)
        far = xp.exp((shift - near) / 2)  # one exponential alone may leave the range where the product does not
        return weights * xp.exp(near) * far * far


def reduced(semiring: Semiring, pair: Scaled, axes: tuple[int, ...]) -> Scaled:
    """⊕ along axes."""
    if not axes:
        return pair
    weights, shift, *_ = pair
    xp = namespace(weights, shift)
    if not semiring.homogeneous:
        return Scaled(semiring.add(xp, weights, axes), 0.0)
    if xp is np:
        flat = linear(pair)
        terms = math.log(max(1, math.prod(weights.shape[axis] for axis in axes)))
        if flat is not None and fits(flat.low, flat.high + terms):
            return Scaled(semiring.add(np, flat.weights, axes), flat.shift, flat.low, flat.high + terms)
    return _reduced_in_log_space(semiring, pair, axes)


def _reduced_in_log_space(semiring: Semiring, pair: Scaled, axes: tuple[int, ...]) -> Scaled:
    """⊕ (w·exp(s)) = exp(c) ⊕ (w·exp(s − c)), c the greatest exponent of each output."""
    weights, shift, *_ = gauged(pair)
    xp = namespace(weights, shift)
    top = xp.max(xp.where(stop_gradient(weights) > 0, stop_gradient(shift), -xp.inf), axis=axes, keepdims=True)
    top = xp.where(xp.isfinite(top), top, 0.0)
    # A zero weight adds nothing, but its derivative is exp(s − c): keep that finite.
    exponent = xp.minimum(shift - top, LOG_GREATEST[np.dtype(weights.dtype).name])
    total = semiring.add(xp, weights * xp.exp(exponent), axes)
    return Scaled(total, xp.squeeze(top, axes))


def multiplied(a: Scaled, b: Scaled) -> Scaled:
    """Pointwise product of arrays that broadcast."""
    xp = namespace(*a[:2], *b[:2])
    if xp is np:
        x, y = fitting(a, b)
        if x is not None and y is not None:
            return Scaled(x.weights * y.weights, x.shift + y.shift, x.low + y.low, x.high + y.high)
    x, y = gauged(a), gauged(b)
    return Scaled(x.weights * y.weights, x.shift + y.shift)


def divided(a: Scaled, b: Scaled) -> Scaled:
    """Pointwise quotient of arrays that broadcast; 0/0 = 0, and x/0 is for the caller to refuse."""
    xp = namespace(*a[:2], *b[:2])
    if xp is np:
        x, y = fitting(a, b, -1)
        if x is not None and y is not None:
            zero = y.weights == 0
            ratio = x.weights / np.where(zero, 1.0, y.weights)
            return Scaled(np.where(zero, 0.0, ratio), x.shift - y.shift, x.low - y.high, x.high - y.low)
    x, y = gauged(a), gauged(b)
    zero = y.weights == 0
    ratio = x.weights / xp.where(zero, 1.0, y.weights)
    return Scaled(xp.where(zero, 0.0, ratio), x.shift - xp.where(zero, 0.0, y.shift))


def added(a: Scaled, b: Scaled) -> Scaled:
    """Pointwise sum of arrays that broadcast."""
    xp = namespace(*a[:2], *b[:2])
    if xp is np:
        x, y = linear(a), linear(b)
        if x is not None and y is not None:
            top = max(x.shift, y.shift)
            low = min(x.low + x.shift, y.low + y.shift) - top
            if fits(low, 0.0):
                return Scaled(x.weights * math.exp(x.shift - top) + y.weights * math.exp(y.shift - top), top)
    shape = np.broadcast_shapes(a.weights.shape, b.weights.shape)
    parts = [Scaled(xp.broadcast_to(p.weights, shape), xp.broadcast_to(p.shift, shape)) for p in map(gauged, (a, b))]
    both = Scaled(xp.stack([p.weights for p in parts]), xp.stack([p.shift for p in parts]))
    return _reduced_in_log_space(sum_product, both, (0,))


def raised(pair: Scaled, exponent: Data) -> Scaled:
    """Pointwise power."""
    xp = namespace(*pair[:2], exponent)
    if xp is np and np.ndim(exponent) == 0:
        flat = linear(pair)
        if flat is not None:
            edges = sorted((flat.low * float(exponent), flat.high * float(exponent)))
            if fits(*edges):
                return Scaled(flat.weights**exponent, flat.shift * float(exponent), *edges)
    flat = gauged(pair)
    powers = flat.weights**exponent
    return Scaled(xp.where(xp.isnan(flat.weights), flat.weights, powers), flat.shift * exponent)


def multiplied_out(semiring: Semiring, pair: Scaled, axis: int) -> Scaled:
    """⊗ along an axis: a plate."""
    weights, shift, *_ = pair
    xp = namespace(weights, shift)
    if not semiring.homogeneous:
        return Scaled(semiring.product(xp, weights, axis), 0.0)
    size = weights.shape[axis]
    if xp is np:
        flat = linear(pair)
        if flat is not None and fits(size * flat.low, size * flat.high):
            return Scaled(np.prod(flat.weights, axis), flat.shift * size, size * flat.low, size * flat.high)
    flat = gauged(pair)
    return Scaled(xp.prod(flat.weights, axis), xp.sum(flat.shift, axis))


def safe_linear(weights: Data, shift: Data, axes: tuple[int, ...]) -> tuple[Data, Data, Data]:
    """JAX: weights with greatest 1 along the axes, their shift, and how far below that the least positive weight is.

    What underflows becomes 0.
    """
    logarithm = jax.lax.stop_gradient(positive_log(weights) + shift)
    top = jnp.max(logarithm, axis=axes, keepdims=True, initial=-jnp.inf)
    top = jnp.where(jnp.isfinite(top), top, 0.0)
    least = jnp.min(jnp.where(logarithm > -jnp.inf, logarithm - top, 0.0), initial=0.0)
    # Half the exponent at a time: one exp alone may leave the range. A zero stays zero, with a finite derivative.
    exponent = jnp.where(weights == 0, jnp.minimum(shift - top, LOG_GREATEST[weights.dtype.name]), shift - top)
    half = jnp.exp(exponent / 2)
    return weights * half * half, jnp.squeeze(top, axes), least


def greatest_of(weights: Data, axes: tuple[int, ...]) -> Data:
    """JAX: the greatest weight along the axes, which are kept; 1 where all are zero, or one is not a number."""
    top = jnp.max(jax.lax.stop_gradient(weights), axis=axes, keepdims=True)
    return jnp.where(top > 0, top, 1.0)


def least_of(weights: Data, axes: tuple[int, ...]) -> Data:
    """JAX: the least positive weight along the axes, at most 1.

    Inside a loop the axes are those of states alone: between sequences on several devices it would communicate.
    """
    constant = jax.lax.stop_gradient(weights)
    return jnp.min(jnp.where(constant > 0, constant, 1.0), axis=axes)


def exclusive(semiring: Semiring, pair: Scaled, axes: tuple[int, ...]) -> Scaled:
    """⊗ of all cells along the axes but one's own: products of what comes before and of what comes after."""
    weights, shift, *_ = gauged(pair) if semiring.homogeneous else pair
    xp = namespace(weights, shift)
    front = tuple(range(len(axes)))
    flat = xp.moveaxis(weights, axes, front)
    rest = flat.shape[len(axes) :]
    cells = flat.reshape(-1, *rest)
    before, after = products_before(semiring, cells), products_before(semiring, cells, reverse=True)
    others = xp.moveaxis(semiring.multiply(xp, before, after).reshape(flat.shape), front, axes)
    if not semiring.homogeneous:
        return Scaled(others, 0.0)
    return Scaled(others, xp.sum(shift, axis=axes, keepdims=True) - shift)


def levelled(pair: Scaled, plates: tuple[int, ...], others: tuple[int, ...]) -> Scaled:
    """In each cell of the plates over w(x̂), x̂ the place along the other axes where the product over plates is greatest.

    The scale is held constant.
    """
    weights, shift, *_ = gauged(pair)
    xp = namespace(weights, shift)
    logs = stop_gradient(xp.where(weights > 0, shift, -xp.inf))
    total = xp.sum(logs, axis=plates, keepdims=True)
    best = total == xp.max(total, axis=others, keepdims=True)
    at_best = xp.max(xp.where(best, logs, -xp.inf), axis=others, keepdims=True)
    return Scaled(weights, shift - xp.where(xp.isfinite(at_best), at_best, 0.0))


def normalized(pair: Scaled, axes: tuple[int, ...]) -> tuple[Scaled, Data]:
    """JAX: w / Σ w along the axes, and that sum up to a positive scale; weights themselves but for those close to 0."""
    weights, shift, *_ = gauged(pair)
    logs = jax.lax.stop_gradient(jnp.where(weights > 0, shift, -jnp.inf))
    top = jnp.max(logs, axis=axes, keepdims=True, initial=-jnp.inf)
    shift = shift - jnp.where(jnp.isfinite(top), top, 0.0)
    zero = weights == 0
    near = zero | (jax.lax.stop_gradient(shift) > -SAFE_LOG[weights.dtype.name])
    linear = weights * jnp.exp(jnp.where(zero, jnp.minimum(shift, LOG_GREATEST[weights.dtype.name]), shift))
    total = jnp.sum(linear, axis=axes, keepdims=True)
    scale = jnp.where(total == 0, 1.0, total)
    return Scaled(jnp.where(near, linear, weights) / scale, jnp.where(near, 0.0, shift)), total


def products_before(semiring: Semiring, cells: Data, reverse: bool = False) -> Data:
    """⊗ of the cells before each one (reverse: after it) along the first axis; on JAX one scan of any length."""
    xp = namespace(cells)
    one = xp.full(cells.shape[1:], semiring.one, cells.dtype)

    def step(so_far: Data, cell: Data) -> tuple[Data, Data]:
        both = (cell, so_far) if reverse else (so_far, cell)
        return semiring.multiply(xp, *both), so_far

    if xp is jnp:
        return lax_loops.scan(step, one, cells, reverse=reverse)[1]
    products = [one]
    for cell in cells[:0:-1] if reverse else cells[:-1]:
        products.append(step(products[-1], cell)[0])
    return np.stack(products[::-1] if reverse else products)
