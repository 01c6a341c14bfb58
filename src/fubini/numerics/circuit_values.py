"""Values and shares of weighted circuits at rows of evidence, many rows in parts.

Evidence is (V, rows): 0, 1, or −1 for a missing value.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data, is_jax, namespace
from fubini.base.semirings import max_product, sum_product
from fubini.numerics.circuit_passes import Shares, evaluate, log_leaves, shares
from fubini.numerics.circuit_reach import add_along, paths_of
from fubini.numerics.circuit_structure import CircuitStructure
from fubini.numerics.circuit_weights import Weights, nodes_first
from fubini.numerics.scaled import Scaled, gauged, reduced

CELLS = 2**20  # numbers that one pass over rows may hold for each of its arrays

# -- all nodes ------------------------------------------------------------------------------------------------------


def values_of(structure: CircuitStructure, weights: Weights, evidence: Data, is_maximum: bool) -> Scaled:
    """The value of every node, (N, batch…), or (N, batch…, rows) with evidence."""
    leaves, theta = nodes_first(weights)
    total = _totals(structure, leaves, evidence, is_maximum)
    if any(is_jax(array) for array in (*total[:2], theta)):
        return _evaluate_compiled(structure, total, theta, is_maximum)
    return evaluate(structure, total, theta, is_maximum)


def shares_of(
    structure: CircuitStructure, weights: Weights, evidence: Data = None, scale: Data = 1.0
) -> tuple[Scaled, Shares]:
    """The value of every node, and the share of the mass through each leaf and element, of the root's share `scale`."""
    leaves, theta = nodes_first(weights)
    total = _totals(structure, leaves, evidence, False)
    if any(is_jax(array) for array in (*total[:2], theta, scale)):
        return _shares_compiled(structure, total, theta, scale)
    return shares(structure, total, theta, scale)


_evaluate_compiled: Callable[..., Scaled] = jax.jit(evaluate, static_argnums=(0, 3))
_shares_compiled: Callable[..., tuple[Scaled, Shares]] = jax.jit(shares, static_argnums=(0,))


def _totals(structure: CircuitStructure, leaves: Scaled, evidence: Data, is_maximum: bool) -> Scaled:
    """⊕ of the two values of each leaf that evidence admits."""
    pair = _with_evidence(structure, leaves, evidence)
    total = reduced(max_product if is_maximum else sum_product, pair, (1,))
    return Scaled(total.weights, namespace(*total[:2]).broadcast_to(total.shift, total.weights.shape))


def _with_evidence(structure: CircuitStructure, leaves: Scaled, evidence: Data) -> Scaled:
    """The leaves with zeros in place of the values that evidence excludes."""
    pair = gauged(leaves)
    if evidence is None:
        return pair
    xp = namespace(*pair[:2], evidence)
    rows = evidence[structure.variable][:, None]  # (K, 1, rows)
    allowed = (rows < 0) | (rows == np.arange(2, dtype=np.int32)[:, None])
    allowed = allowed.reshape(*allowed.shape[:2], *(1,) * (pair.weights.ndim - 2), allowed.shape[-1])
    weights = xp.where(allowed, pair.weights[..., None], 0.0)
    return Scaled(weights, xp.broadcast_to(pair.shift[..., None], weights.shape))


# -- the root, and the variables ------------------------------------------------------------------------------------


def root_values(structure: CircuitStructure, weights: Weights, evidence: Data, is_maximum: bool = False) -> Scaled:
    """The value of the root, (batch…) or (batch…, rows)."""
    if any(is_jax(array) for array in (*weights, evidence)):
        return Scaled(*_root_compiled(structure, is_maximum, weights, evidence))
    return Scaled(*_root(structure, is_maximum, weights, evidence))


def _root(structure: CircuitStructure, is_maximum: bool, weights: Weights, evidence: Data) -> tuple[Data, Data]:
    def of_rows(rows: Data) -> tuple[Data, Data]:
        values = values_of(structure, weights, rows, is_maximum)
        return values.weights[-1], values.shift[-1]

    return _by_rows(of_rows, structure, weights, evidence)


_root_compiled: Callable[..., tuple[Data, Data]] = jax.jit(_root, static_argnums=(0, 1))


