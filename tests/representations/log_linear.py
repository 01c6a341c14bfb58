"""A representation of a user's own, in one file: log f(x) = Σ_k θ_k(x_k), log-potentials over a few names each.

A product puts the potentials side by side, and no table of all names is ever made; a sum over x joins only those that
mention x. No file of the package knows of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import fubini as fb
from fubini.base.interpretations import interpret
from fubini.factors.promotion import promotion
from fubini.factors.table_carry import TableLayout
from fubini.terms.exactness import Exactness
from fubini.terms.fields import term_field
from fubini.terms.indexing import fold
from fubini.terms.storage import Storage
from fubini.terms.value import to_array

Scope = frozenset
REDUCED = (fb.sum_product, fb.max_product)


class LogLinear(fb.Factor):
    """exp Σ_k θ_k(x_k), with finite θ_k: it is positive, and a factor with zeros is a Table.

    >>> f = LogLinear(fb.Array([0.0, 1.0], ("a",)), fb.Array([[0.5, 0.0], [0.0, 0.5]], ("a", "b")))
    >>> f.inputs, len(f.potentials), float(f.sum("a", "b").log()) == float(to_table(f).sum("a", "b").log())
    ({'a': Bint[2], 'b': Bint[2]}, 1, True)
    """

    potentials: tuple[fb.Value, ...] = term_field()

    def __init__(self, *potentials: fb.Value) -> None:
        kept = tuple(_widest([to_array(value) for value in potentials]))
        self._set(potentials=kept, inputs={name: domain for value in kept for name, domain in value.inputs.items()})

    @property
    def storage(self) -> Storage:
        return LogLinearStorage(tuple(Scope(value.inputs) for value in self.potentials))

    @property
    def weights(self) -> Any:
        """The weights of every cell, in the order of its inputs."""
        return to_table(self).weights

    def _renamed(self, names: Mapping) -> LogLinear:
        new = {old: fb.Variable(name, self.inputs[old]) for old, name in names.items()}
        return LogLinear(*(value.replaced(_own(value, new)) for value in self.potentials))

    def _marked(self, mark: Exactness) -> LogLinear:
        first, *others = self.potentials
        return LogLinear(first._marked(mark), *others)

    def _log(self) -> fb.Value:
        return sum(self.potentials[1:], self.potentials[0])

    def _mean(self, name: str) -> fb.Value:
        return to_table(self).mean(name)

    def _covariance(self, name: str) -> fb.Value:
        return to_table(self).covariance(name)


def _widest(values: Sequence[fb.Value]) -> list[fb.Value]:
    """Potentials none of whose names are all names of another: such a one is added to that."""
    kept: list[fb.Value] = []
    for value in sorted(values, key=lambda value: -len(value.inputs)):
        place = next((k for k, wide in enumerate(kept) if set(value.inputs) <= set(wide.inputs)), None)
        if place is None:
            kept.append(value)
        else:
            kept[place] = to_array(kept[place] + value)
    return kept


def _own(value: fb.Value, values: Mapping) -> dict:
    return {name: given for name, given in values.items() if name in value.inputs}


# -- what the planner asks --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LogLinearStorage(Storage):
    """The cells of each potential, whatever their names are together."""

    scopes: tuple[Scope, ...]

    def size(self, names, sizes, dimensions):
        return sum(math.prod(sizes[name] for name in scope if name in names) for scope in self.scopes)

    def joined(self, other):
        return LogLinearStorage(_maximal((*self.scopes, *other.scopes))) if isinstance(other, LogLinearStorage) else None

    def summed(self, kept):
        scopes = self.scopes
        for name in sorted({name for scope in scopes for name in scope if name not in kept}, key=str):
            scopes = (Scope().union(*(s for s in scopes if name in s)) - {name}, *(s for s in scopes if name not in s))
        return LogLinearStorage(_maximal(scopes)) if kept else super().summed(kept)


def _maximal(scopes: Sequence[Scope]) -> tuple[Scope, ...]:
    return tuple(scope for scope in dict.fromkeys(scopes) if not any(scope < other for other in scopes))


# -- the operations ---------------------------------------------------------------------------------------------------


@promotion(LogLinear, fb.Table)
def to_table(f: LogLinear) -> fb.Table:
    """exp Σ_k θ_k, a cell for every value of all names"""
    log = to_array(f.log())
    return fb.Table.from_log(log.array, {name: f.inputs[name] for name in log.names})._marked(f.exactness)


@fb.heads.exact_join.rule
def join_log_linear(f: LogLinear) -> fb.Factor:
    """f  =  f"""
    return f


@fb.heads.exact_multiply.rule
def multiply_log_linear(f: LogLinear, g: LogLinear) -> fb.Factor:
    """log f·g  =  Σ_k θ_k + Σ_l η_l"""
    return LogLinear(*f.potentials, *g.potentials)


@fb.heads.exact_multiply.rule(when=lambda f, g: not g.inputs)
def multiply_by_number(f: LogLinear, g: fb.Table) -> fb.Factor:
    """log f·c  =  Σ_k θ_k + log c"""
    return LogLinear(*f.potentials, g.log())


@fb.heads.exact_multiply.rule(when=lambda f, g: not f.inputs)
def multiply_number(f: fb.Table, g: LogLinear) -> fb.Factor:
    """the same, the other way round"""
    return multiply_by_number(g, f)


@fb.heads.exact_divide.rule
def divide_log_linear(f: LogLinear, g: LogLinear) -> fb.Factor:
    """log f/g  =  Σ_k θ_k − Σ_l η_l"""
    return LogLinear(*f.potentials, *(-value for value in g.potentials))


@fb.heads.exact_divide.rule(when=lambda f, g: not g.inputs)
def divide_by_number(f: LogLinear, g: fb.Table) -> fb.Factor:
    """log f/c  =  Σ_k θ_k − log c"""
    return LogLinear(*f.potentials, -g.log())


@fb.heads.exact_normalize.rule
def normalize_log_linear(f: LogLinear, total: LogLinear) -> fb.Factor:
    """f / Z, and Z > 0 as all of them are"""
    return divide_log_linear(f, total)


@fb.heads.exact_normalize.rule(when=lambda f, total: not total.inputs)
def normalize_by_number(f: LogLinear, total: fb.Table) -> fb.Factor:
    """f / Z"""
    return divide_by_number(f, total)


@fb.heads.exact_power.rule
def power_log_linear(f: LogLinear, exponent: fb.Value) -> fb.Factor:
    """log f^a  =  Σ_k a θ_k"""
    return LogLinear(*(exponent * value for value in f.potentials))


@fb.heads.exact_substitute.rule
def substitute_log_linear(f: LogLinear, values: Mapping) -> fb.Factor:
    """log f(x = v)  =  Σ_k θ_k(x = v)"""
    return _closed(LogLinear(*(value.replaced(_own(value, values)) for value in f.potentials)))


@fb.heads.exact_sum.rule(when=lambda semiring, f, names: semiring in REDUCED)
def sum_log_linear(semiring: fb.Semiring, f: LogLinear, names: tuple) -> fb.Factor:
    """log ⊕_x f  =  Σ_{k without x} θ_k + log ⊕_x exp Σ_{k with x} θ_k, the name of fewest cells first"""
    for _ in names:
        name = min((name for name in names if name in f.inputs), key=lambda name: _cells(f, name))
        touched = LogLinear(*(value for value in f.potentials if name in value.inputs))
        others = [value for value in f.potentials if name not in value.inputs]
        f = LogLinear(*others, to_table(touched).reduced(semiring, (name,)).log())
    return _closed(f)


def _cells(f: LogLinear, name: str) -> int:
    """The cells of the potentials that mention a name, joined."""
    scope = {other for value in f.potentials if name in value.inputs for other in value.inputs}
    return math.prod(f.inputs[other].extent for other in scope)


def _closed(f: LogLinear) -> fb.Factor:
    return f if f.inputs else to_table(f)


@fb.heads.exact_multiply_out.rule
def multiply_out_log_linear(f: LogLinear, names: tuple) -> fb.Factor:
    """log Π_i f  =  Σ_k Σ_i θ_k, |i| θ_k for those without i"""
    values = f.potentials
    for name in names:
        extent = f.inputs[name].extent
        values = [fold(fb.ops.add, v, name) if name in v.inputs else extent * v for v in values]
    return _closed(LogLinear(*values))


# -- choices and loops, by the table ----------------------------------------------------------------------------------


@fb.heads.exact_choose.rule
def choose_log_linear(f: LogLinear, names: tuple) -> dict:
    """arg max_x f"""
    return interpret(fb.heads.CHOOSE, to_table(f), names)


@fb.heads.exact_draw.rule
def draw_log_linear(randomness: Any, f: LogLinear, names: tuple) -> dict:
    """x ~ f / Σ f"""
    return interpret(fb.heads.DRAW, randomness, to_table(f), names)


@fb.heads.exact_settle.rule
def settle_log_linear(f: LogLinear, layout: TableLayout) -> fb.Factor:
    """f as a table over all names of the layout; the heads LIGHTEN and WEIGH are then those of Table"""
    return interpret(fb.heads.SETTLE, to_table(f), layout)
