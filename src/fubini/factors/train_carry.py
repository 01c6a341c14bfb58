"""Trains in a loop: their layout as a carry, cores of fixed ranks, padded with zeros.

Slices are those of any factor: a train at a value of its batch, or of one of its cores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp

from fubini.base.arrays import Data
from fubini.base.domains import Domain
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.factors.carry import Carried, CarryLayout, NamedDomains, float_type, settled, typed
from fubini.factors.table import Table
from fubini.factors.table_carry import TableLayout
from fubini.factors.train import Train, make_train, train_to_table
from fubini.factors.train_pieces import Pieces, require_rank
from fubini.terms.exactness import Exactness, exactly, projected
from fubini.terms.factor import Factor
from fubini.terms.heads import MULTIPLY, exact_lighten, exact_settle, exact_weigh
from fubini.terms.value import Array


@dataclass(frozen=True)
class TrainLayout(CarryLayout):
    """A Train over `batch` in this order, of at most this rank, for each value of the first `outer` names."""

    rank: int = 1
    outer: int = 0

    @property
    def holds(self) -> str:
        return f"a Train of rank {self.rank} at most, or a Table"

    @property
    def order(self) -> NamedDomains:
        """The names that have a core."""
        return self.batch[self.outer :]

    def over(self, name: Name, domain: Domain) -> TrainLayout:
        """The same layout for each value of one more name."""
        return replace(self, batch=((name, domain), *self.batch), outer=self.outer + 1)

    @property
    def greatest_ranks(self) -> list[int]:
        """The ranks of any tensor, between neighbouring cores."""
        sizes = [domain.extent for _, domain in self.order]
        return [min(math.prod(sizes[:k]), math.prod(sizes[k:])) for k in range(1, len(sizes))]

    @property
    def mark(self) -> Exactness:
        """Exact where no tensor over these names has a greater rank."""
        return exactly if max(self.greatest_ranks) <= self.rank else projected("train")


def train_layout(rank: int) -> Callable[[Carried], CarryLayout]:
    """How the layout of carries of this rank is made; those of one name are tables.

    >>> from fubini.base.semirings import sum_product
    >>> names = (("a", fb.Bint[3]), ("b", fb.Bint[4]), ("c", fb.Bint[2]))
    >>> train_layout(2)(Carried(names, (), (), dict(names), sum_product)).mark
    projected(train)
    """
    rank = require_rank(rank)

    def make(carried: Carried) -> CarryLayout:
        dtype, homogeneous = float_type(carried.terms), carried.semiring.homogeneous
        if len(carried.batch) < 2 or not homogeneous:
            return TableLayout(carried.batch, (), dtype, homogeneous)
        return TrainLayout(carried.batch, (), dtype, homogeneous, rank)

    return make


@exact_settle.rule
def settle_train(f: Train, layout: TrainLayout) -> Train:
    """f over all names of the layout in its order, rounded where the ranks pass the bound"""
    outer = dict(layout.batch[: layout.outer])
    if any(name not in outer for name in f.batch):
        return settle_table_as_train(train_to_table(f, "a name of its batch as a core"), layout)
    whole = interpret(MULTIPLY, Train.ones(dict(layout.order), layout.rank), _bounded(f, layout.rank))
    assert isinstance(whole, Train), "there are two names at least"
    return _in_shape(whole.pieces(outer), layout)


def _bounded(f: Train, rank: int) -> Train:
    """The same train with another bound on what is computed from it."""
    new = f._copied(lambda leaf: leaf, lambda child: child)
    new._set(rank=rank)
    return new


@exact_settle.rule
def settle_table_as_train(f: Table, layout: TrainLayout) -> Train:
    """the train of f over all names of the layout"""
    outer = dict(layout.batch[: layout.outer])
    ones = Train.ones(dict(layout.order), layout.rank)
    if any(name in f.inputs for name in outer):
        batched = [name for name in f.inputs if name in outer]
        inner = [name for name in f.inputs if name not in outer]
        f_train = Train.from_table(f, layout.rank, batch=batched) if len(inner) > 1 else f
        whole = interpret(MULTIPLY, _over(ones, {name: outer[name] for name in batched}), f_train)
    else:
        whole = interpret(MULTIPLY, ones, f)
    assert isinstance(whole, Train), "there are two names at least"
    return _in_shape(whole.pieces(outer), layout)


def _over(ones: Factor, batch: dict[Name, Domain]) -> Train:
    """A train of ones, for each value of more names."""
    assert isinstance(ones, Train)
    pieces = ones.pieces(batch)
    first = jnp.broadcast_to(pieces.cores[0], (*(d.extent for d in batch.values()), *pieces.cores[0].shape[-3:]))
    return make_train(pieces._replace(cores=[first, *pieces.cores[1:]]))


def _in_shape(pieces: Pieces, layout: TrainLayout) -> Train:
    """Cores with the ranks of the layout and its whole batch, in its type."""
    ranks = [1, *(min(layout.rank, rank) for rank in layout.greatest_ranks), 1]
    outside = tuple(domain.extent for _, domain in layout.batch[: layout.outer])
    cores = [_padded(core, outside, ranks[k : k + 2], layout) for k, core in enumerate(pieces.cores)]
    shift, error = (jnp.broadcast_to(typed(part, layout), outside) for part in (pieces.shift, pieces.error))
    return make_train(
        pieces._replace(cores=cores, shift=shift, error=error, mark=layout.mark, domains=dict(layout.batch))
    )


def _padded(core: Data, outside: tuple[int, ...], ranks: Sequence[int], layout: CarryLayout) -> Data:
    core = jnp.broadcast_to(typed(core, layout), (*outside, *core.shape[-3:]))
    missing = [(0, rank - size) for rank, size in zip(ranks, core.shape[-2:], strict=True)]
    return jnp.pad(core, [(0, 0)] * (core.ndim - 2) + missing)


@exact_settle.rule
def settle_train_as_table(f: Train, layout: CarryLayout) -> Factor:
    """f, with every entry written out"""
    return settled(train_to_table(f, "what one step of a sequence hands on to the next"), layout)


@exact_lighten.rule
def lighten_train(f: Train, names: tuple) -> tuple[Train, Data]:
    """f / exp(s), s, where the greatest entry of each core is 1"""
    shift = f.shift._ground()
    rest = tuple(name for name in f.inputs if name not in names)
    log = shift.array.reshape([f.inputs[name].extent if name in shift.inputs else 1 for name in rest])
    return _shifted(f, jnp.zeros_like(shift.array)), log


@exact_weigh.rule
def weigh_train(f: Train, logs: Any) -> Train:
    """f · exp(logs), which are numbers for each value of its batch"""
    outside = tuple(domain.extent for domain in f.batch.values())
    logs = jnp.asarray(logs)
    return _shifted(f, f.shift._ground().array + logs.reshape(outside))


def _shifted(f: Train, shift: Data) -> Train:
    new = f._copied(lambda leaf: leaf, lambda child: child)
    old = f.shift
    new._set(shift=Array._of(shift, old.names, old.inputs, old.output))
    return new
