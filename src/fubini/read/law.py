"""The log-density of a distribution record at a value, both symbolic."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fubini.dist.blueprint import FOREIGN, Blueprint, signature_of
from fubini.dist.supports import is_everywhere
from fubini.dist.validity import parameters_hold
from fubini.domains import Real
from fubini.errors import DomainError
from fubini.families.family import Family, read_family
from fubini.families.functions import LOG_2PI, MINUS_INFINITY, lgamma, log
from fubini.families.normal import log_normal
from fubini.families.parameters import Support, Vector
from fubini.index.build import (
    ONE,
    ZERO,
    add,
    call,
    const,
    equal,
    index,
    less,
    minus,
    negate,
    plus,
    power,
    scale,
    times,
    where,
)
from fubini.index.node import Index, Node, node
from fubini.index.ranges import bounds, is_whole
from fubini.index.sums import total
from fubini.read.reader import Reader
from fubini.read.scaled_matrix import without_scale
from fubini.read.symbolic_array import SymbolicArray, of_leaf
from fubini.read.validity import validity

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
    entries = Entries(lambda *event: value.at(*at, *event), value.shape[batch:], present, reader, is_whole)
    found = _entry(blueprint, iter(leaves), at, entries)
    return None if found is None else total(sizes, found)


class Entries(NamedTuple):
    """The value of one batch cell: the entry at event indices, the event's shape, and which entries are there."""

    of: Callable[..., Node]
    event: tuple[int, ...]
    present: SymbolicArray | None
    reader: Reader | None
    is_whole: bool = False  # the domain says all of where the values lie
    masked: bool = False  # cells may be left out


def _entry(blueprint: Blueprint, leaves: Iterator[SymbolicArray], at: Batch, value: Entries) -> Node | None:
    """log p of the value of one batch cell."""
    statics = dict(blueprint.statics)
    match blueprint.family:
        case "ExpandedDistribution":
            return _entry(blueprint.inner[0], leaves, at, value)
        case "Independent":
            count = statics["reinterpreted_batch_ndims"]
            inner = [Index(size) for size in value.event[:count]]
            more = tuple(map(index, inner))
            inside = value._replace(of=lambda *rest: value.of(*more, *rest), event=value.event[count:])
            found = _entry(blueprint.inner[0], leaves, (*at, *more), inside)
            return None if found is None else total(inner, found)
        case "MaskedDistribution":
            given = dict(zip(blueprint.keys, blueprint.inner, strict=True))
            found = _entry(given["base_dist"], leaves, at, value._replace(masked=True))
            mask = statics.get("mask")
            test = const(float(mask)) if isinstance(mask, bool) else _at(next(leaves), at)
            return None if found is None else where(test, found, const(0.0))
        case "PowerDistribution":
            found = _entry(blueprint.inner[0], leaves, at, value)
            return None if found is None else times(_at(next(leaves), at), found)
    if value.present is not None and value.event:
        if blueprint.family != "MultivariateNormal" or any(blueprint.inner) or value.reader is None:
            return None
        given = dict(zip(blueprint.keys, (next(leaves) for _ in blueprint.keys), strict=True))
        return _log_partly_normal(given, at, value)
    found = _known(blueprint, leaves, at, value)
    if found is None or value.present is None:
        return found
    return where(value.present.at(*at), found, const(0.0))


def _known(blueprint: Blueprint, leaves: Iterator[SymbolicArray], at: Batch, value: Entries) -> Node | None:
    if not any(blueprint.inner):
        mine = [next(leaves) for _ in blueprint.keys]
        given = dict(zip(blueprint.keys, mine, strict=True))
        fixed = {
            key: const(float(item)) for key, item in blueprint.statics if isinstance(item, (int, float, np.number))
        }
        allowed = ZERO if value.reader is None else validity(blueprint, given, at, value.reader, value.masked)
        found = _plain(blueprint.family, given, fixed, at, value) if _is_in_domain(value, blueprint, mine) else None
        if found is not None:
            return plus(found, allowed)
    else:
        mine = [next(leaves) for _ in range(_leaf_count(blueprint))]
    if not value.event and is_elementwise(blueprint, len(mine)):
        return node("call", EntryDensity(blueprint), value.of(), *(_at(array, at) for array in mine))
    return None


def _is_in_domain(value: Entries, blueprint: Blueprint, leaves: Sequence[SymbolicArray]) -> bool:
    """A value that sites decide is one of the domain of its family, where the density has its formula."""
    entry = value.of(*(index(Index(size)) for size in value.event))
    if value.reader is None or value.reader.is_checked or not _is_random(entry):
        return True
    try:
        domain = signature_of(blueprint, tuple(Real.with_shape(leaf.shape) for leaf in leaves)).domain
    except DomainError:
        return True
    if domain.kind in ("real", "simplex"):
        return domain.kind == "real" or (entry.kind == "get" and entry.args[0].is_simplex)
    low, high = bounds(entry)
    most = {"unit": 1.0, "bint": domain.extent - 1.0 if domain.kind == "bint" else math.inf}.get(domain.kind, math.inf)
    return (low >= 0 or domain.kind == "integer") and high <= most and (is_whole(entry) or not domain.is_discrete)


