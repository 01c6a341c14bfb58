"""The weights of a circuit: those of its leaves, as scaled pairs, and log θ of its elements, batched in front.

A product over all variables passes one leaf of each, so that a constant is multiplied into the leaves of any one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fubini.base.arrays import Data, namespace
from fubini.base.names import Name
from fubini.base.semirings import Semiring
from fubini.numerics.circuit_products import Combined
from fubini.numerics.circuit_structure import CircuitStructure, Integers
from fubini.numerics.named_axes import align
from fubini.numerics.scaled import Scaled, gauged, reduced


class Weights(NamedTuple):
    """Weights w · exp(s) of the leaves, (batch…, K, 2), and log θ of the elements, (batch…, E)."""

    leaves: Data
    shift: Data
    log_theta: Data

    @property
    def pair(self) -> Scaled:
        """The scaled weights of the leaves."""
        return Scaled(self.leaves, self.shift)


def ones(structure: CircuitStructure) -> Weights:
    """Weights of 1: the circuit is the indicator of its models."""
    return Weights(structure.support.astype(float), np.zeros(structure.support.shape), np.zeros(structure.size))


def align_weights(weights: Weights, names: Sequence[Name], onto: Sequence[Name]) -> Weights:
    """The weights with the axes of the batch in another order, of extent 1 where a name is missing."""
    leaves, shift = (align(part, names, onto, 2) for part in weights[:2])
    return Weights(leaves, shift, align(weights.log_theta, names, onto, 1))


# -- operations -----------------------------------------------------------------------------------------------------


def taken_leaves(structure: CircuitStructure, weights: Weights, leaves: Integers, wide: Sequence[int]) -> Scaled:
    """The weights of some leaves; at the wide variables both are the constant that stands in the first."""
    columns = np.where(np.isin(structure.variable[leaves], wide)[:, None], 0, np.arange(2)).astype(np.int32)
    rows = leaves[:, None]
    return gauged(Scaled(weights.leaves[..., rows, columns], weights.shift[..., rows, columns]))


def multiply_leaves(weights: Weights, own: NDArray[np.bool_], factor: Scaled) -> Weights:
    """The weights with the leaves of one variable multiplied by a pair (batch…, 2) or (batch…, 1)."""
    x, y = gauged(weights.pair), gauged(factor)
    xp = namespace(*x[:2], *y[:2])
    by, shift = (part[..., None, :] for part in y[:2])
    at = own[:, None]
    return Weights(xp.where(at, x.weights * by, x.weights), xp.where(at, x.shift + shift, x.shift), weights.log_theta)


def multiply_weights(combined: Combined, x: Scaled, y: Scaled, a: Weights, b: Weights) -> Weights:
    """θ_i θ'_j, and products of the leaves taken from both."""
    i, j = combined.elements.T
    theta = a.log_theta[..., i] + b.log_theta[..., j]
    return Weights(x.weights * y.weights, x.shift + y.shift, theta)


def divide_weights(combined: Combined, x: Scaled, y: Scaled, a: Weights, b: Weights) -> Weights:
    """θ_i / θ'_j, and quotients of the leaves; 0 over 0 is 0, and so is what `divides_by_zero` says."""
    i, j = combined.elements.T
    xp = namespace(*x[:2], *y[:2], a.log_theta, b.log_theta)
    zero = y.weights == 0
    leaves = xp.where(zero, 0.0, x.weights / xp.where(zero, 1.0, y.weights))
    above, below = a.log_theta[..., i], b.log_theta[..., j]
    none = below == -np.inf
    return Weights(leaves, x.shift - y.shift, xp.where(none, -np.inf, above - xp.where(none, 0.0, below)))


def divides_by_zero(combined: Combined, x: Scaled, y: Scaled, a: Weights, b: Weights) -> Data:
    """Whether a positive weight stands over zero, for each cell of the batch."""
    i, j = combined.elements.T
    xp = namespace(*x[:2], *y[:2], a.log_theta, b.log_theta)
    leaves = xp.any((y.weights == 0) & (x.weights > 0), (-2, -1))
    return leaves | xp.any((b.log_theta[..., j] == -np.inf) & (a.log_theta[..., i] > -np.inf), -1)


