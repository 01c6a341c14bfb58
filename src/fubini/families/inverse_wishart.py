"""InverseWishart(concentration, scale_matrix, rate_matrix or scale_tril): |X|^(−(ν + p + 1)/2) e^(−½ tr(Ψ X⁻¹)) / c."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from fubini.algebra.build import const, minus, plus, scale
from fubini.algebra.node import Node
from fubini.base.arrays import Data
from fubini.families.family import register
from fubini.families.multivariate_normal import root_of_covariance
from fubini.families.parameters import Arrays, Matrix
from fubini.families.signature import Match
from fubini.families.wishart import (
    ROOTS,
    bartlett,
    derived_roots,
    log_integral,
    log_of_roots,
    matrix_family,
    transposed,
)


def log_inverse_wishart(x: Matrix, parameters: Mapping[str, Any]) -> Node:
    """(ν + p + 1) Σ log A_ii − ½ |A Cᵀ|² + …, with AᵀA = X⁻¹ and CᵀC = Ψ"""
    return log_of_roots(parameters, plus(parameters["concentration"], const(x.rows.size + 1.0)))


def from_root(exponent: int, p: int, c: Node, entry: Node, log_determinant: Node) -> Match | None:
    """∫ |X|^(−c) e^(−½ tr(X⁻¹ B)) dX  =  2^(νp/2) Γ_p(ν/2) |B|^(−ν/2),  ν = 2c − p − 1"""
    if exponent != -1:
        return None
    degrees = minus(scale(2.0, c), const(p + 1.0))
    parameters = {"concentration": degrees, "scale_matrix": entry}
    return parameters, log_integral(degrees, log_determinant, p)


def draw(key: Data, parameters: Arrays) -> Data:
    """L T⁻ᵀ T⁻¹ Lᵀ, with L Lᵀ = Ψ and T Tᵀ a Wishart of scale 1"""
    scatter = parameters["scale_matrix"]
    factor = bartlett(key, parameters["concentration"], scatter.shape[-1])
    root = jax.scipy.linalg.solve_triangular(factor, transposed(jnp.linalg.cholesky(scatter)), lower=True)
    return transposed(root) @ root


def student_matrix(parameters: Arrays) -> Data:
    """Ψ / (ν − p + 1)"""
    scatter = parameters["scale_matrix"]
    return scatter / (parameters["concentration"] - scatter.shape[-1] + 1)[..., None, None]


def mode(parameters: Arrays) -> Data:
    """Ψ / (ν + p + 1)"""
    scatter = parameters["scale_matrix"]
    return scatter / (parameters["concentration"] + scatter.shape[-1] + 1)[..., None, None]


INVERSE_WISHART = register(
    matrix_family(
        "InverseWishart",
        log_inverse_wishart,
        from_root,
        lambda names: derived_roots(names, ROOTS, root_of_covariance, -1),
        draw=draw,
        student_matrix=student_matrix,
        mode_in_numbers=mode,
        equation="∫ |X|^(−c) e^(−½ tr(X⁻¹ B)) dX = 2^(νp/2) Γ_p(ν/2) |B|^(−ν/2), ν = 2c − p − 1",
    )
)
