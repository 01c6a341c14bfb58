"""MultivariateNormal(loc, covariance_matrix, precision_matrix or scale_tril): |A| (2π)^(−d/2) e^(−½ |A (x − μ)|²)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import constraints

from fubini.algebra.build import ONE, ZERO, add, index, minus, power, times, where
from fubini.algebra.node import Node
from fubini.algebra.sums import total
from fubini.base.arrays import Data
from fubini.families.family import Family, register
from fubini.families.functions import LOG_2PI, log
from fubini.families.parameters import Arrays, DerivedParameter, Matrix, Vector


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
    """A matrix as a parameter: the root of the precision, its degree in the matrix, and the covariance."""

    root: Callable[[Data], Data]
    degree: float
    covariance: Callable[[Data], Data]


def _squared(root: Data) -> Data:
    """L Lᵀ"""
    return root @ jnp.swapaxes(root, -1, -2)


def _same(matrix: Data) -> Data:
    return matrix


FORMS = {
    "scale_tril": MatrixForm(inverse, -1.0, _squared),
    "covariance_matrix": MatrixForm(root_of_covariance, -0.5, _same),
    "precision_matrix": MatrixForm(root_of_precision, 0.5, jnp.linalg.inv),
}


def derived(names: Collection[str]) -> dict[str, DerivedParameter]:
    """The root of the precision; of entries that are missing, with variance 1 and independent of the others."""
    key, form = next((key, form) for key, form in FORMS.items() if key in names)
    if "present" not in names:
        return {"root": DerivedParameter("whitening", (key,), form.root, _same, 2, form.degree)}

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
        has_marginals=True,
    )
)
