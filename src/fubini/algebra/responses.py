"""Entries of matrices that follow from linear recursions, where they stand in products."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from fubini.algebra.build import as_product, const
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
    entry = next((base for base, e in factors if is_response(base) and e == 1), None)
    if entry is None:
        return None
    leaf, *at = entry.args
    count = leaf.response.output_axes
    places, inputs = tuple(at[:count]), at[count:]
    wide = [part for part, size in zip(inputs, leaf.shape[count:], strict=True) if size != 1]
    inner = tuple(part.args[0] for part in wide if part.kind == "index" and part.args[0] in over)
    others = [(base, e) for base, e in factors if base is not entry]
    inside = [(base, e) for base, e in others if base.free & set(inner)]
    outer = frozenset().union(*(part.free for part in places))
    is_split = not any(base.free & outer for base, _ in inside) and not outer & set(inner)
    if len(set(inner)) < len(wide) or not is_split:
        return None
    return SplitProduct(leaf, places, inner, inside, [factor for factor in others if factor not in inside])


def response_in(product: Node) -> Leaf | None:
    """The matrix of which an entry is a factor; None where there is none."""
    return next((base.args[0] for base in as_product(product)[1] if is_response(base)), None)


def is_response(of: Node) -> bool:
    """Whether it is an entry of a matrix that follows from a recursion."""
    return of.kind == "get" and of.args[0].response is not None
