"""Chains of tables by the kernels of `engines/`: evidence with its gradient, and smoothing.

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
from fubini.base.semirings import sum_product
from fubini.engines.chain_evidence import ChainWeights, log_evidence, log_evidence_and_slopes
from fubini.engines.chain_kernels import ChainLogs
from fubini.engines.wide_chain_kernels import MOST_WIDE_STATES
from fubini.factors.table import Table
from fubini.factors.table_carry import TableLayout
from fubini.numerics.scaled import Scaled, gauged, read_log
from fubini.sequence.links import Link, Links, fixed_bound
from fubini.sequence.recurrence import SmoothedStates
from fubini.sequence.scan import multiplied_in_pairs
from fubini.sequence.steps import Steps, summed

Names = tuple[Name, ...]

TIME, BEFORE, AFTER, SEQUENCE = map(fixed_bound, ("time", "state before", "state after", "sequence"))


@dataclass(frozen=True)
class TableKernels:
    """The steps of a chain, its start, and the names along which its weights are laid out."""

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

    def weights(self) -> ChainWeights:
        """The tables as the kernels have them: moves are those that depend on the state before a step."""
        terms: list[Any] = list(self.steps.terms)
        moves = [term for term in terms if set(term.inputs) & set(self.before)]
        seen = [term for term in terms if not set(term.inputs) & set(self.before)]
        size, count = _extent(self.before), _extent(self.others)
        time = {self.steps.time: Bint[self.steps.length]}
        is_moving = any(self.steps.time in term.inputs for term in moves)
        is_shared = not any(set(term.inputs) & set(self.others) for term in moves)
        first_shape = (size, count)
        moves_shape = (self.steps.length if is_moving else 1, size, size, 1 if is_shared else count)
        seen_shape = (self.steps.length, size, count)
        dtype = self.layout.dtype
        parts = (
            _laid_out([self.start], [self.before, self.others], first_shape, dtype),
            _laid_out(moves, [time, self.before, self.after, self.others], moves_shape, dtype),
            _laid_out(seen, [time, self.after, self.others], seen_shape, dtype),
        )
        return ChainWeights(*(ChainLogs(*each) for each in zip(*parts, strict=True)))

    def evidence(self) -> Table:
        """Σ over all states, for each sequence."""
        return _scaled(jnp.ones((), self.layout.dtype), log_evidence(scan_evidence, self.weights()), self.others)

    def smoothed(self) -> SmoothedStates:
        """The weights of the states after each step and of the first, all of them those of the evidence together."""
        weights = self.weights()
        total, slopes = log_evidence_and_slopes(scan_evidence, weights)
        time = {self.steps.time: Bint[self.steps.length]}
        after = _scaled(slopes.seen * weights.ones.seen, total, {**time, **self.before, **self.others})
        first = _scaled(slopes.first * weights.ones.first, total, {**self.before, **self.others})
        return SmoothedStates(after, first)


def table_kernels(steps: Steps, start: Any, layout: TableLayout) -> TableKernels | None:
    """The kernels for these steps; None where there are none: of other terms than tables, many states, or lags."""
    size = _extent({name: steps.domains[name] for name in steps.links.before})
    is_served = steps.semiring is sum_product and steps.links.lag == 1 and size <= MOST_WIDE_STATES
    is_held = isinstance(start, Table) and jnp.dtype(layout.dtype).name in ("float32", "float64")
    return TableKernels(steps, start, layout) if is_served and is_held else None


def _extent(names: dict[Name, Domain]) -> int:
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
        domain.extent if size > 1 or _extent(group) == 1 else 1
        for group, size in zip(groups, shape, strict=True)
        for domain in group.values()
    ]
    return tuple(jnp.broadcast_to(data, extents).reshape(shape) for data in (ones, logs))  # type: ignore[return-value]


def _scaled(weights: Data, logs: Data, inputs: dict[Name, Domain]) -> Table:
    """weights · exp(logs), where logs are for each sequence, the last axis; −∞ is a weight of zero."""
    shape = tuple(domain.extent for domain in inputs.values())
    is_zero = logs == -jnp.inf
    weights, logs = jnp.where(is_zero, 0.0, weights), jnp.where(is_zero, 0.0, logs)
    return Table._of(Scaled(weights.reshape(shape), jnp.broadcast_to(logs, weights.shape).reshape(shape)), inputs)


def scan_evidence(weights: ChainWeights) -> Data:
    """The log-evidence of each sequence by pairs of steps: a function that has derivatives of all orders."""
    length, size, count = weights.ones.seen.shape
    state: Domain = Bint[size]
    sequence: dict[Name, Domain] = {SEQUENCE: Bint[count]}
    domains: dict[Name, Domain] = {BEFORE: state, AFTER: state}
    named: tuple[dict[Name, Domain], ...] = (
        {BEFORE: state, **sequence},
        {TIME: Bint[length], BEFORE: state, AFTER: state, **sequence},
        {TIME: Bint[length], AFTER: state, **sequence},
    )
    shapes = [tuple(domain.extent for domain in names.values()) for names in named]
    first, *terms = (
        Table._of(Scaled(jnp.broadcast_to(one, shape), jnp.broadcast_to(log, shape)), names)
        for one, log, shape, names in zip(*weights, shapes, named, strict=True)
    )
    links = Links((Link((BEFORE,), (AFTER,)),))
    steps = Steps(tuple(terms), TIME, length, links, domains, sum_product)
    total: Any = summed([first, multiplied_in_pairs(steps)], (BEFORE, AFTER))
    return jnp.broadcast_to(read_log(total.aligned((SEQUENCE,))), (count,))
