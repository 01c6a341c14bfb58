"""Entries of matrices that follow from linear recursions, where they stand in products."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from fubini.algebra.binding import opened
from fubini.algebra.build import as_product, const, equal, index, multiply
from fubini.algebra.node import Index, Leaf, Node

Factors = list[tuple[Node, float]]


class SplitProduct(NamedTuple):
    """A[places, inner] · Π inside · Π outside, of which only what is inside depends on the inner indices."""

    leaf: Leaf
    places: tuple[Node, ...]
    inner: tuple[Index, ...]
    inside: Factors
    outside: Factors


def split_response(over: Collection[Index], product: Node) -> SplitProduct | None:
    """A product with an entry of such a matrix in it, at some indices of a sum; None where it is no other."""
    number, powers = as_product(product)
    factors = [(const(number), 1.0), *powers.items()]
    entry = next((base for base, e in factors if _is_entry(base) and e == 1), None)
    if entry is None:
        return None
    leaf, *at = entry.args
    count = leaf.response.output_axes
    places, inputs = tuple(at[:count]), at[count:]
    others = [(base, e) for base, e in factors if base is not entry]
    inner: list[Index] = []
    for part, size in zip(inputs, leaf.shape[count:], strict=True):
        if part.kind == "const" and size != 1:  # Σ_i [i = c]
            inner.append(Index(size))
            others.append((equal(index(inner[-1]), part), 1.0))
        elif part.kind == "index" and part.args[0] in over:
            inner.append(part.args[0])
        elif size != 1:
            return None
    inside = [(base, e) for base, e in others if base.free & set(inner)]
    outer = frozenset().union(*(part.free for part in places))
    if len(set(inner)) < len(inner) or any(base.free & outer for base, _ in inside) or outer & set(inner):
        return None
    return SplitProduct(leaf, places, tuple(inner), inside, [factor for factor in others if factor not in inside])


class ResponseTerm(NamedTuple):
    """Σ over some indices of a product with an entry of such a matrix in it, and where its inputs are read."""

    over: tuple[Index, ...]
    product: Node
    inputs: frozenset[Index]


def response_term(of: Node) -> ResponseTerm | None:
    """A product, or one with a sum in it, as such a term; None where it is no such term."""
    number, powers = as_product(of)
    for base, exponent in powers.items():
        over, body = opened(base) if base.kind == "sum" else ((), base)
        entry = next((part for part in as_product(body)[1] if _is_entry(part)), None)
        if entry is not None and exponent == 1:
            others = [(other, e) for other, e in powers.items() if other is not base]
            inputs = entry.args[1 + entry.args[0].response.output_axes :]
            free = frozenset().union(*(part.free for part in inputs))
            return ResponseTerm(over, multiply([(const(number), 1.0), *others, (body, 1.0)]), free - set(over))
    return None


def _is_entry(of: Node) -> bool:
    return of.kind == "get" and of.args[0].response is not None
