"""Circuits from data: the weights of greatest likelihood, and local normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np

from fubini.base.arrays import Data, as_floats, is_traced, namespace, require
from fubini.base.domains import Domain, merge_inputs
from fubini.base.names import Name
from fubini.errors import DataError, DomainError
from fubini.factors.circuit import Circuit
from fubini.factors.table import Table, no_mass
from fubini.numerics.circuit_counts import count_rows, normalize_nodes, weights_from_counts
from fubini.numerics.named_axes import align
from fubini.terms.value import Array


def learn(
    f: Circuit,
    rows: Data,
    *,
    pseudo_count: float = 0.0,
    row_weights: Data | Array = None,
    prior: Circuit | None = None,
) -> Circuit:
    """The distribution over the models of a circuit with the greatest likelihood of complete rows (rows, variables).

    One pass: θ_e = (N_e + α k θ⁰_e) / Σ (N_e' + α k θ⁰_e') over the k elements of a node, N_e the number of rows that
    pass e, α the pseudo-count, and θ⁰ = 1/k, or the weights of a prior: a circuit of the same structure, normalised at
    every node. Where `row_weights` is an Array with names, there is a circuit for each of their cells.

    >>> from fubini.factors.circuit_constructors import exactly_one
    >>> f = learn(exactly_one(("a", "b", "c")), [[1, 0, 0], [0, 1, 0], [1, 0, 0]], pseudo_count=0.0)
    >>> f.marginal_probabilities().round(3)
    array([0.667, 0.333, 0.   ])
    """
    _require_learnable(f, pseudo_count, prior)
    evidence = f.evidence_rows(rows)
    scale, batch = _weights_of(row_weights, evidence.shape[-1], prior)
    leaves, elements, has_model = count_rows(f.diagram, evidence, scale)
    xp = namespace(evidence)
    is_known = xp.all(evidence >= 0) & (True if scale is None else namespace(scale).all(scale >= 0))
    leaves, elements = require(is_known, lambda: _incomplete(f), leaves, elements)
    leaves, elements = require(xp.all(has_model), lambda: _impossible(f, has_model), leaves, elements)
    before = None if prior is None else prior.batched_over(tuple(batch))
    weights = weights_from_counts(f.diagram, leaves, elements, pseudo_count, before)
    return Circuit._of(f.diagram, weights, f, batch=batch)


def _require_learnable(f: Circuit, pseudo_count: float, prior: Circuit | None) -> None:
    if not f.is_deterministic or not all(f.present) or f.batch:
        raise DomainError(
            f"learning the weights of {f}",
            expected="a deterministic circuit (a PSDD) with all its variables, and without a batch",
            advice="learn before variables are eliminated",
        )
    if not 0 <= pseudo_count < np.inf:
        raise DataError(f"a pseudo-count of {pseudo_count}", expected="a finite number, not negative")
    if prior is not None and (prior.diagram != f.diagram or prior.slots != f.slots):
        raise DomainError(
            f"learning {f} with the prior {prior}",
            expected="a prior of the same structure, over the same names",
            advice="learn the prior from the same circuit, or give `normalize_locally` a product with it",
        )


def _weights_of(row_weights: Any, rows: int, prior: Circuit | None) -> tuple[Data, dict[Name, Domain]]:
    """The weights of the rows, the names of an Array or of the prior in front; None where each row counts as one."""
    batch = {} if prior is None else prior.batch_domains
    if row_weights is None:
        return None, batch
    names: tuple[Name, ...] = ()
    if isinstance(row_weights, Array):
        names, batch = row_weights.names, merge_inputs(batch, row_weights.inputs)
    scale = as_floats(row_weights.array if isinstance(row_weights, Array) else row_weights)
    if np.shape(scale)[len(names) :] != (rows,):
        raise DomainError(
            f"row weights of shape {np.shape(scale)[len(names) :]}", expected=f"one for each of {rows} rows"
        )
    return align(scale, names, tuple(batch), 1), batch


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