def _leaf_count(blueprint: Blueprint) -> int:
    """How many arrays it is built from."""
    return sum(1 if inner is None else _leaf_count(inner) for inner in blueprint.inner)


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
        found = signature_of(blueprint, (Real,) * leaves)
    except DomainError:
        return False
    return not found.shape and not any(getattr(c, "event_dim", 0) for c in found.constraints.values())


def _at(array: SymbolicArray, at: Batch, *event: Node) -> Node:
    """A parameter at a batch cell: it has the last of its axes, those of one entry for all."""
    rank = array.rank - len(event)
    return array.at(*at[len(at) - rank :], *event)


def _plain(
    family: str,
    given: Mapping[str, SymbolicArray],
    fixed: Mapping[str, Node],
    at: Batch,
    value: Entries,
) -> Node | None:
    record = read_family(family)
    if record is not None:
        return _of_record(record, {**given, **fixed}, at, value)
    if family == "OrderedLogistic" and value.reader is not None:
        chances = _ordinal(given["predictor"], given["cutpoints"], value.reader)
        return log(_at(chances, at, value.of()))
    if family in ("Multinomial", "MultinomialProbs") and "probs" in given:
        count = fixed["total_count"] if "total_count" in fixed else _at(given["total_count"], at)
        return _log_multinomial(given["probs"], count, at, value.of, value.event[0], value.reader)
    if family == "MultivariateNormal" and value.reader is not None:
        return _log_multivariate_normal(given, at, value)
    if family == "ImproperUniform" and value.is_whole:
        return const(0.0)
    if family == "GaussianRandomWalk":
        return _log_random_walk(given["scale"], at, value)
    return None


def _of_record(record: Family, given: Mapping[str, SymbolicArray | Node], at: Batch, value: Entries) -> Node:
    """The log-density that a family has in index notation."""
    parameters = {
        key: part if isinstance(part, Node) else _parameter(part, record.constraint_of(key).event_dim, at)
        for key, part in given.items()
    }
    if value.event:
        c = Index(value.event[0])
        return record.log_density_of(Vector(c, value.of(index(c))), parameters)
    if record.log_density_everywhere is None and not isinstance(record.support, Support) and not record.is_of_vectors:
        return _log_of_count(record, value.of(), parameters, value.reader)
    return record.log_density_of(value.of(), parameters)


def _parameter(array: SymbolicArray, rank: int, at: Batch) -> Node | Vector:
    """A parameter at a batch cell: a number, or a vector."""
    if not rank:
        return _at(array, at)
    c = Index(array.shape[-1])
    return Vector(c, _at(array, at, index(c)))


def _possible(test: Node, density: Node) -> Node:
    """The log-density where a test of counts holds, −∞ elsewhere; data alone decide it outside of the density."""
    return where(test, density, MINUS_INFINITY) if _is_random(test) else plus(density, log(test))


def _is_random(of: Node) -> bool:
    return any(leaf.role in ("site", "opaque") for leaf in of.leaves)


def _log_of_count(record: Family, x: Node, parameters: Mapping[str, Any], reader: Reader | None) -> Node:
    """That of a count up to n, −∞ above it"""
    n = parameters["total_count"]
    inside = negate(less(n, x))
    if reader is not None and (holds := reader.truth(inside)) is not None:
        return record.log_density(x, parameters) if holds else MINUS_INFINITY
    known = n if _is_random(inside) else call("max", n, x)  # where x > n, some number that is none of the density's
    return _possible(inside, record.log_density(x, {**parameters, "total_count": known}))


def _ordinal(predictor: SymbolicArray, cutpoints: SymbolicArray, reader: Reader) -> SymbolicArray:
    """The probability of each label: σ(c_k − η) − σ(c_(k−1) − η)"""

    def chances(predictor: Any, cutpoints: Any) -> Any:
        below = jax.nn.sigmoid(cutpoints - predictor[..., None])
        ends = (*below.shape[:-1], 1)
        return jnp.diff(below, prepend=jnp.zeros(ends), append=jnp.ones(ends))

    lead = np.broadcast_shapes(predictor.shape, cutpoints.shape[:-1])
    shape = (*lead, cutpoints.shape[-1] + 1)
    return reader.made_of("chances", shape, chances, predictor, cutpoints)


def _log_multinomial(
    probs: SymbolicArray, count: Node, at: Batch, value: Any, size: int, reader: Reader | None
) -> Node:
    """log n! − Σ log x! + Σ x log p, where Σ x = n"""
    c = Index(size)
    entry = value(index(c))
    logs = total([c], plus(times(entry, log(_at(probs, at, index(c)))), scale(-1.0, lgamma(plus(entry, ONE)))))
    test, density = equal(total([c], entry), count), plus(lgamma(plus(count, ONE)), logs)
    if reader is not None and (holds := reader.truth(test)) is not None:
        return density if holds else MINUS_INFINITY
    return _possible(test, density)


