"""Delta: all mass at a point, δ(x = v)·w. The point and the weight may depend on other names."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from fubini.base import ops
from fubini.base.arrays import Data, is_traced, namespace
from fubini.base.domains import Domain, Real, merge_inputs
from fubini.base.names import Name
from fubini.errors import DomainError, FubiniError, Intractable, listed
from fubini.factors.integer_moments import mean_given_others, variance_given_others
from fubini.factors.table import Table
from fubini.factors.table_rules import multiply_tables
from fubini.numerics.scaled import Scaled
from fubini.show.notation import Call, Infix, Notation, Symbol
from fubini.terms.exactness import Exactness
from fubini.terms.factor import Factor, Unit, Weight, product, rename, substitute, to_factor
from fubini.terms.fields import static_field, term_field
from fubini.terms.inverse import solve
from fubini.terms.value import Array, Value, Variable, is_enumerable, to_array, to_value

SHOWN = 12  # points that are printed


class Delta(Factor):
    """Π_k δ(x_k = v_k) · w, where w does not depend on the names x_k.

    >>> from fubini.base.domains import Bint
    >>> from fubini.terms.value import Array
    >>> Delta(a=Array(1, (), Bint[3])).inputs
    {'a': Bint[3]}
    """

    names: tuple[Name, ...] = static_field()
    points: tuple[Value, ...] = term_field()
    weight: Factor = term_field()

    def __init__(self, points: Mapping[Name, Any] | None = None, weight: Any = None, /, **named: Any) -> None:
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
        values = _resolved(values)
        self._build(values, Unit({}) if weight is None else substitute(to_factor(weight), values))

    def _build(self, points: Mapping[Name, Value], weight: Factor) -> None:
        own = {name: value.output for name, value in points.items()}
        inputs = merge_inputs(own, *(value.inputs for value in points.values()), weight.inputs)
        self._set(names=tuple(points), points=tuple(points.values()), weight=weight, inputs=inputs)

    @classmethod
    def _of(cls, points: Mapping[Name, Value], weight: Factor) -> Delta:
        """Make a delta from checked parts."""
        new = object.__new__(cls)
        new._build(points, weight)
        return new

    @property
    def promotes(self) -> bool:  # type: ignore[override]
        """Whether it is over bounded integers, and so becomes a table."""
        return any(self.inputs[name].is_finite for name in self.names)

    @property
    def is_known_zero(self) -> bool:
        return self.weight.is_known_zero

    @property
    def pins(self) -> tuple[Name, ...]:
        return self.names

    @property
    def located(self) -> dict[Name, Value]:
        """The points by name.

        >>> fb.Delta(x=1.5, y=2.0).located
        {'x': 1.5, 'y': 2}
        """
        return dict(zip(self.names, self.points, strict=True))

    def point(self, name: Name) -> Value:
        """The point at which the mass of a name is.

        >>> fb.Delta(x=1.5).point("x")
        1.5
        """
        return self.points[self.names.index(name)]

    def without(self, names: tuple[Name, ...]) -> Factor:
        """The delta over the other names, or its weight, and 1 over what only the points of these names depended on."""
        rest = {name: point for name, point in self.located.items() if name not in names}
        gone = [self.point(name) for name in names]
        marks = [Weight(mark_of(point)) for point in gone if isinstance(point, Array) and is_traced(point.array)]
        remaining = Delta._of(rest, self.weight) if rest else self.weight
        lost = {
            name: domain for name, domain in self.inputs.items() if name not in remaining.inputs and name not in names
        }
        return product(remaining, *([Unit(lost)] if lost else []), *marks) if lost or marks else remaining

    def _renamed(self, names: Mapping[Name, Name]) -> Factor:
        fresh = {old: Variable(new, self.inputs[old]) for old, new in names.items()}
        points = {names.get(name, name): point.replaced(fresh) for name, point in self.located.items()}
        return Delta._of(points, rename(self.weight, names))

    def _marked(self, mark: Exactness) -> Factor:
        return Delta._of(self.located, self.weight._marked(mark))

    def _evaluated(self, children: tuple) -> Factor:
        *points, weight = children
        return Delta(dict(zip(self.names, points, strict=True)), weight)

    def _log(self) -> Value:
        if all(domain.is_finite for domain in self.inputs.values()) and all(map(is_enumerable, self.points)):
            return product(to_indicator(self.located, self.inputs), self.weight).log()
        logs = [log_indicator(Variable(name, self.inputs[name]), point) for name, point in self.located.items()]
        total = self.weight.log()
        for value in logs:
            total = total + value
        return total

    def notation(self) -> Notation:
        shown = tuple((str(name), _labelled(point)) for name, point in itertools.islice(self.located.items(), SHOWN))
        more = len(self.located) - SHOWN
        call = Call("Delta", (), (*shown, ("…", Symbol(f"{more:,} more"))) if more > 0 else shown)
        return (
            call
            if isinstance(self.weight, Unit) and not self.weight.inputs
            else Infix("*", (call, self.weight.notation()))
        )

    # -- moments ----------------------------------------------------------------------------------------------------

    def _mean(self, name: Name) -> Value:
        """The point of a name; of another that points depend on, what they tell of it; else the mean of the weight."""
        if name in self.names:
            return self.point(name)
        if self._is_told(name):
            return mean_given_others(self, name) if self.inputs[name].is_finite else self._solved(name)
        return self.weight.mean(name)

    def _covariance(self, name: Name) -> Value:
        is_told = self._is_told(name)
        if is_told and self.inputs[name].is_finite:
            return variance_given_others(self, name)
        if name not in self.names and not is_told:
            return self.weight.covariance(name)
        shape = self.inputs[name].shape
        return Array(np.zeros((*shape, *shape)))

    def _is_told(self, name: Name) -> bool:
        """Whether the points, which are inputs, tell of another variable: they depend on it."""
        return name not in self.names and any(name in point.inputs for point in self.points)

    def _solved(self, name: Name) -> Value:
        """The y of δ(x = v(y)), given x: v⁻¹(x)"""
        targets = ((point, Variable(own, self.inputs[own])) for own, point in self.located.items())
        solutions = (solve(point, own, name) for point, own in targets if name in point.inputs)
        solution = next((found for found in solutions if found is not None), None)
        if solution is None:
            raise Intractable(
                f"a moment of {name!r} given {listed(self.names)} under {self}",
                expected=f"a point that is an invertible function of {name!r}",
                advice=f"sum {listed(self.names)} out first",
            )
        return solution.value


def _resolved(points: dict[Name, Value]) -> dict[Name, Value]:
    """Points that do not depend on each other's names: each is put into the others."""
    for _ in points:
        pending = {name: point for name, point in points.items() if any(other in point.inputs for other in points)}
        if not pending:
            return points
        points = {name: point.replaced(points) if name in pending else point for name, point in points.items()}
        for name, point in points.items():
            if name in point.inputs:
                raise DomainError(f"a Delta at {name}={point}", expected="points that do not go round in a circle")
    return points


