"""Circuits with random weights, and their values by recursion over the diagram, one assignment at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

import fubini as fb
from fubini.factors.circuit import Circuit
from fubini.factors.circuit_constructors import from_clauses, parity, unconstrained
from fubini.numerics.circuit_weights import Weights

NAMES = ("a", "b", "c", "d")
CLAUSES = (
    [{"a": True, "b": False}, {"b": True, "c": True, "d": False}],
    [{"a": False, "d": False}, {"a": True, "b": True}],
    [{"c": True, "d": True}],
)


def randomized(f: Circuit, seed: int, low: float = 0.2) -> Circuit:
    """The same circuit with other positive weights, not normalised."""
    rng = np.random.default_rng(seed)
    old = f.weights_of_nodes
    leaves = np.where(old.leaves > 0, rng.uniform(low, 2.0, old.leaves.shape), 0.0)
    weights = Weights(leaves, rng.normal(size=old.shift.shape), np.log(rng.uniform(low, 2.0, old.log_theta.shape)))
    return Circuit._of(f.diagram, weights, f)


def circuit(kind: int, seed: int, names: Sequence[str] = NAMES) -> Circuit:
    """A random circuit over four names: clauses, parity, or everything."""
    renamed = dict(zip(NAMES, names, strict=True))
    if kind < len(CLAUSES):
        clauses = [{renamed[name]: value for name, value in clause.items()} for clause in CLAUSES[kind]]
        return randomized(from_clauses(clauses, names), seed)
    return randomized(parity(names, is_odd=True) if kind == 3 else unconstrained(names), seed)


def value(f: Circuit, assignment: dict[Any, int]) -> float:
    """f at one assignment, by recursion from the root."""
    diagram, weights = f.diagram, f.weights_of_nodes

    def at(node: int) -> float:
        if node < diagram.leaves:
            position = diagram.variable[node]
            index = assignment[f.slots[position]] if f.present[position] else 0
            return float(weights.leaves[node, index] * np.exp(weights.shift[node, index]))
        terms = [
            np.exp(weights.log_theta[e]) * at(int(diagram.prime[e])) * at(int(diagram.sub[e]))
            for e in np.flatnonzero(diagram.owner == node)
        ]
        return float(max(terms) if f.nodes == "maximum" else sum(terms))

    return at(diagram.count - 1)


def dense(f: fb.Factor, names: Sequence[str] | None = None) -> np.ndarray:
    """f at every assignment of the names, which it may lack."""
    names = tuple(f.inputs) if names is None else names
    f = f._joined()
    if isinstance(f, fb.Table):
        own = [name for name in names if name in f.inputs]
        weights = np.asarray(f.transposed(own).weights)
        shape = [2 if name in f.inputs else 1 for name in names]
        return np.broadcast_to(weights.reshape(shape), [2] * len(names))
    assert isinstance(f, Circuit)
    cells = [value(f, dict(zip(names, cell, strict=True))) for cell in product((0, 1), repeat=len(names))]
    return np.reshape(cells, [2] * len(names))


def count(holds: Callable[[tuple[int, ...]], bool], n: int) -> int:
    """The number of assignments of n Booleans at which something holds."""
    return sum(holds(cell) for cell in product((0, 1), repeat=n))
