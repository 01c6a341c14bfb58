"""Table: a factor over bounded integers, as weights with named axes and a log shift."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from fubini.arrays import Data, as_floats, is_jax, is_traced, namespace, require
from fubini.domains import Bint, Domain, merge_inputs
from fubini.errors import DataError, DomainError, NameClash, listed
from fubini.factors.contract import contract
from fubini.factors.scaled import Scaled, added, bounded, divided, multiplied, multiplied_out, raised, read_log, reduced
from fubini.semirings import Semiring, same_pair, sum_product
from fubini.terms.exactness import Exactness, exactly
from fubini.terms.factor import (
    Factor,
    Weight,
    combined,
    exact_add,
    exact_divide,
    exact_join,
    exact_multiply,
    exact_normalize,
    exact_power,
    exact_product,
    exact_substitute,
    exact_sum,
    to_factor_rules,
)
from fubini.terms.named import align, gather, substituted_names
from fubini.terms.notation import Notation, Symbol
from fubini.terms.term import Name
from fubini.terms.value import Array, Value, to_array

Axes = Sequence[Name] | Mapping[Name, Domain]


class Table(Factor):
    """weights · exp(shift), non-negative, one axis for each name.

    >>> f = Table([[0.5, 0.75], [0.25, 0.0]], ("a", "b"))
    >>> f.inputs, float(f.sum("a", "b"))
    ({'a': Bint[2], 'b': Bint[2]}, 1.5)
    """

    _leaf_fields = ("weights", "shift")
    _static_fields = ("mark",)
    weights: Data
    shift: Data
    mark: Exactness

    def __init__(self, weights: Data, names: Axes = ()) -> None:
        weights = as_floats(weights)
        inputs = _axes(weights, names)
        ok = (weights >= 0) & (weights < np.inf)
        (weights,) = require(ok, lambda: _bad_weights(weights, ok, inputs), weights)
        self._set(weights=weights, shift=0.0, inputs=inputs, mark=exactly)

    @classmethod
    def from_log(cls, log_weights: Data, names: Axes = ()) -> Table:
        """A table from log-weights; −inf is a weight of zero.

        >>> Table.from_log([0.0, -1000.0], ("a",)).max("a")
        1
        """
        logs = as_floats(log_weights)
        inputs = _axes(logs, names)
        ok = logs < np.inf
        (logs,) = require(ok, lambda: _bad_weights(logs, ok, inputs, "log-weight"), logs)
        xp = namespace(logs)
        zero = logs == -np.inf
        weights = xp.where(zero, 0.0, xp.where(xp.isnan(logs), logs, 1.0)).astype(logs.dtype)
        return cls._of(Scaled(weights, xp.where(zero, 0.0, logs)), inputs)

    @classmethod
    def _of(cls, pair: Scaled, inputs: dict[Name, Domain], exactness: Exactness = exactly) -> Table:
        """A table from numerics, unchecked."""
        new = object.__new__(cls)
        fields = {"weights": pair.weights, "shift": pair.shift, "inputs": inputs, "mark": exactness}
        new.__dict__.update(fields, _cached_pair=pair)
        return new

    @property
    def exactness(self) -> Exactness:
        """How its numbers came about."""
        return self.mark

    @property
    def names(self) -> tuple[Name, ...]:
        """The axes, in order."""
        return tuple(self.inputs)

    @property
    def pair(self) -> Scaled:
        """The scaled weights; a scalar shift, or one of the weights' shape."""
        pair = self.__dict__.get("_cached_pair")
        if pair is None:
            pair = Scaled(self.weights, self.shift)
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

    def _renamed(self, names: Mapping[Name, Name]) -> Table:
        inputs = {names.get(name, name): domain for name, domain in self.inputs.items()}
        return Table._of(self.pair, inputs, self.exactness)

    def _with_axis(self, name: Name) -> Table:
        size = self.weights.shape[0]
        extra = np.ndim(self.weights) - np.ndim(self.shift)
        shift = self.shift.reshape(self.shift.shape + (1,) * extra) if np.ndim(self.shift) else self.shift
        shift = namespace(shift).broadcast_to(shift, self.weights.shape) if np.ndim(shift) else shift
        return Table._of(Scaled(self.weights, shift), {name: Bint[size], **self.inputs}, self.exactness)

    def _log(self) -> Value:
        return Array(read_log(self.pair), self.names)

    def _linear(self, logarithm: float) -> float:
        return float(self.weights) if np.ndim(self.shift) == 0 and self.shift == 0 else math.exp(logarithm)

    def notation(self) -> Notation:
        if self.inputs or is_traced(self.weights, self.shift):
            return super().notation()
        value = float(read_log(self.pair))
        return Symbol(f"{math.exp(value):.7g}" if value < 700 else f"exp({value:.7g})")

    def _entropy(self) -> Value:
        """−Σ p log p, with 0 log 0 = 0."""
        return Array(-_sum_of_products(self.pair, read_log(self.pair)))

    def _kl(self, other: Factor) -> Value:
        """Σ p (log p − log q), with 0 log 0 = 0; infinite where q is zero and p is not."""
        q = align(read_log(other.pair), other.names, self.names)  # type: ignore[attr-defined]
        return Array(_sum_of_products(self.pair, read_log(self.pair) - q))

    # -- numerics by name -------------------------------------------------------------------------------------------

    def aligned(self, names: Sequence[Name]) -> Scaled:
        """The scaled weights with axes in this order, of extent 1 for names the table lacks."""
        if tuple(names) == self.names:
            return self.pair
        weights, shift, low, high = self.pair
        shift = align(shift, self.names, names) if np.ndim(shift) else shift
        return Scaled(align(weights, self.names, names), shift, low, high)

    def reduced(self, semiring: Semiring, names: Sequence[Name]) -> Table:
        """⊕ over names."""
        axes = tuple(axis for axis, name in enumerate(self.inputs) if name in names)
        inputs = {name: domain for name, domain in self.inputs.items() if name not in names}
        return Table._of(reduced(semiring, self.pair, axes), inputs, self.exactness)

    def normalized(self, names: Sequence[Name]) -> Table:
        """f / Σ f over names; an error where nothing has mass."""
        pair = self.pair
        if type(pair.weights) is not np.ndarray or not pair.is_linear:
            return normalize_table(self, self.reduced(sum_product, names))
        axes = tuple(axis for axis, name in enumerate(self.inputs) if name in names)
        total = pair.weights.sum(axes, keepdims=True)
        require(total > 0, lambda: _no_mass(self))
        return Table._of(bounded(Scaled(pair.weights / total, 0.0)), self.inputs, self.exactness)

    def transposed(self, names: Sequence[Name]) -> Table:
        """The same function with its axes in another order."""
        if tuple(names) == self.names:
            return self
        return Table._of(self.aligned(names), {name: self.inputs[name] for name in names}, self.exactness)


