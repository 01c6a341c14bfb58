"""Boxes of real variables with a factor in each, as one factor over the cells of the grid that their edges make."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from fubini.base import ops
from fubini.base.arrays import is_traced
from fubini.base.domains import Bint, Domain, Real, merge_inputs
from fubini.base.names import Bound, Name
from fubini.errors import DataError, DomainError, Intractable
from fubini.factors.gaussian import Gaussian
from fubini.factors.piecewise_moments import Cut
from fubini.factors.promotion import promoted
from fubini.factors.stacked_gaussians import stack_gaussians
from fubini.factors.table import Table
from fubini.terms.factor import Factor, product, substitute
from fubini.terms.value import Array, Variable, to_array

Interval = tuple[Any, Any]


class Boxes(NamedTuple):
    """The parts over the intervals of each cut, the cuts with their edges, and the variables that are cut."""

    parts: Factor
    cuts: list[Cut]
    edges: list[Array]
    reals: list[tuple[Name, Domain]]


def from_boxes(pieces: Sequence[tuple[dict[Name, Any], Factor]]) -> Boxes:
    """The grid of all edges of the boxes; in each of its cells the factor of the box that holds it."""
    if not pieces:
        raise DataError("a Piecewise factor without pieces", expected="pairs of a box and a factor")
    domains = _domains(pieces)
    bounds = [_intervals(box, domains) for box, _ in pieces]
    axes = sorted({axis for box in bounds for axis in box}, key=str)
    edges = {axis: sorted({e for box in bounds if axis in box for e in box[axis] if math.isfinite(e)}) for axis in axes}
    axes = [axis for axis in axes if edges[axis]]
    cuts = [Cut(name, element, Bound(f"{name}[{element}]")) for name, element in axes]
    held = np.stack([_cells(box, axes, edges) for box in bounds])
    if (held.sum(axis=0) > 1).any():
        raise DataError("a Piecewise factor whose boxes overlap", expected="boxes that share no more than an edge")
    sizes: dict[Name, Domain] = {cut.interval: Bint[len(edges[axis]) + 1] for cut, axis in zip(cuts, axes, strict=True)}
    factors = [factor for _, factor in pieces]
    if len(factors) > 1:
        index = Bound("piece")
        at = Array._of(held.argmax(axis=0), tuple(sizes), sizes, Bint[len(pieces)])
        factors = [substitute(_stacked(factors, index), {index: at})]
    parts = product(*factors, Table(held.any(axis=0).astype(float), sizes))
    reals = [(name, domains[name]) for name in dict.fromkeys(cut.name for cut in cuts)]
    return Boxes(parts, cuts, [Array(np.array(edges[axis])) for axis in axes], reals)


def _domains(pieces: Sequence[tuple[dict[Name, Any], Factor]]) -> dict[Name, Domain]:
    """The domains of the variables that are cut: of the factors, or from the number of intervals."""
    inputs = merge_inputs(*(factor.inputs for _, factor in pieces))
    domains = {}
    for box, _ in pieces:
        for name, sides in box.items():
            _require_sides(name, sides)
            several = isinstance(sides, Sequence) and len(sides) > 0 and not _is_interval(sides)
            domain = inputs.get(name, Real[len(sides)] if several else Real)
            if domain.is_finite:
                raise DomainError(f"a box of {name!r}: {domain!r}", expected="a real variable, or an array of them")
            domains[name] = domain
    return domains


def _require_sides(name: Name, sides: Any) -> None:
    """Raise where a box has something else than intervals of known numbers."""
    if is_traced(*jax.tree.leaves(sides)):
        raise DataError(
            f"a box of {name!r} whose ends are traced",
            expected="numbers that are known when a function is traced",
            advice=f"compare with them in a density: fb.ops.where({name} > end, …)",
        )
    each = [sides] if sides is None or _is_interval(sides) else sides
    if not isinstance(each, (Sequence, np.ndarray)) or not all(one is None or _is_interval(one) for one in each):
        raise DomainError(
            f"a box of {name!r}: {sides!r}",
            expected="an interval (low, high) of two numbers, or one for each element; None is the whole line",
            advice=f"ends that differ along a batch or in time are compared with: fb.ops.where({name} > ends, …)",
        )


def _is_interval(sides: Any) -> bool:
    """Whether it is a pair of numbers."""
    return isinstance(sides, (Sequence, np.ndarray)) and len(sides) == 2 and all(map(_is_number, sides))


def _is_number(side: Any) -> bool:
    is_single = isinstance(side, (np.ndarray, jax.Array)) and side.ndim == 0
    return is_single or isinstance(side, (int, float, np.number))


def _intervals(box: Mapping[Name, Any], domains: Mapping[Name, Domain]) -> dict[tuple[Name, int], Interval]:
    """(low, high) for each axis of a box that is bounded."""
    sides: dict[tuple[Name, int], Interval] = {}
    for name, given in box.items():
        size = math.prod(domains[name].shape)
        each = [given] if given is None or _is_interval(given) else list(given)
        if len(each) != size:
            raise DomainError(
                f"{len(each)} intervals of {name!r}: {domains[name]!r}", expected=f"one for each of {size} elements"
            )
        for element, interval in enumerate(each):
            low, high = (-math.inf, math.inf) if interval is None else map(float, interval)
            if not low < high:
                raise DataError(f"the interval ({low}, {high}) of {name!r}", expected="low < high, neither NaN")
            sides[name, element] = (low, high)
    return sides


def _cells(box: Mapping, axes: Sequence, edges: Mapping) -> np.ndarray:
    """Whether each cell of the grid is within the box."""
    held = np.ones((), bool)
    for axis in axes:
        sides = np.array([-math.inf, *edges[axis], math.inf])
        low, high = box.get(axis, (-math.inf, math.inf))
        held = held[..., None] & ((sides[:-1] >= low) & (sides[1:] <= high))
    return held


def _stacked(factors: Sequence[Factor], index: Bound) -> Factor:
    """One factor over an index: f_k at k."""
    if all(domain.is_finite for factor in factors for domain in factor.inputs.values()):
        return _stacked_tables(factors, index)
    gaussians = [factor for each in factors if isinstance(factor := promoted(each), Gaussian)]
    if len(gaussians) < len(factors):
        other = next(factor for factor in factors if not isinstance(promoted(factor), Gaussian))
        raise Intractable(
            f"a Piecewise factor of {len(factors)} different factors of real variables",
            expected="a Gaussian in each box, or one factor of them with a weight for each: Piecewise([…tables…]) * f",
            nearest=f"{other} is not Gaussian",
            advice="multiply the pieces by what they share, or add Piecewise factors of one box each",
        )
    return stack_gaussians(gaussians, index)


def _stacked_tables(factors: Sequence[Factor], index: Bound) -> Table:
    k = Variable(index, Bint[len(factors)])
    logs = [factor.log() for factor in factors]
    last = logs[-1]
    for place in reversed(range(len(factors) - 1)):
        last = ops.where(ops.equal(k, place), logs[place], last)
    made = to_array(last)
    return Table.from_log(made.array, dict(made.inputs))
