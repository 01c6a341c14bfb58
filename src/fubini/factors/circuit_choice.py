"""Choosing an assignment of a circuit: the most probable one, or draws, from the root down."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fubini.base.arrays import Data, namespace, require
from fubini.base.domains import Domain
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.factors.circuit import MAXIMUM, SUM, Circuit, to_table
from fubini.factors.table_choice import nothing_to_choose
from fubini.numerics.circuit_descent import Pick, descend, numbers_needed
from fubini.numerics.circuit_passes import element_values, log_leaves
from fubini.numerics.circuit_values import values_of
from fubini.numerics.circuit_weights import nodes_first
from fubini.numerics.randomness import SAMPLES, Randomness
from fubini.numerics.scaled import positive_log
from fubini.terms.heads import CHOOSE, DRAW, exact_choose, exact_draw
from fubini.terms.value import Array

Numbers = Callable[[tuple[int, ...]], Data]  # uniform numbers of a shape


@exact_choose.rule
def choose_circuit(f: Circuit, names: tuple) -> dict:
    """arg max over the names: at every node the element of greatest value (most probable explanation)"""
    if set(f.variables) != set(names) or f.nodes == SUM:
        return interpret(CHOOSE, to_table(f), names)
    return _chosen(f, names, f.batch_domains, True, lambda shape: np.zeros(shape), _greatest)


@exact_draw.rule
def draw_circuit(randomness: Randomness, f: Circuit, names: tuple) -> dict:
    """x ~ f / Σ f: at every node an element with probability θ_e p_e s_e / n"""
    if set(f.variables) != set(names) or f.nodes == MAXIMUM:
        return interpret(DRAW, randomness, to_table(f), names)
    batch = f.batch_domains if SAMPLES in f.batch else {SAMPLES: randomness.domain, **f.batch_domains}
    return _chosen(f, names, batch, False, randomness.uniform, _drawn)


def _chosen(
    f: Circuit, names: Sequence[Name], batch: dict[Name, Domain], is_maximum: bool, numbers: Numbers, pick: Pick
) -> dict:
    """The values of the names for each cell of the batch."""
    structure, weights = f.diagram, f.batched_over(tuple(batch))
    values = values_of(structure, weights, None, is_maximum)
    leaves, theta = nodes_first(weights)
    shape = tuple(domain.extent for domain in batch.values())
    elements = element_values(structure, values, theta)
    count = int(np.prod(shape))
    logs = _flat(positive_log(elements.weights) + elements.shift, shape, 1)
    uniform = [numbers((size, count)) for size in numbers_needed(structure)]
    assignment = descend(structure, logs, _flat(log_leaves(leaves), shape, 2), (uniform[0], uniform[1]), pick)
    xp = namespace(assignment)
    has_mass = xp.broadcast_to(values.weights[-1] > 0, shape)
    result: dict[Name, Array] = {}
    for name in names:
        (array,) = require(has_mass, lambda: nothing_to_choose(names), assignment[f.position(name)].reshape(shape))
        result[name] = Array._of(array, tuple(batch), batch, f.inputs[name])
    return result


def _flat(array: Data, shape: tuple[int, ...], event: int) -> Data:
    """The batch behind the nodes as one axis; of extent 1 where nothing depends on it."""
    if all(size == 1 for size in array.shape[event:]):
        return array.reshape(*array.shape[:event], 1)
    full = namespace(array).broadcast_to(array, (*array.shape[:event], *shape))
    return full.reshape(*array.shape[:event], -1)


def _greatest(logs: Data, uniform: Data) -> Data:
    return namespace(logs).argmax(logs, axis=-1)


def _drawn(logs: Data, uniform: Data) -> Data:
    """A position along the last axis with these log-weights, by inverse transform."""
    xp = namespace(logs, uniform)
    top = xp.max(logs, axis=-1, keepdims=True)
    below = xp.cumsum(xp.exp(logs - xp.where(xp.isfinite(top), top, 0.0)), axis=-1)
    index = xp.sum(below <= (uniform * below[..., -1])[..., None], axis=-1)
    last = logs.shape[-1] - 1 - xp.argmax(logs[..., ::-1] > -np.inf, axis=-1)
    return xp.where(below[..., -1] > 0, xp.minimum(index, last), 0)  # without mass any: the caller refuses it
