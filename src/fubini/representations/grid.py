"""Grid: a real variable as cells of a grid, and every factor of it as tables over these.

In a chain, each axis becomes a state of its own: a step that treats the axes alike is a matrix for each axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache, wraps
from typing import Any

import numpy as np

from fubini.base.arrays import Data, is_traced, require
from fubini.base.domains import Domain
from fubini.base.interpretations import current
from fubini.base.names import Bound, Name
from fubini.errors import DataError, DomainError
from fubini.factors.promotion import promoted
from fubini.factors.represent import Represent, Representation, represented
from fubini.factors.table import Table
from fubini.factors.tally import Conversion, conversion_of
from fubini.numerics.named_axes import align
from fubini.numerics.scaled import Scaled
from fubini.representations.grid_tables import Axes, GridAxis, array_at, back_to_reals, to_tables, volume
from fubini.sequence.chain import Chain, Smoothed
from fubini.sequence.links import Link
from fubini.terms.exactness import Exactness, exactly, projected
from fubini.terms.factor import Factor, product, terms_of
from fubini.terms.value import to_array

MOST_AT_EDGE = 1e-6


class Grid(Representation):
    """n cells between two ends, for each element of a variable: one pair of ends and one n for all, or one each.

    >>> fb.rep.Grid((-8, 8), 161)
    Grid((-8, 8), 161)
    """

    stores = "tables over cells"
    projects = False

    def __init__(self, ends: Any, n: Any) -> None:
        self.ends, self.n = ends, n
        pairs = [ends] if np.ndim(ends) == 1 else list(ends)
        for pair in pairs:
            low, high = (float(end) for end in pair)
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                raise DataError(f"Grid({ends!r}, {n!r})", expected="finite ends, low < high, for each axis")
        for count in np.atleast_1d(n):
            if count != int(count) or count < 2:
                raise DataError(f"Grid({ends!r}, {n!r})", expected="a whole number of cells, at least 2, for each axis")

    @property
    def mark(self) -> Exactness:
        return projected(repr(self))

    def axes(self, name: Name, domain: Domain) -> list[GridAxis]:
        """The axes of a variable."""
        size = math.prod(domain.shape)
        pairs = [self.ends] * size if np.ndim(self.ends) == 1 else list(self.ends)
        counts = [self.n] * size if np.ndim(self.n) == 0 else list(self.n)
        if domain.is_finite or len(pairs) != size or len(counts) != size:
            raise DomainError(
                f"{self} of {name!r}: {domain!r}", expected=f"a real variable, and ends for each of {size} elements"
            )
        elements = range(size) if domain.shape else [-1]
        return [
            GridAxis(name, element, _index(name, element), float(pair[0]), float(pair[1]), int(count))
            for element, pair, count in zip(elements, pairs, counts, strict=True)
        ]

    def recast(self, chain: Chain) -> GridChain:
        """The chain over cells."""
        return GridChain(chain)

    def __repr__(self) -> str:
        return f"Grid({self.ends!r}, {self.n!r})"


@lru_cache(maxsize=1024)
def _index(name: Name, element: int) -> Bound:
    """The name of the cells of an axis: the same each time, so that compiled functions can be looked up."""
    return Bound(str(name) if element < 0 else f"{name}[{element}]")


def _plainly(method: Callable[..., Any]) -> Callable[..., Any]:
    """Ask without representations: cells are bounded integers like any others."""

    @wraps(method)
    def ask(self: GridChain, *args: Any) -> Any:
        with current().without(Represent):
            return method(self, *args)

    return ask


class GridChain:
    """A chain whose states on a grid are cells: it answers what a chain is asked, as densities of the real states."""

    def __init__(self, chain: Chain) -> None:
        own = represented()
        assert own is not None, "a grid is named"
        self.chain = chain
        named = {name: each for name, each in own.by_name.items() if isinstance(each, Grid) and name in chain.domains}
        self.axes: dict[Name, list[GridAxis]] = {n: each.axes(n, chain.domains[n]) for n, each in named.items()}
        self.mark = Exactness(tuple(dict.fromkeys(mark for each in named.values() for mark in each.mark.marks)))
        before = {link.before[-1]: link for link in chain.links.chains}
        step: dict[Any, Any] = {}
        for name, link in before.items():
            step.update(_axis_links(link, self.axes) if name in self.axes else {link.before: link.after})
        states = {name: axes for name, axes in self.axes.items() if name in chain.links.before}
        cells = {name: axes for name, axes in self.axes.items() if name in chain.links.after}
        init = product(*to_tables(chain.init, states), _volume(states))
        factor = product(*to_tables(chain.factor, cells | states), _volume(cells))
        self._cells = Chain(
            init=init, factor=factor, time=chain.time, step=step, length=chain.length, sum=chain.globals,
            method="sequential", drops_small=True,
        )  # fmt: skip

    @_plainly
    def evidence(self) -> Factor:
        """Σ over all cells."""
        inside = self._require_inside(self._cells.filter())
        return promoted(product(self._cells.evidence(), inside))._marked(self.mark)

    @_plainly
    def filter(self) -> Factor:
        """The density after each step given what came before it."""
        answer = self._cells.filter()
        return self._back(product(answer, self._require_inside(answer)))

    @_plainly
    def final(self) -> Factor:
        """The density after the last step."""
        return self._back(self._cells.final())

    @_plainly
    def smooth(self) -> Smoothed:
        """The density after each step given everything."""
        inside = self._require_inside(self._cells.filter())
        answer = self._cells.smooth()
        return Smoothed(self._back(product(answer.terms[0], inside)), self._back(product(answer.initial, inside)))

    @_plainly
    def argmax(self) -> dict[Name, Data]:
        """The centres of the cells of greatest weight together."""
        return self._located(self._cells.argmax())

    @_plainly
    def sample(self, key: Data, n: int | None = None) -> dict[Name, Data]:
        """Draws of cells: their centres."""
        return self._located(self._cells.sample(key, n))

    def explain(self) -> Any:
        """Explain the chain over cells, and the tables that its factors become."""
        told: list[Conversion] = []
        for where, factor in (("before the first step", self.chain.init), ("once, for all steps", self.chain.factor)):
            for term in terms_of(factor):
                tables = [promoted(table) for table in to_tables(term, self.axes)]
                told += conversion_of(term, tables, where, self.mark if set(term.inputs) & set(self.axes) else exactly)
        own = represented()
        assert own is not None, "a grid is named"
        stored = [
            f"{name}: {own.by_name[name]}, {Grid.stores}" for name in self.axes if name in self.chain.links.before
        ]
        with current().without(Represent):
            plan = self._cells.explain()
        *notes, last = plan.notes
        return replace(plan, notes=(*notes, *stored, last), conversions=tuple(told))

    def _back(self, table: Factor) -> Factor:
        return back_to_reals(table, self.axes, self.chain.domains)._marked(self.mark)

    def _located(self, values: Mapping[Name, Data]) -> dict[Name, Data]:
        names = (*self.chain.links.before, *self.chain.links.newest, *self.chain.globals)
        return {name: array_at(values, self.axes[name]) if name in self.axes else values[name] for name in names}

    def _require_inside(self, answer: Factor) -> Table:
        """Raise where a filter has mass in the outermost cells; return 1, or NaN there under tracing."""
        table = promoted(answer)
        assert isinstance(table, Table), "cells are bounded integers"
        one: Data = np.ones(())
        for axes in self.axes.values():
            for axis in axes:
                if axis.index in table.inputs:
                    one = _require_none_at_edge(table, axis, one)
        return Table._of(Scaled(one, 0.0), {})


def _require_none_at_edge(table: Table, axis: GridAxis, one: Data) -> Data:
    others = [name for name in table.inputs if name != axis.index]
    time = others[0]
    marginal = table.sum(*others[1:]) if others[1:] else table
    shares = to_array(promoted(marginal).numbers())  # type: ignore[attr-defined]
    edge = align(shares.array, shares.names, (time, axis.index))[..., np.array([0, -1])].max()

    def error() -> DataError:
        return DataError(
            f"a grid of {axis.name!r} from {axis.low:g} to {axis.high:g}",
            expected=f"at most {MOST_AT_EDGE:g} of the mass in its outermost cells",
            nearest="more of it is there at some step" if is_traced(edge) else f"{float(edge):.2g} of it at some step",
            advice="make the grid wider",
        )

    return require(edge <= MOST_AT_EDGE, error, one)[0]


def _axis_links(link: Link, axes: Axes) -> dict[tuple, tuple]:
    """One link for each axis of a state."""
    count = len(axes[link.before[-1]])
    return {
        tuple(axes[name][k].index for name in link.before): tuple(axes[name][k].index for name in link.after)
        for k in range(count)
    }


def _volume(axes: Axes) -> Table:
    return Table(np.asarray(math.prod(volume(each) for each in axes.values())))