def _sum_of_products(pair: Scaled, values: Data) -> Data:
    """Σ w·exp(s)·v, where a zero weight takes no part whatever v is."""
    xp = namespace(pair.weights, values)
    positive = pair.weights > 0
    weights = pair.weights * xp.exp(pair.shift)
    return xp.sum(xp.where(positive, weights * xp.where(positive, values, 0.0), 0.0))


def _axes(weights: Data, names: Axes) -> dict[Name, Domain]:
    given = tuple(names)
    if isinstance(names, str):
        raise DomainError(f"axes {names!r}", expected="a tuple of names", advice=f"write ({names!r},)")
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


def _bad_weights(weights: Data, ok: Data, inputs: Mapping, what: str = "weight") -> DataError:
    where = "" if is_traced(ok) else f" (found {np.asarray(weights)[~np.asarray(ok)].flat[0]})"
    kind = "non-negative and finite" if what == "weight" else "numbers below infinity, not NaN"
    advice = "log-weights go through fb.Table.from_log" if what == "weight" else "−inf is a weight of zero"
    return DataError(
        f"a Table over {listed(inputs)} with a bad {what}{where}", expected=f"{what}s {kind}", advice=advice
    )


# -- rules ----------------------------------------------------------------------------------------------------------


@to_factor_rules.rule
def number_to_table(number: float | int | np.ndarray | np.generic | jax.Array) -> Table:
    """c  =  the closed table of weight c"""
    if np.ndim(number):
        raise DomainError(f"an array of shape {np.shape(number)} as a factor", expected="a number, or a named Table")
    return Table(jnp.asarray(number, float) if is_jax(number) else float(number))


