"""Gaussians in a loop: their slices, and their layout as a carry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp

from fubini.base.arrays import Data
from fubini.base.domains import Domain
from fubini.base.names import Name
from fubini.factors.carry import Carried, CarryLayout, carries, float_type, typed
from fubini.factors.gaussian import Gaussian, shifted
from fubini.factors.slices import Slices, axis_in_front, slices
from fubini.factors.table import Table
from fubini.factors.table_carry import full_table, lighten_table, weigh_table
from fubini.numerics import quadratic as numerics
from fubini.numerics import quadratic_algebra as algebra
from fubini.numerics.named_axes import align
from fubini.numerics.quadratic import Names, Quadratic
from fubini.numerics.small_matrices import turned
from fubini.terms.factor import Factor
from fubini.terms.heads import exact_lighten, exact_settle, exact_slices, exact_weigh


@exact_slices.rule
def slice_gaussian(f: Gaussian, name: Name) -> Slices:
    """f(i = 0), f(i = 1), …  of the arrays that depend on i"""
    v, v_names, M, M_names, white = f.quadratic
    scale = slices(f.scale, name)
    inputs = {key: domain for key, domain in f.inputs.items() if key != name}
    moving = [name in v_names, name in M_names]
    stacked = [axis_in_front(data, names, name) for data, names in ((v, v_names), (M, M_names)) if name in names]
    others = [tuple(key for key in names if key != name) for names in (v_names, M_names)]

    def at(parts: Sequence[Data]) -> Factor:
        own = iter(parts)
        vector = next(own) if moving[0] else v
        matrix = next(own) if moving[1] else M
        quadratic = Quadratic(vector, others[0], matrix, others[1], white)
        own_scale = scale.at(tuple(own))
        assert isinstance(own_scale, Table)
        return Gaussian._of(own_scale, quadratic, f.reals, inputs)

    return Slices((*stacked, *scale.stacked), at)


@dataclass(frozen=True)
class GaussianLayout(CarryLayout):
    """A Gaussian over `reals`, its scale over all of `batch`, its vector and matrix over these names of it."""

    vector_names: Names
    matrix_names: Names
    white: bool

    @property
    def holds(self) -> str:
        return "a Table, or a Gaussian"

    @property
    def size(self) -> int:
        """Elements of the real variables."""
        return sum(map(len, numerics.places(self.reals).values()))

    def over(self, name: Name, domain: Domain) -> GaussianLayout:
        return replace(
            self,
            batch=((name, domain), *self.batch),
            vector_names=(name, *self.vector_names),
            matrix_names=(name, *self.matrix_names),
        )

    def over_everything(self) -> GaussianLayout:
        every = tuple(name for name, _ in self.batch)
        return replace(self, vector_names=every, matrix_names=every)


@carries(reals=True)
def gaussian_layout(carried: Carried) -> GaussianLayout:
    """The layout of Gaussians that holds any product of the Gaussians among these terms."""
    batch, reals, terms, states, semiring = carried
    gaussians = [term for term in terms if isinstance(term, Gaussian)]
    used_M = {name for term in gaussians for name in term.quadratic.matrix_names}
    used_v = used_M | {name for term in gaussians for name in term.quadratic.vector_names}
    white = all(term.quadratic.white for term in gaussians)
    if any(domain.is_finite for domain in states.values()):  # the mean then depends on all that the weights depend on
        used_v = set(dict(batch))
    if white or not used_v.isdisjoint(states):
        used_M = used_v
    vector_names, matrix_names = (tuple(name for name, _ in batch if name in used) for used in (used_v, used_M))
    return GaussianLayout(batch, reals, float_type(terms), semiring.homogeneous, vector_names, matrix_names, white)


@exact_settle.rule
def settle_table_as_gaussian(f: Table, layout: GaussianLayout) -> Gaussian:
    """f · exp(0), over the real variables of the layout"""
    size = layout.size
    rows = 0 if layout.white else size
    flat = Quadratic(jnp.zeros(rows), (), jnp.zeros((rows, size)), (), layout.white)
    return settle_gaussian(Gaussian._of(f, flat, layout.reals, f.inputs), layout)


@exact_settle.rule
def settle_gaussian(f: Gaussian, layout: GaussianLayout) -> Gaussian:
    """f over all names of the layout, in its form"""
    quadratic = numerics.padded(f.quadratic, f.reals, layout.reals)
    if not layout.white:
        rest, log, names = algebra.canonical(quadratic)
        scale = shifted(f.scale, log, names, f.inputs)
    else:
        assert quadratic.white, "a layout of white rows holds what has them"
        rest, scale = squared(quadratic, layout), f.scale
    sizes = dict(layout.batch)
    vector = _spread(rest.vector, rest.vector_names, layout.vector_names, sizes, 1, layout)
    matrix = _spread(rest.matrix, rest.matrix_names, layout.matrix_names, sizes, 2, layout)
    there = Quadratic(vector, layout.vector_names, matrix, layout.matrix_names, layout.white)
    return Gaussian._of(full_table(scale, layout), there, layout.reals, sizes)


def _spread(
    data: Data, names: Names, onto: Names, sizes: Mapping[Name, Domain], event: int, layout: CarryLayout
) -> Data:
    aligned = align(typed(data, layout), names, onto, event)
    shape = tuple(sizes[name].extent for name in onto)
    return jnp.broadcast_to(aligned, (*shape, *aligned.shape[len(onto) :]))


@exact_lighten.rule
def lighten_gaussian(f: Gaussian, names: tuple) -> tuple[Gaussian, Data]:
    """f / max_x s, log max_x s, where s is the scale of f"""
    scale, log = lighten_table(f.scale, names)
    return Gaussian._of(scale, f.quadratic, f.reals, f.inputs), log


@exact_weigh.rule
def weigh_gaussian(f: Gaussian, logs: Any) -> Gaussian:
    """f · exp(logs)"""
    return Gaussian._of(weigh_table(f.scale, logs), f.quadratic, f.reals, f.inputs)


# -- white rows -----------------------------------------------------------------------------------------------------


def squared(quadratic: Quadratic, layout: CarryLayout) -> Quadratic:
    """The same exponent in as many rows as variables and one more, which holds what no variable explains."""
    r, r_names, R, R_names, _ = quadratic
    rows = R.shape[-1] + 1
    if R.shape[-2] <= rows:
        missing = rows - R.shape[-2]
        return Quadratic(_padded_rows(r, missing, 1), r_names, _padded_rows(R, missing, 2), R_names, True)
    sizes = dict(layout.batch)
    names = tuple(dict.fromkeys((*R_names, *r_names)))
    both = jnp.concatenate(
        [
            _spread(R, R_names, names, sizes, 2, layout),
            _spread(r, r_names, names, sizes, 1, layout)[..., None],
        ],
        axis=-1,
    )
    U = turned(both)
    return Quadratic(U[..., -1], names, U[..., :-1], names, True)


def _padded_rows(data: Data, missing: int, event: int) -> Data:
    data = jnp.asarray(data)
    widths = [(0, 0)] * (data.ndim - event) + [(0, missing)] + [(0, 0)] * (event - 1)
    return jnp.pad(data, widths)
