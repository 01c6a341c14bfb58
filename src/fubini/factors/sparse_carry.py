"""Sparse factors in a loop: their slices, and their layout as a carry, a fixed number of slots."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data
from fubini.base.domains import Domain
from fubini.base.names import Name
from fubini.factors.carry import Carried, CarryLayout, float_type, settled, typed
from fubini.factors.slices import Slices
from fubini.factors.sparse import Sparse, sort_over
from fubini.factors.sparse_algebra import extend
from fubini.factors.sparse_checks import as_capacity, multiply_capacity, require_capacity, require_keys
from fubini.factors.table import Table
from fubini.factors.table_carry import TableLayout
from fubini.numerics.keyed_weights import Keyed, count_positive, drop_zeros, mask
from fubini.numerics.scaled import Scaled, gauged, positive_log
from fubini.terms.factor import Factor
from fubini.terms.heads import exact_lighten, exact_settle, exact_slices, exact_weigh

# -- slices ---------------------------------------------------------------------------------------------------------


@exact_slices.rule
def slice_sparse(f: Sparse, name: Name) -> Slices:
    """f(i = 0), f(i = 1), …  each with its share of the capacity as slots"""
    inputs = {key: domain for key, domain in f.inputs.items() if key != name}
    if not inputs:
        return _slices_of_numbers(f)
    size, cells = f.inputs[name].extent, math.prod(domain.extent for domain in inputs.values())
    keyed = sort_over(f, (name, *inputs), jnp)
    slots = max(1, min(cells, keyed.slots, -(-f.capacity // size)))
    starts = jnp.searchsorted(keyed.keys, jnp.arange(size + 1) * cells)
    most = jnp.max(jnp.diff(starts))
    asked = f"{f} cut along {name!r}, a slice of {slots} cells"
    absent = require_capacity(most * size, max(f.capacity, slots * size), asked, f.absent, keyed.pair.weights)
    at = starts[:-1, None] + jnp.arange(slots)
    inside = at < starts[1:, None]
    pair = mask(_take_rows(keyed.pair, jnp.minimum(at, keyed.slots - 1)), inside)
    keys = jnp.where(inside, keyed.keys[jnp.minimum(at, keyed.slots - 1)] % cells, cells)
    stacked = (keys, pair.weights, pair.shift, jnp.broadcast_to(absent, (size,)))
    return Slices(stacked, lambda parts: _rebuilt(parts, inputs, cells, slots, f))


def _slices_of_numbers(f: Sparse) -> Slices:
    """The numbers of a factor of one name, as tables."""
    weights, shift, *_ = f.to_table().pair
    both = (jnp.asarray(weights), jnp.broadcast_to(jnp.asarray(shift), weights.shape))
    return Slices(both, lambda pair: Table._of(Scaled(*pair), {}))


def _take_rows(pair: Scaled, index: Data) -> Scaled:
    shift = jnp.broadcast_to(pair.shift, pair.weights.shape)
    return Scaled(pair.weights[index], shift[index])


def _rebuilt(parts: Any, inputs: dict[Name, Domain], cells: int, capacity: int, f: Sparse) -> Sparse:
    """A slice; the arrays of all slices at once are a factor whose first axis has no name."""
    keys, weights, shift, absent = parts
    made = Sparse._of(Keyed(keys, Scaled(weights, shift), cells), absent, inputs, capacity, f.mark)
    if np.ndim(keys) > 1:
        del made.__dict__["_cached_keyed"]
    return made


# -- the layout -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SparseLayout(CarryLayout):
    """A Sparse over all of `batch`, in this order, in as many slots as the capacity, or as there are cells."""

    capacity: int = 1

    @property
    def holds(self) -> str:
        return f"a Sparse of capacity {self.capacity}, or a Table"

    @property
    def slots(self) -> int:
        """The number of slots of every carry."""
        return min(self.capacity, math.prod(domain.extent for _, domain in self.batch))

    def over(self, name: Name, domain: Domain) -> SparseLayout:
        """The same layout with one more batch name, in front, and as many slots for each of its values."""
        return replace(
            self, batch=((name, domain), *self.batch), capacity=multiply_capacity(self.capacity, domain.extent)
        )


def sparse_layout(capacity: int) -> Callable[[Carried], CarryLayout]:
    """How the layout of sparse carries of this capacity is made.

    >>> from fubini.base.semirings import sum_product
    >>> made = sparse_layout(100)(Carried((("s", fb.Bint[1000]),), (), (), {"s": fb.Bint[1000]}, sum_product))
    >>> made.slots
    100
    """
    capacity = as_capacity(capacity, 1)

    def make(carried: Carried) -> CarryLayout:
        homogeneous = carried.semiring.homogeneous
        if not carried.batch or not homogeneous:
            return TableLayout(carried.batch, (), float_type(carried.terms), homogeneous)
        return SparseLayout(carried.batch, (), float_type(carried.terms), homogeneous, capacity)

    return make


@exact_settle.rule
def settle_sparse(f: Sparse, layout: SparseLayout) -> Sparse:
    """f over all names of the layout, in its slots"""
    domains = dict(layout.batch)
    require_keys(jnp, domains)
    wide = extend(f.with_capacity(layout.capacity) if f.stored > layout.capacity else f, domains)
    keyed = sort_over(wide, tuple(domains), jnp)
    count = count_positive(keyed)
    asked = f"{f} as what one step of a sequence hands on to the next"
    absent = require_capacity(count, layout.capacity, asked, wide.absent, keyed.pair.weights)
    keyed = _in_slots(drop_zeros(keyed, layout.slots), layout.slots)
    weights, shift, *_ = gauged(keyed.pair)
    pair = Scaled(typed(weights, layout), typed(jnp.broadcast_to(shift, weights.shape), layout))
    return Sparse._of(keyed._replace(pair=pair), typed(absent, layout), domains, layout.capacity)


def _in_slots(keyed: Keyed, slots: int) -> Keyed:
    """The same cells in this number of slots, of which there are enough."""
    missing = slots - keyed.slots
    shift = jnp.broadcast_to(keyed.pair.shift, keyed.pair.weights.shape)
    keys = jnp.pad(keyed.keys, (0, missing), constant_values=keyed.end).astype(int)
    return Keyed(keys, Scaled(jnp.pad(keyed.pair.weights, (0, missing)), jnp.pad(shift, (0, missing))), keyed.end)


@exact_settle.rule
def settle_table_as_sparse(f: Table, layout: SparseLayout) -> Factor:
    """the cells of f that are not zero, over all names of the layout"""
    if f.inputs:
        return settle_sparse(Sparse.from_table(f, max(layout.capacity, f.pair.weights.size)), layout)
    ones = Table(jnp.ones([domain.extent for _, domain in layout.batch], layout.dtype), dict(layout.batch))
    weights, shift, *_ = f.pair
    whole = Table._of(Scaled(ones.pair.weights * weights, ones.pair.shift + shift), ones.inputs, f.exactness)
    return settle_sparse(Sparse.from_table(whole, max(layout.capacity, whole.pair.weights.size)), layout)


@exact_settle.rule
def settle_sparse_as_table(f: Sparse, layout: CarryLayout) -> Factor:
    """f, with every cell stored"""
    return settled(f.to_table(), layout)


@exact_lighten.rule
def lighten_sparse(f: Sparse, names: tuple) -> tuple[Sparse, Data]:
    """f / max_x f, log max_x f"""
    rest = tuple(name for name in f.names if name not in names)
    shape = tuple(f.inputs[name].extent for name in rest)
    keyed, size = f.keyed, math.prod(shape)
    logs = jax.lax.stop_gradient(positive_log(keyed.pair.weights) + keyed.pair.shift)
    rows = f.key_over(rest, keyed, size)
    top = jax.ops.segment_max(jnp.where(keyed.used, logs, -jnp.inf), rows, size).reshape(shape)
    top = jnp.where(jnp.isfinite(top), top, 0.0)
    every = jnp.expand_dims(top, tuple(axis for axis, name in enumerate(f.names) if name in names))
    return weigh_sparse(f, -every), top


@exact_weigh.rule
def weigh_sparse(f: Sparse, logs: Any) -> Sparse:
    """f · exp(logs), at the cells of f"""
    keyed, logs = f.keyed, jnp.asarray(logs)
    logs = logs.reshape((1,) * (len(f.names) - logs.ndim) + logs.shape)
    at = tuple(f.positions(name, keyed) if n > 1 else 0 for name, n in zip(f.names, logs.shape, strict=True))
    shift = jnp.where(keyed.used, keyed.pair.shift + logs[at], 0.0)
    pair = Scaled(keyed.pair.weights, jnp.broadcast_to(shift, keyed.pair.weights.shape))
    return Sparse._of(keyed._replace(pair=pair), f.absent, f.inputs, f.capacity, f.mark)