def to_table(factor: Factor) -> Table:
    """A weight over bounded integers as a table."""
    array = to_array(factor.log())
    order = tuple(factor.inputs)
    data = namespace(array.array).broadcast_to(
        align(array.array, array.names, order), [factor.inputs[name].size for name in order]
    )
    return Table.from_log(data, {name: factor.inputs[name] for name in order})


def is_tabular(factor: Factor) -> bool:
    """Every input is a bounded integer."""
    return all(domain.is_finite for domain in factor.inputs.values())


def contract_tables(semiring: Semiring, f: Table, g: Table, keep: frozenset[Name]) -> Table:
    """⊕ f·g over every name not kept."""
    pair, names = contract(semiring, f.pair, f.names, g.pair, g.names, keep)
    inputs = {name: f.inputs[name] if name in f.inputs else g.inputs[name] for name in names}
    return Table._of(pair, inputs, f.exactness | g.exactness)


def _pointwise(f: Table, g: Table, numerics: Callable[[Scaled, Scaled], Scaled]) -> Table:
    inputs = f.inputs if f.inputs.keys() >= g.inputs.keys() else merge_inputs(f.inputs, g.inputs)
    names = tuple(inputs)
    pair = numerics(f.aligned(names), g.aligned(names))
    return Table._of(_expanded(pair, inputs), inputs, combined((f, g)))


def _expanded(pair: Scaled, inputs: Mapping[Name, Domain]) -> Scaled:
    """The pair over the full extent of its inputs."""
    shape = tuple(domain.size for domain in inputs.values())
    if pair.weights.shape == shape:
        return pair
    xp = namespace(pair.weights, pair.shift)
    shift = pair.shift if pair.is_linear else xp.broadcast_to(pair.shift, shape)
    return Scaled(xp.broadcast_to(pair.weights, shape), shift)


@exact_multiply.rule
def multiply_tables(f: Table, g: Table) -> Table:
    """(f·g)(x, y, z)  =  f(x, y) g(y, z)"""
    return _pointwise(f, g, multiplied)


@exact_divide.rule
def divide_tables(f: Table, g: Table) -> Table:
    """(f/g)(x, y)  =  f(x, y) / g(y),  0/0 = 0,  x/0 an error"""
    result = _pointwise(f, g, divided)
    names = result.names
    over, under = f.aligned(names).weights, g.aligned(names).weights
    xp = namespace(over, under)
    ok = xp.broadcast_to(~((under == 0) & (over > 0)), result.weights.shape)
    (weights,) = require(ok, lambda: _division_by_zero(f, g, ok, names), result.weights)
    return result if weights is result.weights else Table._of(Scaled(weights, result.shift), result.inputs)


def _division_by_zero(f: Table, g: Table, ok: Data, names: tuple[Name, ...]) -> DataError:
    cell = ""
    if not is_traced(ok) and names:
        at = np.argwhere(~np.asarray(ok))[0]
        cell = f", at {', '.join(f'{name}={index}' for name, index in zip(names, at, strict=True))}"
    return DataError(
        f"{f} / {g}: a positive number over zero{cell}",
        expected="a divisor that is positive wherever the dividend is (0/0 is 0)",
    )


@exact_normalize.rule
def normalize_table(f: Table, total: Table) -> Table:
    """f / Z,  Z > 0"""
    (weights,) = require(total.weights > 0, lambda: _no_mass(f), total.weights)
    return _pointwise(f, Table._of(total.pair._replace(weights=weights), total.inputs, total.exactness), divided)


