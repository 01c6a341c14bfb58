"""Carries: factors in one fixed layout, so that a loop can hand them on.

A layout is decided from structure alone: which names, in which order, and in which form. Settling a factor changes its
layout and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from fubini.base.arrays import Data
from fubini.base.domains import Domain, merge_inputs
from fubini.base.names import Name
from fubini.base.semirings import Semiring
from fubini.errors import Intractable
from fubini.factors.delta import Delta
from fubini.factors.gaussian import Gaussian, shifted
from fubini.factors.table import Table
from fubini.numerics import quadratic as numerics
from fubini.numerics import quadratic_algebra as algebra
from fubini.numerics.named_axes import align
from fubini.numerics.quadratic import Names, Quadratic, Reals
from fubini.numerics.scaled import Scaled, gauged, positive_log
from fubini.numerics.small_matrices import turned
from fubini.terms.factor import Factor, Product, Unit, terms_of
from fubini.terms.value import Array


class CarryLayout(NamedTuple):
    """The layout of a carry: a Table over `batch`, or a Gaussian over `reals` too."""

    batch: tuple[tuple[Name, Domain], ...]
    reals: Reals
    vector_names: Names
    matrix_names: Names
    white: bool
    dtype: jnp.dtype
    homogeneous: bool

    @property
    def size(self) -> int:
        """Elements of the real variables."""
        return sum(map(len, numerics.places(self.reals).values()))

    def over(self, name: Name, domain: Domain) -> CarryLayout:
        """The same layout with one more batch name, in front."""
        return self._replace(
            batch=((name, domain), *self.batch),
            vector_names=(name, *self.vector_names),
            matrix_names=(name, *self.matrix_names),
        )


def layout_of(
    factors: Iterable[Factor], without: Sequence[Name], states: Mapping[Name, Domain], semiring: Semiring
) -> CarryLayout:
    """The layout that holds any product of these factors and its marginals."""
    terms = [term for factor in factors for term in terms_of(factor)]
    domains = {
        name: domain
        for name, domain in merge_inputs(*(term.inputs for term in terms), states).items()
        if name not in without
    }
    batch = tuple((name, domain) for name, domain in domains.items() if domain.is_finite)
    reals = tuple((name, domain) for name, domain in domains.items() if not domain.is_finite)
    gaussians = [term for term in terms if isinstance(term, Gaussian)]
    used_M = {name for term in gaussians for name in term.quadratic.matrix_names}
    used_v = used_M | {name for term in gaussians for name in term.quadratic.vector_names}
    white = all(term.quadratic.white for term in gaussians)
    if any(domain.is_finite for domain in states.values()):  # the mean then depends on all that the weights depend on
        used_v = set(dict(batch))
    if white or not used_v.isdisjoint(states):
        used_M = used_v
    vector_names, matrix_names = (tuple(name for name, _ in batch if name in used) for used in (used_v, used_M))
    return CarryLayout(batch, reals, vector_names, matrix_names, white, _float_type(terms), semiring.homogeneous)


def _float_type(terms: Sequence[Factor]) -> jnp.dtype:
    leaves = [leaf for term in terms for leaf in term.leaves() if hasattr(leaf, "dtype")]
    floats = [leaf.dtype for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.floating)]
    return jnp.result_type(*(jax.dtypes.canonicalize_dtype(kind) for kind in floats or [float]))


def settled(factor: Factor, layout: CarryLayout) -> Factor:
    """The same function in this layout."""
    if isinstance(factor, Table):
        return _settled_table(factor, layout)
    if isinstance(factor, Gaussian) and layout.reals:
        return _settled_gaussian(factor, layout)
    raise Intractable(
        f"{factor} as what one step of a sequence hands on to the next",
        expected="a Table, or a Gaussian" + ("" if layout.reals else ", and here a Table"),
        nearest=f"it is a {type(factor).__name__}",
        advice=_advice(factor),
    )


def _advice(factor: Factor) -> str:
    if isinstance(factor, Delta):
        return "a state that is known exactly cannot be handed on; give it a little noise"
    if isinstance(factor, (Product, Unit)):
        return "make the step factor linear in the states, or sample them: `with fb.monte_carlo(key, n):`"
    return "project the mixture after each step: `with fb.moment_matching(window=1):`"


def _settled_table(table: Table, layout: CarryLayout) -> Factor:
    if layout.reals:
        size = layout.size
        rows = 0 if layout.white else size
        flat = Quadratic(jnp.zeros(rows), (), jnp.zeros((rows, size)), (), layout.white)
        return _settled_gaussian(Gaussian._of(table, flat, layout.reals, table.inputs), layout)
    return _full_table(table, layout)


def _full_table(table: Table, layout: CarryLayout) -> Table:
    names = tuple(name for name, _ in layout.batch)
    shape = tuple(domain.extent for _, domain in layout.batch)
    pair = gauged(table.pair) if layout.homogeneous else table.pair
    weights = jnp.broadcast_to(align(_typed(pair.weights, layout), table.names, names), shape)
    shift = _typed(pair.shift, layout)
    shift = jnp.broadcast_to(align(shift, table.names, names) if shift.ndim else shift, shape)
    return Table._of(Scaled(weights, shift), dict(layout.batch))


def _typed(data: Data, layout: CarryLayout) -> Data:
    """Convert to the layout's type, not weakly: a loop hands on the same type that it was given."""
    return jax.lax.convert_element_type(jnp.asarray(data), layout.dtype)


