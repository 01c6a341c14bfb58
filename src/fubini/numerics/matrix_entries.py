"""Small matrices as their entries, each an array over a batch: sums of products that a compiler fuses into few loops.

A matrix is a list of rows, a vector a list. Inverses are by cofactors, without a loop and with one division.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from fubini.base.arrays import Data

MOST = 3  # rows up to which a matrix is inverted by cofactors
FUSED = 2  # rows up to which products are sums of entries: a compiler would compute those of more rows many times over

Vector = list[Data]
Matrix = list[list[Data]]


def vector_of(data: Data) -> Vector:
    """The entries along the last axis."""
    return [jax.lax.index_in_dim(data, i, -1, keepdims=False) for i in range(data.shape[-1])]


def matrix_of(data: Data) -> Matrix:
    """The entries of the last two axes."""
    rows = (jax.lax.index_in_dim(data, i, -2, keepdims=False) for i in range(data.shape[-2]))
    return [vector_of(row) for row in rows]


def stack_vector(v: Sequence[Data]) -> Data:
    """One array, the entries along its last axis."""
    return jnp.stack(jnp.broadcast_arrays(*v), axis=-1)


def stack_matrix(A: Matrix) -> Data:
    """One array, the entries along its last two axes."""
    flat = stack_vector([entry for row in A for entry in row])
    return flat.reshape((*flat.shape[:-1], len(A), len(A[0])))


def dot(a: Sequence[Data], b: Sequence[Data]) -> Data:
    """a · b"""
    return sum((x * y for x, y in zip(a[1:], b[1:], strict=True)), start=a[0] * b[0])


def transpose(A: Matrix) -> Matrix:
    """Aᵀ"""
    return [list(column) for column in zip(*A, strict=True)]


def multiply(A: Matrix, B: Matrix) -> Matrix:
    """A B"""
    columns = transpose(B)
    if len(B) > FUSED:
        return matrix_of(jnp.matmul(stack_matrix(A), stack_matrix(B), precision=jax.lax.Precision.HIGHEST))
    return [[dot(row, column) for column in columns] for row in A]


def apply(A: Matrix, v: Vector) -> Vector:
    """A v"""
    return [dot(row, v) for row in A]


def symmetric(size: int, entry: Callable[[int, int], Data]) -> Matrix:
    """The symmetric matrix whose lower half has these entries."""
    lower = [[entry(i, j) for j in range(i + 1)] for i in range(size)]
    return [[lower[max(i, j)][min(i, j)] for j in range(size)] for i in range(size)]


def congruent(A: Matrix, P: Matrix) -> Matrix:
    """A P Aᵀ for a symmetric P."""
    whole = multiply(multiply(A, P), transpose(A))
    return symmetric(len(A), lambda i, j: whole[i][j])


def plus(A: Matrix, B: Matrix) -> Matrix:
    """A + B"""
    return [add(row, other) for row, other in zip(A, B, strict=True)]


def add(a: Sequence[Data], b: Sequence[Data]) -> Vector:
    """a + b"""
    return [x + y for x, y in zip(a, b, strict=True)]


def lower_half(P: Matrix) -> Vector:
    """The entries of a symmetric matrix, once each."""
    return [entry for i, row in enumerate(P) for entry in row[: i + 1]]


def from_lower_half(size: int, entries: Sequence[Data]) -> Matrix:
    """The symmetric matrix with these entries."""
    return symmetric(size, lambda i, j: entries[i * (i + 1) // 2 + j])


def inverse(A: Matrix) -> tuple[Matrix, Data]:
    """A⁻¹ and det A, by cofactors."""
    size = len(A)
    assert size <= MOST, "larger matrices lose digits by cofactors"
    cofactors = [[_cofactor(A, i, j) for j in range(size)] for i in range(size)]
    determinant = dot(A[0], cofactors[0])
    unit = 1.0 / determinant
    return [[cofactors[j][i] * unit for j in range(size)] for i in range(size)], determinant


def _cofactor(A: Matrix, i: int, j: int) -> Data:
    rows = [row[:j] + row[j + 1 :] for place, row in enumerate(A) if place != i]
    minor = _determinant(rows)
    return minor if (i + j) % 2 == 0 else -minor


def _determinant(A: Matrix) -> Any:
    if not A:
        return 1.0
    if len(A) == 1:
        return A[0][0]
    if len(A) == 2:
        (a, b), (c, d) = A
        return a * d - b * c
    first, *rest = A
    minors = [_determinant([row[:j] + row[j + 1 :] for row in rest]) for j in range(len(A))]
    signed = [minor if j % 2 == 0 else -minor for j, minor in enumerate(minors)]
    return dot(first, signed)


def correlation_inverse(P: Matrix) -> tuple[Matrix, Vector, Data]:
    """R⁻¹ of P = D R D, the diagonal D, and det R: 1 where nothing is correlated, 0 where P is singular."""
    size = len(P)
    scales = [jnp.sqrt(P[i][i]) for i in range(size)]
    one = jnp.ones_like(scales[0])
    R = symmetric(size, lambda i, j: one if i == j else P[i][j] / (scales[i] * scales[j]))
    inverted, determinant = inverse(R)
    return inverted, scales, determinant


def inverse_root(P: Matrix) -> Matrix:
    """L⁻¹ of P = L Lᵀ, lower triangular: rows whose squares add up to P⁻¹."""
    size = len(P)
    L: Matrix = []
    for i in range(size):
        row: Vector = []
        for j in range(i):
            row.append((P[i][j] - dot(row, L[j][:j]) if j else P[i][j]) / L[j][j])
        row.append(jnp.sqrt(P[i][i] - dot(row, row) if row else P[i][i]))
        L.append(row)
    inverted: Matrix = []
    zero = jnp.zeros_like(L[0][0])
    for i in range(size):
        row = [-dot(L[i][j:i], [inverted[k][j] for k in range(j, i)]) / L[i][i] for j in range(i)]
        inverted.append([*row, 1.0 / L[i][i], *[zero] * (size - i - 1)])
    return inverted
