"""From the root of a circuit down: one element of each node that is reached, and so a value of every variable."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from fubini.base import lax_loops
from fubini.base.arrays import Data, namespace
from fubini.numerics.circuit_passes import element_values, log_leaves
from fubini.numerics.circuit_structure import CircuitStructure, Integers
from fubini.numerics.circuit_values import values_of
from fubini.numerics.circuit_weights import Weights, nodes_first
from fubini.numerics.scaled import positive_log

Pick = Callable[[Data, Data], Data]  # a position along the last axis of log-weights, by uniform numbers


class Descent(NamedTuple):
    """The elements of every node, filled up with −1, and the inner vtree nodes of each depth.

    Depths have equally many: what they lack is a row of its own, after all vtree nodes.
    """

    elements: Integers  # (nodes, most elements)
    places: Integers  # (depths, most vtree nodes)
    left: Integers
    right: Integers


@lru_cache(maxsize=256)
def descent_of(structure: CircuitStructure) -> Descent:
    """What a descent looks up."""
    vtree = structure.vtree
    begins = np.searchsorted(structure.owner, np.arange(structure.count + 1))
    column = np.arange(structure.size) - begins[structure.owner]
    elements = np.full((structure.count, 1 + max(column, default=0)), -1, np.int32)
    elements[structure.owner, column] = np.arange(structure.size)
    inner = [np.flatnonzero((vtree.depths == depth) & (vtree.variable < 0)) for depth in range(vtree.height)]
    most, spare = max(map(len, inner), default=0), len(vtree.left)
    places = np.asarray([[*part, *[spare] * (most - len(part))] for part in inner], np.int32).reshape(-1, most)
    left, right = (np.append(part, np.int32(spare)).astype(np.int32)[places] for part in (vtree.left, vtree.right))
    return Descent(elements, places, left, right)


def numbers_needed(structure: CircuitStructure) -> tuple[int, int]:
    """The shape of the uniform numbers that one draw needs: for each depth, and for the leaves."""
    places = descent_of(structure).places
    return places.size, structure.vtree.count


def choose(
    structure: CircuitStructure,
    shape: tuple[int, ...],
    is_maximum: bool,
    pick: Pick,
    weights: Weights,
    uniform: tuple[Data, Data],
) -> tuple[Data, Data]:
    """A value of every variable, (V, batch…), and whether there is any mass, (batch…)."""
    values = values_of(structure, weights, None, is_maximum)
    leaves, theta = nodes_first(weights)
    elements = element_values(structure, values, theta)
    logs = _flat(positive_log(elements.weights) + elements.shift, shape, 1)
    assignment = descend(structure, logs, _flat(log_leaves(leaves), shape, 2), uniform, pick)
    has_mass = namespace(assignment).broadcast_to(values.weights[-1] > 0, shape)
    return assignment.reshape(-1, *shape), has_mass


def _flat(array: Data, shape: tuple[int, ...], event: int) -> Data:
    """The batch behind the nodes as one axis; of extent 1 where nothing depends on it."""
    if all(size == 1 for size in array.shape[event:]):
        return array.reshape(*array.shape[:event], 1)
    full = namespace(array).broadcast_to(array, (*array.shape[:event], *shape))
    return full.reshape(*array.shape[:event], -1)


def descend(structure: CircuitStructure, elements: Data, leaves: Data, uniform: tuple[Data, Data], pick: Pick) -> Data:
    """A value of every variable, (V, count): from the root, one element of each node that is reached.

    `elements` (E, B) and `leaves` (K, 2, B) are log-weights, B being 1 or `count`; the uniform numbers are (depths ×
    vtree nodes, count) and (V, count).
    """
    xp = namespace(elements, leaves, *uniform)
    table, *steps = descent_of(structure)
    vtree, count = structure.vtree, uniform[1].shape[-1]
    table, prime, sub = (xp.asarray(part) for part in (table, structure.prime, structure.sub))
    of_elements, of_leaves = (np.arange(count, dtype=np.int32) % part.shape[-1] for part in (elements, leaves))

    def step(at: Data, now: tuple[Data, ...]) -> tuple[Data, None]:
        places, left, right, numbers = now
        options = table[at[places]]  # (vtree nodes, count, elements)
        logs = xp.where(options >= 0, elements[xp.maximum(options, 0), of_elements[:, None]], -xp.inf)
        chosen = xp.take_along_axis(options, pick(logs, numbers)[..., None], -1)[..., 0]
        at = _put(xp, at, left, prime[chosen])
        return _put(xp, at, right, sub[chosen]), None

    at = xp.full((len(vtree.left) + 1, count), structure.count - 1, np.int32)
    numbers = uniform[0].reshape(*steps[0].shape, count)
    if xp is np:
        for now in zip(*steps, numbers, strict=True):
            at, _ = step(at, now)
    elif len(steps[0]):
        at, _ = lax_loops.scan(step, at, (*(jnp.asarray(part) for part in steps), numbers))
    return pick(xp.moveaxis(leaves, 1, -1)[at[vtree.leaf_of], of_leaves], uniform[1])


def _put(xp: Any, array: Data, rows: Data, part: Data) -> Data:
    if xp is not np:
        return array.at[rows].set(part)
    array[rows] = part
    return array
