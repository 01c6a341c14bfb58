"""Choosing a cell of a table: its arg max, or a draw. Both flatten the names chosen and unravel the result."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fubini.base.arrays import Data, namespace, require
from fubini.base.domains import Domain
from fubini.base.names import Name
from fubini.factors.no_mass import nothing_to_choose
from fubini.factors.table import Table
from fubini.numerics.mixed_radix import split_keys
from fubini.numerics.randomness import SAMPLES, Randomness
from fubini.numerics.scaled import Scaled, positive_log
from fubini.terms.heads import exact_choose, exact_draw
from fubini.terms.value import Array


def _cells(factor: Table, names: Sequence[Name]) -> tuple[Data, tuple[Name, ...], list[int], Table]:
    """Log-weights with the chosen names flattened into one last axis, the other names, and the chosen sizes."""
    rest = tuple(name for name in factor.names if name not in names)
    table = factor.transposed((*rest, *names))
    sizes = [table.inputs[name].size or 1 for name in names]
    weights, shift, *_ = table.pair
    logs = positive_log(weights) + shift
    return logs.reshape((*logs.shape[: len(rest)], -1)), rest, sizes, table


def _unravel(index: Data, rest: tuple[Name, ...], names: Sequence[Name], sizes: list[int], table: Table) -> dict:
    """A flat position for each cell of `rest` as one Array for each name."""
    xp = namespace(index)
    positions = split_keys(xp.maximum(index, 0), sizes)
    positions = [xp.where(index < 0, -1, at) for at in positions] if xp is not np else positions
    inputs = {name: table.inputs[name] for name in rest}
    return {name: Array._of(at, rest, inputs, table.inputs[name]) for name, at in zip(names, positions, strict=True)}


@exact_choose.rule
def choose_table(f: Table, names: tuple) -> dict:
    """arg max over the names, the first of equals"""
    logs, rest, sizes, table = _cells(f, names)
    xp = namespace(logs)
    index = xp.argmax(logs, axis=-1)
    (index,) = require(xp.max(logs, axis=-1) > -np.inf, lambda: nothing_to_choose(names), index)
    return _unravel(index, rest, names, sizes, table)


@exact_draw.rule
def draw_table(randomness: Randomness, f: Table, names: tuple) -> dict:
    """x ~ f / Σ f, by inverse transform, for each sample and each cell of the other names"""
    logs, rest, sizes, table = _cells(over_samples(f, randomness), names)
    index = draw_index(randomness, logs, names)
    return _unravel(index, rest, names, sizes, table)


def draw_index(randomness: Randomness, logs: Data, names: Sequence[Name]) -> Data:
    """A position along the last axis, with these log-weights."""
    uniform = randomness.uniform(logs.shape[:-1])
    xp = namespace(logs, uniform)
    top = xp.max(logs, axis=-1, keepdims=True)
    weights = xp.exp(logs - xp.where(xp.isfinite(top), top, 0.0))
    below = xp.cumsum(weights, axis=-1)
    index = xp.sum(below <= (uniform * below[..., -1])[..., None], axis=-1)
    # Rounding may carry the product up to the total: the last positive cell is meant.
    last = weights.shape[-1] - 1 - xp.argmax(weights[..., ::-1] > 0, axis=-1)
    return require(below[..., -1] > 0, lambda: nothing_to_choose(names), xp.minimum(index, last))[0]


def over_samples(table: Table, randomness: Randomness) -> Table:
    """The table repeated for each sample, unless the samples already differ in it."""
    return table if SAMPLES in table.inputs else _repeated(table, SAMPLES, randomness.domain)


def _repeated(table: Table, axis: Name, domain: Domain) -> Table:
    weights, shift, low, high = table.pair
    xp = namespace(weights, shift)
    shape = (domain.size, *weights.shape)
    shift = shift if np.ndim(shift) == 0 else xp.broadcast_to(shift, shape)
    return Table._of(Scaled(xp.broadcast_to(weights, shape), shift, low, high), {axis: domain, **table.inputs})
