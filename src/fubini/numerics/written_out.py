"""Factorisations of matrices of a few columns on JAX, each entry written out: few operations to compile, and quick.

`small_matrices.py` has the same by loops, for more columns.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data
from fubini.numerics.quadratic import scale_of

MOST = 3  # rows or columns, whichever are fewer, up to which a matrix is written out


def is_tiny(A: Data) -> bool:
    """Whether a matrix is written out."""
    return 0 < min(A.shape[-2:]) <= MOST


def lower_root(K: Data) -> Data:
    """L with K = L Lᵀ, lower triangular; NaN where K is not positive definite."""
    size = K.shape[-1]
    L: list[list[Data]] = [[] for _ in range(size)]
    for i, row in enumerate(_rows(K)):
        for j in range(i):
            L[i].append((_entry(row, j) - _dot(L[i][:j], L[j][:j])) / L[j][j])
        pivot = _entry(row, i) - _dot(L[i], L[i])
        L[i].append(jnp.sqrt(jnp.where(pivot > 0, pivot, jnp.nan)))
    zero = jnp.zeros(K.shape[:-2], K.dtype)
    return jnp.stack([jnp.stack([*row, *[zero] * (size - len(row))], -1) for row in L], -2)


def lower_solved(L: Data, right: Data) -> Data:
    """L⁻¹ R for a lower triangular L."""
    found: list[Data] = []
    for i, (row, residual) in enumerate(zip(_rows(L), _rows(right), strict=True)):
        entries = [_entry(row, j)[..., None] for j in range(i + 1)]
        found.append((residual - _dot(entries[:i], found)) / entries[i])
    return jnp.stack(found, -2)


def triangular(A: Data) -> tuple[Data, list[Data]]:
    """U of A = Q U, and the reflectors of Q: each acts on the rows from its own place on."""
    rows: list[Data] = []
    reflectors: list[Data] = []
    for place in range(min(A.shape[-2:])):
        v = _entry(A, 0)
        scale = scale_of(v, -1)
        v = v / scale  # its squares may overflow or vanish, and its length does not matter
        norm = jnp.sqrt(jnp.sum(v * v, axis=-1, keepdims=True))
        first = v[..., :1]
        signed = jnp.where(first < 0, -norm, norm)
        head = jnp.where(norm == 0, 1.0, first + signed)
        v = jnp.concatenate([(norm != 0).astype(v.dtype), v[..., 1:] / head], -1)  # a much larger row turns exactly
        A = reflected(A[..., :, 1:], v)
        before = jnp.zeros((*v.shape[:-1], place), v.dtype)
        rows.append(jnp.concatenate([before, -signed * scale, jax.lax.index_in_dim(A, 0, -2, keepdims=False)], -1))
        reflectors.append(v)
        A = A[..., 1:, :]
    return jnp.stack(rows, -2), reflectors


def orthogonal(reflectors: list[Data], rows: int) -> Data:
    """Q, with as many columns as there are reflectors: they act on unit vectors, the last first."""
    batch = reflectors[0].shape[:-1]
    Q = jnp.zeros((*batch, rows - len(reflectors), 0), reflectors[0].dtype)
    for v in reversed(reflectors):
        wider = jnp.pad(Q, [*[(0, 0)] * len(batch), (1, 0), (1, 0)])
        corner = np.zeros(wider.shape[-2:], Q.dtype)
        corner[0, 0] = 1
        Q = reflected(wider + corner, v)
    return Q


def reflected(W: Data, v: Data) -> Data:
    """(1 − 2 v vᵀ / vᵀv) W"""
    size = jnp.sum(v * v, axis=-1)
    beta = jnp.where(size > 0, 2.0 / jnp.where(size > 0, size, 1.0), 0.0)
    return W - v[..., :, None] * (beta[..., None] * jnp.sum(v[..., :, None] * W, axis=-2))[..., None, :]


def _dot(left: list[Data], right: list[Data]) -> Data | float:
    return sum((a * b for a, b in zip(left, right, strict=True)), start=0.0)


def _rows(A: Data) -> list[Data]:
    return [jax.lax.index_in_dim(A, i, -2, keepdims=False) for i in range(A.shape[-2])]


def _entry(row: Data, place: int) -> Data:
    return jax.lax.index_in_dim(row, place, -1, keepdims=False)
