"""MultivariateNormal(loc, covariance_matrix, precision_matrix or scale_tril): |A| (2π)^(−d/2) e^(−½ |A (x − μ)|²)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import constraints

from fubini.algebra.build import ONE, ZERO, add, index, minus, plus, power, scale, times, where
from fubini.algebra.node import Node
from fubini.algebra.sums import total
from fubini.base.arrays import Data
from fubini.families.family import Family, register
from fubini.families.functions import LOG_2PI, log
from fubini.families.parameters import Arrays, DerivedParameter, Matrix, MatrixParameters, Vector
from fubini.families.sparse_squares import square_of
from fubini.numerics.sparse_roots import is_sparse, sparse_root


def log_multivariate_normal(x: Vector, parameters: Mapping[str, Any]) -> Node:
    """−½ |A (x − μ)|² + log |A| − ½ d log 2π, with AᵀA the precision of the d entries that are present"""
    root: Matrix = parameters["root"]
    i, j = root.rows, root.columns
    residual = minus(x.along(j), parameters["loc"].along(j) if "loc" in parameters else ZERO)
    count = [(ONE, -0.5 * j.size * LOG_2PI)]
    if "present" in parameters:
        residual = where(parameters["present"].along(j), residual, ZERO)
        count = [(total([i], where(parameters["present"].along(i), ONE, ZERO)), -0.5 * LOG_2PI)]
    square = total([i], power(total([j], times(root.entry, residual)), 2.0))
    return add(((square, -0.5), (total([i], log(root.at(index(i), index(i)))), 1.0), *count))


# -- structure of known matrices --------------------------------------------------------------------------------------

MANY = 200  # unknowns, from which a precision with few entries that are not 0 is made use of


def log_density_of_structure(x: Vector, parameters: Mapping[str, Any], matrices: MatrixParameters) -> Node | None:
    """The density where the precision is known and sparse, or a matrix is a Kronecker product."""
    residual = Vector(x.over, minus(x.entry, parameters["loc"].along(x.over) if "loc" in parameters else ZERO))
    return _of_sparse_precision(residual, matrices) or _of_kronecker_product(residual, matrices)


def _of_sparse_precision(x: Vector, matrices: MatrixParameters) -> Node | None:
    """−½ c Σ_r (Σ_w a_rw x[c_rw])² + ½ d log c + ½ log |P| − ½ d log 2π, of a precision c P"""
    d = x.over.size
    precision = matrices.numbers("precision_matrix") if d >= MANY else None
    if precision is None or precision.numbers.ndim > 2 or not is_sparse(precision.numbers):
        return None
    root = sparse_root(precision.numbers)
    if root is None:
        return None
    square = add((square_of(block, x, matrices), 1.0) for block in root.blocks)
    constant = 0.5 * root.logdet - 0.5 * d * LOG_2PI
    return add(((times(precision.front, square), -0.5), (log(precision.front), 0.5 * d), (ONE, constant)))


def _of_kronecker_product(x: Vector, matrices: MatrixParameters) -> Node | None:
    """The density of a matrix X whose rows, one after the other, are x, with a precision c AᵀA ⊗ BᵀB"""
    for name, form in FORMS.items():
        root = DerivedParameter("whitening", (name,), form.root, _same, 2, form.degree, form.power)
        product = matrices.kronecker(name, root)
        if product is not None:
            front, left, right = product
            j, c = left.columns, right.columns
            entry = Matrix(j, c, x.at(plus(scale(float(c.size), index(j)), index(c))))
            scaled = power(front, 2 * form.degree)
            return add(((log_of_matrix(entry, left, right, scaled), 1.0), (log(front), form.degree * x.over.size)))
    return None


def log_of_matrix(x: Matrix, left: Matrix, right: Matrix, front: Node = ONE) -> Node:
    """−½ c |A X Bᵀ|² + m log |A| + n log |B| − ½ n m log 2π, of n rows and m columns"""
    i, j, k, c = left.rows, left.columns, right.rows, right.columns
    along_rows = total([c], times(right.entry, x.at(index(j), index(c))))
    square = total([i, k], power(total([j], times(left.entry, along_rows)), 2.0))
    of_rows = total([i], log(left.at(index(i), index(i))))
    of_columns = total([k], log(right.at(index(k), index(k))))
    n, m = float(i.size), float(k.size)
    return add(((times(front, square), -0.5), (of_rows, m), (of_columns, n), (ONE, -0.5 * n * m * LOG_2PI)))


# -- roots of the precision -----------------------------------------------------------------------------------------


def inverse(root: Data) -> Data:
    """L⁻¹"""
    eye = jnp.broadcast_to(jnp.eye(root.shape[-1], dtype=root.dtype), root.shape)
    return jax.scipy.linalg.solve_triangular(root, eye, lower=True)


def root_of_covariance(covariance: Data) -> Data:
    """A with AᵀA = S⁻¹"""
    return inverse(jnp.linalg.cholesky(covariance))


def root_of_precision(precision: Data) -> Data:
    """A with AᵀA = P"""
    return jnp.swapaxes(cast(Data, jnp.linalg.cholesky(precision)), -1, -2)


class MatrixForm(NamedTuple):
    """A matrix as a parameter: the root of the precision, its degree in the matrix, and the covariance.

    The precision is a power of the matrix, 1 or −1, unless it is the root that is given.
    """

    root: Callable[[Data], Data]
    degree: float
    covariance: Callable[[Data], Data]
    power: int | None = None


def _squared(root: Data) -> Data:
    """L Lᵀ"""
    return root @ jnp.swapaxes(root, -1, -2)


def _same(matrix: Data) -> Data:
    return matrix


FORMS = {
    "scale_tril": MatrixForm(inverse, -1.0, _squared),
    "covariance_matrix": MatrixForm(root_of_covariance, -0.5, _same, -1),
    "precision_matrix": MatrixForm(root_of_precision, 0.5, jnp.linalg.inv, 1),
}


def derived(names: Collection[str]) -> dict[str, DerivedParameter]:
    """The root of the precision; of entries that are missing, with variance 1 and independent of the others."""
    key, form = next((key, form) for key, form in FORMS.items() if key in names)
    if "present" not in names:
        return {"root": DerivedParameter("whitening", (key,), form.root, _same, 2, form.degree, form.power)}

    def root(matrix: Data, present: Data) -> Data:
        both = (present[..., :, None] != 0) & (present[..., None, :] != 0)
        return root_of_covariance(jnp.where(both, form.covariance(matrix), jnp.eye(present.shape[-1])))

    def shape(matrix: tuple[int, ...], present: tuple[int, ...]) -> tuple[int, ...]:
        return (*np.broadcast_shapes(matrix[:-2], present[:-1]), *matrix[-2:])

    return {"root": DerivedParameter("whitening", (key, "present"), root, shape, 2)}


def draw_later(key: Data, parameters: Arrays, first: Data, count: int) -> Data:
    """x₂ = μ₂ + L₂₁ L₁₁⁻¹ (x₁ − μ₁) + L₂₂ z, with z standard normal and L Lᵀ the covariance"""
    name, form = next((name, form) for name, form in FORMS.items() if name in parameters)
    matrix = parameters[name]
    root = matrix if name == "scale_tril" else cast(Data, jnp.linalg.cholesky(form.covariance(matrix)))
    n = first.shape[-1]
    loc = jnp.broadcast_to(parameters.get("loc", jnp.zeros(())), (*first.shape[:-1], n + count))
    root = jnp.broadcast_to(root, (*first.shape[:-1], n + count, n + count))
    z = jax.random.normal(key, (*first.shape[:-1], count), first.dtype)
    residual = (first - loc[..., :n])[..., None]
    known = jax.scipy.linalg.solve_triangular(root[..., :n, :n], residual, lower=True)
    later = root[..., n:, :n] @ known + root[..., n:, n:] @ z[..., None]
    return loc[..., n:] + later[..., 0]


MULTIVARIATE_NORMAL = register(
    Family(
        "MultivariateNormal",
        {"loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite},
        lambda parameters: None,
        log_multivariate_normal,
        names=("MultivariateNormal",),
        alternatives={
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
        },
        draw_later=draw_later,
        event_dim=1,
        derived=derived,
        structured=log_density_of_structure,
        has_marginals=True,
        degree=(2, True),
    )
)
