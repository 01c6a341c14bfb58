"""Least squares of chains of cells whose time lies on a mesh: each device eliminates the cells of its stretch.

What stretches leave, a few rows each, is told to all devices, which solve the chain of the first cells of stretches.
"""

from __future__ import annotations

from functools import cached_property

from fubini.algebra.placement import numpy_of_jax as jnp
from fubini.algebra.time_stretches import Placement, Stretches, fill
from fubini.base.arrays import Data
from fubini.numerics.least_squares import LeastSquaresSolution, Unknowns, solve_rows
from fubini.numerics.stretch_least_squares import eliminate_inside


class StretchedSolution:
    """log |AᵀA| and min |A x − b|² of rows [… outer, t, row, column], stretch by stretch; solutions of all rows."""

    def __init__(self, rows: Data, frame: Unknowns, placement: Placement | Stretches) -> None:
        self.rows, self.frame, self.placement = rows, frame, placement
        self.outer, self.length = rows.shape[:-3], rows.shape[-3]

    @property
    def logdet(self) -> Data:
        """log |AᵀA|"""
        return self._answers[..., 0]

    @property
    def rss(self) -> Data:
        """min |A x − b|²"""
        return self._answers[..., 1]

    @property
    def variances(self) -> Data:
        """The diagonal of (AᵀA)⁻¹ of one cell."""
        return self._whole.variances

    def at(self, noise: Data) -> Data:
        """x with U (x − x̂) = noise, in the order of the frame: a draw, if the noise is standard normal."""
        return self._whole.at(noise)

    def roots(self) -> Data:
        """Columns whose products with themselves add up to the covariance (AᵀA)⁻¹: [outer, frame, cell, column]."""
        return self._whole.roots()

    @cached_property
    def _whole(self) -> LeastSquaresSolution:
        """The solution from the rows of all times, on each device."""
        return solve_rows(self.rows, self.frame)

    @cached_property
    def _answers(self) -> Data:
        placement, cell = self.placement, self.frame.cell

        def local(rows: Data, _: Data) -> Data:
            left, logdet = eliminate_inside(rows)
            told = jnp.moveaxis(placement.tell_all(left), 0, -3)
            firsts = solve_rows(told, Unknowns(told.shape[-3], cell))
            return jnp.stack([firsts.logdet + jnp.sum(placement.tell_all(logdet), axis=0), firsts.rss], axis=-1)

        def compute(rows: Data) -> Data:
            return placement.on_each(local, is_in_time=False, steps=self._filled(rows), more=[])

        return placement.placed(compute, is_in_time=False)(self.rows)[tuple(map(slice, self.outer))]

    def _filled(self, rows: Data) -> Data:
        """The rows [t, … outer, row, column]; cells behind the end, which devices are filled up with, are 0."""
        cell, shape = self.frame.cell, (self.length, *self.outer)
        sizes = self.placement.filled(shape)
        has_next = jnp.arange(self.length)[:, None, None] < self.length - 1
        is_own = jnp.arange(rows.shape[-1]) // cell != 1
        rows = fill(jnp.moveaxis(jnp.where(has_next | is_own, rows, 0.0), -3, 0), sizes)
        if tuple(sizes) == shape:
            return rows
        is_behind = 1 - fill(jnp.ones(shape, rows.dtype), sizes)
        single = jnp.eye(cell, rows.shape[-1], dtype=rows.dtype)
        return jnp.concatenate([rows, is_behind[..., None, None] * single], axis=-2)
