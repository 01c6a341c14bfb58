"""Sparse least squares in a JAX program: the numbers come from the host, with the first derivatives of two of them."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data
from fubini.errors import DomainError
from fubini.numerics.arithmetic import xp_of
from fubini.numerics.host_calls import host_call
from fubini.numerics.sparse_least_squares import KnownSolution, RowSizes, SparseRows, SparseSolution, solve_rows

differentiable: Any = partial(jax.custom_jvp, nondiff_argnums=(0,))


class TracedSolution(NamedTuple):
    """log |AᵀA| and min |A x − b|², and what solutions come from."""

    rows: SparseRows
    sizes: RowSizes
    logdet: Data
    rss: Data

    def at(self, noise: Data) -> Data:
        """x̂ and a draw around it, for each draw [… draw, unknown] of standard normal noise."""
        flat = noise.reshape(-1, noise.shape[-1])
        return jax.vmap(partial(_at, self.sizes, *self.rows))(flat).reshape(noise.shape)

    def roots(self) -> Data:
        """Columns whose products with themselves add up to the covariance (AᵀA)⁻¹: a dense matrix."""
        every = jnp.eye(self.sizes.unknowns, dtype=self.logdet.dtype)
        return (self.at(every) - self.at(jnp.zeros_like(every[0]))).T

    @property
    def variances(self) -> Data:
        """The diagonal of (AᵀA)⁻¹."""
        return _variances(self.sizes, *self.rows)


def solve_sparse(rows: SparseRows, sizes: RowSizes) -> KnownSolution | TracedSolution:
    """The solution of rows, on NumPy or JAX as they are."""
    if xp_of(*rows) is np:
        return solve_rows(rows, sizes)
    entries, right = jnp.asarray(rows.entries), jnp.asarray(rows.right)
    rows = SparseRows(entries, jnp.asarray(rows.columns).astype(jnp.int32), right.astype(entries.dtype))
    return TracedSolution(rows, sizes, *_logdet_and_rss(sizes, *rows))


# -- log |AᵀA| and the minimum ----------------------------------------------------------------------------------------


@differentiable
def _logdet_and_rss(sizes: RowSizes, entries: Data, columns: Data, right: Data) -> tuple[Data, ...]:
    def compute(*rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        solution = solve_rows(SparseRows(*rows), sizes)
        return solution.logdet, solution.rss

    return host_call(compute, ((), ()), entries.dtype, entries, columns, right)


@_logdet_and_rss.defjvp
def _differentiate(sizes: RowSizes, primals: Any, tangents: Any) -> Any:
    """d log |AᵀA| = 2 tr (AᵀA)⁻¹ Aᵀ dA,  d min |A x − b|² = 2 (b − A x̂)·(db − dA x̂)"""
    d_entries, _, d_right = tangents
    logdet, rss, of_logdet, of_entries, of_right = _slopes(sizes, *primals)
    d_rss = jnp.sum(of_entries * d_entries) + jnp.sum(of_right * d_right)
    return (logdet, rss), (jnp.sum(of_logdet * d_entries), d_rss)


@differentiable
def _slopes(sizes: RowSizes, entries: Data, columns: Data, right: Data) -> tuple[Data, ...]:
    """Both numbers, and the slopes of the first in the entries, of the second in the entries and the right sides."""

    def compute(*rows: np.ndarray) -> tuple[np.ndarray, ...]:
        return _known_slopes(SparseRows(*rows), sizes)

    return host_call(compute, _shapes(entries, right), entries.dtype, entries, columns, right)


@_slopes.defjvp
def _differentiate_slopes(sizes: RowSizes, primals: Any, tangents: Any) -> Any:
    """Second derivatives along a direction, by central differences of the exact first ones."""
    entries, columns, right = primals
    d_entries, _, d_right = tangents

    def compute(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        entries, columns, right, d_entries, d_right = (array.astype(float) for array in arrays)
        along = max(np.abs(d_entries).max(initial=0.0), np.abs(d_right).max(initial=0.0))
        size = max(np.abs(entries).max(initial=0.0), np.abs(right).max(initial=0.0))
        step = np.cbrt(np.finfo(float).eps) * size / along if along else 1.0
        low, high = (
            _known_slopes(SparseRows(entries + way * d_entries, columns, right + way * d_right), sizes)
            for way in (-step, step)
        )
        return tuple((b - a) / (2 * step) for a, b in zip(low, high, strict=True))

    arrays = (entries, columns, right, d_entries, d_right)
    return _slopes(sizes, *primals), host_call(compute, _shapes(entries, right), entries.dtype, *arrays)


def _shapes(entries: Data, right: Data) -> tuple[tuple[int, ...], ...]:
    return (), (), entries.shape, entries.shape, right.shape


def _known_slopes(rows: SparseRows, sizes: RowSizes) -> tuple[np.ndarray, ...]:
    solution = solve_rows(rows, sizes)
    assert isinstance(solution, SparseSolution), "few unknowns are solved for on JAX"
    return solution.logdet, solution.rss, *_slopes_at_entries(solution, rows, sizes), 2 * solution.residual


def _slopes_at_entries(solution: SparseSolution, rows: SparseRows, sizes: RowSizes) -> tuple[np.ndarray, np.ndarray]:
    """2 Σ_k A_rk (AᵀA)⁻¹_kj  and  −2 (b − A x̂)_r x̂_j, at every entry (r, j) of the rows."""
    if not solution.factor.is_regular:
        return np.full(len(rows.entries), np.nan), np.full(len(rows.entries), np.nan)
    of_logdet: list[np.ndarray] = []
    of_rss: list[np.ndarray] = []
    place, first = 0, 0
    for count, width in sizes.blocks:
        entries, columns = (part[place : place + count * width].reshape(count, width) for part in rows[:2])
        inside = (columns >= 0) & (columns < sizes.unknowns)
        columns = np.where(inside, columns, 0).astype(int)
        inverse = solution.factor.inverse.at(columns[:, :, None], columns[:, None, :])
        of_logdet.append(2 * inside * np.einsum("rkj,rk->rj", inverse, np.where(inside, entries, 0.0)))
        of_rss.append(-2 * inside * solution.residual[first : first + count, None] * solution.centre[columns])
        place, first = place + count * width, first + count
    return np.concatenate([part.reshape(-1) for part in of_logdet]), np.concatenate([p.reshape(-1) for p in of_rss])


# -- solutions --------------------------------------------------------------------------------------------------------


@differentiable
def _at(sizes: RowSizes, entries: Data, columns: Data, right: Data, noise: Data) -> Data:
    """x̂ + L⁻ᵀ D^(−½) noise; for draws of one problem all at once"""

    def compute(*arrays: np.ndarray) -> tuple[np.ndarray]:
        *rows, noise = arrays
        lead = np.broadcast_shapes(*(part.shape[:-1] for part in arrays))
        noise = np.broadcast_to(noise, (*lead, sizes.unknowns)).astype(float)
        if all(part.size == part.shape[-1] for part in rows):
            solution = solve_rows(SparseRows(*(part.reshape(-1) for part in rows)), sizes)
            return (_all_at(solution, noise),)
        wide = [np.broadcast_to(part, (*lead, part.shape[-1])).reshape(-1, part.shape[-1]) for part in rows]
        each = zip(*wide, noise.reshape(-1, sizes.unknowns), strict=True)
        return (np.reshape([solve_rows(SparseRows(*own), sizes).at(one) for *own, one in each], noise.shape),)

    arrays = (entries, columns, right, noise)
    return host_call(compute, (noise.shape,), entries.dtype, *arrays, vmap_method="expand_dims")[0]


def _all_at(solution: KnownSolution, noise: np.ndarray) -> np.ndarray:
    if isinstance(solution, SparseSolution):
        return solution.at(noise)
    return np.reshape([solution.at(one) for one in noise.reshape(-1, noise.shape[-1])], noise.shape)


@differentiable
def _variances(sizes: RowSizes, entries: Data, columns: Data, right: Data) -> Data:
    def compute(*rows: np.ndarray) -> tuple[np.ndarray]:
        return (solve_rows(SparseRows(*rows), sizes).variances,)

    return host_call(compute, ((sizes.unknowns,),), entries.dtype, entries, columns, right)[0]


def _refuse(sizes: RowSizes, primals: Any, tangents: Any) -> Any:
    raise DomainError(
        f"a derivative of draws or moments of {sizes.unknowns:,} coupled normals",
        expected="a derivative of their evidence, or of the density of the remaining latents",
        nearest="they are solved for by sparse factors, and these solutions are not differentiated",
        advice="differentiate log_evidence() or log_prob(…), or draw outside the derivative",
    )


_at.defjvp(_refuse)
_variances.defjvp(_refuse)
