"""Tables in any semiring: into its carrier and back, its sums and products there, and sums over slices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from fubini.base.arrays import Data, is_jax, is_traced, namespace
from fubini.base.domains import Bint
from fubini.base.names import Bound
from fubini.base.semirings import Semiring, same_pair
from fubini.factors.table import Table, contract_tables, multiply_out
from fubini.numerics.in_range import compiled
from fubini.numerics.scaled import Scaled
from fubini.terms.factor import Unit, is_tabular
from fubini.terms.heads import (
    exact_accumulate,
    exact_contract,
    exact_embed,
    exact_mask,
    exact_place,
    exact_read,
    exact_reduce,
    exact_repeat,
    exact_sum,
)

SLICE = Bound("slice")


@exact_embed.rule
def embed_table(semiring: Semiring, f: Table) -> Table:
    """Embed the weights into the carrier of a semiring."""
    return f if semiring.embed is same_pair else _mapped(f, semiring.embed)


@exact_embed.rule(when=lambda semiring, f: is_tabular(f))
def embed_unit(semiring: Semiring, f: Unit) -> Table:
    """1  =  the table of the semiring's one"""
    shape = [domain.extent for domain in f.inputs.values()]
    return Table._of(Scaled(np.full(shape, semiring.one), 0.0), f.inputs)


@exact_read.rule
def read_table(semiring: Semiring, f: Table) -> Table:
    """Read elements of the carrier of a semiring as weights."""
    return f if semiring.read is same_pair else _mapped(f, semiring.read)


def _mapped(table: Table, change: Callable) -> Table:
    before = table.pair
    weights, shift = change(namespace(before.weights), *before[:2])
    same = weights is before.weights and shift is before.shift
    return table if same else Table._of(Scaled(weights, shift), table.inputs, table.exactness)


@exact_sum.rule
def sum_table(semiring: Semiring, f: Table, names: tuple) -> Table:
    """⊕_x f(x, y)  =  g(y)"""
    return read_table(semiring, embed_table(semiring, f).reduced(semiring, names))


def _runs_compiled(semiring: Semiring, f: Table, names: tuple) -> bool:
    weights, shift, *_ = f.pair
    return is_jax(weights) and not is_traced(weights, shift) and not jax.config.jax_disable_jit  # type: ignore[attr-defined]


@exact_sum.rule(when=_runs_compiled)
def sum_table_compiled(semiring: Semiring, f: Table, names: tuple) -> Table:
    """⊕_x f(x, y)  =  g(y), as one compiled function"""
    return compiled(_sum, (semiring, names), f)


def _sum(semiring: Semiring, names: tuple, f: Table) -> Table:
    return sum_table(semiring, f, names)


@exact_contract.rule
def contract_two_tables(semiring: Semiring, f: Table, g: Table, keep: frozenset) -> Table:
    """⊕_x f(x, y) g(x, z)  =  h(y, z), never building f·g"""
    return contract_tables(semiring, f, g, keep)


@exact_reduce.rule
def reduce_table(semiring: Semiring, f: Table, names: tuple) -> Table:
    """⊕_x f(x, y)  =  g(y) in the carrier"""
    return f.reduced(semiring, names)


@exact_repeat.rule
def repeat_table(semiring: Semiring, f: Table, names: tuple, power: float) -> Table:
    """(⊗_i f(i, x))^s in the carrier"""
    table = multiply_out(semiring, f, names)
    weights = table.pair.weights
    weights = semiring.repeat(namespace(weights), weights, power) if power != 1 else weights
    return Table._of(Scaled(weights, 0.0), table.inputs, table.exactness)


# -- slices ---------------------------------------------------------------------------------------------------------


@exact_accumulate.rule
def accumulate_tables(semiring: Semiring, f: Table, g: Table) -> Table:
    """f ⊕ g, as a sum over an index of two values"""
    return _stacked(f, g).reduced(semiring, (SLICE,))


def _stacked(a: Table, b: Table) -> Table:
    x, y = a.pair, b.aligned(a.names)
    shape, xp = x.weights.shape, namespace(*x[:2], *y[:2])
    weights = xp.stack([x.weights, y.weights])
    shift = xp.stack([xp.broadcast_to(x.shift, shape), xp.broadcast_to(y.shift, shape)])
    return Table._of(Scaled(weights, shift), {SLICE: Bint[2], **a.inputs}, a.exactness | b.exactness)


@exact_mask.rule
def mask_table(semiring: Semiring, f: Table, keep: Any) -> Table:
    """f where kept, else 0"""
    weights, shift, *_ = f.pair
    xp = namespace(weights, keep)
    return Table._of(Scaled(xp.where(keep, weights, semiring.zero), shift), f.inputs, f.exactness)


@exact_place.rule
def place_table(semiring: Semiring, f: Table, there: Mapping, value: Any) -> Table:
    """f · δ(x = v)"""
    ((name, domain),) = there.items()
    pair = f.pair
    xp = namespace(pair.weights, value)
    weights: Data = xp.where(np.arange(domain.extent) == value, pair.weights[..., None], semiring.zero)
    shift = pair.shift if pair.is_linear else xp.broadcast_to(pair.shift[..., None], weights.shape)
    return Table._of(Scaled(weights, shift), {**f.inputs, name: domain}, f.exactness)
