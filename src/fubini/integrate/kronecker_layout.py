"""One normal array with a Kronecker precision, observed entry by entry with one variance.

w |A X Bᵀ − C|² + Σ_r v_r |s_r X − Y_r|²  =  w |A X Bᵀ − C|² + V |X − Ȳ|² + Σ_r v_r |s_r Ȳ − Y_r|²,

V = Σ v_r s_r²,  Ȳ = Σ v_r s_r Y_r / V
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fubini.algebra.binding import closed, replaced
from fubini.algebra.build import ZERO, add, divide, factors_in, index, minus, multiply, plus, power, scale, times
from fubini.algebra.features import Place
from fubini.algebra.node import Index, Leaf, Node, node
from fubini.algebra.sums import total
from fubini.integrate.coupling import CoupledSquare, LatentLayout
from fubini.integrate.elimination import is_never_zero
from fubini.integrate.sparse_layout import WORK
from fubini.numerics.least_squares import Unknowns


class KroneckerBlock(NamedTuple):
    """The layout of the latent, the matrices and numbers of its problem, and Σ_r v_r |s_r Ȳ − Y_r|²."""

    layout: LatentLayout
    rows: tuple[Node, ...]
    scatter: Node


class Product(NamedTuple):
    """w |A X Bᵀ − C|², with A over (i, j), B over (k, c), C over (i, k)"""

    i: Index
    j: Index
    k: Index
    c: Index
    left: Node
    right: Node
    offset: Node
    weight: Node


class Observed(NamedTuple):
    """Σ over r of v |s X − Y|², with Y over (j, c) and r"""

    over: tuple[Index, ...]
    weight: Node
    slope: Node
    offset: Node


def kronecker_block(
    squares: Sequence[CoupledSquare], latents: Sequence[Leaf], common: Mapping[Node, float]
) -> KroneckerBlock | None:
    """The squares of one latent as such a problem, their weights divided by a common one; None where they are not."""
    if len(latents) != 1 or float(math.prod(latents[0].shape)) ** 3 < WORK:
        return None
    products = [(square, product) for square in squares if (product := _product(square, latents[0])) is not None]
    if len(products) != 1:
        return None
    ((prior, product),) = products
    observed = [_observed(square, product, latents[0]) for square in squares if square is not prior]
    known = [square for square in observed if square is not None]
    if not known or len(known) < len(observed):
        return None
    return _block(product, known, latents[0], common)


def _product(square: CoupledSquare, latent: Leaf) -> Product | None:
    """A square as one of the entries of A X Bᵀ − C; None where it is another."""
    if len(square.slopes) != 1 or len(square.over) != 2:
        return None
    ((_, slope),) = square.slopes
    columns = _columns(slope.place, slope.over, latent)
    if columns is None or square.weight.free:
        return None
    j, c = columns
    left: list[tuple[Node, float]] = []
    right: list[tuple[Node, float]] = []
    for base, exponent in factors_in(slope.coefficient):
        (right if c in base.free else left).append((base, exponent))
    A, B = multiply(left), multiply(right)
    rows = [tuple(A.free - {j}), tuple(B.free - {c})]
    if any(len(row) != 1 for row in rows) or {*rows[0], *rows[1]} != set(square.over):
        return None
    (i,), (k,) = rows
    if i.size != j.size or k.size != c.size or square.offset.free - {i, k}:
        return None
    return Product(i, j, k, c, A, B, square.offset, square.weight)


def _columns(place: Place, over: tuple[Index, ...], latent: Leaf) -> tuple[Index, Index] | None:
    """j and c of an entry X[j, c], or x[m j + c] of a vector with m values of c."""
    if len(over) != 2:
        return None
    for j, c in (over, over[::-1]):
        if place == _place(j, c, latent) and latent.shape in ((j.size, c.size), (j.size * c.size,)):
            return j, c
    return None


def _place(j: Index, c: Index, latent: Leaf) -> Place:
    if len(latent.shape) == 2:
        return index(j), index(c)
    return (_flat(j, c),)


def _flat(j: Index, c: Index) -> Node:
    return plus(scale(float(c.size), index(j)), index(c))


def _observed(square: CoupledSquare, product: Product, latent: Leaf) -> Observed | None:
    """A square as one of every entry, each with the same weight and slope; None where it is another."""
    if len(square.slopes) != 1 or square.slopes[0][1].over:
        return None
    ((_, slope),) = square.slopes
    cells = frozenset[Index]().union(*(part.free for part in slope.place))
    names = _cell_indices(slope.place, cells, product, latent)
    fixed = square.weight.free | slope.coefficient.free
    if names is None or cells - set(square.over) or cells & fixed or not is_never_zero(slope.coefficient):
        return None
    over = tuple(i for i in square.over if i not in cells)
    offset = replaced(square.offset, names)
    if (fixed | offset.free) - {product.j, product.c, *over}:
        return None
    return Observed(over, square.weight, slope.coefficient, offset)


def _cell_indices(place: Place, cells: frozenset[Index], product: Product, latent: Leaf) -> dict[Node, Node] | None:
    """The indices of the entry of a square in terms of j and c; None where not every entry stands in one square."""
    j, c = product.j, product.c
    candidates: list[dict[Node, Node]] = []
    if len(cells) == 1:
        (t,) = cells
        candidates = [{index(t): _flat(j, c)}] if t.size == j.size * c.size else []
    elif len(cells) == 2:
        candidates = [
            {index(t): index(j), index(u): index(c)}
            for t, u in (tuple(cells), tuple(cells)[::-1])
            if (t.size, u.size) == (j.size, c.size)
        ]
    expected = _place(j, c, latent)
    return next((names for names in candidates if tuple(replaced(part, names) for part in place) == expected), None)


def _block(
    product: Product, observed: Sequence[Observed], latent: Leaf, common: Mapping[Node, float]
) -> KroneckerBlock:
    j, c = product.j, product.c
    noise = add((total(part.over, times(part.weight, power(part.slope, 2.0))), 1.0) for part in observed)
    if len(observed) == 1 and not observed[0].over:
        mean, scatter = divide(observed[0].offset, observed[0].slope), ZERO
    else:
        pushes = (total(part.over, times(part.weight, part.slope, part.offset)) for part in observed)
        mean = divide(add((push, 1.0) for push in pushes), noise)
        gaps = ((p, minus(p.offset, times(p.slope, mean))) for p in observed)
        scatter = add((total((*p.over, j, c), times(p.weight, power(gap, 2.0))), 1.0) for p, gap in gaps)
    weight, noise = (
        multiply([(part, 1.0), *((base, -exponent) for base, exponent in common.items())])
        for part in (product.weight, noise)
    )
    rows = (
        matrix_rows((product.i, j), product.left),
        matrix_rows((product.k, c), product.right),
        matrix_rows((product.i, product.k), product.offset),
        matrix_rows((j, c), mean),
        matrix_rows((), weight),
        matrix_rows((), noise),
    )
    frame = Unknowns(None, j.size * c.size, kronecker=(j.size, c.size))
    return KroneckerBlock(LatentLayout((), frame, (), {latent: 0}, flipped=False), rows, scatter)


def matrix_rows(over: Sequence[Index], entry: Node) -> Node:
    """A matrix or a number by its entry, the indices in this order."""
    return closed("rows", tuple(over), node("call", "row", *map(index, over), entry))
