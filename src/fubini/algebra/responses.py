"""Entries of matrices that follow from linear recursions, where they stand in products."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any, NamedTuple

from fubini.algebra.axes import Axes, aligned, product, taken
from fubini.algebra.binding import opened
from fubini.algebra.build import as_product, const, equal, index, multiply
from fubini.algebra.leaf import Response
from fubini.algebra.node import Index, Leaf, Node
from fubini.numerics.linear_recursions import outputs

MOST_ENTRIES = 4_000_000  # of the matrix of an affine function that is made

Factors = list[tuple[Node, float]]


class SplitProduct(NamedTuple):
    """A[places, inner] · Π inside · Π outside, of which only what is inside depends on the inner indices."""

    leaf: Leaf
    response: Response
    places: tuple[Node, ...]
    inner: tuple[Index, ...]
    inside: Factors
    outside: Factors


def split_response(over: Collection[Index], of: Node) -> SplitProduct | None:
    """A product with an entry of such a matrix in it, at some indices of a sum; None where it is no other."""
    number, powers = as_product(of)
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
    outer = {i for part in places for i in part.free}
    if len(set(inner)) < len(inner) or any(base.free & outer for base, _ in inside) or outer & set(inner):
        return None
    return SplitProduct(
        leaf, leaf.response, places, tuple(inner), inside, [factor for factor in others if factor not in inside]
    )


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
            free: set[Index] = {i for part in inputs for i in part.free}
            whole = multiply([(const(number), 1.0), *others, (body, 1.0)])
            return ResponseTerm(over, whole, frozenset(free - set(over)))
    return None


def _is_entry(of: Node) -> bool:
    return of.kind == "get" and of.args[0].response is not None


def sum_by_recursion(evaluation: Any, over: Collection[Index], body: Node) -> Axes | None:
    """Σ_i A[t, i] x[i] by the recursion that A follows from; what else is summed over stays. None of another body."""
    split = split_response(over, body)
    if split is None:
        return None
    response, inner, xp = split.response, split.inner, evaluation.xp
    x, length = evaluation.product_of(split.inside), split.response.sizes[0]
    rest = tuple(i for i in x.of if i not in inner)
    columns = xp.broadcast_to(aligned(x, (*inner, *rest)), tuple(i.size for i in (*inner, *rest)))
    first, count = response.states + response.first_input, math.prod(i.size for i in inner) // length
    whole = evaluation.matrix(response.transition)
    steps = xp.concatenate([whole[:, :, : response.states], whole[:, :, first : first + count]], axis=-1)
    inputs = columns.reshape(length, count, math.prod(i.size for i in rest))
    turn = slice(None, None, -1 if response.is_reversed else 1)
    y = outputs(xp.zeros(response.states), steps[turn], inputs[turn])
    y = y[-1] if response.is_last else y[turn]
    fresh = tuple(Index(size) for size in split.leaf.shape[: response.output_axes])
    made = Axes(y.reshape(*(i.size for i in (*fresh, *rest))), (*fresh, *rest))
    for i, place in zip(fresh, split.places, strict=True):
        made = taken(made, i, evaluation.of(place))
    share = 1 / math.prod(i.size for i in inner if i in over)  # they are summed over again
    outside = [(evaluation.of(base), exponent) for base, exponent in split.outside]
    return product([(made, 1.0), *outside, (Axes(xp.asarray(share), ()), 1.0)])
