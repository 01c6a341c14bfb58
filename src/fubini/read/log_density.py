"""The log-density of a distribution record at a value, both symbolic."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from fubini.algebra.build import (
    ONE,
    ZERO,
    call,
    const,
    index,
    less,
    negate,
    plus,
    times,
    where,
)
from fubini.algebra.node import Index, Node, node
from fubini.algebra.ranges import bounds, is_whole
from fubini.algebra.sums import total
from fubini.base.arrays import is_traced
from fubini.base.domains import Real
from fubini.distributions.blueprint import CENSORED, FOREIGN, Blueprint, leaf_count, signature_of
from fubini.distributions.parameter_checks import parameters_hold
from fubini.distributions.supports import is_everywhere
from fubini.errors import DomainError
from fubini.families.family import Family, read_family
from fubini.families.functions import MINUS_INFINITY, log
from fubini.families.parameters import DerivedParameter, Matrix, Support, Vector
from fubini.read.censoring import Censoring
from fubini.read.constraints import validity
from fubini.read.derived_arrays import derived_array
from fubini.read.given_matrices import GivenMatrices
from fubini.read.jaxpr_reader import Reader
from fubini.read.scaled_matrix import positive_definite_entries
from fubini.read.symbolic_array import SymbolicArray

Batch = tuple[Node, ...]


def log_density(
    blueprint: Blueprint,
    leaves: Sequence[SymbolicArray],
    value: SymbolicArray,
    batch: int,
    present: SymbolicArray | None = None,
    reader: Reader | None = None,
    is_whole: bool = False,
) -> Node | None:
    """Σ over the batch of log p(value); None where the family is not known. `batch` counts axes that are no event.

    Where entries are missing, those that are `present` count.
    """
    sizes = [Index(size) for size in value.shape[:batch]]
    at = tuple(map(index, sizes))
    entries = CellValue(lambda *event: value.at(*at, *event), value.shape[batch:], present, reader, is_whole)
    log_p = _entry(blueprint, iter(leaves), at, entries)
    return None if log_p is None else total(sizes, log_p)


class CellValue(NamedTuple):
    """The value of one batch cell: the entry at event indices, the event's shape, and which entries are there."""

    of: Callable[..., Node]
    event: tuple[int, ...]
    present: SymbolicArray | None
    reader: Reader | None
    is_whole: bool = False  # the domain says all of where the values lie
    masked: bool = False  # cells may be omitted
    censoring: Censoring | None = None  # which of the values are bounds


def _entry(blueprint: Blueprint, leaves: Iterator[SymbolicArray], at: Batch, value: CellValue) -> Node | None:
    """log p of the value of one batch cell."""
    if value.present is not None and value.event and _are_whole(value.present, len(value.event)):
        log_p = _entry(blueprint, leaves, at, value._replace(present=None, masked=True))
        first = _at(value.present, (*at, *(ZERO for _ in value.event)))
        return None if log_p is None else where(first, log_p, const(0.0))
    statics = dict(blueprint.statics)
    if blueprint.family in CENSORED:
        return _censored(blueprint, leaves, at, value)
    match blueprint.family:
        case "ExpandedDistribution":
            return _entry(blueprint.inner[0], leaves, at, value)
        case "Independent":
            count = statics["reinterpreted_batch_ndims"]
            inner = [Index(size) for size in value.event[:count]]
            more = tuple(map(index, inner))
            inside = value._replace(of=lambda *rest: value.of(*more, *rest), event=value.event[count:])
            log_p = _entry(blueprint.inner[0], leaves, (*at, *more), inside)
            return None if log_p is None else total(inner, log_p)
        case "MaskedDistribution":
            given = dict(zip(blueprint.keys, blueprint.inner, strict=True))
            log_p = _entry(given["base_dist"], leaves, at, value._replace(masked=True))
            mask = statics.get("mask")
            test = const(float(mask)) if isinstance(mask, bool) else _at(next(leaves), at)
            return None if log_p is None else where(test, log_p, const(0.0))
        case "PowerDistribution":
            log_p = _entry(blueprint.inner[0], leaves, at, value)
            return None if log_p is None else times(_at(next(leaves), at), log_p)
    log_p = _known(blueprint, leaves, at, value)
    if log_p is None or value.present is None or value.event:
        return log_p
    return where(value.present.at(*at), log_p, const(0.0))


def _are_whole(present: SymbolicArray, axes: int) -> bool:
    """Whether it is known that each event, of so many last axes, is there with all of its entries or with none."""
    if present.constant is None or is_traced(present.constant) or not math.prod(present.shape):
        return False
    events = np.asarray(present.constant, bool).reshape(math.prod(present.shape[:-axes]), -1)
    return bool(np.all(events == events[:, :1]))


