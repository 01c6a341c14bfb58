"""Rules of sparse factors: each is one equation; the arithmetic is in `sparse_algebra` and `keyed_weights`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fubini.base.arrays import Data, is_traced, namespace, require
from fubini.base.domains import merge_inputs
from fubini.base.interpretations import interpret
from fubini.base.semirings import Semiring
from fubini.errors import DataError
from fubini.factors.no_mass import no_mass
from fubini.factors.sparse import Sparse
from fubini.factors.sparse_algebra import (
    absent_of,
    add_sparse_factors,
    are_full,
    capacity_beside,
    cell_by_cell,
    contract_as_tables,
    contract_sparse_factors,
    embedded,
    exclude_rows,
    extend,
    join_sparse_factors,
    join_table,
    multiply_rows,
    substitute_positions,
    sum_groups,
)
from fubini.factors.table import Table
from fubini.numerics.keyed_weights import Keyed, count_positive, mask
from fubini.numerics.scaled import divided, multiplied, raised
from fubini.terms.factor import Factor, Unit, is_tabular
from fubini.terms.heads import (
    EXPECT,
    MULTIPLY,
    POWER,
    REDUCE,
    SUM,
    exact_add,
    exact_contract,
    exact_divide,
    exact_embed,
    exact_exclude,
    exact_expect,
    exact_join,
    exact_multiply,
    exact_multiply_out,
    exact_normalize,
    exact_power,
    exact_reduce,
    exact_substitute,
    exact_sum,
)
from fubini.terms.value import Value, to_array


@exact_join.rule
def join_sparse(f: Sparse) -> Sparse:
    """f  =  f"""
    return f


# -- products -------------------------------------------------------------------------------------------------------


@exact_multiply.rule
def multiply_sparse(f: Sparse, g: Sparse) -> Sparse:
    """(f·g)(x, y, z)  =  f(x, y) g(y, z), over the cells with the same y in both"""
    return join_sparse_factors(f, g)


@exact_multiply.rule
def multiply_sparse_table(f: Sparse, g: Table) -> Sparse:
    """(f·g)(x, y)  =  f(x, y) g(y) over the cells of f;  the join with the cells of g where g has other names"""
    if any(name not in f.inputs for name in g.inputs):
        return join_table(f, g)
    keyed, _ = cell_by_cell(f, g, multiplied)
    inputs = merge_inputs(f.inputs, g.inputs)
    return Sparse._of(keyed, f.absent + absent_of(g), inputs, f.capacity, f.exactness | g.exactness)


@exact_multiply.rule
def multiply_table_sparse(f: Table, g: Sparse) -> Sparse:
    """f·g  =  g·f"""
    return multiply_sparse_table(g, f)


# -- quotients ------------------------------------------------------------------------------------------------------


@exact_divide.rule
def divide_sparse(f: Sparse, g: Sparse | Table) -> Sparse:
    """(f/g)(x, y)  =  f(x, y) / g(y) over the cells of f,  0/0 = 0,  x/0 an error"""
    wide = extend(f, merge_inputs(f.inputs, g.inputs))
    keyed, divisor = cell_by_cell(wide, g, divided)
    dividend = wide.keyed_on(namespace(keyed.keys)).pair.weights
    ok = (divisor.weights != 0) | ~(dividend > 0)
    xp = namespace(ok)
    fault = require(ok, lambda: _division_by_zero(f, g, wide, keyed, ok), xp.zeros(ok.shape))[0].sum()
    absent = wide.absent + absent_of(g) + fault
    return Sparse._of(keyed, absent, wide.inputs, f.capacity, f.exactness | g.exactness)


@exact_divide.rule
def divide_table_sparse(f: Table, g: Sparse) -> Sparse:
    """f/g over the cells of f that are not zero"""
    return divide_sparse(Sparse.from_table(f, max(g.capacity, f.pair.weights.size)), g)


def _division_by_zero(f: Factor, g: Factor, wide: Sparse, keyed: Keyed, ok: Data) -> DataError:
    cell = ""
    if not is_traced(ok):
        slot = np.flatnonzero(~np.asarray(ok))[0]
        cell = ", at " + ", ".join(f"{name}={wide.positions(name, keyed)[slot]}" for name in wide.names)
    return DataError(
        f"{f} / {g}: a positive number over zero{cell}",
        expected="a divisor that is positive wherever the dividend is (0/0 is 0)",
        advice="a cell that a Sparse does not store is zero",
    )


@exact_normalize.rule
def normalize_sparse(f: Sparse, total: Sparse) -> Sparse:
    """f(x, y) / Z(y),  Z > 0 for every y"""
    keyed = total.keyed
    return _over_mass(f, total, count_positive(keyed) == keyed.end)


@exact_normalize.rule
def normalize_sparse_table(f: Sparse, total: Table) -> Sparse:
    """f / Z,  Z > 0"""
    return _over_mass(f, total, namespace(total.pair.weights).all(total.pair.weights > 0))


def _over_mass(f: Sparse, total: Sparse | Table, ok: Data) -> Sparse:
    keyed, _ = cell_by_cell(f, total, divided)
    xp = namespace(keyed.keys, ok)
    (absent,) = require(ok, lambda: no_mass(f), xp.asarray(f.absent + absent_of(total)))
    return Sparse._of(keyed, absent, f.inputs, f.capacity, f.exactness | total.exactness)


# -- sums -----------------------------------------------------------------------------------------------------------


@exact_add.rule
def add_sparse(f: Sparse, g: Sparse) -> Sparse:
    """(f + g)(x, y, z)  =  f(x, y) + g(y, z), over the cells of either"""
    return add_sparse_factors(f, g)


@exact_add.rule
def add_sparse_table(f: Sparse, g: Table) -> Sparse:
    """f + g, over the cells of either"""
    return add_sparse_factors(f, Sparse.from_table(g, g.pair.weights.size), f.capacity)


@exact_add.rule
def add_table_sparse(f: Table, g: Sparse) -> Sparse:
    """f + g  =  g + f"""
    return add_sparse_table(g, f)


@exact_sum.rule(when=lambda semiring, f, names: semiring.homogeneous)
def sum_sparse(semiring: Semiring, f: Sparse, names: tuple) -> Factor:
    """⊕_x f(x, y)  =  g(y): the cells of f grouped by y"""
    return sum_groups(semiring, embedded(semiring, f), names)


@exact_sum.rule(when=lambda semiring, f, names: not semiring.homogeneous, overlaps=("sum_sparse",))
def sum_sparse_as_table(semiring: Semiring, f: Sparse, names: tuple) -> Factor:
    """⊕_x f, with every cell stored: the zeros are not the unit of ⊕"""
    return interpret(SUM, semiring, f.to_table(), names)


@exact_embed.rule(when=lambda semiring, f: semiring.homogeneous)
def embed_sparse(semiring: Semiring, f: Sparse) -> Sparse:
    """The weights of the cells as elements of the carrier, where 0 stays 0"""
    return embedded(semiring, f)


@exact_reduce.rule(when=lambda semiring, f, names: semiring.homogeneous)
def reduce_sparse(semiring: Semiring, f: Sparse, names: tuple) -> Factor:
    """⊕_x f(x, y)  =  g(y) in the carrier"""
    return sum_groups(semiring, f, names) if names else f


@exact_contract.rule(when=lambda semiring, f, g, keep: semiring.homogeneous)
def contract_sparse(semiring: Semiring, f: Sparse, g: Sparse, keep: frozenset) -> Factor:
    """⊕_{x, y, z} f(x, y) g(y, z)  =  ⊕_y (⊕_x f)(⊕_z g), summed while it is joined"""
    left, right = _without_own(semiring, f, g, keep), _without_own(semiring, g, f, keep)
    capacity = max(f.capacity, g.capacity)
    if not isinstance(left, Sparse) or not isinstance(right, Sparse):
        return _summed_to(semiring, interpret(MULTIPLY, left, right), keep)
    if are_full(left, right, keep):
        return contract_as_tables(semiring, left, right, keep, capacity)
    return contract_sparse_factors(semiring, left, right, keep, capacity)


def _without_own(semiring: Semiring, f: Sparse | Table, other: Factor, keep: frozenset) -> Factor:
    """⊕ over the names that the other one lacks, and that are not kept."""
    own = tuple(name for name in f.inputs if name not in keep and name not in other.inputs)
    return interpret(REDUCE, semiring, f, own) if own else f


def _summed_to(semiring: Semiring, f: Factor, keep: frozenset) -> Factor:
    gone = tuple(name for name in f.inputs if name not in keep)
    return interpret(REDUCE, semiring, f, gone) if gone else f


@exact_contract.rule(when=lambda semiring, f, g, keep: semiring.homogeneous)
def contract_sparse_table(semiring: Semiring, f: Sparse, g: Table, keep: frozenset) -> Factor:
    """⊕ f·g over the cells of f;  of the cells of both where g has other names"""
    left, right = _without_own(semiring, f, g, keep), _without_own(semiring, g, f, keep)
    capacity = capacity_beside(f, g)
    if isinstance(left, Sparse) and isinstance(right, Table) and are_full(left, right, keep):
        return contract_as_tables(semiring, left, right, keep, capacity)
    if not isinstance(left, Sparse) or not isinstance(right, Table) or all(name in f.inputs for name in right.inputs):
        return _summed_to(semiring, interpret(MULTIPLY, left, right), keep)
    return contract_sparse_factors(semiring, left, Sparse.from_table(right, right.pair.weights.size), keep, capacity)


@exact_contract.rule(when=lambda semiring, f, g, keep: semiring.homogeneous)
def contract_table_sparse(semiring: Semiring, f: Table, g: Sparse, keep: frozenset) -> Factor:
    """⊕ f·g  =  ⊕ g·f"""
    return contract_sparse_table(semiring, g, f, keep)


# -- substitution, powers, plates -----------------------------------------------------------------------------------


@exact_substitute.rule(when=lambda f, values: all(map(is_tabular, values.values())))
def substitute_sparse(f: Sparse, values: Mapping) -> Factor:
    """f(x = v(j), y)  =  the cells of f joined with those of j on x = v(j)"""
    return substitute_positions(f, {name: to_array(value) for name, value in values.items()})


@exact_power.rule(when=lambda f, exponent: is_tabular(exponent))
def power_sparse(f: Sparse, exponent: Value) -> Factor:
    """(f^a)(x)  =  f(x)^a, where 0^a = 0 for a > 0;  with every cell stored for other a"""
    power = to_array(exponent)
    a = power.array
    if not is_traced(a) and not np.all((a > 0) & (a < np.inf)):
        return interpret(POWER, f.to_table(), exponent)
    xp = namespace(*f.leaves(), a)
    absent = require(a > 0, lambda: DataError(f"a power of {f}"), xp.zeros(np.shape(a)))[0].sum()
    wide = extend(f, power.inputs)
    keyed = wide.keyed_on(xp)
    exponents = xp.asarray(a)[tuple(wide.positions(name, keyed) for name in power.names)]
    pair = mask(raised(keyed.pair, exponents), keyed.used)
    mark = f.exactness | exponent.exactness
    return Sparse._of(keyed._replace(pair=pair), wide.absent + absent, wide.inputs, f.capacity, mark)


@exact_multiply_out.rule
def multiply_out_sparse(f: Sparse, names: tuple) -> Factor:
    """Π_i f(i, x)  =  g(x), over the x that have a cell for every i"""
    return multiply_rows(f, names)


@exact_exclude.rule(when=lambda semiring, f, names: semiring.homogeneous)
def exclude_sparse(semiring: Semiring, f: Sparse, names: tuple) -> Factor:
    """g(i, x)  =  Π_{j≠i} f(j, x);  1 where i has one value"""
    if all(f.inputs[name].extent == 1 for name in names):
        return Unit(f.inputs)
    return exclude_rows(semiring, f, names)


@exact_expect.rule
def expect_sparse(f: Sparse, value: Value, names: tuple) -> Value:
    """Σ_x p(x) v(x), with every cell stored"""
    return interpret(EXPECT, f.to_table(), value, names)
