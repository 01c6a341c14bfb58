"""A representation from outside the package that shares its entries: of n Booleans the weight depends on their number.

f(x) = w[Σ_i x_i] Π_i u_i^{x_i} holds 2n + 1 numbers where a table holds 2^n. No file of the package knows of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import fubini as fb
from fubini.base.arrays import namespace
from fubini.terms.exactness import Exactness, exactly
from fubini.terms.fields import array_field, static_field
from fubini.terms.storage import DENSE, Storage
from fubini.terms.value import Array, to_array


@dataclass(frozen=True)
class CountsStorage(Storage):
    """A weight for every count and one for every name, whatever single names it is multiplied by."""

    at_once: bool = False

    def size(self, names, sizes, dimensions):
        return 2 * len(names) + 1

    def work(self, names, sizes, dimensions):
        return len(names) ** 2

    def joined(self, other):
        return self if other in (self, DENSE) else None


class Counts(fb.Factor):
    """w[Σ_i x_i] Π_i u_i^{x_i}"""

    table: Any = array_field()  # w, n + 1 numbers
    odds: Any = array_field()  # u, n numbers
    names: tuple = static_field()
    at_once: bool = static_field()
    mark: Exactness = static_field()

    def __init__(self, table, odds, names: Sequence[str], at_once: bool = False, mark: Exactness = exactly) -> None:
        fields = {"table": table, "odds": odds, "names": tuple(names), "at_once": at_once, "mark": mark}
        self._set(**fields, inputs=dict.fromkeys(names, fb.Bint[2]))

    @property
    def exactness(self) -> Exactness:
        return self.mark

    @property
    def storage(self) -> Storage:
        return CountsStorage(self.at_once)

    def remade(self, table, odds, names) -> Counts:
        return Counts(table, odds, names, self.at_once, self.mark)

    def _renamed(self, names: Mapping) -> Counts:
        return self.remade(self.table, self.odds, [names.get(name, name) for name in self.names])

    def _marked(self, mark: Exactness) -> Counts:
        return Counts(self.table, self.odds, self.names, self.at_once, self.mark | mark)

    def _log(self) -> fb.Value:
        return to_array(settled(self).log())

    def times(self, zero, one, name) -> Counts:
        """The product with a table (zero, one) of one of the names."""
        xp = namespace(self.odds, one)
        factors = xp.where(np.arange(len(self.names)) == self.names.index(name), one / zero, 1.0)
        return self.remade(self.table * zero, self.odds * factors, self.names)


def settled(f: Counts) -> fb.Factor:
    """A table, of one name or none."""
    if not f.names:
        return fb.Table(f.table[0])
    assert len(f.names) == 1, "a table of more names is what this representation avoids"
    xp = namespace(f.table)
    return fb.Table(xp.stack([f.table[0], f.table[1] * f.odds[0]]), f.names)


def _at(f: Counts, name: str, value: int) -> Counts:
    place = f.names.index(name)
    xp = namespace(f.table)
    odds = xp.delete(f.odds, place)
    table = f.table[1:] * f.odds[place] if value else f.table[:-1]
    return f.remade(table, odds, (*f.names[:place], *f.names[place + 1 :]))


@fb.heads.exact_join.rule
def join_counts(f: Counts) -> fb.Factor:
    """f  =  f"""
    return f


@fb.heads.exact_sum.rule(when=lambda semiring, f, names: semiring in (fb.sum_product, fb.max_product))
def sum_counts(semiring: fb.Semiring, f: Counts, names: tuple) -> fb.Factor:
    """⊕_x w[k + x] u^x  =  w[k] ⊕ u w[k + 1]"""
    add = np.add if semiring is fb.sum_product else np.maximum
    for name in names:
        zero, one = _at(f, name, 0), _at(f, name, 1)
        xp = namespace(zero.table)
        total = getattr(xp, add.__name__)(zero.table, one.table)
        f = f.remade(total, zero.odds, zero.names)
    return settled(f) if len(f.names) < 2 else f


@fb.heads.exact_multiply.rule(when=lambda f, g: len(g.inputs) < 2 and set(g.inputs) <= set(f.inputs))
def multiply_counts_table(f: Counts, g: fb.Table) -> fb.Factor:
    """w[Σ x] Π u^x · t(x_j)  =  t(0) w[Σ x] Π u^x (t(1) / t(0))^{x_j}"""
    weights = g.weights
    return f.remade(f.table * weights, f.odds, f.names) if not g.inputs else f.times(*weights, *g.inputs)


@fb.heads.exact_multiply.rule(when=lambda f, g: len(f.inputs) < 2 and set(f.inputs) <= set(g.inputs))
def multiply_table_counts(f: fb.Table, g: Counts) -> fb.Factor:
    """the same, the other way round"""
    return multiply_counts_table(g, f)


@fb.heads.exact_substitute.rule
def substitute_counts(f: Counts, values: Mapping) -> fb.Factor:
    """f(x_j = v)"""
    for name, value in values.items():
        f = _at(f, name, int(value.data))
    return settled(f) if len(f.names) < 2 else f


@fb.heads.exact_choose.rule
def choose_counts(f: Counts, names: tuple) -> dict:
    """arg max_x f: of k ones the names of the greatest u, for the best k"""
    order = np.argsort(-np.asarray(f.odds), kind="stable")
    logs = np.log(f.table) + np.concatenate([[0.0], np.cumsum(np.log(np.asarray(f.odds)[order]))])
    chosen = {f.names[place] for place in order[: int(np.argmax(logs))]}
    return {name: Array(np.asarray(int(name in chosen)), (), fb.Bint[2]) for name in names}


def counts(size: int, at_once: bool, seed: int = 0, array: Any = np.asarray) -> Counts:
    """Random weights of counts, all odds 1."""
    random = np.random.default_rng(seed)
    names = [f"x{k}" for k in range(size)]
    return Counts(array(random.uniform(0.5, 1.5, size + 1)), array(np.ones(size)), names, at_once)


def unaries(size: int, seed: int = 1, array: Any = np.asarray) -> list[fb.Table]:
    """A table for each name."""
    random = np.random.default_rng(seed)
    return [fb.Table(array(random.uniform(0.5, 1.5, 2)), (f"x{k}",)) for k in range(size)]
