"""Matrices that are a positive number times a known one, or times one that is positive definite whatever it is."""

from __future__ import annotations

from typing import NamedTuple

from fubini.algebra.build import ONE, ZERO, as_product, call, const, divide, get, index, multiply
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.ranges import is_not_negative, is_surely_positive
from fubini.read.jaxpr_reader import Reader
from fubini.read.symbolic_array import SymbolicArray


def without_scale(matrix: SymbolicArray, reader: Reader) -> tuple[Node, SymbolicArray]:
    """A matrix as a positive number times another one: v K, with an unknown variance, or S / k, with an unknown S."""
    if (latent := positive_definite_entries(matrix)) is not None:
        return latent.front, SymbolicArray(matrix.shape, lambda *at: get(latent.leaf, *latent.places(matrix, at)))
    fresh = [Index(size) for size in matrix.shape]
    entry = matrix.at(*map(index, fresh))
    factors: tuple = entry.args if entry.kind == "mul" else entry.args[0][0].args if _is_scaled(entry) else ()
    outside = [
        (base, e) for base, e in factors if not base.free and is_not_negative(base) and base.leaves - set(reader.known)
    ]
    if not outside:
        return ONE, matrix
    front = multiply(outside)
    rest = SymbolicArray(matrix.shape, lambda *at: divide(matrix.at(*at), front))
    if reader.numbers(rest) is not None:
        return front, reader.made_of("matrix", matrix.shape, lambda part: part, rest)
    is_data = not any(leaf.role in ("site", "opaque") for leaf in rest.at(*map(index, fresh)).leaves)
    return (front, rest) if is_data else (ONE, matrix)


def _is_scaled(of: Node) -> bool:
    return of.kind == "add" and len(of.args) == 1 and of.args[0][0].kind == "mul"


class PositiveDefiniteEntries(NamedTuple):
    """front · X[…], of a leaf X of positive definite matrices."""

    front: Node  # a number that is positive, or not a number where it would not be
    leaf: Leaf

    def places(self, matrix: SymbolicArray, at: tuple[Node, ...]) -> tuple[Node, ...]:
        """The indices of an entry of the leaf, at those of the matrix."""
        _, factors = as_product(matrix.at(*at))
        return next(base.args[1:] for base in factors if base.kind == "get" and base.args[0] is self.leaf)


def positive_definite_entries(matrix: SymbolicArray) -> PositiveDefiniteEntries | None:
    """A matrix as a number times one of the matrices of a leaf that are positive definite; None where it is not one."""
    fresh = [Index(size) for size in matrix.shape]
    at = tuple(ZERO if i.size == 1 else index(i) for i in fresh)
    coefficient, factors = as_product(matrix.at(*at))
    entries = [base for base, e in factors.items() if e == 1 and _is_positive_definite(base)]
    if coefficient <= 0 or len(entries) != 1 or entries[0].args[-2:] != at[-2:] or at[-2:].count(ZERO) == 1:
        return None
    (entry,) = entries
    own = set(fresh[-2:])
    others = multiply((base, e) for base, e in factors.items() if base is not entry)
    if others.free & set(fresh) or any(part.free & own for part in entry.args[1:-2]):
        return None
    front = multiply([(const(coefficient), 1.0), (others, 1.0)])
    if others is not ONE and not is_surely_positive(front):
        front = call("positive", front)
    return PositiveDefiniteEntries(front, entry.args[0])


def _is_positive_definite(of: Node) -> bool:
    return of.kind == "get" and of.args[0].is_positive_definite
