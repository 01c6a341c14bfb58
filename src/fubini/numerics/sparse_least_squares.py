"""min |A x − b|² and |AᵀA| where few unknowns stand in each row of A: by a sparse factor of P = AᵀA.

To the squares may be added x·K x − 2 h·x; then P = AᵀA + K.

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
from fubini.numerics.sparse_cholesky import LARGEST, Matrix, SparseCholesky, envelope, factorise, sparse

KEPT = 2  # solutions, for other questions about the same rows
CLEAR = 1e-9  # the largest error, by rounding in P, of what is to agree with orthogonal steps


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


class Information(NamedTuple):
    """x·K x − 2 h·x"""

    slope: np.ndarray
    matrix: Matrix


@dataclass(frozen=True, eq=False)
class SparseSolution:
    """x̂ = arg min |A x − b|² + x·K x − 2 h·x, and the factor of AᵀA + K; without further information, K and h are 0."""

    rows: Matrix
    right: np.ndarray
    factor: SparseCholesky
    information: Information | None = None

    @cached_property
    def centre(self) -> np.ndarray:
        """x̂"""
        x = self.factor.solve(self._downhill(np.zeros(len(self.factor.pivots))))
        return x + self.factor.solve(self._downhill(x))

    def _downhill(self, x: np.ndarray) -> np.ndarray:
        """Aᵀ(b − A x) + h − K x"""
        by_rows = self.rows.T @ (self.right - self.rows @ x)
        if self.information is None:
            return by_rows
        return by_rows + (self.information.slope - self.information.matrix @ x)

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
        """min |A x − b|² + x·K x − 2 h·x"""
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.asarray(self.residual @ self.residual)
            if self.information is None:
                return squares
            slope, matrix = self.information
            return squares + self.centre @ (matrix @ self.centre - 2.0 * slope)

    @property
    def variances(self) -> np.ndarray:
        """The diagonal of P⁻¹."""
        return self.factor.inverse.diagonal if self.factor.is_regular else np.full(len(self.factor.pivots), np.nan)

    def roots(self) -> np.ndarray:
        """Columns whose products with themselves add up to the covariance P⁻¹: a dense matrix."""
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


def solve_quadratic(
    rows: SparseRows, sizes: RowSizes, information: Information | None, keep_order: bool = False
) -> SparseSolution | None:
    """The solution of rows and of further information, eliminated in the order of the unknowns if asked to.

    None where numbers leave the range, P is not clearly positive definite, or its factor would not be sparse. What has
    a place in K has one in P, be it 0.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        matrix = matrix_of(rows.entries, rows.columns, sizes)
        precision = matrix.T @ matrix
    if information is not None:
        precision = _sum_with_places(precision, information.matrix)
    precision = sparse.csc_array(precision)
    is_finite = all(np.isfinite(part).all() for part in (precision.data, rows.right))
    if not is_finite or envelope(precision) > LARGEST:
        return None
    solution = SparseSolution(matrix, rows.right, factorise(precision, keep_order), information)
    return solution if solution.factor.rounding <= CLEAR and np.isfinite(solution.rss) else None


def _sum_with_places(first: Matrix, second: Matrix) -> Matrix:
    """The sum of two matrices, with a place for each entry of either, be it 0."""
    first, second = sparse.coo_array(first), sparse.coo_array(second)
    places = tuple(np.concatenate(pair) for pair in zip(first.coords, second.coords, strict=True))
    return sparse.coo_array((np.concatenate([first.data, second.data]), places), shape=first.shape)


def _solved(matrix: Matrix, right: np.ndarray) -> SparseSolution:
    if not (np.isfinite(matrix.data).all() and np.isfinite(right).all()):
        unknown = np.full(matrix.shape[1], np.nan)
        return SparseSolution(matrix, right, SparseCholesky(sparse.csc_array(matrix[:0]), None, unknown))
    precision = sparse.csc_array(matrix.T @ matrix)
    return SparseSolution(matrix, right, factorise(precision))
