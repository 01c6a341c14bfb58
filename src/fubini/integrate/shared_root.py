"""Normal vectors whose covariance is a matrix S times known numbers, the same S in all of their squares.

Σ w |A (s x − o)|²  =  W |A (x − x̂)|² + Σ w |A (o − s x̂)|²,  W = Σ w s²,  x̂ = Σ w s o / W,  with AᵀA = S^(±1)

Written so, what remains is squares of vectors times A again, from which S can be eliminated too. Vectors x_k that are
coupled, Σ w |A (Σ_k s_k x_k − o)|², are eliminated one after the other, and the s_k made orthogonal on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from fubini.algebra.binding import replaced
from fubini.algebra.build import ZERO, add, const, divide, equal, get, index, minus, plus, power, scale, times
from fubini.algebra.features import NoClosedForm, Place, Slope, linear
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.sums import total
from fubini.families.functions import log, log_rate
from fubini.integrate.coupling import CoupledSquare
from fubini.integrate.elimination import require_inside
from fubini.integrate.finite import tests

FEW = 16  # coupled vectors


class SharedRoot(NamedTuple):
    """log |precision| of all vectors, and the least sum of squares."""

    log_determinant: Node
    least: Node


class VectorSquare(NamedTuple):
    """Σ_J w |A (s x − o)|², with x at a place, and o by its entry at a column."""

    over: tuple[Index, ...]
    weight: Node
    slope: Node
    place: Place
    row: Index
    column: Index
    offset: Node


def shared_root(squares: Sequence[CoupledSquare], latents: Sequence[Leaf]) -> SharedRoot | None:
    """The integral of a normal vector, or of independent ones, in terms of the root that all squares share."""
    if len(latents) != 1 or not latents[0].shape:
        return None
    (latent,) = latents
    roots = {leaf for square in squares for leaf in _leaves(square) if _is_of_latent(leaf)}
    if len(roots) != 1 or latent.shape[-1] == 1:
        return None
    (root,) = roots
    if root.shape[-1] != latent.shape[-1] or root.shape[:-2] not in ((), latent.shape[:-1]):
        return None
    try:
        vectors = [vector_square(square, root, latent) for square in squares]
        if all(vector is not None for vector in vectors):
            return _integrated([vector for vector in vectors if vector is not None], root, latent)
        combinations = [_combination(square, root, latent) for square in squares]
    except NoClosedForm:
        return None
    if any(one is None for one in combinations):
        return None
    return _orthogonalised([one for one in combinations if one is not None], root, latent)


def _leaves(square: CoupledSquare) -> set[Leaf]:
    nodes = (square.weight, square.offset, *(slope.coefficient for _, slope in square.slopes))
    return {leaf for each in nodes for leaf in each.leaves}


def _is_of_latent(leaf: Leaf) -> bool:
    """Whether it is the root of matrices that are positive definite whatever they are."""
    return leaf.root_of is not None and leaf.root_of[0].is_positive_definite


def vector_square(square: CoupledSquare, root: Leaf, latent: Leaf) -> VectorSquare | None:
    """A square as one of the entries of A (s x − o); None where it is another."""
    if len(square.slopes) != 1 or root in square.weight.leaves:
        return None
    ((_, slope),) = square.slopes
    of_root, remaining = linear(slope.coefficient, root)
    if len(of_root) != 1 or remaining is not ZERO or of_root[0].over or len(slope.over) != 1:
        return None
    (column,) = slope.over
    *outer, row, at = of_root[0].place
    factor = of_root[0].coefficient
    i = row.args[0] if row.kind == "index" else None
    if i is None or i not in square.over or i.size != latent.shape[-1] or slope.place[-1] is not index(column):
        return None
    if at is not index(column) or (outer and tuple(outer) != slope.place[:-1]):
        return None
    if {i, column} & (factor.free | square.weight.free) or any({i, column} & p.free for p in slope.place[:-1]):
        return None
    offset = _offset(square.offset, root, (*outer, row), column)
    if offset is None or i in offset.free or {root, *_behind(root)} & (factor.leaves | offset.leaves):
        return None
    require_inside(slope.place, square.weight, latent)
    over = tuple(j for j in square.over if j is not i)
    return VectorSquare(over, square.weight, factor, slope.place[:-1], i, column, offset)


def _behind(root: Leaf) -> tuple[Leaf, ...]:
    return () if root.root_of is None else (root.root_of[0],)


def _offset(offset: Node, root: Leaf, row: Place, column: Index) -> Node | None:
    """o_j of Σ_j A_ij o_j; None where it is another form."""
    slopes, remaining = linear(offset, root)
    if remaining is not ZERO or any(slope.place[:-1] != row for slope in slopes):
        return None
    return add((total(s.over, times(s.coefficient, tests(s.place[-1:], (column,)))), 1.0) for s in slopes)


def _integrated(vectors: Sequence[VectorSquare], root: Leaf, latent: Leaf) -> SharedRoot:
    at = tuple(Index(size, "i") for size in latent.shape[:-1])
    p = latent.shape[-1]
    j, i = Index(p, "j"), Index(p, "i")
    weights = [times(v.weight, v.slope, tests(v.place, at)) for v in vectors]
    whole = add((total(v.over, times(w, v.slope)), 1.0) for v, w in zip(vectors, weights, strict=True))
    pushes = [total(v.over, times(w, _at(v, j))) for v, w in zip(vectors, weights, strict=True)]
    mean = divide(add((push, 1.0) for push in pushes), whole)
    places = [] if len(root.shape) == 2 else [index(one) for one in at]
    diagonal = total([i], log(get(root, *places, index(i), index(i))))
    least = [_least(vector, mean, root, at, j) for vector in vectors]
    return SharedRoot(total(at, plus(scale(float(p), log_rate(whole)), scale(2.0, diagonal))), plus(*least))


def _at(vector: VectorSquare, column: Index) -> Node:
    return replaced(vector.offset, {index(vector.column): index(column)})


def _least(vector: VectorSquare, mean: Node, root: Leaf, at: Sequence[Index], j: Index) -> Node:
    """Σ w |A (o − s x̂)|², with x̂ at the place of the vector"""
    here = replaced(mean, dict(zip(map(index, at), vector.place, strict=True)))
    residual = minus(_at(vector, j), times(vector.slope, here))
    places = vector.place if len(root.shape) > 2 else ()
    row = total([j], times(get(root, *places, index(vector.row), index(j)), residual))
    return total((*vector.over, vector.row), times(vector.weight, power(row, 2.0)))


# -- coupled vectors --------------------------------------------------------------------------------------------------


class Combination(NamedTuple):
    """Σ_J w |A (Σ_k s_k x_k − o)|², with o by its entry at a column."""

    over: tuple[Index, ...]
    weight: Node
    slopes: tuple[Node, ...]
    row: Index
    column: Index
    offset: Node


def _combination(square: CoupledSquare, root: Leaf, latent: Leaf) -> Combination | None:
    """A square as one of the entries of A (Σ_k s_k x_k − o); None where it is another."""
    count = latent.shape[0]
    if len(latent.shape) != 2 or count > FEW or len(root.shape) != 2 or root in square.weight.leaves:
        return None
    j = Index(latent.shape[-1], "j")
    rows: set[Node] = set()
    factors: list[Slope] = []
    for _, slope in square.slopes:
        of_root, remaining = linear(slope.coefficient, root)
        column = slope.place[-1]
        if len(of_root) != 1 or remaining is not ZERO or of_root[0].over or column.kind != "index":
            return None
        row, at = of_root[0].place
        if at is not column or column.args[0] not in slope.over:
            return None
        require_inside(slope.place, square.weight, latent)
        others = tuple(i for i in slope.over if i is not column.args[0])
        if column.args[0] in of_root[0].coefficient.free | slope.place[0].free:
            return None
        rows.add(row)
        factors.append(Slope(others, of_root[0].coefficient, slope.place[:1]))
    (row, *more) = rows
    i = row.args[0] if row.kind == "index" else None
    if more or i is None or i not in square.over or i.size != latent.shape[-1] or i in square.weight.free:
        return None
    offset = _offset(square.offset, root, (row,), j)
    slopes = tuple(
        add((total(f.over, times(f.coefficient, _is_at(f.place[0], k))), 1.0) for f in factors) for k in range(count)
    )
    parts = (*slopes, *([] if offset is None else [offset]))
    if offset is None or any(i in part.free or {root, *_behind(root)} & part.leaves for part in parts):
        return None
    return Combination(tuple(n for n in square.over if n is not i), square.weight, slopes, i, j, offset)


def _is_at(place: Node, k: int) -> Node:
    """[place = k]"""
    return equal(place, const(float(k)))


def _orthogonalised(parts: Sequence[Combination], root: Leaf, latent: Leaf) -> SharedRoot:
    """Eliminate x_k for each k: W_k = Σ w s_k²; of the others, and of o, what is along s_k is subtracted."""
    count, p = latent.shape
    logs: list[Node] = []
    for k in range(count):
        whole = _inner(parts, lambda part, k=k: part.slopes[k], k)
        shares = [divide(_inner(parts, lambda part, m=m: part.slopes[m], k), whole) for m in range(k + 1, count)]
        j = Index(p, "j")
        push = divide(_inner(parts, lambda part, j=j: _column(part, j), k), whole)
        parts = [_without(part, k, shares, push, j) for part in parts]
        logs.append(log_rate(whole))
    i = Index(p, "i")
    diagonal = total([i], log(get(root, index(i), index(i))))
    determinant = plus(scale(float(p), plus(*logs)), scale(2.0 * count, diagonal))
    return SharedRoot(determinant, plus(*(_squared(part, root) for part in parts)))


def _inner(parts: Sequence[Combination], other: Callable[[Combination], Node], k: int) -> Node:
    """Σ w s_k · other, over all squares"""
    return add((total(part.over, times(part.weight, part.slopes[k], other(part))), 1.0) for part in parts)


def _without(part: Combination, k: int, shares: Sequence[Node], push: Node, j: Index) -> Combination:
    """s_m − s_k c_m  and  o − s_k x̂"""
    own = part.slopes[k]
    later = [minus(slope, times(own, share)) for slope, share in zip(part.slopes[k + 1 :], shares, strict=True)]
    here = replaced(push, {index(j): index(part.column)})
    slopes = (*part.slopes[: k + 1], *later)
    return part._replace(slopes=slopes, offset=minus(part.offset, times(own, here)))


def _column(part: Combination, j: Index) -> Node:
    return replaced(part.offset, {index(part.column): index(j)})


def _squared(part: Combination, root: Leaf) -> Node:
    """Σ w |A o|²"""
    row = total([part.column], times(get(root, index(part.row), index(part.column)), part.offset))
    return total((*part.over, part.row), times(part.weight, power(row, 2.0)))
