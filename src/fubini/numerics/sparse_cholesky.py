"""P = L D Lᵀ of a sparse, positive definite matrix, its rows and columns in an order that fills in little.

SuperLU factorises it, with its pivots on the diagonal; what it leaves at zero is not kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse import csgraph as sparse_graphs
from scipy.sparse import linalg as sparse_algebra

from fubini.errors import DataError
from fubini.numerics.selected_inverse import LowerColumns, selected_inverse

sparse: Any = scipy.sparse  # which has no types that are known
graphs: Any = sparse_graphs
algebra: Any = sparse_algebra
Matrix = Any
ROUNDING = 1e-6  # the largest error of a log-determinant
LARGEST = 10**9  # entries of an envelope, of which a factor in the order of SuperLU has a small part
PROBES = 8  # vectors of random signs from which a trace is estimated
DRAWS = 64  # right sides that are solved for at once: each is a column as long as the unknowns


@dataclass(frozen=True, eq=False)
class SparseCholesky:
    """P[order][:, order] = L D Lᵀ, where the diagonal of L is 1."""

    matrix: Matrix
    factors: Any  # None: of a matrix that has none
    pivots: np.ndarray  # the diagonal of D

    @cached_property
    def is_regular(self) -> bool:
        """Whether P is positive definite, and so clearly that rounding does not matter.

        A pivot has an error of about ε P_jj, so log |P| one of ε Σ P_jj / d_j.
        """
        if self.factors is None or not (self.pivots > 0).all():
            return False
        sizes = self.matrix.diagonal()[self.order]
        with np.errstate(over="ignore", invalid="ignore"):
            return bool(np.finfo(float).eps * np.sum(sizes / self.pivots) <= ROUNDING)

    @cached_property
    def rounding(self) -> float:
        """ε Σ_j P_jj (P⁻¹)_jj: so far may rounding in P move log |P|, and entries of P⁻¹ relative to their size.

        The sum is the trace of P⁻¹ with rows and columns scaled, which random signs estimate (Hutchinson 1990).
        """
        if not self.is_regular:
            return math.inf
        signs = np.random.default_rng(0).choice((-1.0, 1.0), (len(self.pivots), PROBES))
        probes = np.sqrt(self.matrix.diagonal())[:, None] * signs
        return float(np.finfo(float).eps * np.sum(probes * self.solve(probes)) / PROBES)

    @property
    def logdet(self) -> float:
        """log |P|; not a number where rounding hides it"""
        return float(np.log(self.pivots).sum()) if self.is_regular else math.nan

    @cached_property
    def order(self) -> np.ndarray:
        """The row of P that each row of L stands for."""
        assert self.factors is not None
        return np.argsort(self.factors.perm_c)

    @cached_property
    def lower(self) -> Matrix:
        """L, its columns from the diagonal down."""
        assert self.factors is not None
        lower = sparse.csc_array(self.factors.L)
        lower.sort_indices()
        return lower

    def solve(self, right: np.ndarray) -> np.ndarray:
        """P⁻¹ b"""
        if self.factors is None or not self.is_regular:
            return np.full_like(right, np.nan)
        return self.factors.solve(np.ascontiguousarray(right))

    def colour(self, noise: np.ndarray) -> np.ndarray:
        """x with covariance P⁻¹, from standard normal numbers [unknown, draw]: L⁻ᵀ D^(−½) noise, in the order of P."""
        if not self.is_regular:
            return np.full_like(noise, np.nan)
        upper, roots, drawn = self.lower.T.tocsr(), np.sqrt(self.pivots)[:, None], np.empty_like(noise)
        for start in range(0, noise.shape[1], DRAWS):
            part = noise[self.order, start : start + DRAWS] / roots
            solved = algebra.spsolve_triangular(upper, part, lower=False, overwrite_b=True, unit_diagonal=True)
            drawn[self.order, start : start + DRAWS] = solved
        return drawn

    @cached_property
    def inverse(self) -> SelectedInverse:
        """The entries of P⁻¹ where P or L has a place."""
        ordered = sparse.tril(self.matrix[self.order][:, self.order], format="csc")
        L = self.lower
        pattern = sparse.csc_array((np.ones(ordered.nnz), ordered.indices, ordered.indptr), shape=L.shape)
        pattern = pattern + sparse.csc_array((np.ones(L.nnz), L.indices, L.indptr), shape=L.shape)
        columns = selected_inverse(LowerColumns(L.indptr, L.indices, L.data), self.pivots, pattern)
        return SelectedInverse(np.argsort(self.order), columns)


@dataclass(frozen=True, eq=False)
class SelectedInverse:
    """Entries of P⁻¹: all on the diagonal, and those at pairs of unknowns that P couples."""

    places: np.ndarray  # of the unknowns in the order of L
    columns: LowerColumns

    @property
    def diagonal(self) -> np.ndarray:
        """The variances."""
        return self.columns.entries[self.columns.starts[:-1]][self.places]

    def at(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """P⁻¹ at pairs of unknowns that P has a place for; at others, any number."""
        one, two = self.places[first], self.places[second]
        size = len(self.places)
        column, row = np.minimum(one, two).astype(np.int64), np.maximum(one, two)
        return self.columns.entries.take(np.searchsorted(self._keys, column * size + row), mode="clip")

    @cached_property
    def _keys(self) -> np.ndarray:
        """Numbers by which an entry is found: they grow from column to column and from row to row."""
        size = len(self.places)
        owner = np.repeat(np.arange(size, dtype=np.int64), np.diff(self.columns.starts))
        return owner * size + self.columns.rows


def envelope(matrix: Matrix) -> int:
    """The entries from the first of each row to its diagonal, in the order of Cuthill and McKee: room for a factor."""
    order = graphs.reverse_cuthill_mckee(sparse.csr_array(matrix), symmetric_mode=True)
    places: np.ndarray = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    columns = np.repeat(np.arange(len(order)), np.diff(matrix.indptr))
    first = places.copy()
    np.minimum.at(first, columns, places[matrix.indices])
    return int((places - first).sum())


def factorise(matrix: Matrix, keep_order: bool = False) -> SparseCholesky:
    """Factorise a symmetric matrix, if it fills in little enough to be kept; in the order of its rows if asked to."""
    size: int = matrix.shape[0]
    if (entries := envelope(matrix)) > LARGEST:
        raise DataError(
            f"the sparse factor of a precision of {size:,} coupled normals",
            expected=f"at most {LARGEST:,} entries between the first of each row and its diagonal, in a good order",
            nearest=f"{entries:,}: each is coupled to many that are not near each other, as in a random graph",
            advice="observe some of them, or sample the model with NumPyro",
        )
    order = "NATURAL" if keep_order else "MMD_AT_PLUS_A"
    try:
        factors = algebra.splu(
            matrix, permc_spec=order, diag_pivot_thresh=0.0, options={"SymmetricMode": True, "Equil": False}
        )
    except RuntimeError:  # exactly singular
        return SparseCholesky(matrix, None, np.zeros(size))
    if (factors.perm_r != factors.perm_c).any():  # a pivot of 0 on the diagonal
        return SparseCholesky(matrix, None, np.zeros(size))
    return SparseCholesky(matrix, factors, factors.U.diagonal())
