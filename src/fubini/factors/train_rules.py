"""Rules of trains: each is one equation; the arithmetic is in `tensor_train` and `train_pairs`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import numpy as np

from fubini.base.arrays import Data, is_traced, namespace, require
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.base.semirings import Semiring, sum_product
from fubini.errors import DataError, NoRule, listed
from fubini.factors.table import Table, with_mass
from fubini.factors.table_rules import divide_tables
from fubini.factors.train import LARGEST_TABLE, Train, assemble, train_to_table
from fubini.factors.train_pairs import add_pieces, add_up, multiply_pieces, sum_pieces
from fubini.factors.train_pieces import Pieces, over_batch
from fubini.numerics.named_axes import align
from fubini.numerics.scaled import Scaled
from fubini.numerics.tensor_train import UNITS
from fubini.terms.exactness import combined
from fubini.terms.factor import Factor, is_tabular, substitute
from fubini.terms.heads import (
    ADD,
    DIVIDE,
    EXPECT,
    MULTIPLY,
    POWER,
    SUM,
    exact_add,
    exact_contract,
    exact_divide,
    exact_expect,
    exact_join,
    exact_multiply,
    exact_normalize,
    exact_power,
    exact_substitute,
    exact_sum,
)
from fubini.terms.value import Array, Value, gathered, to_array, to_value


@exact_join.rule
def join_train(f: Train) -> Train:
    """f  =  f"""
    return f


# -- products and sums of two ---------------------------------------------------------------------------------------


@exact_multiply.rule
def multiply_trains(f: Train, g: Train) -> Factor:
    """A_k(x) ⊗ B_k(x), rounded where the ranks pass the bound"""
    return assemble(multiply_pieces(f, g))


@exact_multiply.rule
def multiply_train_table(f: Train, g: Table) -> Factor:
    """f · the train of g"""
    return assemble(multiply_pieces(f, g))


@exact_multiply.rule
def multiply_table_train(f: Table, g: Train) -> Factor:
    """the train of f · g"""
    return assemble(multiply_pieces(f, g))


@exact_add.rule
def add_trains(f: Train, g: Train) -> Factor:
    """diag(A_k(x), B_k(x)), rounded where the ranks pass the bound"""
    return assemble(add_pieces(f, g))


@exact_add.rule
def add_train_table(f: Train, g: Table) -> Factor:
    """f + the train of g"""
    return assemble(add_pieces(f, g))


@exact_add.rule
def add_table_train(f: Table, g: Train) -> Factor:
    """the train of f + g"""
    return assemble(add_pieces(f, g))


# -- sums over names ------------------------------------------------------------------------------------------------


@exact_sum.rule(when=lambda semiring, f, names: semiring is sum_product)
def sum_train(semiring: Semiring, f: Train, names: tuple) -> Factor:
    """Σ_{x_k} A₁ ⋯ A_k(x_k) ⋯ A_d  =  A₁ ⋯ (Σ_{x_k} A_k(x_k)) ⋯ A_d"""
    return _summed(sum_pieces(f.pieces(f.batch), names), names)


def _summed(pieces: Pieces, names: tuple[Name, ...]) -> Factor:
    """The factor of pieces, summed over those of its batch that are among the names."""
    made = assemble(pieces)
    outer = tuple(name for name in pieces.batch if name in names)
    if isinstance(made, Table):
        return made.reduced(sum_product, outer)
    for name in outer:
        cells = [substitute(made, {name: to_value(k)}) for k in range(pieces.batch[name].extent)]
        made = add_up(cells, lambda one, two: interpret(ADD, one, two))
    return made


@exact_sum.rule(when=lambda semiring, f, names: semiring is not sum_product, overlaps=("sum_train",))
def reduce_train(semiring: Semiring, f: Train, names: tuple) -> Factor:
    """⊕_x of every entry, where they are few: a maximum does not pass a product of matrices"""
    return interpret(SUM, semiring, train_to_table(f, f"{semiring} over {listed(names)}"), names)


@exact_contract.rule(when=lambda semiring, f, g, keep: semiring is sum_product)
def contract_trains(semiring: Semiring, f: Train, g: Train, keep: frozenset) -> Factor:
    """Σ_x A(x) ⊗ B(x), rounded after the sum"""
    return _contracted(multiply_pieces(f, g), keep)


@exact_contract.rule(when=lambda semiring, f, g, keep: semiring is sum_product)
def contract_train_table(semiring: Semiring, f: Train, g: Table, keep: frozenset) -> Factor:
    """Σ_x A(x) ⊗ B(x), rounded after the sum"""
    return _contracted(multiply_pieces(f, g), keep)


@exact_contract.rule(when=lambda semiring, f, g, keep: semiring is sum_product)
def contract_table_train(semiring: Semiring, f: Table, g: Train, keep: frozenset) -> Factor:
    """Σ_x A(x) ⊗ B(x), rounded after the sum"""
    return _contracted(multiply_pieces(f, g), keep)


def _contracted(pieces: Pieces, keep: frozenset[Name]) -> Factor:
    names = tuple(name for name in (*pieces.names, *pieces.batch) if name is not None and name not in keep)
    return _summed(sum_pieces(pieces, names), names)


# -- substitution ---------------------------------------------------------------------------------------------------


@exact_substitute.rule(when=lambda f, values: all(map(is_tabular, values.values())))
def substitute_train(f: Train, values: Mapping) -> Factor:
    """A₁ ⋯ A_k(x_k = v(j)) ⋯ A_d: the matrices at v(j), with j in the batch"""
    args = {name: to_array(value) for name, value in values.items()}
    incoming = {name: domain for arg in args.values() for name, domain in arg.inputs.items()}
    parts = [_at(part._ground(), args) for part in (*f.cores, f.shift, f.error)]
    batch = {name: domain for part in parts for name, domain in part.inputs.items() if name not in f.order}
    batch.update({name: domain for name, domain in f.batch.items() if name not in args} | incoming)
    names = tuple(None if name in args or name in batch else name for name in f.order)
    outer = tuple(batch)
    *cores, shift, error = parts
    arrays = [over_batch(core, outer, name) for core, name in zip(cores, names, strict=True)]
    log, lost = (align(part.array, part.names, outer) for part in (shift, error))
    domains = {**{name: f.inputs[name] for name in f.order if name not in batch}, **batch}
    mark = f.exactness | combined(args.values())
    return assemble(Pieces(arrays, names, log, lost, batch, domains, f.rank, mark))


def _at(part: Array, args: Mapping[Name, Array]) -> Array:
    own = {name: arg for name, arg in args.items() if name in part.inputs}
    return gathered(part, own) if own else part


# -- quotients ------------------------------------------------------------------------------------------------------


@exact_divide.rule
def divide_train_table(f: Train, g: Table) -> Factor:
    """f · the train of 1/g,  0/0 = 0,  x/0 an error"""
    return interpret(MULTIPLY, f, _reciprocal(f, g))


def _reciprocal(f: Train, g: Table) -> Table:
    """1/g, and 0 where g is zero; an error where f is not zero there, which its sum over other names says."""
    pair = g.pair
    zero = pair.weights == 0
    xp = namespace(pair.weights, pair.shift)
    weights = xp.where(zero, 0.0, 1.0 / xp.where(zero, 1.0, pair.weights))
    if is_traced(zero) or np.any(zero):
        over = _mass_over(f, g)
        ok = ~(zero & (over > 0))
        (weights,) = require(ok, lambda: _division_by_zero(f, g), weights)
    return Table._of(Scaled(weights, -pair.shift), g.inputs, g.exactness)


def _mass_over(f: Train, g: Table) -> Data:
    """Σ f over all names that g does not have, relative to its greatest, aligned with g; 0 where it is noise."""
    others = tuple(name for name in f.inputs if name not in g.inputs)
    made = interpret(SUM, sum_product, f, others) if others else f
    table = train_to_table(made) if isinstance(made, Train) else made
    assert isinstance(table, Table), "the sum of a train is a train or a table"
    weights, shift, *_ = table.aligned(g.names)
    xp = namespace(weights, shift)
    logs = xp.where(weights > 0, xp.log(xp.where(weights > 0, weights, 1.0)) + shift, -np.inf)
    top = xp.max(logs)
    over = xp.exp(logs - xp.where(xp.isfinite(top), top, 0.0))
    return xp.where(over > UNITS * float(np.finfo(weights.dtype).eps), over, 0.0)


def _division_by_zero(f: Factor, g: Factor) -> DataError:
    return DataError(
        f"{f} / {g}: a positive number over zero",
        expected="a divisor that is positive wherever the dividend is (0/0 is 0)",
    )


@exact_divide.rule
def divide_trains(f: Train, g: Train) -> Factor:
    """f / (a₁(x₁) ⋯ a_d(x_d)), name by name, where g has rank 1; else entry by entry, where they are few"""
    if _has_rank_one(g):
        return reduce(lambda quotient, part: interpret(DIVIDE, quotient, part), _parts(g), f)
    _require_few(f, g)
    return divide_tables(train_to_table(f), train_to_table(g))


@exact_divide.rule
def divide_table_train(f: Table, g: Train) -> Factor:
    """f / (a₁(x₁) ⋯ a_d(x_d)), name by name, where g has rank 1; else entry by entry, where they are few"""
    if not _has_rank_one(g):
        _require_few(f, g)
        return divide_tables(f, train_to_table(g))
    if len(f.inputs) < 2 or all(name in f.inputs for name in g.inputs):
        _require_few(f, g)
        return reduce(divide_tables, _parts(g), f)
    batch = [name for name in g.batch if name in f.inputs]
    train = Train.from_table(f, g.rank, batch=batch)
    return reduce(lambda quotient, part: interpret(DIVIDE, quotient, part), _parts(g), train)


def _has_rank_one(g: Train) -> bool:
    return all(rank == 1 for rank in g.ranks)


def _parts(g: Train) -> list[Table]:
    """A train of rank 1 as tables whose product it is; its cores may be negative in pairs."""
    shift = Table.from_log(g.shift.array, {name: g.inputs[name] for name in g.shift.names})
    parts = [Table._of(Scaled(abs(core.array[..., 0, 0]), 0.0), core.inputs) for core in g.cores]
    return [*parts, shift._marked(g.exactness)]


def _require_few(f: Factor, g: Factor) -> None:
    size = np.prod([float(domain.extent) for domain in (dict(f.inputs) | dict(g.inputs)).values()])
    if size > LARGEST_TABLE:
        raise NoRule(
            f"{f} / {g}",
            expected="a divisor that is a Table or a train of rank 1",
            nearest=f"1/g of a train is not a train of bounded rank, and {size:.3g} entries are too many to write out",
            advice="messages of Shafer-Shenoy junction trees are products and sums, without a division; or divide by "
            "the marginals of single names, which are Tables",
        )


@exact_normalize.rule
def normalize_train(f: Train, total: Table) -> Factor:
    """f / Z,  Z > 0"""
    return interpret(DIVIDE, f, with_mass(f, total))


@exact_normalize.rule
def normalize_train_by_train(f: Train, total: Train) -> Factor:
    """f(x, y) / Z(y)"""
    return interpret(DIVIDE, f, total)


# -- powers and expectations ----------------------------------------------------------------------------------------


@exact_power.rule(when=lambda f, exponent: is_tabular(exponent))
def power_train(f: Train, exponent: Value) -> Factor:
    """f^n  =  f ⋯ f;  (a₁ ⋯ a_d)^a  =  a₁^a ⋯ a_d^a of rank 1;  else entry by entry, where they are few"""
    whole = _whole_number(exponent)
    if whole is not None:
        return reduce(lambda one, two: interpret(MULTIPLY, one, two), [f] * whole)
    if _has_rank_one(f) and not exponent.inputs:
        powers = [interpret(POWER, part, exponent) for part in _parts(f)]
        ones = Train.ones({name: f.inputs[name] for name in f.order}, f.rank)
        return reduce(lambda one, two: interpret(MULTIPLY, one, two), powers, ones)
    if f.size > LARGEST_TABLE:
        raise NoRule(
            f"{f} ** {exponent}",
            expected="a whole number of at least 1, or a train of rank 1",
            nearest="another power of a product of matrices is not one of bounded rank",
            advice="a whole power is its product with itself; sum names out first for others",
        )
    return interpret(POWER, train_to_table(f), exponent)


def _whole_number(exponent: Value) -> int | None:
    if not isinstance(exponent, Array) or exponent.inputs or is_traced(exponent.array):
        return None
    number = float(exponent)
    return int(number) if number >= 1 and number == int(number) else None


@exact_expect.rule
def expect_train(f: Train, value: Value, names: tuple) -> Value:
    """Σ_x p(x) v(x), where the entries are few"""
    return interpret(EXPECT, train_to_table(f, f"an expectation over {listed(names)}"), value, names)
