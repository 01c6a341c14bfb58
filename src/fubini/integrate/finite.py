"""Finite latents summed out: entry by entry, or along a chain where neighbours are coupled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fubini.algebra.binding import closed, opened, replaced
from fubini.algebra.build import ONE, ZERO, add, const, equal, get, index, less, minus, plus, power, scale, times
from fubini.algebra.features import NoClosedForm, Place
from fubini.algebra.node import Index, Leaf, Node, node
from fubini.algebra.ranges import bounds
from fubini.algebra.sums import total
from fubini.algebra.walk import walk
from fubini.families.family import recognise
from fubini.families.signature import Recognised


class Summed(NamedTuple):
    """The distribution of a latent at indices `at`, of which `batch` are summed over; and the terms without it."""

    batch: tuple[Index, ...]
    at: tuple[Index, ...]
    distribution: Recognised
    outside: tuple[Node, ...]


def tests(place: Place, at: Sequence[Index]) -> Node:
    """[place = at]"""
    return times(ONE, *(equal(part, index(i)) for part, i in zip(place, at, strict=True)))


def solving(place: Place, over: tuple[Index, ...], at: tuple[Index, ...]) -> Mapping[Node, Node] | None:
    """Names for the summed indices by which each entry is read exactly once."""
    if any(target.size == 1 for target in at):  # an axis of one entry is read at 0
        return _solving_longer(place, over, at)
    indices = [part.args[0] if part.kind == "index" else None for part in place]
    once = len(set(indices)) == len(indices) and None not in indices and set(indices) == set(over)
    if not once or any(i is None or i.size != target.size for i, target in zip(indices, at, strict=True)):
        return None
    return {index(i): index(target) for i, target in zip(indices, at, strict=True) if i is not None}


def _solving_longer(place: Place, over: tuple[Index, ...], at: tuple[Index, ...]) -> Mapping[Node, Node] | None:
    """The same, of the axes that have more than one entry: of the others there is nothing to solve."""
    longer = [(part, target) for part, target in zip(place, at, strict=True) if target.size > 1]
    of_one_entry = {i: target for i in over if i.size == 1 for target in at if target.size == 1}
    rest = tuple(i for i in over if i.size > 1)
    names = solving(tuple(part for part, _ in longer), rest, tuple(target for _, target in longer))
    return None if names is None else {**names, **{index(i): index(target) for i, target in of_one_entry.items()}}


class Potential(NamedTuple):
    """Σ over some indices of a function of one entry, or of two neighbours, the lower first."""

    over: tuple[Index, ...]
    body: Node
    places: tuple[Place, ...]


def summed(with_latent: Node, latent: Leaf, size: int) -> Summed:
    """log Σ_k exp g(i, k), with g the terms in which x[i] = k; along a chain, over all paths."""
    potentials, outside = _potentials(with_latent, latent)
    axes = {_axis(latent, p) for p in potentials if len(p.places) == 2}
    if len(axes) > 1:
        raise NoClosedForm(latent, with_latent, "a chain along one of its axes")
    at = tuple(Index(extent, "i") for extent in latent.shape)
    k, following = Index(size, "k"), Index(size, "k")
    low = const(latent.first)
    logits: list[Node] = []
    links: list[Node] = []
    for over, body, places in potentials:
        pairs = zip(places, (k, following), strict=False)
        names = {get(latent, *place): plus(index(value), low) for place, value in pairs}
        part = total(over, times(tests(places[0], at), replaced(body, names)))
        (logits if len(places) == 1 else links).append(part)
    logit = add((part, 1.0) for part in logits)
    if not axes:
        distribution = recognise("labels", k, logit)
        assert distribution is not None
        return Summed(at, (*at, k), distribution, outside)
    (axis,) = axes
    t, batch = at[axis], tuple(i for place, i in enumerate(at) if place != axis)
    has_next = less(index(t), const(t.size - 1.0))  # of the last, which has none, no link is read
    link = replaced(add((part, 1.0) for part in links), {has_next: ONE})
    body = node("call", "potentials", index(t), index(k), index(following), logit, link)
    distribution = Recognised(
        "Chain", {"logits": logit, "links": link, "axis": const(float(axis))}, closed("chain", [t, k, following], body)
    )
    return Summed(batch, (*batch, t, k, following), distribution, outside)


def _potentials(with_latent: Node, latent: Leaf) -> tuple[list[Potential], tuple[Node, ...]]:
    potentials: list[Potential] = []
    outside: list[Node] = []
    waiting = list(bodies(with_latent, latent))
    while waiting:
        over, body, coefficient = waiting.pop()
        if latent not in body.leaves:
            outside.append(scale(coefficient, total(over, body)))
            continue
        ends = _peeled(over, body, latent)
        if ends is not None:
            waiting.extend((indices, part, coefficient) for indices, part in ends)
            continue
        places = _ordered(_places(body, latent), body, latent)
        potentials.append(Potential(over, scale(coefficient, body), places))
    return potentials, tuple(outside)


def bodies(of: Node, latent: Leaf) -> Iterable[tuple[tuple[Index, ...], Node, float]]:
    """A node as Σ coefficient · Σ_J body, as far as the latent goes."""
    if latent not in of.leaves:
        yield (), of, 1.0
    elif of.kind == "add":
        for part, coefficient in of.args:
            for over, body, more in bodies(part, latent):
                yield over, body, coefficient * more
    elif of.kind == "sum":
        over, body = opened(of)
        for inner, part, coefficient in bodies(body, latent):
            yield (*over, *inner), part, coefficient
    elif of.kind == "mul" and (part := _lone_sum(of, latent)) is not None:
        rest = times(*(power(base, exponent) for base, exponent in of.args if base is not part))
        for over, body, coefficient in bodies(part, latent):
            yield over, times(rest, body), coefficient
    else:
        yield (), of, 1.0


def _lone_sum(of: Node, latent: Leaf) -> Node | None:
    """The one factor with the latent, where it is a sum."""
    inside = [(base, exponent) for base, exponent in of.args if latent in base.leaves]
    if len(inside) == 1 and inside[0][1] == 1 and inside[0][0].kind in ("sum", "add"):
        return inside[0][0]
    return None


def _peeled(over: tuple[Index, ...], body: Node, latent: Leaf) -> list[tuple[tuple[Index, ...], Node]] | None:
    """Where an entry is read beyond an end of the latent, under a test that it is not: that end by itself."""
    for place in _places(body, latent):
        for part, size in zip(place, latent.shape, strict=True):
            low, high = bounds(part)
            if low >= 0 and high <= size - 1:
                continue
            t = next((i for i in over if i in part.free), None)
            if t is None or len(part.free) > 1 or t.size < 2:
                raise NoClosedForm(latent, body, "entries within its shape")
            end = 0 if low < 0 else t.size - 1
            inner = Index(t.size - 1, t.label)
            moved = index(inner) if end else minus(index(inner), const(-1.0))
            rest = tuple(i for i in over if i is not t)
            first = replaced(body, {index(t): const(float(end))})
            others = replaced(body, {index(t): moved})
            if any(_is_outside(p, latent) for p in _places(first, latent)):
                raise NoClosedForm(latent, body, "entries within its shape")
            return [(rest, first), ((*rest, inner), others)]
    return None


def _is_outside(place: Place, latent: Leaf) -> bool:
    ranges = [(*bounds(part), size) for part, size in zip(place, latent.shape, strict=True)]
    return any(high < 0 or low > size - 1 for low, high, size in ranges)


def _places(of: Node, latent: Leaf) -> set[Place]:
    """Where the entries of a latent are read; at the index of a sum inside another function, blocked."""
    places: set[Place] = set()
    with_latent = walk(of, enter=lambda this: latent in this.leaves, descend=lambda this: this.args[0] is not latent)
    for this in (this for this in with_latent if this.kind == "get"):
        if this.args[0] is latent:
            if any(latent in part.leaves for part in this.args[1:]):
                raise NoClosedForm(latent, this, "its entries at places that do not depend on it")
            if any(map(_is_bound, this.args[1:])):
                raise NoClosedForm(latent, of, "its entries in a term of their own, not in a sum inside a function")
            places.add(this.args[1:])
        elif latent in this.args[0].of:
            raise NoClosedForm(latent, this, "a function that can be read")
    return places


def _is_bound(of: Node) -> bool:
    return any(this.kind == "index" and isinstance(this.args[0], int) for this in walk(of))


def _ordered(places: set[Place], body: Node, latent: Leaf) -> tuple[Place, ...]:
    """One place, or two neighbours with the lower first."""
    if len(places) == 1:
        return tuple(places)
    if len(places) == 2:
        first, second = places
        steps = [minus(b, a) for a, b in zip(first, second, strict=True)]
        moved = [step for step in steps if step is not ZERO]
        if len(moved) == 1 and moved[0].kind == "const" and abs(moved[0].args[0]) == 1:
            return (first, second) if moved[0].args[0] > 0 else (second, first)
    raise NoClosedForm(latent, body, "one of its entries in a term, or two neighbours of a chain")


def _axis(latent: Leaf, of: Potential) -> int:
    lower, upper = of.places
    return next(axis for axis, (a, b) in enumerate(zip(lower, upper, strict=True)) if a is not b)
