"""Tables in a loop: their slices, and their layout as a carry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data
from fubini.base.names import Name
from fubini.factors.carry import Carried, CarryLayout, carries, float_type, typed
from fubini.factors.slices import Slices, axis_in_front
from fubini.factors.table import Table
from fubini.numerics.named_axes import align
from fubini.numerics.scaled import Scaled, gauged, positive_log
from fubini.terms.heads import exact_lighten, exact_settle, exact_slices, exact_weigh


@exact_slices.rule
def slice_table(f: Table, name: Name) -> Slices:
    """f(i = 0), f(i = 1), …  with the axis of i in front"""
    inputs = {key: domain for key, domain in f.inputs.items() if key != name}
    weights, shift, *_ = f.pair
    if np.ndim(shift) == 0:
        return Slices((axis_in_front(weights, f.names, name),), lambda w: Table._of(Scaled(w[0], shift), inputs))
    both = (axis_in_front(weights, f.names, name), axis_in_front(shift, f.names, name))
    return Slices(both, lambda pair: Table._of(Scaled(*pair), inputs))


@dataclass(frozen=True)
class TableLayout(CarryLayout):
    """A Table over all of `batch`, in this order."""

    @property
    def holds(self) -> str:
        return "a Table, or a Gaussian, and here a Table"


@carries(reals=False)
def table_layout(carried: Carried) -> TableLayout:
    """The layout of tables over these names."""
    return TableLayout(carried.batch, (), float_type(carried.terms), carried.semiring.homogeneous)


@exact_settle.rule
def settle_table(f: Table, layout: TableLayout) -> Table:
    """f over all names of the layout"""
    return full_table(f, layout)


def full_table(table: Table, layout: CarryLayout) -> Table:
    """The table over all batch names of the layout, in its order."""
    names = tuple(name for name, _ in layout.batch)
    shape = tuple(domain.extent for _, domain in layout.batch)
    pair = gauged(table.pair) if layout.homogeneous else table.pair
    weights = jnp.broadcast_to(align(typed(pair.weights, layout), table.names, names), shape)
    shift = typed(pair.shift, layout)
    shift = jnp.broadcast_to(align(shift, table.names, names) if shift.ndim else shift, shape)
    return Table._of(Scaled(weights, shift), dict(layout.batch))


@exact_lighten.rule
def lighten_table(f: Table, names: tuple) -> tuple[Table, Data]:
    """f / max_x f, log max_x f"""
    axes = tuple(axis for axis, name in enumerate(f.names) if name in names)
    weights, shift, *_ = f.pair
    top = jax.lax.stop_gradient(jnp.max(positive_log(weights) + shift, axis=axes, keepdims=True))
    top = jnp.where(jnp.isfinite(top), top, 0.0)
    return weigh_table(f, -top), jnp.squeeze(top, axes)


@exact_weigh.rule
def weigh_table(f: Table, logs: Any) -> Table:
    """f · exp(logs)"""
    weights, shift, *_ = f.pair
    return Table._of(Scaled(weights, shift + logs), f.inputs)
