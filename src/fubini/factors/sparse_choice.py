"""Choosing a cell of a sparse factor: its arg max, or a draw, for each cell of the other names."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data, namespace, require
from fubini.base.domains import Domain
from fubini.base.names import Name
from fubini.factors.no_mass import nothing_to_choose
from fubini.factors.sparse import Sparse, sort_over
from fubini.factors.sparse_algebra import engine_of_all
from fubini.numerics.keyed_weights import Keyed
from fubini.numerics.mixed_radix import split_keys
from fubini.numerics.randomness import SAMPLES, Randomness
from fubini.numerics.scaled import read_log
from fubini.terms.heads import exact_choose, exact_draw
from fubini.terms.value import Array


class _Cells(NamedTuple):
    """The cells of a factor in order of the other names, then of those chosen, and where each row of others is."""

    keyed: Keyed
    rest: tuple[Name, ...]
    width: int
    rows: Data
    low: Data
    high: Data
    logs: Data


def _cells(f: Sparse, names: Sequence[Name]) -> _Cells:
    rest = tuple(name for name in f.names if name not in names)
    xp = engine_of_all(f)
    keyed = sort_over(f, (*rest, *names), xp)
    width = math.prod(f.inputs[name].extent for name in names)
    rows = keyed.keys // width
    every = xp.arange(keyed.end // width)
    low, high = xp.searchsorted(rows, every, side="left"), xp.searchsorted(rows, every, side="right")
    logs = xp.where(keyed.used, read_log(keyed.pair), -np.inf) + f.absent
    return _Cells(keyed, rest, width, rows, low, high, logs)


def _unravel(
    f: Sparse, cells: _Cells, slot: Data, ok: Data, names: Sequence[Name], inputs: Mapping[Name, Domain]
) -> dict[Name, Array]:
    """The slot for each cell of the inputs as one Array for each name."""
    xp = namespace(slot, cells.logs)
    (key,) = require(ok, lambda: nothing_to_choose(names), xp.asarray(cells.keyed.keys)[slot] % cells.width)
    places = split_keys(xp.maximum(key, 0), [f.inputs[name].extent for name in names])
    shape, rest = [domain.extent for domain in inputs.values()], tuple(inputs)
    return {
        name: Array._of(xp.where(key < 0, -1, at).reshape(shape), rest, inputs, f.inputs[name])
        for name, at in zip(names, places, strict=True)
    }


@exact_choose.rule
def choose_sparse(f: Sparse, names: tuple) -> dict:
    """arg max over the names, the first of equals"""
    cells = _cells(f, names)
    xp = namespace(cells.logs)
    if not cells.logs.shape[0]:
        raise nothing_to_choose(names)
    order = xp.lexsort((xp.arange(cells.rows.shape[0]), -cells.logs, cells.rows))
    slot = order[xp.minimum(cells.low, cells.rows.shape[0] - 1)]
    ok = (cells.low < cells.high) & (cells.logs[slot] > -np.inf)
    return _unravel(f, cells, slot, ok, names, {name: f.inputs[name] for name in cells.rest})


@exact_draw.rule
def draw_sparse(randomness: Randomness, f: Sparse, names: tuple) -> dict:
    """x ~ f / Σ f, by inverse transform, for each sample and each cell of the other names"""
    cells = _cells(f, names)
    inputs = {name: f.inputs[name] for name in cells.rest}
    if SAMPLES not in inputs:
        inputs = {SAMPLES: randomness.domain, **inputs}
    uniform = randomness.uniform(tuple(domain.extent for domain in inputs.values()))
    if not cells.logs.shape[0]:
        raise nothing_to_choose(names)
    slot, ok = _inverse_transform(cells, uniform.reshape(-1, cells.low.shape[0]))
    return _unravel(f, cells, slot, ok, names, inputs)


def _inverse_transform(cells: _Cells, uniform: Data) -> tuple[Data, Data]:
    """For each sample and row the first slot whose cumulative weight exceeds u times the row's; whether there is one"""
    xp = namespace(cells.logs, uniform)
    below = _cumulative(cells)
    total = xp.where(cells.low < cells.high, below[xp.maximum(cells.high - 1, 0)], 0.0)
    slot = _bisect(below, cells, lambda sums: sums <= uniform * total, uniform.shape)
    # Rounding may carry the product up to the total: the last positive cell is meant.
    last = _bisect(below, cells, lambda sums: sums < total, total.shape)
    return xp.minimum(slot, last), xp.broadcast_to(total > 0, uniform.shape)


def _bisect(below: Data, cells: _Cells, is_before: Callable[[Data], Data], shape: tuple[int, ...]) -> Data:
    """The first slot of each row that is not before what is looked for."""
    xp = namespace(below, cells.low)
    low, high = xp.broadcast_to(cells.low, shape), xp.broadcast_to(cells.high, shape)
    for _ in range(below.shape[0].bit_length()):
        middle = xp.minimum((low + high) // 2, below.shape[0] - 1)
        right = (low < high) & is_before(below[middle])
        low, high = xp.where(right, middle + 1, low), xp.where(right | (low >= high), high, middle)
    return xp.minimum(low, below.shape[0] - 1)


def _cumulative(cells: _Cells) -> Data:
    """The sum of the weights up to each slot within its row, the greatest of the row being 1."""
    count = cells.low.shape[0]
    if namespace(cells.logs) is np:
        top = np.full(count, -np.inf)
        np.maximum.at(top, cells.rows, cells.logs)
        weights = np.exp(cells.logs - top[cells.rows])
        sums = np.cumsum(weights)
        return sums - (sums - weights)[cells.low[cells.rows]]
    top = jax.ops.segment_max(cells.logs, cells.rows, count).at[cells.rows].get(mode="fill", fill_value=0.0)
    weights = jnp.exp(cells.logs - jnp.where(top > -jnp.inf, top, 0.0))

    def combine(a: tuple[Data, Data], b: tuple[Data, Data]) -> tuple[Data, Data]:
        return a[0] | b[0], jnp.where(b[0], b[1], a[1] + b[1])

    starts = jnp.concatenate([jnp.ones(1, bool), cells.rows[1:] != cells.rows[:-1]])
    return jax.lax.associative_scan(combine, (starts, weights))[1]
