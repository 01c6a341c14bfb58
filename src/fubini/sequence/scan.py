"""The three ways through a sequence: one step after another, pairs of steps at once, and chunks of pairs.

All of them multiply neighbouring factors and sum the states between them; what the factors are, their rules say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fubini.arrays import Data
from fubini.domains import Bint, Domain
from fubini.eliminate.ask import eliminate, problem_of
from fubini.eliminate.run import contract, embed, find_plan, forward, results
from fubini.factors.delta import Delta
from fubini.factors.fallbacks import combined
from fubini.factors.promotion import promoted
from fubini.factors.table import Table
from fubini.semirings import Semiring, sum_product
from fubini.sequence.carry import Layout, layout_of, renamed, settled
from fubini.sequence.links import Links
from fubini.sequence.slices import Slices, slices
from fubini.terms.factor import Factor, Unit, substitute, terms_of
from fubini.terms.name_axis import name_axis
from fubini.terms.term import Bound, Name
from fubini.terms.value import Array, Variable

PLACE = Bound("t")  # the place of an element among those combined at once


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
    plan = find_plan(problem_of(terms, [(name, None) for name in gone]), True)
    return joined(results(plan, forward(plan, terms, semiring)), semiring)


@dataclass(frozen=True)
class Steps:
    """The factors of one step, for all times: terms that may depend on `time`, and how states are handed on."""

    terms: tuple[Factor, ...]
    time: Name
    length: int
    links: Links
    domains: Mapping[Name, Domain]
    semiring: Semiring

    @cached_property
    def cut(self) -> list[Slices]:
        """The terms cut along time."""
        return [slices(term, self.time) for term in self.terms]

    @property
    def stacked(self) -> list[tuple[Data, ...]]:
        """What a scan runs over."""
        return [cut.stacked for cut in self.cut]

    def at(self, parts: Sequence[Sequence[Data]]) -> list[Factor]:
        """The terms at one time."""
        return [cut.at(own) for cut, own in zip(self.cut, parts, strict=True)]

    def chosen(self, choose: Callable[[Data], Data]) -> list[list[Data]]:
        """Some of the times: the stacked arrays, indexed."""
        return [[choose(data) for data in own] for own in self.stacked]

    def layout(self, start: Sequence[Factor]) -> Layout:
        """What one step hands on to the next: the state before it, and all else that a factor depends on."""
        states = {name: self.domains[name] for name in self.links.before}
        return layout_of([*start, *self.terms], (self.time, *self.links.newest), states, self.semiring)

    def advanced(self, carry: Factor, terms: Sequence[Factor], layout: Layout) -> Factor:
        """One step: the product, the oldest states summed out, and what is left called as before it."""
        after = summed([carry, *terms], self.links.oldest, self.semiring)
        return settled(renamed(after, self.links.moves), layout)


def prepared(terms: Sequence[Factor], semiring: Semiring) -> tuple[Factor, ...]:
    """Terms in representations, in the carrier of the semiring."""
    flat = [term for factor in terms for term in terms_of(factor)]
    embedded = [embed(semiring, term) for term in flat]
    return tuple(term for factor in embedded for term in terms_of(factor) if not isinstance(term, Unit))


# -- one step after another -----------------------------------------------------------------------------------------


def scanned(steps: Steps, start: Factor, keep: bool, first: int = 0) -> tuple[Factor, Any]:
    """The carry after the last step, and, if they are kept, the carries after every step from `first` on."""
    layout = steps.layout([start])

    def body(carry: Factor, parts: Any) -> tuple[Factor, Any]:
        after = steps.advanced(carry, steps.at(parts), layout)
        return after, after if keep else None

    times = steps.chosen(lambda data: data[first:])
    return jax.lax.scan(body, settled(start, layout), times, length=steps.length - first)


def unrolled(steps: Steps, terms_at: Callable[[int], Sequence[Factor]], count: int) -> Factor:
    """The product of a few steps, from the state before the first to the state after the last, both kept.

    The states before keep their names; those after are called as after a step.
    """
    links, factors, inner = steps.links, [], []
    now: dict[Name, Name] = {name: name for name in links.before}
    for step in range(count):
        fresh: dict[Name, Name] = {new: Bound(f"{new} {step}") for new in links.newest}
        factors.extend(renamed(term, {**now, **fresh}) for term in terms_at(step))
        inner.extend(fresh.values())
        now = {before: {**now, **fresh}[name] for name, before in links.moves.items()}
    last = {now[before]: after for before, after in links.to_after.items()}
    kept = set(last) | set(links.before)
    whole = summed(factors, [name for name in inner if name not in kept], steps.semiring)
    return renamed(whole, {name: after for name, after in last.items() if name not in links.before})


def first_steps(steps: Steps, count: int) -> Factor:
    """The product of the first few steps."""
    return unrolled(steps, lambda step: steps.at(steps.chosen(lambda data: data[step])), count)


def multiplied_through(steps: Steps) -> Factor:
    """The product of all steps in order: a function of the states before the first and after the last."""
    count = min(steps.links.lag, steps.length)
    start = first_steps(steps, count)
    if steps.length <= steps.links.lag:
        return joined([start, *identities(steps, count)], steps.semiring)
    origin: dict[Name, Name] = {name: Bound(name) for name in steps.links.before}
    back = {after: before for before, after in steps.links.to_after.items()}
    last, _ = scanned(steps, renamed(start, {**origin, **back}), False, count)
    return renamed(last, {**steps.links.to_after, **{fresh: name for name, fresh in origin.items()}})


def identities(steps: Steps, count: int) -> list[Factor]:
    """[after = before] for states that fewer steps than they have lags leave what they were."""
    same = []
    for link in steps.links.chains:
        for place, after in enumerate(link.after):
            if place + count < len(link.before):
                same.append(_identity(link.before[place + count], after, steps))
    return same


def _identity(before: Name, after: Name, steps: Steps) -> Factor:
    domain = steps.domains[after]
    if domain.is_finite:
        return embed(steps.semiring, Table(np.eye(domain.extent), {before: domain, after: domain}))
    return Delta({after: Variable(before, domain)})


# -- pairs of steps at once -----------------------------------------------------------------------------------------


class Elements(NamedTuple):
    """Factors from before to after, one for each place, ready to be combined."""

    stacked: tuple[Data, ...]
    at: Callable[[Sequence[Data]], Factor]
    layout: Layout
    links: Links
    semiring: Semiring

    def factor(self, stacked: Sequence[Data] | None = None) -> Factor:
        """All of them as one factor over the places."""
        return name_axis(self.at(self.stacked if stacked is None else stacked), PLACE)

    def combined(self, left: Sequence[Data], right: Sequence[Data]) -> tuple[Data, ...]:
        """Left then right: the state between them summed out."""
        middle: dict[Name, Name] = {name: Bound(name) for name in self.links.before}
        to_middle = {after: middle[before] for before, after in self.links.to_after.items()}
        parts = [renamed(self.factor(left), to_middle), renamed(self.factor(right), middle)]
        found = summed(parts, tuple(middle.values()), self.semiring)
        whole = settled(found, self.layout.over(PLACE, Bint[left[0].shape[0]]))
        return slices(whole, PLACE).stacked


def elements(steps: Steps, first: int = 0) -> Elements:
    """Blocks of as many steps as there are lags, over places."""
    lag = steps.links.lag
    count = (steps.length - first) // lag
    place = Bint[count]

    def terms_at(step: int) -> list[Factor]:
        if lag == 1 and first == 0:
            return [renamed(term, {steps.time: PLACE}) for term in steps.terms]
        index = Array._of(np.arange(count) * lag + step + first, (PLACE,), {PLACE: place}, Bint[steps.length])
        return [substitute(term, {steps.time: index}) for term in steps.terms]

    block = unrolled(steps, terms_at, lag)
    states = {name: steps.domains[name] for name in steps.links.before + steps.links.after}
    layout = layout_of([block], (PLACE,), states, steps.semiring)
    whole = settled(block, layout.over(PLACE, place))
    cut = slices(whole, PLACE)
    return Elements(cut.stacked, cut.at, layout, steps.links, steps.semiring)


def halved(found: Elements) -> Factor:
    """The product of all elements in order, neighbours first, then neighbours of those."""
    stacked = found.stacked
    while stacked[0].shape[0] > 1:
        half = stacked[0].shape[0] // 2
        pairs = found.combined([data[0 : 2 * half : 2] for data in stacked], [data[1 : 2 * half : 2] for data in stacked])
        stacked = tuple(jnp.concatenate([new, old[2 * half :]]) for new, old in zip(pairs, stacked, strict=True))
    return found.at([data[0] for data in stacked])


def multiplied_in_pairs(steps: Steps) -> Factor:
    """The product of all steps, by halving; the few that do not fill a block come after."""
    lag = steps.links.lag
    if steps.length < lag:
        return multiplied_through(steps)
    whole = halved(elements(steps))
    rest = steps.length % lag
    return _continued(steps, whole, range(steps.length - rest, steps.length)) if rest else whole


def _continued(steps: Steps, whole: Factor, times: range) -> Factor:
    """A few steps more."""
    origin: dict[Name, Name] = {name: Bound(name) for name in steps.links.before}
    back = {after: before for before, after in steps.links.to_after.items()}
    carry = renamed(whole, {**origin, **back})
    for time in times:
        terms = steps.at(steps.chosen(lambda data, time=time: data[time]))
        carry = renamed(summed([carry, *terms], steps.links.oldest, steps.semiring), steps.links.moves)
    return renamed(carry, {**steps.links.to_after, **{fresh: name for name, fresh in origin.items()}})


def prefixes(found: Elements) -> Factor:
    """The products of the first k elements, for every k, over places."""
    return found.factor(jax.lax.associative_scan(found.combined, found.stacked))


def suffixes(found: Elements) -> Factor:
    """The products of the elements from k on, for every k, over places."""
    return found.factor(jax.lax.associative_scan(lambda a, b: found.combined(b, a), found.stacked, reverse=True))


# -- chunks ---------------------------------------------------------------------------------------------------------


def scanned_in_chunks(steps: Steps, start: Factor, size: int) -> Factor:
    """The carry after the last step: chunks one after another, the steps of a chunk by halving."""
    count = steps.length // size
    rest = steps.length - count * size
    if rest:
        head = replace(steps, terms=_up_to(steps, rest), length=rest)
        start, _ = scanned(head, start, False)
    layout = steps.layout([start])
    found = elements(steps, rest)
    chunks = [data.reshape(count, size, *data.shape[1:]) for data in found.stacked]

    @jax.checkpoint
    def body(carry: Factor, stacked: Sequence[Data]) -> tuple[Factor, None]:
        chunk = halved(found._replace(stacked=tuple(stacked)))
        after = summed([carry, chunk], steps.links.before, steps.semiring)
        back = {after: before for before, after in steps.links.to_after.items()}
        return settled(renamed(after, back), layout), None

    last, _ = jax.lax.scan(body, settled(start, layout), tuple(chunks))
    return last


def _up_to(steps: Steps, count: int) -> tuple[Factor, ...]:
    index = Array._of(np.arange(count), (steps.time,), {steps.time: Bint[count]}, Bint[steps.length])
    return tuple(substitute(term, {steps.time: index}) for term in steps.terms)


# -- backwards ------------------------------------------------------------------------------------------------------


def scanned_back(steps: Steps) -> Factor:
    """What the steps after each time make of the state there: over `time`, as the state before the next step.

    The last is 1; the one before the first step comes first, so that there is one more than there are steps.
    """
    layout = steps.layout([])
    forth = {before: name for name, before in steps.links.moves.items()}

    def body(later: Factor, parts: Any) -> tuple[Factor, Factor]:
        now = summed([renamed(later, forth), *steps.at(parts)], steps.links.newest, steps.semiring)
        now = settled(now, layout)
        return now, now

    last = settled(embed(steps.semiring, Table(np.ones(()))), layout)
    _, before = jax.lax.scan(body, last, steps.chosen(lambda data: data), length=steps.length, reverse=True)
    stacked = jax.tree.map(lambda many, end: jnp.concatenate([many, end[None]]), before, last)
    return name_axis(stacked, steps.time)
