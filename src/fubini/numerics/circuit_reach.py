"""Which leaves and elements complete rows pass in a deterministic circuit, eight rows to a byte.

Truth values go upwards, n = ⋁_e p_e ∧ s_e, and from the root down along the elements that hold: a row with a model
passes one leaf of each variable and one element at each inner vtree node.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fubini.numerics.circuit_structure import CircuitStructure, Integers

Bits = NDArray[np.uint8]  # (…, rows / 8), the last axis filled up with zeros


class Reached(NamedTuple):
    """Bits of the rows that pass each leaf at each value, (K, 2), and each element, (E,); and of those with a model."""

    leaves: Bits
    elements: Bits
    has_model: Bits


def reach(structure: CircuitStructure, evidence: Integers) -> Reached:
    """What complete rows (V, rows) pass; nothing without a model."""
    at = np.packbits(np.stack([evidence == 0, evidence == 1], 1), axis=-1)  # (V, 2, rows / 8)
    literals = at[structure.variable] * structure.support[..., None]
    true = np.zeros((structure.count, at.shape[-1]), np.uint8)
    true[: structure.leaves] = literals[:, 0] | literals[:, 1]
    for layer in structure.layers:
        holds = true[structure.prime[layer.elements]] & true[structure.sub[layer.elements]]
        true[layer.nodes] = _any(holds, layer.starts)
    elements = true[structure.prime] & true[structure.sub]
    nodes = np.zeros_like(true)
    nodes[-1] = true[-1]
    for arrival, layer in reversed(list(zip(structure.arrivals, [None, *structure.layers], strict=True))):
        if arrival.nodes.stop < structure.count:
            nodes[arrival.nodes] = _any(elements[arrival.elements], arrival.starts)
        if layer is not None:
            elements[layer.elements] &= nodes[layer.nodes][layer.owners]
    return Reached(literals & nodes[: structure.leaves, None], elements, true[-1])


def _any(bits: Bits, starts: Integers) -> Bits:
    """⋁ along the first axis within each segment."""
    return np.bitwise_or.reduceat(bits, starts, axis=0) if len(starts) < len(bits) else bits


def unpack(bits: Bits, rows: int) -> NDArray[np.uint8]:
    """One number, 0 or 1, for each row."""
    return np.unpackbits(bits, axis=-1, count=rows)


class Paths(NamedTuple):
    """For each row the leaf of each variable, (V, rows), numbered 2 · leaf + value, and the element at each vtree node.

    Of rows without a model they say nothing.
    """

    leaves: Integers
    elements: Integers  # (V − 1, rows)
    has_model: NDArray[np.bool_]


def paths_of(structure: CircuitStructure, evidence: Integers) -> Paths:
    """What complete rows (V, rows) pass, by number."""
    rows, passed = evidence.shape[-1], reach(structure, evidence)
    literals = passed.leaves.reshape(2 * structure.leaves, -1)
    variable = np.repeat(structure.variable, 2)
    place = structure.place[structure.owner - structure.leaves]
    leaves = _numbers(literals, variable, range(structure.vtree.count), rows)
    elements = _numbers(passed.elements, place, np.flatnonzero(structure.vtree.variable < 0), rows)
    return Paths(leaves, elements, unpack(passed.has_model, rows) == 1)


def _numbers(bits: Bits, group: Integers, groups: Iterable[int], rows: int) -> Integers:
    """For each group, and each row, the number of the one bit of the group that is set."""
    order = np.argsort(group, kind="stable").astype(np.int32)
    begins, ends = (np.searchsorted(group[order], list(groups), side) for side in ("left", "right"))
    numbers = np.zeros((len(begins), rows), np.int32)
    for row, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        places = np.arange(end - begin, dtype=np.uint16 if end - begin < 2**16 else np.int64)
        position = (unpack(bits[order[begin:end]], rows) * places[:, None]).max(0)
        numbers[row] = order[begin:end][position]
    return numbers


def add_along(paths: Paths, log_leaves: NDArray[np.float64], log_theta: NDArray[np.float64]) -> NDArray[np.float64]:
    """Σ of the logarithms that each row passes, (batch…, rows), of leaves (batch…, K, 2) and elements (batch…, E)."""
    flat = log_leaves.reshape(*log_leaves.shape[:-2], -1)
    total = sum((log_theta[..., part] for part in paths.elements), np.zeros((*log_theta.shape[:-1], 1)))
    total = sum((flat[..., part] for part in paths.leaves), total)
    return np.where(paths.has_model, total, -np.inf)


def count_along(numbers: Integers, size: int, row_weights: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """How many rows pass each leaf or element, (batch…, size), each counted by its weight (batch…, rows)."""
    if row_weights is None:
        return np.bincount(numbers.ravel(), minlength=size).astype(float)
    counts = np.zeros((*row_weights.shape[:-1], size))
    for cell in np.ndindex(row_weights.shape[:-1]):
        spread = np.broadcast_to(row_weights[cell], numbers.shape)
        counts[cell] = np.bincount(numbers.ravel(), spread.ravel(), size)
    return counts
