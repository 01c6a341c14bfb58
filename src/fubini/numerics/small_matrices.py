"""Factorisations of many small matrices on JAX, in ordinary arithmetic.

LAPACK's batched factorisations share the threads that run them: two at once can wait for each other for ever. These are
for any number of matrices at a time; those of a few columns have every entry written out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp

from fubini.base import lax_loops
from fubini.base.arrays import Data, traced_once
from fubini.base.semirings import Pair
from fubini.numerics import written_out
from fubini.numerics.quadratic import scale_of
from fubini.numerics.written_out import is_tiny, reflected


@traced_once
def _reflections(A: Data) -> tuple[Data, Data]:
    """QᵀA for reflections Q of columns in turn: U in its upper triangle, the reflectors below it, their first entries.

    Reflectors lie where U is zero, so that no other array has as many rows as A.
    """
    m, k = A.shape[-2:]
    rows, columns = jnp.arange(m), jnp.arange(k)

    def column(now: tuple[Data, Data], place: Data) -> tuple[Data, Data]:
        W, heads = now
        v = jnp.where(rows >= place, jnp.sum(jnp.where(columns == place, W, 0.0), axis=-1), 0.0)
        scale = scale_of(v, -1)
        v = v / scale  # its squares may overflow or vanish, and its length does not matter
        norm = jnp.sqrt(jnp.sum(v * v, axis=-1, keepdims=True))
        first = jnp.sum(jnp.where(rows == place, v, 0.0), axis=-1, keepdims=True)
        signed = jnp.where(first < 0, -norm, norm)
        head = jnp.where(norm == 0, 1.0, first + signed)
        v = jnp.where(rows == place, norm != 0, v / head)  # a row much larger than others turns exactly
        turned = jnp.where(rows[:, None] > place, v[..., :, None], W)
        turned = jnp.where((rows == place)[:, None], (-signed * scale)[..., None], turned)
        W = jnp.where(columns > place, reflected(W, v), jnp.where(columns == place, turned, W))
        return W, jnp.where(columns == place, norm != 0, heads)

    return _repeated(min(m, k), column, (A, jnp.zeros((*A.shape[:-2], k), A.dtype)))


def _looped(steps: int, step: Callable[[Data, Data], Data], start: Data) -> Data:
    """step(…step(start, 0)…, steps − 1)"""

    def body(place: Data, now: Data) -> Data:
        return step(now, place)

    return lax_loops.fori_loop(0, steps, body, start)


def _repeated(steps: int, step: Callable[[Any, Data], Any], start: Any) -> Any:
    """The same for loops whose derivative is known otherwise, which keep nothing of their steps for it."""
    first = jnp.asarray(0), start
    return lax_loops.while_loop(lambda now: now[0] < steps, lambda now: (now[0] + 1, step(now[1], now[0])), first)[1]


@traced_once
def _factors(A: Data) -> tuple[Data, Data]:
    """Q, with as many columns as there are reflectors, and U: the reflections, the last first, of unit vectors."""
    if is_tiny(A):
        U, reflectors = written_out.triangular(A)
        return written_out.orthogonal(reflectors, A.shape[-2]), U
    W, heads = _reflections(A)
    m, k = A.shape[-2:]
    count = min(m, k)
    rows, columns = jnp.arange(m), jnp.arange(k)

    def column(Q: Data, step: Data) -> Data:
        place = count - 1 - step
        below = jnp.where(rows > place, jnp.sum(jnp.where(columns == place, W, 0.0), axis=-1), 0.0)
        head = jnp.sum(jnp.where(columns == place, heads, 0.0), axis=-1)
        return reflected(Q, below + jnp.where(rows == place, head[..., None], 0.0))

    Q = jnp.broadcast_to(jnp.eye(m, count, dtype=A.dtype), (*A.shape[:-2], m, count))
    return _repeated(count, column, Q), jnp.triu(W[..., :k, :])


@jax.custom_jvp
def orthogonal_triangular(A: Data) -> tuple[Data, Data]:
    """A = Q U, Q with orthonormal columns, U upper triangular; rows at least as many as columns."""
    return _factors(A)


@orthogonal_triangular.defjvp
def _derivative(primals: tuple[Data], tangents: tuple[Data]) -> tuple[Pair, Pair]:
    """dU = (X − Ω) U,  dQ = Q Ω + (1 − QQᵀ) dA U⁻¹,  X = Qᵀ dA U⁻¹,  Ω its lower half less the transpose of that."""
    (A,), (dA,) = primals, tangents
    Q, U = orthogonal_triangular(A)
    M = over(dA, U)
    X = jnp.swapaxes(Q, -1, -2) @ M
    lower = jnp.tril(X, -1)
    turn = lower - jnp.swapaxes(lower, -1, -2)
    return (Q, U), (Q @ (turn - X) + M, jnp.triu((X - turn) @ U))


@traced_once
def lower_root(K: Data) -> Data:
    """L with K = L Lᵀ, lower triangular; NaN where K is not positive definite. Column by column."""
    if is_tiny(K):
        return written_out.lower_root(K)
    places = jnp.arange(K.shape[-1])

    def column(L: Data, place: Data) -> Data:
        here = places == place
        row = jnp.sum(jnp.where(here[:, None], L, 0.0), axis=-2)
        residual = jnp.sum(jnp.where(here, K, 0.0), axis=-1) - jnp.sum(L * row[..., None, :], axis=-1)
        pivot = jnp.sum(jnp.where(here, residual, 0.0), axis=-1)
        root = jnp.sqrt(jnp.where(pivot > 0, pivot, jnp.nan))[..., None]
        return L + jnp.where(places >= place, residual / root, 0.0)[..., :, None] * here

    return _looped(K.shape[-1], column, jnp.zeros_like(K))


@traced_once
def lower_solved(L: Data, right: Data) -> Data:
    """L⁻¹ R for a lower triangular L, row by row."""
    if is_tiny(L):
        return written_out.lower_solved(L, right)
    places = jnp.arange(L.shape[-1])
    batch = cast("tuple[int, ...]", jnp.broadcast_shapes(L.shape[:-2], right.shape[:-2]))
    right = jnp.broadcast_to(right, batch + right.shape[-2:])

    def row(X: Data, place: Data) -> Data:
        here = (places == place)[:, None]
        coefficients = jnp.sum(jnp.where(here, L, 0.0), axis=-2)
        residual = jnp.sum(jnp.where(here, right, 0.0), axis=-2) - jnp.sum(coefficients[..., :, None] * X, axis=-2)
        pivot = jnp.sum(jnp.where(places == place, coefficients, 0.0), axis=-1)
        return X + here * (residual / pivot[..., None])[..., None, :]

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
    if is_tiny(A):
        return written_out.triangular(A)[0]
    return jnp.triu(_reflections(A)[0][..., :k, :])


@turned.defjvp
def _derivative_of_turned(primals: tuple[Data], tangents: tuple[Data]) -> tuple[Data, Data]:
    (A,), (dA,) = primals, tangents
    Q, U = moving(A)
    return U, jnp.swapaxes(Q, -1, -2) @ dA


@jax.custom_jvp
def moving(A: Data) -> tuple[Data, Data]:
    """Q and U for the derivative of `turned`; Q turns with A too: dQ = (1 − QQᵀ) dA U⁻¹."""
    return _factors(A)


@moving.defjvp
def _derivative_of_moving(primals: tuple[Data], tangents: tuple[Data]) -> tuple[Pair, Pair]:
    (A,), (dA,) = primals, tangents
    Q, U = moving(A)
    dU = jnp.swapaxes(Q, -1, -2) @ dA
    return (Q, U), (over(dA - Q @ dU, U), dU)
