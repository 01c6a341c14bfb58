"""What circuits cost: two numbers for each leaf and one for each element, in each cell of their batch."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from fubini.base.names import Name
from fubini.numerics.vtree import Vtree
from fubini.terms.storage import DENSE, DenseStorage, Sizes, Storage


@dataclass(frozen=True)
class CircuitStorage(Storage):
    """The costs of a circuit over vtrees side by side, `slots` the names of their leaves; other names are its batch.

    A table of one variable goes into its weights, and a table of several is taken to be small beside it.
    """

    vtrees: tuple[Vtree, ...]
    slots: tuple[Name | None, ...]
    numbers: int  # of one cell of the batch: 2 · leaves + elements
    at_once: bool = True  # one pass over the elements sums over any number of variables

    def size(self, names: Collection[Name], sizes: Sizes, dimensions: Sizes) -> int:
        return self.numbers * math.prod([sizes[name] for name in names if name not in self.slots])

    def joined(self, other: Storage) -> Storage | None:
        """Over one vtree a · b elements, one for each pair; over two vtrees side by side a + b."""
        if isinstance(other, DenseStorage):
            return self
        if not isinstance(other, CircuitStorage):
            return None
        if self.vtrees == other.vtrees and all(map(_agree, self.slots, other.slots)):
            slots = tuple(b if a is None else a for a, b in zip(self.slots, other.slots, strict=True))
            return CircuitStorage(self.vtrees, slots, self.numbers * other.numbers)
        if {*self.slots} & {*other.slots} - {None}:
            return None
        return CircuitStorage(self.vtrees + other.vtrees, self.slots + other.slots, self.numbers + other.numbers)

    def summed(self, kept: Collection[Name]) -> Storage:
        """Of two variables or more a circuit remains, of fewer a table."""
        return self if len({*kept}.intersection(self.slots)) > 1 else DENSE


def _agree(a: Name | None, b: Name | None) -> bool:
    return a is None or b is None or a == b
