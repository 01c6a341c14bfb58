"""A normal density of a vector or matrix with the precision P = AᵀA ⊗ BᵀB + v I, of as many entries as rows × columns.

Its covariance is never made: moments and draws come from the singular vectors of A and B.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from fubini.base import ops
from fubini.base.arrays import Data, is_traced, namespace
from fubini.base.domains import Domain, Real
from fubini.base.names import Name
from fubini.factors.large_gaussian import LargeGaussian
from fubini.numerics.kronecker_least_squares import KroneckerRows, KroneckerSolution
from fubini.terms.exactness import Exactness, exactly
from fubini.terms.fields import array_field
from fubini.terms.value import Apply, Array, Value, Variable


class KroneckerGaussian(LargeGaussian):
    """The density of one real array, row after row, with precision AᵀA ⊗ BᵀB + v I."""

    left: Data = array_field()
    right: Data = array_field()
    noise: Data = array_field()

    def __init__(
        self,
        centre: Data,
        left: Data,
        right: Data,
        noise: Data,
        reals: Sequence[tuple[Name, Domain]],
        mark: Exactness = exactly,
    ) -> None:
        self._set(centre=centre, left=left, right=right, noise=noise)
        self._set(reals=tuple(reals), mark=mark, inputs=dict(reals))

    @property
    def _solution(self) -> KroneckerSolution:
        """The problem around 0, in double precision unless it is traced."""
        arrays = self.left, self.right, self.noise
        left, right, noise = arrays if is_traced(*arrays) else (np.asarray(part, float) for part in arrays)
        zero = namespace(left).zeros((left.shape[0], right.shape[0]), left.dtype)
        return KroneckerSolution(KroneckerRows(left, right, zero, zero, namespace(left).ones((), left.dtype), noise))

    def _noise(self, standard: Data) -> Data:
        return self._solution.at(standard if is_traced(self.left) else np.asarray(standard, float))

    def _exponent(self, variables: tuple[Variable, ...]) -> Value:
        parts = (self.centre, self.left, self.right, self.noise)
        arrays = [Array._of(part, (), {}, Real.with_shape(part.shape)) for part in parts]
        return Apply(ops.lift(_squares), (*arrays, *variables))


def _squares(centre: Data, left: Data, right: Data, noise: Data, variable: Data) -> Data:
    """−½ |A Z Bᵀ|² − ½ v |Z|², of Z = X − M"""
    z = (jnp.reshape(variable, -1) - centre).reshape(left.shape[0], right.shape[0])
    return -0.5 * jnp.sum((left @ z @ right.T) ** 2) - 0.5 * noise * jnp.sum(z**2)
