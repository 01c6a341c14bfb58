"""Sparse: a factor over bounded integers that stores the cells which are not zero, by sorted keys."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType

import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data, as_floats, is_jax, is_traced, namespace, owned, require
from fubini.base.domains import Bint, Domain, Real
from fubini.base.names import Name
from fubini.base.semirings import sum_product
from fubini.errors import DomainError, MemoryLimit, listed
from fubini.factors.finite_storage import SparseStorage, extents_of, round_up
from fubini.factors.promotion import promotion
from fubini.factors.sparse_checks import (
    as_capacity,
    bad_weights,
    fault_of,
    multiply_capacity,
    outside,
    overflowed,
    require_axes,
    require_capacity,
    require_keys,
    sizes_of,
)
from fubini.factors.table import Table
from fubini.numerics.keyed_weights import (
    Keyed,
    add_groups,
    count_groups,
    count_positive,
    drop_zeros,
    look_up,
    mask,
    pad,
    scatter,
    sort,
)
from fubini.numerics.mixed_radix import positions_of, project_keys, to_keys
from fubini.numerics.scaled import SAFE_LOG, Scaled, bounded, gauged, positive_log, read_linear, read_log
from fubini.show.printed_form import Block, Expression, Words
from fubini.terms.exactness import Exactness, exactly
from fubini.terms.factor import Factor
from fubini.terms.fields import array_field, static_field
from fubini.terms.name_axis import require_added_axis
from fubini.terms.numbers import shown_number
from fubini.terms.storage import Storage
from fubini.terms.value import Array, Value

CAPACITY = 2**20  # slots, where none are asked for
DENSE = 2**26  # cells of the largest table that a sparse factor becomes
SHOWN = 12  # cells that are printed
NARROW = SAFE_LOG["float32"]


class Sparse(Factor):
    """Weights of the cells that are not zero: a row of positions for each, one for each name.

    Cells named twice add up. At most `capacity` cells are stored, in this factor and in what is computed from it; JAX
    allocates that many where a result may need them.

    >>> f = Sparse([[0, 1], [2, 0]], [0.5, 0.25], {"a": fb.Bint[3], "b": fb.Bint[2]})
    >>> f.sum("b").weights
    array([0.5 , 0.  , 0.25])
    """

    _keys: Data = array_field()
    _scaled: Data = array_field()
    _shift: Data = array_field()
    _absent: Data = array_field()  # the weight of cells that are not stored: 0, and NaN after an error under tracing
    capacity: int = static_field()
    mark: Exactness = static_field()

    def __init__(
        self, cells: Data, weights: Data, inputs: Mapping[Name, Domain], *, capacity: int | None = None
    ) -> None:
        weights, cells = as_floats(weights), owned(cells)
        inputs = require_axes(cells, weights, inputs)
        ok = (weights >= 0) & (weights < np.inf)
        xp = namespace(weights, cells)
        weights, absent = require(ok, lambda: bad_weights(weights, ok, inputs), weights, xp.zeros(weights.shape))
        self._fill(cells, Scaled(weights, 0.0), absent, inputs, capacity)

    @classmethod
    def from_log(
        cls, cells: Data, log_weights: Data, inputs: Mapping[Name, Domain], *, capacity: int | None = None
    ) -> Sparse:
        """A sparse factor from the log-weights of its cells.

        >>> f = Sparse.from_log([[0], [7]], [-1000.0, -1001.0], {"a": fb.Bint[9]})
        >>> float(f.sum("a").log()).__round__(6)
        -999.686738
        """
        logs, cells = as_floats(log_weights), owned(cells)
        inputs = require_axes(cells, logs, inputs)
        ok, xp = logs < np.inf, namespace(logs, cells)
        logs, absent = require(ok, lambda: bad_weights(logs, ok, inputs, "log-weight"), logs, xp.zeros(logs.shape))
        zero = logs == -np.inf
        weights = xp.where(zero, 0.0, xp.where(xp.isnan(logs), logs, 1.0)).astype(logs.dtype)
        new = object.__new__(cls)
        new._fill(cells, Scaled(weights, xp.where(zero, 0.0, logs)), absent, inputs, capacity)
        return new

    @classmethod
    def from_table(cls, table: Table, capacity: int | None = None) -> Sparse:
        """The cells of a table that are not zero.

        On JAX a table of more cells than the capacity loses its zeros, and with them the derivatives there.

        >>> Sparse.from_table(fb.Table([[0.0, 0.5], [0.0, 0.0]], ("a", "b")))
        Sparse(a: Bint[2], b: Bint[2]), 1 of 4 cells
          a=0, b=1: 0.5
        """
        weights, shift, *bounds = table.pair
        xp = namespace(weights, shift)
        require_keys(xp, table.inputs)
        flat = xp.reshape(weights, -1)
        shift = shift if np.ndim(shift) == 0 else xp.reshape(shift, -1)
        keyed = Keyed(np.arange(flat.shape[0]), Scaled(flat, shift, *bounds), flat.shape[0])
        keyed = drop_zeros(keyed, keyed.slots)
        count = keyed.slots if xp is np else count_positive(keyed)
        capacity = as_capacity(capacity, CAPACITY if is_traced(count) else max(CAPACITY, int(count)))
        absent = require_capacity(count, capacity, table, fault_of(table), flat)
        return cls._of(drop_zeros(keyed, capacity), absent, table.inputs, capacity, table.exactness)

    def _fill(self, cells: Data, pair: Scaled, absent: Data, inputs: dict[Name, Domain], capacity: int | None) -> None:
        """Set the fields from rows of positions, in any order."""
        xp = namespace(cells, pair.weights)
        require_keys(xp, inputs)
        sizes = sizes_of(inputs)
        inside = ((cells >= 0) & (cells < np.asarray(sizes, np.int64))).all(1)
        absent = require(inside, lambda: outside(cells, inside, inputs), absent)[0].sum()
        end = math.prod(sizes)
        keys = to_keys([cells[:, axis] for axis in range(len(sizes))], sizes).astype(int)
        keyed = sort(pad(Keyed(xp.where(inside, keys, end), pair, end)))
        count = count_groups(keyed.keys, end)
        capacity = as_capacity(capacity, max(CAPACITY, keyed.slots))
        absent = require_capacity(count, capacity, f"a Sparse over {listed(inputs)}", absent, pair.weights)
        summed = add_groups(sum_product, keyed, min(capacity, end, keyed.slots))
        self._assign(Keyed(summed.keys, mask(summed.pair, summed.used), end), absent, inputs, capacity, exactly)

    @classmethod
    def _of(
        cls, keyed: Keyed, absent: Data, inputs: dict[Name, Domain], capacity: int, exactness: Exactness = exactly
    ) -> Sparse:
        """Make a sparse factor from numerics, unchecked."""
        new = object.__new__(cls)
        new._assign(keyed, absent, inputs, capacity, exactness)
        return new

    def _assign(self, keyed: Keyed, absent: Data, inputs: dict[Name, Domain], capacity: int, mark: Exactness) -> None:
        if type(keyed.pair.weights) is np.ndarray and type(keyed.keys) is np.ndarray:
            keyed = drop_zeros(keyed, capacity)
            keyed, absent = keyed._replace(pair=_narrowed(keyed.pair)), 0.0
        keys, (weights, shift, *_), _ = keyed
        if is_jax(weights):
            keys, absent = jnp.asarray(keys), jnp.asarray(absent, weights.dtype)
        self._set(_keys=keys, _scaled=weights, _shift=shift, _absent=absent, capacity=capacity, mark=mark)
        self._set(inputs=dict(inputs), _cached_keyed=keyed)

    # -- reading ----------------------------------------------------------------------------------------------------

    @property
    def exactness(self) -> Exactness:
        """The approximations behind its numbers."""
        return self.mark

    @property
    def is_on_numpy(self) -> bool:
        """Whether its weights are an array of NumPy."""
        return type(self._scaled) is np.ndarray and type(self._keys) is np.ndarray

    @property
    def is_known_zero(self) -> bool:
        return self.is_on_numpy and not self._scaled.any()

    @property
    def names(self) -> tuple[Name, ...]:
        """The axes, in the order of the keys."""
        return tuple(self.inputs)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The extents of the axes."""
        return sizes_of(self.inputs)

    @property
    def stored(self) -> int:
        """The number of slots: on NumPy that of cells that are not zero."""
        return self.keyed.slots

    @property
    def storage(self) -> Storage:
        own = extents_of(self.inputs)
        return SparseStorage(own, min(math.prod(self.sizes), round_up(self.stored)), self.capacity)

    @property
    def keyed(self) -> Keyed:
        """The keys with their scaled weights."""
        keyed = self.__dict__.get("_cached_keyed")
        if keyed is None:
            extra = np.ndim(self._keys) - 1
            if extra:
                raise DomainError(
                    f"an operation on a Sparse with {extra} axes that have no name",
                    expected="a name for each axis: this term was returned from vmap",
                    advice='name the axis first: fb.name_axis(term, "i")',
                )
            keyed = Keyed(self._keys, Scaled(self._scaled, self._shift), math.prod(self.sizes))
            if self.is_on_numpy:  # as a compiled function hands it out
                if np.isnan(self._absent):
                    raise overflowed(self, self.capacity)
                keyed = drop_zeros(keyed, self.capacity)
            self.__dict__["_cached_keyed"] = keyed
        return keyed

    @property
    def absent(self) -> Data:
        """The weight of cells that are not stored: 0, and NaN after an error under tracing."""
        return self._absent

    def keyed_on(self, xp: ModuleType) -> Keyed:
        """The keys with their scaled weights, as arrays of an engine."""
        keyed = self.keyed
        if xp is np:
            return keyed
        require_keys(xp, self.inputs)
        keyed = pad(keyed)
        weights = jnp.asarray(keyed.pair.weights, float) if self.is_on_numpy else keyed.pair.weights
        return Keyed(jnp.asarray(keyed.keys), Scaled(weights, jnp.asarray(keyed.pair.shift)), keyed.end)

    def key_over(self, names: Sequence[Name], keyed: Keyed, unused: int) -> Data:
        """The key of each slot over some of the names; that of an unused slot is given."""
        keys = project_keys(keyed.keys, self.sizes, [self.names.index(name) for name in names])
        return keys if type(keys) is np.ndarray else jnp.where(keyed.used, keys, unused)

    def positions(self, name: Name, keyed: Keyed) -> Data:
        """The position of each slot along a name; 0 where it is unused."""
        at = positions_of(keyed.keys, self.sizes, self.names.index(name))
        return at if type(at) is np.ndarray else jnp.where(keyed.used, at, 0)

    def to_table(self) -> Table:
        """The same function with every cell stored; an error where there are too many.

        >>> Sparse([[1]], [0.5], {"a": fb.Bint[3]}).to_table().weights
        array([0. , 0.5, 0. ])
        """
        keyed = self.keyed
        if keyed.end > DENSE:
            raise MemoryLimit(
                f"{self} as a Table of {keyed.end:,} cells",
                expected=f"at most {DENSE:,} cells",
                nearest=f"{self.stored:,} cells are stored",
                advice="sum or condition names out first: sums, products and substitutions keep it sparse",
            )
        xp = namespace(keyed.keys, *keyed.pair[:2], self._absent)
        weights, shift, *_ = scatter(self.keyed_on(xp))
        weights = weights if xp is np else weights * (1.0 + self._absent)  # a factor, so that derivatives are NaN too
        shift = shift if np.ndim(shift) == 0 else xp.reshape(shift, self.sizes)
        return Table._of(Scaled(xp.reshape(weights, self.sizes), shift), self.inputs, self.mark)

    @property
    def weights(self) -> Data:
        """The weights of all cells, as those of a Table."""
        return self.to_table().weights

    def with_capacity(self, capacity: int) -> Sparse:
        """The same function with another limit; on JAX the slots beyond it are given up, and zeros stored there.

        >>> Sparse([[1]], [0.5], {"a": fb.Bint[3]}).with_capacity(1).capacity
        1
        """
        keyed = self.keyed
        count = count_positive(keyed) if keyed.slots > capacity else 0
        absent = require_capacity(count, as_capacity(capacity, 1), self, self._absent, keyed.pair.weights)
        return Sparse._of(drop_zeros(keyed, capacity), absent, self.inputs, capacity, self.mark)

    # -- what every factor supplies ---------------------------------------------------------------------------------

    def _renamed(self, names: Mapping[Name, Name]) -> Sparse:
        inputs = {names.get(name, name): domain for name, domain in self.inputs.items()}
        return Sparse._of(self.keyed, self._absent, inputs, self.capacity, self.mark)

    def _marked(self, mark: Exactness) -> Sparse:
        return Sparse._of(self.keyed, self._absent, self.inputs, self.capacity, self.mark | mark)

    def _with_axis(self, name: Name) -> Sparse:
        require_added_axis(np.ndim(self._keys) - 1, self, name)
        size, cells = self._keys.shape[0], math.prod(self.sizes)
        xp, inputs = namespace(self._keys, self._scaled), {name: Bint[size], **self.inputs}
        require_keys(xp, inputs)
        rows = xp.arange(size)[:, None] * cells + self._keys
        keys = xp.where(self._keys < cells, rows, size * cells).reshape(-1)
        shift = xp.reshape(self._shift, (size, -1))
        pair = Scaled(self._scaled.reshape(-1), xp.broadcast_to(shift, self._scaled.shape).reshape(-1))
        capacity = multiply_capacity(self.capacity, size)
        return Sparse._of(sort(Keyed(keys, pair, size * cells)), self._absent.sum(), inputs, capacity)

    def _log(self) -> Value:
        return self.to_table()._log()

    def _form(self) -> Iterable[Block]:
        """The number of cells stored, and the first of them under their labels."""
        if is_traced(*self.leaves()) or np.ndim(self._keys) != 1:
            yield Expression(self.notation())
            return
        keyed = self.keyed
        slots = np.flatnonzero(np.asarray(keyed.used & (keyed.pair.weights != 0)))
        logs = np.asarray(read_log(keyed.pair), np.float64)
        yield Expression(self.notation(), f", {slots.size:,} of {keyed.end:,} cells")
        for slot in slots[:SHOWN]:
            at = np.unravel_index(int(keyed.keys[slot]), self.sizes)
            cell = ", ".join(f"{name}={d.label(int(x))}" for (name, d), x in zip(self.inputs.items(), at, strict=True))
            number = shown_number(math.exp(logs[slot])) if abs(logs[slot]) < 700 else f"exp({logs[slot]:.7g})"
            yield Words(f"{cell}: {number}", 2)
        if slots.size > SHOWN:
            yield Words("…", 2)

    def _mean(self, name: Name) -> Value:
        return self.to_table()._mean(name)

    def _covariance(self, name: Name) -> Value:
        return self.to_table()._covariance(name)

    def _entropy(self) -> Value:
        """−Σ p log p over the cells stored, with 0 log 0 = 0."""
        return self._expected_log(-positive_log(self.keyed.pair.weights) - self.keyed.pair.shift, self.mark)

    def _kl(self, other: Factor) -> Value:
        """Σ p (log p − log q) over the cells of p; infinite where q is zero and p is not."""
        return self._kl_sparse(other if isinstance(other, Sparse) else Sparse.from_table(other))  # type: ignore[arg-type]

    def _kl_sparse(self, other: Sparse) -> Value:
        xp = namespace(*self.leaves(), *other.leaves())
        own, theirs = self.keyed_on(xp), sort_over(other, self.names, xp)
        q = look_up(theirs, own.keys)
        return self._expected_log(read_log(own.pair) - read_log(q), self.mark | other.mark, other.absent)

    def _expected_log(self, values: Data, mark: Exactness, fault: Data = 0.0) -> Value:
        """Σ p · v over the cells stored, a zero weight taking no part."""
        pair = self.keyed_on(namespace(values)).pair
        xp = namespace(values, pair.weights)
        zero = pair.weights == 0
        total = xp.sum(xp.where(zero, 0.0, read_linear(pair) * xp.where(zero, 0.0, values)))
        return Array._of(xp.asarray(total + self._absent + fault), (), {}, Real, mark)


def _narrowed(pair: Scaled) -> Scaled:
    """Weights of NumPy that single precision holds too: a product with a factor of JAX may be computed in it."""
    if not pair.is_linear:
        return pair
    pair = bounded(pair)
    return pair if abs(pair.low) < NARROW and abs(pair.high) < NARROW else gauged(pair)


def sort_over(f: Sparse, names: Sequence[Name], xp: ModuleType) -> Keyed:
    """The cells with keys over the same names in another order."""
    keyed = f.keyed_on(xp)
    if tuple(names) == f.names:
        return keyed
    return sort(Keyed(f.key_over(names, keyed, keyed.end), keyed.pair, keyed.end))


@promotion(Sparse, Table)
def sparse_to_table(f: Sparse) -> Table:
    """f, with every cell stored"""
    return f.to_table()