def _settled_gaussian(gaussian: Gaussian, layout: CarryLayout) -> Gaussian:
    quadratic = numerics.padded(gaussian.quadratic, gaussian.reals, layout.reals)
    if not layout.white:
        rest, log, names = algebra.canonical(quadratic)
        scale = shifted(gaussian.scale, log, names, gaussian.inputs)
    else:
        rest, scale = squared(quadratic, layout), gaussian.scale
    sizes = dict(layout.batch)
    vector = _spread(rest.vector, rest.vector_names, layout.vector_names, sizes, 1, layout)
    matrix = _spread(rest.matrix, rest.matrix_names, layout.matrix_names, sizes, 2, layout)
    there = Quadratic(vector, layout.vector_names, matrix, layout.matrix_names, layout.white)
    return Gaussian._of(_full_table(scale, layout), there, layout.reals, sizes)


def _spread(
    data: Data, names: Names, onto: Names, sizes: Mapping[Name, Domain], event: int, layout: CarryLayout
) -> Data:
    aligned = align(_typed(data, layout), names, onto, event)
    shape = tuple(sizes[name].extent for name in onto)
    return jnp.broadcast_to(aligned, (*shape, *aligned.shape[len(onto) :]))


def lightened(factor: Factor, states: Sequence[Name]) -> tuple[Factor, Data]:
    """A settled factor over its greatest weight along the states, and the logarithm of that, a constant.

    Loops put these logarithms out and add them up afterwards: added up on the way, they would lose digits.
    """
    table = factor.scale if isinstance(factor, Gaussian) else factor
    assert isinstance(table, Table)
    axes = tuple(axis for axis, name in enumerate(table.names) if name in states)
    weights, shift, *_ = table.pair
    top = jax.lax.stop_gradient(jnp.max(positive_log(weights) + shift, axis=axes, keepdims=True))
    top = jnp.where(jnp.isfinite(top), top, 0.0)
    return weighed(factor, -top), jnp.squeeze(top, axes)


def weighed(factor: Factor, logs: Data) -> Factor:
    """A settled factor times exp(logs), which broadcast against its weights."""
    table = factor.scale if isinstance(factor, Gaussian) else factor
    assert isinstance(table, Table)
    weights, shift, *_ = table.pair
    scale = Table._of(Scaled(weights, shift + logs), table.inputs)
    return Gaussian._of(scale, factor.quadratic, factor.reals, factor.inputs) if isinstance(factor, Gaussian) else scale


def filled(value: Array, names: Mapping[Name, Domain]) -> Data:
    """The numbers of a Value over all of these names, in order."""
    event = value.output.shape
    data = align(value.array, value.names, tuple(names), len(event))
    return jnp.broadcast_to(data, (*(domain.extent for domain in names.values()), *event))


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
