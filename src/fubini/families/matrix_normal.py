"""MatrixNormal(loc, scale_tril_row, scale_tril_column): a normal matrix whose rows and columns are correlated."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from numpyro.distributions import constraints

from fubini.algebra.build import ONE, add, index, minus, power, times
from fubini.algebra.node import Node
from fubini.algebra.sums import total
from fubini.families.family import Family, register
from fubini.families.functions import LOG_2PI, log
from fubini.families.multivariate_normal import FORMS
from fubini.families.parameters import DerivedParameter, Matrix


def log_matrix_normal(x: Matrix, parameters: Mapping[str, Any]) -> Node:
    """−½ |A (X − M) Bᵀ|² + m log |A| + n log |B| − ½ n m log 2π, with AᵀA, BᵀB the precisions of n rows, m columns"""
    rows, columns, loc = parameters["row_root"], parameters["column_root"], parameters["loc"]
    i, j, k, c = rows.rows, rows.columns, columns.rows, columns.columns
    residual = minus(x.at(index(j), index(c)), loc.at(index(j), index(c)))
    square = total([i, k], power(total([j, c], times(rows.entry, columns.entry, residual)), 2.0))
    of_rows = total([i], log(rows.at(index(i), index(i))))
    of_columns = total([k], log(columns.at(index(k), index(k))))
    n, m = float(i.size), float(k.size)
    return add(((square, -0.5), (of_rows, m), (of_columns, n), (ONE, -0.5 * n * m * LOG_2PI)))


def _same_shape(root: tuple[int, ...]) -> tuple[int, ...]:
    return root


def derived(names: Collection[str]) -> dict[str, DerivedParameter]:
    """The roots of the precisions of rows and of columns."""
    root, degree, _ = FORMS["scale_tril"]
    return {
        f"{side}_root": DerivedParameter(f"{side} whitening", (f"scale_tril_{side}",), root, _same_shape, 2, degree)
        for side in ("row", "column")
    }


MATRIX_NORMAL = register(
    Family(
        "MatrixNormal",
        {
            "loc": constraints.real_matrix,
            "scale_tril_row": constraints.lower_cholesky,
            "scale_tril_column": constraints.lower_cholesky,
        },
        lambda parameters: None,
        log_matrix_normal,
        names=("MatrixNormal",),
        event_dim=2,
        derived=derived,
    )
)