def gather_weights(combined: Combined, parts: Sequence[Weights]) -> Weights:
    """The weights of circuits put into one: rows (operand, leaf) and (operand, element); θ = 1 for another operand."""
    xp = namespace(*(part for weights in parts for part in weights))
    batch = np.broadcast_shapes(*(weights.leaves.shape[:-2] for weights in parts))
    batch = np.broadcast_shapes(batch, *(weights.log_theta.shape[:-1] for weights in parts))

    def taken(arrays: list[Data], rows: Integers, event: int, fill: float) -> Data:
        arrays = [xp.broadcast_to(array, (*batch, *array.shape[array.ndim - event :])) for array in arrays]
        axis = len(batch)
        last = xp.full((*batch, 1, *arrays[0].shape[axis + 1 :]), fill)
        starts = np.cumsum([0, *(array.shape[axis] for array in arrays)])
        index = (starts[rows[:, 0]] + rows[:, 1]).astype(np.int32)
        return xp.take(xp.concatenate([*arrays, last], axis), index, axis=axis)

    leaves, shift = (taken([weights[k] for weights in parts], combined.leaves, 2, 1.0) for k in (0, 1))
    return Weights(leaves, shift, taken([weights.log_theta for weights in parts], combined.elements, 1, 0.0))


def raise_weights(weights: Weights, exponent: Data) -> Weights:
    """w^a and θ^a, of a deterministic circuit; the exponent has the axes of the batch."""
    xp = namespace(*weights, exponent)
    x = gauged(weights.pair)
    leaf, edge = exponent[..., None, None], exponent[..., None]
    zero = x.weights == 0
    powers = xp.where(zero, xp.where(leaf == 0, 1.0, 0.0), xp.where(zero, 1.0, x.weights) ** leaf)
    none = weights.log_theta == -np.inf
    theta = xp.where(none, xp.where(edge == 0, 0.0, -np.inf), edge * xp.where(none, 0.0, weights.log_theta))
    return Weights(powers, x.shift * leaf, theta)


def count_positive(structure: CircuitStructure, weights: Weights) -> NDArray[np.object_]:
    """The number of assignments at which a deterministic circuit is positive, whole numbers for each cell of the batch.

    A variable that was eliminated counts once: its leaves hold a constant in their first weight.
    """
    leaves, theta = np.asarray(weights.leaves) > 0, np.asarray(weights.log_theta) > -np.inf
    batch = np.broadcast_shapes(leaves.shape[:-2], theta.shape[:-1])
    leaves, theta = (np.broadcast_to(part, (*batch, *part.shape[-n:])) for part, n in ((leaves, 2), (theta, 1)))
    counts = np.empty(batch, object)
    for cell in np.ndindex(batch):
        counts[cell] = structure.count_models(leaves[cell], theta[cell])
    return counts


def has_all_weights(structure: CircuitStructure, weights: Weights, variables: int) -> Data:
    """Whether every weight of a deterministic circuit that admits all assignments is positive; of a trace too."""
    xp = namespace(*weights)
    leaves = xp.all((weights.leaves > 0) | ~structure.support, (-2, -1))
    return leaves & xp.all(weights.log_theta > -np.inf, -1) & (structure.supports == 2**variables)


def eliminate_leaves(structure: CircuitStructure, weights: Weights, gone: Sequence[int], semiring: Semiring) -> Weights:
    """w₀ ⊕ w₁ at the leaves of variables that are eliminated, as constants in the first weight."""
    total = gauged(reduced(semiring, weights.pair, (weights.leaves.ndim - 1,)))
    return with_constants(structure, weights, gone, total)


def with_constants(structure: CircuitStructure, weights: Weights, gone: Sequence[int], constants: Scaled) -> Weights:
    """The weights with constants (batch…, K) at the leaves of some variables."""
    xp = namespace(*weights, *constants[:2])
    own = np.isin(structure.variable, gone)[:, None]
    first = np.array([True, False])
    leaves = xp.where(own, xp.where(first, constants.weights[..., None], 0.0), weights.leaves)
    return Weights(leaves, xp.where(own, constants.shift[..., None], weights.shift), weights.log_theta)


def nodes_first(weights: Weights) -> tuple[Scaled, Data]:
    """The leaves as (K, 2, batch…) and the elements as (E, batch…)."""
    xp = namespace(*weights)
    leaves, shift = (xp.moveaxis(part, (-2, -1), (0, 1)) for part in weights[:2])
    return Scaled(leaves, shift), xp.moveaxis(weights.log_theta, -1, 0)