def _censored(blueprint: Blueprint, leaves: Iterator[SymbolicArray], at: Batch, value: CellValue) -> Node | None:
    """By the record of the base, where that has a survival function; else entry by entry."""
    inner = dict(zip(blueprint.keys, blueprint.inner, strict=True))
    arrays = {
        key: [next(leaves) for _ in range(1 if part is None else leaf_count(part))] for key, part in inner.items()
    }
    tests = {key: _at(arrays[key][0], at) for key, part in inner.items() if part is None}
    ends = (value.of(),) if not value.event else (value.of(ZERO), value.of(ONE))
    censoring = Censoring(CENSORED[blueprint.family], tests, ends, value.reader)
    inside = value._replace(of=censoring.place, event=(), censoring=censoring)
    log_p = _entry(inner["base_dist"], iter(arrays["base_dist"]), at, inside)
    if log_p is not None:
        return log_p
    return _known(blueprint, iter(array for part in arrays.values() for array in part), at, value)


def _known(blueprint: Blueprint, leaves: Iterator[SymbolicArray], at: Batch, value: CellValue) -> Node | None:
    """By the record of the family, or entry by entry; of a vector with missing entries, by the record alone."""
    if not any(blueprint.inner):
        parameters = [next(leaves) for _ in blueprint.keys]
        given = dict(zip(blueprint.keys, parameters, strict=True))
        fixed = {
            key: const(float(item)) for key, item in blueprint.statics if isinstance(item, (int, float, np.number))
        }
        is_partial = value.present is not None and bool(value.event)
        reader = None if is_partial else value.reader
        allowed = ZERO if reader is None else validity(blueprint, given, at, reader, value.masked)
        is_inside = _is_in_domain(value, blueprint, parameters)
        log_p = _plain(blueprint.family, given, fixed, at, value) if is_inside else None
        if log_p is not None:
            return plus(log_p, allowed)
    else:
        parameters = [next(leaves) for _ in range(leaf_count(blueprint))]
    if not value.event and value.censoring is None and is_elementwise(blueprint, len(parameters)):
        return node("call", EntryDensity(blueprint), value.of(), *(_at(array, at) for array in parameters))
    return None


def _is_in_domain(value: CellValue, blueprint: Blueprint, leaves: Sequence[SymbolicArray]) -> bool:
    """A value that sites decide is one of the domain of its family, where the density has its formula."""
    entry = value.of(*(index(Index(size)) for size in value.event))
    if value.reader is None or value.reader.is_checked or not _is_random(entry):
        return True
    try:
        domain = signature_of(blueprint, tuple(Real.with_shape(leaf.shape) for leaf in leaves)).domain
    except DomainError:
        return True
    if domain.kind == "positive_definite":
        latent = positive_definite_entries(SymbolicArray(value.event, value.of))
        return latent is not None and latent.front is ONE
    if domain.kind in ("real", "simplex"):
        return domain.kind == "real" or (entry.kind == "get" and entry.args[0].is_simplex)
    low, high = bounds(entry)
    most = {"unit": 1.0, "bint": domain.extent - 1.0 if domain.kind == "bint" else math.inf}.get(domain.kind, math.inf)
    return (low >= 0 or domain.kind == "integer") and high <= most and (is_whole(entry) or not domain.is_discrete)


class EntryDensity(NamedTuple):
    """The log-density of single numbers in a family that is not read: −inf outside the support."""

    blueprint: Blueprint

    def __call__(self, value: Any, *leaves: Any) -> Any:
        made = self.blueprint.build(map(jnp.asarray, leaves))
        allowed = jnp.where(parameters_hold(made), 0.0, jnp.nan)
        if is_everywhere(made.support):
            return made.log_prob(value) + allowed
        inside = made.support(value)
        safe = jnp.where(inside, value, made.support.feasible_like(jnp.asarray(value)))
        return jnp.where(inside, made.log_prob(safe), -jnp.inf) + allowed

    def __repr__(self) -> str:
        return f"log {self.blueprint.family}"


@lru_cache(maxsize=1024)
def is_elementwise(blueprint: Blueprint, leaves: int) -> bool:
    """Over numbers it is a distribution of one number: over arrays, of one for each entry."""
    if blueprint.family == FOREIGN:
        return False
    try:
        signature = signature_of(blueprint, (Real,) * leaves)
    except DomainError:
        return False
    return not signature.shape and not any(getattr(c, "event_dim", 0) for c in signature.constraints.values())


