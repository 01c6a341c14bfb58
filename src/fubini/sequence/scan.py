"""The three ways through a sequence: one step after another, pairs of steps at once, and chunks of pairs.

All of them multiply neighbouring factors and sum the states between them; what the factors are, their rules say. Chains
with a recurrence of their own go by that, and once more in the general way where its numbers might be out of range.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base import lax_loops
from fubini.base.arrays import Data
from fubini.base.domains import Bint
from fubini.base.names import Bound, Name
from fubini.base.semirings import Semiring
from fubini.eliminate.forward import embed
from fubini.factors.carry import CarryLayout, layout_of, lightened, settled, weighed
from fubini.factors.indicators import is_equal
from fubini.factors.slices import slices
from fubini.factors.tally import Conversion, note, note_draws, repeated, tallied
from fubini.numerics.contraction import log_space_alone
from fubini.numerics.in_range import if_in_range
from fubini.numerics.named_axes import align
from fubini.sequence.links import Links
from fubini.sequence.recurrence import Recurrence, Turn, backwards, forwards, recurrence_of
from fubini.sequence.steps import Steps, joined, summed
from fubini.terms.factor import Factor, Unit, rename, substitute
from fubini.terms.name_axis import name_axis
from fubini.terms.value import Array

PLACE = Bound("t")  # the place of an element among those combined at once


# -- one step after another -----------------------------------------------------------------------------------------


class Scanned(NamedTuple):
    """The carry before the first step and after the last; if they are kept, those after every step, over time, and the
    links of each step (see `Advance`), with time in front."""

    first: Factor
    last: Factor
    every: Factor | None
    links: Data | None = None


def scanned(steps: Steps, start: Factor, keep: bool, step_by_step: bool = False) -> Scanned:
    """One step after another, from a start that need not be in their layout; `step_by_step` without a recurrence."""
    layout = steps.layout([start])
    keys = layout.keys(steps.length + 1)
    with tallied() as begun:
        first = layout.begin(start, None if keys is None else keys[0])
        if keys is not None:
            note_draws(first)
    note(repeated(begun.conversions, "before the first step"))
    names = (*steps.links.before, *layout.hidden)

    def generally() -> tuple[Factor, Factor | None, Data | None]:
        cut = steps.cut()
        each: list[Conversion] = []

        def body(carry: Factor, given: Any) -> tuple[Factor, tuple]:
            parts, key = given
            with tallied() as tally:
                after, link = layout.advance(steps, carry, cut.at(parts), key)
                if keys is not None:
                    note_draws(after)
            each[:] = tally.conversions
            if not layout.homogeneous:
                return after, (after if keep else None, None, None)
            after, log = lightened(after, names)
            return after, (after if keep else None, log, link if keep else None)

        xs = (cut.stacked, None if keys is None else keys[1:])
        last, (every, logs, links) = lax_loops.scan(body, first, xs, length=steps.length)
        note(repeated(each, "each step", steps.length))
        return *_weighed(steps, layout, last, every, logs), links

    own = None if step_by_step else recurrence_of(layout, steps)
    if own is None:
        return Scanned(first, *generally())
    turn = forwards(steps.links)
    return Scanned(first, *_recurred(own, steps, first, turn, keep, lambda: generally()[:2]))


def _weighed(
    steps: Steps, layout: CarryLayout, last: Factor, every: Factor | None, logs: Data | None
) -> tuple[Factor, Factor | None]:
    """Carries times what was taken out of them on the way."""
    named = None if every is None else name_axis(every, steps.time)
    if logs is None:
        return last, named
    order = tuple(name for name, _ in layout.batch)
    rest = tuple(name for name in order if name not in (*steps.links.before, *layout.hidden))
    total = align(jnp.sum(logs, axis=0), rest, order)
    if named is None:
        return weighed(last, total), None
    running = align(jnp.cumsum(logs, axis=0), (steps.time, *rest), (steps.time, *order))
    return weighed(last, total), weighed(named, running)


def scanned_back(steps: Steps, end: Factor | None = None) -> Factor:
    """The density of the steps after each time given the state there: over `time`, as the state before the next step.

    The last is 1, or `end`; the one before the first step comes first, so that there is one more than there are steps.
    """
    layout = steps.layout([] if end is None else [end])
    last = settled(embed(steps.semiring, Unit({})) if end is None else end, layout)

    def generally() -> tuple[Factor, Factor | None]:
        cut = steps.cut()

        def body(later: Factor, parts: Any) -> tuple[Factor, Factor]:
            now = summed([rename(later, steps.links.moves_back), *cut.at(parts)], steps.links.newest, steps.semiring)
            now = settled(now, layout)
            return now, now

        begin, before = lax_loops.scan(body, last, cut.stacked, length=steps.length, reverse=True)
        return begin, name_axis(before, steps.time)

    own = recurrence_of(layout, steps)
    turn = backwards(steps.links)
    _, every = generally() if own is None else _recurred(own, steps, last, turn, True, generally)
    assert every is not None
    return joined_along(steps.time, every, last)


def _recurred(
    own: Recurrence, steps: Steps, start: Factor, turn: Turn, keep: bool, generally: Callable
) -> tuple[Factor, Factor | None]:
    """The last carry and, if they are kept, those after every step; the general way where that is out of range."""
    found = own.in_order(start, turn, keep)
    if found is None:
        return generally()
    last, every, safe = found

    def otherwise() -> tuple[Factor, Factor | None]:
        with log_space_alone():
            return generally()

    if steps.drops_small:
        return last, every
    return if_in_range(safe, lambda: (last, every), otherwise)


def joined_along(time: Name, many: Factor, last: Factor) -> Factor:
    """A settled factor over time with one more at its end."""
    leaves = zip(unnamed(many, time).leaves(), last.leaves(), strict=True)
    return name_axis(last.rebuilt(iter([jnp.concatenate([data, end[None]]) for data, end in leaves])), time)


def unnamed(factor: Factor, time: Name) -> Factor:
    """A settled factor whose first axis has no name, as a scan hands it out."""
    cut = slices(factor, time)
    return cut.at(cut.stacked)


def within(steps: Steps, first: int, count: int) -> Steps:
    """Select some of the steps."""
    index = Array._of(np.arange(first, first + count), (steps.time,), {steps.time: Bint[count]}, Bint[steps.length])
    terms = tuple(substitute(term, {steps.time: index}) for term in steps.terms)
    return replace(steps, terms=terms, length=count)


# -- from the first state to the last -------------------------------------------------------------------------------


def unrolled(steps: Steps, terms_at: Callable[[int], Sequence[Factor]], count: int) -> Factor:
    """The product of a few steps, from the state before the first to the state after the last, both kept.

    The states before keep their names; those after are called as after a step.
    """
    links, factors, inner = steps.links, [], []
    now: dict[Name, Name] = {name: name for name in links.before}
    for step in range(count):
        fresh: dict[Name, Name] = {new: Bound(f"{new} {step}") for new in links.newest}
        factors.extend(rename(term, {**now, **fresh}) for term in terms_at(step))
        inner.extend(fresh.values())
        now = {before: {**now, **fresh}[name] for name, before in links.moves.items()}
    last = {now[before]: after for before, after in links.to_after.items()}
    kept = set(last) | set(links.before)
    whole = summed(factors, [name for name in inner if name not in kept], steps.semiring)
    return rename(whole, {name: after for name, after in last.items() if name not in links.before})


def multiplied_through(steps: Steps) -> Factor:
    """The product of all steps in order: a function of the states before the first and after the last."""
    lag = steps.links.lag
    count = min(lag, steps.length)
    start = unrolled(steps, steps.cut().step, count)
    if steps.length <= lag:
        return joined([start, *identities(steps, count)], steps.semiring)
    own = recurrence_of(steps.layout([]), steps) if lag == 1 else None
    if own is not None and (products := own.product_in_order()) is not None:
        product, safe = products
        order = replace(layout_of([product], (), {}, steps.semiring), homogeneous=False)  # the scale stays apart

        def carefully() -> Factor:
            with log_space_alone():
                return settled(_continued(within(steps, count, steps.length - count), start), order)

        return if_in_range(safe, lambda: settled(product, order), carefully)
    return _continued(within(steps, count, steps.length - count), start)


def _continued(steps: Steps, whole: Factor) -> Factor:
    """The steps, from what came before them."""
    origin: dict[Name, Name] = {name: Bound(name) for name in steps.links.before}
    last = scanned(steps, rename(whole, {**origin, **steps.links.to_before}), False).last
    return rename(last, {**steps.links.to_after, **{fresh: name for name, fresh in origin.items()}})


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
    same = is_equal(before, after, domain)
    return embed(steps.semiring, same) if domain.is_finite else same


# -- pairs of steps at once -----------------------------------------------------------------------------------------


class Elements(NamedTuple):
    """Factors from before to after, one for each place, ready to be combined."""

    stacked: tuple[Data, ...]
    at: Callable[[Sequence[Data]], Factor]
    layout: CarryLayout
    links: Links
    semiring: Semiring

    def factor(self, stacked: Sequence[Data] | None = None) -> Factor:
        """All of them as one factor over the places."""
        return name_axis(self.at(self.stacked if stacked is None else stacked), PLACE)

    def combined(self, left: Sequence[Data], right: Sequence[Data]) -> tuple[Data, ...]:
        """Left then right: the state between them summed out."""
        if not left[0].shape[0]:  # associative_scan asks for the pairs of nothing too
            return tuple(left)
        middle: dict[Name, Name] = {name: Bound(name) for name in self.links.before}
        to_middle = {after: middle[before] for before, after in self.links.to_after.items()}
        parts = [rename(self.factor(left), to_middle), rename(self.factor(right), middle)]
        product = summed(parts, tuple(middle.values()), self.semiring)
        whole = settled(product, self.layout.over(PLACE, Bint[left[0].shape[0]]))
        return slices(whole, PLACE).stacked


def elements(steps: Steps) -> Elements:
    """Blocks of as many steps as there are lags, over places; steps that do not fill a block are omitted."""
    lag = steps.links.lag
    count = steps.length // lag
    place = Bint[count]

    def terms_at(step: int) -> list[Factor]:
        if lag == 1:
            return [rename(term, {steps.time: PLACE}) for term in steps.terms]
        index = Array._of(np.arange(count) * lag + step, (PLACE,), {PLACE: place}, Bint[steps.length])
        return [substitute(term, {steps.time: index}) for term in steps.terms]

    block = unrolled(steps, terms_at, lag)
    states = {name: steps.domains[name] for name in steps.links.before + steps.links.after}
    layout = layout_of([block], (PLACE,), states, steps.semiring)
    cut = slices(settled(block, layout.over(PLACE, place)), PLACE)
    return Elements(cut.stacked, cut.at, layout, steps.links, steps.semiring)


def halved(blocks: Elements) -> Factor:
    """The product of all elements in order, neighbours first, then neighbours of those."""
    stacked = blocks.stacked
    while stacked[0].shape[0] > 1:
        half = stacked[0].shape[0] // 2
        even, odd = ([data[start : 2 * half : 2] for data in stacked] for start in (0, 1))
        made = blocks.combined(even, odd)
        stacked = tuple(jnp.concatenate([new, old[2 * half :]]) for new, old in zip(made, stacked, strict=True))
    return blocks.at([data[0] for data in stacked])


def multiplied_in_pairs(steps: Steps) -> Factor:
    """The product of all steps, by halving; the few that do not fill a block come after."""
    lag = steps.links.lag
    if steps.length < lag:
        return multiplied_through(steps)
    layout = steps.layout([])
    own = recurrence_of(layout, steps) if lag == 1 else None
    if own is not None and (products := own.product()) is not None:
        product, safe = products
        order = replace(layout, batch=tuple(product.inputs.items()))
        return if_in_range(safe, lambda: product, lambda: settled(multiplied_through(steps), order))
    whole = halved(elements(steps))
    rest = steps.length % lag
    return _continued(within(steps, steps.length - rest, rest), whole) if rest else whole


def scanned_in_pairs(steps: Steps, start: Factor) -> Factor:
    """Return every carry of `scanned` from the products of the first steps, all of them at once."""
    layout = steps.layout([start])
    over_time = layout.over(steps.time, Bint[steps.length])

    def started(products: Factor) -> Factor:
        return settled(
            rename(summed([start, products], steps.links.before, steps.semiring), steps.links.to_before), over_time
        )

    own = recurrence_of(layout, steps)
    running = None if own is None else own.running(reverse=False)
    if running is None:
        blocks = elements(steps)
        every = blocks.factor(jax.lax.associative_scan(blocks.combined, blocks.stacked))
        return started(rename(every, {PLACE: steps.time}))
    products, safe = running
    fast = started(products)
    return if_in_range(safe, lambda: fast, lambda: settled(scanned(steps, start, True).every, over_time))  # type: ignore[arg-type]


def scanned_back_in_pairs(steps: Steps) -> Factor:
    """Return the carries of `scanned_back` from the products of the last steps, all of them at once."""
    layout = steps.layout([])
    over_time = layout.over(steps.time, Bint[steps.length])
    last = settled(embed(steps.semiring, Unit({})), layout)

    def ended(products: Factor) -> Factor:
        made = settled(summed([products], steps.links.after, steps.semiring), over_time)
        return joined_along(steps.time, made, last)

    own = recurrence_of(layout, steps)
    running = None if own is None else own.running(reverse=True)
    if running is None:
        blocks = elements(steps)
        swapped = jax.lax.associative_scan(lambda a, b: blocks.combined(b, a), blocks.stacked, reverse=True)
        return ended(rename(blocks.factor(swapped), {PLACE: steps.time}))
    products, safe = running
    fast = ended(products)
    return if_in_range(safe, lambda: fast, lambda: scanned_back(steps))


# -- chunks ---------------------------------------------------------------------------------------------------------


def scanned_in_chunks(steps: Steps, start: Factor, size: int) -> Factor:
    """The carry after the last step: chunks one after another, the steps of a chunk in pairs."""
    count = steps.length // size
    rest = steps.length - count * size
    if rest:
        start = scanned(within(steps, 0, rest), start, False).last
        steps = within(steps, rest, count * size)
    layout = steps.layout([start])

    moving = [unnamed(_over_time(term, steps), steps.time) for term in steps.terms if steps.time in term.inputs]
    fixed = [term for term in steps.terms if steps.time not in term.inputs]

    @jax.checkpoint
    def body(carry: Factor, parts: Sequence[Factor]) -> tuple[Factor, None]:
        terms = (*fixed, *(name_axis(part, steps.time) for part in parts))
        chunk = multiplied_in_pairs(replace(steps, terms=terms, length=size))
        after = summed([carry, chunk], steps.links.before, steps.semiring)
        return settled(rename(after, steps.links.to_before), layout), None

    chunks = jax.tree.map(lambda data: data.reshape(count, size, *data.shape[1:]), moving)
    last, _ = lax_loops.scan(body, settled(start, layout), chunks, length=count)
    return last


def _over_time(term: Factor, steps: Steps) -> Factor:
    """A term all of whose numbers are there for each time, time in front."""
    layout = layout_of([term], (steps.time,), {}, steps.semiring)
    return settled(term, layout.over(steps.time, Bint[steps.length]))
