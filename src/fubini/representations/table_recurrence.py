"""The recurrence of tables, in linear weights: in order, and by pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from fubini.base import lax_loops
from fubini.base.arrays import Data
from fubini.base.domains import Bint, Domain
from fubini.base.names import Bound, Name
from fubini.base.semirings import max_product, sum_product
from fubini.factors.table import Table
from fubini.factors.table_carry import TableLayout
from fubini.numerics.named_axes import align
from fubini.numerics.scaled import SAFE_LOG, greatest_of, least_of
from fubini.representations.linear_weights import (
    LinearWeights,
    Names,
    gauged,
    room_of,
    run_plain,
    spread_out,
    table_of,
    to_weights,
)
from fubini.representations.table_kernels import (
    descent_by_kernels,
    evidence_by_kernels,
    served_by_kernels,
    smoothed_by_kernels,
    smoothed_pairs_by_kernels,
)
from fubini.representations.table_scans import (
    evidence_by_scans,
    product_by_scans,
    served_by_scans,
    smoothed_by_scans,
)
from fubini.sequence.recurrence import Descent, InOrder, Products, Recurrence, SmoothedStates, Turn
from fubini.sequence.steps import Steps, plan_of
from fubini.terms.factor import Factor, Unit, rename
from fubini.terms.heads import exact_recurrence


@dataclass(frozen=True)
class TableRecurrence(Recurrence):
    """Steps whose terms are tables, and the layout of their carries."""

    layout: TableLayout
    steps: Steps

    def in_order(self, start: Factor, turn: Turn, keep: bool) -> InOrder:
        assert isinstance(start, Table), "a carry of this layout"
        return scanned(self.steps, start, self.layout, turn, keep)

    def product(self) -> Products:
        return multiplied(*pairs(self.steps))

    def product_in_order(self) -> Products | None:
        return product_by_scans(self.steps, self.layout)

    def running(self, reverse: bool) -> Products:
        return accumulated(*pairs(self.steps), reverse)

    def evidence(self, start: Factor, kernels: bool) -> Factor | None:
        if kernels:
            chain = served_by_kernels(self.steps, start, self.layout)
            return None if chain is None else evidence_by_kernels(chain)
        chain = served_by_scans(self.steps, start, self.layout)
        return None if chain is None else evidence_by_scans(chain)

    def smoothed(self, start: Factor, kernels: bool) -> SmoothedStates | None:
        if kernels:
            chain = served_by_kernels(self.steps, start, self.layout)
            return None if chain is None else smoothed_by_kernels(chain)
        chain = served_by_scans(self.steps, start, self.layout)
        return None if chain is None else smoothed_by_scans(chain)

    def smoothed_pairs(self, start: Factor) -> Factor | None:
        chain = served_by_kernels(self.steps, start, self.layout)
        return None if chain is None else smoothed_pairs_by_kernels(chain)

    def descent(self, start: Factor, uniforms: Data | None) -> Descent | None:
        chain = served_by_kernels(self.steps, start, self.layout, max_product if uniforms is None else sum_product)
        return None if chain is None else descent_by_kernels(chain, uniforms)


@exact_recurrence.rule(when=lambda layout, steps: steps.semiring.homogeneous and _are_tables(steps.terms))
def recur_tables(layout: TableLayout, steps: Steps) -> TableRecurrence:
    """f_t = w_t · exp(l_t): products of the weights w, sums of the logarithms l"""
    return TableRecurrence(layout, steps)


def _are_tables(terms: Sequence[Factor]) -> bool:
    return all(isinstance(term, Table) for term in terms)


# -- in order -------------------------------------------------------------------------------------------------------


def _weights_of(steps: Steps, dtype: jnp.dtype) -> list[LinearWeights]:
    states = (*steps.links.before, *steps.links.newest)
    return [to_weights(term, steps.time, states, dtype) for term in steps.terms]  # type: ignore[arg-type]


def _logs_of(
    weights: Sequence[LinearWeights], time: Name, rest: Names, sizes: Mapping[Name, Domain], length: int
) -> Data:
    """The logarithms taken out of the terms, over time and the names that are no states."""
    total = jnp.zeros((length, *(sizes[name].extent for name in rest)))
    for part in weights:
        total = total + align(part.log, part.log_names, (time, *rest))
    return total


def scanned(steps: Steps, start: Table, layout: TableLayout, turn: Turn, keep: bool) -> InOrder:
    """One step after another."""
    order, sizes = tuple(name for name, _ in layout.batch), dict(layout.batch)
    rest = tuple(name for name in order if name not in steps.links.before)
    axes = tuple(axis for axis, name in enumerate(order) if name in steps.links.before)
    terms = _weights_of(steps, layout.dtype)
    slices = [_at_one_time(term, steps.time) for term in steps.terms]  # type: ignore[arg-type]
    plan = plan_of([rename(start, dict(turn.enter)), *slices], turn.gone)
    entered = tuple(turn.enter.get(name, name) for name in order)
    room = room_of(sum((part.least for part in terms), start=jnp.zeros((), layout.dtype)), layout.dtype)

    def body(now: Data, moving: list[Data]) -> tuple[Data, tuple[Data, Data]]:
        parts = iter(moving)
        operands = [
            (next(parts), part.names[1:]) if steps.time in part.names else (part.data, part.names) for part in terms
        ]
        made, names = run_plain(plan, [(now, entered), *operands], steps.semiring)
        made = spread_out(made, tuple(turn.leave.get(name, name) for name in names), layout.batch)
        top = greatest_of(made, axes)
        after = made / top
        return after, (top, after if keep else least_of(after, axes))

    first = to_weights(start, None, steps.links.before, layout.dtype)
    begin = spread_out(first.data, first.names, layout.batch)
    moving = [part.data for part in terms if steps.time in part.names]
    last, (tops, each) = lax_loops.scan(body, begin, moving, length=steps.length, reverse=turn.reverse)
    every, least = each if keep else None, least_of(each, tuple(range(1, each.ndim)))
    first_least = least_of(begin, tuple(range(begin.ndim)))[None]
    entering = [least[1:], first_least] if turn.reverse else [first_least, least[:-1]]
    safe = jnp.all(jnp.concatenate(entering) >= jnp.exp(-room)) & jnp.all(last == last)
    logs = jnp.log(jnp.squeeze(tops, tuple(axis + 1 for axis in axes)))
    logs = logs + _logs_of(terms, steps.time, rest, sizes, steps.length)
    begin_log = align(first.log, first.log_names, rest)
    kept = None
    if every is not None:
        running = jnp.cumsum(logs[::-1], axis=0)[::-1] if turn.reverse else jnp.cumsum(logs, axis=0)
        over_time = {steps.time: Bint[steps.length], **sizes}
        kept = table_of(every, begin_log + running, (steps.time, *rest), over_time)
    return InOrder(table_of(last, begin_log + jnp.sum(logs, axis=0), rest, sizes), kept, safe)


def _at_one_time(table: Table, time: Name) -> Table:
    return table.at({time: 0}) if time in table.inputs else table


# -- by pairs -------------------------------------------------------------------------------------------------------


class Pairs(NamedTuple):
    """Weights from before to after for each place, the log of their scale, and whether they are in range."""

    weights: Data
    log: Data
    safe: Data


class Pairing(NamedTuple):
    """The names by which neighbours are combined: of the weights behind the time axis, and of their scale."""

    steps: Steps
    inputs: tuple[tuple[Name, Domain], ...]
    rest: Names

    @property
    def names(self) -> Names:
        """The axes of the weights behind the place."""
        return tuple(name for name, _ in self.inputs)

    def combined(self, left: Pairs, right: Pairs) -> Pairs:
        """Left then right, the state between summed out."""
        links, place = self.steps.links, Bound("t")
        middle: dict[Name, Name] = {name: Bound(name) for name in links.before}
        to_middle = {after: middle[before] for before, after in links.to_after.items()}
        a = tuple(to_middle.get(name, name) for name in self.names)
        b = tuple(middle.get(name, name) for name in self.names)
        size = Bint[max(1, left.weights.shape[0])]
        shapes = [{place: size, **dict(zip(names, dict(self.inputs).values(), strict=True))} for names in (a, b)]
        plan = plan_of([Unit(shape) for shape in shapes], tuple(middle.values()))
        made, names = run_plain(plan, [(left.weights, (place, *a)), (right.weights, (place, *b))], self.steps.semiring)
        return self.kept(align(made, names, (place, *self.names)), left.log + right.log, left.safe & right.safe)

    def kept(self, weights: Data, log: Data, safe: Data) -> Pairs:
        """Weights over their greatest for each place and batch cell."""
        axes = tuple(axis for axis, name in enumerate(self.names, 1) if name not in self.rest)
        gauge = gauged(weights, axes)
        constant = jax.lax.stop_gradient(gauge.weights)
        others = tuple(range(1, weights.ndim))
        least = jnp.min(jnp.where(constant > 0, constant, 1.0), axis=others)
        sound = jnp.all(constant == constant, axis=others) & (least >= jnp.exp(-SAFE_LOG[weights.dtype.name]))
        return Pairs(gauge.weights, log + gauge.log, safe & sound)


def pairs(steps: Steps) -> tuple[Pairing, Pairs]:
    """One element for each step, in linear weights, from before to after."""
    layout = steps.layout([])
    states = {name: steps.domains[name] for name in steps.links.before + steps.links.after}
    others = {name: domain for name, domain in layout.batch if name not in states}
    pairing = Pairing(steps, tuple({**others, **states}.items()), tuple(others))
    terms = _weights_of(steps, layout.dtype)
    shape = (steps.length, *(domain.extent for _, domain in pairing.inputs))
    weights = jnp.ones((), layout.dtype)
    for part in terms:
        weights = weights * align(part.data, part.names, (steps.time, *pairing.names))
    weights = jnp.broadcast_to(weights, shape)
    logs = _logs_of(terms, steps.time, pairing.rest, others, steps.length)
    space = sum((part.least for part in terms), start=jnp.zeros((), layout.dtype))
    safe = jnp.broadcast_to(space >= -2 * SAFE_LOG[weights.dtype.name], (steps.length,))
    return pairing, pairing.kept(weights, logs, safe)


def multiplied(pairing: Pairing, elements: Pairs) -> Products:
    """The product of all elements, neighbours first."""
    while elements.weights.shape[0] > 1:
        half = elements.weights.shape[0] // 2
        even, odd, last = (
            Pairs(*(data[part] for data in elements))
            for part in (slice(0, 2 * half, 2), slice(1, 2 * half, 2), slice(2 * half, None))
        )
        made = pairing.combined(even, odd)
        elements = Pairs(*(jnp.concatenate(both) for both in zip(made, last, strict=True)))
    table = table_of(elements.weights[0], elements.log[0], pairing.rest, dict(pairing.inputs))
    return Products(table, elements.safe[0])


def accumulated(pairing: Pairing, elements: Pairs, reverse: bool) -> Products:
    """The products of the elements up to each place, or from each place on."""
    combine = (lambda a, b: pairing.combined(b, a)) if reverse else pairing.combined
    every = jax.lax.associative_scan(combine, elements, reverse=reverse)
    time = pairing.steps.time
    inputs = {time: Bint[pairing.steps.length], **dict(pairing.inputs)}
    table = table_of(every.weights, every.log, (time, *pairing.rest), inputs)
    return Products(table, jnp.all(every.safe))
