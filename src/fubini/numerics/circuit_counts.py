"""Weights of a circuit from data and for itself: counts of elements, local normalisation, entropy."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data, namespace
from fubini.numerics.circuit_passes import element_values, log_leaves
from fubini.numerics.circuit_reach import count_along, paths_of
from fubini.numerics.circuit_structure import CircuitStructure
from fubini.numerics.circuit_values import shares_of, values_of
from fubini.numerics.circuit_weights import Weights, nodes_first, ones
from fubini.numerics.scaled import Scaled, positive_log


def count_rows(structure: CircuitStructure, evidence: Data, row_weights: Data) -> tuple[Data, Data, Data]:
    """How many complete rows pass each leaf at each value, (…, K, 2), each element, (…, E); and which have a model.

    Each row counts by its weight (…, rows), or, without weights, as one.
    """
    if namespace(evidence, row_weights) is np:
        paths = paths_of(structure, evidence)
        leaves = count_along(paths.leaves, 2 * structure.leaves, row_weights)
        elements = count_along(paths.elements, structure.size, row_weights)
        return leaves.reshape(*leaves.shape[:-1], -1, 2), elements, paths.has_model
    scale = jnp.ones(evidence.shape[-1]) if row_weights is None else row_weights
    count = partial(_count_shares, structure, evidence)
    for _ in range(scale.ndim - 1):
        count = jax.vmap(count, out_axes=(0, 0, None))
    return count(scale)


def _count_shares(structure: CircuitStructure, evidence: Data, scale: Data) -> tuple[Data, Data, Data]:
    values, passing = shares_of(structure, ones(structure), evidence, scale)
    is_one = evidence[structure.variable] == 1
    leaves = jnp.stack([jnp.sum(jnp.where(at, passing.leaves, 0.0), -1) for at in (~is_one, is_one)], -1)
    return leaves, passing.elements, values.weights[-1] > 0


def weights_from_counts(
    structure: CircuitStructure, leaves: Data, elements: Data, pseudo_count: float, prior: Weights | None = None
) -> Weights:
    """θ_e = (N_e + α k θ⁰_e) / Σ (N_e' + α k θ⁰_e') over the k elements of a node; θ⁰ where nothing was counted.

    The closed-form maximum of the likelihood for α = 0 (Kisa et al. 2014, theorem 5), Laplace smoothing for α = 1 and
    θ⁰ = 1/k, which is the prior unless one is given.
    """
    xp: Any = namespace(leaves, elements, *(prior or ()))
    support = structure.support
    options = support.sum(-1, keepdims=True)
    expected = support / options if prior is None else _exp(prior.pair)
    leaves = xp.where(support, leaves + pseudo_count * options * expected, 0.0)
    total = xp.sum(leaves, -1, keepdims=True)
    leaves = xp.where(total > 0, leaves / xp.where(total > 0, total, 1.0), expected)
    owner = structure.owner - structure.leaves
    options = np.bincount(owner, minlength=len(structure.place))[owner]
    expected = 1.0 / options if prior is None else xp.exp(prior.log_theta)
    elements = elements + pseudo_count * options * expected
    total = _sums(xp, owner, elements, len(structure.place))
    ratio = xp.where(total > 0, elements / xp.where(total > 0, total, 1.0), expected)
    return Weights(leaves, xp.zeros_like(leaves), positive_log(ratio))


def _exp(pair: Scaled) -> Data:
    return pair.weights * namespace(*pair[:2]).exp(pair.shift)


def _sums(xp: Any, owner: Data, part: Data, count: int) -> Data:
    """The sum over the elements of each node, along the last axis, for each of its elements."""
    if xp is np:
        starts = np.searchsorted(owner, np.arange(count))
        return (np.add.reduceat(part, starts, -1) if count else part)[..., owner]
    return xp.zeros((*part.shape[:-1], count)).at[..., owner].add(part)[..., owner]


def normalize_nodes(structure: CircuitStructure, weights: Weights) -> tuple[Scaled, Weights]:
    """The mass, and weights with which every node sums to one: θ_e p_e s_e / n, and w_k / (w₀ + w₁) at the leaves."""
    leaves, theta = nodes_first(weights)
    values = values_of(structure, weights, None, False)
    xp: Any = namespace(*values[:2])
    terms = element_values(structure, values, theta)
    log_share = positive_log(terms.weights) + terms.shift - values.shift[structure.owner]
    first = structure.leaves
    log_leaf = log_leaves(leaves)
    gap = xp.where(log_leaf == -np.inf, 0.0, log_leaf - values.shift[:first, None])
    share = xp.where(log_leaf == -np.inf, 0.0, xp.exp(gap))
    share = xp.moveaxis(share, (0, 1), (-2, -1))
    return Scaled(values.weights[-1], values.shift[-1]), Weights(
        share, xp.zeros_like(share), xp.moveaxis(log_share, 0, -1)
    )


def entropy(structure: CircuitStructure, weights: Weights) -> Data:
    """−Σ p log p of a deterministic circuit: −Σ share · log θ over elements and leaves, every node normalised."""
    _, local = normalize_nodes(structure, weights)
    values, passing = shares_of(structure, local)
    xp: Any = namespace(*values[:2])
    theta, leaves = xp.moveaxis(local.log_theta, -1, 0), xp.moveaxis(local.leaves, (-2, -1), (0, 1))
    inner = xp.sum(passing.elements * xp.where(passing.elements > 0, theta, 0.0), 0)
    outer = xp.sum(passing.leaves[:, None] * leaves * xp.where(leaves > 0, positive_log(leaves), 0.0), (0, 1))
    return -(inner + outer)
