"""Which leaves and elements complete rows pass in a deterministic circuit, eight rows to a byte.

Truth values go upwards, n = ⋁_e p_e ∧ s_e, and from the root down along the elements that hold: a row with a model
passes one leaf of each variable and one element at each inner vtree node.
"""

from __future__ import annotations

from collections.abc import Iterator
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


def add_passed(bits: Bits, numbers: NDArray[np.float64], rows: int) -> NDArray[np.float64]:
    """Σ of the numbers (batch…, bits) that each row passes, (batch…, rows); −∞ where one of them is −∞."""
    zero = numbers == -np.inf
    finite = np.where(zero, 0.0, numbers)
    total = np.zeros((*numbers.shape[:-1], rows))
    for part, passed in _parts(bits, rows):
        total += finite[..., part] @ passed
        if zero[..., part].any():
            total[zero[..., part] @ passed > 0] = -np.inf
    return total


def count_passed(bits: Bits, row_weights: NDArray[np.float64] | None, rows: int) -> NDArray[np.float64]:
    """How many rows pass, (batch…, bits…), each counted by its weight (batch…, rows)."""
    if row_weights is None:
        return np.bitwise_count(bits).sum(-1, dtype=float)
    flat = bits.reshape(-1, bits.shape[-1])
    counts = np.zeros((*row_weights.shape[:-1], len(flat)))
    for part, passed in _parts(flat, rows):
        counts[..., part] = row_weights @ passed.T
    return counts.reshape(*row_weights.shape[:-1], *bits.shape[:-1])


def _parts(bits: Bits, rows: int) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """A part of the bits at a time, as numbers."""
    for begin in range(0, len(bits), 256):
        part = slice(begin, begin + 256)
        yield part, unpack(bits[part], rows).astype(float)
