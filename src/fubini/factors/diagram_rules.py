"""Rules of diagrams: each is one equation; the arithmetic is in `diagram`, `table` and `scaled`.

A diagram and a table make a diagram; with a Gaussian it is a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from fubini.base.arrays import Data, is_traced, namespace, require
from fubini.base.interpretations import interpret
from fubini.base.semirings import Semiring, same_pair, sum_product
from fubini.errors import DataError
from fubini.factors.diagram import TERMINAL, Diagram, Fold, to_table
from fubini.factors.diagram_pairs import Pairing, pair_up, to_diagram
from fubini.factors.promotion import promotion
from fubini.factors.table import Table, multiply_out, pointwise, with_mass
from fubini.numerics.decision_nodes import path_to
from fubini.numerics.named_axes import align, require_in_range
from fubini.numerics.scaled import added, divided, multiplied
from fubini.terms.factor import Factor, is_tabular
from fubini.terms.heads import (
    EMBED,
    EXCLUDE,
    EXPECT,
    POWER,
    READ,
    REDUCE,
    SUBSTITUTE,
    exact_add,
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
from fubini.terms.value import Array, Value, to_array


@promotion(Diagram, Table)
def diagram_to_table(f: Diagram) -> Table:
    """f  =  the table of its cells"""
    return to_table(f)


@exact_join.rule
def join_diagram(f: Diagram) -> Diagram:
    """f  =  f"""
    return f


# -- products -------------------------------------------------------------------------------------------------------


@exact_multiply.rule
def multiply_diagrams(f: Diagram, g: Diagram) -> Factor:
    """(f·g)(x, y, z)  =  f(x, y) g(y, z), once for each pair of nodes; 0·g = 0"""
    both = pair_up(f, g, zeros=(True, True))
    return both.made(pointwise(both.first, both.second, multiplied))


@exact_multiply.rule
def multiply_diagram_table(f: Diagram, g: Table) -> Factor:
    """f·g, g as a diagram"""
    return multiply_diagrams(f, to_diagram(g, f))


@exact_multiply.rule
def multiply_table_diagram(f: Table, g: Diagram) -> Factor:
    """f·g, f as a diagram"""
    return multiply_diagrams(to_diagram(f, g), g)


# -- quotients ------------------------------------------------------------------------------------------------------


@exact_divide.rule
def divide_diagrams(f: Diagram, g: Diagram) -> Factor:
    """(f/g)(x, y)  =  f(x, y) / g(y),  0/0 = 0,  x/0 an error"""
    both = pair_up(f, g, zeros=(True, False))
    ratio = pointwise(both.first, both.second, divided)
    over, under = (part.aligned(ratio.names).weights for part in (both.first, both.second))
    ok = namespace(over, under).broadcast_to(~((under == 0) & (over > 0)), ratio.pair.weights.shape)
    (weights,) = require(ok, lambda: _division_by_zero(f, g, both, ratio, ok), ratio.pair.weights)
    return both.made(Table._of(ratio.pair._replace(weights=weights), ratio.inputs, ratio.exactness))


def _division_by_zero(f: Diagram, g: Diagram, both: Pairing, ratio: Table, ok: Data) -> DataError:
    cell = ""
    if not is_traced(ok):
        at = dict(zip(ratio.names, map(int, np.argwhere(~np.asarray(ok))[0]), strict=True))
        at.update(zip(both.names, path_to(both.nodes, at.pop(TERMINAL)), strict=True))
        cell = f", at {', '.join(f'{name}={index}' for name, index in at.items())}"
    return DataError(
        f"{f} / {g}: a positive number over zero{cell}",
        expected="a divisor that is positive wherever the dividend is (0/0 is 0)",
    )


@exact_divide.rule
def divide_diagram_table(f: Diagram, g: Table) -> Factor:
    """f/g, g as a diagram"""
    return divide_diagrams(f, to_diagram(g, f))


@exact_divide.rule
def divide_table_diagram(f: Table, g: Diagram) -> Factor:
    """f/g, f as a diagram"""
    return divide_diagrams(to_diagram(f, g), g)


@exact_normalize.rule
def normalize_diagram(f: Diagram, total: Diagram) -> Factor:
    """f / Z,  Z > 0"""
    both = pair_up(f, total.weighted(with_mass(f, total.terminals)), zeros=(True, False))
    return both.made(pointwise(both.first, both.second, divided))


@exact_normalize.rule
def normalize_diagram_by_table(f: Diagram, total: Table) -> Factor:
    """f / Z,  Z > 0, Z as a diagram"""
    return normalize_diagram(f, to_diagram(total, f))


# -- sums -----------------------------------------------------------------------------------------------------------


@exact_add.rule
def add_diagrams(f: Diagram, g: Diagram) -> Factor:
    """(f + g)(x, y, z)  =  f(x, y) + g(y, z), once for each pair of nodes"""
    both = pair_up(f, g)
    return both.made(pointwise(both.first, both.second, added))


@exact_add.rule
def add_diagram_table(f: Diagram, g: Table) -> Factor:
    """f + g, g as a diagram"""
    return add_diagrams(f, to_diagram(g, f))


@exact_add.rule
def add_table_diagram(f: Table, g: Diagram) -> Factor:
    """f + g, f as a diagram"""
    return add_diagrams(to_diagram(f, g), g)


@exact_sum.rule
def sum_diagram(semiring: Semiring, f: Diagram, names: tuple) -> Factor:
    """⊕_x f(x, y)  =  ⊕_v f(x = v, y), of the cofactors of x, once for each tuple of nodes"""

    embed, read = partial(interpret, EMBED, semiring), partial(interpret, READ, semiring)
    return f.folded(names, _reducing(semiring), embed, read)


@exact_embed.rule(when=lambda semiring, f: semiring.homogeneous)
def embed_diagram(semiring: Semiring, f: Diagram) -> Factor:
    """The weights of the terminals as elements of the carrier"""
    return f if semiring.embed is same_pair else f.weighted(interpret(EMBED, semiring, f.terminals))


@exact_reduce.rule(when=lambda semiring, f, names: semiring.homogeneous)
def reduce_diagram(semiring: Semiring, f: Diagram, names: tuple) -> Factor:
    """⊕_x f(x, y)  =  g(y) in the carrier"""
    return f.folded(names, _reducing(semiring))


def _reducing(semiring: Semiring) -> Fold:
    return lambda table, names: interpret(REDUCE, semiring, table, names)


@exact_multiply_out.rule
def multiply_out_diagram(f: Diagram, names: tuple) -> Factor:
    """Π_i f(i, x)  =  Π_v f(i = v, x)"""
    return f.folded(names, partial(multiply_out, sum_product))


@exact_exclude.rule
def exclude_diagram(semiring: Semiring, f: Diagram, names: tuple) -> Factor:
    """g(i, x)  =  Π_{j≠i} f(j, x), i as a batch"""
    wide = f.with_batch(names)
    return wide.weighted(interpret(EXCLUDE, semiring, wide.terminals, names)).simplified()


# -- the operations on one ------------------------------------------------------------------------------------------


@exact_power.rule(when=lambda f, exponent: is_tabular(exponent))
def power_diagram(f: Diagram, exponent: Value) -> Factor:
    """(f^a)(x)  =  f(x)^a, the names of a as a batch"""
    wide = f.with_batch(exponent.inputs)
    power = to_array(exponent)
    names = (*wide.terminals.names, *(name for name in power.names if name not in wide.terminals.inputs))
    zero = (wide.terminals.aligned(names).weights == 0) & (align(power.array, power.names, names) < 0)
    require(~zero, lambda: _zero_to_negative(f))
    return wide.weighted(interpret(POWER, wide.terminals, exponent)).simplified()


def _zero_to_negative(f: Diagram) -> DataError:
    return DataError(f"a negative power of {f}, which has zeros", expected="positive weights: 1/0 is not a number")


def _is_known(value: Value) -> bool:
    return isinstance(value, Array) and type(value.array) is np.ndarray and not value.names


@exact_substitute.rule(when=lambda f, values: all(map(is_tabular, values.values())))
def substitute_diagram(f: Diagram, values: Mapping) -> Factor:
    """f(x = v, y)  =  the cofactor of a known v;  f(x = v(j), y)  =  w(v(j), t(y)), x as a batch"""
    known = {name: value for name, value in values.items() if name in f.names and _is_known(value)}
    places = {name: int(require_in_range(name, value.array, f.inputs[name])) for name, value in known.items()}
    rest = f.restricted(places) if places else f
    marks = [value.exactness for value in known.values() if not value.exactness.is_exact]
    for mark in marks:
        rest = rest._marked(mark)
    others = {name: value for name, value in values.items() if name not in known}
    if not others:
        return rest
    if not isinstance(rest, Diagram):
        return interpret(SUBSTITUTE, rest, others)
    wide = rest.with_batch({*others, *(name for value in others.values() for name in value.inputs)})
    return wide.weighted(interpret(SUBSTITUTE, wide.terminals, others)).simplified()


@exact_expect.rule
def expect_diagram(f: Diagram, value: Value, names: tuple) -> Value:
    """Σ_x p(x) v(x), of the table"""
    return interpret(EXPECT, to_table(f), value, names)
