"""Counts, means and squares of some rows, by programs that run on devices: as `row_statistics` joins them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from fubini.base import lax_loops
from fubini.base.arrays import Data
from fubini.numerics.row_statistics import ALMOST_ORTHOGONAL

of_jax: Any = jax  # whose functions tell nothing of Data


def squares(columns: Data, weights: Data | None, is_centred: bool) -> tuple[Data, Data, Data]:
    """n, m and R of rows [column, row]."""
    width, rows = columns.shape
    count = jnp.asarray(float(rows)) if weights is None else jnp.sum(weights)
    mean = jnp.zeros(width)
    if is_centred:
        mean = columns.mean(1) if weights is None else columns @ weights / jnp.where(count == 0, 1.0, count)
        columns = columns - mean[:, None]
    return count, mean, _root(columns if weights is None else columns * jnp.sqrt(weights))


def grouped_squares(
    columns: Data, weights: Data | None, group: Data, groups: int, is_centred: bool
) -> tuple[Data, Data, Data]:
    """n, m and S of rows [column, row] in each group; those of group −1 are in none."""
    inside = group >= 0
    weights = jnp.where(inside, 1.0 if weights is None else weights, 0.0)
    columns, group = jnp.where(inside, columns, 0.0), jnp.where(inside, group, 0)
    count, mean = jax.ops.segment_sum(weights, group, groups), jnp.zeros((groups, len(columns)))
    if is_centred:
        safe = jnp.where(count == 0, 1.0, count)[:, None]
        mean = jax.ops.segment_sum((columns * weights).T, group, groups) / safe
        columns = columns - mean[group].T
    products = columns[:, None] * columns[None, :] * weights
    return count, mean, jax.ops.segment_sum(jnp.moveaxis(products, -1, 0), group, groups)


def _root(columns: Data) -> Data:
    """R with RᵀR = A Aᵀ of rows A [column, row], as `row_statistics` finds it on the host; a square matrix."""
    width, rows = columns.shape
    if width == 0:
        return jnp.zeros((0, 0))
    if rows < 4 * width:
        root = jnp.linalg.qr(columns.T, mode="r")
        return jnp.pad(root, [(0, width - len(root)), (0, 0)])
    sizes = jnp.sqrt(jnp.einsum("cr,cr->c", columns, columns))
    empty = jnp.diag(1.0 * (sizes == 0))
    scaled = columns / jnp.where(sizes == 0, 1.0, sizes)[:, None]
    first: Data = of_jax.numpy.linalg.cholesky(scaled @ scaled.T + empty)
    orthogonal = of_jax.scipy.linalg.solve_triangular(first, scaled, lower=True)
    product = orthogonal @ orthogonal.T + empty
    is_sound = jnp.max(jnp.abs(product - jnp.eye(width))) < ALMOST_ORTHOGONAL  # false where it is not a number
    return lax_loops.cond(
        is_sound,
        lambda: of_jax.numpy.linalg.cholesky(product).T @ first.T * sizes,
        lambda: of_jax.numpy.linalg.qr(columns.T, mode="r"),
    )
