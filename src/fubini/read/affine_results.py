"""What has no rule of its own but is affine in some operands: b + Σ_i A[…, i] x[i], A and b computed as they stand.

Loops with a linear recursion, solutions of linear systems and convolutions are such; of a long scan A is not made.
Whether an equation is affine is told from its primitives alone, never from numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from fubini.algebra.build import ZERO, index, plus, times
from fubini.algebra.leaf import Response
from fubini.algebra.node import Index, Node
from fubini.algebra.responses import MOST_ENTRIES
from fubini.algebra.sums import total
from fubini.base.arrays import Data, precisely
from fubini.read.degrees import ENTRIES, degree_of, is_real
from fubini.read.recursions import RecursionReader, is_slice, no_matrix, responses
from fubini.read.symbolic_array import SymbolicArray


class Reader(RecursionReader, Protocol):
    """What is asked of the reader of a program."""

    def numbers(self, array: SymbolicArray) -> Data | None:
        """The numbers of an array that depends on known ones alone."""
        ...

    def computed(
        self, name: str, shape: tuple[int, ...], function: Callable[..., Data], operands: tuple[SymbolicArray, ...]
    ) -> SymbolicArray:
        """What a function makes of arrays."""
        ...

    def response(
        self,
        name: str,
        shape: tuple[int, ...],
        function: Callable[..., Data],
        operands: tuple[SymbolicArray, ...],
        response: Response,
    ) -> SymbolicArray:
        """A matrix that a function makes of arrays, and that follows from a linear recursion."""
        ...


def affine_result(
    reader: Reader, equation: Any, place: int, operands: Sequence[SymbolicArray], compute: Callable[..., Data]
) -> SymbolicArray | None:
    """One result of an equation as an affine function of some operands; None where it is affine in none.

    `compute` makes the result of arrays. Larger operands are tried first, since the others stay inside of A and b.
    """
    var = equation.outvars[place]
    if not is_real(var) or equation.primitive.name in ENTRIES:
        return None
    open_ones = [k for k, part in enumerate(operands) if reader.numbers(part) is None and is_real(equation.invars[k])]
    small = [k for k in open_ones if math.prod((*var.aval.shape, *operands[k].shape)) <= MOST_ENTRIES]

    def choose(among: Sequence[int]) -> tuple[list[int], tuple[SymbolicArray, ...]]:
        chosen: list[int] = []
        for k in sorted(among, key=lambda k: -math.prod(operands[k].shape)):
            if degree_of(equation, place, {*chosen, k}) == 1:
                chosen.append(k)
        return chosen, tuple(part for k, part in enumerate(operands) if k not in chosen)

    chosen, others = choose([k for k in open_ones if k in small or is_slice(equation, k)])
    by_recursion = responses(reader, equation, place, chosen, others)
    if any(k not in small and k not in by_recursion for k in chosen):
        chosen, others = choose(small)
        by_recursion = responses(reader, equation, place, chosen, others)
    if not chosen:
        return None
    shapes = [part.shape for part in operands]

    def at_points(points: Sequence[Data], given: Sequence[Data]) -> Data:
        """The result where the chosen operands are at these points."""
        mixed, rest = dict(zip(chosen, points, strict=True)), iter(given)
        return compute(*(mixed[k] if k in mixed else next(rest) for k in range(len(operands))))

    def origin() -> list[Data]:
        return [jnp.zeros(shapes[k]) for k in chosen]

    def offset(*given: Data) -> Data:
        return at_points(origin(), given)

    def coefficients(slot: int) -> Callable[..., Data]:
        return lambda *given: jax.jacfwd(lambda points: at_points(points, given))(origin())[slot]

    name, shape = equation.primitive.name, var.aval.shape
    base = reader.computed(name, shape, precisely(offset), others)

    def matrix(slot: int, k: int) -> SymbolicArray:
        function = precisely(coefficients(slot))
        if k in by_recursion:
            if k not in small:
                function = no_matrix(equation, (*shape, *shapes[k]))
            return reader.response(name, (*shape, *shapes[k]), function, others, by_recursion[k])
        return reader.computed(name, (*shape, *shapes[k]), function, others)

    matrices = [matrix(slot, k) for slot, k in enumerate(chosen)]

    def entry(*at: Node) -> Node:
        parts = [_product(matrix, operands[k], at) for k, matrix in zip(chosen, matrices, strict=True)]
        return plus(base.at(*at), *parts)

    return SymbolicArray(shape, entry)


def _product(matrix: SymbolicArray, x: SymbolicArray, at: Sequence[Node]) -> Node:
    """Σ_i A[at, i] x[i]"""
    indices = [Index(size) if size != 1 else None for size in x.shape]
    places = [ZERO if i is None else index(i) for i in indices]
    return total([i for i in indices if i is not None], times(matrix.at(*at, *places), x.at(*places)))
