"""Storage: how many numbers a factor holds, and what a product or a sum of it costs.

The planner asks this of each representation, from structure alone: never from data. A storage is hashable, so that
plans are looked up by it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from fubini.base.names import Name

Sizes = Mapping[Name, int]


class Storage(ABC):
    """The costs of factors of one representation, a frozen dataclass.

    `sizes` are the values of each name, 1 of a variable that is no bounded integer; `dimensions` the numbers in each of
    those.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class AtMost(Storage):
    ...     '''A list of the cells that are not zero, of fixed length.'''
    ...     capacity: int
    ...     def size(self, names, sizes, dimensions):
    ...         return min(DENSE.size(names, sizes, dimensions), self.capacity)
    ...     def joined(self, other):
    ...         return self if other is DENSE else None
    >>> names = [f"x{k}" for k in range(100)]
    >>> joined_storage([AtMost(500), DENSE]).size(names, dict.fromkeys(names, 2), {})
    500
    """

    sliceable: bool = (
        False  # a name fixed to one value makes it smaller, and there are rules of MASK, PLACE, ACCUMULATE
    )
    at_once: bool = False  # it is multiplied by all that has no names but its own, then summed over all, in one step
    in_pairs: bool = False  # two of them, or one and a table, have a rule of CONTRACT: no product of them stays lazy

    @abstractmethod
    def size(self, names: Collection[Name], sizes: Sizes, dimensions: Sizes) -> int:
        """Numbers that a factor over the names holds."""

    def work(self, names: Collection[Name], sizes: Sizes, dimensions: Sizes) -> int:
        """Multiply-adds of a product over the names, and of its sum over some of them."""
        return self.size(names, sizes, dimensions)

    def joined(self, other: Storage) -> Storage | None:
        """The storage of a product with such a factor; None where the other one is to say."""
        return None

    def summed(self, kept: Collection[Name]) -> Storage:
        """The storage of a sum that keeps these names."""
        return self if kept else DENSE


@dataclass(frozen=True)
class DenseStorage(Storage):
    """A cell for each value of the bounded integers, and in each a matrix over the elements of the other variables."""

    sliceable = True
    in_pairs = True

    def size(self, names: Collection[Name], sizes: Sizes, dimensions: Sizes) -> int:
        cells = math.prod([sizes[name] for name in names])
        return cells if not dimensions else cells * (1 + _elements(names, dimensions) ** 2)

    def work(self, names: Collection[Name], sizes: Sizes, dimensions: Sizes) -> int:
        """A matrix is factorised in each cell."""
        size = self.size(names, sizes, dimensions)
        return size * max(1, _elements(names, dimensions)) if dimensions else size

    def joined(self, other: Storage) -> Storage | None:
        return self if isinstance(other, DenseStorage) else None


def _elements(names: Collection[Name], dimensions: Sizes) -> int:
    return sum([dimensions.get(name, 0) for name in names])


DENSE = DenseStorage()


def joined_storage(storages: Sequence[Storage]) -> Storage:
    """The storage of a product: as either of two says, dense where neither does."""
    return reduce(lambda a, b: a.joined(b) or b.joined(a) or DENSE, storages)
