"""Kronecker products among the arrays of a program: jnp.kron(K, L), also times a number, or of another type."""

from __future__ import annotations

from typing import Any

from fubini.algebra.build import ONE, call, const, divide, index, minus, scale, times
from fubini.algebra.node import Index, Node
from fubini.read.symbolic_array import KroneckerProduct, SymbolicArray

LARGE = 200  # rows, from which the product is not made where its numbers are known
SAME = frozenset(("convert_element_type", "copy", "broadcast_in_dim", "reshape", "optimization_barrier"))


def large_product(equation: Any, operands: list[SymbolicArray]) -> SymbolicArray | None:
    """c K ⊗ L of square matrices by its entries, as long as it has many; None of another equation."""
    name = equation.primitive.name
    if name in ("jit", "pjit") and equation.params.get("name") == "kron" and len(operands) == 2:
        left, right = operands
        is_square = all(part.rank == 2 and part.shape[0] == part.shape[1] for part in operands)
        return _product(KroneckerProduct(ONE, left, right)) if is_square else None
    if name in SAME and operands[0].kronecker is not None and equation.outvars[0].aval.shape == operands[0].shape:
        return operands[0]
    if name in ("mul", "div") and any(part.kronecker is not None for part in operands):
        return _scaled(*operands, divides=name == "div")
    return None


def _product(of: KroneckerProduct) -> SymbolicArray | None:
    size = of.right.shape[0]
    rows = of.left.shape[0] * size

    def at(row: Node, column: Node) -> Node:
        (i, k), (j, c) = _split(row, size), _split(column, size)
        return times(of.front, of.left.at(i, j), of.right.at(k, c))

    if rows < LARGE:
        return None
    array = SymbolicArray((rows, rows), at)
    array.kronecker = of
    return array


def _split(place: Node, size: int) -> tuple[Node, Node]:
    quotient = call("quotient", place, const(float(size)))
    return quotient, minus(place, scale(float(size), quotient))


def _scaled(first: SymbolicArray, second: SymbolicArray, divides: bool) -> SymbolicArray | None:
    """A product times a number, or divided by one."""
    of, other = (first, second) if first.kronecker is not None else (second, first)
    number = other.at(*(index(Index(size)) for size in other.shape))
    if of.kronecker is None or number.free or (divides and of is second):
        return None
    front = (divide if divides else times)(of.kronecker.front, number)
    return _product(of.kronecker._replace(front=front))
