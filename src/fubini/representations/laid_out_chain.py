"""Chains of tables laid out in arrays for the engines: the state before a step, the state after it, and sequences.

States with several names are one state with as many values as they have together; everything else that the tables
depend on, the plates and global variables, counts sequences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from fubini.base.arrays import Data
from fubini.base.domains import Bint, Domain
from fubini.base.names import Name
from fubini.base.semirings import Semiring, sum_product
from fubini.engines.chain_evidence import ChainWeights
from fubini.engines.chain_kernels import ChainLogs
from fubini.factors.carry import CarryLayout
from fubini.factors.table import Table
from fubini.factors.table_carry import TableLayout
from fubini.numerics.named_axes import align
from fubini.numerics.scaled import Scaled, gauged
from fubini.sequence.steps import Steps


@dataclass(frozen=True)
class LaidOutChain:
    """The steps of a chain of tables, its start, and the names along which its weights are laid out."""

    steps: Steps
    start: Table
    layout: TableLayout

    @property
    def before(self) -> dict[Name, Domain]:
        """The state before a step."""
        return {name: self.steps.domains[name] for name in self.steps.links.before}

    @property
    def after(self) -> dict[Name, Domain]:
        """The state after a step."""
        return {name: self.steps.domains[name] for name in self.steps.links.after}

    @property
    def others(self) -> dict[Name, Domain]:
        """All that is no state: sequences."""
        return {name: domain for name, domain in self.layout.batch if name not in self.before}

    @property
    def _moves(self) -> list[Any]:
        return [term for term in self.steps.terms if set(term.inputs) & set(self.before)]

    @property
    def _seen(self) -> list[Any]:
        return [term for term in self.steps.terms if not set(term.inputs) & set(self.before)]

    def _shapes(self) -> ChainLogs:
        size, count, length = extent_of(self.before), extent_of(self.others), self.steps.length
        is_moving = any(self.steps.time in term.inputs for term in self._moves)
        is_shared = not any(set(term.inputs) & set(self.others) for term in self._moves)
        moves = (length if is_moving else 1, size, size, 1 if is_shared else count)
        return ChainLogs((size, count), moves, (length, size, count))

    def weights(self) -> ChainWeights:
        """The tables as arrays: moves are those that depend on the state before a step."""
        time: dict[Name, Domain] = {self.steps.time: Bint[self.steps.length]}
        shapes, dtype = self._shapes(), self.layout.dtype
        parts = (
            _laid_out([self.start], [self.before, self.others], shapes.first, dtype),
            _laid_out(self._moves, [time, self.before, self.after, self.others], shapes.moves, dtype),
            _laid_out(self._seen, [time, self.after, self.others], shapes.seen, dtype),
        )
        return ChainWeights(*(ChainLogs(*each) for each in zip(*parts, strict=True)))

    @property
    def cells(self) -> int:
        """The number of weights in these arrays."""
        return sum(map(math.prod, self._shapes()))

    @property
    def own_cells(self) -> int:
        """The number of weights in the tables themselves."""
        return sum(extent_of(dict(table.inputs)) for table in (self.start, *self.steps.terms))

    def states(self, weights: Data, logs: Data) -> Table:
        """weights · exp(logs), by states and sequences, as a table over the names of the layout."""
        return self._table(weights, logs, {}, self.layout)

    def states_in_time(self, weights: Data, logs: Data) -> Table:
        """weights · exp(logs), by steps, states and sequences, as a table over time and the names of the layout."""
        time = {self.steps.time: Bint[self.steps.length]}
        return self._table(weights, logs, time, self.layout.over(self.steps.time, Bint[self.steps.length]))

    def pairs_in_time(self, weights: Data, logs: Data) -> Table:
        """weights · exp(logs), by steps, states before and after, and sequences, as a table."""
        time: dict[Name, Domain] = {self.steps.time: Bint[self.steps.length]}
        names = {**time, **self.before, **self.after, **self.others}
        shape = tuple(domain.extent for domain in names.values())
        return Table._of(Scaled(weights.reshape(shape), logs.reshape(shape)), names)

    def sequences(self, weights: Data, logs: Data) -> Table:
        """weights · exp(logs), by sequences, as a table."""
        shape = tuple(domain.extent for domain in self.others.values())
        return Table._of(Scaled(weights.reshape(shape), logs.reshape(shape)), self.others)

    def _table(self, weights: Data, logs: Data, time: dict[Name, Domain], layout: CarryLayout) -> Table:
        names = {**time, **self.before, **self.others}
        shape, order = tuple(domain.extent for domain in names.values()), tuple(name for name, _ in layout.batch)
        weights, logs = (align(data.reshape(shape), tuple(names), order) for data in (weights, logs))
        return Table._of(Scaled(weights, logs), dict(layout.batch))


def laid_out_chain(
    steps: Steps, start: Any, layout: TableLayout, semiring: Semiring = sum_product
) -> LaidOutChain | None:
    """The chain of these steps; None where it is of other terms than tables, of other sums, or has lags."""
    is_held = isinstance(start, Table) and all(isinstance(term, Table) for term in steps.terms)
    is_typed = jnp.dtype(layout.dtype).name in ("float32", "float64")
    is_served = is_held and is_typed and steps.semiring is semiring and steps.links.lag == 1
    return LaidOutChain(steps, start, layout) if is_served else None


def extent_of(names: dict[Name, Domain]) -> int:
    """The number of values that names have together."""
    return math.prod(domain.extent for domain in names.values())  # type: ignore[misc]


def _laid_out(
    tables: Sequence[Table], groups: Sequence[dict[Name, Domain]], shape: tuple[int, ...], dtype: Any
) -> tuple[Data, Data]:
    """The product of tables as w and l of w · exp(l), with one axis for each group of names."""
    names = tuple(name for group in groups for name in group)
    ones, logs = jnp.ones((1,) * len(names), dtype), jnp.zeros((1,) * len(names), dtype)
    for table in tables:
        weights, shift, *_ = table.aligned(names)
        pair = gauged(Scaled(jnp.asarray(weights, dtype), jnp.asarray(shift, dtype)))
        ones, logs = ones * pair.weights, logs + pair.shift
    extents = [
        domain.extent if size > 1 or extent_of(group) == 1 else 1
        for group, size in zip(groups, shape, strict=True)
        for domain in group.values()
    ]
    return tuple(jnp.broadcast_to(data, extents).reshape(shape) for data in (ones, logs))  # type: ignore[return-value]
