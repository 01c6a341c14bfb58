"""Delta: all mass at a point, δ(x = v). The point may depend on other names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from fubini.arrays import is_traced, namespace
from fubini.domains import merge_inputs
from fubini.errors import DomainError, FubiniError
from fubini.factors.scaled import Scaled
from fubini.factors.table import Table, is_tabular
from fubini.factors.table_rules import multiply_tables
from fubini.semirings import Semiring
from fubini.terms.factor import Factor, Unit, Weight, product, substitute
from fubini.terms.heads import exact_join, exact_substitute, exact_sum
from fubini.terms.notation import Call, Notation
from fubini.terms.term import Name
from fubini.terms.value import Array, Value, Variable, to_array, to_value


class Delta(Factor):
    """Π_k δ(x_k = v_k).

    >>> from fubini.domains import Bint
    >>> from fubini.terms.value import Array
    >>> Delta(a=Array(1, (), Bint[3])).inputs
    {'a': Bint[3]}
    """

    _term_fields = ("points",)
    _static_fields = ("names",)
    names: tuple[Name, ...]
    points: tuple[Value, ...]

    def __init__(self, points: Mapping[Name, Any] | None = None, /, **named: Any) -> None:
        given = {**(points or {}), **named}
        for name, point in given.items():
            if isinstance(point, int):
                raise _without_domain(name, point)
        values = {name: to_value(point) for name, point in given.items()}
        if not values:
            raise FubiniError("a Delta without a point", expected="at least one name: fb.Delta(x=1.5)")
        for name, value in values.items():
            _require_domain(name, value)
            if name in value.inputs:
                raise DomainError(f"a Delta at {name}={value}", expected=f"a point that does not depend on {name!r}")
        own = {name: value.output for name, value in values.items()}
        inputs = merge_inputs(own, *(value.inputs for value in values.values()))
        self._set(names=tuple(values), points=tuple(values.values()), inputs=inputs)

    def point(self, name: Name) -> Value:
        """Where the mass of a name is."""
        return self.points[self.names.index(name)]

    def without(self, names: tuple[Name, ...]) -> Factor:
        """The delta over the other names, and 1 over what only the points of these names depended on."""
        rest = {name: point for name, point in zip(self.names, self.points, strict=True) if name not in names}
        gone = [self.point(name) for name in names]
        marks = [Weight(mark_of(point)) for point in gone if isinstance(point, Array) and is_traced(point.array)]
        left = Delta(rest).inputs if rest else {}
        lost = {name: domain for name, domain in self.inputs.items() if name not in left and name not in names}
        return product(*([Delta(rest)] if rest else []), *([Unit(lost)] if lost else []), *marks)

    def _renamed(self, names: Mapping[Name, Name]) -> Factor:
        fresh = {old: Variable(new, self.inputs[old]) for old, new in names.items()}
        pairs = zip(self.names, self.points, strict=True)
        return Delta({names.get(name, name): point.replaced(fresh) for name, point in pairs})

    def _log(self) -> Value:
        return to_indicator(self).log()

    def notation(self) -> Notation:
        pairs = zip(self.names, self.points, strict=True)
        return Call("Delta", (), tuple((str(name), point.notation()) for name, point in pairs))


def mark_of(point: Array) -> Value:
    """0, and NaN where a traced point was found outside its domain."""
    marked = jnp.where(point.array < 0, jnp.nan, 0.0) if point.output.is_discrete else point.array * 0.0
    return Array(marked, point.names)


def _require_domain(name: Name, value: Value) -> None:
    if value.output.kind in ("nat", "integer"):
        raise _without_domain(name, value)


def _without_domain(name: Name, point: object) -> DomainError:
    return DomainError(
        f"a Delta at {name}={point}",
        expected="a point whose domain says how many values the name has",
        advice=f"give it one: fb.Delta({name}=fb.Array({point}, (), fb.Bint[n]))",
    )


def to_indicator(delta: Delta) -> Table:
    """δ(x = v(i)) over bounded integers as a table of zeros and ones."""
    table = None
    for name, point in zip(delta.names, delta.points, strict=True):
        at, domain = to_array(point), delta.inputs[name]
        cells = np.arange(domain.extent)
        xp = namespace(at.array)
        weights = xp.where(at.array[..., None] == cells, 1.0, 0.0)
        if is_traced(at.array):  # a point outside the domain is marked by −1
            weights = xp.where((at.array >= 0)[..., None], weights, xp.nan)
        one = Table._of(Scaled(weights, 0.0), {**at.inputs, name: domain})
        table = one if table is None else multiply_tables(table, one)
    assert table is not None
    return table


@exact_join.rule(when=is_tabular)
def join_delta(f: Delta) -> Table:
    """δ(x = v)  =  1[x = v]"""
    return to_indicator(f)


@exact_sum.rule(when=lambda semiring, f, names: set(names) <= set(f.names))
def sum_delta(semiring: Semiring, f: Delta, names: tuple) -> Factor:
    """⊕_x δ(x = v)  =  1"""
    return f.without(names)


def _keeps_its_names(f: Delta, values: Mapping) -> bool:
    """Neither is a name of the delta replaced, nor does one come in through a point."""
    incoming = {name for value in values.values() for name in value.inputs}
    return not (set(values) | incoming) & set(f.names)


@exact_substitute.rule(when=_keeps_its_names)
def substitute_delta_point(f: Delta, values: Mapping) -> Factor:
    """δ(x = v(y)) at y = u  =  δ(x = v(u))"""
    return Delta({name: point.replaced(values) for name, point in zip(f.names, f.points, strict=True)})


@exact_substitute.rule(when=lambda f, values: is_tabular(f), overlaps=("substitute_delta_point",))
def substitute_delta(f: Delta, values: Mapping) -> Factor:
    """δ(x = v) at x = u  =  1[u = v]"""
    return substitute(to_indicator(f), values)
