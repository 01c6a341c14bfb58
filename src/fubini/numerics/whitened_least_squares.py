"""min_x |L⁻¹ (x − m)|² + |H x − b|² for unknowns with the covariance K = L Lᵀ, of which few rows H are known.

In the unknowns u = L⁻¹ (x − m) it is min |u|² + |H L u − r|² with r = b − H m, which the rows of the data decide
(Rasmussen and Williams 2006, equation 3.26): with C = I + H K Hᵀ, by a Cholesky factor of one matrix,

|I + (H L)ᵀ (H L)|  =  |C|  and  min |u|² + |H L u − r|²  =  rᵀ C⁻¹ r.

Rows of one unknown are joined to one first, and what they differ by is added to the least squares: else C would be all
but singular for them, and their differences the difference of large numbers. Then no pivot of C is less than 1.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

from fubini.base import lax_loops
from fubini.base.arrays import Data
from fubini.numerics.arithmetic import constant, xp_of
from fubini.numerics.sparse_least_squares import SparseRows

np_of_jax: Any = jnp  # some functions of which have no types that are known
linalg: Any = scipy.linalg
np_linalg: Any = np.linalg
ROUNDING = 1e-2  # the largest error of log |C|
LARGE = 256  # rows of a triangle that BLAS inverts sooner


class WhitenedRows(NamedTuple):
    """The covariance K and the mean m of the unknowns, and rows H x = b of one entry each."""

    covariance: Data
    mean: Data
    entries: Data
    columns: Data
    right: Data


class WhitenedSolution(NamedTuple):
    """log |C| and rᵀ C⁻¹ r, and what solutions come from."""

    rows: WhitenedRows
    logdet: Data
    rss: Data

    @property
    def _posterior(self) -> tuple[Data, Data, Data]:
        """L, G = H L, and the Cholesky factor R of I + GᵀG, so that (K⁻¹ + HᵀH)⁻¹ = L (R Rᵀ)⁻¹ Lᵀ."""
        L = cholesky(self.rows.covariance)
        G = self.rows.entries[:, None] * L[self.rows.columns]
        xp = xp_of(G)
        return L, G, cholesky(xp.eye(len(L), dtype=G.dtype) + G.T @ G)

    def at(self, noise: Data) -> Data:
        """x̂ = m + L (R Rᵀ)⁻¹ Gᵀ r and a draw around it, for each draw [… draw, unknown] of standard normal noise."""
        L, G, R = self._posterior
        pushed = solved(R, (G.T @ residual(self.rows))[:, None])
        u = solved(R, pushed + noise.reshape(-1, noise.shape[-1]).T, transposed=True)
        return (self.rows.mean + (L @ u).T).reshape(noise.shape)

    def roots(self) -> Data:
        """Columns whose products with themselves add up to the covariance (K⁻¹ + HᵀH)⁻¹."""
        L, _, R = self._posterior
        return L @ solved(R, xp_of(R).eye(len(R), dtype=R.dtype), transposed=True)

    @property
    def variances(self) -> Data:
        """The diagonal of (K⁻¹ + HᵀH)⁻¹."""
        return xp_of(self.rows.covariance).sum(self.roots() ** 2, axis=-1)


def whitened_rows(covariance: Data, mean: Data, rows: SparseRows) -> WhitenedRows:
    """Rows that have one entry each; one whose column is none of the unknowns counts for nothing."""
    columns = xp_of(*rows).clip(rows.columns.astype(int), 0, covariance.shape[-1] - 1)
    return WhitenedRows(covariance, mean, rows.entries, columns, rows.right)


def solve_whitened(rows: WhitenedRows) -> WhitenedSolution:
    """log |C| and rᵀ C⁻¹ r; not numbers where K is not positive definite, or where rounding hides them."""
    K, xp = rows.covariance, xp_of(*rows)
    slopes, right, apart = join(rows)
    C = xp.eye(len(slopes), dtype=K.dtype) + slopes[:, None] * K[rows.columns][:, rows.columns] * slopes
    has_root = xp.all(xp.isfinite(xp.diagonal(cholesky(constant(K)))))
    C = C + xp.where(has_root, 0.0, xp.nan)
    logdet, rss = (_solve if xp is np else _solve_on_jax)(C, right)
    return WhitenedSolution(rows, logdet, rss + apart)


def join(rows: WhitenedRows) -> tuple[Data, Data, Data]:
    """Σᵢ (aᵢ x − rᵢ)²  =  (d x − Σᵢ aᵢ rᵢ / d)² + Σᵢ (rᵢ − aᵢ x̄)²,  d² = Σᵢ aᵢ²,  x̄ = Σᵢ aᵢ rᵢ / d²

    d and Σᵢ aᵢ rᵢ / d stand at the first row of each unknown, and 0 at the others. Where d is 0 it has no slope, and
    the rows stay.
    """
    a, r, xp = rows.entries, residual(rows), xp_of(*rows)
    is_same = rows.columns[:, None] == rows.columns
    is_first = xp.argmax(is_same, axis=-1) == xp.arange(len(a))
    squares = is_same.astype(a.dtype) @ a**2
    is_joined = squares > xp.finfo(a.dtype).tiny / xp.finfo(a.dtype).eps
    safe = xp.where(is_joined, squares, 1.0)
    center = is_same.astype(a.dtype) @ (a * r) / safe
    joined = xp.where(is_first, xp.sqrt(safe), 0.0)
    apart = xp.sum(xp.where(is_joined, r - a * center, 0.0) ** 2)
    return xp.where(is_joined, joined, a), xp.where(is_joined, joined * center, r), apart


def residual(rows: WhitenedRows) -> Data:
    """r = b − H m"""
    return rows.right - rows.entries * rows.mean[rows.columns]


def _solve(C: Data, r: Data) -> tuple[Data, Data]:
    """log |C| and rᵀ C⁻¹ r. A pivot d_j of the factor has an error of about ε C_jj, so log |C| one of ε Σ C_jj / d_j"""
    xp, R = xp_of(C, r), cholesky(C)
    pivots = xp.diagonal(R) ** 2
    logdet = xp.sum(xp.log(pivots))
    if C.dtype == xp.float64:
        rounding = xp.finfo(C.dtype).eps * xp.sum(xp.diagonal(C) / pivots)
        logdet = xp.where(rounding <= ROUNDING, logdet, xp.nan)
    return logdet, xp.sum(solved(R, r[:, None]) ** 2)


_solve_on_jax = jax.custom_jvp(_solve)


@_solve_on_jax.defjvp
def _differentiate(primals: Any, tangents: Any) -> Any:
    """d log |C|  =  tr C⁻¹ dC,  d rᵀ C⁻¹ r  =  2 αᵀ dr − αᵀ dC α,  α = C⁻¹ r"""
    (C, r), (dC, dr) = primals, tangents
    inverted = _inverse(C)
    alpha = inverted @ r
    return _solve_on_jax(C, r), (jnp.sum(inverted * dC), 2 * jnp.sum(alpha * dr) - alpha @ dC @ alpha)


@jax.custom_jvp
def _inverse(C: Data) -> Data:
    half = lower_inverse(cholesky(C))
    return half.T @ half


@_inverse.defjvp
def _differentiate_inverse(primals: Any, tangents: Any) -> Any:
    """dC⁻¹  =  −C⁻¹ dC C⁻¹"""
    (C,), (dC,) = primals, tangents
    inverted = _inverse(C)
    return inverted, -inverted @ dC @ inverted


# -- triangles --------------------------------------------------------------------------------------------------------


def cholesky(K: Data) -> Data:
    """L with K = L Lᵀ, lower triangular; not numbers where K is not positive definite."""
    if xp_of(K) is not np:
        return np_of_jax.linalg.cholesky(K)
    try:
        return np_linalg.cholesky(K)
    except np.linalg.LinAlgError:
        return np.full_like(K, np.nan)


def lower_inverse(L: Data) -> Data:
    """L⁻¹ of a lower triangular L on JAX, row by row: BLAS would share its threads with all else that runs."""
    size = len(L)
    if size > LARGE:
        return solved(L, jnp.eye(size, dtype=L.dtype))
    pivots: Data = np_of_jax.diagonal(L)
    below: Data = np_of_jax.tril(L, -1) / pivots[:, None]

    def row(place: Data, X: Data) -> Data:
        return X.at[place].add(-(below[place] @ X))

    return lax_loops.fori_loop(1, size, row, np_of_jax.diag(1 / pivots))


def solved(L: Data, right: Data, transposed: bool = False) -> Data:
    """L⁻¹ R or L⁻ᵀ R of a lower triangular L."""
    if xp_of(L, right) is not np:
        return cast(Data, jax.scipy.linalg.solve_triangular(L, right, trans=int(transposed), lower=True))
    return linalg.solve_triangular(L, right, trans=int(transposed), lower=True, check_finite=False)
