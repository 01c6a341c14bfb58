"""CAR(loc, correlation, conditional_precision, adj_matrix): normal with precision τ (D − α W), D the sums of rows of W.

With the pairs e = (i, j) of neighbours i < j, and c_j the sum of W over those that j is the second of,

φ·(D − α W) φ  =  Σ_e W_e (φ_i² − 2 α φ_i φ_j + φ_j²)  =  Σ_e W_e (φ_i − α φ_j)² + (1 − α²) Σ_j c_j φ_j²
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpyro.distributions import constraints

from fubini.algebra.binding import closed
from fubini.algebra.build import ONE, ZERO, add, index, minus, plus, power, scale, times
from fubini.algebra.node import Index, Node, node
from fubini.algebra.sums import total
from fubini.base.arrays import Data
from fubini.errors import DataError
from fubini.families.family import Family, register
from fubini.families.functions import LOG_2PI, log
from fubini.families.multivariate_normal import root_of_precision
from fubini.families.parameters import DerivedParameter, MatrixParameters, Vector
from fubini.numerics.least_squares import DENSE, Unknowns
from fubini.numerics.sparse_cholesky import sparse


def log_conditional_autoregression(x: Vector, parameters: Mapping[str, Any]) -> Node:
    """−½ τ |A (x − μ)|² + ½ d log τ + log |A| − ½ d log 2π, with AᵀA = D − α W"""
    root, tau = parameters["root"], parameters["conditional_precision"]
    i, j = root.rows, root.columns
    residual = minus(x.along(j), parameters["loc"].along(j))
    square = total([i], power(total([j], times(root.entry, residual)), 2.0))
    diagonal = total([i], log(root.at(index(i), index(i))))
    d = float(j.size)
    return add(((times(tau, square), -0.5), (log(tau), 0.5 * d), (diagonal, 1.0), (ONE, -0.5 * d * LOG_2PI)))


def derived(names: Collection[str]) -> dict[str, DerivedParameter]:
    """The root of D − α W."""

    def root(correlation: Data, adjacency: Data) -> Data:
        sums = jnp.sum(adjacency, axis=-1)[..., None] * jnp.eye(adjacency.shape[-1], dtype=adjacency.dtype)
        return root_of_precision(sums - correlation[..., None, None] * adjacency)

    def shape(correlation: tuple[int, ...], adjacency: tuple[int, ...]) -> tuple[int, ...]:
        return (*np.broadcast_shapes(correlation, adjacency[:-2]), *adjacency[-2:])

    return {"root": DerivedParameter("whitening", ("correlation", "adj_matrix"), root, shape, 2)}


# -- known neighbours -------------------------------------------------------------------------------------------------


class Neighbours(NamedTuple):
    """Pairs (i, j) of neighbours with their weights, the places j that are the second of one, and c_j."""

    first: np.ndarray
    second: np.ndarray
    weights: np.ndarray
    places: np.ndarray
    sums: np.ndarray


def neighbours(adjacency: np.ndarray) -> Neighbours | None:
    """The pairs of a known matrix; None where it has weights that are negative, or on its diagonal."""
    if not np.array_equal(adjacency, adjacency.T) or not (adjacency.sum(axis=-1) != 0).all():
        raise DataError(
            "dist.CAR with an adj_matrix that is not symmetric, or with a row of zeros",
            expected="a symmetric matrix in which every site has a neighbour",
            advice="average it with its transpose: (W + W.T) / 2; model sites without neighbours by dist.Normal",
        )
    if (adjacency < 0).any() or adjacency.diagonal().any():
        return None
    pairs = sparse.triu(sparse.csr_array(adjacency), k=1, format="coo")
    first, second = pairs.coords
    sums = np.bincount(second, pairs.data, len(adjacency))
    (places,) = np.nonzero(sums)
    return Neighbours(first, second, pairs.data, places, sums[places])


def log_density_of_pairs(x: Vector, parameters: Mapping[str, Any], matrices: MatrixParameters) -> Node | None:
    """−½ τ φ·(D − α W) φ + ½ d log τ + ½ log |D − α W| − ½ d log 2π, φ = x − μ, where the neighbours are known"""
    adjacency = matrices.numbers("adj_matrix")
    if adjacency is None or adjacency.front is not ONE or adjacency.numbers.ndim > 2:
        return None
    known = neighbours(adjacency.numbers)
    if known is None:
        return None
    alpha, tau = parameters["correlation"], parameters["conditional_precision"]
    e, k = Index(len(known.first), "e"), Index(len(known.places), "k")
    i, j, weight = (matrices.constant(part)(index(e)) for part in known[:3])
    place, single = (matrices.constant(part)(index(k)) for part in known[3:])
    single = times(minus(ONE, power(alpha, 2.0)), single)
    phi = Vector(x.over, minus(x.entry, parameters["loc"].along(x.over)))
    pairs = total([e], times(weight, power(minus(phi.at(i), times(alpha, phi.at(j))), 2.0)))
    square = plus(pairs, total([k], times(single, power(phi.at(place), 2.0))))
    if x.over.size > DENSE:
        of_pairs = _rows(e, weight, (i, ONE), (j, scale(-1.0, alpha)))
        logdet = node("logdet", Unknowns(None, x.over.size, is_sparse=True), of_pairs, _rows(k, single, (place, ONE)))
    else:
        logdet = _log_determinant(adjacency.numbers, alpha, matrices)
    d = float(x.over.size)
    return add(((times(tau, square), -0.5), (log(tau), 0.5 * d), (logdet, 0.5), (ONE, -0.5 * d * LOG_2PI)))


def _rows(over: Index, weight: Node, *entries: tuple[Node, Node]) -> Node:
    """Rows of √weight times entries at columns."""
    slopes = (closed("slopes", (), node("call", "slope", column, entry)) for column, entry in entries)
    return closed("rows", (over,), node("call", "row", weight, ZERO, *slopes))


def _log_determinant(adjacency: np.ndarray, alpha: Node, matrices: MatrixParameters) -> Node:
    """log |D − α W|  =  Σ_i log D_ii + Σ_i log(1 − α λ_i), with λ the eigenvalues of D^(−½) W D^(−½)"""
    sums = adjacency.sum(axis=-1)
    eigenvalues = np.linalg.eigvalsh(adjacency / np.sqrt(sums[:, None] * sums))
    i = Index(len(sums))
    each = log(minus(ONE, times(alpha, matrices.constant(eigenvalues)(index(i)))))
    return add(((total([i], each), 1.0), (ONE, float(np.log(sums).sum()))))


CONDITIONAL_AUTOREGRESSION = register(
    Family(
        "CAR",
        {
            "loc": constraints.real_vector,
            "correlation": constraints.open_interval(-1.0, 1.0),
            "conditional_precision": constraints.positive,
            "adj_matrix": constraints.dependent(is_discrete=False, event_dim=2),
        },
        lambda parameters: None,
        log_conditional_autoregression,
        names=("CAR",),
        event_dim=1,
        derived=derived,
        structured=log_density_of_pairs,
    )
)
