"""Generic fallbacks: what every product, weight and promotable factor does by way of other rules.

The promotion lattice is Weight, Delta < Table: over bounded integers everything becomes a table when nothing better
applies.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from fubini import ops
from fubini.arrays import require
from fubini.domains import merge_inputs
from fubini.factors.delta import Delta
from fubini.factors.scaled import Scaled
from fubini.factors.table import Table, is_tabular, no_mass
from fubini.interpretations import interpret
from fubini.semirings import Semiring
from fubini.terms.factor import Factor, Product, Unit, Weight, product
from fubini.terms.heads import (
    ADD,
    DIVIDE,
    JOIN,
    MULTIPLY,
    MULTIPLY_OUT,
    NORMALIZE,
    POWER,
    SUM,
    exact_add,
    exact_divide,
    exact_join,
    exact_multiply,
    exact_multiply_out,
    exact_normalize,
    exact_power,
    exact_substitute,
    exact_sum,
)
from fubini.terms.indexing import fold
from fubini.terms.value import Value, to_value

Promotable = Product | Weight | Unit | Delta


def join(factor: Factor) -> Factor:
    """One factor of one representation, equal to the product."""
    return interpret(JOIN, factor)


def _promotable(*factors: Factor) -> bool:
    return any(isinstance(factor, Promotable) for factor in factors)


@exact_join.rule
def join_product(f: Product) -> Factor:
    """Π_k f_k, multiplied pair by pair"""
    return reduce(lambda a, b: interpret(MULTIPLY, a, b), map(join, f.terms))


@exact_multiply.rule(when=lambda f, g: _promotable(f, g))
def multiply_promoted(f: Factor, g: Factor) -> Factor:
    """f·g after promotion of both"""
    return interpret(MULTIPLY, join(f), join(g))


@exact_divide.rule(when=lambda f, g: _promotable(f, g))
def divide_promoted(f: Factor, g: Factor) -> Factor:
    """f/g after promotion of both"""
    return interpret(DIVIDE, join(f), join(g))


@exact_add.rule(when=lambda f, g: _promotable(f, g))
def add_promoted(f: Factor, g: Factor) -> Factor:
    """f + g after promotion of both"""
    return interpret(ADD, join(f), join(g))


@exact_normalize.rule(when=lambda f, total: not total.inputs)
def normalize_product(f: Product, total: Table) -> Factor:
    """(Π_k f_k) / Z  =  Π_k f_k · (1/Z)"""
    (weights,) = require(total.weights > 0, lambda: no_mass(f), total.weights)
    return product(f, Table._of(Scaled(1.0 / weights, -total.shift), {}, total.exactness))


@exact_normalize.rule(when=lambda f, total: _promotable(f, total), overlaps=("normalize_product",))
def normalize_promoted(f: Factor, total: Factor) -> Factor:
    """f/Z after promotion of both"""
    return interpret(NORMALIZE, join(f), join(total))


@exact_power.rule
def power_product(f: Product, exponent: Value) -> Factor:
    """(Π_k f_k)^a  =  Π_k f_k^a"""
    return product(*(interpret(POWER, term, exponent) for term in f.terms))


@exact_power.rule(when=lambda f, exponent: is_tabular(f))
def power_promoted(f: Weight | Unit | Delta, exponent: Value) -> Factor:
    """f^a after promotion"""
    return interpret(POWER, join(f), exponent)


@exact_multiply_out.rule
def multiply_out_product(f: Product, names: tuple) -> Factor:
    """Π_i Π_k f_k  =  Π_k Π_i f_k,  and Π_i f = f^|i| where f lacks i"""
    return product(*(_multiply_out_term(term, names, f) for term in f.terms))


def _multiply_out_term(term: Factor, names: tuple, whole: Factor) -> Factor:
    present = tuple(name for name in names if name in term.inputs)
    absent = [whole.inputs[name].size or 1 for name in names if name not in term.inputs]
    times = reduce(lambda a, b: a * b, absent, 1)
    term = interpret(MULTIPLY_OUT, term, present) if present else term
    return term if times == 1 else interpret(POWER, term, to_value(times))


@exact_multiply_out.rule
def multiply_out_weight(f: Weight, names: tuple) -> Factor:
    """Π_i exp(v(i))  =  exp(Σ_i v(i))"""
    return Weight(fold(ops.add, f.value, *names))


@exact_multiply_out.rule(when=lambda f, names: is_tabular(f))
def multiply_out_promoted(f: Unit | Delta, names: tuple) -> Factor:
    """Π_i f after promotion"""
    return interpret(MULTIPLY_OUT, join(f), names)


@exact_sum.rule(when=lambda semiring, f, names: is_tabular(f), overlaps=("sum_delta",))
def sum_promoted(semiring: Semiring, f: Weight | Unit | Delta, names: tuple) -> Factor:
    """⊕_x f after promotion"""
    return interpret(SUM, semiring, join(f), names)


@exact_substitute.rule
def substitute_unit(f: Unit, values: Mapping) -> Factor:
    """1 at x = u  =  1"""
    rest = {name: domain for name, domain in f.inputs.items() if name not in values}
    return Unit(merge_inputs(rest, *(value.inputs for value in values.values())))


@exact_substitute.rule
def substitute_weight(f: Weight, values: Mapping) -> Factor:
    """exp(v) at x = u  =  exp(v(x = u))"""
    return Weight(f.value.replaced(values))
