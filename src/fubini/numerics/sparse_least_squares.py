"""min |A x − b|² and |AᵀA| where few unknowns stand in each row of A: by a sparse factor of P = AᵀA.

All in NumPy and SciPy, in double precision. P squares the condition number of A, so x̂ is refined once with the
residuals of the rows themselves; the minimum then has an error of second order.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fubini.base.arrays import Data, digest
from fubini.numerics.arithmetic import xp_of
from fubini.numerics.least_squares import DENSE, LeastSquaresSolution, Unknowns, solve
from fubini.numerics.sparse_cholesky import Matrix, SparseCholesky, factorise, sparse

KEPT = 2  # solutions, for other questions about the same rows


class RowSizes(NamedTuple):
    """The number of unknowns, and of each block of rows how many it has and how many entries in each."""

    unknowns: int
    blocks: tuple[tuple[int, int], ...]


class SparseRows(NamedTuple):
    """Rows of A x = b, block after block: their entries and the columns of these end to end, and the right sides."""

    entries: Data
    columns: Data  # an entry whose column is none of the unknowns counts for nothing
    right: Data


def joined_rows(blocks: Sequence[SparseRows], unknowns: int) -> tuple[SparseRows, RowSizes]:
    """Blocks of rows, whose entries and columns are matrices [row, entry], end to end."""
    xp = xp_of(*(part for block in blocks for part in block))
    sizes = RowSizes(unknowns, tuple(block.entries.shape for block in blocks))
    entries, columns, right = zip(*blocks, strict=True)
    flat = (xp.concatenate([part.reshape(-1) for part in parts]) for parts in (entries, columns, right))
    return SparseRows(*flat), sizes


@dataclass(frozen=True, eq=False)
class SparseSolution:
    """x̂ = arg min |A x − b|², and the factor of AᵀA."""

    rows: Matrix
    right: np.ndarray
    factor: SparseCholesky

    @cached_property
    def centre(self) -> np.ndarray:
        """x̂"""
        x = self.factor.solve(self.rows.T @ self.right)
        return x + self.factor.solve(self.rows.T @ (self.right - self.rows @ x))

    @cached_property
    def residual(self) -> np.ndarray:
        """b − A x̂"""
        return self.right - self.rows @ self.centre

    @property
    def logdet(self) -> np.ndarray:
        """log |AᵀA|"""
        return np.asarray(self.factor.logdet)

    @cached_property
    def rss(self) -> np.ndarray:
        """min |A x − b|²"""
        with np.errstate(over="ignore"):
            return np.asarray(self.residual @ self.residual)

    @property
    def variances(self) -> np.ndarray:
        """The diagonal of (AᵀA)⁻¹."""
        return self.factor.inverse.diagonal if self.factor.is_regular else np.full(len(self.factor.pivots), np.nan)

    def roots(self) -> np.ndarray:
        """Columns whose products with themselves add up to the covariance (AᵀA)⁻¹: a dense matrix."""
        return self.factor.colour(np.eye(len(self.factor.pivots)))

    def at(self, noise: Data) -> np.ndarray:
        """x̂ and a draw around it: for each draw [… draw, unknown] of standard normal noise; x̂ where that is 0."""
        if not noise.any():
            return np.broadcast_to(self.centre, noise.shape)
        flat = noise.reshape(-1, noise.shape[-1])
        return (self.centre + self.factor.colour(flat.T).T).reshape(noise.shape)


KnownSolution = SparseSolution | LeastSquaresSolution
_SOLUTIONS: OrderedDict[bytes, KnownSolution] = OrderedDict()


def solve_rows(rows: SparseRows, sizes: RowSizes) -> KnownSolution:
    """The solution of rows, by orthogonal steps where these are few and rounding would hide it; the last are kept."""
    entries, columns, right = (np.asarray(part) for part in rows)
    key = b"".join(map(digest, (entries, columns, right))) + repr((sizes, entries.dtype)).encode()
    if key in _SOLUTIONS:
        _SOLUTIONS.move_to_end(key)
        return _SOLUTIONS[key]
    matrix, right = matrix_of(entries.astype(float), columns, sizes), right.astype(float)
    solution: KnownSolution = _solved(matrix, right)
    if not solution.factor.is_regular and sizes.unknowns <= DENSE:
        solution = solve([(matrix.toarray(), right)], Unknowns(None, sizes.unknowns))
    _SOLUTIONS[key] = solution
    if len(_SOLUTIONS) > KEPT:
        _SOLUTIONS.popitem(last=False)
    return solution


def matrix_of(entries: np.ndarray, columns: np.ndarray, sizes: RowSizes) -> Matrix:
    """A, from its entries row by row; those that happen to be 0 have a place in it."""
    counts = np.concatenate([np.full(count, width, np.int32) for count, width in sizes.blocks])
    columns = columns.astype(np.int32)
    inside = (columns >= 0) & (columns < sizes.unknowns)
    if not inside.all():
        counts = np.bincount(np.repeat(np.arange(len(counts)), counts)[inside], minlength=len(counts))
        entries, columns = entries[inside], columns[inside]
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    matrix = sparse.csr_array((entries, columns, starts), shape=(len(counts), sizes.unknowns), copy=True)
    matrix.sum_duplicates()
    return matrix


def _solved(matrix: Matrix, right: np.ndarray) -> SparseSolution:
    if not (np.isfinite(matrix.data).all() and np.isfinite(right).all()):
        unknown = np.full(matrix.shape[1], np.nan)
        return SparseSolution(matrix, right, SparseCholesky(sparse.csc_array(matrix[:0]), None, unknown))
    precision = sparse.csc_array(matrix.T @ matrix)
    return SparseSolution(matrix, right, factorise(precision))