def _no_mass(f: Factor) -> DataError:
    return DataError(
        f"normalising {f}, which is zero everywhere",
        expected="a factor with positive mass",
        advice="the evidence is impossible under the model: check the observed values",
    )


@exact_add.rule
def add_tables(f: Table, g: Table) -> Table:
    """(f + g)(x, y, z)  =  f(x, y) + g(y, z)"""
    return _pointwise(f, g, added)


@exact_power.rule(when=lambda f, exponent: is_tabular(exponent))
def power_table(f: Table, exponent: Value) -> Table:
    """(f^a)(x)  =  f(x)^a"""
    power = to_array(exponent)
    inputs = merge_inputs(f.inputs, power.inputs)
    names = tuple(inputs)
    weights, a = f.aligned(names), align(power.array, power.names, names)
    ok = ~((weights.weights == 0) & (a < 0))
    pair = raised(weights, a)
    checked = require(
        ok, lambda: DataError(f"a negative power of {f}, which has zeros", expected="no 1/0"), pair.weights
    )
    return Table._of(_expanded(pair._replace(weights=checked[0]), inputs), inputs, f.exactness)


@exact_sum.rule
def sum_table(semiring: Semiring, f: Table, names: tuple) -> Table:
    """⊕_x f(x, y)  =  g(y)"""
    return read_out(semiring, embedded(semiring, f).reduced(semiring, names))


def embedded(semiring: Semiring, table: Table) -> Table:
    """Weights into the carrier."""
    return table if semiring.embed is same_pair else _mapped(table, semiring.embed)


def read_out(semiring: Semiring, table: Table) -> Table:
    """The carrier back as weights."""
    return table if semiring.read is same_pair else _mapped(table, semiring.read)


def _mapped(table: Table, change: Callable) -> Table:
    weights, shift = change(namespace(table.weights), *table.pair[:2])
    same = weights is table.weights and shift is table.shift
    return table if same else Table._of(Scaled(weights, shift), table.inputs, table.exactness)


@exact_product.rule
def multiply_out_table(f: Table, names: tuple) -> Table:
    """Π_i f(i, x)  =  g(x)"""
    return multiply_out(sum_product, f, names)


def multiply_out(semiring: Semiring, f: Table, names: Sequence[Name]) -> Table:
    """⊗ over names."""
    pair, inputs = f.pair, dict(f.inputs)
    for name in names:
        pair = multiplied_out(semiring, pair, list(inputs).index(name))
        del inputs[name]
    return Table._of(pair, inputs, f.exactness)


@exact_substitute.rule(when=lambda f, values: all(map(is_tabular, values.values())))
def substitute_table(f: Table, values: Mapping) -> Table:
    """f(x = v(j), y)  =  the entries gathered along j"""
    args = {name: to_array(value) for name, value in values.items()}
    indices = {name: (arg.array, arg.names) for name, arg in args.items()}
    weights, shift, *_ = f.pair
    rest = {name: domain for name, domain in f.inputs.items() if name not in args}
    domains = merge_inputs(rest, *(arg.inputs for arg in args.values()))
    inputs = {name: domains[name] for name in substituted_names(f.names, indices)}
    taken, _ = gather(weights, f.inputs, indices)
    if np.ndim(shift):
        shift, _ = gather(shift, f.inputs, indices)
    return Table._of(Scaled(taken, shift, *_bounds_if_linear(f.pair)), inputs, f.exactness)


def _bounds_if_linear(pair: Scaled) -> tuple[float, float]:
    return (pair.low, pair.high) if pair.is_linear else (math.nan, math.nan)


@exact_join.rule
def join_table(f: Table) -> Table:
    """f  =  f"""
    return f


@exact_join.rule(when=is_tabular)
def join_weight(f: Weight) -> Table:
    """exp(v(x))  =  the table of v's numbers"""
    return to_table(f)
