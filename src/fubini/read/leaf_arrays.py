"""The arrays that leaves stand for: those that are given, and those that functions make of them.

Also the numbers of sums over rows that lie on a mesh: one program for all that are asked for at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import jax
import jax.numpy as jnp

from fubini.algebra.axes import Axes
from fubini.algebra.build import index
from fubini.algebra.evaluation import Evaluation
from fubini.algebra.mesh_sums import mesh_sums
from fubini.algebra.node import Index, Leaf, Node
from fubini.base.arrays import Data, double_precision, is_traced
from fubini.base.stream import refuse_rows
from fubini.read.jaxpr_reader import Reader
from fubini.read.symbolic_array import SymbolicArray


class LeafArrays(dict):
    """The arrays of leaves; what is opaque is computed when it is first read."""

    def __init__(self, given: Mapping[Leaf, Data], reader: Reader) -> None:
        super().__init__(given)
        self.reader = reader

    def __missing__(self, leaf: Leaf) -> Data:
        known = self.reader.known.get(leaf)
        if known is not None:
            return known
        if leaf in self.reader.rows:
            refuse_rows(stream=self.reader.rows[leaf])
        made = self.reader.opaque[leaf]
        data = self[leaf] = made.function(*(self.whole(part) for part in made.operands))
        return data

    def whole(self, part: SymbolicArray) -> Data:
        """All entries of a symbolic array."""
        order = tuple(Index(size) for size in part.shape)
        axes = Evaluation(self).of(part.at(*map(index, order)))
        kept = [axes.of.index(i) for i in order if i in axes.of]
        shape = [i.size if i in axes.of else 1 for i in order]
        return jnp.broadcast_to(jnp.transpose(axes.data, kept).reshape(shape), part.shape)

    def sum_on_mesh(self, this: Node) -> Axes | None:
        """A sum over rows that lie on a mesh, where these are known; None of all others."""
        return sums_over_mesh(self.reader, [this]).get(this)


def sums_over_mesh(reader: Reader, roots: Iterable[Node]) -> dict[Node, Axes]:
    """The sums in nodes over rows on a mesh that data alone decide, in double precision; each is computed once."""
    if not reader.placed or is_traced(*reader.known.values()):
        return {}
    wanted = mesh_sums(roots, reader.placed, lambda leaf: _is_unknown(leaf, reader))
    missing = [this for this in wanted if this not in reader.sums]
    if missing:
        orders: list[tuple[Index, ...]] = []

        def compute(known: list[Data]) -> list[Data]:
            evaluation = Evaluation(LeafArrays(dict(zip(reader.known, known, strict=True)), reader))
            axes = [evaluation.of(this) for this in missing]
            orders.extend(one.of for one in axes)
            return [one.data for one in axes]

        with double_precision(), jax.ensure_compile_time_eval():
            numbers = jax.device_get(jax.jit(compute)(list(reader.known.values())))
        reader.sums.update(zip(missing, map(Axes, numbers, orders), strict=True))
    return {this: reader.sums[this] for this in wanted}


def _is_unknown(leaf: Leaf, reader: Reader) -> bool:
    """Neither known nor computed from what is."""
    return leaf not in reader.known and not (leaf in reader.opaque and leaf.of <= set(reader.known))
