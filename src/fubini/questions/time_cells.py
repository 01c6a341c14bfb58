"""Sites that are arrays along time, cut into cells: the density of the entry at one place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fubini.algebra.node import Node
from fubini.base.domains import Domain, Real
from fubini.distributions.density import Density, Distribution
from fubini.distributions.power import POWER
from fubini.models.site_terms import SitePart
from fubini.read.symbolic_array import SymbolicArray
from fubini.terms.factor import Factor
from fubini.terms.value import Value

Write = Callable[[SymbolicArray, Domain], Value]


class NotInCells(Exception):
    """A site whose density is no product over places along time."""


def cell_at(part: SitePart, place: Node, write: Write) -> Factor:
    """The density of the entry of a site at a place along its first axis, to the power of its masks and scales."""
    powers: list[Value] = []
    distribution = _distribution(part.source, iter(part.leaves), place, write, powers)
    shape = part.source.domain.shape[1:]
    if distribution.domain.shape != shape:
        raise NotInCells(f"{part.source}")
    if part.present is not None:
        powers.append(write(slice_at(part.present, place), Real))
    factor: Factor = Density(distribution, write(slice_at(part.value, place), value_domain(part).with_shape(shape)))
    for power in powers:
        factor = factor**power
    return factor


def value_domain(part: SitePart) -> Domain:
    """The domain of a value: of one that is computed and may be negative, all real numbers."""
    domain = part.source.domain
    is_known = part.value.constant is not None or part.site is not None
    return domain if is_known or domain.kind not in ("positive", "unit") else Real.with_shape(domain.shape)


def slice_at(array: SymbolicArray, place: Node) -> SymbolicArray:
    """The entries at a place along the first axis."""
    numbers = array.constant
    alike = numbers is not None and len(numbers) and bool(np.all(numbers == numbers[0]))
    return SymbolicArray(array.shape[1:], lambda *at: array.at(place, *at), numbers[0] if alike else None)  # type: ignore[index]


def whole_distribution(source: Distribution, leaves: Iterator[SymbolicArray], write: Write) -> Distribution:
    """The same distribution over parameters as they are read."""
    args: dict[str, Any] = {}
    for key, arg in zip(source.keys, source.args, strict=True):
        nested = isinstance(arg, Distribution)
        args[key] = whole_distribution(arg, leaves, write) if nested else write(next(leaves), arg.output)  # type: ignore[attr-defined]
    return Distribution(source.family, {**args, **dict(source.statics)})


def _distribution(
    source: Distribution, leaves: Iterator[SymbolicArray], place: Node, write: Write, powers: list[Value]
) -> Distribution:
    """The distribution of one cell of the first axis of an array of distributions."""
    statics, rank = dict(source.statics), _batch_rank(source)
    if not any(isinstance(arg, Distribution) for arg in source.args):
        return _plain(source, leaves, place, write)
    base = source["base_dist"] if "base_dist" in source.keys else None
    if not isinstance(base, Distribution):
        raise NotInCells(f"{source}")
    if source.family == "ExpandedDistribution":
        shape = statics["batch_shape"]
        if _batch_rank(base) < len(shape):
            inner = whole_distribution(base, leaves, write)
        else:
            inner = _distribution(base, leaves, place, write, powers)
        return inner.expand(shape[1:]) if shape[1:] else inner
    if source.family not in ("Independent", "MaskedDistribution", POWER):
        raise NotInCells(f"{source}")
    inner = _distribution(base, leaves, place, write, powers)
    if source.family == "Independent":
        count = statics["reinterpreted_batch_ndims"] - (0 if rank else 1)
        return inner.to_event(count) if count else inner
    if rank != 1:
        raise NotInCells(f"{source}")
    given = statics.get("mask")
    leaf = None if isinstance(given, bool) else next(leaves)
    if leaf is not None:
        powers.append(write(slice_at(leaf, place) if leaf.rank else leaf, Real))
    elif not given:
        raise NotInCells(f"{source}")
    return inner


def _plain(source: Distribution, leaves: Iterator[SymbolicArray], place: Node, write: Write) -> Distribution:
    """Parameters that have the first axis, at the place; the others as they are."""
    rank, given = _batch_rank(source), {}
    for key, arg in zip(source.keys, source.args, strict=True):
        leaf, constraint = next(leaves), source.signature.constraints.get(key)
        event = 0 if constraint is None else constraint.event_dim
        moves = rank > 0 and leaf.rank - event == rank
        given[key] = write(slice_at(leaf, place) if moves else leaf, arg.output)  # type: ignore[attr-defined]
    return Distribution(source.family, {**given, **dict(source.statics)})


def _batch_rank(source: Distribution) -> int:
    """How many axes of independent values it has."""
    return len(source.signature.shape) - source.signature.event_rank