def marginals(structure: CircuitStructure, weights: Weights, evidence: Data = None) -> tuple[Data, Data]:
    """P(x = 1 | evidence) of every variable, (V, batch…[, rows]), and whether there is any mass, (batch…[, rows])."""
    if any(is_jax(array) for array in (*weights, evidence)):
        return _marginals_compiled(structure, weights, evidence)
    return _marginals(structure, weights, evidence)


def _marginals(structure: CircuitStructure, weights: Weights, evidence: Data) -> tuple[Data, Data]:
    return _by_rows(partial(_marginals_of_rows, structure, weights), structure, weights, evidence)


_marginals_compiled: Callable[..., tuple[Data, Data]] = jax.jit(_marginals, static_argnums=(0,))


def _marginals_of_rows(structure: CircuitStructure, weights: Weights, evidence: Data) -> tuple[Data, Data]:
    """Σ over the leaves of a variable: the share of the leaf times w₁ / (w₀ + w₁), as evidence admits."""
    values, (passing, _) = shares_of(structure, weights, evidence)
    xp: Any = namespace(*values[:2])
    one = log_leaves(nodes_first(weights)[0])[:, 1]
    if evidence is not None:
        allowed = (evidence != 0)[structure.variable]
        allowed = allowed.reshape(allowed.shape[0], *(1,) * (one.ndim - 1), allowed.shape[-1])
        one = xp.where(allowed, one[..., None], -np.inf)
    share = passing * xp.exp(xp.minimum(one - values.shift[: structure.leaves], 0.0))
    return _by_variable(structure, share), values.weights[-1] > 0


def _by_variable(structure: CircuitStructure, leaves: Data) -> Data:
    """Σ over the leaves of each variable."""
    of_variable = np.arange(structure.vtree.count)[:, None] == structure.variable
    xp: Any = namespace(leaves)
    return xp.tensordot(xp.asarray(of_variable, leaves.dtype), leaves, 1)


def shares_of_values(structure: CircuitStructure, weights: Weights) -> tuple[Data, Scaled]:
    """P(x = v) of every variable at both values, (V, 2, batch…), and the mass of all, (batch…)."""
    run = _value_shares_compiled if any(is_jax(array) for array in weights) else _value_shares
    share, *total = run(structure, weights)
    return share, Scaled(*total)


def _value_shares(structure: CircuitStructure, weights: Weights) -> tuple[Data, Data, Data]:
    """Σ over the leaves of a variable: the share of the leaf times w_v / (w₀ + w₁)"""
    values, (passing, _) = shares_of(structure, weights)
    xp: Any = namespace(*values[:2])
    logs = log_leaves(nodes_first(weights)[0])
    share = passing[:, None] * xp.exp(xp.minimum(logs - values.shift[: structure.leaves, None], 0.0))
    return _by_variable(structure, share), values.weights[-1], values.shift[-1]


_value_shares_compiled: Callable[..., tuple[Data, Data, Data]] = jax.jit(_value_shares, static_argnums=(0,))


def _by_rows(
    function: Callable[[Data], tuple[Data, Data]], structure: CircuitStructure, weights: Weights, evidence: Data
) -> tuple[Data, Data]:
    """Two arrays with rows along their last axis, computed for as many rows at a time as stay in the cache."""
    batch = np.broadcast_shapes(weights.leaves.shape[:-2], weights.log_theta.shape[:-1])
    step = max(1, CELLS // max(1, structure.size * int(np.prod(batch))))
    if evidence is None or evidence.shape[-1] <= step:
        return function(evidence)
    rows = evidence.shape[-1]
    if namespace(*weights, evidence) is np:
        parts = [function(evidence[:, begin : begin + step]) for begin in range(0, rows, step)]
        first, second = (np.concatenate(part, -1) for part in zip(*parts, strict=True))
        return first, second
    count = -(-rows // step)
    full = jnp.pad(evidence, ((0, 0), (0, count * step - rows)), constant_values=-1)
    results: Any = cast(Any, jax.lax).map(function, jnp.moveaxis(full.reshape(-1, count, step), 1, 0))
    first, second = (jnp.moveaxis(part, 0, -2).reshape(*part.shape[1:-1], -1)[..., :rows] for part in results)
    return first, second


def log_of_complete_rows(structure: CircuitStructure, weights: Weights, evidence: Data) -> Data:
    """Σ log θ over the elements, and log w over the leaves, that each complete row passes, (batch…, rows); NumPy."""
    logs = np.asarray(log_leaves(weights.pair)), np.asarray(weights.log_theta)
    return add_along(paths_of(structure, evidence), *logs)
