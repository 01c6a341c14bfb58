"""Rules of the reader: sums along axes, and products of matrices."""

from __future__ import annotations

from typing import Any

from fubini.algebra.build import index, less, negate, times
from fubini.algebra.node import Index, Node
from fubini.algebra.sums import total
from fubini.read.jaxpr_reader import Reader, rule
from fubini.read.symbolic_array import SymbolicArray


@rule("reduce_sum")
def read_sum(reader: Reader, equation: Any, a: SymbolicArray) -> SymbolicArray:
    """Σ over some axes"""
    axes = equation.params["axes"]
    shape = equation.outvars[0].aval.shape

    def at(*where_: Node) -> Node:
        fresh = {axis: Index(a.shape[axis]) for axis in axes}
        outer = iter(where_)
        return total(fresh.values(), a.at(*(index(fresh[k]) if k in fresh else next(outer) for k in range(a.rank))))

    return SymbolicArray(shape, at)


@rule("cumsum")
def read_cumsum(reader: Reader, equation: Any, a: SymbolicArray) -> SymbolicArray:
    """Σ_{k ≤ i}"""
    axis, reverse = equation.params["axis"], equation.params["reverse"]

    def at(*where_: Node) -> Node:
        fresh = Index(a.shape[axis])
        place, k = where_[axis], index(fresh)
        inside = negate(less(k, place) if reverse else less(place, k))
        return total([fresh], times(inside, a.at(*where_[:axis], k, *where_[axis + 1 :])))

    return SymbolicArray(a.shape, at)


@rule("dot_general")
def read_dot(reader: Reader, equation: Any, a: SymbolicArray, b: SymbolicArray) -> SymbolicArray:
    """Σ_k a[…, k] b[k, …]"""
    (inner_a, inner_b), (batch_a, batch_b) = equation.params["dimension_numbers"]
    rest_a = [axis for axis in range(a.rank) if axis not in (*inner_a, *batch_a)]
    rest_b = [axis for axis in range(b.rank) if axis not in (*inner_b, *batch_b)]

    def at(*where_: Node) -> Node:
        fresh = [Index(a.shape[axis]) for axis in inner_a]
        outer = list(where_)
        batch, others = outer[: len(batch_a)], outer[len(batch_a) :]
        of_a: dict[int, Node] = {**dict(zip(batch_a, batch, strict=True)), **dict(zip(rest_a, others, strict=False))}
        of_b: dict[int, Node] = {
            **dict(zip(batch_b, batch, strict=True)),
            **dict(zip(rest_b, others[len(rest_a) :], strict=True)),
        }
        for i, axis_a, axis_b in zip(fresh, inner_a, inner_b, strict=True):
            of_a[axis_a] = of_b[axis_b] = index(i)
        entries = a.at(*(of_a[k] for k in range(a.rank))), b.at(*(of_b[k] for k in range(b.rank)))
        return total(fresh, times(*entries))

    return SymbolicArray(equation.outvars[0].aval.shape, at)
