"""Train: a factor over bounded integers as a tensor train, A₁(x₁) ⋯ A_d(x_d) · exp(s), with a bound on its ranks.

Ranks are shapes, never read off numbers, so a train is compiled and differentiated like any array. An operation whose
ranks stay within the bound is exact. One whose ranks may pass it is rounded, and its result tagged `projected(train)`,
with the relative Frobenius errors of all roundings behind it added up in `rounding_error`: a measure, not a bound,
since an error may grow in a product. Entries below the least positive number of the dtype times the greatest are 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from fubini.base.arrays import Data, as_floats, is_jax, is_traced, namespace, require, stop_gradient
from fubini.base.domains import Domain, merge_inputs
from fubini.base.names import Name, as_names
from fubini.errors import DataError, DomainError, Intractable, UnknownName, listed
from fubini.factors.finite_storage import TrainStorage
from fubini.factors.promotion import promotion
from fubini.factors.table import Table
from fubini.factors.train_order import natural_key
from fubini.factors.train_pieces import (
    Pieces,
    bad_core,
    domains_of,
    named_array,
    noise_level,
    over_batch,
    pieces_of_table,
    require_chain,
    require_rank,
    tabulate,
)
from fubini.numerics.named_axes import align
from fubini.numerics.tensor_train import absorb_cores, ranks_of, scale_cores, to_tensor, trim_cores
from fubini.numerics.train_rounding import round_cores
from fubini.show.notation import Call, Notation
from fubini.show.printed_form import Block, Expression, Words
from fubini.terms.exactness import Exactness, exactly, projected
from fubini.terms.factor import Factor
from fubini.terms.fields import static_field, term_field
from fubini.terms.storage import Storage
from fubini.terms.term import typed_names
from fubini.terms.value import Array, Value

LARGEST_TABLE = 2**20  # entries of a train that may be written out


class Train(Factor):
    """A tensor train over the names in `order`, for each value of the other names, the batch.

    Cores are arrays of r × n × r′, with r = 1 at the start and r′ = 1 at the end; those of a batch have its axes before
    these. `rank` bounds the ranks of everything that is computed from the train.

    >>> first, last = np.array([[[1.0, 2.0], [3.0, 4.0]]]), np.array([[[1.0], [0.5]], [[2.0], [0.0]]])
    >>> f = Train([first, last], ("a", "b"), rank=2)
    >>> f
    Train(a: Bint[2], b: Bint[2])
      ranks 2 of at most 2, exact
    >>> f.sum("a").weights
    array([16.,  2.])
    """

    cores: tuple[Array, ...] = term_field()  # matrices of r × r′ over a name of the order, and names of the batch
    shift: Array = term_field()
    error: Array = term_field()
    order: tuple[Name, ...] = static_field()
    rank: int = static_field()
    mark: Exactness = static_field()

    def __init__(
        self,
        cores: Sequence[Data],
        names: Sequence[Name] | Mapping[Name, Domain],
        rank: int | None = None,
        batch: Sequence[Name] | Mapping[Name, Domain] = (),
    ) -> None:
        arrays = [as_floats(core) for core in cores]
        order, outer = as_names(names, "the names"), as_names(batch, "the batch")
        require_chain(arrays, order, outer)
        domains = domains_of([core.shape[-2] for core in arrays], order, names)
        shape = np.broadcast_shapes(*(core.shape[: len(outer)] for core in arrays))
        outside = domains_of(shape, outer, batch)
        greatest = max(ranks_of(arrays))
        rank = require_rank(greatest if rank is None else rank)
        if rank < greatest:
            raise DomainError(
                f"a Train of rank {greatest} with the bound rank={rank}",
                expected=f"a bound of at least {greatest}",
                advice="a Table becomes a train of lower rank by Train.from_table(table, rank=…)",
            )
        xp = namespace(*arrays)
        arrays = [xp.moveaxis(xp.asarray(core), -2, -3) for core in arrays]
        ok = xp.stack([xp.all(xp.isfinite(core)) for core in arrays])
        (arrays[0],) = require(xp.all(ok), lambda: bad_core(arrays, order), arrays[0])
        scaled, shift = scale_cores(arrays)
        zero = np.zeros((1,) * len(outer))
        made = make_train(Pieces(scaled, order, shift, zero, outside, {**outside, **domains}, rank, exactly))
        self.__dict__.update(made.__dict__)
        if not is_traced(*arrays) and self.size <= LARGEST_TABLE:
            self._require_positive()

    @classmethod
    def from_table(cls, table: Table, rank: int, names: Sequence[Name] = (), batch: Sequence[Name] = ()) -> Factor:
        """The train of a table, by successive singular value decompositions where its ranks pass the bound.

        `names` is the order of the cores, by default that of the names. A train over fewer than two names is a Table.

        >>> f = Table(np.arange(8.0).reshape(2, 2, 2), ("a", "b", "c"))
        >>> g = Train.from_table(f, rank=2)
        >>> g.ranks, g.exactness, np.allclose(g.weights, f.weights)
        ((2, 2), exact, True)
        >>> h = Train.from_table(f, rank=1)
        >>> h.exactness, f"{h.rounding_error:.2f}"
        (projected(train), '0.13')
        """
        outer = as_names(batch, "the batch")
        inner = [name for name in table.inputs if name not in outer]
        order = as_names(names, "the names") or tuple(sorted(inner, key=natural_key))
        if sorted(map(str, (*order, *outer))) != sorted(map(str, table.inputs)):
            raise UnknownName(
                f"a train over {listed(order)} with the batch {listed(outer)} of {table}",
                expected=f"each name of the table once: {listed(table.inputs)}",
            )
        outside = {name: table.inputs[name] for name in outer}
        return assemble(pieces_of_table(table, order, outside, require_rank(rank)))

    @classmethod
    def ones(cls, domains: Mapping[Name, Domain], rank: int) -> Factor:
        """1 everywhere, of rank 1: it fixes the order of the names for what it is multiplied with.

        >>> Train.ones({"b": fb.Bint[2], "a": fb.Bint[3]}, rank=4).order
        ('b', 'a')
        """
        return cls([np.ones((1, domain.extent, 1)) for domain in domains.values()], domains, require_rank(rank))

    # -- what is known of it ----------------------------------------------------------------------------------------

    @property
    def exactness(self) -> Exactness:
        """The approximations behind its numbers."""
        return self.mark

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks between neighbouring cores.

        >>> Train.ones({"b": fb.Bint[2], "a": fb.Bint[3]}, rank=4).ranks
        (1,)
        """
        return tuple(core.output.shape[1] for core in self.cores[:-1])

    @property
    def storage(self) -> Storage:
        rank = max(self.ranks)
        return TrainStorage(rank, rank, self.rank)

    @property
    def batch(self) -> dict[Name, Domain]:
        """The names for each value of which it is a train of its own.

        >>> Train.ones({"b": fb.Bint[2], "a": fb.Bint[3]}, rank=4).batch
        {}
        """
        order = set(self.order)
        return {name: domain for name, domain in self.inputs.items() if name not in order}

    @property
    def size(self) -> int:
        """The number of its entries."""
        return math.prod(domain.extent for domain in self.inputs.values())

    @property
    def rounding_error(self) -> Data:
        """The relative Frobenius errors of all roundings behind it, added up, for each cell of the batch.

        >>> Train.ones({"b": fb.Bint[2], "a": fb.Bint[3]}, rank=4).rounding_error
        0.0
        """
        error = self.error._ground().array
        return error if error.ndim or is_jax(error) else float(error)

    @property
    def weights(self) -> Data:
        """The entries, of a train that is small enough to be written out."""
        return train_to_table(self).weights

    def count_negative(self) -> Data:
        """The number of negative entries, which rounding can make, of a train that is small enough to be written out.

        >>> Train.ones({"b": fb.Bint[2], "a": fb.Bint[3]}, rank=4).count_negative()
        0
        """
        require_small(self, "the negative entries")
        pieces = self.pieces(self.batch)
        entries, _ = to_tensor(pieces.cores, [True] * len(self.order))
        count = namespace(entries).sum(stop_gradient(entries) < -noise_level(entries, len(self.order)))
        return count if is_jax(count) else int(count)

    def _require_positive(self) -> None:
        count = self.count_negative()
        if count:
            raise DataError(
                f"{self} with {count} negative entries",
                expected="a product of matrices that is never negative",
                advice="cores without negative numbers make none",
            )

    # -- what every factor supplies ---------------------------------------------------------------------------------

    def _renamed(self, names: Mapping[Name, Name]) -> Train:
        def renamed(array: Array) -> Array:
            own = tuple(names.get(name, name) for name in array.names)
            domains = {names.get(name, name): domain for name, domain in array.inputs.items()}
            return Array._of(array.array, own, domains, array.output)

        new = self._copied(lambda leaf: leaf, renamed)  # type: ignore[arg-type]
        order = tuple(names.get(name, name) for name in self.order)
        new._set(order=order, inputs={names.get(name, name): domain for name, domain in self.inputs.items()})
        return new

    def _marked(self, mark: Exactness) -> Train:
        new = self._copied(lambda leaf: leaf, lambda child: child)
        new._set(mark=self.mark | mark)
        return new

    def _log(self) -> Value:
        return train_to_table(self, "the logarithm of every entry").log()

    def _mean(self, name: Name) -> Value:
        return train_to_table(self, f"the mean of {name!r} for every value of the others")._mean(name)

    def _covariance(self, name: Name) -> Value:
        return train_to_table(self, f"the covariance of {name!r} for every value of the others")._covariance(name)

    def _entropy(self) -> Value:
        return train_to_table(self, "the entropy")._entropy()

    def _kl(self, other: Factor) -> Value:
        other = train_to_table(other, "the divergence") if isinstance(other, Train) else other
        return train_to_table(self, "the divergence")._kl(other)

    def notation(self) -> Notation:
        return Call("Train", typed_names({name: self.inputs[name] for name in (*self.batch, *self.order)}))

    def _form(self) -> Iterable[Block]:
        ranks = " ".join(map(str, self.ranks))
        error = self.error.array
        told = "" if self.mark.is_exact or is_traced(error) else f", rounding error {np.max(np.asarray(error)):.2g}"
        yield Expression(self.notation())
        yield Words(f"ranks {ranks} of at most {self.rank}, {self.mark}{told}", 2)

    # -- its arrays -------------------------------------------------------------------------------------------------

    def pieces(self, batch: Mapping[Name, Domain]) -> Pieces:
        """Its arrays over a batch that has all of its own; a name of its order that is in the batch is one of that."""
        names = tuple(None if name in batch else name for name in self.order)
        outer = tuple(batch)
        cores = [over_batch(core, outer, name) for core, name in zip(self.cores, names, strict=True)]
        shift, error = (align(a._ground().array, a.names, outer) for a in (self.shift, self.error))
        domains = merge_inputs(self.inputs, batch)
        return Pieces(cores, names, shift, error, dict(batch), domains, self.rank, self.mark)


