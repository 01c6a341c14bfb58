"""One value for each state of a sequence together: the best path, and draws, the last state first.

Each runs inside one compiled function. The states after a step have the names after.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fubini.base import lax_loops
from fubini.base.arrays import Data
from fubini.base.domains import Bint, Domain
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.base.semirings import max_product
from fubini.errors import Intractable
from fubini.factors.carry import CarryLayout, filled
from fubini.factors.represent import represented
from fubini.numerics.in_range import if_in_range
from fubini.numerics.randomness import SAMPLES, Randomness
from fubini.sequence.chain_questions import earlier_carries, require_served
from fubini.sequence.compiled import SequenceOutline
from fubini.sequence.recurrence import Descent, recurrence_of
from fubini.sequence.scan import scanned
from fubini.sequence.steps import Steps, joined
from fubini.terms.factor import Factor, substitute
from fubini.terms.heads import CHOOSE, DRAW
from fubini.terms.value import Array

Choose = Callable[[Factor, tuple[Name, ...]], Mapping[Name, Array]]


class PathQuestion(NamedTuple):
    """The states of a sequence that are asked for, and how they are chosen: with keys and n draws, or the best.

    `ends` are the last states where these are known, and `given` values of other names that carries depend on.
    """

    steps: Steps
    start: Factor
    choose_at: Callable[[Any], Choose]
    keys: tuple
    globals: tuple[Name, ...]
    n: int | None
    ends: Mapping[Name, Array] | None = None
    given: Mapping[Name, Array] = {}

    @property
    def layout(self) -> CarryLayout:
        """The layout of carries."""
        return self.steps.layout([self.start])

    @property
    def fixed(self) -> dict[Name, Domain]:
        """What each value is chosen for: draws, and all names that are not chosen themselves."""
        layout = self.layout
        states = (*self.steps.links.before, *self.globals, *layout.hidden, *self.given)
        others = {name: domain for name, domain in layout.batch if name not in states}
        return others if self.n is None else {SAMPLES: Bint[self.n], **others}

    def last(self, end: Factor) -> dict[Name, Data]:
        """The values chosen last in time, first in order, from the weights there."""
        if self.ends is not None:
            return self.full(self.ends)
        layout = self.layout
        names = (*self.steps.links.before, *self.globals, *layout.hidden)
        chosen = self.choose_at(self.keys[0])(end, tuple(name for name in names if name in end.inputs))
        return self.full(_shown(chosen, layout))

    def full(self, values: Mapping[Name, Array]) -> dict[Name, Data]:
        """Values for each cell that they are chosen for."""
        return {name: filled(value, self.fixed) for name, value in values.items()}

    def answer(self, initial: Sequence[Data], path: Sequence[Data], shared: Sequence[Data]) -> dict[str, Array]:
        """The states before the first step, those after each step with time in front, and global variables."""
        steps, fixed, lead = self.steps, self.fixed, 0 if self.n is None else 1
        path = [jnp.moveaxis(value, 0, lead) for value in path]
        names = tuple(fixed)
        in_time = (*names[:lead], steps.time, *names[lead:])
        sizes: dict[Name, Domain] = {**fixed, steps.time: Bint[steps.length]}

        def named(asked: Sequence[Name], values: Sequence[Data], axes: tuple[Name, ...]) -> dict[str, Array]:
            pairs = zip(asked, values, strict=True)
            return {key_of(name): Array._of(value, axes, sizes, self.domains[name]) for name, value in pairs}

        ends = {**named(steps.links.before, initial, names), **named(self.globals, shared, names)}
        return {**ends, **named(steps.links.newest, path, in_time)}

    @property
    def domains(self) -> dict[Name, Domain]:
        """The domains of what is chosen."""
        layout = self.layout
        return {**self.steps.domains, **dict(layout.batch), **dict(layout.reals)}


def _descended(question: PathQuestion, outline: SequenceOutline) -> dict[str, Array]:
    """A value for every state, the last first, each given those after it."""
    descent = _descent(question, outline)
    if descent is None:
        return one_by_one(question)
    if descent.safe is None:
        return _followed(question, descent)
    return if_in_range(descent.safe, lambda: _followed(question, descent), lambda: one_by_one(question))


def _descent(question: PathQuestion, outline: SequenceOutline) -> Descent | None:
    """Where each state came from, by kernels; None where they are not asked."""
    if not outline.kernels:
        return None
    own = recurrence_of(question.layout, question.steps)
    uniforms = None
    if question.n is not None:
        shape = tuple(domain.extent for domain in (*list(question.fixed.values())[1:], question.fixed[SAMPLES]))
        uniforms = jax.vmap(lambda key: Randomness(key, 1, jnp).uniform(shape))(question.keys[1])
    descent = None if own is None else own.descent(question.start, uniforms)
    return require_served(descent, outline, question.steps)


def _followed(question: PathQuestion, descent: Descent) -> dict[str, Array]:
    """All states from the last ones, by their pointers."""
    last = question.last(descent.end)
    if question.n is not None:  # draws come first in answers, last in a descent
        last = {name: jnp.moveaxis(value, 0, -1) for name, value in last.items()}
    found = descent.states(last)
    every = [found[name] for name in question.steps.links.before]
    if question.n is not None:
        every = [jnp.moveaxis(states, -1, 1) for states in every]
    return question.answer([states[0] for states in every], [states[1:] for states in every], [])


def one_by_one(question: PathQuestion) -> dict[str, Array]:
    """One step after another."""
    steps, layout, fixed = question.steps, question.layout, question.fixed
    first, last, every, _ = scanned(steps, question.start, True)
    earlier = earlier_carries(first, every, steps)

    def named(data: Mapping[Name, Data]) -> dict[Name, Array]:
        domains = question.domains
        return {name: Array._of(value, tuple(fixed), fixed, domains[name]) for name, value in data.items()}

    before, newest = steps.links.before, steps.links.newest
    ends = question.last(layout.shown(last))
    shared = {name: ends[name] for name in question.globals}
    forth = steps.links.moves_back
    cut = steps.cut()

    def body(state: tuple, given: tuple) -> tuple[tuple, tuple]:
        carry, parts, key = given
        after = {forth[name]: value for name, value in zip(before, state, strict=True)}
        later = named({**after, **shared})
        later.update(question.given)
        joint = joined([substitute(factor, later) for factor in (layout.shown(carry), *cut.at(parts))])
        chosen = question.choose_at(key)(joint, (*steps.links.oldest, *layout.hidden))
        now = {**after, **question.full(_shown(chosen, layout))}
        return tuple(now[name] for name in before), tuple(after[name] for name in newest)

    xs = (earlier, cut.stacked, question.keys[1])
    state = tuple(ends[name] for name in before)
    initial, path = lax_loops.scan(body, state, xs, length=steps.length, reverse=True)
    return question.answer(initial, path, list(shared.values()))


def key_of(name: Name) -> str:
    """The key of a name in a dictionary that a compiled function returns, whose keys are sorted."""
    return name if isinstance(name, str) else f"<{name}>"


def _shown(values: Mapping[Name, Array], layout: CarryLayout) -> dict[Name, Array]:
    """The values chosen, without those of hidden indices."""
    return {name: value for name, value in values.items() if name not in layout.hidden}


def choose_best(_: Any) -> Choose:
    """Choose the values of greatest weight."""
    return lambda factor, names: interpret(CHOOSE, factor, names)


def choose_by_draws(n: int) -> Callable[[Any], Choose]:
    """Choose n draws, by a key."""

    def choose_at(key: Data) -> Choose:
        source = Randomness(key, n, jnp)
        return lambda factor, names: interpret(DRAW, source, factor, names)

    return choose_at


def keys_of(key: Data, length: int) -> tuple[Data, Data]:
    """Keys of the last state, and of the state before each step."""
    last, *rest = jax.random.split(key, 2)
    return last, jax.random.split(rest[0], length)


def best(outline: SequenceOutline, start: Sequence[Factor], terms: Sequence[Factor]) -> dict[str, Array]:
    """The states of greatest weight together."""
    steps = outline.steps(terms, max_product)
    if steps.layout(start).projects:
        raise Intractable(
            f"argmax of a sequence under {represented()}",
            expected="states as tables or Gaussians: what is projected or drawn has another greatest weight",
            advice="represent the real states by fb.rep.Grid, or take the best of many draws: sample(key, n)",
        )
    return _descended(PathQuestion(steps, joined(start), choose_best, (None, None), outline.globals, None), outline)


def drawn(
    outline: SequenceOutline, start: Sequence[Factor], terms: Sequence[Factor], key: Data, n: int
) -> dict[str, Array]:
    """Draws of all states together."""
    steps = outline.steps(terms)
    keys = keys_of(key, steps.length)
    return _descended(PathQuestion(steps, joined(start), choose_by_draws(n), keys, outline.globals, n), outline)
