"""A positive definite matrix, eliminated by a root of it: c log |P| − ½ tr(P B), P = AᵀA the matrix or its inverse.

Densities are written in the entries of A: squares of A r, and logarithms of its diagonal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fubini.algebra.binding import closed, opened, replaced
from fubini.algebra.build import ZERO, add, factors_in, index, multiply, negate, scale, times
from fubini.algebra.features import Divergent, Monomial, NoClosedForm, Place, Slope, Square, monomials, squares
from fubini.algebra.node import Index, Leaf, Node, node
from fubini.algebra.sums import total
from fubini.families.family import recognise
from fubini.families.functions import is_never_positive
from fubini.integrate.elimination import Eliminated, require_inside
from fubini.integrate.finite import tests
from fubini.numerics.least_squares import Unknowns


class Scatter(NamedTuple):
    """Σ_J −½ weight · |A r|² of the matrix at some indices, with r = Σ of slopes."""

    over: tuple[Index, ...]
    weight: Node
    slopes: tuple[Slope, ...]  # the last of the place is the column

    def entry(self, j: Index, k: Index) -> Node:
        """Σ_J weight · r_j r_k"""
        return total(self.over, times(self.weight, self._at(j), self._at(k)))

    def _at(self, column: Index) -> Node:
        """r_j"""
        parts = (total(s.over, times(s.coefficient, tests(s.place[-1:], (column,)))) for s in self.slopes)
        return add((part, 1.0) for part in parts)

    def row(self) -> Node:
        """√weight · rᵀ for each J, whose products with themselves add up to B."""
        slopes = (closed("slopes", s.over, node("call", "slope", s.place[-1], s.coefficient)) for s in self.slopes)
        return closed("rows", self.over, node("call", "row", self.weight, ZERO, *slopes))


def eliminate_matrix(terms: Sequence[Node], latent: Leaf) -> Eliminated:
    """log ∫ exp(Σ terms) over positive definite matrices."""
    rest = tuple(term for term in terms if latent not in term.leaves)
    with_latent = add((term, 1.0) for term in terms if latent in term.leaves)
    root = _root_of(with_latent, latent)
    at = tuple(Index(size, "i") for size in latent.shape[:-2])
    p = latent.shape[-1]
    powers: list[Node] = []
    scatters: list[Scatter] = []
    outside: list[Node] = []
    for part in _parts(with_latent, root, latent):
        _require_without(part, latent)
        if isinstance(part, Square):
            scatters.append(_scatter(part, root, latent, at))
        elif part.features:
            powers.append(_power(part, root, latent, at))
        else:
            outside.append(total(part.over, part.coefficient))
    if not scatters:
        raise Divergent(latent, with_latent)
    j, k = Index(p, "j"), Index(p, "k")
    entry = add((scatter.entry(j, k), 1.0) for scatter in scatters)
    rows = (scatter.row() for scatter in scatters)
    log_determinant = node("logdet", Unknowns(None, p), *rows)
    assert root.root_of is not None
    distribution = recognise("root", root.root_of[1], p, add((part, 0.5) for part in powers), entry, log_determinant)
    assert distribution is not None
    whole = add((part, 1.0) for part in outside)
    value = total(at, distribution.log_normaliser)
    return Eliminated((*rest, *([] if whole is ZERO else [whole]), value), (*at, j, k), distribution)


def _root_of(with_latent: Node, latent: Leaf) -> Leaf:
    """The one root in which the density is written; an error where it is in the matrix itself, or in two roots."""
    roots = [leaf for leaf in with_latent.leaves if leaf.root_of is not None and leaf.root_of[0] is latent]
    if len(roots) != 1:
        why = "a density of it as a covariance matrix alone, or as a precision matrix alone"
        raise NoClosedForm(latent, with_latent, why)
    return roots[0]


def _parts(of: Node, root: Leaf, latent: Leaf) -> Iterator[Square | Monomial]:
    """The terms of a node: squares of forms in A, and logarithms of its entries."""
    if root not in of.leaves:
        yield Monomial((), of)
    elif of.kind == "add":
        for part, coefficient in of.args:
            for term in _parts(part, root, latent):
                yield _weighed(term, scale(coefficient, _weight(term)))
    elif of.kind == "sum":
        over, body = opened(of)
        for term in _parts(body, root, latent):
            yield term._replace(over=(*over, *term.over))
    elif of.kind == "where" and latent not in of.args[0].leaves:
        test, first, second = of.args
        for case, part in ((test, first), (negate(test), second)):
            for term in _parts(part, root, latent):
                yield _weighed(term, times(case, _weight(term)))
    else:
        yield from _of_product(of, root, latent)


def _of_product(of: Node, root: Leaf, latent: Leaf) -> Iterator[Square | Monomial]:
    factors = list(factors_in(of))
    inside = [(base, exponent) for base, exponent in factors if root in base.leaves]
    if len(inside) == 1 and inside[0][1] == 1 and inside[0][0].kind in ("sum", "add", "where"):
        outside = multiply(factor for factor in factors if factor not in inside)
        for term in _parts(inside[0][0], root, latent):
            yield _weighed(term, times(outside, _weight(term)))
        return
    is_log = len(inside) == 1 and inside[0][0].kind == "call" and inside[0][0].args[0] == "log"
    try:
        yield from monomials(of, root) if is_log else squares(of, root)
    except NoClosedForm as error:
        raise NoClosedForm(latent, error.node, "squares of vectors times a root of it, and its determinant") from None


def _weight(term: Square | Monomial) -> Node:
    return term.weight if isinstance(term, Square) else term.coefficient


def _weighed(term: Square | Monomial, weight: Node) -> Square | Monomial:
    if isinstance(term, Square):
        return term._replace(weight=weight)
    return term._replace(coefficient=weight)


def _require_without(part: Square | Monomial, latent: Leaf) -> None:
    """The latent is in the root alone, not in what is multiplied by it."""
    beside = (
        [part.weight, part.offset, *(slope.coefficient for slope in part.slopes)] if isinstance(part, Square) else []
    )
    for entry in beside or [_weight(part)]:
        if latent in entry.leaves:
            raise NoClosedForm(latent, entry, "squares of vectors times a root of it, and its determinant")


# -- one term --------------------------------------------------------------------------------------------------------


def _power(part: Monomial, root: Leaf, latent: Leaf, at: tuple[Index, ...]) -> Node:
    """n of n Σ_i log A_ii, the matrix at some indices."""
    feature = part.features[0]
    *outer, row, column = feature.place
    if feature.kind != "log" or row is not column or not _is_every_row(row, part.over, root, (part.coefficient,)):
        raise NoClosedForm(latent, part.coefficient, "the determinant of it")
    over = tuple(i for i in part.over if index(i) is not row)
    moved = _moved(over, tuple(outer), at)
    if moved is not None:
        over, names = moved
        return total(over, replaced(part.coefficient, names))
    require_inside(feature.place, part.coefficient, root)
    return total(over, times(part.coefficient, tests(tuple(outer), at)))


def _scatter(part: Square, root: Leaf, latent: Leaf, at: tuple[Index, ...]) -> Scatter:
    """Squares of all entries of A r together."""
    outer, row = part.slopes[0].place[:-2], part.slopes[0].place[-2]
    inside = (part.weight, *(slope.coefficient for slope in part.slopes))
    is_one_row = all(slope.place[:-1] == part.slopes[0].place[:-1] for slope in part.slopes)
    if part.offset is not ZERO or not is_one_row or not _is_every_row(row, part.over, root, inside):
        raise NoClosedForm(latent, part.weight, "squares of vectors times a root of it")
    if is_never_positive(part.weight):
        raise NoClosedForm(latent, part.weight, "squares with positive weights")
    over = tuple(i for i in part.over if index(i) is not row)
    moved = _moved(over, outer, at)
    if moved is None:
        require_inside(part.slopes[0].place, part.weight, root)
        return Scatter(over, times(part.weight, tests(outer, at)), part.slopes)
    over, names = moved
    slopes = (
        Slope(s.over, replaced(s.coefficient, names), tuple(replaced(part, names) for part in s.place))
        for s in part.slopes
    )
    return Scatter(over, replaced(part.weight, names), tuple(slopes))


def _is_every_row(row: Node, over: Sequence[Index], root: Leaf, beside: Sequence[Node]) -> bool:
    """A sum over all rows of A, with nothing beside that differs between them."""
    p = root.shape[-1]
    if p == 1:
        return row is ZERO
    i = row.args[0] if row.kind == "index" else None
    return i in over and i is not None and i.size == p and not any(i in entry.free for entry in beside)


def _moved(
    over: tuple[Index, ...], place: Place, at: tuple[Index, ...]
) -> tuple[tuple[Index, ...], dict[Node, Node]] | None:
    """Indices that say which matrix it is, as those of the batch; None where others say it."""
    indices = [part.args[0] if part.kind == "index" else None for part in place]
    if len(set(indices)) != len(indices):
        return None
    for i, part, target in zip(indices, place, at, strict=True):
        is_only = target.size == 1 and part is ZERO
        if not is_only and (i not in over or i is None or i.size != target.size):
            return None
    names = {index(i): index(target) for i, target in zip(indices, at, strict=True) if i is not None}
    return tuple(i for i in over if index(i) not in names), names
