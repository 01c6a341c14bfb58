"""Contraction of two scaled tables: ⊕ over the names not kept of a · b.

Sums of products are matrix products of linear weights. Their result is exact where no single product can leave the
dtype's range, which the bounds of the operands tell; where one can, the contraction is done again in log space.
"""

from __future__ import annotations

import math
import operator
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import lru_cache, reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base import lax_loops
from fubini.base.arrays import Data, namespace
from fubini.base.names import Name
from fubini.base.semirings import Pair, Semiring
from fubini.numerics.arithmetic import recomputed
from fubini.numerics.in_range import if_in_range
from fubini.numerics.named_axes import align
from fubini.numerics.scaled import LOG_GREATEST, SAFE_LOG, Scaled, fitting, gauged, reduced, safe_linear


class ContractionLayout(NamedTuple):
    """The roles of the names of two arrays in a contraction: batch, rows, inner, columns."""

    drop_a: tuple[int, ...]  # axes only a has, and not kept
    drop_b: tuple[int, ...]
    batch: tuple[Name, ...]
    rows: tuple[Name, ...]
    inner: tuple[Name, ...]
    columns: tuple[Name, ...]
    left: tuple[Name, ...]  # names of a once its own are dropped
    right: tuple[Name, ...]


@lru_cache(maxsize=65536)
def layout(a: tuple[Name, ...], b: tuple[Name, ...], keep: frozenset[Name]) -> ContractionLayout:
    """The roles of the names."""
    in_a, in_b = set(a), set(b)
    left = tuple(name for name in a if name in keep or name in in_b)
    right = tuple(name for name in b if name in keep or name in in_a)
    return ContractionLayout(
        tuple(axis for axis, name in enumerate(a) if name not in keep and name not in in_b),
        tuple(axis for axis, name in enumerate(b) if name not in keep and name not in in_a),
        tuple(name for name in left if name in in_b and name in keep),
        tuple(name for name in left if name not in in_b),
        tuple(name for name in left if name in in_b and name not in keep),
        tuple(name for name in right if name not in in_a),
        left,
        right,
    )


Moves = tuple[tuple[int, ...], tuple[int, ...] | None, tuple[int, ...]]


