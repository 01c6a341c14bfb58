"""Grid: a real variable as cells of a grid, and every factor of it as tables over these.

In a chain, each axis becomes a state of its own: a step that treats the axes alike is a matrix for each axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache, wraps
from typing import Any

import jax
import numpy as np

from fubini.base.arrays import Data, is_traced
from fubini.base.domains import Domain, merge_inputs
from fubini.base.interpretations import current
from fubini.base.names import Bound, Name
from fubini.errors import DataError, DomainError, Intractable
from fubini.factors.promotion import promoted
from fubini.factors.represent import Represent, Representation, is_plain, represented
from fubini.factors.table import Table
from fubini.factors.tally import Conversion, conversion_of
from fubini.numerics.scaled import Scaled
from fubini.representations.grid_checks import (
    is_checked_by_sums,
    is_inside,
    require_counted,
    require_fine,
    require_shown,
)
from fubini.representations.grid_tables import Axes, GridAxis, array_at, back_to_reals, to_tables, volume
from fubini.sequence.chain import Chain, Smoothed
from fubini.sequence.links import Link
from fubini.terms.exactness import Exactness, exactly, projected
from fubini.terms.factor import Factor, product, rename, substitute, terms_of
from fubini.terms.value import to_value

SUPPORTS = {"positive": (0.0, math.inf), "unit": (0.0, 1.0)}


class Grid(Representation):
    """n cells between two ends, for each element of a variable: one pair of ends and one n for all, or one each.

    >>> fb.rep.Grid((-8, 8), 161)
    Grid((-8, 8), 161)
    """

    stores = "tables over cells"
    projects = False

    def __init__(self, ends: Any, n: Any) -> None:
        asked = f"Grid({ends}, {n})"
        _require_known(asked, ends, n)
        pairs, counts = _numbers(ends), _numbers(n)
        if (
            pairs is None
            or pairs.ndim not in (1, 2)
            or pairs.shape[-1:] != (2,)
            or not (pairs[..., 0] < pairs[..., 1]).all()
        ):
            raise DataError(asked, expected="(low, high), two finite ends, low < high; or such a pair for each axis")
        if counts is None or counts.ndim > 1 or (counts % 1 != 0).any() or (counts < 2).any():
            raise DataError(asked, expected="a whole number of cells, at least 2, for each axis")
        self.ends: Any = _plain(ends)
        self.n: Any = _plain(n)
        self._exact = (tuple(map(tuple, np.atleast_2d(pairs))), tuple(np.atleast_1d(counts)), pairs.ndim, counts.ndim)

    @property
    def structure(self) -> tuple:
        return (type(self), self._exact)

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
        support = SUPPORTS.get(domain.kind, (-math.inf, math.inf))
        return [
            GridAxis(name, element, _index(name, element), float(pair[0]), float(pair[1]), int(count), support)
            for element, pair, count in zip(elements, pairs, counts, strict=True)
        ]

    def recast(self, chain: Chain) -> GridChain:
        """The chain over cells."""
        return GridChain(chain)

    def __repr__(self) -> str:
        return f"Grid({self.ends!r}, {self.n!r})"


def _require_known(asked: str, *given: Any) -> None:
    if is_traced(*jax.tree.leaves(given)):
        raise DataError(
            asked,
            expected="ends and numbers of cells that are known when a function is traced",
            nearest="an array of jax.jit, jax.vmap or jax.grad",
            advice="make them arguments that are static, or numbers",
        )


def _numbers(given: Any) -> np.ndarray | None:
    """Finite numbers as an array; None where they are not."""
    try:
        data = np.asarray(given, float)
    except (TypeError, ValueError):
        return None
    return data if np.isfinite(data).all() else None


def _plain(given: Any) -> Any:
    """The numbers of Python, in tuples: they print in full."""
    if np.ndim(given):
        return tuple(_plain(each) for each in given)
    return given.item() if hasattr(given, "item") else given


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
        self._init, self._factor = (product(*map(promoted, terms_of(each))) for each in (chain.init, chain.factor))
        self.domains = merge_inputs(chain.init.inputs, chain.factor.inputs, chain.domains)
        named = {name: each for name, each in own.by_name.items() if isinstance(each, Grid) and name in self.domains}
        _require_summed(named, chain)
        _require_plain({name: each for name, each in own.by_name.items() if name in self.domains and name not in named})
        self.axes: dict[Name, list[GridAxis]] = {n: each.axes(n, self.domains[n]) for n, each in named.items()}
        self.mark = Exactness(tuple(dict.fromkeys(mark for each in named.values() for mark in each.mark.marks)))
        states = {name: axes for name, axes in self.axes.items() if name in chain.links.before}
        newest = {name: axes for name, axes in self.axes.items() if name in chain.links.newest}
        shared = {name: axes for name, axes in self.axes.items() if name in chain.globals}
        fine = Table._of(Scaled(self._require_fine(), 0.0), {})
        init = product(*to_tables(self._init, states | shared), _volume(states | shared), fine)
        factor = product(*to_tables(self._factor, newest | states | shared), _volume(newest))
        self._cells = self._chain(init, factor, chain.length)

    def _chain(self, init: Factor, factor: Factor, length: int) -> Chain:
        """A chain over cells, one link for each axis of a state."""
        step: dict[Any, Any] = {}
        for link in self.chain.links.chains:
            step.update(_axis_links(link, self.axes) if link.oldest in self.axes else {link.before: link.after})
        shared = [index for name in self.chain.globals for index in _indices(name, self.axes)]
        return Chain(
            init=init, factor=factor, time=self.chain.time, step=step, length=length, sum=shared,
            method="sequential", drops_small=True,
        )  # fmt: skip

    def _require_fine(self) -> Data:
        """Raise where a state is less spread than its cells show, before the first step or after it; return 1."""
        one: Data = np.ones(())
        for link in (link for link in self.chain.links.chains if link.oldest in self.axes):
            axes = self.axes[link.oldest]
            later = [(self._factor, name) for name in link.before]
            for earlier in (*((self._init, name) for name in link.before), (self._factor, link.newest)):
                (one,) = require_fine([earlier, *later], axes, one)
        return one

    @_plainly
    def evidence(self) -> Factor:
        """Σ over all cells."""
        return self._inside(self._cells.evidence())._marked(self.mark)

    @_plainly
    def filter(self) -> Factor:
        """The density after each step given what came before it."""
        answer = self._cells.filter()
        return self._back(self._inside(answer, answer))

    @_plainly
    def final(self) -> Factor:
        """The density after the last step."""
        return self._back(self._inside(self._cells.final()))

    @_plainly
    def smooth(self, lag: int | None = None) -> Smoothed:
        """The density after each step given everything, or given everything up to so many steps later."""
        answer = self._cells.smooth(lag)
        (one,) = self._require_shown(np.ones(()))
        for part in (answer.terms[0], answer.initial):
            (one,) = require_shown(part, self.axes, self._states, one)
        inside = Table._of(Scaled(one, 0.0), {})
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
        shown = [name for name in self.axes if name in self.chain.links.before]
        stored = [f"{name}: {own.by_name[name]}, {Grid.stores}" for name in shown]
        with current().without(Represent):
            plan = self._cells.explain()
        *notes, last = plan.notes
        return replace(plan, notes=(*notes, *stored, last), conversions=tuple(told))

    def _back(self, table: Factor) -> Factor:
        return back_to_reals(table, self.axes, self.domains)._marked(self.mark)

    def _located(self, values: Mapping[Name, Data]) -> dict[Name, Data]:
        names = (*self.chain.links.before, *self.chain.links.newest, *self.chain.globals)
        each = [array_at(values, self.axes[name]) if name in self.axes else values[name] for name in names]
        return dict(zip(names, self._require_shown(*each), strict=True))

    def _inside(self, answer: Factor, filtered: Factor | None = None) -> Factor:
        """An answer of cells, once they hold all the mass."""
        (one,) = self._require_shown(np.ones(()), filtered=filtered)
        return promoted(product(answer, Table._of(Scaled(one, 0.0), {})))

    def _require_shown(self, *poisoned: Data, filtered: Factor | None = None) -> tuple[Data, ...]:
        """Raise where cells show too little of the filter, or of the state before the first step."""
        first, later = self._first(), filtered or self._cells.filter()
        last = [self._cells.final()] if any(name in self.axes for name in self.chain.globals) else []
        for answer in (first, later, *last):
            poisoned = require_shown(answer, self.axes, self._states, *poisoned)
        before = [first, rename(promoted(later), self._cells.links.to_before)]
        for factor, answers in ((self.chain.init, [first]), (self.chain.factor, before)):
            densities = [term for term in terms_of(factor) if is_checked_by_sums(term, self.axes)]
            poisoned = require_counted(densities, answers, self.axes, self._states, *poisoned)
        return poisoned

    def _first(self) -> Factor:
        """The state before the first step: as it starts where that is within the grid, else given the first step."""
        cells = self._cells
        states = [axis.index for name, axes in self.axes.items() if name in self.chain.links.before for axis in axes]
        if all(name in cells.init.inputs for name in states):
            others = [name for name in self._states if name in cells.init.inputs and name not in states]
            start = cells.init.sum(*others) if others else cells.init
            if is_inside(start, self.axes, self._states):
                return start
        at = {cells.time: to_value(0)} if cells.time in cells.factor.inputs else {}
        return self._chain(cells.init, substitute(cells.factor, at), 1).smooth().initial

    @property
    def _states(self) -> tuple[Name, ...]:
        """All that is summed over: the cells, the other states, and global variables."""
        return (*self._cells.links.before, *self._cells.links.newest, *self._cells.globals)


def _axis_links(link: Link, axes: Axes) -> dict[tuple, tuple]:
    """One link for each axis of a state."""
    count = len(axes[link.before[-1]])
    return {
        tuple(axes[name][k].index for name in link.before): tuple(axes[name][k].index for name in link.after)
        for k in range(count)
    }


def _indices(name: Name, axes: Axes) -> list[Name]:
    """The cells of a variable that is on a grid; itself otherwise."""
    return [axis.index for axis in axes[name]] if name in axes else [name]


def _require_summed(named: Mapping[Name, Grid], chain: Chain) -> None:
    free = [name for name in named if name not in (*chain.domains, *chain.globals)]
    if free:
        raise Intractable(
            f"{named[free[0]]} of {free[0]!r}, which is an input of the answers",
            expected="a state of the chain, or a variable that is summed out of it",
            advice=f"sum it out, fb.Chain(…, sum=({free[0]!r},)), or give it a value",
        )


def _require_plain(beside: Mapping[Name, Representation]) -> None:
    """Raise where a variable beside the grid has a representation by which a chain of cells would not go."""
    for name, each in beside.items():
        if not is_plain(each):
            raise Intractable(
                f"represent({name}={each!r}) beside fb.rep.Grid",
                expected="fb.rep.Grid or fb.rep.Dense for all variables of the chain",
                nearest="what its steps hand on is a table over all cells",
            )


def _volume(axes: Axes) -> Table:
    return Table(np.asarray(math.prod(volume(each) for each in axes.values())))
