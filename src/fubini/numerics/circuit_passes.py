"""Passes over a circuit, layer by layer: values upwards, shares of the mass and choices downwards.

Arrays have nodes or elements along their first axis, then the axes of a batch (rows of evidence, cells of other names).
Values are pairs (w, s) that mean w · exp(s), w being 0 or 1 in value, so that derivatives are right at a zero weight.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from fubini.base.arrays import Data, namespace, stop_gradient
from fubini.numerics.circuit_structure import CircuitStructure, Integers
from fubini.numerics.scaled import LOG_GREATEST, Scaled, gauged, positive_log


class Shares(NamedTuple):
    """The share of the mass that passes through each leaf and each element."""

    leaves: Data
    elements: Data


def evaluate(structure: CircuitStructure, leaves: Scaled, log_theta: Data, is_maximum: bool = False) -> Scaled:
    """The value of every node, n = Σ_e θ_e p_e s_e, or the maximum in place of the sum."""
    leaves = gauged(leaves)
    xp = namespace(*leaves[:2], log_theta)
    batch = np.broadcast_shapes(leaves.weights.shape[1:], log_theta.shape[1:])
    dtype = xp.result_type(leaves.weights, log_theta)
    weights, shift = (_started(xp, part, structure.count, batch, dtype) for part in leaves[:2])
    for layer in structure.layers:
        terms = _terms(structure, Scaled(weights, shift), log_theta, layer.elements)
        total = _combine(xp, terms, layer.starts, layer.owners, is_maximum)
        weights, shift = _put(xp, weights, layer.nodes, total.weights), _put(xp, shift, layer.nodes, total.shift)
    return Scaled(weights, shift)


def _started(xp: Any, part: Data, count: int, batch: tuple[int, ...], dtype: Any) -> Data:
    """An array over all nodes that begins with those of the leaves."""
    part = xp.broadcast_to(part, (part.shape[0], *batch)).astype(dtype)
    return xp.concatenate([part, xp.zeros((count - part.shape[0], *batch), dtype)])


def _put(xp: Any, array: Data, at: slice, part: Data) -> Data:
    if xp is not np:
        return array.at[at].set(part)
    array[at] = part
    return array


def _terms(structure: CircuitStructure, values: Scaled, log_theta: Data, at: slice) -> Scaled:
    """θ_e p_e s_e of some elements."""
    prime, sub = structure.prime[at], structure.sub[at]
    weights, shift, *_ = values
    theta = log_theta[at]
    theta = theta.reshape(*theta.shape, *(1,) * (weights.ndim - theta.ndim))
    return Scaled(weights[prime] * weights[sub], shift[prime] + shift[sub] + theta)


def _combine(xp: Any, terms: Scaled, starts: Integers, owners: Integers, is_maximum: bool) -> Scaled:
    """⊕ of the terms of each node, Σ w exp(s) = exp(c) Σ w exp(s − c), c the greatest s of the node."""
    weights, shift, *_ = terms
    known = xp.where(stop_gradient(weights) > 0, stop_gradient(shift), -xp.inf)
    top = _segments(xp, np.maximum, known, starts, owners)
    top = xp.where(xp.isfinite(top), top, 0.0)
    exponent = xp.minimum(shift - top[owners], LOG_GREATEST[np.dtype(weights.dtype).name])
    ufunc = np.maximum if is_maximum else np.add
    total = _segments(xp, ufunc, weights * xp.exp(exponent), starts, owners)
    constant = stop_gradient(total)
    scale = xp.where(constant > 0, constant, 1.0)
    return Scaled(total / scale, top + xp.log(scale))


def _segments(xp: Any, ufunc: np.ufunc, array: Data, starts: Integers, owners: Integers) -> Data:
    """⊕ along the first axis within each segment."""
    if xp is np:
        return ufunc.reduceat(array, starts, axis=0) if len(starts) < len(array) else array
    add = jax.ops.segment_sum if ufunc is np.add else jax.ops.segment_max
    return add(array, owners, len(starts), indices_are_sorted=True)


def element_values(structure: CircuitStructure, values: Scaled, log_theta: Data) -> Scaled:
    """θ_e p_e s_e of every element."""
    return _terms(structure, values, log_theta, slice(None))


def shares(structure: CircuitStructure, values: Scaled, log_theta: Data) -> Shares:
    """The share of the mass through each leaf and element: the derivative of the logarithm of the root by theirs.

    From the root downwards, share(e) = share(n) θ_e p_e s_e / n for the elements e of n, and share(n) is the sum over
    the elements that lead to n (Darwiche 2003, section 5).
    """
    weights, shift, *_ = values
    xp = namespace(weights, shift, log_theta)
    nodes = xp.zeros_like(weights)
    nodes = _put(xp, nodes, slice(structure.count - 1, structure.count), weights[-1:])
    passing = xp.zeros((structure.size, *weights.shape[1:]), weights.dtype)
    limit = LOG_GREATEST[np.dtype(weights.dtype).name]
    places = [None, *structure.layers]
    for arrival, layer in reversed(list(zip(structure.arrivals, places, strict=True))):
        if arrival.nodes.stop < structure.count:
            arriving = _segments(xp, np.add, passing[arrival.elements], arrival.starts, arrival.owners)
            nodes = _put(xp, nodes, arrival.nodes, arriving)
        if layer is not None:
            terms = _terms(structure, values, log_theta, layer.elements)
            above = shift[layer.nodes][layer.owners]
            part = terms.weights * xp.exp(xp.minimum(terms.shift - above, limit))
            passing = _put(xp, passing, layer.elements, nodes[layer.nodes][layer.owners] * part)
    return Shares(nodes[: structure.leaves], passing)


def reach(structure: CircuitStructure, evidence: Data) -> Shares:
    """Which leaves and elements complete rows (V, rows) pass in a deterministic circuit; none without a model.

    Truth values upwards, n = ⋁_e p_e ∧ s_e, and from the root down along the elements that hold.
    """
    xp: Any = namespace(evidence)
    support = structure.support
    at = evidence[structure.variable]
    true = xp.zeros((structure.count, evidence.shape[-1]), bool)
    true = _put(xp, true, slice(0, structure.leaves), xp.where(at == 1, support[:, 1:], support[:, :1]))
    for layer in structure.layers:
        holds = true[structure.prime[layer.elements]] & true[structure.sub[layer.elements]]
        true = _put(xp, true, layer.nodes, _segments(xp, np.logical_or, holds, layer.starts, layer.owners))
    elements = true[structure.prime] & true[structure.sub]
    nodes = _put(xp, xp.zeros_like(true), slice(structure.count - 1, structure.count), true[-1:])
    for arrival, layer in reversed(list(zip(structure.arrivals, [None, *structure.layers], strict=True))):
        if arrival.nodes.stop < structure.count:
            arriving = _segments(xp, np.logical_or, elements[arrival.elements], arrival.starts, arrival.owners)
            nodes = _put(xp, nodes, arrival.nodes, arriving)
        if layer is not None:
            passing = elements[layer.elements] & nodes[layer.nodes][layer.owners]
            elements = _put(xp, elements, layer.elements, passing)
    return Shares(nodes[: structure.leaves], elements)


def descend(
    structure: CircuitStructure, elements: Data, leaves: Data, count: int, pick: Callable[[Data], Data]
) -> Data:
    """A value of every variable for each of `count` cells: from the root, one element of each node that is reached.

    `elements` (E, B) and `leaves` (K, 2, B) are log-weights, B being 1 or `count`; `pick` chooses along a last axis.
    """
    xp = namespace(elements, leaves)
    vtree = structure.vtree
    of_elements, of_leaves = (np.arange(count, dtype=np.int32) % part.shape[-1] for part in (elements, leaves))
    at: list[Any] = [None] * len(vtree.left)
    at[vtree.root] = xp.full(count, structure.count - 1, np.int32)
    prime, sub = xp.asarray(structure.prime), xp.asarray(structure.sub)
    for level in structure.levels:
        rows = xp.asarray(level.position)[xp.stack([at[node] for node in level.vtree_nodes])]
        options = xp.asarray(level.elements)[rows]
        logs = xp.where(options >= 0, elements[xp.maximum(options, 0), of_elements[:, None]], -xp.inf)
        chosen = xp.take_along_axis(options, pick(logs)[..., None], -1)[..., 0]
        for row, node in enumerate(level.vtree_nodes):
            at[vtree.left[node]], at[vtree.right[node]] = prime[chosen[row]], sub[chosen[row]]
    reached = xp.stack([at[node] for node in vtree.leaf_of])
    return pick(xp.moveaxis(leaves, 1, -1)[reached, of_leaves])


def log_leaves(leaves: Scaled) -> Data:
    """log w + s."""
    return positive_log(leaves.weights) + leaves.shift
