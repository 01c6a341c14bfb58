"""Rules of tables: each is one equation; the arithmetic is in `table` and `scaled`."""

from __future__ import annotations

import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data, is_jax, is_traced, namespace, require
from fubini.base.domains import merge_inputs
from fubini.base.names import Name
from fubini.base.semirings import Semiring, sum_product
from fubini.errors import DataError, DomainError
from fubini.factors.table import (
    Table,
    divided_by_mass,
    expanded,
    multiply_out,
    pointwise,
)
from fubini.numerics.named_axes import align, gather, require_in_range, substituted_names
from fubini.numerics.scaled import Scaled, added, divided, exclusive, levelled, multiplied, raised
from fubini.terms.exactness import combined
from fubini.terms.factor import Factor, Unit, Weight, is_tabular, to_factor_rules
from fubini.terms.heads import (
    exact_add,
    exact_condition,
    exact_divide,
    exact_exclude,
    exact_join,
    exact_level,
    exact_multiply,
    exact_multiply_out,
    exact_normalize,
    exact_power,
    exact_substitute,
)
from fubini.terms.value import Value, to_array


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
    return Table.from_log(data, {name: factor.inputs[name] for name in order})._marked(factor.exactness)


@exact_multiply.rule
def multiply_tables(f: Table, g: Table) -> Table:
    """(f·g)(x, y, z)  =  f(x, y) g(y, z)"""
    return pointwise(f, g, multiplied)


@exact_divide.rule
def divide_tables(f: Table, g: Table) -> Table:
    """(f/g)(x, y)  =  f(x, y) / g(y),  0/0 = 0,  x/0 an error"""
    result = pointwise(f, g, divided)
    if g.is_on_numpy and np.all(g.pair.weights):
        return result
    names = result.names
    over, under = f.aligned(names).weights, g.aligned(names).weights
    xp = namespace(over, under)
    ok = xp.broadcast_to(~((under == 0) & (over > 0)), result.pair.weights.shape)
    (weights,) = require(ok, lambda: _division_by_zero(f, g, ok, names), result.pair.weights)
    return Table._of(result.pair._replace(weights=weights), result.inputs, result.exactness)


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
    return divided_by_mass(f, total)


@exact_condition.rule
def condition_table(f: Table, names: tuple) -> tuple[Factor, ...]:
    """p(z | y)  =  f(z, y) / Σ_z f(z, y),  0/0 = 0"""
    return (f / f.sum(*names),) if names else ()


@exact_add.rule
def add_tables(f: Table, g: Table) -> Table:
    """(f + g)(x, y, z)  =  f(x, y) + g(y, z)"""
    return pointwise(f, g, added)


@exact_power.rule(when=lambda f, exponent: is_tabular(exponent))
def power_table(f: Table, exponent: Value) -> Table:
    """(f^a)(x)  =  f(x)^a"""
    power = to_array(exponent)
    inputs = merge_inputs(f.inputs, power.inputs)
    names = tuple(inputs)
    weights, a = f.aligned(names), align(power.array, power.names, names)
    require(namespace(a).isfinite(a), lambda: DataError(f"a power of {f}", expected="a finite exponent"))
    zero = (weights.weights == 0) & (a < 0)
    (base,) = require(~zero, lambda: _zero_to_negative(f), weights.weights)
    mark = f.exactness | exponent.exactness
    return Table._of(expanded(raised(weights._replace(weights=base), a), inputs), inputs, mark)


def _zero_to_negative(f: Table) -> DataError:
    return DataError(f"a negative power of {f}, which has zeros", expected="positive weights: 1/0 is not a number")


@exact_multiply_out.rule
def multiply_out_table(f: Table, names: tuple) -> Table:
    """Π_i f(i, x)  =  g(x)"""
    return multiply_out(sum_product, f, names)


@exact_substitute.rule(when=lambda f, values: all(map(is_tabular, values.values())))
def substitute_table(f: Table, values: Mapping) -> Table:
    """f(x = v(j), y)  =  the entries gathered along j"""
    args = {name: to_array(value) for name, value in values.items()}
    if all(type(arg.array) is np.ndarray and not arg.names for arg in args.values()):
        table = f.at({name: require_in_range(name, arg.array, f.inputs[name]) for name, arg in args.items()})
        mark = combined(args.values())
        return table if mark.is_exact else table._marked(mark)
    indices = {name: (arg.array, arg.names) for name, arg in args.items()}
    weights, shift, *_ = f.pair
    rest = {name: domain for name, domain in f.inputs.items() if name not in args}
    domains = merge_inputs(rest, *(arg.inputs for arg in args.values()))
    inputs = {name: domains[name] for name in substituted_names(f.names, indices)}
    taken, _ = gather(weights, f.inputs, indices)
    if np.ndim(shift):
        shift, _ = gather(shift, f.inputs, indices)
    return Table._of(Scaled(taken, shift, *_bounds_if_linear(f.pair)), inputs, f.exactness | combined(args.values()))


def _bounds_if_linear(pair: Scaled) -> tuple[float, float]:
    return (pair.low, pair.high) if pair.is_linear else (math.nan, math.nan)


@exact_exclude.rule
def exclude_table(semiring: Semiring, f: Table, names: tuple) -> Table:
    """g(i, x)  =  Π_{j≠i} f(j, x)"""
    axes = tuple(f.names.index(name) for name in names)
    return Table._of(exclusive(semiring, f.pair, axes), f.inputs, f.exactness)


@exact_level.rule
def level_table(f: Table, plates: tuple, names: tuple) -> Table:
    """g(i, x)  =  f(i, x) / f(i, x̂),  x̂ = arg max_x Π_i f(i, x);  what is common on NumPy costs no digits"""
    if not is_jax(f.pair.weights):
        return f
    axes = (tuple(axis for axis, name in enumerate(f.names) if name in group) for group in (plates, names))
    return Table._of(levelled(f.pair, *axes), f.inputs, f.exactness)


@exact_join.rule
def join_table(f: Table) -> Table:
    """f  =  f"""
    return f


@exact_join.rule(when=is_tabular)
def join_weight(f: Weight | Unit) -> Table:
    """exp(v(x))  =  the table of v's numbers"""
    return to_table(f)
