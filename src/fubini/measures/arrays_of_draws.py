"""Plates: arrays of independent draws, of one measure for each index."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from fubini.algebra.binding import transformed
from fubini.algebra.build import ONE, ZERO, const, equal, get, index, plus, where
from fubini.algebra.node import Index, Node
from fubini.algebra.sums import total
from fubini.errors import DomainError
from fubini.families.family import family_of
from fubini.families.parameters import Support
from fubini.measures.branch import (
    Branch,
    DrawStatement,
    Items,
    Returned,
    Test,
    fresh_like,
    mapped_value,
    refreshed,
)
from fubini.measures.draw_density import is_of_numbers
from fubini.measures.flat import flat_distribution
from fubini.measures.language import as_measure
from fubini.measures.measure import Measure
from fubini.measures.single_draws import leaf_of
from fubini.measures.values import Number


def plate(size: int, kernel: Callable[[Number], Any]) -> Measure:
    """An array of independent draws: of the measure that a kernel makes from the index.

    >>> from fubini.measures import Normal, symbol
    >>> m = symbol("m", 5)
    >>> print(plate(5, lambda i: Normal(m[i], 1)))
    x[i] ~ Normal(m[i], 1) for i < 5
    returns x
    """
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise DomainError(f"a plate of size {size!r}", expected="a positive whole number")
    i = Index(size)
    inner = as_measure(kernel(Number(index(i))))
    if not inner.branches:
        return inner
    branch = inner.branches[0] if len(inner.branches) == 1 else _with_label(inner)
    names = {leaf: fresh_like(leaf, shape=(size, *leaf.shape)) for leaf in branch.drawn}

    def raised(of: Node) -> Node:
        for old, new in names.items():
            of = transformed(of, old, lambda *at, new=new: get(new, index(i), *at))
        return of

    draws = tuple(DrawStatement(names[d.leaf], (i, *d.at), d.distribution.mapped(raised)) for d in branch.draws)
    tests = tuple(Test((i, *test.over), raised(test.node)) for test in branch.tests)
    value = _with_axis(mapped_value(branch.value, raised), i)
    observed = tuple(distribution.mapped(raised) for distribution in branch.observed)
    return Measure((Branch(draws, tests, total([i], raised(branch.weight)), value, observed),), inner.checks)


def _with_axis(value: Returned, i: Index) -> Returned:
    if isinstance(value, Items):
        return Items((i, *value.over), value.entry)
    if isinstance(value, tuple):
        return tuple(_with_axis(part, i) for part in value)
    return Items((i,), value)


# -- superpositions inside ------------------------------------------------------------------------------------------


def _with_label(inner: Measure) -> Branch:
    """A superposition as one branch: a label says which, and what the others draw has mass 1 and is not looked at."""
    parts = [refreshed(branch) for branch in inner.branches]
    for part in parts:
        for draw in part.draws:
            if is_of_numbers(draw.distribution) and not family_of(draw.distribution.family).is_probability:
                raise DomainError(
                    f"a plate of a superposition with {draw.distribution.family}",
                    expected="draws that have mass 1",
                    advice="draw before the superposition, or use Uniform with a weight",
                )
    distribution = flat_distribution(Support(ZERO, const(len(parts) - 1.0), True))
    leaf = leaf_of(distribution, "label")
    is_taken = [equal(get(leaf), const(float(place))) for place in range(len(parts))]
    tests = tuple(
        Test(test.over, where(taken, test.node, ONE))
        for taken, part in zip(is_taken, parts, strict=True)
        for test in part.tests
    )
    weight = plus(*(where(taken, part.weight, ZERO) for taken, part in zip(is_taken, parts, strict=True)))
    value = reduce(
        lambda rest, item: _chosen(item[0], item[1].value, rest),
        reversed(list(zip(is_taken, parts, strict=True))[:-1]),
        parts[-1].value,
    )
    return Branch(
        (DrawStatement(leaf, (), distribution), *(draw for part in parts for draw in part.draws)), tests, weight, value
    )


def _chosen(test: Node, first: Returned, second: Returned) -> Returned:
    """One value or the other, entry by entry."""
    if isinstance(first, Node) and isinstance(second, Node):
        return where(test, first, second)
    parts = [one for one in (first, second) if isinstance(one, tuple) and not isinstance(one, Items)]
    if len(parts) != 2 or len(parts[0]) != len(parts[1]):
        raise DomainError(
            "a plate of a superposition", expected="branches that return numbers, or tuples of as many of them"
        )
    return tuple(_chosen(test, a, b) for a, b in zip(*parts, strict=True))
