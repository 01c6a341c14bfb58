"""Wishart(concentration, scale_matrix, rate_matrix or scale_tril): |X|^((ν − p − 1)/2) e^(−½ tr(V⁻¹ X)) / c."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from numpyro.distributions import constraints

from fubini.algebra.build import ONE, add, const, index, minus, plus, power, scale, times
from fubini.algebra.node import Index, Node
from fubini.algebra.sums import total
from fubini.base.arrays import Data, namespace
from fubini.families.family import Family, register
from fubini.families.functions import log, log_multivariate_gamma, log_rate
from fubini.families.multivariate_normal import inverse, root_of_covariance, root_of_precision
from fubini.families.parameters import Arrays, DerivedParameter, Matrix
from fubini.families.signature import Match, Signature

# -- what the Wishart and its inverse share: a root A of the matrix or of its inverse, and a matrix B -----------------


def log_of_roots(parameters: Mapping[str, Any], power_of_root: Node) -> Node:
    """c Σ log A_ii − ½ |A Cᵀ|² + ν Σ log C_ii − ½ ν p log 2 − log Γ_p(½ ν), with B = CᵀC"""
    degrees: Node = parameters["concentration"]
    root, scatter = parameters["root"], parameters["scatter_root"]
    i, j, k = root.rows, root.columns, Index(root.rows.size)
    p = float(i.size)
    square = total([i, k], power(total([j], times(root.entry, scatter.at(index(k), index(j)))), 2.0))
    return add(
        (
            (times(power_of_root, log_diagonal(root)), 1.0),
            (square, -0.5),
            (times(degrees, log_diagonal(scatter)), 1.0),
            (degrees, -0.5 * p * math.log(2)),
            (log_multivariate_gamma(scale(0.5, degrees), i.size), -1.0),
        )
    )


def log_diagonal(root: Matrix) -> Node:
    """Σ log A_ii"""
    return total([root.rows], log(root.at(index(root.rows), index(root.rows))))


def log_integral(degrees: Node, log_determinant: Node, p: int) -> Node:
    """½ ν p log 2 + log Γ_p(½ ν) − ½ ν log |B|"""
    half = scale(0.5, degrees)
    of_two = scale(p * math.log(2), half)
    return add(((of_two, 1.0), (log_multivariate_gamma(half, p), 1.0), (times(half, log_determinant), -1.0)))


def log_peak(exponent: int, p: int, c: Node, entry: Node, log_determinant: Node) -> Node:
    """The greatest of c log |P| − ½ tr(P B) over matrices P, at 2c B⁻¹:  c p log 2c − c log |B| − c p"""
    return times(c, add(((log_rate(scale(2.0, c)), float(p)), (log_determinant, -1.0), (ONE, -float(p)))))


def _same(matrix: tuple[int, ...]) -> tuple[int, ...]:
    return matrix


def transposed(matrix: Data) -> Data:
    """Lᵀ"""
    return jnp.swapaxes(matrix, -1, -2)


# By the name of the matrix, the root C of it and its degree, and those of its inverse.
ROOTS: Mapping[str, tuple[Callable[[Data], Data], float]] = {
    "scale_matrix": (root_of_precision, 0.5),
    "rate_matrix": (root_of_covariance, -0.5),
    "scale_tril": (transposed, 1.0),
}
ROOTS_OF_INVERSE: Mapping[str, tuple[Callable[[Data], Data], float]] = {
    "scale_matrix": (root_of_covariance, -0.5),
    "rate_matrix": (root_of_precision, 0.5),
    "scale_tril": (inverse, -1.0),
}


def derived_roots(
    names: Collection[str],
    roots: Mapping[str, tuple[Callable[[Data], Data], float]],
    of_value: Callable[[Data], Data],
    exponent: int,
) -> dict[str, DerivedParameter]:
    """A of the value, with AᵀA = X^exponent, and C of the matrix that is given."""
    key = next(name for name in roots if name in names)
    root, degree = roots[key]
    return {
        "root": DerivedParameter("root", ("value",), of_value, _same, 2, 0.5 * exponent, exponent),
        "scatter_root": DerivedParameter("scatter root", (key,), root, _same, 2, degree),
    }


def bartlett(key: Data, degrees: Data, p: int) -> Data:
    """T, lower triangular, with T Tᵀ a Wishart of scale 1: T_ii² ~ χ²(ν − i) for i = 0, 1 …, and normals below"""
    first, second = jax.random.split(key)
    freedom = degrees[..., None] - jnp.arange(p, dtype=degrees.dtype)
    diagonal = jnp.sqrt(2 * jax.random.gamma(first, 0.5 * freedom))
    below = jnp.tril(jax.random.normal(second, (*degrees.shape, p, p), degrees.dtype), -1)
    return below + diagonal[..., None] * jnp.eye(p, dtype=degrees.dtype)


def matrix_family(
    name: str,
    log_density: Callable[..., Node],
    match: Callable[..., Match | None],
    derived: Callable[[Collection[str]], dict[str, DerivedParameter]],
    **others: Any,
) -> Family:
    """The record of a family of positive definite matrices with degrees of freedom and a matrix, in three forms."""
    parameters: dict[str, Any] = {
        "concentration": constraints.dependent(is_discrete=False, event_dim=0),
        "scale_matrix": constraints.positive_definite,
    }
    forms: dict[str, Any] = {"rate_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky}
    signature = Signature("root", match, log_peak)
    return Family(
        name,
        parameters,
        lambda parameters: None,
        log_density,
        names=(name,),
        alternatives=forms,
        signature=signature,
        event_dim=2,
        derived=derived,
        **others,
    )


# -- the Wishart -----------------------------------------------------------------------------------------------------


def log_wishart(x: Matrix, parameters: Mapping[str, Any]) -> Node:
    """(ν − p − 1) Σ log A_ii − ½ |A Cᵀ|² + …, with AᵀA = X and CᵀC = V⁻¹"""
    return log_of_roots(parameters, minus(parameters["concentration"], const(x.rows.size + 1.0)))


def from_root(exponent: int, p: int, c: Node, entry: Node, log_determinant: Node) -> Match | None:
    """∫ |X|^c e^(−½ tr(X B)) dX  =  2^(νp/2) Γ_p(ν/2) |B|^(−ν/2),  ν = 2c + p + 1"""
    if exponent != 1:
        return None
    degrees = plus(scale(2.0, c), const(p + 1.0))
    parameters = {"concentration": degrees, "rate_matrix": entry}
    return parameters, log_integral(degrees, log_determinant, p)


def draw(key: Data, parameters: Arrays) -> Data:
    """A T Tᵀ Aᵀ, with A Aᵀ = V"""
    rate = parameters["rate_matrix"]
    root = jnp.swapaxes(root_of_covariance(rate), -1, -2)  # the upper root of the inverse of the rate
    factor = root @ bartlett(key, parameters["concentration"], rate.shape[-1])
    return factor @ transposed(factor)


def student_matrix(parameters: Arrays) -> Data:
    """(ν − p + 1) V, the precision of Student's t"""
    rate = parameters["rate_matrix"]
    factor = parameters["concentration"] - rate.shape[-1] + 1
    return factor[..., None, None] * namespace(rate).linalg.inv(rate)


def mode(parameters: Arrays) -> Data:
    """(ν − p − 1) V"""
    rate = parameters["rate_matrix"]
    factor = parameters["concentration"] - rate.shape[-1] - 1
    return factor[..., None, None] * namespace(rate).linalg.inv(rate)


def _excess(parameters: Mapping[str, Any]) -> tuple[Node]:
    """ν − p − 1"""
    return (minus(parameters["concentration"], const(parameters["rate_matrix"].rows.size + 1.0)),)


WISHART = register(
    matrix_family(
        "Wishart",
        log_wishart,
        from_root,
        lambda names: derived_roots(names, ROOTS_OF_INVERSE, root_of_precision, 1),
        draw=draw,
        student_matrix=student_matrix,
        mode_in_numbers=mode,
        mode_needs=_excess,
        equation="∫ |X|^c e^(−½ tr(X B)) dX = 2^(νp/2) Γ_p(ν/2) |B|^(−ν/2), ν = 2c + p + 1",
    )
)
