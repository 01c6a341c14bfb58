"""Matrices that are a positive number times a known one."""

from __future__ import annotations

from fubini.algebra.build import ONE, divide, index, multiply
from fubini.algebra.node import Index, Node
from fubini.algebra.ranges import is_not_negative
from fubini.read.jaxpr_reader import Reader
from fubini.read.symbolic_array import SymbolicArray


def without_scale(matrix: SymbolicArray, reader: Reader) -> tuple[Node, SymbolicArray]:
    """A matrix as a positive number times another one, which is known: v K, with an unknown variance."""
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
    numbers = reader.numbers(rest)
    return (ONE, matrix) if numbers is None else (front, reader.constant(numbers))


def _is_scaled(of: Node) -> bool:
    return of.kind == "add" and len(of.args) == 1 and of.args[0][0].kind == "mul"
