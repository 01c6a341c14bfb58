"""What sparse factors, diagrams and trains hold, and what their products and sums cost: estimates for the planner.

Each knows the names that it was stored over, and how many numbers it holds there. Names that a product with tables
brings beside these multiply that. Counts are rounded up to powers of two, so that data which differ a little share
plans: a plan is looked up by the storages of its factors.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fubini.base.domains import Domain
from fubini.base.names import Name
from fubini.factors.train_order import natural_key
from fubini.terms.storage import DENSE, DenseStorage, Sizes, Storage

PAIR = 10  # multiply-adds in the time in which a pair of cells is found and multiplied
SMALL = 2**12  # cells that are joined as tables, however few are stored
ENTRY = 64  # multiply-adds in the time that one entry of a diagram takes

Extents = frozenset[tuple[Name, int]]  # names with the number of their values


def extents_of(inputs: Mapping[Name, Domain]) -> Extents:
    """The names of a factor with the number of their values."""
    return frozenset((name, domain.extent) for name, domain in inputs.items())


def round_up(count: int) -> int:
    """The least power of two that is no less.

    >>> [round_up(count) for count in (0, 1, 5, 64, 65)]
    [1, 1, 8, 64, 128]
    """
    return 1 << max(0, count - 1).bit_length()


def _cells(own: Iterable[tuple[Name, int]]) -> int:
    return math.prod(size for _, size in own)


@dataclass(frozen=True)
class StoredCells(Storage):
    """`count` numbers over the names that it knows, as many for each value of the others."""

    own: Extents
    count: int
    most = 1  # numbers that it may hold for a cell
    in_pairs = True

    def stored(self, names: Collection[Name], sizes: Sizes) -> int:
        """The estimate of what is stored over the names."""
        known = dict(self.own)
        inside = math.prod(sizes[name] for name in names if name in known)
        return min(self.most * inside, self.count) * math.prod(sizes[name] for name in names if name not in known)

    def joined(self, other: Storage) -> Storage | None:
        """(n_f/c_f)(n_g/c_g) c  =  n_f n_g / c_shared, as if cells were stored independently; tables are full."""
        if isinstance(other, DenseStorage):
            return self
        if not isinstance(other, StoredCells) or type(other) is not type(self):
            return None
        both = self.own | other.own
        count = self.count * other.count // _cells(self.own & other.own)
        return self._with(other, both, min(self.most * _cells(both), max(1, count)))

    def _with(self, other: Any, own: Extents, count: int) -> StoredCells:
        return replace(self, own=own, count=count)

    def summed(self, kept: Collection[Name]) -> Storage:
        """At most one number for each cell that is kept, and none that was not stored."""
        if not kept:
            return DENSE
        own = frozenset((name, size) for name, size in self.own if name in kept)
        return replace(self, own=own, count=min(self.count, self.most * _cells(own)))


@dataclass(frozen=True)
class SparseStorage(StoredCells):
    """A key and a weight for each cell that is not zero."""

    capacity: int = 1

    def size(self, names: Collection[Name], sizes: Sizes, dimensions: Sizes) -> int:
        if any(name in dimensions for name in names):
            return DENSE.size(names, sizes, dimensions)
        return 2 * min(self.stored(names, sizes), self.capacity)

    def work(self, names: Collection[Name], sizes: Sizes, dimensions: Sizes) -> int:
        """The pairs of cells that a product joins; all cells where half of them are stored, or few are left out."""
        dense = DENSE.work(names, sizes, dimensions)
        pairs = self.stored(names, sizes)
        return dense if 2 * pairs >= dense or dense <= SMALL else PAIR * pairs

    def _with(self, other: Any, own: Extents, count: int) -> SparseStorage:
        return SparseStorage(own, count, max(self.capacity, other.capacity))


@dataclass(frozen=True)
class DiagramStorage(StoredCells):
    """The children of the nodes of a diagram, and its terminals: as many as there are cells, and again, at most."""

    most = 2

    def size(self, names: Collection[Name], sizes: Sizes, dimensions: Sizes) -> int:
        if any(name in dimensions for name in names):
            return DENSE.size(names, sizes, dimensions)
        return self.stored(names, sizes)

    def work(self, names: Collection[Name], sizes: Sizes, dimensions: Sizes) -> int:
        """The entries that a product pairs; all cells where these are few more than the entries."""
        dense = DENSE.work(names, sizes, dimensions)
        entries = self.size(names, sizes, dimensions)
        return dense if dense <= 4 * entries else ENTRY * entries


@dataclass(frozen=True)
class TrainStorage(Storage):
    """A core of r × n × r′ for each name, the ranks at most `rank`; before it is rounded, `whole`."""

    rank: int
    whole: int
    bound: int
    in_pairs = True

    def ranks(self, names: Collection[Name], sizes: Sizes, most: int) -> Sequence[int]:
        """The ranks between cores, from 1 to 1: no more than there are cells on either side."""
        extents = [sizes[name] for name in sorted(names, key=natural_key)]
        inner = [min(math.prod(extents[:k]), math.prod(extents[k:]), most) for k in range(1, len(extents))]
        return [1, *inner, 1]

    def size(self, names: Collection[Name], sizes: Sizes, dimensions: Sizes) -> int:
        """Σ_k r n r′"""
        if any(name in dimensions for name in names):
            return DENSE.size(names, sizes, dimensions)
        ranks = self.ranks(names, sizes, self.rank)
        extents = [sizes[name] for name in sorted(names, key=natural_key)]
        return sum(left * n * right for left, n, right in zip(ranks, extents, ranks[1:], strict=False))

    def work(self, names: Collection[Name], sizes: Sizes, dimensions: Sizes) -> int:
        """Σ_k n R², and Σ_k n R³ where the ranks R of the product are rounded"""
        if any(name in dimensions for name in names):
            return DENSE.work(names, sizes, dimensions)
        power = 3 if self.whole > self.bound else 2
        inner = self.ranks(names, sizes, self.whole)[1:]
        extents = [sizes[name] for name in sorted(names, key=natural_key)]
        return sum(n * rank**power for n, rank in zip(extents, inner, strict=False))

    def joined(self, other: Storage) -> Storage | None:
        """The ranks multiply, up to the bound; a table beside a train counts as one of rank 1."""
        if isinstance(other, DenseStorage):
            return self
        if not isinstance(other, TrainStorage):
            return None
        bound, whole = max(self.bound, other.bound), self.rank * other.rank
        return TrainStorage(min(whole, bound), whole, bound)

    def summed(self, kept: Collection[Name]) -> Storage:
        """The same ranks; a train of one name is a table."""
        return TrainStorage(self.rank, self.rank, self.bound) if len(kept) > 1 else DENSE
