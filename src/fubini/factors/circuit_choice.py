"""Choosing an assignment of a circuit: the most probable one, or draws, from the root down."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import jax
import numpy as np

from fubini.base.arrays import Data, is_jax, namespace, require
from fubini.base.domains import Domain
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.factors.circuit import MAXIMUM, SUM, Circuit, to_table
from fubini.factors.table_choice import nothing_to_choose
from fubini.numerics.circuit_descent import Pick, choose, numbers_needed
from fubini.numerics.randomness import SAMPLES, Randomness
from fubini.terms.heads import CHOOSE, DRAW, exact_choose, exact_draw
from fubini.terms.value import Array

Numbers = Callable[[tuple[int, ...]], Data]  # uniform numbers of a shape


@exact_choose.rule
def choose_circuit(f: Circuit, names: tuple) -> dict:
    """arg max over the names: at every node the element of greatest value (most probable explanation)"""
    if set(f.variables) != set(names) or f.nodes == SUM:
        return interpret(CHOOSE, to_table(f), names)
    return _chosen(f, names, f.batch_domains, True, np.zeros, _greatest)


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
    shape = tuple(domain.extent for domain in batch.values())
    uniform = tuple(numbers((size, math.prod(shape))) for size in numbers_needed(structure))
    run = _choose_compiled if any(is_jax(array) for array in (*weights, *uniform)) else choose
    assignment, has_mass = run(structure, shape, is_maximum, pick, weights, uniform)
    result: dict[Name, Array] = {}
    for name in names:
        (array,) = require(has_mass, lambda: nothing_to_choose(names), assignment[f.position(name)])
        result[name] = Array._of(array, tuple(batch), batch, f.inputs[name])
    return result


_choose_compiled = jax.jit(choose, static_argnums=(0, 1, 2, 3))


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
