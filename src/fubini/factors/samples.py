"""Samples: points of some variables along an index, and a factor over the index and the other variables.

What a loop over particles hands on. As a function it is Σ_i δ(x = x_i) w(i, y): see `shown`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fubini.base.arrays import Data
from fubini.base.domains import merge_inputs
from fubini.base.names import Name
from fubini.factors.carry import lightened, weighed
from fubini.factors.delta import Delta
from fubini.factors.slices import Slices, axis_in_front, slices
from fubini.show.notation import Call, Notation
from fubini.terms.exactness import Exactness
from fubini.terms.factor import Factor, rename
from fubini.terms.fields import static_field, term_field
from fubini.terms.heads import exact_lighten, exact_slices, exact_weigh
from fubini.terms.name_axis import name_axis
from fubini.terms.value import Array, Value, Variable


class Samples(Factor):
    """Points x_i and their weights w(i, y), for an index i that is one of the inputs."""

    names: tuple[Name, ...] = static_field()
    points: tuple[Array, ...] = term_field()
    weight: Factor = term_field()

    def __init__(self, points: Mapping[Name, Array], weight: Factor) -> None:
        own = {name: point.output for name, point in points.items()}
        inputs = merge_inputs(weight.inputs, *(point.inputs for point in points.values()), own)
        self._set(names=tuple(points), points=tuple(points.values()), weight=weight, inputs=inputs)

    @property
    def located(self) -> dict[Name, Array]:
        """The points by name."""
        return dict(zip(self.names, self.points, strict=True))

    @property
    def exactness(self) -> Exactness:
        return self.weight.exactness

    def shown(self) -> Factor:
        """δ(x = x_i) w(i, y)"""
        return Delta._of(self.located, self.weight)

    def _renamed(self, names: Mapping[Name, Name]) -> Samples:
        fresh: dict[Name, Value] = {old: Variable(new, self.inputs[old]) for old, new in names.items()}
        points = {names.get(name, name): _as_array(point.replaced(fresh)) for name, point in self.located.items()}
        return Samples(points, rename(self.weight, names))

    def _with_axis(self, name: Name) -> Samples:
        points = {own: name_axis(point, name) for own, point in self.located.items()}
        return Samples(points, name_axis(self.weight, name))

    def _marked(self, mark: Exactness) -> Factor:
        return Samples(self.located, self.weight._marked(mark))

    def _log(self) -> Value:
        return self.shown().log()

    def notation(self) -> Notation:
        return Call("Samples", tuple(Variable(name, self.inputs[name]).notation() for name in self.names))


def _as_array(value: Value) -> Array:
    assert isinstance(value, Array), "points are arrays"
    return value


@exact_slices.rule
def slice_samples(f: Samples, name: Name) -> Slices:
    """x_i(t = 0), x_i(t = 1), …"""
    stacked = tuple(axis_in_front(point.array, point.names, name) for point in f.points)
    own = slices(f.weight, name)
    others = [(tuple(n for n in point.names if n != name), point.inputs, point.output) for point in f.points]

    def at(parts: Sequence[Data]) -> Factor:
        arrays = [Array._of(data, *other) for data, other in zip(parts, others, strict=False)]
        return Samples(dict(zip(f.names, arrays, strict=True)), own.at(parts[len(arrays) :]))

    return Slices((*stacked, *own.stacked), at)


@exact_lighten.rule
def lighten_samples(f: Samples, names: tuple) -> tuple[Samples, Data]:
    """w / max w, log max w"""
    weight, log = lightened(f.weight, names)
    return Samples(f.located, weight), log


@exact_weigh.rule
def weigh_samples(f: Samples, logs: Any) -> Samples:
    """w · exp(logs)"""
    return Samples(f.located, weighed(f.weight, logs))