def make_train(pieces: Pieces) -> Train:
    """A train from arrays that are as they should be."""
    outer = tuple(pieces.batch)
    own = [name for name in pieces.names if name is not None]
    cores = tuple(
        named_array(core, (*outer, name), pieces.domains, 2) for core, name in zip(pieces.cores, own, strict=True)
    )
    xp = namespace(*pieces.cores)
    shift, error = (named_array(xp.asarray(part), outer, pieces.domains, 0) for part in (pieces.shift, pieces.error))
    inputs = {name: pieces.domains[name] for name in (*outer, *own)}
    new = object.__new__(Train)
    fields = {"cores": cores, "shift": shift, "error": error, "order": tuple(own), "rank": pieces.rank}
    new._set(**fields, mark=pieces.mark, inputs=inputs)
    return new


def assemble(pieces: Pieces) -> Factor:
    """The factor that arrays make: rounded where its ranks pass the bound, a Table where it has one name or none."""
    kept = [name is not None for name in pieces.names]
    if sum(kept) < 2:
        return tabulate(pieces, kept)
    cores, log = absorb_cores(pieces.cores, kept)
    cores, mark, error = trim_cores(cores), pieces.mark, pieces.error
    if max(ranks_of(cores)) > pieces.rank:
        cores, new = round_cores(cores, pieces.rank)
        error, mark = error + new, mark | projected("train")
    cores, more = scale_cores(cores)
    names = tuple(name for name in pieces.names if name is not None)
    shift = pieces.shift + log + more
    return make_train(pieces._replace(cores=cores, names=names, shift=shift, error=error, mark=mark))


def require_small(f: Train, asked: str) -> None:
    """Raise where a train has too many entries to be written out."""
    if f.size > LARGEST_TABLE:
        raise Intractable(
            f"{asked} of {f}",
            expected=f"at most {LARGEST_TABLE:,} entries, to be written out as a Table",
            nearest=f"it has {f.size:,}" if f.size < 10**12 else f"it has about 10^{math.log10(f.size):.0f}",
            advice="sum names out or condition on them first, or draw samples",
        )


@promotion(Train, Table)
def train_to_table(f: Train, asked: str = "the table") -> Table:
    """A₁(x₁) ⋯ A_d(x_d) for every x, where they are not too many"""
    require_small(f, asked)
    return tabulate(f.pieces(f.batch), [True] * len(f.order))
