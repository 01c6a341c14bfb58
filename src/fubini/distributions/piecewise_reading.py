"""Densities and weights that jump where a real variable crosses a number, as piecewise tables."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base import ops
from fubini.base.arrays import Data, is_jax, is_traced, namespace, precision, require
from fubini.base.domains import Bint, Domain
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
from fubini.numerics.named_axes import align
from fubini.numerics.quadratic import places
from fubini.terms.factor import Factor, Weight
from fubini.terms.heads import exact_fix, exact_join
from fubini.terms.term import Term
from fubini.terms.value import Apply, Array, Value, to_array

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
    if key in f.__dict__:
        return f.__dict__[key]
    made = _read_once(f)
    if made is None or not is_traced(*made.leaves()) or is_traced(*f.leaves()):
        f.__dict__[key] = made
    return made


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


_known: OrderedDict[tuple, Piecewise | None] = OrderedDict()  # what was read before, by structure and numbers
MOST_KNOWN, MOST_BYTES = 256, 2**16


def _read_once(f: Factor) -> Piecewise | None:
    """Read a factor, unless another of the same structure and numbers was read before."""
    leaves = tuple(f.leaves())
    if is_traced(*leaves) or sum(np.asarray(leaf).nbytes for leaf in leaves) > MOST_BYTES:
        return _read(f)
    contents = tuple((is_jax(leaf), np.asarray(leaf).tobytes()) for leaf in leaves)
    key = (f.key, jnp.result_type(float), contents)
    if key in _known:
        return _known[key]
    made = _read(f)
    if made is None or not is_traced(*made.leaves()):
        _known[key] = made
        while len(_known) > MOST_KNOWN:
            _known.popitem(last=False)
    return made


def _read(f: Factor) -> Piecewise | None:
    reals = tuple((name, domain) for name, domain in f.inputs.items() if domain.kind == "real")
    batch = {name: domain for name, domain in f.inputs.items() if domain.is_finite}
    is_numpy = not any(map(is_jax, f.leaves()))
    with precision(is_numpy), uninterpreted():
        reading = read_jumps(*flat_function(f.log(), reals, batch))
        if reading is None or not any(len(edges) for edges in reading.edges):
            return None
        elements = [(name, element) for name, place in places(reals).items() for element in range(len(place))]
        with jax.ensure_compile_time_eval():
            between = None if is_traced(*f.leaves()) else _points_between(reading.edges)
            logs = _logs_in_boxes(reading) if between is None else _logs_at(f, between, reals, batch)
        return _piecewise(reading, logs, elements, reals, batch, is_numpy)


def _points_between(edges: Sequence[Data]) -> list[np.ndarray] | None:
    """A number within each interval of each axis; None where edges are too close, or too far, for one that is safe."""
    points = []
    for own in edges:
        if is_traced(own) or (np.abs(own) > 1e30).any():
            return None
        room = 1e-3 * np.maximum(1.0, np.abs(own))
        if (np.diff(own) < np.maximum(room[:-1], room[1:])).any():
            return None
        if len(own):
            first, last = own[0] - max(1.0, abs(own[0])), own[-1] + max(1.0, abs(own[-1]))
            points.append(np.concatenate([[first], 0.5 * (own[1:] + own[:-1]), [last]]))
        else:
            points.append(np.zeros(1))
    return points


def _logs_at(f: Factor, between: Sequence[np.ndarray], reals: tuple, batch: dict) -> Data:
    """log f at a point in each box, with an axis for each axis that is cut, then the batch.

    The function is one that JAX has compiled before for another factor of the same structure.
    """
    names = tuple(_interval(k) for k, own in enumerate(between) if len(own) > 1)
    sizes: dict[Name, Domain] = {_interval(k): Bint[len(own)] for k, own in enumerate(between) if len(own) > 1}
    grid = np.stack(np.meshgrid(*between, indexing="ij"), axis=-1).reshape(
        (*(domain.extent for domain in sizes.values()), len(between))
    )
    at: dict[Name, Value] = {}
    for (name, domain), place in zip(reals, places(reals).values(), strict=True):
        data = grid[..., place.start : place.stop].reshape((*grid.shape[:-1], *domain.shape))
        at[name] = Array._of(data, names, sizes, domain)
    made = to_array(f.log().replaced(at))
    order = (*names, *batch)
    shape = [{**sizes, **batch}[name].extent for name in order]
    return namespace(made.array).broadcast_to(align(made.array, made.names, order), shape)


@cache
def _interval(position: int) -> Bound:
    """The name of the intervals of an axis: the same each time, so that compiled functions can be looked up."""
    return Bound(f"interval {position}")


def _logs_in_boxes(reading: PieceReading) -> Data:
    """The same, by the truths of all comparisons in each box."""
    axes = [k for k, edges in enumerate(reading.edges) if len(edges)]

    def at(*below: Data) -> Data:
        return reading.at([below[axes.index(k)] if k in axes else 0 for k in range(len(reading.edges))])

    mapped = at
    for position in reversed(range(len(axes))):
        mapped = jax.vmap(mapped, in_axes=tuple(0 if j == position else None for j in range(len(axes))))
    return jax.jit(mapped)(*(jnp.arange(len(reading.edges[k]) + 1) for k in axes))


def _piecewise(
    reading: PieceReading, logs: Data, elements: list, reals: tuple, batch: dict, is_numpy: bool
) -> Piecewise:
    axes = [k for k, edges in enumerate(reading.edges) if len(edges)]
    cuts = [Cut(name, element, Bound(f"{name}[{element}]")) for name, element in (elements[k] for k in axes)]
    counts = [len(edges) + 1 for edges in reading.edges]
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
