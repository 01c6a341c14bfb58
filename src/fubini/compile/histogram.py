"""Histograms: a sum under tests of outer indices becomes one pass over the items, that fills an array of groups.

Σ_J e  =  f(Hist_J r), with reducers r ::= Add(e) | Idx_i(e, r) | Split(c, r, r) | Fanout(r, r) | Nop (Walia et al.,
"From high-level inference algorithms to efficient code", section 5). An interval test [i < e] groups as [i = e] does,
and is read off a cumulative sum of the groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from fubini.algebra.binding import opened
from fubini.algebra.build import (
    ONE,
    ZERO,
    add,
    equal,
    factors_in,
    get,
    index,
    is_test,
    minus,
    multiply,
    plus,
    scale,
    times,
)
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.node_notation import written
from fubini.algebra.ranges import is_whole
from fubini.algebra.sums import total
from fubini.algebra.walk import walk


class Add(NamedTuple):
    """The sum of a value, in an array of its own."""

    value: Node
    leaf: Leaf


class Idx(NamedTuple):
    """A reducer for each value of an axis: for that at which an item is, or those `above` or `below` which it is."""

    axis: Index
    at: Node
    inner: Reducer
    side: str = "="


class Split(NamedTuple):
    """One reducer for items that pass a test, another for those that do not."""

    test: Node
    first: Reducer
    second: Reducer


class Fanout(NamedTuple):
    """Two reducers side by side."""

    first: Reducer
    second: Reducer


class Nop(NamedTuple):
    """A reducer that adds nothing."""


Reducer = Add | Idx | Split | Fanout | Nop


class Summary(NamedTuple):
    """A pass over items, and the sum read off what it fills."""

    over: tuple[Index, ...]
    reducer: Reducer
    final: Node


class Slot(NamedTuple):
    """An array that a pass fills: where each item goes along its axes, what it adds, and under which tests."""

    leaf: Leaf
    indexed: tuple[Idx, ...]
    tests: tuple[tuple[Node, bool], ...]
    value: Node


def summarised(over: Sequence[Index], body: Node, stem: str = "hist") -> Summary | None:
    """Σ over items of a body as a histogram; None where it depends on an outer index in another way."""
    over = tuple(over)
    final: list[Node] = []
    reducer: Reducer = Nop()
    count = 0
    for part, coefficient in _terms(body):
        closed = total(over, part)
        if not any(part.is_binder for part in walk(closed)):  # solved: a correction at one place
            final.append(scale(coefficient, closed))
            continue
        outside, inside = _parted(part, over)
        addition = _reducer(over, inside, (), _numbered(stem, count))
        if addition is None:
            return None
        reducer = addition if isinstance(reducer, Nop) else Fanout(reducer, addition)
        for slot in slots(addition):
            count += 1
            final.append(scale(coefficient, times(outside, get(slot.leaf, *(index(one.axis) for one in slot.indexed)))))
    return Summary(over, reducer, plus(*final) if final else ZERO)


def _parted(part: Node, over: tuple[Index, ...]) -> tuple[Node, Node]:
    """The factors that are the same for all items, and the others."""
    factors = factors_in(part)
    outside = multiply((base, exponent) for base, exponent in factors if not base.free & set(over))
    return outside, multiply((base, exponent) for base, exponent in factors if base.free & set(over))


def _numbered(stem: str, first: int) -> Callable[[tuple[int, ...]], Leaf]:
    count = iter(range(first, first + 1000))
    return lambda shape: Leaf(f"{stem}{next(count)}", shape, role="state")


def _terms(body: Node) -> Iterator[tuple[Node, float]]:
    """A body as a sum, with tests of choices split: [a = where(c, x, y)] is c [a = x] + (1 − c) [a = y]."""
    for part, coefficient in body.args if body.kind == "add" else ((body, 1.0),):
        split = _split_choice(part)
        if split is part:
            yield part, coefficient
        else:
            yield from ((inner, coefficient * more) for inner, more in _terms(split))


def _split_choice(of: Node) -> Node:
    factors = list(factors_in(of))
    for base, exponent in factors:
        rest = multiply(factor for factor in factors if factor[0] is not base)
        if exponent == 1 and base.kind == "eq":
            for one, other in (base.args, base.args[::-1]):
                if other.kind == "where":
                    test, first, second = other.args
                    chosen = times(test, minus(equal(one, first), equal(one, second)))
                    return _spread(rest, plus(chosen, equal(one, second)))
        if exponent == 1 and base.kind == "where" and base.args[1:] == (ZERO, ONE) and base.args[0].kind == "eq":
            return _spread(rest, minus(ONE, base.args[0]))
    return of


def _spread(rest: Node, sum_of: Node) -> Node:
    """rest · Σ parts  =  Σ rest · part"""
    products = []
    for part, coefficient in sum_of.args if sum_of.kind == "add" else ((sum_of, 1.0),):
        inner = part.args if part.kind == "add" else ((part, 1.0),)
        products.extend((times(rest, this), coefficient * more) for this, more in inner)
    expanded = []
    for part, coefficient in products:
        factors = list(factors_in(part))
        sums = [base for base, exponent in factors if base.kind == "add" and exponent == 1 and _of_tests(base)]
        if sums:
            others = multiply(factor for factor in factors if factor[0] is not sums[0])
            expanded.extend((times(others, this), coefficient * more) for this, more in sums[0].args)
        else:
            expanded.append((part, coefficient))
    return add(expanded)


def _of_tests(of: Node) -> bool:
    return all(is_test(part) for part, _ in of.args)


def _reducer(
    over: tuple[Index, ...], body: Node, axes: tuple[Index, ...], leaf_of: Callable[[tuple[int, ...]], Leaf]
) -> Reducer | None:
    """Tests of outer indices first, then other tests, then what is added."""
    factors = list(factors_in(body))
    groups = [(base, _grouping(base, over)) for base, exponent in factors if exponent > 0]
    known = sorted(((base, of) for base, of in groups if of is not None), key=lambda item: item[1][0].serial)
    if known:
        base, (axis, at, side) = known[0]
        rest = multiply(f for f in factors if f[0] is not base)
        if side == "=":
            rest = _on_one_axis(rest, over, axis, at)
        inner = _reducer(over, rest, (*axes, axis), leaf_of)
        return None if inner is None else Idx(axis, at, inner, side)
    for base, exponent in factors:
        rest = multiply(f for f in factors if f[0] is not base)
        if exponent > 0 and is_test(base) and base.leaves and base.free <= set(over):
            inner = _reducer(over, rest, axes, leaf_of)
            if inner is None:
                return None
            negated = base.kind == "where" and base.args[1:] == (ZERO, ONE)
            return Split(base.args[0], Nop(), inner) if negated else Split(base, inner, Nop())
    return None if body.free - set(over) else Add(body, leaf_of(tuple(i.size for i in axes)))


def _on_one_axis(of: Node, over: tuple[Index, ...], axis: Index, at: Node) -> Node:
    """[i = a] [i = b]  =  [i = a] [a = b]"""
    parts = []
    for base, exponent in factors_in(of):
        group = _grouping(base, over) if exponent > 0 else None
        again = group is not None and group[0] is axis and group[2] == "="
        parts.append((equal(at, group[1]) if group is not None and again else base, exponent))
    return multiply(parts)


def _grouping(test: Node, over: tuple[Index, ...]) -> tuple[Index, Node, str] | None:
    """An outer index that a test compares with an entry of the items, and how."""
    if test.kind not in ("eq", "lt"):
        return None
    for place, (one, other) in enumerate((test.args, test.args[::-1])):
        outer = one.kind == "index" and isinstance(one.args[0], Index) and one.args[0] not in over
        if outer and other.free and other.free <= set(over) and (test.kind == "lt" or is_whole(other)):
            return one.args[0], other, "=" if test.kind == "eq" else ("above", "below")[place]
    return None


def slots(of: Reducer) -> list[Slot]:
    """The arrays that a reducer fills."""
    match of:
        case Add(value, leaf):
            return [Slot(leaf, (), (), value)]
        case Idx(_, _, inner, _):
            return [slot._replace(indexed=(of, *slot.indexed)) for slot in slots(inner)]
        case Split(test, first, second):
            return [
                slot._replace(tests=((test, holds), *slot.tests))
                for part, holds in ((first, True), (second, False))
                for slot in slots(part)
            ]
        case Fanout(first, second):
            return [*slots(first), *slots(second)]
    return []


def placed(one: Idx, entries: np.ndarray) -> np.ndarray:
    """Where items go along an axis, outside of it for those that count nowhere; intervals are cumulated from there."""
    size = one.axis.size
    if one.side == "above":  # [i < e]: counted at ⌈e⌉ − 1 and all before
        places = np.clip(np.ceil(entries) - 1, -1, size - 1)
    elif one.side == "below":  # [e < i]: counted at ⌊e⌋ + 1 and all after
        places = np.clip(np.floor(entries) + 1, 0, size)
    else:
        places = np.clip(entries, -1, size)
    return places.astype(np.int64)


def filled(summary: Summary, evaluate: Callable[[Node, Sequence[Index]], np.ndarray]) -> dict[Leaf, np.ndarray]:
    """Compute the arrays of a histogram by NumPy."""
    shape = tuple(i.size for i in summary.over)
    numbers = lambda node: np.broadcast_to(evaluate(node, summary.over), shape).ravel()  # noqa: E731
    arrays = {}
    for slot in slots(summary.reducer):
        keep = np.ones(int(np.prod(shape, dtype=int)), bool)
        for test, holds in slot.tests:
            keep &= (numbers(test) != 0) == holds
        places = []
        for one in slot.indexed:
            place = placed(one, numbers(one.at))
            keep &= (place >= 0) & (place < one.axis.size)
            places.append(place)
        flat = np.ravel_multi_index([place[keep] for place in places], slot.leaf.shape) if places else keep[keep] * 0
        array = np.bincount(flat, numbers(slot.value)[keep], minlength=int(np.prod(slot.leaf.shape, dtype=int)))
        arrays[slot.leaf] = _cumulated(array.reshape(slot.leaf.shape), slot.indexed)
    return arrays


def grouped_sum(
    of: Node, order: Sequence[Index], evaluate: Callable[[Node, Sequence[Index]], np.ndarray]
) -> np.ndarray | None:
    """A sum that is one histogram and no more, over its free indices in this order; None for others."""
    over, body = opened(of)
    summary = summarised(over, body)
    if summary is None or summary.final.kind != "get" or len(summary.final.args) != len(order) + 1:
        return None
    (array,) = filled(summary, evaluate).values()
    axes = [part.args[0] for part in summary.final.args[1:]]
    return np.transpose(array, [axes.index(i) for i in order]) if set(axes) == set(order) else None


def _cumulated(array: np.ndarray, indexed: Sequence[Idx]) -> np.ndarray:
    for axis, one in enumerate(indexed):
        if one.side == "above":
            array = np.flip(np.cumsum(np.flip(array, axis), axis), axis)
        elif one.side == "below":
            array = np.cumsum(array, axis)
    return array


def shown(of: Reducer) -> str:
    """Write a reducer as text.

    >>> shown(Nop())
    'Nop'
    """
    match of:
        case Add(value, _):
            return f"Add({written(value)})"
        case Idx(axis, at, inner, side):
            sign = {"=": "=", "above": "<", "below": ">"}[side]
            return f"Idx({axis.label} {sign} {written(at)}, {shown(inner)})"
        case Split(test, first, second):
            return f"Split({written(test)}, {shown(first)}, {shown(second)})"
        case Fanout(first, second):
            return f"Fanout({shown(first)}, {shown(second)})"
    return "Nop"
