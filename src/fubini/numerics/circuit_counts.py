"""Weights of a circuit from data and for itself: counts of elements, local normalisation, entropy."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data, namespace
from fubini.numerics.circuit_passes import element_values, log_leaves
from fubini.numerics.circuit_reach import count_passed, reach, unpack
from fubini.numerics.circuit_structure import CircuitStructure
from fubini.numerics.circuit_values import shares_of, values_of
from fubini.numerics.circuit_weights import Weights, nodes_first, ones
from fubini.numerics.scaled import Scaled, positive_log


def count_rows(structure: CircuitStructure, evidence: Data, row_weights: Data) -> tuple[Data, Data, Data]:
    """How many complete rows pass each leaf at each value, (K, 2), and each element, (E,); and which have a model.

    Each row counts by its weight, or, without weights, as one.
    """
    if namespace(evidence, row_weights) is np:
        return _count_bits(structure, evidence, row_weights)
    scale = jnp.ones(evidence.shape[-1]) if row_weights is None else row_weights
    values, passing = shares_of(structure, ones(structure), evidence, scale)
    is_one = evidence[structure.variable] == 1
    leaves = jnp.stack([jnp.sum(jnp.where(at, passing.leaves, 0.0), -1) for at in (~is_one, is_one)], -1)
    return leaves, passing.elements, values.weights[-1] > 0


def _count_bits(structure: CircuitStructure, evidence: Data, row_weights: Data) -> tuple[Data, Data, Data]:
    rows = evidence.shape[-1]
    passed = reach(structure, evidence)
    leaves, elements = (count_passed(bits, row_weights, rows) for bits in passed[:2])
    return leaves, elements, unpack(passed.has_model, rows) == 1


def weights_from_counts(structure: CircuitStructure, leaves: Data, elements: Data, pseudo_count: float) -> Weights:
    """θ_e = (N_e + α) / Σ (N_e' + α) over the elements of a node; uniform where nothing was counted.

    The closed-form maximum of the likelihood for α = 0 (Kisa et al. 2014, theorem 5), Laplace smoothing for α = 1.
    """
    xp: Any = namespace(leaves, elements)
    support = structure.support
    leaves = xp.where(support, leaves + pseudo_count, 0.0)
    total = xp.sum(leaves, -1, keepdims=True)
    leaves = xp.where(total > 0, leaves / xp.where(total > 0, total, 1.0), support / support.sum(-1, keepdims=True))
    owner = structure.owner - structure.leaves
    elements = elements + pseudo_count
    total, count = (_sums(xp, owner, part, len(structure.place)) for part in (elements, xp.ones_like(elements)))
    ratio = xp.where(total > 0, elements / xp.where(total > 0, total, 1.0), 1.0 / count)
    return Weights(leaves, xp.zeros_like(leaves), positive_log(ratio))


def _sums(xp: Any, owner: Data, part: Data, count: int) -> Data:
    """The sum over the elements of each node, for each of its elements."""
    if xp is np:
        return np.bincount(owner, part, count)[owner]
    return xp.zeros(count).at[owner].add(part)[owner]


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
