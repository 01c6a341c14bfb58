"""What is asked of a sequence, as functions of its steps: evidence, filter, smoother; its paths are in `chain_paths`.

Each runs inside one compiled function. The states after a step have the names after; time comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from fubini.base import lax_loops
from fubini.base.arrays import Data
from fubini.base.domains import Bint, Real
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.base.semirings import Semiring, sum_product
from fubini.eliminate.forward import read
from fubini.errors import EngineError, listed
from fubini.factors.carry import Advance, CarryLayout, lightened, settled
from fubini.factors.tally import Conversion, note, repeated, tallied
from fubini.numerics.in_range import if_in_range
from fubini.numerics.named_axes import align
from fubini.sequence.compiled import SequenceOutline
from fubini.sequence.recurrence import PairMoments, Recurrence, recurrence_of
from fubini.sequence.scan import (
    multiplied_in_pairs,
    multiplied_through,
    scanned,
    scanned_back,
    scanned_back_in_pairs,
    scanned_in_chunks,
    scanned_in_pairs,
    unnamed,
)
from fubini.sequence.steps import Steps, joined, prepared, summed
from fubini.terms.factor import Factor, rename, substitute
from fubini.terms.heads import CONDITION
from fubini.terms.name_axis import name_axis
from fubini.terms.value import Array

CHUNK = 1024


def whole(outline: SequenceOutline, terms: Sequence[Factor], semiring: Semiring = sum_product) -> Factor:
    """The bare product: over the states before the first step and after the last."""
    steps = outline.steps(terms, semiring)
    steps_product = multiplied_in_pairs(steps) if outline.method == "parallel" else multiplied_through(steps)
    return read(semiring, steps_product)


def through(
    outline: SequenceOutline, start: Sequence[Factor], terms: Sequence[Factor], semiring: Semiring = sum_product
) -> Factor:
    """Σ over the states before of start · steps: over the state after the last step."""
    steps, first = outline.steps(terms, semiring), joined(prepared(start, semiring), semiring)
    if outline.method == "parallel":
        return read(semiring, summed([first, multiplied_in_pairs(steps)], steps.links.before, semiring))
    if outline.method == "chunks":
        last = scanned_in_chunks(steps, first, min(CHUNK, steps.length))
    else:
        last = _visible(scanned(steps, first, False).last, steps, [first])
    return rename(read(semiring, last), steps.links.to_after)


def _visible(carry: Factor, steps: Steps, start: Sequence[Factor]) -> Factor:
    """A carry with its hidden indices summed out."""
    layout = steps.layout(start)
    return summed([layout.shown(carry)], tuple(layout.hidden), steps.semiring)


def evidence(outline: SequenceOutline, start: Sequence[Factor], terms: Sequence[Factor]) -> Factor:
    """Σ over all states, and what else is summed."""
    at_once = _at_once(outline, start, terms, lambda own, first, kernels: own.evidence(first, kernels))
    if at_once is not None:
        return summed([at_once], outline.globals, sum_product)
    last = through(outline, start, terms)
    return summed([last], outline.links.after + outline.globals, sum_product)


def _at_once(
    outline: SequenceOutline,
    start: Sequence[Factor],
    terms: Sequence[Factor],
    ask: Callable[[Recurrence, Factor, bool], Any],
) -> Any:
    """What a recurrence answers in one run, in order or by kernels; None where it has none for these factors.

    It is an error where kernels were asked for by name.
    """
    if not outline.kernels and outline.method != "sequential":
        return None
    steps, first = outline.steps(terms), joined(prepared(start, sum_product))
    own = recurrence_of(steps.layout([first]), steps)
    answer = None if own is None else ask(own, first, bool(outline.kernels))
    return require_served(answer, outline, steps)


def require_served(answer: Any, outline: SequenceOutline, steps: Steps) -> Any:
    """The answer; an error where there is none, and kernels were asked for by name."""
    if answer is None and outline.kernels == "asked":
        raise EngineError(
            f"the engine 'kernel' for steps of {listed([type(term).__name__ for term in steps.terms])}",
            expected="tables in single or double precision, in the start and in every step",
            advice="leave the engine to the data: without fb.engine(…) such steps are scanned",
        )
    return answer


def ended(outline: SequenceOutline, start: Sequence[Factor], terms: Sequence[Factor], kept: tuple[Name, ...]) -> Factor:
    """p(last state, and global variables | everything), as the state before a step; not summed over the latter."""
    last = rename(through(outline, start, terms), outline.links.to_before)
    gone = [name for name in outline.links.before if name not in kept and name in last.inputs]
    remaining = joined([last.sum(*gone)]) if gone else last
    return joined([remaining.normalize(*(name for name in remaining.inputs if name in (*kept, *outline.globals)))])


# -- every step -----------------------------------------------------------------------------------------------------


def pass_forward(steps: Steps, outline: SequenceOutline, start: Factor, step_by_step: bool = False) -> Factor:
    """The unnormalised density after each step, over time and the state before the next one."""
    if outline.method == "parallel":
        return scanned_in_pairs(steps, start)
    carries = scanned(steps, start, True, step_by_step).every
    assert carries is not None
    return carries


def finish(outline: SequenceOutline, factor: Factor, kept: Sequence[Name], layout: CarryLayout) -> Factor:
    """Normalise over the states kept; other states, hidden indices, and global variables are summed out."""
    factor = layout.shown(factor)
    states = (*outline.links.before, *outline.globals, *layout.hidden)
    if layout.homogeneous and not layout.projects:
        factor, _ = lightened(factor, states)  # of a long sequence the logarithms of weights are large
    gone = [name for name in states if name not in kept and name in factor.inputs]
    remaining = joined([factor.sum(*gone)]) if gone else factor
    return joined([remaining.normalize(*(name for name in remaining.inputs if name in kept))])


def filtered(
    outline: SequenceOutline, start: Sequence[Factor], terms: Sequence[Factor], kept: tuple[Name, ...]
) -> Factor:
    """p(state after step t | everything up to t)."""
    steps, first = outline.steps(terms), joined(start)
    finished = finish(outline, pass_forward(steps, outline, first), kept, steps.layout([first]))
    return rename(finished, outline.links.to_after)


def smoothed(
    outline: SequenceOutline, start: Sequence[Factor], terms: Sequence[Factor], kept: tuple[Name, ...]
) -> tuple[Factor, Factor]:
    """p(state after step t | everything), and of the state before the first step."""
    steps, first = outline.steps(terms), joined(start)
    layout = steps.layout([first])

    def generally(step_by_step: bool = False) -> tuple[Factor, Factor]:
        forward = pass_forward(steps, outline, first, step_by_step)
        later = scanned_back_in_pairs(steps) if outline.method == "parallel" else scanned_back(steps)
        after = joined([forward, at_times(later, steps.time, 1, steps.length)])
        return after, joined([first, substitute(later, {steps.time: time_index(0, steps.length + 1)})])

    def settled_in_order() -> tuple[Factor, Factor]:
        after, before = generally(step_by_step=True)
        return settled(after, layout.over(steps.time, Bint[steps.length])), settled(before, layout)

    found = _at_once(outline, start, terms, lambda own, first, kernels: own.smoothed(first, kernels))
    if found is None:
        after, before = generally()
    elif found.safe is None:
        after, before, _, scale = found
        if outline.globals and scale is not None:
            after, before = joined([after, scale]), joined([before, scale])
    else:
        after, before = if_in_range(found.safe, lambda: (found.after, found.first), settled_in_order)
    last = rename(finish(outline, after, kept, layout), outline.links.to_after)
    return last, finish(outline, before, kept, layout)


def time_index(at: int, size: int) -> Array:
    """One of so many times."""
    return Array._of(np.asarray(at), (), {}, Bint[size])


def at_times(factor: Factor, time: Name, first: int, count: int) -> Factor:
    """Select some of the times of a factor."""
    index = Array._of(np.arange(first, first + count), (time,), {time: Bint[count]}, factor.inputs[time])
    return substitute(factor, {time: index})


def smoothed_pairs(outline: SequenceOutline, start: Sequence[Factor], terms: Sequence[Factor]) -> Factor:
    """p(states before and after step t | everything)."""
    steps, first = outline.steps(terms), joined(start)
    layout = steps.layout([first])
    found = None
    if outline.kernels:
        own = recurrence_of(layout, steps)
        found = require_served(None if own is None else own.smoothed_pairs(first), outline, steps)
    return finish_pairs(outline, pairs_between(steps, outline, first) if found is None else found)


def pairs_between(steps: Steps, outline: SequenceOutline, first: Factor, end: Factor | None = None) -> Factor:
    """The weights of the states before and after each step, given what comes before the first and after the last."""
    layout = steps.layout([first])
    every = pass_forward(steps, outline, first)
    earlier = name_axis(earlier_carries(settled(first, layout), every, steps), steps.time)
    in_pairs = outline.method == "parallel" and end is None
    later = scanned_back_in_pairs(steps) if in_pairs else scanned_back(steps, end)
    after = rename(at_times(later, steps.time, 1, steps.length), steps.links.to_after)
    return joined([earlier, *steps.terms, after])


def finish_pairs(outline: SequenceOutline, pairs: Factor) -> Factor:
    """Normalise over the states before and after each step; global variables are summed out."""
    states = (*outline.links.before, *outline.links.after)
    pairs, _ = lightened(pairs, (*states, *outline.globals))
    gone = [name for name in outline.globals if name in pairs.inputs]
    remaining = joined([pairs.sum(*gone)]) if gone else pairs
    return joined([remaining.normalize(*(name for name in remaining.inputs if name in states))])


def pair_moments(outline: SequenceOutline, start: Sequence[Factor], terms: Sequence[Factor]) -> PairMoments:
    """Means and covariances of real states before and after each step given everything, and the evidence."""
    links, names = outline.links, moment_axes(outline, start, terms)

    def generally() -> PairMoments:
        pairs = smoothed_pairs(outline, start, terms)
        begin = summed([substitute(pairs, {outline.time: time_index(0, outline.length)})], links.after)
        first = moments_of(begin, links.before, names[1:])
        return PairMoments(
            evidence(outline, start, terms), first, *moments_of(pairs, links.before + links.after, names)
        )

    def ask(own: Recurrence, first: Factor, kernels: bool) -> PairMoments | None:
        found = own.pair_moments(first)
        if found is None:
            return None
        sizes = {outline.time: Bint[outline.length], **dict(outline.steps(terms).layout([first]).batch)}

        def named(data: Data, axes: tuple[Name, ...]) -> Array:
            return Array._of(data, axes, sizes, Real.with_shape(data.shape[len(axes) :]))

        first_moments = tuple(named(data, names[1:]) for data in found.first)
        return found._replace(
            first=first_moments, mean=named(found.mean, names), covariance=named(found.covariance, names)
        )

    found = _at_once(replace(outline, kernels=""), start, terms, ask)
    if found is None:
        return generally()
    return if_in_range(found.safe, lambda: found._replace(safe=None), generally)


def moment_axes(outline: SequenceOutline, start: Sequence[Factor], terms: Sequence[Factor]) -> tuple[Name, ...]:
    """Time, and the names of the factors that are no states, as the layout of a carry has them."""
    return outline.time, *(name for name, _ in outline.steps(terms).layout([joined(start)]).batch)


def moments_of(factor: Factor, states: Sequence[Name], names: Sequence[Name]) -> tuple[Array, Array]:
    """Mean and covariance of states, over names in this order."""
    normal: Any = factor  # its states are real
    known, sizes = normal.conditional(*states), {name: factor.inputs[name] for name in names}
    shape, size = tuple(domain.extent for domain in sizes.values()), known.mean.shape[-1]
    mean = jnp.broadcast_to(align(known.mean, known.mean_names, names, 1), (*shape, size))
    covariance = jnp.broadcast_to(align(known.covariance, known.names, names, 2), (*shape, size, size))
    axes = tuple(names)
    return Array._of(mean, axes, sizes, Real[size]), Array._of(covariance, axes, sizes, Real[size, size])


def earlier_carries(first: Factor, every: Factor | None, steps: Steps) -> Factor:
    """The carries before each step, without a name for time."""
    assert every is not None
    leaves = zip(first.leaves(), unnamed(every, steps.time).leaves(), strict=True)
    return first.rebuilt(iter([jnp.concatenate([begin[None], many[:-1]]) for begin, many in leaves]))


# -- by division ----------------------------------------------------------------------------------------------------


def smoothed_by_division(
    outline: SequenceOutline, start: Sequence[Factor], terms: Sequence[Factor], kept: tuple[Name, ...]
) -> tuple[Factor, Factor, Data | None]:
    """p(x | everything) = Σ_x′ f(x) s(x, x′) p(x′ | everything) / f′(x′), f and f′ being the filter before and after.

    Exact factors are multiplied first; then the representation of the states decides what it keeps of their product,
    and which quotients it replaces: these are counted.
    """
    steps, begin = outline.steps(terms), joined(start)
    layout = steps.layout([begin])
    first, last, every, links = scanned(steps, begin, True)
    assert every is not None
    cut = steps.cut()
    each: list[Conversion] = []

    def body(later: Factor, given: tuple) -> tuple[Factor, tuple[Factor, Data | None]]:
        carry, after, parts = given
        with tallied() as tally:
            now = layout.retreat(steps, carry, cut.at(parts), after, later)
        each[:] = tally.conversions
        return now, (later, tally.total_replaced())

    xs = (earlier_carries(first, every, steps), Advance(unnamed(every, steps.time), links), cut.stacked)
    before, (smooth, replaced) = lax_loops.scan(body, last, xs, reverse=True)
    note(repeated(each, "each step back", steps.length))
    finished = finish(outline, name_axis(smooth, steps.time), kept, layout)
    count = None if replaced is None else jnp.sum(replaced)
    return rename(finished, outline.links.to_after), finish(outline, before, kept, layout), count


# -- with a projection ----------------------------------------------------------------------------------------------


def smoothed_by_kernels(
    outline: SequenceOutline, start: Sequence[Factor], terms: Sequence[Factor], kept: tuple[Name, ...]
) -> tuple[Factor, Factor]:
    """Smooth as `smoothed` does, where a projection follows every sum.

    Each step's joint is split into what came before given what came after, and what came after. The real states given
    everything; the discrete ones given the discrete ones, by their mass (Kim 1994, eq. 2.20).
    """
    steps, begin = outline.steps(terms), joined(start)
    layout = steps.layout([begin])
    first, last, every, _ = scanned(steps, begin, True)
    earlier = earlier_carries(first, every, steps)
    cut = steps.cut()

    each: list[Conversion] = []

    def body(later: Factor, given: tuple) -> tuple[Factor, Factor]:
        carry, parts = given
        with tallied() as tally:
            joint = joined([carry, *cut.at(parts)])
            oldest = tuple(name for name in steps.links.oldest if name in joint.inputs)
            kernel = interpret(CONDITION, joint, oldest)
            now = summed([*kernel, rename(later, steps.links.moves_back)], steps.links.newest, sum_product)
            now = settled(now, layout)
        each[:] = tally.conversions
        return now, later

    before, after = lax_loops.scan(body, last, (earlier, cut.stacked), reverse=True)
    note(repeated(each, "each step back", steps.length))
    finished = finish(outline, name_axis(after, steps.time), kept, layout)
    return rename(finished, outline.links.to_after), finish(outline, before, kept, layout)
