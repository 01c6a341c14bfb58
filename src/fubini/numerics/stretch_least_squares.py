"""Least squares over a stretch of a chain of cells: all but its first are eliminated, which leaves rows in two.

Each row of place t is in the cells x_t and x_(t+1). Of a stretch from a to b − 1, the unknowns x_(a+1) … x_(b−1) are
eliminated against all rows that have them, one after another; rows in x_a and x_b remain. Those of all stretches are a
chain of the first cells (nested dissection: George 1973).
"""

from __future__ import annotations

from fubini.base.arrays import Data
from fubini.numerics.arithmetic import scanned, xp_of
from fubini.numerics.least_squares import reduce_rows, reduced


def eliminate_inside(rows: Data) -> tuple[Data, Data]:
    """Of the rows [t, …, row, column] of a stretch: those that remain, and log |UᵀU| of what is eliminated.

    Their columns are a cell, the next one, and the right side.
    """
    xp, size = xp_of(rows), (rows.shape[-1] - 1) // 2

    def step(carried: Data, here: Data) -> tuple[Data, Data]:
        """Rows carried are in x_a, x_t and on the right."""
        first, own, right = carried[..., :size], carried[..., size : 2 * size], carried[..., 2 * size :]
        before = xp.concatenate([first, xp.zeros_like(first), right], axis=-1)
        after = xp.concatenate([xp.zeros_like(here[..., :size]), here[..., size:]], axis=-1)
        inputs = xp.concatenate([own, here[..., :size]], axis=-2)
        remaining = reduce_rows(inputs, xp.concatenate([before, after], axis=-2))
        return reduced(remaining.residual), remaining.logdet

    left, logdets = scanned(step, reduced(rows[0]), rows[1:])
    return left, xp.sum(logdets, axis=0)
