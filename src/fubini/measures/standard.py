"""Intervals of a latent case by case, each through another latent on a standard domain."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import NamedTuple

from fubini.algebra.binding import replaced
from fubini.algebra.build import ONE, ZERO, call, get, index, minus, plus, times
from fubini.algebra.features import NoClosedForm
from fubini.algebra.node import Index, Leaf, Node
from fubini.measures.inequalities import Ends, Limit


class Case(NamedTuple):
    """One interval of a latent, and what the others have to satisfy."""

    leaf: Leaf
    low: Node | None
    high: Node | None
    limits: tuple[Limit, ...]


class Standard(NamedTuple):
    """A latent through another one on a standard domain: x[at] = entry(u[at]), with log |dx/du|."""

    domain: str
    leaf: Leaf
    entry: Node
    log_slope: Node
    high: Node | None = None


def cases(leaf: Leaf, ends: Ends) -> Iterator[Case]:
    """Every choice of a greatest low and a least high; where they are known, one."""
    at, lows, highs, others = ends
    both = [low for low in lows if low in highs]
    if both:  # no other value remains, which for a real number has no mass
        yield from [_at_value(leaf, ends, both[0])] if leaf.is_integer else []
        return
    if at:  # of an array each entry has its own
        lows, highs = _extreme("max", lows), _extreme("min", highs)
    for low in lows or (None,):
        for high in highs or (None,):
            limits = [Limit(at, other, low, strict) for other, strict in _others(lows, low) if low is not None]
            limits += [Limit(at, high, other, strict) for other, strict in _others(highs, high) if high is not None]
            if low is not None and high is not None:
                limits.append(Limit(at, low, high, not leaf.is_integer))
            limits += others
            if not any(limit.fails for limit in limits):
                yield Case(leaf, low, high, tuple(limit for limit in limits if not limit.holds))


def _at_value(leaf: Leaf, ends: Ends, value: Node) -> Case:
    """One value, between all ends."""
    at, lows, highs, others = ends
    below = [Limit(at, low, value, False) for low in lows if low is not value]
    above = [Limit(at, value, high, False) for high in highs if high is not value]
    return Case(leaf, value, value, tuple(limit for limit in (*below, *above, *others) if not limit.holds))


def _extreme(name: str, ends: tuple[Node, ...]) -> tuple[Node, ...]:
    """One end that is the greatest, or the least, of several."""
    return (reduce(lambda a, b: call(name, a, b), ends),) if ends else ()


def _others(ends: Sequence[Node], one: Node | None) -> Iterator[tuple[Node, bool]]:
    """The other ends; where two are equal, the first of them is taken, and no other."""
    before = True
    for end in ends:
        if end is one:
            before = False
        else:
            yield end, before


def standard_form(leaf: Leaf, at: tuple[Index, ...], case: Case) -> Standard:
    """On the line, above 0 or between 0 and 1; whole numbers from 0 on."""
    _, low, high, _ = case
    if leaf.is_integer:
        return _standard_whole(leaf, at, low, high)
    if low is None and high is None:
        return Standard("real", leaf, get(leaf, *map(index, at)), ZERO)
    if low is None or high is None:
        u = _standard_leaf(leaf, 0.0, None, low is ZERO)
        entry = get(u, *map(index, at))
        return Standard("positive", u, plus(low, entry) if low is not None else minus(_sure(high), entry), ZERO)
    u = _standard_leaf(leaf, 0.0, 1.0, low is ZERO and high is ONE)
    entry = get(u, *map(index, at))
    width = minus(high, low)
    return Standard("unit", u, plus(low, times(width, entry)), call("log", width))


def _sure(of: Node | None) -> Node:
    assert of is not None
    return of


def _standard_leaf(leaf: Leaf, low: float, high: float | None, same: bool) -> Leaf:
    if same and (leaf.low, leaf.high) == (low, high):
        return leaf
    return Leaf(leaf.name, leaf.shape, low=low, high=high, is_integer=leaf.is_integer, role=leaf.role)


def _standard_whole(leaf: Leaf, at: tuple[Index, ...], low: Node | None, high: Node | None) -> Standard:
    if low is None:
        raise NoClosedForm(leaf, ZERO, "whole numbers with a least one")
    end = None if high is None else minus(high, low)
    most = None if end is None or end.kind != "const" else end.args[0]
    u = _standard_leaf(leaf, 0.0, most, low is ZERO)
    return Standard("nat" if end is None else "count", u, plus(low, get(u, *map(index, at))), ZERO, end)


def through_standard(standard: Standard, at: tuple[Index, ...]) -> Callable[..., Node]:
    """x at a place, through the standard latent."""
    return lambda *places: replaced(standard.entry, {index(i): place for i, place in zip(at, places, strict=True)})
