"""What has to hold where a branch is possible: weights that are numbers, parameters in range, entries within arrays."""

from __future__ import annotations

import math
from collections.abc import Iterator

from fubini.errors import DataError
from fubini.index.node import Node, children
from fubini.index.ranges import bounds
from fubini.measures.draws import require_possible
from fubini.measures.laws import Vector
from fubini.measures.state import State
from fubini.measures.zeros import exponent_of_zero, parts_of

ADVICE = "condition(test) before leaves out values for which it is not"


def require_defined(state: State) -> None:
    """No weight, parameter or index of a possible state is certain to be out of range."""
    for term in state.terms:
        require_weight(term)
    for draw in state.waiting:
        require_possible(draw.law)
    seen: set[Node] = set()
    for node in _nodes(state):
        _require_entries(node, seen)


def require_weight(log_weight: Node) -> None:
    """It is the logarithm of a number that is neither negative nor infinite for certain."""
    for part, _ in parts_of(log_weight):
        inside = part.args[1] if part.kind == "call" and part.args[0] == "log" else None
        if inside is not None and bounds(inside)[1] < 0:
            raise DataError(f"the weight {inside}", expected="a number that is not negative", advice=ADVICE)
    is_infinite = log_weight.kind == "const" and log_weight.args[0] == math.inf
    if is_infinite or bounds(exponent_of_zero(log_weight))[1] < 0:
        raise DataError("an infinite weight", expected="no scale of 0, and no division by 0", advice=ADVICE)


def _nodes(state: State) -> Iterator[Node]:
    yield from state.terms
    yield from (test.node for test in state.tests)
    yield from (end for limit in state.limits for end in (limit.low, limit.high))
    for draw in state.waiting:
        yield from (part.entry if isinstance(part, Vector) else part for part in draw.law.parameters)


def _require_entries(of: Node, seen: set[Node]) -> None:
    """No entry is read at a place that is certain to be beyond the ends of its array."""
    if of in seen or not of.leaves:
        return
    seen.add(of)
    if of.kind == "get":
        for place, size in zip(of.args[1:], of.args[0].shape, strict=True):
            low, high = bounds(place)
            if high < 0 or low > size - 1:
                raise DataError(f"the entry {of}", expected=f"an index from 0 to {size - 1}", advice=ADVICE)
    for part in children(of):
        _require_entries(part, seen)
