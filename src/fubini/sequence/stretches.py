"""Stretches of a sequence: steps in lanes side by side, their products, and the chain that these products are.

A sequence of T steps is a sequence of few stretches, each the product of its steps; the states between stretches are
answered for by that short chain, and those inside of each by the steps of each alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fubini.base.arrays import Data
from fubini.base.domains import Bint
from fubini.base.names import Bound
from fubini.base.semirings import Semiring
from fubini.eliminate.forward import embed
from fubini.factors.carry import CarryLayout, layout_of, lightened, settled, weighed
from fubini.factors.slices import Slices, slices
from fubini.sequence.scan import multiplied_in_pairs, multiplied_through
from fubini.sequence.steps import Steps
from fubini.terms.factor import Factor, Unit
from fubini.terms.name_axis import name_axis

LANE, STRETCH = Bound("lane"), Bound("stretch")
FEWEST_STEPS = 64  # of a lane: fewer are no faster
MOST_ELEMENTS = 2**12  # of the products of all lanes, which a step computes at once


class Segment(NamedTuple):
    """Consecutive steps as lanes of equal length."""

    first: int
    lanes: int
    length: int

    @property
    def steps(self) -> int:
        """The number of steps."""
        return self.lanes * self.length


def segments_of(length: int, spare: int, elements: int) -> tuple[Segment, ...]:
    """Cut steps into lanes, a remainder, and `spare` steps at the end; `elements` is the size of one product."""
    inside = length - spare
    lanes = max(1, min(inside // FEWEST_STEPS, MOST_ELEMENTS // max(1, elements)))
    main = Segment(0, lanes, inside // lanes)
    rest = Segment(main.steps, 1, inside - main.steps)
    return tuple(segment for segment in (main, rest, Segment(inside, 1, spare)) if segment.steps)


def cut_out(steps: Steps, segment: Segment) -> Steps:
    """The steps of a segment, over lanes and the time in each."""
    terms = tuple(_in_lanes(term, steps, segment) for term in steps.terms)
    return replace(steps, terms=terms, length=segment.length)


def _in_lanes(term: Factor, steps: Steps, segment: Segment) -> Factor:
    if steps.time not in term.inputs:
        return term
    cut = slices(term, steps.time)
    here = [data[segment.first : segment.first + segment.steps] for data in cut.stacked]
    lanes = [data.reshape(segment.lanes, segment.length, *data.shape[1:]) for data in here]

    def lane(*own: Data) -> Factor:
        return name_axis(jax.vmap(lambda *at_one_time: cut.at(at_one_time))(*own), steps.time)

    return name_axis(jax.vmap(lane)(*lanes), LANE)


def out_of_lanes(answers: Sequence[Factor], steps: Steps) -> Factor:
    """Factors over lanes and time, one for each segment, as one over time."""
    cuts = [_along_time(answer, steps) for answer in answers]
    joint = [jnp.concatenate(parts) for parts in zip(*(cut.stacked for cut in cuts), strict=True)]
    return name_axis(cuts[0].at(joint), steps.time)


def _along_time(answer: Factor, steps: Steps) -> Slices:
    """A factor over lanes and time, cut along both."""
    lanes, rebuilt = slices(answer, LANE), []

    def at_each(*own: Data) -> tuple[Data, ...]:
        steps_of_lane = slices(lanes.at(own), steps.time)
        rebuilt.append(steps_of_lane.at)
        return steps_of_lane.stacked

    stacked = jax.vmap(at_each)(*lanes.stacked)
    return Slices(tuple(data.reshape(-1, *data.shape[2:]) for data in stacked), rebuilt[0])


class Products(NamedTuple):
    """The products of the steps of lanes over their greatest weight, and the logarithms of that; lanes are in front.

    `at` makes the factor of one lane of its arrays; `layout` has the names of the logarithms behind the lane.
    """

    stacked: list[Data]
    logs: Data
    at: Any
    layout: CarryLayout

    def total(self, logs: Data, semiring: Semiring) -> Factor:
        """exp(logs) over the names that are no states."""
        return weighed(settled(embed(semiring, Unit({})), self.layout), logs)


def product_of(steps: Steps, segment: Segment, method: str) -> Products:
    """The product of the steps of each lane, from the state before to the state after."""
    here = cut_out(steps, segment)
    product = multiplied_in_pairs(here) if method == "parallel" else multiplied_through(here)
    states = {name: steps.domains[name] for name in (*steps.links.before, *steps.links.after)}
    layout = layout_of(steps.terms, (steps.time,), states, steps.semiring)
    others = {name: domain for name, domain in layout.batch if name not in states}
    in_lanes = replace(layout.over(LANE, Bint[segment.lanes]), homogeneous=False)  # the scale is taken out here
    light, logs = lightened(settled(product, in_lanes), tuple(states))
    cut = slices(settled(light, replace(in_lanes, homogeneous=layout.homogeneous)), LANE)
    rest = replace(layout_of([], (), others, steps.semiring), dtype=layout.dtype)
    return Products(list(cut.stacked), logs, cut.at, rest)
