"""A normal density of many unknowns with a sparse precision: (2π)^(−d/2) |AᵀA|^(½) exp(−½ |A (z − m)|²).

Its covariance is dense, and never made: moments, draws and the density itself come from a sparse factor of AᵀA.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import jax.numpy as jnp
import numpy as np

from fubini.base import ops
from fubini.base.arrays import Data, is_traced, namespace
from fubini.base.domains import Domain, Real
from fubini.base.names import Name
from fubini.factors.large_gaussian import LargeGaussian
from fubini.numerics.sparse_callbacks import TracedSolution, solve_sparse
from fubini.numerics.sparse_least_squares import KnownSolution, RowSizes, SparseRows
from fubini.terms.exactness import Exactness, exactly
from fubini.terms.fields import array_field, static_field
from fubini.terms.value import Apply, Array, Value, Variable


class SparseGaussian(LargeGaussian):
    """The density of real arrays z whose precision is AᵀA, with few entries in each row of A.

    `rows` are those of A, one block after another, `sizes` the number and the length of those of each block.
    """

    entries: Data = array_field()
    columns: Data = array_field()
    sizes: RowSizes = static_field()

    def __init__(
        self,
        centre: Data,
        rows: SparseRows,
        sizes: RowSizes,
        reals: Sequence[tuple[Name, Domain]],
        names: Sequence[Name],
        mark: Exactness = exactly,
    ) -> None:
        inputs = {name: domain for name, domain in reals if name in names}
        self._set(centre=centre, entries=rows.entries, columns=rows.columns, sizes=sizes)
        self._set(reals=tuple(reals), mark=mark, inputs=inputs)

    @property
    def rows(self) -> SparseRows:
        """A, and 0 on the right."""
        count = sum(count for count, _ in self.sizes.blocks)
        return SparseRows(self.entries, self.columns, namespace(self.entries).zeros(count, self.entries.dtype))

    @cached_property
    def _solution(self) -> KnownSolution | TracedSolution:
        """The factor of AᵀA, in double precision unless it is traced."""
        rows = self.rows
        return solve_sparse(rows if is_traced(*rows) else SparseRows(*map(np.asarray, rows)), self.sizes)

    def _noise(self, standard: Data) -> Data:
        return self._solution.at(
            standard if isinstance(self._solution, TracedSolution) else np.asarray(standard, float)
        )

    def _exponent(self, variables: tuple[Variable, ...]) -> Value:
        arrays = [Array._of(part, (), {}, Real.with_shape(part.shape)) for part in (self.centre, self.entries)]
        columns = Array._of(namespace(self.columns).asarray(self.columns, float), (), {}, Real[self.columns.shape[0]])
        return Apply(ops.lift(_Exponent(self.sizes)), (*arrays, columns, *variables))


class _Exponent:
    """−½ |A (z − m)|². A function that compares by what it is made of."""

    __name__ = "squares"

    def __init__(self, sizes: RowSizes) -> None:
        self.sizes = sizes

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.sizes == other.sizes

    def __hash__(self) -> int:
        return hash((type(self), self.sizes))

    def __call__(self, centre: Data, entries: Data, columns: Data, *variables: Data) -> Data:
        z = jnp.concatenate([jnp.reshape(variable, -1) for variable in variables]) - centre
        products = entries * jnp.take(z, columns.astype(int), mode="fill", fill_value=0.0)
        total, start = jnp.zeros((), z.dtype), 0
        for count, width in self.sizes.blocks:
            rows = products[start : start + count * width].reshape(count, width).sum(axis=1)
            total, start = total + jnp.sum(rows**2), start + count * width
        return -0.5 * total
