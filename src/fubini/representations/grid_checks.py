"""What a grid cannot show: mass beyond its ends, and states that are narrower than its cells."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from fubini.base.arrays import Data, is_traced, namespace, require
from fubini.base.domains import Bint
from fubini.base.names import Name
from fubini.base.semirings import max_product, sum_product
from fubini.errors import DataError
from fubini.factors.gaussian import Gaussian
from fubini.factors.piecewise import Piecewise
from fubini.factors.promotion import promoted
from fubini.factors.table import Table
from fubini.numerics.named_axes import align
from fubini.numerics.quadratic import places
from fubini.representations.grid_tables import Axes, GridAxis, to_tables, volume
from fubini.terms.factor import Factor, product, terms_of
from fubini.terms.value import to_array

MOST_AT_EDGE = 1e-6
LEAST_SPREAD = 0.6  # cells; see `require_fine`
LEAST_SPREAD_SEEN = (
    0.55  # cells: a Gaussian with a deviation of 0.6 cells has 0.57 or more, as the sum over cells has it
)
MOST_MISCOUNTED = 0.01  # of the mass of a step


def require_shown(answer: Factor, axes: Axes, states: Collection[Name], *poisoned: Data) -> tuple[Data, ...]:
    """Raise where states have mass in the outermost cells, for any value of the other names, or stand in one cell or
    two, so that their deviation cannot be told; NaN under tracing.
    """
    for axis, shares in _marginals(answer, axes, states):
        share = _at_ends(axis, shares)
        if share is not None:
            poisoned = require(share <= MOST_AT_EDGE, lambda axis=axis, share=share: _at_edge(axis, share), *poisoned)
        middle = (shares * axis.centres).sum(axis=-1, keepdims=True)
        variance = (shares * (axis.centres - middle) ** 2).sum(axis=-1).min()
        ok = variance >= (LEAST_SPREAD_SEEN * axis.width) ** 2
        poisoned = require(ok, lambda axis=axis: _too_narrow(axis), *poisoned)
    return poisoned


def is_inside(answer: Factor, axes: Axes, states: Collection[Name]) -> bool:
    """Whether it is known that states have no mass in the outermost cells."""
    found = [_at_ends(axis, shares) for axis, shares in _marginals(answer, axes, states)]
    shares = [share for share in found if share is not None]
    return not is_traced(*shares) and all(share <= MOST_AT_EDGE for share in shares)


def _at_ends(axis: GridAxis, shares: Data) -> Data | None:
    """The greatest share of an outermost cell; None where those cells end where the variable does."""
    ends = [k for k in (0, -1) if (axis.low, axis.high)[k] != axis.support[k]]
    return shares[..., np.array(ends)].max() if ends else None


def _marginals(answer: Factor, axes: Axes, states: Collection[Name]) -> Iterator[tuple[GridAxis, Data]]:
    """The shares of the cells of each axis, of all its states together: cells last."""
    table = promoted(answer)
    assert isinstance(table, Table), "cells are bounded integers"
    for axis in (axis for each in axes.values() for axis in each if axis.index in table.inputs):
        others = [name for name in table.inputs if name in states and name != axis.index]
        marginal = promoted(table.sum(*others) if others else table)
        shares = to_array(promoted(marginal.normalize(axis.index)).numbers())  # type: ignore[attr-defined]
        yield axis, namespace(shares.array).moveaxis(shares.array, shares.names.index(axis.index), -1)


def _at_edge(axis: GridAxis, share: Data) -> DataError:
    return DataError(
        f"a grid of {axis.name!r} from {axis.low:g} to {axis.high:g}",
        expected=f"at most {MOST_AT_EDGE:g} of the mass in its outermost cells",
        nearest="more of it is there at some step" if is_traced(share) else f"{float(share):.2g} of it at some step",
        advice="make the grid wider",
    )


# -- cells that are too wide ----------------------------------------------------------------------------------------


def require_fine(factors: Sequence[tuple[Factor, Name]], axes: Sequence[GridAxis], *poisoned: Data) -> tuple[Data, ...]:
    """Raise where the Gaussians of a state leave it less spread than its cells show; NaN under tracing.

    Each factor comes with the name that the state has there. The sum over cells of width h of a Gaussian with deviation
    s has a relative error of at most 2 exp(−2 π² s²/h²) (Poisson's summation formula). Here 1/s² is the precision of
    one number of the state given all others, K_ii of all its factors together: at s = 0.6 h the error of the evidence
    is below 0.0017 for each step, and up to 0.0006 was measured; at 0.4 h up to 0.03 was.
    """
    for axis in axes:
        own = [k for factor, name in factors for k in _precisions(factor, name, max(axis.element, 0))]
        if own:
            total = reduce(lambda a, b: a + b, own)
            fine = total * (LEAST_SPREAD * axis.width) ** 2 <= 1.0
            poisoned = require(fine, lambda axis=axis, total=total: _too_wide(axis, total), *poisoned)
    return poisoned


def _precisions(factor: Factor, name: Name, element: int) -> Iterator[Data]:
    """K_ii of one number in each Gaussian among the terms of a factor, the greatest of a batch."""
    for term in map(promoted, terms_of(factor)):
        own = promoted(term.parts) if isinstance(term, Piecewise) else term
        if isinstance(own, Gaussian) and name in dict(own.reals):
            yield _diagonal(own)[..., places(own.reals)[name][element]].max()


def _diagonal(g: Gaussian) -> Data:
    matrix = g.quadratic.matrix
    if g.quadratic.white:
        return (matrix * matrix).sum(axis=-2)
    return namespace(matrix).diagonal(matrix, axis1=-2, axis2=-1)


def _too_wide(axis: GridAxis, precision: Data) -> DataError:
    nearest, advice = "the precisions of its factors leave it less", "use more cells"
    if not is_traced(precision):
        deviation = float(precision) ** -0.5
        needed = math.ceil(LEAST_SPREAD * (axis.high - axis.low) / deviation)
        nearest = f"the precisions of its factors leave it {deviation:.3g}"
        advice = f"use {needed:,} cells or more: fb.rep.Grid(({axis.low:g}, {axis.high:g}), {needed})"
    least = LEAST_SPREAD * axis.width
    return DataError(
        f"a grid of {axis.name!r} with cells of width {axis.width:.3g}",
        expected=f"a standard deviation of {least:.3g} at least, {LEAST_SPREAD:g} cells, given all other numbers",
        nearest=nearest,
        advice=advice,
    )


# -- cells that are too wide for a state, or for a step to it ---------------------------------------------------------


def is_checked_by_sums(term: Factor, axes: Axes) -> bool:
    """Whether a factor is a normalised density of a state, and no Gaussian, whose precision says enough."""
    made = promoted(term)
    parts = promoted(made.parts) if isinstance(made, Piecewise) else made
    return term.own in axes and not isinstance(parts, Gaussian)


def require_counted(
    terms: Sequence[Factor], answers: Sequence[Factor], axes: Axes, states: Collection[Name], *poisoned: Data
) -> tuple[Data, ...]:
    """Raise where cells miscount the mass of a density of a state given others, which `answers` are of.

    For each value of the others the sum over cells should be 1. Where mass lies beyond the ends, it should be that over
    cells of half the width: to first order in Poisson's summation formula, the difference is the error of the sum. Its
    average over the values that the other states have is what each step adds to the log-evidence at most.
    """
    for term in terms:
        lost = _miscounted(term, axes)
        for answer in answers:
            weights = promoted(answer)
            assert isinstance(weights, Table), "cells are bounded integers"
            own = [name for name in lost.inputs if name in weights.inputs and name in states]
            rest = lost.reduced(max_product, [name for name in lost.inputs if name not in own])
            others = [name for name in weights.inputs if name in states and name not in own]
            shares = weights.reduced(sum_product, others)
            shares = shares.normalized(own) if own else Table(np.ones(()))
            share = to_array(promoted(product(shares, rest).sum(*own)).numbers()).array.max()  # type: ignore[attr-defined]
            ok = share <= MOST_MISCOUNTED
            poisoned = require(ok, lambda t=term, share=share: _miscounts(t, axes, share), *poisoned)
    return poisoned


def _miscounted(term: Factor, axes: Axes) -> Table:
    """|Σ over cells − 1| for each value of the others; where mass lies beyond the ends, 1 is the Σ over half cells"""
    assert term.own is not None, "a density"
    own = axes[term.own]
    here, logs = _sum_over_cells(term, axes, own)
    errors = []
    for axis in own:
        sides = [[_moved(axis, by) if each is axis else each for each in own] for by in (-0.25, 0.25)]
        low, high = (_sum_over_cells(term, {**axes, term.own: each}, own)[0] for each in sides)
        errors.append(abs(here - 0.5 * (low + high)))
    xp = namespace(here, *errors)
    error = xp.where(_falls_off(logs, len(own)), abs(here - 1.0), reduce(xp.maximum, errors))
    others = [name for name in _names(term, axes) if name not in {axis.index for axis in own}]
    sizes = {axis.index: Bint[axis.n] for each in axes.values() for axis in each}
    return Table(error, {name: sizes.get(name) or term.inputs[name] for name in others})


def _sum_over_cells(term: Factor, axes: Axes, own: Sequence[GridAxis]) -> tuple[Data, Data]:
    """The sum over the cells of a density, and its logarithms, cells last."""
    table = promoted(product(*to_tables(term, axes)))
    last = [axis.index for axis in own]
    logs = to_array(table.log())
    order = [*(name for name in _names(term, axes) if name not in last), *last]
    data = align(logs.array, logs.names, order)
    xp = namespace(data)
    return volume(own) * xp.exp(data).sum(axis=tuple(range(-len(last), 0))), data


def _names(term: Factor, axes: Axes) -> list[Name]:
    """The names of a factor, cells in the place of variables."""
    return [n for name in term.inputs for n in ([axis.index for axis in axes[name]] if name in axes else [name])]


def _moved(axis: GridAxis, by: float) -> GridAxis:
    return replace(axis, low=axis.low + by * axis.width, high=axis.high + by * axis.width)


def _falls_off(logs: Data, count: int) -> Data:
    """Whether the outermost cells, along all of the last axes, have far less than the greatest: all mass is within."""
    last = tuple(range(-count, 0))
    inside = np.ones((1,) * count, bool)
    for axis in last:
        n = logs.shape[axis]
        inside = inside & ((np.arange(n) > 0) & (np.arange(n) < n - 1)).reshape([-1] + [1] * (-1 - axis))
    xp = namespace(logs)
    outermost = xp.where(inside, -np.inf, logs).max(axis=last)
    return outermost <= logs.max(axis=last) + math.log(MOST_AT_EDGE)


def _too_narrow(axis: GridAxis) -> DataError:
    return DataError(
        f"a grid of {axis.name!r} with cells of width {axis.width:.3g}",
        expected=f"states of a standard deviation of {LEAST_SPREAD_SEEN:g} cells at least",
        nearest="at some step the state stands in one cell or two",
        advice="use more cells",
    )


def _miscounts(term: Factor, axes: Axes, share: Data) -> DataError:
    assert term.own is not None, "a density"
    widths = ", ".join(f"{axis.width:.3g}" for axis in axes[term.own])
    return DataError(
        f"a grid of {term.own!r} with cells of width {widths}: too wide for {term}",
        expected=f"sums over cells that keep the mass of each step, to {MOST_MISCOUNTED:.0%}",
        nearest="they lose or add more of it" if is_traced(share) else f"they lose or add {float(share):.2g} of it",
        advice="use more cells",
    )