def log_indicator(value: Value, point: Value) -> Value:
    """0 where they are equal, −inf elsewhere."""
    same = ops.equal(value, point)
    return ops.where(all_of(same) if same.output.shape else same, 0.0, -np.inf)


@ops.lift
def all_of(truth: Data) -> Data:
    """Whether every element is true."""
    return jnp.all(truth)


def mark_of(point: Array) -> Value:
    """0, and NaN where a traced point lies outside its domain."""
    if point.output.is_discrete:
        return Array(jnp.where(point.array < 0, jnp.nan, 0.0), point.names)
    bad = namespace(point.array).isnan(point.array)
    axes = tuple(range(len(point.names), point.array.ndim))
    data = jnp.where(jnp.any(bad, axis=axes), jnp.nan, 0.0)
    return Array._of(data, point.names, point.inputs, Real)


def _require_domain(name: Name, value: Value) -> None:
    if value.output.kind in ("nat", "integer"):
        raise _without_domain(name, value)


def _without_domain(name: Name, point: object) -> DomainError:
    return DomainError(
        f"a Delta at {name}={point}",
        expected="a point whose domain says how many values the name has",
        advice=f"give it one: fb.Delta({name}=fb.Array({point}, (), fb.Bint[n])); a real point is written {point}.0",
    )


def to_indicator(points: Mapping[Name, Value], domains: Mapping[Name, Domain]) -> Table:
    """δ(x = v(i)) over bounded integers as a table of zeros and ones."""
    table = Table(1.0)
    for name, point in points.items():
        at, domain = to_array(point), domains[name]
        cells = np.arange(domain.extent)
        xp = namespace(at.array)
        weights = xp.where(at.array[..., None] == cells, 1.0, 0.0)
        if is_traced(at.array):  # a point outside the domain is marked by −1
            weights = xp.where((at.array >= 0)[..., None], weights, xp.nan)
        one = Table._of(Scaled(weights, 0.0), {**at.inputs, name: domain})
        table = multiply_tables(table, one) if table.inputs else one
    return table


def _labelled(point: Value) -> Notation:
    """The notation of a point; one of a few labels by its label."""
    is_number = isinstance(point, Array) and not np.ndim(point.array) and not is_traced(point.array)
    if is_number and point.output.labels is not None:
        return Symbol(str(point.output.label(int(point.array))))  # type: ignore[attr-defined]
    return point.notation()
