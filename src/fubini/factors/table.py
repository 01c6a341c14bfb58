"""Table: a factor over bounded integers, as weights with named axes and a log shift."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence

import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data, as_floats, is_jax, is_traced, namespace, require
from fubini.base.distant import own_entries
from fubini.base.domains import Bint, Domain, Real, merge_inputs
from fubini.base.names import Name, as_names
from fubini.base.semirings import Semiring, sum_product
from fubini.errors import DataError, DomainError, NameClash, listed
from fubini.factors.no_mass import no_mass
from fubini.numerics.contraction import contract
from fubini.numerics.named_axes import align
from fubini.numerics.scaled import (
    SAFE_LOG,
    Scaled,
    bounded,
    divided,
    gauged,
    multiplied_out,
    normalized,
    read_linear,
    read_log,
    reduced,
)
from fubini.show.notation import Notation, Symbol
from fubini.show.printed_form import Block, Expression
from fubini.terms.exactness import Exactness, combined, exactly
from fubini.terms.factor import Factor
from fubini.terms.fields import array_field, static_field
from fubini.terms.name_axis import require_added_axis
from fubini.terms.numbers import COLUMNS, ROWS, ends, grid, taken
from fubini.terms.value import Array, Value, to_array

Axes = Sequence[Name] | Mapping[Name, Domain]
NARROW = SAFE_LOG["float32"]
GREATEST = 700.0  # the logarithm of a weight that is printed as a number


class Table(Factor):
    """Non-negative weights, one axis for each name; held as scaled weights and a shift of their logarithm.

    >>> f = Table([[0.5, 0.75], [0.25, 0.0]], ("a", "b"))
    >>> f.inputs, float(f.sum("a", "b"))
    ({'a': Bint[2], 'b': Bint[2]}, 1.5)
    """

    lists_cells = True
    _scaled: Data = array_field()
    _shift: Data = array_field()
    mark: Exactness = static_field()

    def __init__(self, weights: Data, names: Axes = ()) -> None:
        weights = as_floats(own_entries(weights))
        inputs = _axes(weights, names)
        if type(weights) is not np.ndarray or not _all_between(weights, 0.0, sys.float_info.max):
            ok = (weights >= 0) & (weights < np.inf)
            (weights,) = require(ok, lambda: _bad_weights(weights, ok, inputs), weights)
        shift = jnp.zeros_like(weights) if is_jax(weights) else 0.0
        self._set(_scaled=weights, _shift=shift, inputs=inputs, mark=exactly)

    @classmethod
    def from_log(cls, log_weights: Data, names: Axes = ()) -> Table:
        """A table from log-weights; −inf is a weight of zero.

        >>> Table.from_log([0.0, -1000.0], ("a",)).max("a")
        1
        """
        logs = as_floats(own_entries(log_weights))
        inputs = _axes(logs, names)
        ok = logs < np.inf
        (logs,) = require(ok, lambda: _bad_weights(logs, ok, inputs, "log-weight"), logs)
        xp = namespace(logs)
        zero = logs == -np.inf
        weights = xp.where(zero, 0.0, xp.where(xp.isnan(logs), logs, 1.0)).astype(logs.dtype)
        shift = xp.where(zero, 0.0, logs)
        if xp is np and not inputs:
            return cls._of(Scaled(weights, float(shift), 0.0, 0.0), inputs)
        return cls._of(Scaled(weights, shift), inputs)

    @classmethod
    def _of(cls, pair: Scaled, inputs: dict[Name, Domain], exactness: Exactness = exactly) -> Table:
        """Make a table from numerics, unchecked."""
        new = object.__new__(cls)
        fields = new.__dict__
        fields["_scaled"], fields["_shift"], fields["_cached_pair"] = pair.weights, pair.shift, pair
        fields["inputs"], fields["mark"] = inputs, exactness
        return new

    @property
    def exactness(self) -> Exactness:
        """The approximations behind its numbers."""
        return self.mark

    @property
    def is_known_zero(self) -> bool:
        return self.is_on_numpy and not self._scaled.any()

    @property
    def is_solvable(self) -> bool:
        return not self.inputs and _is_double(self._scaled) and _is_double(self._shift)

    @property
    def is_on_numpy(self) -> bool:
        """Whether its weights are an array or a number of NumPy."""
        return isinstance(self._scaled, (np.ndarray, np.generic))

    @property
    def names(self) -> tuple[Name, ...]:
        """The axes, in order.

        >>> fb.Table([[0.5, 0.5]], ("a", "b")).names
        ('a', 'b')
        """
        return tuple(self.inputs)

    @property
    def weights(self) -> Data:
        """The weights themselves; 0 or infinite where the dtype holds no such number, and `log()` does.

        >>> (Table([1.0, 3.0], ("a",)) * 1e3).normalize().weights
        array([0.25, 0.75])
        """
        if (
            type(self._shift) is float
            and self._shift == 0.0
            and (type(self._scaled) is np.ndarray or is_jax(self._scaled))
        ):
            return self._scaled
        return read_linear(Scaled(self._scaled, self._spread_shift()))

    def _spread_shift(self) -> Data:
        """The shift beside the weights, also where `vmap` has put an axis in front of both."""
        extra = np.ndim(self._scaled) - np.ndim(self._shift)
        return self._shift.reshape(self._shift.shape + (1,) * extra) if extra and np.ndim(self._shift) else self._shift

    @property
    def pair(self) -> Scaled:
        """The scaled weights; a scalar shift, or one of the weights' shape."""
        pair = self.__dict__.get("_cached_pair")
        if pair is None:
            pair = Scaled(self._scaled, self._shift)
            self._require_named(pair)
            if type(pair.weights) is np.ndarray and pair.is_linear:
                pair = bounded(pair)
            self.__dict__["_cached_pair"] = pair
        return pair

    def _require_named(self, pair: Scaled) -> None:
        extra = np.ndim(pair.weights) - len(self.inputs)
        if extra:
            raise DomainError(
                f"an operation on a Table with {extra} axes that have no name",
                expected="a name for each axis: this term was returned from vmap",
                advice='name the axis first: fb.name_axis(term, "i")',
            )

    # -- what every factor supplies ---------------------------------------------------------------------------------

    def _leading_names(self, field: str) -> tuple[Name, ...]:
        return self.names if np.ndim(self.__dict__[field]) else ()

    def _renamed(self, names: Mapping[Name, Name]) -> Table:
        inputs = {names.get(name, name): domain for name, domain in self.inputs.items()}
        return Table._of(self.pair, inputs, self.exactness)

    def _with_axis(self, name: Name) -> Table:
        require_added_axis(np.ndim(self._scaled) - len(self.inputs), self, name)
        size = self._scaled.shape[0]
        shift = self._spread_shift()
        shift = namespace(shift).broadcast_to(shift, self._scaled.shape) if np.ndim(shift) else shift
        return Table._of(Scaled(self._scaled, shift), {name: Bint[size], **self.inputs}, self.exactness)

    def _marked(self, mark: Exactness) -> Table:
        return Table._of(self.pair, self.inputs, self.exactness | mark)

    def _log(self) -> Value:
        return Array._of(read_log(self.pair), self.names, self.inputs, Real, self.exactness)

    def _normalized(self, names: tuple[Name, ...]) -> Table:
        return self.normalized(names)

    def _ordered(self, names: Sequence[Name]) -> Table:
        return self.transposed([name for name in names if name in self.inputs]) if len(self.inputs) > 1 else self

    def _portable(self) -> Table:
        """The same table w · exp(shift), with weights w that single precision can hold, their scale in the shift."""
        if not self.is_on_numpy:
            return self
        pair = self.pair
        fits = pair.is_linear and abs(pair.low) < NARROW and abs(pair.high) < NARROW
        return Table._of(pair if fits else gauged(pair), self.inputs, self.exactness)

    def _with_error(self, error: float | None) -> Table:
        return self if error is None else Table._of(self.pair, self.inputs, self.exactness.with_error(error))

    @classmethod
    def _blank(cls, names: Iterable[Name]) -> Table:
        names = tuple(names)
        return cls(np.ones((1,) * len(names)), names)

    def _linear(self, logarithm: float) -> float:
        return float(self._scaled) if np.ndim(self._shift) == 0 and self._shift == 0 else math.exp(logarithm)

    def notation(self) -> Notation:
        if np.ndim(self._scaled) or is_traced(self._scaled, self._shift):
            return super().notation()
        value = float(read_log(self.pair))
        return Symbol(f"{math.exp(value):.7g}" if not GREATEST < abs(value) < math.inf else f"exp({value:.7g})")

    def _form(self) -> Iterable[Block]:
        """The weights under their labels; logarithms where weights leave the range of numbers."""
        yield Expression(self.notation())
        if not self.inputs or is_traced(self._scaled, self._shift) or np.ndim(self._scaled) != len(self.inputs):
            return
        *leading, last = np.shape(self._scaled)
        positions = [*(range(min(size, ROWS + 1)) for size in leading), ends(last, COLUMNS // 2)]
        is_whole = np.shape(self._shift) == np.shape(self._scaled)
        shift = self._shift if is_whole else np.broadcast_to(np.asarray(self._shift), np.shape(self._scaled))
        weights, shifts = (np.asarray(taken(part, positions), np.float64) for part in (self._scaled, shift))
        logs = read_log(Scaled(weights, shifts))
        size = np.max(np.abs(logs), where=np.isfinite(logs), initial=0.0)
        numbers, title = (np.exp(logs), "") if size < GREATEST else (logs, " (log)")
        labels = [list(map(domain.label, at)) for domain, at in zip(self.inputs.values(), positions, strict=True)]
        yield grid(numbers, [str(name) for name in self.names], labels, title)

    def _mean(self, name: Name) -> Value:
        """Σ_x x p(x)"""
        return self._moment(name, np.arange(self.inputs[name].extent, dtype=float))

    def _covariance(self, name: Name) -> Value:
        """Σ_x (x − mean)² p(x)"""
        axis = self.names.index(name)
        xp = namespace(self._scaled)
        mean = to_array(self._mean(name)).array
        cells = np.arange(self.inputs[name].extent, dtype=float).reshape([-1] + [1] * (len(self.names) - axis - 1))
        return self._moment(name, (cells - xp.expand_dims(mean, axis)) ** 2, spread=False)

    def _moment(self, name: Name, values: Data, spread: bool = True) -> Value:
        """Σ_x values · p(x), p normalised over x."""
        weights, axis = self.normalized((name,)).weights, self.names.index(name)
        xp = namespace(weights)
        if spread:
            values = values.reshape([-1] + [1] * (len(self.names) - axis - 1))
        rest = tuple(other for other in self.names if other != name)
        return Array._of(xp.sum(weights * values, axis=axis), rest, self.inputs, Real, self.exactness)

    def _entropy(self) -> Value:
        """−Σ p log p, with 0 log 0 = 0."""
        return Array._of(-_sum_of_products(self.pair, read_log(self.pair)), (), {}, Real, self.exactness)

    def _kl(self, other: Factor) -> Value:
        """Σ p (log p − log q), with 0 log 0 = 0; infinite where q is zero and p is not."""
        q = align(read_log(other.pair), other.names, self.names)  # type: ignore[attr-defined]
        p, xp = self.pair, namespace(self._scaled, q)
        total = _sum_of_products(p, read_log(p) - xp.where(p.weights == 0, 0.0, q))
        return Array._of(total, (), {}, Real, self.exactness | other.exactness)

    # -- numerics by name -------------------------------------------------------------------------------------------

    def aligned(self, names: Sequence[Name]) -> Scaled:
        """The scaled weights with axes in this order, of extent 1 for names the table lacks."""
        if tuple(names) == self.names:
            return self.pair
        weights, shift, low, high = self.pair
        shift = align(shift, self.names, names) if np.ndim(shift) else shift
        return Scaled(align(weights, self.names, names), shift, low, high)

    def numbers(self) -> Array:
        """The weights as a Value, with a derivative at a zero weight."""
        return Array._of(read_linear(self.pair), self.names, self.inputs, Real, self.exactness)

    def reduced(self, semiring: Semiring, names: Sequence[Name]) -> Table:
        """⊕ over names."""
        axes = tuple(axis for axis, name in enumerate(self.inputs) if name in names)
        inputs = {name: domain for name, domain in self.inputs.items() if name not in names}
        return Table._of(reduced(semiring, self.pair, axes), inputs, self.exactness)

    def normalized(self, names: Sequence[Name]) -> Table:
        """f / Σ f over names; an error where nothing has mass."""
        pair = self.pair
        axes = tuple(axis for axis, name in enumerate(self.inputs) if name in names)
        if is_jax(pair.weights):
            pair, total = normalized(pair, axes)
            (weights,) = require(total > 0, lambda: no_mass(self), pair.weights)
            return Table._of(pair._replace(weights=weights), self.inputs, self.exactness)
        if type(pair.weights) is not np.ndarray or not pair.is_linear:
            return divided_by_mass(self, self.reduced(sum_product, names))
        total = np.add.reduce(pair.weights, axis=axes, keepdims=True)
        if not (total > 0).all():
            raise no_mass(self)
        return Table._of(Scaled(pair.weights / total, 0.0), self.inputs, self.exactness)

    def at(self, indices: Mapping[Name, Data]) -> Table:
        """The cell or slice at known positions of some names."""
        where = tuple(indices.get(name, slice(None)) for name in self.inputs)
        weights, shift, low, high = self.pair
        shift = shift[where] if np.ndim(shift) else shift
        weights = weights[where]
        inputs = {name: domain for name, domain in self.inputs.items() if name not in indices}
        return Table._of(
            Scaled(np.asarray(weights) if not is_jax(weights) else weights, shift, low, high), inputs, self.mark
        )

    def transposed(self, names: Sequence[Name]) -> Table:
        """The same function with its axes in another order."""
        if tuple(names) == self.names:
            return self
        return Table._of(self.aligned(names), {name: self.inputs[name] for name in names}, self.exactness)


def _sum_of_products(pair: Scaled, values: Data) -> Data:
    """Σ w·exp(s)·v, where a zero weight takes no part whatever v is."""
    xp = namespace(pair.weights, values)
    zero = pair.weights == 0
    return xp.sum(xp.where(zero, 0.0, read_linear(pair) * xp.where(zero, 0.0, values)))


def _is_double(data: Data) -> bool:
    """Whether numbers are NumPy's, in double precision."""
    return type(data) is float or (isinstance(data, (np.ndarray, np.generic)) and data.dtype == np.float64)


def _axes(weights: Data, names: Axes) -> dict[Name, Domain]:
    given = as_names(names, "axes")
    if len(set(given)) != len(given):
        raise NameClash(f"a Table with axes {listed(given)}", expected="different names")
    if weights.ndim != len(given):
        asked = f"a Table of shape {weights.shape} with axes {listed(given)}"
        raise DomainError(asked, expected=f"{weights.ndim} names, one for each axis")
    if not isinstance(names, Mapping):
        return {name: Bint[size] for name, size in zip(given, weights.shape, strict=True)}
    for axis, (name, domain) in enumerate(names.items()):
        if not domain.is_finite or domain.size != weights.shape[axis]:
            asked = f"a Table with an axis {name!r} of extent {weights.shape[axis]} and domain {domain!r}"
            raise DomainError(asked, expected=f"Bint[{weights.shape[axis]}]")
    return dict(names)


def _all_between(weights: np.ndarray, low: float, high: float) -> bool:
    """Whether all weights are between two numbers, without a temporary array; NaN is never between."""
    return not weights.size or bool(weights.min() >= low and weights.max() <= high)


def _bad_weights(weights: Data, ok: Data, inputs: Mapping, what: str = "weight") -> DataError:
    where = "" if is_traced(ok, weights) else f" (got {np.asarray(weights)[~np.asarray(ok)].flat[0]})"
    kind = "non-negative and finite" if what == "weight" else "numbers below infinity, not NaN"
    advice = "log-weights go through fb.Table.from_log" if what == "weight" else "−inf is a weight of zero"
    return DataError(
        f"a Table over {listed(inputs)} with a bad {what}{where}", expected=f"{what}s {kind}", advice=advice
    )


def contract_tables(semiring: Semiring, f: Table, g: Table, keep: frozenset[Name]) -> Table:
    """⊕ f·g over every name not kept."""
    pair, names = contract(semiring, f.pair, f.names, g.pair, g.names, keep)
    both = merge_inputs(f.inputs, g.inputs)
    return Table._of(pair, {name: both[name] for name in names}, f.exactness | g.exactness)


def pointwise(f: Table, g: Table, numerics: Callable[[Scaled, Scaled], Scaled]) -> Table:
    """A binary operation on scaled weights, applied cell by cell to tables matched by name."""
    inputs = merge_inputs(f.inputs, g.inputs)
    names = tuple(inputs)
    pair = numerics(f.aligned(names), g.aligned(names))
    return Table._of(expanded(pair, inputs), inputs, combined((f, g)))


def expanded(pair: Scaled, inputs: Mapping[Name, Domain]) -> Scaled:
    """The pair over the full extent of its inputs."""
    shape = tuple(domain.size for domain in inputs.values())
    if pair.weights.shape == shape:
        return pair
    xp = namespace(pair.weights, pair.shift)
    shift = pair.shift if pair.is_linear else xp.broadcast_to(pair.shift, shape)
    return Scaled(xp.broadcast_to(pair.weights, shape), shift)


def multiply_out(semiring: Semiring, f: Table, names: Sequence[Name]) -> Table:
    """⊗ over names."""
    pair, inputs = f.pair, dict(f.inputs)
    for name in names:
        pair = multiplied_out(semiring, pair, list(inputs).index(name))
        del inputs[name]
    return Table._of(pair, inputs, f.exactness)


def divided_by_mass(f: Table, total: Table) -> Table:
    """f / Z where Z is a sum of f; an error where Z is zero."""
    return pointwise(f, with_mass(f, total), divided)


def with_mass(f: Factor, total: Table) -> Table:
    """Z, a sum of f; an error where it is zero."""
    pair = total.pair
    (weights,) = require(pair.weights > 0, lambda: no_mass(f), pair.weights)
    return Table._of(pair._replace(weights=weights), total.inputs, total.exactness)
