"""Relative entropy of circuits: Σ p log(p / q) over all assignments, from passes over their elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from fubini.base.arrays import Data, namespace
from fubini.base.domains import Real
from fubini.factors.circuit import Circuit, to_table
from fubini.factors.circuit_algebra import Matched, covers, matched, taken
from fubini.factors.promotion import promoted
from fubini.factors.table import Table
from fubini.numerics.circuit_counts import entropy, expected_log
from fubini.numerics.circuit_products import Combined, multiply_structures
from fubini.numerics.circuit_weights import Weights
from fubini.numerics.scaled import Scaled
from fubini.terms.factor import Factor
from fubini.terms.heads import exact_divergence
from fubini.terms.value import Array, Value


def kl_of_circuits(p: Circuit, q: Circuit) -> Data | None:
    """Σ p log p − Σ p log q, of normalised p and q, both deterministic; None where they share no vtree.

    Of the product of both structures, each assignment passes one leaf and element of q: E_p[log q] is the sum of log θ
    over q's elements, each by its share of p's mass.
    """
    pair = matched(p, q)
    is_closed = pair is not None and not (pair.batch or any(pair.wide)) and p.is_deterministic and q.is_deterministic
    if pair is None or not is_closed:
        return None
    combined = multiply_structures(p.diagram, q.diagram)
    if combined is None:
        return np.asarray(np.inf)
    x, y = taken(pair, combined)
    cross = _expected_log(pair, combined, x, y)
    xp: Any = namespace(cross)
    return xp.where(covers(pair, combined, x, y), -entropy(p.diagram, pair.weights[0]) - cross, np.inf)


def _expected_log(pair: Matched, combined: Combined, x: Scaled, y: Scaled) -> Data:
    """E_p[log q] where both are positive."""
    (a, b), (i, j) = pair.weights, combined.elements.T
    xp: Any = namespace(*x[:2], *y[:2])
    leaves = xp.where(y.weights > 0, x.weights, 0.0)
    theta = xp.where(b.log_theta[..., j] > -np.inf, a.log_theta[..., i], -np.inf)
    shift = xp.broadcast_to(x.shift, leaves.shape)
    return expected_log(combined.structure, Weights(leaves, shift, theta), y, b.log_theta[..., j])


@exact_divergence.rule
def diverge_circuits(p: Circuit, q: Circuit) -> Value:
    """Σ p log(p / q): over one vtree from their elements, else as tables"""
    divergence = kl_of_circuits(p, q)
    if divergence is None:
        return to_table(p)._kl(to_table(q))
    return Array._of(divergence, (), {}, Real, p.mark | q.exactness)


@exact_divergence.rule
def diverge_from_factor(p: Circuit, q: Factor) -> Value:
    """Σ p log(p / q), as tables"""
    return to_table(p)._kl(q if isinstance(q, Table) else promoted(q))
