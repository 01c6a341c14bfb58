"""Densities and weights that jump where a real variable crosses a number, as piecewise tables."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base import ops
from fubini.base.arrays import Data, is_jax, is_traced, precision, require
from fubini.base.domains import Bint
from fubini.base.interpretations import uninterpreted
from fubini.base.names import Bound, Name
from fubini.base.ops import Lifted
from fubini.distributions.density import Density
from fubini.distributions.flat_function import flat_function
from fubini.errors import DataError
from fubini.factors.piecewise import Piecewise
from fubini.factors.piecewise_moments import Cut
from fubini.factors.represent import represented
from fubini.factors.table import Table
from fubini.numerics.jumps import PieceReading, read_jumps
from fubini.numerics.quadratic import places
from fubini.terms.factor import Factor, Weight
from fubini.terms.heads import exact_fix, exact_join
from fubini.terms.term import Term
from fubini.terms.value import Apply, Array, Value

COMPARISONS = (ops.less, ops.less_equal, ops.greater, ops.greater_equal)


def _pieces(f: Factor) -> Piecewise | None:
    """The factor as tables between jumps, if that is what it is; read once."""
    reals = {name: domain for name, domain in f.inputs.items() if domain.kind == "real"}
    others = {name: domain for name, domain in f.inputs.items() if name not in reals}
    if not reals or not all(domain.is_finite for domain in others.values()) or f.pins:
        return None
    if not _compares(f, represented() is not None):
        return None
    key = "_cached_pieces"
    if key not in f.__dict__:
        f.__dict__[key] = _read(f)
    return f.__dict__[key]


def _compares(term: Term, everywhere: bool) -> bool:
    """Whether a term compares values of real variables; functions that are lifted are looked into where asked."""
    if (
        isinstance(term, Apply)
        and any(not domain.is_finite for domain in term.inputs.values())
        and (term.op in COMPARISONS or (everywhere and isinstance(term.op.function, Lifted)))
    ):
        return True
    if everywhere and isinstance(term, Value) and not isinstance(term, (Apply, Array)) and term.children:
        return True
    return any(_compares(child, everywhere) for child in term.children)


def _read(f: Factor) -> Piecewise | None:
    reals = tuple((name, domain) for name, domain in f.inputs.items() if domain.kind == "real")
    batch = {name: domain for name, domain in f.inputs.items() if domain.is_finite}
    is_numpy = not any(map(is_jax, f.leaves()))
    with precision(is_numpy), uninterpreted():
        reading = read_jumps(*flat_function(f.log(), reals, batch))
        if reading is None or not any(len(edges) for edges in reading.edges):
            return None
        elements = [(name, element) for name, place in places(reals).items() for element in range(len(place))]
        return _piecewise(reading, elements, reals, batch, is_numpy)


def _piecewise(reading: PieceReading, elements: list, reals: tuple, batch: dict, is_numpy: bool) -> Piecewise:
    axes = [k for k, edges in enumerate(reading.edges) if len(edges)]
    cuts = [Cut(name, element, Bound(f"{name}[{element}]")) for name, element in (elements[k] for k in axes)]
    counts = [len(edges) + 1 for edges in reading.edges]

    def at(*below: Data) -> Data:
        return reading.at([below[axes.index(k)] if k in axes else 0 for k in range(len(counts))])

    mapped = at
    for position in reversed(range(len(axes))):
        mapped = jax.vmap(mapped, in_axes=tuple(0 if j == position else None for j in range(len(axes))))
    with jax.ensure_compile_time_eval():
        logs = jax.jit(mapped)(*(jnp.arange(counts[k]) for k in axes))
    logs = np.asarray(logs) if is_numpy and not is_traced(logs) else logs
    for k in (k for k in axes if is_traced(reading.edges[k])):
        (logs,) = require(jnp.all(jnp.isfinite(reading.edges[k])), lambda k=k: _no_edge(elements[k]), logs)
    sizes = {cut.interval: Bint[counts[k]] for cut, k in zip(cuts, axes, strict=True)}
    table = Table.from_log(logs, {**sizes, **batch})
    present = {cut.name for cut in cuts}
    edges = [Array(reading.edges[k]) for k in axes]
    return Piecewise._of(table, cuts, edges, [pair for pair in reals if pair[0] in present])


def _no_edge(element: tuple[Name, int]) -> DataError:
    return DataError(
        f"a comparison of {element[0]!r}, element {element[1]}, with a number that is infinite or none",
        expected="finite numbers, where a factor jumps",
    )


@exact_join.rule(
    when=lambda f: _pieces(f) is not None,
    overlaps=(
        "join_weight",
        "join_quadratic_weight",
        "join_density_table",
        "join_density_delta",
        "join_density_normal",
        "join_density_quadratic",
    ),
)
def join_pieces(f: Weight | Density) -> Piecewise:
    """f(x)  =  the table of its values between jumps"""
    pieces = _pieces(f)
    assert pieces is not None, "the guard requires it"
    return pieces


@exact_fix.rule(when=lambda f: _pieces(f) is not None)
def fix_pieces(f: Weight | Density) -> Piecewise:
    """f(x)  =  the table of its values between jumps, which are where its numbers say"""
    return join_pieces(f)
