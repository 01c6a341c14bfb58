"""Nodes as polynomials: products of sums multiplied out, and the range of what is linear in each of its variables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from fubini.algebra.build import ONE, add, factors_in, multiply
from fubini.algebra.node import Node
from fubini.algebra.ranges import Bounds, bounds

MOST_TERMS = 256
MOST_VARIABLES = 10

Terms = list[tuple[Node, float]]


def expanded(of: Node) -> Node:
    """The same number, with products of sums multiplied out; as it is where it has too many terms."""
    terms = _terms(of)
    return of if terms is None else _without_simplexes(add(terms))


def _terms(of: Node) -> Terms | None:
    """Σ coefficient · product of things that are no sums."""
    if of.kind == "add":
        parts = [(_terms(part), c) for part, c in of.args]
        if any(inner is None for inner, _ in parts):
            return None
        return [(part, c * more) for inner, c in parts for part, more in inner or []]
    if of.kind != "mul":
        return [(of, 1.0)]
    expanded: Terms = [(ONE, 1.0)]
    for base, exponent in of.args:
        whole = base.kind == "add" and exponent == int(exponent) and 1 <= exponent <= 4
        for _ in range(int(exponent) if whole else 1):
            inner = _terms(base) if whole else [(multiply([(base, exponent)]), 1.0)]
            if inner is None or len(expanded) * len(inner) > MOST_TERMS:
                return None
            expanded = [(multiply([(a, 1.0), (b, 1.0)]), c * d) for a, c in expanded for b, d in inner]
    return expanded


def range_of_affine(of: Node) -> Bounds:
    """The range of a polynomial that is linear in each of its variables: its ends are at corners of their ranges."""
    whole = expanded(of)
    terms = whole.args if whole.kind == "add" else ((whole, 1.0),)
    shares = _shares(terms)
    alone = {entry for entries in shares.values() for entry in entries}
    products = [
        (c, [(base, e) for base, e in factors_in(part) if base is not ONE]) for part, c in terms if part not in alone
    ]
    variables = list(dict.fromkeys(base for _, factors in products for base, _ in factors))
    linear = all(e == 1 for _, factors in products for _, e in factors)
    ranges = [bounds(variable) for variable in variables]
    finite = all(math.isfinite(end) for ends in ranges for end in ends)
    if not linear or not finite or len(variables) > MOST_VARIABLES:
        return -math.inf, math.inf
    values: list[float] = []
    for corner in product(*ranges):
        at = dict(zip(variables, corner, strict=True))
        values.append(sum(c * math.prod(at[base] for base, _ in factors) for c, factors in products))
    ends = [_share_bounds(place, entries) for place, entries in shares.items()]
    return min(values) + sum(low for low, _ in ends), max(values) + sum(high for _, high in ends)


# -- entries of a simplex -------------------------------------------------------------------------------------------

Shares = dict[tuple[Any, ...], dict[Node, float]]


def _shares(terms: Sequence[tuple[Node, float]]) -> Shares:
    """Entries of simplexes that are terms of a sum, each with its coefficient: by the leaf and the outer indices."""
    shares: Shares = {}
    for part, c in terms:
        if part.kind == "get" and part.args[0].is_simplex and part.args[-1].kind == "const":
            shares.setdefault(part.args[:-1], {})[part] = c
    return shares


def _share_bounds(place: tuple[Any, ...], entries: Mapping[Node, float]) -> Bounds:
    """Σ_k c_k θ_k is between the least and the greatest c; what has no term has c = 0."""
    some = [0.0] if len(entries) < place[0].shape[-1] else []
    return min((*entries.values(), *some)), max((*entries.values(), *some))


def _without_simplexes(of: Node) -> Node:
    """With c Σ_k θ_k = c."""
    terms: dict[Node, float] = dict(of.args) if of.kind == "add" else {of: 1.0}
    for place, entries in _shares(list(terms.items())).items():
        if len(entries) == place[0].shape[-1]:
            c = min(entries.values(), key=abs)
            terms = {part: value - c * (part in entries) for part, value in terms.items()}
            terms[ONE] = terms.get(ONE, 0.0) + c
    return add(terms.items())