def _at(array: SymbolicArray, at: Batch, *event: Node) -> Node:
    """A parameter at a batch cell: it has the last of its axes, those of one entry for all."""
    rank = array.rank - len(event)
    return array.at(*at[len(at) - rank :], *event)


def _plain(
    family: str,
    given: Mapping[str, SymbolicArray],
    fixed: Mapping[str, Node],
    at: Batch,
    value: CellValue,
) -> Node | None:
    if family == "ImproperUniform" and value.is_whole:
        return const(0.0)
    record = read_family(family)
    if record is not None and value.censoring is not None:
        record = value.censoring.of(record)
    if record is None or not set(given) <= set(record.constraints):
        return None
    if value.present is not None and value.event:
        if not record.has_marginals:
            return None
        given = {**given, "present": value.present}
    made = record.derived((*given, *fixed))
    if made and value.reader is None:
        return None
    return _of_record(record, given, fixed, made, at, value)


def _of_record(
    record: Family,
    given: Mapping[str, SymbolicArray],
    fixed: Mapping[str, Node],
    made: Mapping[str, DerivedParameter],
    at: Batch,
    value: CellValue,
) -> Node:
    """The log-density that a family has in index notation."""
    ranks = {name: constraint.event_dim for name, constraint in record.constraints.items()} | {"present": 1}
    over = tuple(map(Index, value.event))
    x: Any = _array(over, value.of(*map(index, over)))
    if record.structured is not None and value.reader is not None and "present" not in given:
        whole = {name: _parameter(part, ranks[name], at) for name, part in given.items()}
        log_p = record.structured(x, whole, GivenMatrices(given, value.reader))
        if log_p is not None:
            return log_p
    used = {name for part in made.values() for name in part.of if name in record.constraints}
    parameters = {name: _parameter(part, ranks[name], at) for name, part in given.items() if name not in used}
    for name, part in made.items():
        assert value.reader is not None
        operands = {**given, "value": SymbolicArray(value.event, value.of)}
        parameters[name] = _parameter(derived_array(part, operands, value.reader), part.event_dim, at)
    parameters |= {name: part for name, part in fixed.items() if name in ranks}
    if record.is_possible is not None:
        return _where_possible(record.is_possible(x, parameters), record.log_density(x, parameters), value)
    if record.log_density_everywhere is None and not isinstance(record.support, Support) and not record.is_of_vectors:
        return _log_of_count(record, x, parameters, value)
    return record.log_density_of(x, parameters)


def _parameter(array: SymbolicArray, rank: int, at: Batch) -> Node | Vector | Matrix:
    """A parameter at a batch cell: a number, a vector or a matrix."""
    over = tuple(Index(size) for size in array.shape[array.rank - rank :])
    return _array(over, _at(array, at, *map(index, over)))


def _array(over: tuple[Index, ...], entry: Node) -> Node | Vector | Matrix:
    """A number, a vector or a matrix, by its entry."""
    return (lambda: entry, lambda c: Vector(c, entry), lambda i, j: Matrix(i, j, entry))[len(over)](*over)


def _possible(test: Node, density: Node) -> Node:
    """The log-density where a test of counts holds, −∞ elsewhere; data alone decide it outside of the density."""
    return where(test, density, MINUS_INFINITY) if _is_random(test) else plus(density, log(test))


def _is_random(of: Node) -> bool:
    return any(leaf.role in ("site", "opaque") for leaf in of.leaves)


def _log_of_count(record: Family, x: Node, parameters: Mapping[str, Any], value: CellValue) -> Node:
    """That of a count up to n, −∞ above it"""
    n = parameters["total_count"]
    inside = negate(less(n, x))
    if (holds := _holds(inside, value)) is not None:
        return record.log_density(x, parameters) if holds else MINUS_INFINITY
    known = n if _is_random(inside) else call("max", n, x)  # where x > n, some number that is none of the density's
    return _possible(inside, record.log_density(x, {**parameters, "total_count": known}))


def _where_possible(test: Node, density: Node, value: CellValue) -> Node:
    """A density where a test holds, −∞ elsewhere."""
    if (holds := _holds(test, value)) is not None:
        return density if holds else MINUS_INFINITY
    return _possible(test, density)


def _holds(test: Node, value: CellValue) -> bool | None:
    """Whether a test holds in all cells, where that is known; one that fails may do so in cells that do not count."""
    holds = None if value.reader is None else value.reader.truth(test)
    return None if not holds and (value.masked or value.present is not None) else holds
