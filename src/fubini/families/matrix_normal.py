"""MatrixNormal(loc, scale_tril_row, scale_tril_column): a normal matrix whose rows and columns are correlated."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from numpyro.distributions import constraints

from fubini.algebra.build import index, minus
from fubini.algebra.node import Node
from fubini.families.family import Family, register
from fubini.families.multivariate_normal import FORMS, log_of_matrix
from fubini.families.parameters import DerivedParameter, Matrix


def log_matrix_normal(x: Matrix, parameters: Mapping[str, Any]) -> Node:
    """−½ |A (X − M) Bᵀ|² + m log |A| + n log |B| − ½ n m log 2π, with AᵀA, BᵀB the precisions of n rows, m columns"""
    loc = parameters["loc"]
    residual = Matrix(x.rows, x.columns, minus(x.entry, loc.at(index(x.rows), index(x.columns))))
    return log_of_matrix(residual, parameters["row_root"], parameters["column_root"])


def _same_shape(root: tuple[int, ...]) -> tuple[int, ...]:
    return root


def derived(names: Collection[str]) -> dict[str, DerivedParameter]:
    """The roots of the precisions of rows and of columns."""
    form = FORMS["scale_tril"]
    return {
        f"{side}_root": DerivedParameter(
            f"{side} whitening", (f"scale_tril_{side}",), form.root, _same_shape, 2, form.degree
        )
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
