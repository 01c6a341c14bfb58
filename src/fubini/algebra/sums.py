"""Σ over indices, simplified: the one place where the algebra of indices happens.

In order: linearity; tests solved for an index; congruence under tests; sums of sums; factors without the index out;
independent parts one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from fubini.algebra.binding import closed, opened, replaced
from fubini.algebra.build import ONE, ZERO, add, const, factors_in, index, less, minus, multiply, scale, times
from fubini.algebra.node import Index, Node
from fubini.algebra.ranges import bounds, is_whole

Factors = list[tuple[Node, float]]


def total(over: Iterable[Index], body: Node) -> Node:
    """Σ over indices of a body."""
    indices = tuple(over)
    if body is ZERO or not indices:
        return body
    if body.kind == "add":
        return add([(total(indices, part), coefficient) for part, coefficient in body.args])
    return _of_product(indices, list(factors_in(body)))


def _of_product(over: tuple[Index, ...], factors: Factors) -> Node:
    solved = _solved(over, factors)
    if solved is not None:
        return solved
    congruent = _congruent(factors)
    if congruent is not None:
        return total(over, multiply(congruent))
    if len(factors) == 1 and factors[0][0].kind == "sum" and factors[0][1] == 1:
        inner, body = opened(factors[0][0])
        return total((*over, *inner), body)
    outside = [(base, power) for base, power in factors if not base.free & set(over)]
    inside = [(base, power) for base, power in factors if base.free & set(over)]
    unused = [i for i in over if not any(i in base.free for base, _ in inside)]
    used = [i for i in over if i not in unused]
    parts = [multiply(outside), const(math.prod(i.size for i in unused))]
    for some, group in _components(used, inside):
        parts.append(_closed_sum(some, multiply(group)))
    return times(*parts)


def _closed_sum(over: Sequence[Index], body: Node) -> Node:
    if body.kind == "add":  # numbers that came in front
        return add([(total(over, part), coefficient) for part, coefficient in body.args])
    if body is ONE:
        return const(math.prod(i.size for i in over))
    if body.kind == "sum":
        inner, rest = opened(body)
        return total((*over, *inner), rest)
    if len(over) == 1 and body is index(over[0]):
        return const(over[0].size * (over[0].size - 1) / 2)
    if body.kind == "lt" and len(over) == 1 and (count := _counted(over[0], body)) is not None:
        return const(count)
    return ONE if len(over) == 1 and _is_all_of_a_simplex(over[0], body) else closed("sum", over, body)


def _counted(i: Index, test: Node) -> int | None:
    """For how many i a test of i and numbers alone holds."""
    gap = minus(test.args[1], test.args[0])
    terms = dict(gap.args) if gap.kind == "add" else {gap: 1.0}
    slope, rest = terms.pop(index(i), 0.0), terms.pop(ONE, 0.0)
    if terms or not slope:
        return None
    end = -rest / slope  # i > end, or i < end
    above = i.size - 1 - math.floor(end) if slope > 0 else math.ceil(end)
    return min(max(above, 0), i.size)


def _is_all_of_a_simplex(i: Index, body: Node) -> bool:
    """x[…, i], whose entries add up to 1"""
    if body.kind != "get" or not body.args[0].is_simplex:
        return False
    *outer, last = body.args[1:]
    return last is index(i) and body.args[0].shape[-1] == i.size and not any(i in part.free for part in outer)


def _components(over: Sequence[Index], factors: Factors) -> list[tuple[list[Index], Factors]]:
    """Groups of indices and factors that share none."""
    groups: list[tuple[list[Index], Factors]] = []
    for base, power in factors:
        own = [i for i in over if i in base.free]
        joined: tuple[list[Index], Factors] = (own, [(base, power)])
        rest: list[tuple[list[Index], Factors]] = []
        for group in groups:
            if set(group[0]) & set(joined[0]):
                joined = ([*group[0], *(i for i in joined[0] if i not in group[0])], [*group[1], *joined[1]])
            else:
                rest.append(group)
        groups = [*rest, joined]
    return groups


# -- tests ----------------------------------------------------------------------------------------------------------


def _solved(over: tuple[Index, ...], factors: Factors) -> Node | None:
    """Σ_j [j = e] f(j)  =  f(e), where e is in range: pure indices first, gathered ones if no class splits."""
    for gathered in (False, True):
        for place, (base, _) in enumerate(factors):
            if base.kind != "eq":
                continue
            for i in over:
                solution = _solution(base, i)
                if solution is None or bool(solution.leaves) is not gathered:
                    continue
                rest = [factor for other, factor in enumerate(factors) if other != place]
                if gathered and (_splits(over, i, rest) or _has_statistic(i, rest)):
                    continue
                inside = replaced(multiply(rest), {index(i): solution})
                others = tuple(other for other in over if other is not i)
                return total(others, times(_in_range(solution, i.size), inside))
    return None


def _solution(test: Node, i: Index) -> Node | None:
    """e such that the test says i = e."""
    a, b = test.args
    for one, other in ((a, b), (b, a)):
        if one is index(i) and i not in other.free:
            return other if is_whole(other) else None
    whole = minus(a, b)
    terms = dict(whole.args) if whole.kind == "add" else {whole: 1.0}
    coefficient = terms.pop(index(i), 0.0)
    rest = add(terms.items())
    if abs(coefficient) != 1 or i in rest.free or not is_whole(rest):
        return None
    return scale(-1.0 / coefficient, rest)


def _splits(over: tuple[Index, ...], i: Index, factors: Factors) -> bool:
    """Once the class index i is fixed, the factors have nothing in common: a product of statistics, to be kept so."""
    others = [other for other in over if other is not i]
    with_others = [(base, power) for base, power in factors if base.free & set(others)]
    return len(_components(others, with_others)) > 1 and any(i in base.free for base, _ in with_others)


def _has_statistic(i: Index, factors: Factors) -> bool:
    """A sum for each class i, which would become one for each item."""
    return any(base.height and i in base.free for base, _ in factors)


def _in_range(of: Node, size: int) -> Node:
    """[0 ≤ of < size]"""
    low, high = bounds(of)
    test = ONE
    if low < 0:
        test = times(test, less(const(-1.0), of))
    if high > size - 1:
        test = times(test, less(of, const(size)))
    return test


def _congruent(factors: Factors) -> Factors | None:
    """[e = i] f(e)  =  [e = i] f(i), for an entry e and an index i"""
    for base, _ in factors:
        if base.kind != "eq":
            continue
        entry, i = sorted(base.args, key=lambda part: part.kind == "index")
        if entry.kind != "get" or i.kind != "index":
            continue
        new = [(part if part is base else replaced(part, {entry: i}), power) for part, power in factors]
        if any(part is not old for (part, _), (old, _) in zip(new, factors, strict=True)):
            return new
    return None
