"""Steps: the factors of one step for all times, and the product of neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

from fubini.base.arrays import Data
from fubini.base.domains import Domain
from fubini.base.names import Name
from fubini.base.semirings import Semiring, sum_product
from fubini.eliminate.ask import eliminate
from fubini.eliminate.forward import contract, embed, find_plan, forward, results
from fubini.eliminate.plan import Plan
from fubini.eliminate.prepare import problem_of
from fubini.factors.carry import CarryLayout, layout_of
from fubini.factors.fallbacks import combined
from fubini.factors.promotion import promoted
from fubini.factors.slices import Slices, slices
from fubini.sequence.links import Links
from fubini.terms.factor import Factor, Unit, terms_of


def joined(factors: Sequence[Factor], semiring: Semiring = sum_product) -> Factor:
    """The product of factors, already embedded, in one representation."""
    terms = [promoted(term) for factor in factors for term in terms_of(factor)]
    if semiring.homogeneous:
        return promoted(combined(terms))
    return reduce(lambda a, b: contract(semiring, [a, b], frozenset(a.inputs) | frozenset(b.inputs)), terms)


def summed(factors: Sequence[Factor], names: Sequence[Name], semiring: Semiring = sum_product) -> Factor:
    """⊕ over those of the names that the factors have, of their product, already embedded, in one representation."""
    terms = [term for factor in factors for term in terms_of(factor)]
    present = {name for term in terms for name in term.inputs}
    gone = [name for name in names if name in present]
    if not gone:
        return joined(terms, semiring)
    if any(term.pins for term in terms):
        return joined([eliminate(terms, gone, semiring=semiring)], semiring)
    plan = plan_of(terms, gone)
    return joined(results(plan, forward(plan, terms, semiring)), semiring)


def plan_of(factors: Sequence[Factor], gone: Sequence[Name]) -> Plan:
    """The plan of one step."""
    return find_plan(problem_of(list(factors), [(name, None) for name in gone]), True)


class TimeSlices(NamedTuple):
    """Terms cut along time: what a scan runs over, and the terms at one time."""

    slices: list[Slices]

    @property
    def stacked(self) -> list[tuple[Data, ...]]:
        """Arrays with time in front, for each term."""
        return [part.stacked for part in self.slices]

    def at(self, parts: Sequence[Sequence[Data]]) -> list[Factor]:
        """The terms at one time."""
        return [part.at(own) for part, own in zip(self.slices, parts, strict=True)]

    def step(self, number: int) -> list[Factor]:
        """The terms at a known time."""
        return self.at([[data[number] for data in own] for own in self.stacked])


@dataclass(frozen=True)
class Steps:
    """The factors of one step, for all times: terms that may depend on `time`, and how states are handed on."""

    terms: tuple[Factor, ...]
    time: Name
    length: int
    links: Links
    domains: Mapping[Name, Domain]
    semiring: Semiring
    drops_small: bool = False

    def cut(self) -> TimeSlices:
        """The terms cut along time."""
        return TimeSlices([slices(term, self.time) for term in self.terms])

    def layout(self, start: Sequence[Factor]) -> CarryLayout:
        """The layout of the carry between steps: the state before a step, and all else that a factor depends on."""
        states = {name: self.domains[name] for name in self.links.before}
        return layout_of([*start, *self.terms], (self.time, *self.links.newest), states, self.semiring)

    def summed(self, factors: Sequence[Factor], names: Sequence[Name]) -> Factor:
        """⊕ over those of the names that the factors have, of their product."""
        return summed(factors, names, self.semiring)

    def joined(self, factors: Sequence[Factor]) -> Factor:
        """The product of factors in one representation."""
        return joined(factors, self.semiring)


def prepared(terms: Sequence[Factor], semiring: Semiring) -> tuple[Factor, ...]:
    """Terms in representations, in the carrier of the semiring."""
    flat = [term for factor in terms for term in terms_of(factor)]
    embedded = [embed(semiring, term) for term in flat]
    return tuple(term for factor in embedded for term in terms_of(factor) if not isinstance(term, Unit))
