"""Rounding of tensor trains: a sweep of QR from the end, then of truncated SVDs from the start.

The algorithm is that of Oseledets (2011), "Tensor-train decomposition", algorithm 2. With orthonormal cores before bond
k and the triangular factor L_k of those after it, the singular values at the bond are those of the small matrix
M = B_k L_k, and the train is projected onto the first of its left singular vectors.

Derivatives: only the projector U Uᵀ counts, which depends on the differences of a kept and a discarded singular value
squared. It is differentiable where these differ, also where kept ones are equal among themselves; where the last kept
one equals the first discarded one and is not zero, derivatives are not numbers. Where kept ones are zero, the
derivative is that along tensors of the same rank.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data, namespace, stop_gradient
from fubini.numerics.tensor_train import (
    Cores,
    ranks_of,
    reverse_cores,
    rows_core,
    scale_core,
    swap_cores,
    trim_cores,
)


def target_ranks(cores: Sequence[Data], bound: int) -> list[int]:
    """The ranks after rounding: at most the bound, and at most the number of values on either side."""
    sizes = [core.shape[-3] for core in cores]
    ranks = [1, *(min(core.shape[-1], bound) for core in cores[:-1]), 1]
    for k, size in enumerate(sizes):
        ranks[k + 1] = min(ranks[k + 1], size * ranks[k])
    for k in reversed(range(len(sizes))):
        ranks[k] = min(ranks[k], sizes[k] * ranks[k + 1])
    return ranks[1:-1]


def round_cores(cores: Sequence[Data], bound: int) -> tuple[Cores, Data]:
    """Cores of rank `bound` at most, and the relative Frobenius error of the tensor for each cell of the batch."""
    xp = namespace(*cores)
    lower = _triangular_factors(cores)
    done: Cores = []
    error = xp.zeros(np.broadcast_shapes(*(core.shape[:-3] for core in cores)), cores[0].dtype)
    carry = xp.ones((1, 1, 1), cores[0].dtype)
    for k, rank in enumerate(target_ranks(cores, bound)):
        block = xp.matmul(carry, cores[k])
        size, rows, columns = block.shape[-3:]
        flat = block.reshape(*block.shape[:-3], size * rows, columns)
        if rank == size * rows:
            done.append(xp.asarray(rows_core(size, rows), block.dtype))
            carry = flat[..., None, :, :]
            continue
        basis, discarded = _leading_basis(flat, lower[k], rank)
        done.append(basis.reshape(*basis.shape[:-2], size, rows, rank))
        carry = xp.matmul(xp.swapaxes(basis, -1, -2), flat)[..., None, :, :]
        error = error + (1.0 - error) * discarded  # squared; each projection acts on what the last one left
    return [*done, xp.matmul(carry, cores[-1])], xp.sqrt(stop_gradient(error))


def _triangular_factors(cores: Sequence[Data]) -> list[tuple[Data, Data]]:
    """For each bond L and G = L Lᵀ, the Gram matrix of all cores after it, to scale: G alone has derivatives."""
    xp = namespace(*cores)
    lower = gram = xp.ones((1, 1), cores[-1].dtype)
    factors: list[tuple[Data, Data]] = []
    for core in reversed(cores[1:]):
        wide = xp.matmul(stop_gradient(core), lower[..., None, :, :])  # (…, n, r, l)
        tall = xp.moveaxis(wide, -2, -1).reshape(*wide.shape[:-3], -1, wide.shape[-2])
        lower = xp.swapaxes(xp.linalg.qr(tall, mode="r"), -1, -2)
        lower, log = scale_core(lower, (-2, -1))
        if xp is jnp:
            outer = core @ gram[..., None, :, :] @ xp.swapaxes(core, -1, -2)
            gram = xp.sum(outer, -3) * xp.exp(-2.0 * log)[..., None, None]
        factors.append((lower, gram))
    return factors[::-1]


def _leading_basis(block: Data, factor: tuple[Data, Data], rank: int) -> tuple[Data, Data]:
    """The first left singular vectors of block · L, and the share of the squared norm that the others have."""
    lower, gram = factor
    xp = namespace(block)
    matrix = xp.matmul(stop_gradient(block), lower)
    if xp is jnp:
        basis_of: Callable[..., tuple[Data, Data]] = cast(Any, _differentiable_basis)  # JAX's decorator has no types
        return basis_of(block @ gram @ xp.swapaxes(block, -1, -2), matrix, rank)
    basis, values, _ = np.linalg.svd(matrix, full_matrices=False)
    return basis[..., :rank], _discarded_share(values, rank)


def _discarded_share(values: Data, rank: int) -> Data:
    xp = namespace(values)
    squares = values**2
    total = xp.sum(squares, -1)
    return xp.sum(squares[..., rank:], -1) / xp.where(total > 0, total, 1.0)


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def _differentiable_basis(square: Data, matrix: Data, rank: int) -> tuple[Data, Data]:
    """The first left singular vectors of M, as a function of M Mᵀ."""
    basis, values, _ = jnp.linalg.svd(matrix, full_matrices=False)
    return basis[..., :rank], _discarded_share(values, rank)


@_differentiable_basis.defjvp
def _basis_tangent(rank: int, primals: tuple[Data, Data], tangents: tuple[Data, Data]) -> tuple[Any, Any]:
    """dU₁ = U₂ X + (I − U Uᵀ) dS U₁ Λ₁⁻¹,  X_ij = (U₂ᵀ dS U₁)_ij / (λ_j − λ_i): nothing within the span of U₁"""
    (_, matrix), (change, _) = primals, tangents
    vectors, values, _ = jnp.linalg.svd(matrix, full_matrices=False)
    squares = values**2
    least = float(np.finfo(matrix.dtype).eps) ** 1.25 * squares[..., :1]
    is_zero = squares[..., None, :rank] <= least[..., None]
    gaps = jnp.where(is_zero, 1.0, squares[..., None, :rank] - squares[..., rank:, None])
    kept = vectors[..., :rank]
    moved = change @ kept
    inside = jnp.swapaxes(vectors, -1, -2) @ moved
    turned = vectors[..., rank:] @ jnp.where(is_zero, 0.0, inside[..., rank:, :] / gaps)
    outside = (moved - vectors @ inside) / jnp.where(is_zero, 1.0, squares[..., None, :rank])
    tangent = turned + jnp.where(is_zero, 0.0, outside)
    share = _discarded_share(values, rank)
    return (kept, share), (tangent, jnp.zeros_like(share))


def reorder_cores(cores: Sequence[Data], places: Sequence[int], bound: int) -> tuple[Cores, Data | None]:
    """Cores with variable places[k] at position k, by swaps of neighbours; rounded where the ranks pass the bound.

    The relative Frobenius errors of the roundings are added up; None where there was none.
    """
    cores, error = list(cores), None
    if 2 * _inversions(places) > math.comb(len(places), 2):  # read from its end, it is nearer
        cores, places = reverse_cores(cores), [len(places) - 1 - place for place in places]
    target = {place: position for position, place in enumerate(places)}
    waiting = [target[place] for place in range(len(cores))]
    while (k := next((k for k in range(len(waiting) - 1) if waiting[k] > waiting[k + 1]), None)) is not None:
        cores[k], cores[k + 1] = swap_cores(cores[k], cores[k + 1])
        waiting[k], waiting[k + 1] = waiting[k + 1], waiting[k]
        cores = trim_cores(cores)
        if max(ranks_of(cores)) > bound:
            cores, new = round_cores(cores, bound)
            error = new if error is None else error + new
    return cores, error


def _inversions(places: Sequence[int]) -> int:
    return sum(first > second for first, second in combinations(places, 2))
