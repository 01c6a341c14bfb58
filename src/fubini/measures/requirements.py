"""What has to hold where a branch is possible: weights that are numbers, parameters in range, entries within arrays."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from fubini.algebra.features import NoClosedForm
from fubini.algebra.node import Leaf, Node
from fubini.algebra.polynomial import range_of_affine
from fubini.algebra.ranges import Bounds, bounds
from fubini.algebra.walk import walk
from fubini.errors import DataError, DomainError
from fubini.families.parameters import Vector
from fubini.measures.branch import renamed
from fubini.measures.draw_density import DrawDistribution, is_of_numbers
from fubini.measures.inequalities import ends_of
from fubini.measures.single_draws import is_positive, require_possible
from fubini.measures.state import State
from fubini.measures.zeros import exponent_of_zero, parts_of

ADVICE = "condition(test) before leaves out values for which it is not"
SLACK = 1e-12  # of bounds that are sums of rounded numbers


def require_defined(state: State) -> None:
    """No weight, parameter or index of a possible state is certain to be out of range."""
    for term in state.terms:
        require_weight(term)
    for distribution in (*(draw.distribution for draw in state.waiting), *state.observed):
        require_possible(distribution)
        _require_range(distribution, state)
    _require_entries(_nodes(state))


def require_weight(log_weight: Node) -> None:
    """It is the logarithm of a number that is neither negative nor infinite for certain."""
    for part, _ in parts_of(log_weight):
        inside = part.args[1] if part.kind == "call" and part.args[0] == "log" else None
        if inside is not None and bounds(inside)[1] < 0:
            raise DataError(f"the weight {inside}", expected="a number that is not negative", advice=ADVICE)
    is_infinite = log_weight.kind == "const" and log_weight.args[0] == math.inf
    if is_infinite or bounds(exponent_of_zero(log_weight))[1] < 0:
        raise DataError("an infinite weight", expected="no scale of 0, and no division by 0", advice=ADVICE)


def _require_range(distribution: DrawDistribution, state: State) -> None:
    """No parameter leaves its range at a value of what is drawn; bounds tell where each draw is in it once."""
    for name, part in distribution.given.items() if is_of_numbers(distribution) else ():
        range_ = (0.0, 1.0) if name == "probs" else (0.0, math.inf) if is_positive(distribution, name) else None
        if range_ is None or (range_[0] <= bounds(part)[0] and bounds(part)[1] <= range_[1]):
            continue
        low, high = _reached(_with_ends(part, state))
        if (low < range_[0] - SLACK or high > range_[1] + SLACK) and part.leaves <= _drawn(state):
            expected = "a number between 0 and 1" if name == "probs" else "a positive number"
            nearest = f"it may be from {low:g} to {high:g}"
            raise DomainError(
                f"{distribution.family} with {name} = {part}", expected=expected, nearest=nearest, advice=ADVICE
            )


def _drawn(state: State) -> set[Leaf]:
    return {draw.leaf for draw in state.waiting}


def _with_ends(part: Node, state: State) -> Node:
    """With numbers for leaves whose bounds are those that inequalities between it and numbers say."""
    for leaf in part.leaves & _drawn(state):
        limits = [limit for limit in state.limits if limit.leaves == {leaf}]
        if leaf.shape or not limits:
            continue
        try:
            ends = ends_of(leaf, (), limits)
        except NoClosedForm:
            continue
        low, high = ([end.args[0] for end in some if end.kind == "const"] for some in (ends.lows, ends.highs))
        least, most = max(low, default=leaf.low), min(high, default=leaf.high)
        tight = Leaf(leaf.name, (), low=least, high=most, is_integer=leaf.is_integer, role=leaf.role)
        part = renamed(part, {leaf: tight})
    return part


def _reached(of: Node) -> Bounds:
    """The ends that sums and products of draws come to; nothing where bounds do not tell."""
    if _is_read_once(of):
        return bounds(of)
    low, high = range_of_affine(of) if _is_polynomial(of) else (-math.inf, math.inf)
    return (low, high) if math.isfinite(low) else (math.inf, -math.inf)


def _is_polynomial(of: Node) -> bool:
    nodes = walk(of, descend=lambda this: this.kind in ("add", "mul"))
    return all(this.kind in ("const", "get", "add", "mul") for this in nodes)


def _is_read_once(of: Node) -> bool:
    """Sums and products of numbers and of draws, each in one place: its bounds are reached."""
    entries: list[Node] = []

    def visit(this: Node) -> bool:
        if this.kind == "get":
            entries.append(this)
        known = this.kind in ("get", "const", "add", "mul")
        return known and all(map(visit, this.children if this.kind != "get" else ()))

    return visit(of) and len(entries) == len(set(entries))


def _nodes(state: State) -> Iterator[Node]:
    yield from state.terms
    yield from (test.node for test in state.tests)
    yield from (end for limit in state.limits for end in (limit.low, limit.high))
    for draw in state.waiting:
        yield from (part.entry if isinstance(part, Vector) else part for part in draw.distribution.parameters)


def _require_entries(roots: Iterable[Node]) -> None:
    """No entry is read at a place that is certain to be beyond the ends of its array."""
    for entry in (this for this in walk(*roots, enter=lambda this: bool(this.leaves)) if this.kind == "get"):
        for place, size in zip(entry.args[1:], entry.args[0].shape, strict=True):
            low, high = bounds(place)
            if high < 0 or low > size - 1:
                raise DataError(f"the entry {entry}", expected=f"an index from 0 to {size - 1}", advice=ADVICE)
