"""Rows A of few entries with AᵀA = P, of a known matrix P that is sparse, symmetric and positive definite.

Where each diagonal entry is at least the sum of the sizes of the others in its row, P is a sum of squares of pairs:
Σ_ij |P_ij| (x_i ± x_j)² / 2 + Σ_i (P_ii − Σ_j |P_ij|) x_i². Elsewhere A is a sparse Cholesky factor.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fubini.numerics.sparse_cholesky import SparseCholesky, factorise, sparse

FULL = 1 / 16  # of the entries: a sparse matrix has fewer
ROUNDING = 1e-12  # of the largest entry, by which entries at mirrored places may differ


class RowBlock(NamedTuple):
    """Rows with as many entries each: columns and entries [row, entry]."""

    columns: np.ndarray
    entries: np.ndarray


class SparseRoot(NamedTuple):
    """Blocks of rows A with AᵀA = P, and log |P|."""

    blocks: tuple[RowBlock, ...]
    logdet: float


def is_sparse(matrix: np.ndarray) -> bool:
    """Whether few of the entries of a matrix are not 0."""
    return bool(np.count_nonzero(matrix) <= FULL * matrix.size)


def sparse_root(matrix: np.ndarray) -> SparseRoot | None:
    """Rows of a known precision; None where it is not symmetric and positive definite."""
    precision = sparse.csc_array(matrix)
    if abs(precision - precision.T).max() > ROUNDING * abs(precision).max():
        return None
    factor = factorise(precision)
    if not factor.is_regular:
        return None
    return SparseRoot(_pairs(precision) or _of_factor(factor), factor.logdet)


def _pairs(precision: Any) -> tuple[RowBlock, ...] | None:
    """Squares of pairs and of single unknowns; None where a diagonal entry is less than the sum of the others."""
    upper = sparse.triu(precision, k=1, format="coo")
    upper.eliminate_zeros()
    first, second = upper.coords
    diagonal, sizes = precision.diagonal(), np.abs(upper.data)
    others = np.bincount(first, sizes, len(diagonal)) + np.bincount(second, sizes, len(diagonal))
    alone = diagonal - others
    if (alone < 0).any():
        return None
    (single,) = np.nonzero(alone)
    roots = np.sqrt(sizes)
    pairs = RowBlock(np.stack([first, second], axis=1), np.stack([roots, np.sign(upper.data) * roots], axis=1))
    singles = RowBlock(single[:, None], np.sqrt(alone[single])[:, None])
    return tuple(block for block in (pairs, singles) if len(block.columns))


def _of_factor(factor: SparseCholesky) -> tuple[RowBlock, ...]:
    """The rows of D^(½) Lᵀ, those of about one length in a block; entries of 0 fill a row up."""
    lower, order = factor.lower, factor.order
    starts: np.ndarray = lower.indptr
    lengths = np.diff(starts)
    widths = 1 << np.ceil(np.log2(lengths)).astype(int)
    blocks: list[RowBlock] = []
    for width in map(int, np.unique(widths)):
        along: np.ndarray = np.arange(width)
        (rows,) = np.nonzero(widths == width)
        places = starts[rows][:, None] + along
        inside = along < lengths[rows][:, None]
        places = np.where(inside, places, starts[rows][:, None])
        entries = np.where(inside, lower.data[places], 0.0) * np.sqrt(factor.pivots[rows])[:, None]
        blocks.append(RowBlock(order[lower.indices[places]], entries))
    return tuple(blocks)
