"""Squares of normal vectors in rows of few entries: Σ_r (Σ_w a_rw x[c_rw])², with known columns c."""

from __future__ import annotations

from fubini.algebra.build import ZERO, index, power, times
from fubini.algebra.node import Index, Node
from fubini.algebra.sums import total
from fubini.families.parameters import MatrixParameters, Vector
from fubini.numerics.sparse_roots import RowBlock


def square_of(block: RowBlock, x: Vector, matrices: MatrixParameters) -> Node:
    """|A x|², of the rows of a block"""
    rows, entries = block.columns.shape
    r, w = Index(rows), Index(entries, "w")
    at = (index(r), index(w) if entries > 1 else ZERO)
    column, entry = (matrices.constant(part)(*at) for part in (block.columns, block.entries))
    return total([r], power(total([w] if entries > 1 else [], times(entry, x.at(column))), 2.0))
