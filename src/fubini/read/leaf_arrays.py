"""The arrays that leaves stand for: those that are given, and those that functions make of them."""

from __future__ import annotations

from collections.abc import Mapping

import jax.numpy as jnp

from fubini.algebra.build import index
from fubini.algebra.evaluation import Evaluation
from fubini.algebra.node import Index, Leaf
from fubini.base.arrays import Data
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
