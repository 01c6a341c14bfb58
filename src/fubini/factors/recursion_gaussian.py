"""A normal density of what linear recursions take step by step: (2π)^(−d/2) |AᵀA|^(½) exp(−½ |A (z − m)|²).

Neither A nor the covariance is made: moments, draws and the density itself come from one pass over the steps.
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
from fubini.numerics.least_squares import LinearRecursions
from fubini.numerics.recursion_least_squares import RecursionSolution, solve_recursions
from fubini.numerics.recursion_rows import RecursionRows, residuals, rows_around_zero
from fubini.terms.exactness import Exactness, exactly
from fubini.terms.fields import array_field, static_field
from fubini.terms.value import Apply, Array, Value, Variable


class RecursionGaussian(LargeGaussian):
    """The density of real arrays z whose precision is AᵀA, with outputs of linear recursions in the rows of A."""

    transition: Data = array_field()  # [F G] of each step
    rows: Data = array_field()  # [E S B] of each step
    alone: Data = array_field()  # rows of the other unknowns
    sizes: LinearRecursions = static_field()

    def __init__(
        self,
        centre: Data,
        rows: RecursionRows,
        sizes: LinearRecursions,
        reals: Sequence[tuple[Name, Domain]],
        names: Sequence[Name],
        mark: Exactness = exactly,
    ) -> None:
        (F, G, E, S, B, _), (alone, _) = rows
        xp = namespace(E)
        self._set(transition=xp.concatenate([F, G], axis=-1), rows=xp.concatenate([E, S, B], axis=-1), alone=alone)
        inputs = {name: domain for name, domain in reals if name in names}
        self._set(centre=centre, sizes=sizes, reals=tuple(reals), mark=mark, inputs=inputs)

    @cached_property
    def _solution(self) -> RecursionSolution:
        """The problem around 0, in double precision unless it is traced."""
        arrays = self.transition, self.rows, self.alone
        arrays = arrays if is_traced(*arrays) else tuple(np.asarray(part, float) for part in arrays)
        return solve_recursions(self.sizes, rows_around_zero(self.sizes, *arrays))

    def _noise(self, standard: Data) -> Data:
        return self._solution.at(standard if is_traced(self.rows) else np.asarray(standard, float))

    def _exponent(self, variables: tuple[Variable, ...]) -> Value:
        parts = (self.centre, self.transition, self.rows, self.alone)
        arrays = [Array._of(part, (), {}, Real.with_shape(part.shape)) for part in parts]
        return Apply(ops.lift(_Exponent(self.sizes)), (*arrays, *variables))


class _Exponent:
    """−½ |A (z − m)|². A function that compares by what it is made of."""

    __name__ = "squares"

    def __init__(self, sizes: LinearRecursions) -> None:
        self.sizes = sizes

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.sizes == other.sizes

    def __hash__(self) -> int:
        return hash((type(self), self.sizes))

    def __call__(self, centre: Data, transition: Data, rows: Data, alone: Data, *variables: Data) -> Data:
        z = jnp.concatenate([jnp.reshape(variable, -1) for variable in variables]) - centre
        steps, others = residuals(self.sizes, rows_around_zero(self.sizes, transition, rows, alone), z)
        return -0.5 * (jnp.sum(steps**2) + jnp.sum(others**2))
