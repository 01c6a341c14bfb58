"""The arrays that a train is made of: how they are read from a Table, named, checked, and written out as a Table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fubini.base.arrays import Data, is_traced, namespace, require, stop_gradient
from fubini.base.domains import Bint, Domain, Real, merge_inputs
from fubini.base.names import Name
from fubini.errors import DataError, DomainError, FubiniError, NameClash, listed, warn
from fubini.factors.table import Table
from fubini.numerics.named_axes import align
from fubini.numerics.scaled import Scaled
from fubini.numerics.tensor_train import UNITS, from_tensor, linear_entries, to_tensor
from fubini.terms.exactness import Exactness
from fubini.terms.value import Array


class NegativeEntries(FubiniError, UserWarning):
    """A warning: entries that rounding made negative, and that are read as 0."""


class Pieces(NamedTuple):
    """What a train is made of, as arrays; a core without a name has one matrix, and is absorbed by a neighbour.

    A core has the axes of the batch, of extent 1 where it does not depend on a name, then values, rows and columns.
    """

    cores: Sequence[Data]
    names: tuple[Name | None, ...]
    shift: Data
    error: Data
    batch: dict[Name, Domain]
    domains: Mapping[Name, Domain]
    rank: int
    mark: Exactness


def over_batch(core: Array, batch: tuple[Name, ...], own: Name | None) -> Data:
    """A core with the axes of a batch, then of its own name, or of extent 1 where it has none."""
    data = core._ground().array
    if own is not None:
        return align(data, core.names, (*batch, own), 2)
    return align(data, core.names, batch, 2)[..., None, :, :]


def named_array(data: Data, names: tuple[Name, ...], domains: Mapping[Name, Domain], event: int) -> Array:
    """An array with the names that it depends on: axes of extent 1 that stand for more values are left out."""
    data = data.reshape((1,) * (len(names) + event - data.ndim) + data.shape)
    kept = [name for axis, name in enumerate(names) if data.shape[axis] == domains[name].size]
    shape = data.shape[len(names) :]
    array = data.reshape([domains[name].extent for name in kept] + list(shape))
    return Array._of(array, tuple(kept), domains, Real.with_shape(tuple(shape)) if shape else Real)


def tabulate(pieces: Pieces, kept: Sequence[bool]) -> Table:
    """The table of all entries, with the error of its roundings; a negative total is an error."""
    mark = _with_error(pieces)
    own = [name for name in pieces.names if name is not None]
    inputs = {name: pieces.domains[name] for name in (*pieces.batch, *own)}
    entries, log = to_tensor(pieces.cores, kept)
    shape = tuple(domain.extent for domain in pieces.batch.values())
    xp = namespace(entries, pieces.shift)
    shift = xp.broadcast_to(pieces.shift + log, shape)
    entries = xp.broadcast_to(entries, (*shape, *entries.shape[len(shape) :])) if shape else entries
    if own:
        entries = without_negative(entries, own, inputs)
        shift = shift.reshape(*shape, *(1,) * len(own))
        return Table._of(Scaled(entries, xp.broadcast_to(shift, entries.shape)), inputs, mark)
    entries = entries[..., 0]
    (entries,) = require((entries >= 0) | xp.isnan(entries), lambda: _negative_total(pieces), entries)
    return Table._of(Scaled(entries, shift), inputs, mark)


def _with_error(pieces: Pieces) -> Exactness:
    """The exactness, with the relative Frobenius error of the roundings behind it where that is known."""
    if pieces.mark.is_exact or is_traced(pieces.error):
        return pieces.mark
    error = float(np.max(np.asarray(pieces.error)))
    return pieces.mark.with_error(error) if error > 0 else pieces.mark


def noise_level(entries: Data, event: int) -> Data:
    """The size of what rounding errors leave of a zero, for each cell of the batch."""
    xp = namespace(entries)
    top = xp.max(xp.abs(stop_gradient(entries)), axis=tuple(range(-event, 0)), keepdims=True)
    return UNITS * float(np.finfo(entries.dtype).eps) * top


def without_negative(entries: Data, own: Sequence[Name], inputs: Mapping[Name, Domain]) -> Data:
    """Entries with 0 in place of negative ones, reported where they are more than noise, and NaN if traced."""
    xp = namespace(entries)
    value = stop_gradient(entries)
    negative = value < -noise_level(entries, len(own))
    level = xp.where(value < 0, entries - value, entries)
    return refuse_negative(level, negative, f"a train over {listed(inputs)}", "entries")


def refuse_negative(weights: Data, negative: Data, asked: str, what: str) -> Data:
    """Weights with 0 where rounding made them negative, and a warning; NaN there where numbers are not known yet."""
    if is_traced(negative):

        def error() -> DataError:
            return DataError(f"{asked} with negative {what}, which rounding made", expected=_POSITIVE, advice=_LESS)

        return require(~negative, error, weights)[0]
    if np.any(negative):
        count = int(np.sum(np.asarray(negative)))
        told = f"{asked} with {count} negative {what} of {negative.size}, read as 0"
        warn(NegativeEntries(told, expected=_POSITIVE, advice=_LESS))
    return namespace(weights).where(negative, 0.0, weights)


_POSITIVE = "numbers that rounding leaves non-negative"
_LESS = "a greater rank=, or fewer products between sums, rounds less"


def _negative_total(pieces: Pieces) -> DataError:
    return DataError(
        "the total of a train, which rounding made negative",
        expected="a total that is not negative",
        nearest=f"{pieces.mark}, with the bound rank={pieces.rank}",
        advice=_LESS,
    )


def pieces_of_table(table: Table, order: Sequence[Name], batch: Mapping[Name, Domain], rank: int) -> Pieces:
    """The arrays of a table as a train over the names in order: exact, whatever its ranks are."""
    pair = table.aligned((*batch, *order))
    weights, shift, *_ = pair
    xp = namespace(weights, shift)
    shift = xp.broadcast_to(shift, weights.shape)
    axes = tuple(range(len(batch), len(batch) + len(order)))
    entries, top = linear_entries(weights, shift, axes) if axes else (weights, shift)
    cores = from_tensor(entries, len(order)) if order else [entries[..., None, None, None]]
    zero = np.zeros((1,) * len(batch))
    domains = merge_inputs(table.inputs, batch)
    return Pieces(cores, tuple(order) or (None,), top, zero, dict(batch), domains, rank, table.exactness)


def require_rank(rank: int) -> int:
    """A bound on ranks: a whole number of at least 1."""
    if isinstance(rank, bool) or not isinstance(rank, (int, np.integer)) or rank < 1:
        raise DataError(f"the bound rank={rank!r} of a Train", expected="a whole number of at least 1")
    return int(rank)


def require_chain(cores: Sequence[Data], order: tuple[Name, ...], batch: tuple[Name, ...]) -> None:
    """Raise unless cores are matrices that can be multiplied, one for each of different names."""
    names = (*order, *batch)
    if len(set(names)) != len(names):
        raise NameClash(f"a Train over {listed(names)}", expected="different names")
    if len(cores) != len(order) or len(order) < 2:
        raise DomainError(
            f"a Train of {len(cores)} cores over {listed(order)}",
            expected="one core for each name, of two names at least",
            advice="a factor of one name is a Table",
        )
    shapes = [core.shape for core in cores]
    wrong = [shape for shape in shapes if len(shape) != 3 + len(batch)]
    ends = [1, *(shape[-1] for shape in shapes)]
    if wrong or ends[-1] != 1 or any(shape[-3] != end for shape, end in zip(shapes, ends, strict=False)):
        raise DomainError(
            f"a Train with cores of shapes {', '.join(map(str, shapes))}",
            expected="r × n × r′ after the axes of the batch, r of each core equal to r′ of the last, 1 at both ends",
        )


def domains_of(sizes: Sequence[int], names: tuple[Name, ...], given: object) -> dict[Name, Domain]:
    """The domains of names with these numbers of values: those given, where they are given."""
    known = given if isinstance(given, Mapping) else {}
    for name, size in zip(names, sizes, strict=True):
        if name in known and known[name].size != size:
            raise DomainError(
                f"a Train with {name!r} of {size} values and domain {known[name]!r}", expected=f"Bint[{size}]"
            )
    return {name: known.get(name, Bint[size]) for name, size in zip(names, sizes, strict=True)}


def bad_core(cores: Sequence[Data], order: tuple[Name, ...]) -> DataError:
    """The error of cores with infinite numbers or NaN."""
    pairs = zip(cores, order, strict=True)
    bad = [name for core, name in pairs if not is_traced(core) and not np.isfinite(core).all()]
    return DataError(
        f"a Train over {listed(order)} with a core that is not a number{' at ' + listed(bad) if bad else ''}",
        expected="finite numbers",
    )
