"""Contraction of two scaled tables: ⊕ over the names not kept of a · b.

Sums of products are matrix products of linear weights. Their result is exact where no single product can leave the
dtype's range, which the bounds of the operands tell; where one can, the contraction is done again in log space.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fubini.arrays import Data, namespace
from fubini.factors.scaled import SAFE_LOG, Scaled, fits, gauged, linear, reduced, safe_linear
from fubini.semirings import Semiring
from fubini.terms.named import align
from fubini.terms.term import Name

# A batch of small matrices is summed term by term with the batch innermost; larger ones go to BLAS one by one.
BLAS_WORK = 256
LOOP_TERMS = 64


class Layout(NamedTuple):
    """How two named arrays are laid out for a matrix product: batch, rows, inner, columns."""

    drop_a: tuple[int, ...]  # axes only a has, and not kept
    drop_b: tuple[int, ...]
    batch: tuple[Name, ...]
    rows: tuple[Name, ...]
    inner: tuple[Name, ...]
    columns: tuple[Name, ...]
    left: tuple[Name, ...]  # names of a once its own are dropped
    right: tuple[Name, ...]


@lru_cache(maxsize=65536)
def layout(a: tuple[Name, ...], b: tuple[Name, ...], keep: frozenset[Name]) -> Layout:
    """The roles of the names."""
    in_a, in_b = set(a), set(b)
    left = tuple(name for name in a if name in keep or name in in_b)
    right = tuple(name for name in b if name in keep or name in in_a)
    return Layout(
        tuple(axis for axis, name in enumerate(a) if name not in keep and name not in in_b),
        tuple(axis for axis, name in enumerate(b) if name not in keep and name not in in_a),
        tuple(name for name in left if name in in_b and name in keep),
        tuple(name for name in left if name not in in_b),
        tuple(name for name in left if name in in_b and name not in keep),
        tuple(name for name in right if name not in in_a),
        left,
        right,
    )


def contract(
    semiring: Semiring, a: Scaled, a_names: tuple, b: Scaled, b_names: tuple, keep: frozenset
) -> tuple[Scaled, tuple[Name, ...]]:
    """⊕ a·b over every name not in `keep`; the names of the result come in an order of our choice."""
    roles = layout(a_names, b_names, keep)
    a, b = reduced(semiring, a, roles.drop_a), reduced(semiring, b, roles.drop_b)
    if not semiring.homogeneous:
        return _in_carrier(semiring, a, b, roles)
    if namespace(*a[:2], *b[:2]) is np:
        return _by_numpy(semiring, a, b, roles)
    return _by_jax(semiring, a, b, roles)


def _by_numpy(semiring: Semiring, a: Scaled, b: Scaled, roles: Layout) -> tuple[Scaled, tuple[Name, ...]]:
    x, y = linear(a), linear(b)
    for tighten in (False, True):
        if x is None or y is None:
            break
        if tighten:
            x, y = _tightened(x), _tightened(y)
        low, high = x.low + y.low, x.high + y.high
        if fits(low, high):
            weights, names, terms = _multiply(semiring, x.weights, y.weights, roles)
            return Scaled(weights, x.shift + y.shift, low, high + math.log(terms)), names
    return _in_log_space(semiring, a, b, roles)


def _tightened(pair: Scaled) -> Scaled:
    """Bounds read off the weights anew, the greatest being 1."""
    high = pair.weights.max(initial=0.0)
    if not high > 0:
        return Scaled(pair.weights, pair.shift, 0.0, 0.0)
    weights = pair.weights / high
    low = np.min(weights, where=weights > 0, initial=1.0)
    return Scaled(weights, pair.shift + math.log(high), math.log(low), 0.0)


def _multiply(semiring: Semiring, a: Data, b: Data, roles: Layout) -> tuple[Data, tuple[Name, ...], int]:
    """The contraction of linear NumPy weights, the names of the result, and how many terms each entry sums."""
    batch, rows, inner, columns = roles.batch, roles.rows, roles.inner, roles.columns
    if not inner:
        names = batch + rows + columns
        return align(a, roles.left, names) * align(b, roles.right, names), names, 1
    size = dict(zip(roles.left, a.shape, strict=True)) | dict(zip(roles.right, b.shape, strict=True))
    n_batch, n_rows, n_inner, n_columns = (math.prod(size[name] for name in role) for role in roles[2:6])
    if semiring.ufunc is not np.add or (batch and n_rows * n_inner * n_columns < BLAS_WORK and n_inner <= LOOP_TERMS):
        x = align(a, roles.left, inner + rows + batch).reshape(n_inner, n_rows, 1, n_batch)
        y = align(b, roles.right, inner + columns + batch).reshape(n_inner, 1, n_columns, n_batch)
        names, weights = rows + columns + batch, _term_by_term(semiring, x, y)
    else:
        x = align(a, roles.left, batch + rows + inner).reshape(n_batch, n_rows, n_inner)
        y = align(b, roles.right, batch + inner + columns).reshape(n_batch, n_inner, n_columns)
        names, weights = batch + rows + columns, (x[0] @ y[0] if n_batch == 1 else x @ y)
    return weights.reshape([size[name] for name in names]), names, n_inner


def _term_by_term(semiring: Semiring, x: Data, y: Data) -> Data:
    total = x[0] * y[0]
    for term in range(1, len(x)):
        more = x[term] * y[term]
        if semiring.ufunc is not None:
            semiring.ufunc(total, more, out=total)
        else:
            total = semiring.add(np, np.stack([total, more]), (0,))
    return total


def _in_carrier(semiring: Semiring, a: Scaled, b: Scaled, roles: Layout) -> tuple[Scaled, tuple[Name, ...]]:
    names = roles.inner + roles.batch + roles.rows + roles.columns
    x, y = align(a.weights, roles.left, names), align(b.weights, roles.right, names)
    xp = namespace(x, y)
    joined = semiring.multiply(xp, x, y)
    if roles.inner:
        joined = semiring.add(xp, joined, tuple(range(len(roles.inner))))
    return Scaled(joined, 0.0), names[len(roles.inner) :]


def _in_log_space(semiring: Semiring, a: Scaled, b: Scaled, roles: Layout) -> tuple[Scaled, tuple[Name, ...]]:
    """exp(c) ⊕ a·b·exp(s + t − c), where c is the greatest exponent of each entry; one inner term at a time."""
    names = roles.inner + roles.batch + roles.rows + roles.columns
    x, y = gauged(a), gauged(b)
    w, s = align(x.weights, roles.left, names), align(x.shift, roles.left, names)
    v, t = align(y.weights, roles.right, names), align(y.shift, roles.right, names)
    xp = namespace(w, v)
    depth = len(roles.inner)
    if xp is not np and depth:
        return _scan_in_log_space(semiring, (w, s), (v, t), depth), names[depth:]
    joined = Scaled(w * v, s + t)
    return reduced(semiring, joined, tuple(range(depth))), names[depth:]


def _scan_in_log_space(semiring: Semiring, a: tuple, b: tuple, depth: int) -> Scaled:
    """The same as a scan over the inner index, so that memory stays that of the result."""
    shape = np.broadcast_shapes(a[0].shape, b[0].shape)
    inner, outer = shape[:depth], shape[depth:]
    flat = [jnp.broadcast_to(x, inner + x.shape[depth:]).reshape(-1, *x.shape[depth:]) for x in (*a, *b)]

    def greatest(top: Data, term: tuple) -> tuple:
        w, s, v, t = map(jax.lax.stop_gradient, term)
        return jnp.maximum(top, jnp.where((w > 0) & (v > 0), s + t, -jnp.inf)), None

    dtype = jnp.result_type(*flat)
    top, _ = jax.lax.scan(greatest, jnp.full(outer, -jnp.inf, dtype), tuple(flat))
    top = jax.lax.stop_gradient(jnp.where(jnp.isfinite(top), top, 0.0))
    limit = 2 * SAFE_LOG[np.dtype(dtype).name]

    @jax.checkpoint
    def accumulate(total: Data, term: tuple) -> tuple:
        w, s, v, t = term
        more = w * v * jnp.exp(jnp.minimum(s + t - top, limit))
        return semiring.add(jnp, jnp.stack([total, more]), (0,)), None

    total, _ = jax.lax.scan(accumulate, jnp.zeros(outer, dtype), tuple(flat))
    return Scaled(total, top)


def _by_jax(semiring: Semiring, a: Scaled, b: Scaled, roles: Layout) -> tuple[Scaled, tuple[Name, ...]]:
    names = roles.batch + roles.rows + roles.columns
    if not roles.inner:
        x, y = gauged(a), gauged(b)
        weights = align(x.weights, roles.left, names) * align(y.weights, roles.right, names)
        return Scaled(weights, align(x.shift, roles.left, names) + align(y.shift, roles.right, names)), names
    dtype = jnp.result_type(a.weights, b.weights)
    x, x_shift, x_least = safe_linear(jnp.asarray(a.weights, dtype), jnp.asarray(a.shift, dtype))
    y, y_shift, y_least = safe_linear(jnp.asarray(b.weights, dtype), jnp.asarray(b.shift, dtype))

    def in_linear_space(_: Any) -> tuple[Data, Data]:
        weights = _einsum(semiring, x, y, roles)
        return weights, jnp.full(weights.shape, x_shift + y_shift, weights.dtype)

    def in_log_space(_: Any) -> tuple[Data, Data]:
        (weights, shift, *_), _names = _in_log_space(semiring, Scaled(*a[:2]), Scaled(*b[:2]), roles)
        return jnp.asarray(weights, dtype), jnp.asarray(shift, dtype)

    safe = x_least + y_least > -2 * SAFE_LOG[np.dtype(dtype).name]
    return Scaled(*jax.lax.cond(safe, in_linear_space, in_log_space, None)), names


def _einsum(semiring: Semiring, x: Data, y: Data, roles: Layout) -> Data:
    names = roles.batch + roles.rows + roles.columns
    if semiring.ufunc is not np.add:
        full = roles.inner + names
        joined = align(x, roles.left, full) * align(y, roles.right, full)
        return semiring.add(jnp, joined, tuple(range(len(roles.inner))))
    number = {name: position for position, name in enumerate(names + roles.inner)}
    left, right, out = ([number[name] for name in part] for part in (roles.left, roles.right, names))
    return jnp.einsum(x, left, y, right, out, precision="highest")