class CompiledContraction(NamedTuple):
    """A contraction of two linear NumPy arrays, laid out once for all arrays of these shapes and matching axes."""

    left: Moves  # axes to drop, their order after that, the shape to multiply in
    right: Moves
    combine: Callable[[Semiring, np.ndarray, np.ndarray], np.ndarray]
    axes: tuple[int, ...]  # where each axis of the result comes from: axis k of a, or axis ~k of b
    shape: tuple[int, ...]
    log_terms: float  # of how many products each entry is the sum

    def compute(self, semiring: Semiring, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """The contraction."""
        product = self.combine(semiring, _prepared(semiring, a, *self.left), _prepared(semiring, b, *self.right))
        return product.reshape(self.shape)


@lru_cache(maxsize=65536)
def numpy_kernel(
    semiring: Semiring,
    a_shape: tuple[int, ...],
    b_shape: tuple[int, ...],
    matching: tuple[int, ...],
    keep_a: tuple[bool, ...],
    keep_b: tuple[bool, ...],
) -> CompiledContraction:
    """The kernel for arrays of these shapes; `matching` gives for each axis of b the axis of a with its name, or −1."""
    batch, inner = ([axis for axis in matching if axis >= 0 and bool(keep_a[axis]) == kept] for kept in (True, False))
    batch_b, inner_b = ([matching.index(axis) for axis in role] for role in (batch, inner))
    own = [axis for axis in range(len(a_shape)) if axis not in matching]
    rows, drop_a = ([axis for axis in own if keep_a[axis] == kept] for kept in (True, False))
    own_b = [axis for axis, other in enumerate(matching) if other < 0]
    columns, drop_b = ([axis for axis in own_b if keep_b[axis] == kept] for kept in (True, False))
    n_batch, n_rows, n_inner = (math.prod(a_shape[axis] for axis in role) for role in (batch, rows, inner))
    n_columns = math.prod(b_shape[axis] for axis in columns)
    n_terms = n_inner * math.prod(a_shape[axis] for axis in drop_a) * math.prod(b_shape[axis] for axis in drop_b)
    axes = [*batch, *rows, *(~axis for axis in columns)]
    if not inner:
        left = (batch + rows, (n_batch, n_rows, 1))
        right = (batch_b + columns, (n_batch, 1, n_columns))
        combine: Callable[[Semiring, np.ndarray, np.ndarray], np.ndarray] = _multiply
    elif semiring.ufunc is not np.add or _terms_are_faster(n_batch, n_rows, n_inner, n_columns):
        left = (inner + rows + batch, (n_inner, n_rows, 1, n_batch))
        right = (inner_b + columns + batch_b, (n_inner, 1, n_columns, n_batch))
        axes = axes[len(batch) :] + axes[: len(batch)]
        combine = _term_by_term
    else:
        lead = (n_batch,) if n_batch > 1 else ()
        left = (batch + rows + inner, (*lead, n_rows, n_inner))
        right = (batch_b + inner_b + columns, (*lead, n_inner, n_columns))
        combine = _matrix_product
    shape = tuple(a_shape[axis] if axis >= 0 else b_shape[~axis] for axis in axes)
    return CompiledContraction(
        _moves(drop_a, *left), _moves(drop_b, *right), combine, tuple(axes), shape, math.log(n_terms)
    )


def _terms_are_faster(n_batch: int, n_rows: int, n_inner: int, n_columns: int) -> bool:
    """Whether to sum a batch of small matrix products term by term, the batch innermost, or to leave it to BLAS.

    Microseconds as measured: BLAS pays for each matrix of the batch, less for vectors; a sum of terms for each term.
    """
    work = n_batch * n_rows * n_inner * n_columns
    one_by_one = 2.0 + n_batch * (0.035 if min(n_rows, n_columns) == 1 else 0.15) + 0.0003 * work
    return 3.3 * n_inner + 0.0025 * work < one_by_one


def _moves(drop: list[int], order: list[int], shape: tuple[int, ...]) -> Moves:
    """Count axes after some are dropped; return no order where they are in order already."""
    if drop:
        order = [axis - sum(1 for gone in drop if gone < axis) for axis in order]
    in_order = all(axis == position for position, axis in enumerate(order))
    return tuple(drop), None if in_order else tuple(order), shape


def _prepared(
    semiring: Semiring, array: np.ndarray, drop: tuple[int, ...], order: tuple[int, ...] | None, shape: tuple[int, ...]
) -> np.ndarray:
    if drop:
        array = semiring.add(np, array, drop)
    if order is not None:
        array = array.transpose(order)
    return array.reshape(shape)


def _multiply(semiring: Semiring, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x * y


def _matrix_product(semiring: Semiring, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x @ y


def _term_by_term(semiring: Semiring, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    total = x[0] * y[0]
    for term in range(1, len(x)):
        total = _combined(semiring, total, x[term] * y[term])
    return total


def _combined(semiring: Semiring, total: np.ndarray, more: np.ndarray) -> np.ndarray:
    """total ⊕ more, in place where NumPy can."""
    if semiring.ufunc is None:
        return semiring.add(np, np.stack([total, more]), (0,))
    return semiring.ufunc(total, more, out=total)


def contract(
    semiring: Semiring,
    a: Scaled,
    a_names: tuple[Name, ...],
    b: Scaled,
    b_names: tuple[Name, ...],
    keep: frozenset[Name],
) -> tuple[Scaled, tuple[Name, ...]]:
    """⊕ a·b over every name not in `keep`; the names of the result come in an order of our choice."""
    if semiring.homogeneous and namespace(*a[:2], *b[:2]) is np:
        contracted = _in_linear_space(semiring, a, a_names, b, b_names, keep)
        if contracted is not None:
            return contracted
    roles = layout(a_names, b_names, keep)
    a, b = reduced(semiring, a, roles.drop_a), reduced(semiring, b, roles.drop_b)
    if not semiring.homogeneous:
        return _in_carrier(semiring, a, b, roles)
    if namespace(*a[:2], *b[:2]) is np:
        return _in_log_space(semiring, a, b, roles)
    return _by_jax(semiring, a, b, roles)


def _in_linear_space(
    semiring: Semiring,
    a: Scaled,
    a_names: tuple[Name, ...],
    b: Scaled,
    b_names: tuple[Name, ...],
    keep: frozenset[Name],
) -> tuple[Scaled, tuple[Name, ...]] | None:
    """NumPy: a kernel on linear weights; None where a product of two weights may leave the range of doubles."""
    x, y = fitting(a, b)
    if x is None or y is None:
        return None
    place = {name: axis for axis, name in enumerate(a_names)}
    matching = tuple([place.get(name, -1) for name in b_names])
    keep_a, keep_b = tuple([name in keep for name in a_names]), tuple([name in keep for name in b_names])
    kernel = numpy_kernel(semiring, x.weights.shape, y.weights.shape, matching, keep_a, keep_b)
    weights = kernel.compute(semiring, x.weights, y.weights)
    names = tuple([a_names[axis] if axis >= 0 else b_names[~axis] for axis in kernel.axes])
    return Scaled(weights, x.shift + y.shift, x.low + y.low, x.high + y.high + kernel.log_terms), names


def _in_carrier(semiring: Semiring, a: Scaled, b: Scaled, roles: ContractionLayout) -> tuple[Scaled, tuple[Name, ...]]:
    names = roles.inner + roles.batch + roles.rows + roles.columns
    x, y = align(a.weights, roles.left, names), align(b.weights, roles.right, names)
    xp = namespace(x, y)
    joined = semiring.multiply(xp, x, y)
    if roles.inner:
        joined = semiring.add(xp, joined, tuple(range(len(roles.inner))))
    return Scaled(joined, 0.0), names[len(roles.inner) :]


def _in_log_space(
    semiring: Semiring, a: Scaled, b: Scaled, roles: ContractionLayout
) -> tuple[Scaled, tuple[Name, ...]]:
    """exp(c) ⊕ a·b·exp(s + t − c), where c is the greatest exponent of each entry; one inner term at a time."""
    names = roles.inner + roles.batch + roles.rows + roles.columns
    x, y = gauged(a), gauged(b)
    w, s = align(x.weights, roles.left, names), align(x.shift, roles.left, names)
    v, t = align(y.weights, roles.right, names), align(y.shift, roles.right, names)
    xp = namespace(w, v)
    depth = len(roles.inner)
    if xp is not np and depth:
        cells = math.prod(np.broadcast_shapes(w.shape, v.shape))
        run = _broadcast_in_log_space if cells <= FEW_CELLS else _scan_in_log_space
        return run(semiring, (w, s), (v, t), depth), names[depth:]
    if not depth:
        return Scaled(w * v, s + t), names
    return _loop_in_log_space(semiring, (w, s), (v, t), depth), names[depth:]


def _loop_in_log_space(semiring: Semiring, a: Pair, b: Pair, depth: int) -> Scaled:
    """NumPy: two passes over the inner index, so that memory stays that of the result."""
    flat = _flat_inner(a, b, depth, np)
    shape = np.broadcast_shapes(flat[0].shape[1:], flat[2].shape[1:])
    top = np.full(shape, -np.inf)
    for w, s, v, t in zip(*flat, strict=True):
        np.maximum(top, np.where((w > 0) & (v > 0), s + t, -np.inf), out=top)
    top[top == -np.inf] = 0.0
    total = np.zeros(shape)
    for w, s, v, t in zip(*flat, strict=True):
        more = np.where((w > 0) & (v > 0), np.exp(np.minimum(s + t - top, 0.0)), 0.0)
        total = _combined(semiring, total, more)
    return Scaled(total, top)


def _flat_inner(a: Pair, b: Pair, depth: int, xp: Any) -> list[Data]:
    """The arrays with their first `depth` axes, the inner ones, repeated where of extent 1 and made one."""
    inner = np.broadcast_shapes(a[0].shape, b[0].shape)[:depth]
    return [xp.broadcast_to(x, inner + x.shape[depth:]).reshape(-1, *x.shape[depth:]) for x in (*a, *b)]


# Up to this many products are made at once in log space.
FEW_CELLS = 2**16


def _broadcast_in_log_space(semiring: Semiring, a: Pair, b: Pair, depth: int) -> Scaled:
    """All products at once."""
    (w, s), (v, t) = a, b
    inner = tuple(range(depth))
    shift = jax.lax.stop_gradient(jnp.where((w > 0) & (v > 0), s + t, -jnp.inf))
    top = jnp.max(shift, axis=inner)
    top = jnp.where(jnp.isfinite(top), top, 0.0)
    limit = LOG_GREATEST[np.dtype(jnp.result_type(w, s, v, t)).name]
    return Scaled(semiring.add(jnp, w * v * jnp.exp(jnp.minimum(s + t - top, limit)), inner), top)


def _scan_in_log_space(semiring: Semiring, a: Pair, b: Pair, depth: int) -> Scaled:
    """The same as a scan over the inner index, so that memory stays that of the result."""
    outer = np.broadcast_shapes(a[0].shape, b[0].shape)[depth:]
    flat = _flat_inner(a, b, depth, jnp)

    def greatest(top: Data, term: tuple[Data, ...]) -> tuple[Data, None]:
        w, s, v, t = map(jax.lax.stop_gradient, term)
        return jnp.maximum(top, jnp.where((w > 0) & (v > 0), s + t, -jnp.inf)), None

    dtype = jnp.result_type(*flat)
    top, _ = lax_loops.scan(greatest, jnp.full(outer, -jnp.inf, dtype), tuple(flat))
    top = jax.lax.stop_gradient(jnp.where(jnp.isfinite(top), top, 0.0))
    limit = LOG_GREATEST[np.dtype(dtype).name]

    @recomputed
    def accumulate(total: Data, term: tuple[Data, ...]) -> tuple[Data, None]:
        w, s, v, t = term
        more = w * v * jnp.exp(jnp.minimum(s + t - top, limit))
        return semiring.add(jnp, jnp.stack([total, more]), (0,)), None

    total, _ = lax_loops.scan(accumulate, jnp.zeros(outer, dtype), tuple(flat))
    return Scaled(total, top)


def contract_plain(
    semiring: Semiring, x: Data, x_names: tuple[Name, ...], y: Data, y_names: tuple[Name, ...], keep: frozenset[Name]
) -> tuple[Data, tuple[Name, ...]]:
    """⊕ x·y of weights as they are, on JAX: for a caller who knows that no product leaves the range of the dtype."""
    roles = layout(x_names, y_names, keep)
    x = semiring.add(jnp, x, roles.drop_a) if roles.drop_a else x
    y = semiring.add(jnp, y, roles.drop_b) if roles.drop_b else y
    names = roles.batch + roles.rows + roles.columns
    if roles.inner:
        return _einsum(semiring, x, y, roles), names
    return align(x, roles.left, names) * align(y, roles.right, names), names


_asked = threading.local()


@contextmanager
def log_space_alone() -> Generator[None, None, None]:
    """Contractions traced inside go in log space at once: for a caller who knows that linear weights do not fit."""
    before = getattr(_asked, "log_space", False)
    _asked.log_space = True
    try:
        yield
    finally:
        _asked.log_space = before


def _by_jax(semiring: Semiring, a: Scaled, b: Scaled, roles: ContractionLayout) -> tuple[Scaled, tuple[Name, ...]]:
    names = roles.batch + roles.rows + roles.columns
    if not roles.inner:
        x, y = gauged(a), gauged(b)
        weights = align(x.weights, roles.left, names) * align(y.weights, roles.right, names)
        return Scaled(weights, align(x.shift, roles.left, names) + align(y.shift, roles.right, names)), names
    if getattr(_asked, "log_space", False):
        return _in_log_space(semiring, a, b, roles)
    dtype = jnp.result_type(a.weights, b.weights)
    inner_a, inner_b = ([part.index(name) for name in roles.inner] for part in (roles.left, roles.right))
    x, x_top, x_least = safe_linear(jnp.asarray(a.weights, dtype), jnp.asarray(a.shift, dtype), tuple(inner_a))
    y, y_top, y_least = safe_linear(jnp.asarray(b.weights, dtype), jnp.asarray(b.shift, dtype), tuple(inner_b))
    outer_a, outer_b = ([name for name in part if name not in roles.inner] for part in (roles.left, roles.right))

    def in_linear_space() -> tuple[Data, Data]:
        weights = _einsum(semiring, x, y, roles)
        shift = align(x_top, tuple(outer_a), names) + align(y_top, tuple(outer_b), names)
        return weights, jnp.broadcast_to(shift, weights.shape).astype(weights.dtype)

    def in_log_space() -> tuple[Data, Data]:
        (weights, shift, *_), _names = _in_log_space(semiring, Scaled(*a[:2]), Scaled(*b[:2]), roles)
        return jnp.asarray(weights, dtype), jnp.asarray(shift, dtype)

    safe = x_least + y_least > -2 * SAFE_LOG[np.dtype(dtype).name]
    return Scaled(*if_in_range(safe, in_linear_space, in_log_space)), names


# Products summed over this many terms at most are written out, which fuses; larger ones are matrix products.
FEW_TERMS = 8


def _einsum(semiring: Semiring, x: Data, y: Data, roles: ContractionLayout) -> Data:
    names = roles.batch + roles.rows + roles.columns
    terms = math.prod(x.shape[axis] for axis, name in enumerate(roles.left) if name in roles.inner)
    if semiring.ufunc is not np.add:
        full = roles.inner + names
        joined = align(x, roles.left, full) * align(y, roles.right, full)
        return semiring.add(jnp, joined, tuple(range(len(roles.inner))))
    if terms <= FEW_TERMS and roles.batch:
        return _written_out(x, y, roles, terms)
    number = {name: position for position, name in enumerate(names + roles.inner)}
    left, right, out = ([number[name] for name in part] for part in (roles.left, roles.right, names))
    return jnp.einsum(x, left, y, right, out, precision="highest")


def _written_out(x: Data, y: Data, roles: ContractionLayout, terms: int) -> Data:
    """x₁·y₁ + x₂·y₂ + …, term by term.

    Not as one sum of a product: that of large float32 arrays, one of them broadcast, is wrong on the CPU in jaxlib
    0.10 (github.com/google/XNNPACK/pull/11243).
    """
    inner, full = len(roles.inner), roles.inner + roles.batch + roles.rows + roles.columns
    left, right = align(x, roles.left, full), align(y, roles.right, full)
    left, right = (data.reshape((terms, *data.shape[inner:])) for data in (left, right))
    return reduce(operator.add, [left[k] * right[k] for k in range(terms)])
