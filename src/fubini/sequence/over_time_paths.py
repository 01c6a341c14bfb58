"""Paths where time lies on a mesh: the states between stretches first, then those inside of each given its ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp

from fubini.base.arrays import Data
from fubini.base.domains import Bint
from fubini.base.names import Bound, Name
from fubini.base.semirings import max_product, sum_product
from fubini.factors.carry import filled, settled
from fubini.sequence import chain_paths as paths
from fubini.sequence.compiled import SequenceOutline
from fubini.sequence.over_mesh import Along
from fubini.sequence.over_time import Stretches, answers
from fubini.sequence.scan import within
from fubini.sequence.steps import Steps, joined
from fubini.sequence.stretches import LANE, STRETCH
from fubini.terms.factor import Factor, rename
from fubini.terms.value import Array


@answers(paths.best)
def best(along: Along, outline: SequenceOutline, start: Sequence[Factor], terms: Sequence[Factor]) -> dict[str, Array]:
    """The states of greatest weight together."""
    stretches = Stretches(outline, along, start, terms, max_product)
    return _path(stretches, outline, paths.choose_best, None, None)


@answers(paths.drawn)
def drawn(
    along: Along, outline: SequenceOutline, start: Sequence[Factor], terms: Sequence[Factor], key: Data, n: int
) -> dict[str, Array]:
    """Draws of all states together."""
    stretches = Stretches(outline, along, start, terms, sum_product)
    return _path(stretches, outline, paths.choose_by_draws(n), key, n)


def _path(
    stretches: Stretches, outline: SequenceOutline, choose_at: Callable, key: Data, n: int | None
) -> dict[str, Array]:
    chain, begin = stretches.chain, stretches.start
    if outline.globals:
        begin = joined([begin, stretches.total], chain.semiring)
    keys = (None, None) if key is None else paths.keys_of(key, chain.length)
    question = paths.PathQuestion(chain, begin, choose_at, keys, outline.globals, n)
    borders = paths.one_by_one(question)
    own_key = None if key is None else jax.random.fold_in(key, 1 + jax.lax.axis_index(stretches.along.axes))
    plain = question._replace(steps=stretches.steps, start=stretches.start)
    inside = [_inside(stretches, place, question, borders, own_key) for place in range(len(stretches.segments))]
    every = [_over(plain, parts) for parts in zip(*inside, strict=True)]
    shown = {name: filled(value, plain.fixed) for name, value in _by_name(borders, question).items()}
    return plain.answer(
        [shown[name] for name in outline.links.before], every, [shown[name] for name in outline.globals]
    )


def _by_name(borders: Mapping[str, Array], question: paths.PathQuestion) -> dict[Name, Array]:
    """The states before the first step, and global variables."""
    return {name: borders[paths.key_of(name)] for name in (*question.steps.links.before, *question.globals)}


def _over(plain: paths.PathQuestion, parts: Sequence[Array]) -> Data:
    """Values over lanes and time, one array for each segment, as one: time in front, then what they are chosen for."""
    names = tuple(plain.fixed)
    found = [filled(part, {name: part.inputs[name] for name in (LANE, plain.steps.time, *names)}) for part in parts]
    return jnp.concatenate([data.reshape(-1, *data.shape[2:]) for data in found])


def _inside(
    stretches: Stretches, place: int, question: paths.PathQuestion, borders: Mapping[str, Array], key: Data
) -> list[Array]:
    """The states after each step of a segment, given those before its first step and after its last."""
    here, _ = stretches.cut()[place]
    links, initial = here.links, _by_name(borders, question)
    ends: dict[Name, Array] = {name: initial[name] for name in question.globals}
    entries: dict[Name, Array] = {}
    for before, newest in zip(links.before, links.newest, strict=True):
        last = borders[paths.key_of(newest)]
        entries[before], ends[before] = _borders(stretches, place, initial[before], last)
    origin: dict[Name, Name] = {name: Bound(f"{name} before") for name in links.before}
    first = joined([rename(term, origin) for term in here.cut().step(0)], here.semiring)
    first = rename(first, links.to_before)
    given = {origin[name]: entry for name, entry in entries.items()}
    if here.length == 1:
        return [_timed(ends[name], here) for name in links.before]
    rest = within(here, 1, here.length - 1)
    first = settled(first, rest.layout([first]))
    keys = (None, None) if key is None else paths.keys_of(jax.random.fold_in(key, place), rest.length)
    inner = question._replace(steps=rest, start=first, keys=keys, ends=ends, given=given)
    found = paths.one_by_one(inner)
    return [
        _in_front(found[paths.key_of(name)], found[paths.key_of(newest)], here)
        for name, newest in zip(links.before, links.newest, strict=True)
    ]


def _borders(stretches: Stretches, place: int, initial: Array, last: Array) -> tuple[Array, Array]:
    """The states before the first and after the last step of each lane of a segment."""
    others = tuple(name for name in last.names if name != STRETCH)
    after = jnp.moveaxis(last.array, last.names.index(STRETCH), 0)
    sizes = {**last.inputs, LANE: Bint[stretches.segments[place].lanes]}
    begin = filled(initial, {name: last.inputs[name] for name in others})
    before = jnp.concatenate([begin[None], after[:-1]])

    def own(data: Data) -> Array:
        return Array._of(stretches.own(data, place), (LANE, *others), sizes, last.output)

    return own(before), own(after)


def _timed(value: Array, here: Steps) -> Array:
    """A value with an axis of time, of one step."""
    sizes = {**value.inputs, here.time: Bint[1]}
    return Array._of(value.array[None], (here.time, *value.names), sizes, value.output)


def _in_front(first: Array, later: Array, here: Steps) -> Array:
    """Values after the first step, and after the others, over time."""
    sizes = {**later.inputs, here.time: Bint[here.length]}
    axis = later.names.index(here.time)
    data = jnp.concatenate([jnp.expand_dims(first.array, axis), later.array], axis=axis)
    return Array._of(data, later.names, sizes, later.output)
