"""Time over the devices of a mesh: each device multiplies its steps, few numbers are gathered, and each sweeps again.

With M_j the product of the steps of stretch j, the stretches are a chain of their own: what enters each is
α_j = α_0 M_1 … M_(j−1), and what leaves it β_j = M_(j+1) … M_S 1. Given both, each device answers for its own steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import jax
import jax.numpy as jnp

from fubini.base.arrays import Data
from fubini.base.names import Name
from fubini.base.semirings import Semiring, sum_product
from fubini.eliminate.forward import read
from fubini.factors.carry import lightened, settled
from fubini.factors.slices import slices
from fubini.sequence import chain_questions as questions
from fubini.sequence.chain_questions import (
    at_times,
    earlier_carries,
    finish,
    finish_pairs,
    moments_of,
    pairs_between,
    pass_forward,
)
from fubini.sequence.compiled import SequenceOutline, over_time
from fubini.sequence.method import size_of
from fubini.sequence.over_mesh import Along
from fubini.sequence.recurrence import PairMoments
from fubini.sequence.scan import scanned, scanned_back
from fubini.sequence.steps import Steps, joined, prepared, summed
from fubini.sequence.stretches import LANE, STRETCH, cut_out, out_of_lanes, product_of, segments_of
from fubini.terms.factor import Factor, rename
from fubini.terms.name_axis import name_axis


class Stretches:
    """The steps of one device in segments, and the chain of the stretches of all devices.

    Products are over their greatest weight: `scales` has its logarithm for each stretch.
    """

    def __init__(
        self,
        outline: SequenceOutline,
        along: Along,
        start: Sequence[Factor],
        terms: Sequence[Factor],
        semiring: Semiring,
    ) -> None:
        local = next(term.inputs[outline.time].extent for term in terms if outline.time in term.inputs)
        self.along, self.plain = along, replace(outline, length=local, kernels="")
        self.steps = self.plain.steps(terms, semiring)
        self.start = joined(prepared(start, semiring), semiring)
        self.segments = segments_of(local, along.lacking, _elements(self.steps))
        products = [product_of(self.steps, segment, outline.method) for segment in self.segments]
        stacked = [self._gathered(parts) for parts in zip(*(own.stacked for own in products), strict=True)]
        self.whole, self.products = name_axis(products[0].at(stacked), STRETCH), products[0]
        self.scales = self._gathered([own.logs for own in products])

    def _gathered(self, parts: Sequence[Data]) -> Data:
        """An array for each segment as one for all stretches, in order: what is communicated."""
        every = jnp.concatenate([jax.lax.all_gather(data, self.along.axes) for data in parts], axis=1)
        count = self.along.devices * self.lanes - (1 if self.along.lacking else 0)
        return every.reshape(-1, *every.shape[2:])[:count]

    @property
    def outline(self) -> SequenceOutline:
        """The outline of the chain of stretches."""
        return replace(self.plain, time=STRETCH, length=len(self.scales), method="sequential")

    @property
    def chain(self) -> Steps:
        """The stretches as steps."""
        return replace(self.steps, terms=(self.whole,), time=STRETCH, length=len(self.scales))

    @property
    def total(self) -> Factor:
        """The scale of all stretches together."""
        return self.products.total(jnp.sum(self.scales, axis=0), self.steps.semiring)

    @property
    def lanes(self) -> int:
        """The stretches of one device."""
        return sum(segment.lanes for segment in self.segments)

    def cut(self) -> list[tuple[Steps, SequenceOutline]]:
        """The steps of each segment, and their outline."""
        return [(cut_out(self.steps, segment), replace(self.plain, length=segment.length)) for segment in self.segments]

    def own(self, data: Data, place: int) -> Data:
        """Of an array of all stretches, those of a segment of this device."""
        before = sum(segment.lanes for segment in self.segments[:place])
        filled = jnp.concatenate([data, data[-1:]]) if self.along.lacking else data
        first = jax.lax.axis_index(self.along.axes) * self.lanes + before
        return jax.lax.dynamic_slice_in_dim(filled, first, self.segments[place].lanes)

    def _over_lanes(self, every: Factor, scales: Data) -> list[Factor]:
        """A factor of all stretches, whose axis in front has no name, for each segment of this device.

        It is over its greatest weight: only between global variables do scales make a difference.
        """
        named = name_axis(every, STRETCH)
        if self.plain.globals:
            named = joined([named, name_axis(jax.vmap(self._scale)(scales), STRETCH)])
        light = lightened(named, (*self.steps.links.before, *self.plain.globals))[0]
        cut = slices(light, STRETCH)
        return [
            name_axis(cut.at([self.own(data, place) for data in cut.stacked]), LANE)
            for place in range(len(self.segments))
        ]

    def _scale(self, logs: Data) -> Factor:
        return self.products.total(logs, self.steps.semiring)

    def entering(self) -> list[Factor]:
        """α of the stretches of each segment."""
        first, _, every, _ = scanned(self.chain, self.start, True)
        running = jnp.cumsum(self.scales, axis=0) - self.scales
        return self._over_lanes(earlier_carries(first, every, self.chain), running)

    def leaving(self) -> list[Factor]:
        """β of the stretches of each segment, as the state before the next one."""
        cut = slices(scanned_back(self.chain), STRETCH)
        running = jnp.cumsum(self.scales[::-1], axis=0)[::-1] - self.scales
        return self._over_lanes(cut.at([data[1:] for data in cut.stacked]), running)

    def together(self, answers: Sequence[Factor]) -> Factor:
        """Answers for each segment as one over the time of this device."""
        return out_of_lanes(answers, self.steps)


def _elements(steps: Steps) -> int:
    """The numbers of one product."""
    names = {name: domain for term in steps.terms for name, domain in term.inputs.items() if name != steps.time}
    return size_of(list({**names, **steps.domains}.values()))


def answers(question: Callable) -> Callable[[Callable], Callable]:
    """Register how a question is answered where time lies on a mesh."""

    def register(function: Callable) -> Callable:
        over_time[question] = function
        return function

    return register


# -- by the chain of stretches alone ----------------------------------------------------------------------------------


@answers(questions.evidence)
def evidence(along: Along, outline: SequenceOutline, start: Sequence[Factor], terms: Sequence[Factor]) -> Factor:
    """Σ over all states."""
    last = through(along, outline, start, terms)
    return summed([last], outline.links.after + outline.globals)


@answers(questions.ended)
def ended(
    along: Along, outline: SequenceOutline, start: Sequence[Factor], terms: Sequence[Factor], kept: tuple[Name, ...]
) -> Factor:
    """p(last state | everything)."""
    stretches = Stretches(outline, along, start, terms, sum_product)
    begin = [*start, stretches.total] if outline.globals else start
    return questions.ended(stretches.outline, begin, [stretches.whole], kept)


@answers(questions.through)
def through(
    along: Along,
    outline: SequenceOutline,
    start: Sequence[Factor],
    terms: Sequence[Factor],
    semiring: Semiring = sum_product,
) -> Factor:
    """Σ over the states before of start · steps."""
    stretches = Stretches(outline, along, start, terms, semiring)
    last = questions.through(stretches.outline, start, [stretches.whole], semiring)
    return read(semiring, joined([*prepared([last], semiring), stretches.total], semiring))


@answers(questions.whole)
def whole(along: Along, outline: SequenceOutline, terms: Sequence[Factor], semiring: Semiring = sum_product) -> Factor:
    """The bare product."""
    stretches = Stretches(outline, along, (), terms, semiring)
    product = questions.whole(stretches.outline, [stretches.whole], semiring)
    return read(semiring, joined([*prepared([product], semiring), stretches.total], semiring))


# -- every step -----------------------------------------------------------------------------------------------------


@answers(questions.filtered)
def filtered(
    along: Along, outline: SequenceOutline, start: Sequence[Factor], terms: Sequence[Factor], kept: tuple[Name, ...]
) -> Factor:
    """p(state after step t | everything up to t)."""
    stretches = Stretches(outline, along, start, terms, sum_product)
    parts = zip(stretches.cut(), stretches.entering(), strict=True)
    return stretches.together([questions.filtered(own, [enter], here.terms, kept) for (here, own), enter in parts])


@answers(questions.smoothed)
def smoothed(
    along: Along, outline: SequenceOutline, start: Sequence[Factor], terms: Sequence[Factor], kept: tuple[Name, ...]
) -> tuple[Factor, Factor]:
    """p(state after step t | everything), and of the state before the first step."""
    stretches = Stretches(outline, along, start, terms, sum_product)
    _, before = questions.smoothed(stretches.outline, start, [stretches.whole], kept)
    parts = zip(stretches.cut(), stretches.entering(), stretches.leaving(), strict=True)
    found = []
    for (here, own), enter, leave in parts:
        layout = here.layout([enter])
        later = at_times(scanned_back(here, leave), here.time, 1, here.length)
        found.append(finish(own, joined([pass_forward(here, own, enter), later]), kept, layout))
    return rename(stretches.together(found), outline.links.to_after), before


@answers(questions.smoothed_pairs)
def smoothed_pairs(along: Along, outline: SequenceOutline, start: Sequence[Factor], terms: Sequence[Factor]) -> Factor:
    """p(states before and after step t | everything)."""
    return _pairs(Stretches(outline, along, start, terms, sum_product))


def _pairs(stretches: Stretches) -> Factor:
    parts = zip(stretches.cut(), stretches.entering(), stretches.leaving(), strict=True)
    return stretches.together(
        [
            finish_pairs(own, pairs_between(here, own, settled(enter, here.layout([enter])), leave))
            for (here, own), enter, leave in parts
        ]
    )


@answers(questions.pair_moments)
def pair_moments(
    along: Along, outline: SequenceOutline, start: Sequence[Factor], terms: Sequence[Factor]
) -> PairMoments:
    """Means and covariances of real states before and after each step given everything, and the evidence."""
    stretches = Stretches(outline, along, start, terms, sum_product)
    names, states = questions.moment_axes(outline, start, terms), outline.links.before + outline.links.after
    first = questions.pair_moments(stretches.outline, start, [stretches.whole]).first
    return PairMoments(evidence(along, outline, start, terms), first, *moments_of(_pairs(stretches), states, names))
