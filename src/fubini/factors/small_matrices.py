"""Factorisations of many small matrices on JAX, written out.

LAPACK's batched factorisations share the threads that run them: two at once can wait for each other for ever. These are
ordinary arithmetic, for any number of matrices at a time.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from fubini.arrays import Data
from fubini.factors.quadratic import scale_of

UNROLLED = 3  # columns up to which a loop is written out


def reflected(A: Data, count: int) -> Data:
    """A turned so that its first columns, `count` of them, are upper triangular: QᵀA."""
    rows = jnp.arange(A.shape[-2])

    def column(W: Data, place: Data) -> Data:
        here = jnp.arange(A.shape[-1]) == place
        v = jnp.where(rows >= place, jnp.sum(jnp.where(here, W, 0.0), axis=-1), 0.0)
        v = v / scale_of(v, -1)  # its squares may overflow or vanish, and its length does not matter
        norm = jnp.sqrt(jnp.sum(v * v, axis=-1))
        first = jnp.sum(jnp.where(rows == place, v, 0.0), axis=-1)
        signed = jnp.where(first < 0, -norm, norm)
        v = v + jnp.where(rows == place, signed[..., None], 0.0)
        head = jnp.where(norm == 0, 1.0, first + signed)[..., None]
        v = jnp.where(rows == place, norm[..., None] != 0, v / head)  # a row much larger than others turns exactly
        size = jnp.sum(v * v, axis=-1)
        beta = jnp.where(size > 0, 2.0 / jnp.where(size > 0, size, 1.0), 0.0)
        return W - v[..., :, None] * (beta[..., None] * jnp.sum(v[..., :, None] * W, axis=-2))[..., None, :]

    return _looped(min(count, A.shape[-2]), column, A)


def _looped(steps: int, step: Callable[[Data, Data], Data], start: Data) -> Data:
    """step(…step(start, 0)…, steps − 1), written out where there are few."""
    if steps > UNROLLED:
        return jax.lax.fori_loop(0, steps, lambda place, now: step(now, place), start)
    for place in range(steps):
        start = step(start, jnp.asarray(place))
    return start


def _factors(A: Data) -> tuple[Data, Data]:
    m, k = A.shape[-2:]
    eye = jnp.broadcast_to(jnp.eye(m, dtype=A.dtype), (*A.shape[:-1], m))
    turned = reflected(jnp.concatenate([A, eye], axis=-1), k)
    return jnp.swapaxes(turned[..., :k, k:], -1, -2), jnp.triu(turned[..., :k, :k])


@jax.custom_jvp
def orthogonal_triangular(A: Data) -> tuple[Data, Data]:
    """A = Q U, Q with orthonormal columns, U upper triangular; rows at least as many as columns."""
    return _factors(A)


@orthogonal_triangular.defjvp
def _derivative(primals: tuple, tangents: tuple) -> tuple:
    """dU = (X − Ω) U,  dQ = Q Ω + (1 − QQᵀ) dA U⁻¹,  X = Qᵀ dA U⁻¹,  Ω its lower half less the transpose of that."""
    (A,), (dA,) = primals, tangents
    Q, U = orthogonal_triangular(A)
    M = over(dA, U)
    X = jnp.swapaxes(Q, -1, -2) @ M
    lower = jnp.tril(X, -1)
    turn = lower - jnp.swapaxes(lower, -1, -2)
    return (Q, U), (Q @ (turn - X) + M, jnp.triu((X - turn) @ U))


def lower_root(K: Data) -> Data:
    """L with K = L Lᵀ, lower triangular; NaN where K is not positive definite. Column by column."""
    places = jnp.arange(K.shape[-1])

    def column(L: Data, place: Data) -> Data:
        here = places == place
        row = jnp.sum(jnp.where(here[:, None], L, 0.0), axis=-2)
        left = jnp.sum(jnp.where(here, K, 0.0), axis=-1) - jnp.sum(L * row[..., None, :], axis=-1)
        pivot = jnp.sum(jnp.where(here, left, 0.0), axis=-1)
        root = jnp.sqrt(jnp.where(pivot > 0, pivot, jnp.nan))[..., None]
        return L + jnp.where(places >= place, left / root, 0.0)[..., :, None] * here

    return _looped(K.shape[-1], column, jnp.zeros_like(K))


def lower_solved(L: Data, right: Data) -> Data:
    """L⁻¹ R for a lower triangular L, row by row."""
    places = jnp.arange(L.shape[-1])
    batch = jnp.broadcast_shapes(L.shape[:-2], right.shape[:-2])
    right = jnp.broadcast_to(right, batch + right.shape[-2:])

    def row(X: Data, place: Data) -> Data:
        here = (places == place)[:, None]
        mine = jnp.sum(jnp.where(here, L, 0.0), axis=-2)
        left = jnp.sum(jnp.where(here, right, 0.0), axis=-2) - jnp.sum(mine[..., :, None] * X, axis=-2)
        pivot = jnp.sum(jnp.where(places == place, mine, 0.0), axis=-1)
        return X + here * (left / pivot[..., None])[..., None, :]

    return _looped(L.shape[-1], row, jnp.zeros(right.shape, jnp.result_type(L, right)))


def over(M: Data, U: Data) -> Data:
    """M U⁻¹ for an upper triangular U."""
    return jnp.swapaxes(lower_solved(jnp.swapaxes(U, -1, -2), jnp.swapaxes(M, -1, -2)), -1, -2)


@jax.custom_jvp
def turned(A: Data) -> Data:
    """U of A = Q U, as many rows as columns of A.

    Only what does not change when rows are turned may be read off U: then Q may turn with A, and the derivative is
    dU = QᵀdA, which exists even where the rows of A are dependent.
    """
    k = A.shape[-1]
    return jnp.triu(reflected(A, k)[..., :k, :])


@turned.defjvp
def _derivative_of_turned(primals: tuple, tangents: tuple) -> tuple:
    (A,), (dA,) = primals, tangents
    Q, U = moving(A)
    return U, jnp.swapaxes(Q, -1, -2) @ dA


@jax.custom_jvp
def moving(A: Data) -> tuple[Data, Data]:
    """Q and U for the derivative of `turned`; Q turns with A too: dQ = (1 − QQᵀ) dA U⁻¹."""
    return _factors(A)


@moving.defjvp
def _derivative_of_moving(primals: tuple, tangents: tuple) -> tuple:
    (A,), (dA,) = primals, tangents
    Q, U = moving(A)
    dU = jnp.swapaxes(Q, -1, -2) @ dA
    return (Q, U), (over(dA - Q @ dU, U), dU)
