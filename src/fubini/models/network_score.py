"""Scores of a network on data: the log-likelihood of its tables, and of its structure BIC, AIC and BDeu."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import gammaln

from fubini.errors import DataError, DomainError, closest, listed
from fubini.models.network_rows import Rows

Score = Callable[[Any, Any, float], float]


def log_likelihood(network: Any, frame: Any, size: float) -> float:
    """log p(data): the sum over rows, their missing cells summed out."""
    return float(np.sum(network.condition_many(frame).log_evidence()))


def bic(network: Any, frame: Any, size: float) -> float:
    """log p(data) − ½ log(rows) · parameters (Schwarz 1978)"""
    cases = network.condition_many(frame)
    return float(np.sum(cases.log_evidence())) - 0.5 * math.log(cases.count) * parameters(network)


def aic(network: Any, frame: Any, size: float) -> float:
    """log p(data) − parameters (Akaike 1974)"""
    return log_likelihood(network, frame, size) - parameters(network)


def bdeu(network: Any, frame: Any, size: float) -> float:
    """log p(data | structure) under Dirichlet priors of `size` pseudo-counts, spread evenly over each table.

    Σ log Γ(s/q) − log Γ(s/q + N_j) + Σ log Γ(s/qr + N_jk) − log Γ(s/qr), for q configurations of the parents of a
    variable with r values (Heckerman, Geiger and Chickering 1995). The tables do not matter.
    """
    structure = network.structure
    rows = Rows.read(frame, list(network.variables), network.variables)
    if rows.has_gaps.any():
        raise DataError(
            f"the BDeu score of data with {int(rows.has_gaps.sum()):,} incomplete rows",
            expected="data without missing cells: with them it is a sum over all that these may be",
            advice='method="bic" takes them',
        )
    total = 0.0
    for name, parents in structure.items():
        counts = rows.counts((*parents, name))
        cell = size / counts.size
        row = size * counts.shape[-1] / counts.size
        total += float(np.sum(gammaln(cell + counts) - gammaln(cell)))
        total -= float(np.sum(gammaln(row + counts.sum(axis=-1)) - gammaln(row)))
    return total


METHODS: dict[str, Score] = {"log_likelihood": log_likelihood, "bic": bic, "aic": aic, "bdeu": bdeu}


def score(network: Any, frame: Any, method: str, equivalent_size: float) -> float:
    """The score of a directed network on data, the greater the better."""
    if method not in METHODS:
        raise DomainError(
            f"the score {method!r}", expected=f"one of {listed(METHODS)}", nearest=closest(str(method), METHODS)
        )
    if not (np.isfinite(equivalent_size) and equivalent_size > 0):
        raise DataError(f"equivalent_size={equivalent_size!r}", expected="a positive number of pseudo-counts")
    if network.evidence or network.findings:
        raise DataError(
            "the score of a network that is observed",
            expected="a network without evidence: the data are the evidence",
            nearest=f"{listed([*network.evidence, *network.findings])} is",
        )
    return METHODS[method](network, frame, float(equivalent_size))


def parameters(network: Any) -> int:
    """The free parameters of its tables: for each configuration of the parents, one less than the values."""
    domains, structure = network.variables, network.structure
    return sum(
        (domains[name].extent - 1) * math.prod(domains[parent].extent for parent in parents)
        for name, parents in structure.items()
    )