def _log_multivariate_normal(given: Mapping[str, SymbolicArray], at: Batch, value: Entries) -> Node:
    """−½ |A (x − μ)|² + log |A| − ½ d log 2π, with AᵀA the precision"""
    form = next(key for key in WHITENING if key in given)
    assert value.reader is not None
    front, plain = without_scale(given[form], value.reader)
    root = _whitened(plain, WHITENING[form], value.reader)
    exponent = 0.5 if form == "precision_matrix" else -1.0 if form == "scale_tril" else -0.5
    if front is not ONE:
        known = root
        root = SymbolicArray(known.shape, lambda *at: times(power(front, exponent), known.at(*at)))
    d = value.event[0]
    i, j = Index(d), Index(d)
    residual = minus(value.of(index(j)), _at(given["loc"], at, index(j)) if "loc" in given else const(0.0))
    square = total([i], power(total([j], times(_at(root, at, index(i), index(j)), residual)), 2.0))
    logs = total([i], log(_at(root, at, index(i), index(i))))
    return add(((square, -0.5), (logs, 1.0), (ONE, -0.5 * d * LOG_2PI)))


def _log_partly_normal(given: Mapping[str, SymbolicArray], at: Batch, value: Entries) -> Node:
    """The density of the entries that are there: the others stand apart, with variance 1 and at their mean"""
    form = next(key for key in WHITENING if key in given)
    present = value.present
    assert value.reader is not None and present is not None

    def whitening(matrix: Any, there: Any) -> Any:
        covariance = matrix
        if form == "scale_tril":
            covariance = matrix @ jnp.swapaxes(matrix, -1, -2)
        elif form == "precision_matrix":
            covariance = jnp.linalg.inv(matrix)
        both = (there[..., :, None] != 0) & (there[..., None, :] != 0)
        return _whitening_of_covariance(jnp.where(both, covariance, jnp.eye(there.shape[-1])))

    d = value.event[0]
    shape = (*np.broadcast_shapes(given[form].shape[:-2], present.shape[:-1]), d, d)
    root = value.reader.made_of("whitening", shape, whitening, given[form], present)
    i, j = Index(d), Index(d)
    loc = _at(given["loc"], at, index(j)) if "loc" in given else const(0.0)
    residual = where(_at(present, at, index(j)), minus(value.of(index(j)), loc), const(0.0))
    square = total([i], power(total([j], times(_at(root, at, index(i), index(j)), residual)), 2.0))
    logs = total([i], log(_at(root, at, index(i), index(i))))
    count = total([i], where(_at(present, at, index(i)), ONE, const(0.0)))
    return add(((square, -0.5), (logs, 1.0), (count, -0.5 * LOG_2PI)))


def _whitened(matrix: SymbolicArray, whitening: Any, reader: Reader) -> SymbolicArray:
    """Of matrices that are chosen from several, all are whitened, and then chosen from."""
    fresh = [Index(size) for size in matrix.shape]
    entry: Any = matrix.at(*map(index, fresh))
    chosen = entry.kind == "get" and entry.args[-2:] == tuple(map(index, fresh[-2:])) and len(entry.args) > 3
    if not chosen or matrix.constant is not None:
        return reader.made_of("whitening", matrix.shape, whitening, matrix)
    leaf = entry.args[0]
    known = reader.constant(reader.known[leaf]) if leaf in reader.known else of_leaf(leaf)
    every = reader.made_of("whitening", leaf.shape, whitening, known)

    def at(*where_: Node) -> Node:
        return every.at(*matrix.at(*where_).args[1:-2], *where_[-2:])

    return SymbolicArray(matrix.shape, at)


def _whitening_of_covariance(covariance: Any) -> Any:
    return _inverse_root(jnp.linalg.cholesky(covariance))


def _whitening_of_precision(precision: Any) -> Any:
    return jnp.swapaxes(jnp.linalg.cholesky(precision), -1, -2)


def _inverse_root(root: Any) -> Any:
    eye = jnp.broadcast_to(jnp.eye(root.shape[-1], dtype=root.dtype), root.shape)
    return jax.scipy.linalg.solve_triangular(root, eye, lower=True)


WHITENING = {
    "scale_tril": _inverse_root,
    "covariance_matrix": _whitening_of_covariance,
    "precision_matrix": _whitening_of_precision,
}


def _log_random_walk(scale_: SymbolicArray, at: Batch, value: Entries) -> Node:
    """Normal steps from 0"""
    (size,) = value.event
    given = {"loc": const(0.0), "scale": _at(scale_, at)}
    found = log_normal(value.of(const(0.0)), given)
    if size == 1:
        return found
    t = Index(size - 1)
    step = minus(value.of(plus(index(t), ONE)), value.of(index(t)))
    return plus(found, total([t], log_normal(step, given)))
