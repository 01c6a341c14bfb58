"""Passes over a circuit, layer by layer: values upwards, shares of the mass downwards.

Arrays have nodes or elements along their first axis, then the axes of a batch (rows of evidence, cells of other names).
Values are pairs (w, s) that mean w · exp(s), w being 0 or 1 in value, so that derivatives are right at a zero weight.
NumPy goes from layer to layer, JAX through a loop over each block of layers.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base import lax_loops
from fubini.base.arrays import Data, namespace, stop_gradient
from fubini.numerics.circuit_blocks import Block, blocks_of
from fubini.numerics.circuit_structure import CircuitStructure, Integers
from fubini.numerics.scaled import LOG_GREATEST, Scaled, gauged, positive_log


class Shares(NamedTuple):
    """The share of the mass that passes through each leaf, and each element.

    Those of the leaves are (K, batch…); those of the elements are added over the axes behind those of their weights.
    """

    leaves: Data
    elements: Data


# -- values upwards -------------------------------------------------------------------------------------------------


def evaluate(structure: CircuitStructure, leaves: Scaled, log_theta: Data, is_maximum: bool = False) -> Scaled:
    """The value of every node, n = Σ_e θ_e p_e s_e, or the maximum in place of the sum."""
    leaves = gauged(leaves)
    if namespace(*leaves[:2], log_theta) is np:
        return _as_pair(_log_layers(structure, log_leaves(leaves), log_theta, is_maximum))
    return Scaled(*_evaluate_logs(structure, is_maximum, *leaves[:2], log_theta))


def _log_layers(structure: CircuitStructure, leaves: Data, log_theta: Data, is_maximum: bool) -> Data:
    """The logarithm of every node: NumPy has no derivatives to keep."""
    (logs,) = _started(np, (leaves,), log_theta, structure.count)
    for layer in structure.layers:
        own = layer.elements
        terms = logs[structure.prime[own]] + logs[structure.sub[own]] + _widened(log_theta[own], logs.ndim)
        top = _segments(np.maximum, terms, layer.starts)
        if not is_maximum and len(layer.starts) < len(terms):
            constant = np.where(top == -np.inf, 0.0, top)
            total = _segments(np.add, np.exp(terms - constant[layer.owners]), layer.starts)
            top = constant + positive_log(total)
        logs[layer.nodes] = top
    return logs


def _as_pair(logs: Data) -> Scaled:
    """Logarithms as weights 0 or 1, NaN where they are, and shifts."""
    xp = namespace(logs)
    zero = logs == -np.inf
    return Scaled(xp.where(zero, 0.0, xp.where(xp.isnan(logs), logs, 1.0)), xp.where(zero, 0.0, logs))


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _evaluate_logs(
    structure: CircuitStructure, is_maximum: bool, weights: Data, shift: Data, log_theta: Data
) -> tuple[Data, Data]:
    """The values by logarithms alone, at half the cost of pairs, which derivatives need."""
    blocks, room = blocks_of(structure)
    (logs,) = _started(jnp, (log_leaves(Scaled(weights, shift)),), log_theta, structure.count + room)
    logs, theta = logs.at[-1].set(-jnp.inf), _with_a_last(log_theta)

    def step(logs: Data, block: Block) -> tuple[Data, None]:
        terms = logs[block.prime] + logs[block.sub] + _widened(theta[block.elements], logs.ndim + 1)
        top = jnp.max(terms, 1)
        if not is_maximum and terms.shape[1] > 1:
            constant = jnp.where(top == -jnp.inf, 0.0, top)
            top = constant + jnp.log(jnp.sum(jnp.exp(terms - constant[:, None]), 1))
        return jax.lax.dynamic_update_slice_in_dim(logs, top, block.first, 0), None

    for block in blocks:
        logs, _ = lax_loops.scan(step, logs, on_jax(block))
    pair = _as_pair(logs[: structure.count])
    return pair.weights, pair.shift


@_evaluate_logs.defjvp
def _evaluate_logs_jvp(structure: CircuitStructure, is_maximum: bool, primals: Any, tangents: Any) -> Any:
    def run(weights: Data, shift: Data, log_theta: Data) -> tuple[Data, ...]:
        full = _evaluate_blocks(structure, Scaled(weights, shift), log_theta, is_maximum)
        return tuple(part[: structure.count] for part in full)

    return jax.jvp(run, primals, tangents)


def _evaluate_blocks(
    structure: CircuitStructure, leaves: Scaled, log_theta: Data, is_maximum: bool
) -> tuple[Data, Data]:
    """The values of all nodes, and the rows behind them."""
    blocks, room = blocks_of(structure)
    weights, shift = _started(jnp, leaves[:2], log_theta, structure.count + room)
    values = (weights, shift)
    theta = _with_a_last(log_theta)

    def step(values: tuple[Data, Data], block: Block) -> tuple[tuple[Data, Data], None]:
        total = _combine(_block_terms(values, theta, block), is_maximum)
        put = jax.lax.dynamic_update_slice_in_dim
        weights, shift = (put(old, new, block.first, 0) for old, new in zip(values, total[:2], strict=True))
        return (weights, shift), None

    for block in blocks:
        values, _ = lax_loops.scan(step, values, on_jax(block))
    return values


def on_jax(block: Any) -> Any:
    """A block of layers as arrays of JAX."""
    arrays: list[Any] = [jnp.asarray(part) for part in block]
    return Block(*arrays)


def _with_a_last(log_theta: Data) -> Data:
    """The weights of the elements, and 1 for those that are filled up."""
    return jnp.concatenate([log_theta, jnp.zeros((1, *log_theta.shape[1:]), log_theta.dtype)])


def _block_terms(values: tuple[Data, Data], theta: Data, block: Block) -> Scaled:
    """θ_e p_e s_e of one layer, (nodes, elements, batch…)."""
    weights, shift, *_ = _terms(Scaled(*values), block.prime, block.sub)
    return Scaled(weights, shift + _widened(theta[block.elements], shift.ndim))


def _started(xp: Any, leaves: tuple[Data, ...], log_theta: Data, count: int) -> list[Data]:
    """Arrays over all nodes that begin with those of the leaves."""
    shapes = [leaf.shape[1:] for leaf in leaves]
    batch = np.broadcast_shapes(*shapes, _widened(log_theta, leaves[0].ndim).shape[1:])
    dtype, own = xp.result_type(leaves[0], log_theta), leaves[0].shape[0]
    rest = xp.zeros((count - own, *batch), dtype)
    return [xp.concatenate([xp.broadcast_to(leaf, (own, *batch)).astype(dtype), rest]) for leaf in leaves]


def _terms(values: Scaled, prime: Integers, sub: Integers) -> Scaled:
    """The products p_e s_e of some elements."""
    weights, shift, *_ = values
    return Scaled(weights[prime] * weights[sub], shift[prime] + shift[sub])


def _widened(theta: Data, ndim: int) -> Data:
    """The weights of elements with further axes of extent 1 behind them."""
    return theta.reshape(*theta.shape, *(1,) * (ndim - theta.ndim))


def _combine(terms: Scaled, is_maximum: bool) -> Scaled:
    """⊕ along the second axis, Σ w exp(s) = exp(c) Σ w exp(s − c), c the greatest s."""
    weights, shift, *_ = terms
    known = jnp.where(stop_gradient(weights) > 0, stop_gradient(shift), -jnp.inf)
    top = jnp.max(known, 1, keepdims=True)
    top = jnp.where(jnp.isfinite(top), top, 0.0)
    scaled = weights * jnp.exp(jnp.minimum(shift - top, LOG_GREATEST[np.dtype(weights.dtype).name]))
    total = jnp.max(scaled, 1) if is_maximum else jnp.sum(scaled, 1)
    constant = stop_gradient(total)
    scale = jnp.where(constant > 0, constant, 1.0)
    return Scaled(total / scale, top[:, 0] + jnp.log(scale))


def _segments(ufunc: np.ufunc, array: Data, starts: Integers) -> Data:
    """⊕ along the first axis within each segment."""
    return ufunc.reduceat(array, starts, axis=0) if len(starts) < len(array) else array


def element_values(structure: CircuitStructure, values: Scaled, log_theta: Data) -> Scaled:
    """θ_e p_e s_e of every element."""
    weights, shift, *_ = _terms(values, structure.prime, structure.sub)
    return Scaled(weights, shift + _widened(log_theta, shift.ndim))


# -- shares downwards -----------------------------------------------------------------------------------------------


def shares(structure: CircuitStructure, leaves: Scaled, log_theta: Data, scale: Data = 1.0) -> tuple[Scaled, Shares]:
    """All values, and the share of the mass through leaves and elements: the derivative of log root by their logs.

    From the root downwards, share(e) = share(n) θ_e p_e s_e / n for the elements e of n, and share(n) is the sum over
    the elements that lead to n (Darwiche 2003, section 5). The root has the share `scale`; without mass none.
    """
    leaves = gauged(leaves)
    if namespace(*leaves[:2], log_theta, scale) is np:
        values = evaluate(structure, leaves, log_theta)
        return values, _shares_of_layers(structure, values, log_theta, scale)
    full = _evaluate_blocks(structure, leaves, log_theta, False)
    return Scaled(*(part[: structure.count] for part in full)), _shares_of_blocks(structure, full, log_theta, scale)


def _shares_of_blocks(structure: CircuitStructure, values: tuple[Data, Data], log_theta: Data, scale: Data) -> Shares:
    theta, (weights, shift) = _with_a_last(log_theta), values
    limit = LOG_GREATEST[np.dtype(weights.dtype).name]
    others = tuple(range(1 + log_theta.ndim, 1 + weights.ndim))

    def step(nodes: Data, block: Block) -> tuple[Data, Data]:
        own, above = (
            jax.lax.dynamic_slice_in_dim(part, block.first, block.prime.shape[0])[:, None] for part in (nodes, shift)
        )
        terms = _block_terms(values, theta, block)
        passing = own * terms.weights * jnp.exp(jnp.minimum(terms.shift - above, limit))
        return nodes.at[block.prime].add(passing).at[block.sub].add(passing), jnp.sum(passing, others)

    top = structure.count - 1
    nodes = jnp.zeros_like(weights).at[top].set(weights[top] * scale)
    elements = jnp.zeros((structure.size + 1, *weights.shape[1 : log_theta.ndim]), weights.dtype)
    for block in reversed(blocks_of(structure).blocks):
        nodes, passing = lax_loops.scan(step, nodes, on_jax(block), reverse=True)
        elements = elements.at[block.elements].set(passing)
    return Shares(nodes[: structure.leaves], elements[:-1])


def _shares_of_layers(structure: CircuitStructure, values: Scaled, log_theta: Data, scale: Data) -> Shares:
    weights, shift, *_ = values
    nodes = np.zeros_like(weights)
    nodes[-1] = weights[-1] * scale
    passing = np.zeros((structure.size, *weights.shape[1:]), weights.dtype)
    terms = element_values(structure, values, log_theta)
    limit = LOG_GREATEST[np.dtype(weights.dtype).name]
    for arrival, layer in reversed(list(zip(structure.arrivals, [None, *structure.layers], strict=True))):
        if arrival.nodes.stop < structure.count:
            nodes[arrival.nodes] = _segments(np.add, passing[arrival.elements], arrival.starts)
        if layer is not None:
            own = layer.elements
            gap = np.minimum(terms.shift[own] - shift[layer.nodes][layer.owners], limit)
            passing[own] = nodes[layer.nodes][layer.owners] * terms.weights[own] * np.exp(gap)
    return Shares(nodes[: structure.leaves], passing.sum(tuple(range(log_theta.ndim, passing.ndim))))


def log_leaves(leaves: Scaled) -> Data:
    """log w + s."""
    return positive_log(leaves.weights) + leaves.shift
