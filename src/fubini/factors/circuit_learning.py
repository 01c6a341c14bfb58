"""Circuits from data: the weights of greatest likelihood, and local normalisation."""

from __future__ import annotations

import numpy as np

from fubini.base.arrays import Data, as_floats, is_traced, namespace, require
from fubini.errors import DataError, DomainError
from fubini.factors.circuit import Circuit
from fubini.factors.table import Table, no_mass
from fubini.numerics.circuit_counts import count_rows, normalize_nodes, weights_from_counts


def learn(f: Circuit, rows: Data, *, pseudo_count: float = 0.0, row_weights: Data = None) -> Circuit:
    """The distribution over the models of a circuit with the greatest likelihood of complete rows (rows, variables).

    One pass: θ_e = (N_e + α) / Σ (N_e' + α), N_e the number of rows that pass an element, α the pseudo-count.

    >>> from fubini.factors.circuit_constructors import exactly_one
    >>> f = learn(exactly_one(("a", "b", "c")), [[1, 0, 0], [0, 1, 0], [1, 0, 0]], pseudo_count=0.0)
    >>> f.marginal_probabilities().round(3)
    array([0.667, 0.333, 0.   ])
    """
    if not f.is_deterministic or not all(f.present) or f.batch:
        raise DomainError(
            f"learning the weights of {f}",
            expected="a deterministic circuit (a PSDD) with all its variables, and without a batch",
            advice="learn before variables are eliminated",
        )
    if not 0 <= pseudo_count < np.inf:
        raise DataError(f"a pseudo-count of {pseudo_count}", expected="a finite number, not negative")
    evidence = f.evidence_rows(rows)
    xp = namespace(evidence)
    scale = None if row_weights is None else as_floats(row_weights)
    if scale is not None and np.shape(scale) != evidence.shape[-1:]:
        raise DomainError(
            f"row weights of shape {np.shape(scale)}", expected=f"one for each of {evidence.shape[-1]} rows"
        )
    is_known = xp.all(evidence >= 0) & (True if scale is None else namespace(scale).all(scale >= 0))
    leaves, elements, has_model = count_rows(f.diagram, evidence, scale)
    leaves, elements = require(is_known, lambda: _incomplete(f), leaves, elements)
    leaves, elements = require(xp.all(has_model), lambda: _impossible(f, has_model), leaves, elements)
    return Circuit._of(f.diagram, weights_from_counts(f.diagram, leaves, elements, pseudo_count), f)


def _incomplete(f: Circuit) -> DataError:
    return DataError(f"learning {f}", expected="complete rows, and weights of rows that are not negative")


def _impossible(f: Circuit, has_model: Data) -> DataError:
    first = "" if is_traced(has_model) else f" (row {int(np.argmin(np.asarray(has_model)))})"
    return DataError(
        f"learning {f} from rows that its constraints exclude{first}",
        expected="rows that are models of the circuit",
        advice="check the coding of the data, or relax the constraints",
    )


def normalize_locally(f: Circuit) -> tuple[Table, Circuit]:
    """The mass of f, and f over its mass as a PSDD is written: the weights of every node's elements sum to one."""
    f._require_sums("local normalisation")
    mass, weights = normalize_nodes(f.diagram, f.weights_of_nodes)
    (theta,) = require((mass.weights > 0)[..., None], lambda: no_mass(f), weights.log_theta)
    total = f.sum(*f.variables)
    return total._joined(), Circuit._of(f.diagram, weights._replace(log_theta=theta), f)  # type: ignore[return-value]
