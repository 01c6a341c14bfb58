"""Factorisations of matrices of a few columns on JAX, column by column with known places: short programs."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from fubini.base.arrays import Data
from fubini.numerics.quadratic import scale_of

UNROLLED = 3  # columns up to which a loop is written out


def root_of_few(K: Data) -> Data:
    """L with K = L Lᵀ, lower triangular; NaN where K is not positive definite."""
    size = K.shape[-1]
    if not size:
        return K
    columns: list[Data] = []  # each from its pivot down
    for place in range(size):
        column = lax.index_in_dim(lax.slice_in_dim(K, place, size, axis=-2), place, axis=-1, keepdims=False)
        for before, done in enumerate(columns):
            below = lax.slice_in_dim(done, place - before, size - before, axis=-1)
            column = column - below * lax.slice_in_dim(below, 0, 1, axis=-1)
        pivot = lax.slice_in_dim(column, 0, 1, axis=-1)
        columns.append(column / lax.sqrt(lax.select(pivot > 0, pivot, lax.full_like(pivot, jnp.nan))))
    zero = jnp.zeros((), K.dtype)
    lead = [(0, 0, 0)] * (K.ndim - 2)
    padded = [lax.pad(column, zero, [*lead, (place, 0, 0)]) for place, column in enumerate(columns)]
    return lax.concatenate([lax.expand_dims(column, (K.ndim - 1,)) for column in padded], K.ndim - 1)


def solve_few(L: Data, right: Data) -> Data:
    """L⁻¹ R for a lower triangular L and a right side with all of the batch."""
    if not L.shape[-1]:
        return right.astype(jnp.result_type(L, right))
    rows: list[Data] = []
    for place in range(L.shape[-1]):
        coefficients = lax.index_in_dim(L, place, axis=-2, keepdims=False)
        row = lax.index_in_dim(right, place, axis=-2, keepdims=False)
        for before, done in enumerate(rows):
            row = row - lax.slice_in_dim(coefficients, before, before + 1, axis=-1) * done
        rows.append(row / lax.slice_in_dim(coefficients, place, place + 1, axis=-1))
    return lax.concatenate([lax.expand_dims(row, (right.ndim - 2,)) for row in rows], right.ndim - 2)


def reflections_of_few(A: Data, count: int) -> tuple[Data, Data]:
    """QᵀA for reflections Q of columns in turn: U in its upper triangle, reflectors below it, their first entries."""
    if not count:
        return A, jnp.zeros((*A.shape[:-2], A.shape[-1]), A.dtype)
    axis = A.ndim - 2
    v = lax.index_in_dim(A, 0, axis=-1, keepdims=False)
    scale = scale_of(v, -1)
    v = v / scale  # its squares may overflow or vanish, and its length does not matter
    norm = lax.sqrt(jnp.sum(v * v, axis=-1, keepdims=True))
    first, others = lax.slice_in_dim(v, 0, 1, axis=-1), lax.slice_in_dim(v, 1, v.shape[-1], axis=-1)
    signed = lax.select(first < 0, -norm, norm)
    is_zero = norm == 0
    others = others / lax.select(is_zero, lax.full_like(norm, 1.0), first + signed)
    head = (~is_zero).astype(A.dtype)  # a row much larger than others turns exactly
    rest = reflected(lax.slice_in_dim(A, 1, A.shape[-1], axis=-1), lax.concatenate([head, others], axis))
    below, heads = reflections_of_few(lax.slice_in_dim(rest, 1, rest.shape[-2], axis=-2), count - 1)
    rest = lax.concatenate([lax.slice_in_dim(rest, 0, 1, axis=-2), below], axis)
    column = lax.concatenate([-signed * scale, others], axis)
    return (
        lax.concatenate([lax.expand_dims(column, (axis + 1,)), rest], axis + 1),
        lax.concatenate([head, heads], axis),
    )


def turned_units(W: Data, heads: Data, count: int) -> Data:
    """Q with `count` columns from its reflections: the last first, of unit vectors."""
    axis, m = W.ndim - 2, W.shape[-2]
    Q = jnp.zeros((*W.shape[:-2], m - count, 0), W.dtype)
    zero = jnp.zeros((), W.dtype)
    lead = [(0, 0, 0)] * axis
    for place in reversed(range(count)):
        below = lax.slice_in_dim(lax.index_in_dim(W, place, axis=-1, keepdims=False), place + 1, m, axis=-1)
        v = lax.concatenate([lax.slice_in_dim(heads, place, place + 1, axis=-1), below], axis)
        Q = lax.pad(Q, zero, [*lead, (1, 0, 0), (1, 0, 0)]) + jnp.eye(m - place, 1, dtype=W.dtype) * jnp.eye(
            1, count - place, dtype=W.dtype
        )
        Q = reflected(Q, v)
    return Q


def reflected(W: Data, v: Data) -> Data:
    """(1 − 2 v vᵀ / vᵀv) W"""
    if not W.shape[-1]:
        return W
    size = jnp.sum(v * v, axis=-1)
    beta = jnp.where(size > 0, 2.0 / jnp.where(size > 0, size, 1.0), 0.0)
    return W - v[..., :, None] * (beta[..., None] * jnp.sum(v[..., :, None] * W, axis=-2))[..., None, :]
