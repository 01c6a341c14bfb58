"""Relative entropy of circuits: Σ p log(p / q) over all assignments, from passes over their elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from fubini.base.arrays import Data, namespace
from fubini.base.domains import Real
from fubini.factors.circuit import Circuit, to_table
from fubini.factors.circuit_algebra import Matched, covers, matched, taken
from fubini.factors.promotion import to_kind
from fubini.factors.table import Table
from fubini.numerics.circuit_counts import entropy, expected_log
from fubini.numerics.circuit_products import Combined, multiply_structures
from fubini.numerics.circuit_weights import Weights
from fubini.numerics.scaled import Scaled
from fubini.terms.factor import Factor
from fubini.terms.heads import exact_divergence
from fubini.terms.value import Array, Value


def _are_psdds(p: Circuit, q: Circuit) -> bool:
    """Whether both are deterministic, over one vtree and the same variables, without a batch."""
    pair = matched(p, q)
    return pair is not None and not (pair.batch or any(pair.wide)) and p.is_deterministic and q.is_deterministic


@exact_divergence.rule
def divergence_of_circuit(p: Circuit, q: Factor) -> Value:
    """Σ p log(p/q) as tables"""
    return to_table(p)._kl(q if isinstance(q, Table) else to_kind(q, Table))


@exact_divergence.rule(when=_are_psdds)
def divergence_of_circuits(p: Circuit, q: Circuit) -> Value:
    """Σ p log p − Σ p log q, the second by the leaves and elements of q that assignments pass, each by p's share"""
    return Array._of(_kl(p, q), (), {}, Real, p.mark | q.mark)


def _kl(p: Circuit, q: Circuit) -> Data:
    pair = matched(p, q)
    assert pair is not None, "the guard requires one vtree"
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
