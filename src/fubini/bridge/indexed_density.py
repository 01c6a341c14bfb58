"""A density in index notation, and what remains of it when names are integrated out: p(x | y) · Z(y)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fubini.algebra.build import plus
from fubini.algebra.node import Leaf
from fubini.base.arrays import is_traced
from fubini.base.domains import Domain
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.bridge.conditionals import Conditionals, on_jax
from fubini.bridge.expression import Expression
from fubini.bridge.integrand import Integrand
from fubini.eliminate.plan import PLANS, Plan
from fubini.errors import NoRule
from fubini.factors.table import Table
from fubini.numerics.randomness import Randomness
from fubini.terms.exactness import Exactness, exactly
from fubini.terms.factor import Factor, Unit, Weight, product, substitute
from fubini.terms.heads import DRAW
from fubini.terms.value import Array, Value, is_enumerable, to_array


@dataclass(frozen=True, eq=False)
class IndexedDensity:
    """An integrand, and what those of its leaves stand for that are not integrated over."""

    integrand: Integrand
    slots: Mapping[Leaf, Value]
    inputs: Mapping[Name, Domain]  # of the factors that it was read from
    mark: Exactness = exactly
    is_on_jax: bool = False  # some of its numbers are JAX's, though they may have been read as constants

    @property
    def conditionals(self) -> Conditionals:
        """The distributions of its variables, by the steps that integrate these out."""
        return Conditionals(self.integrand, self.slots, self.mark, self.is_on_jax)

    def without(self, names: Iterable[Name], last: tuple[Name, ...] = ()) -> Disintegration:
        """Integrate out as many of these names as can be, `last` after all others."""
        return Disintegration(self, plan_of(self.integrand, frozenset(names), last))

    def at_greatest(self, names: Iterable[Name]) -> Disintegration:
        """The same for the greatest value over these names."""
        return Disintegration(self, plan_of_maximum(self.integrand, frozenset(names)))

    def given(self, values: Mapping[Name, Value]) -> IndexedDensity:
        """Substitute values of some names."""
        slots = {**self.slots, **{self.integrand.latents[name]: value for name, value in values.items()}}
        inputs = {name: domain for name, domain in self.inputs.items() if name not in values}
        for value in values.values():
            inputs.update(value.inputs)
        return replace(self, slots=slots, inputs=inputs)


def plan_of(integrand: Integrand, names: frozenset[Name], last: tuple[Name, ...] = ()) -> Plan:
    """The plan for some names of an integrand; reused, unless its numbers are of a trace in progress."""
    return _reuse_plan(integrand, (names, last), lambda: integrand.plan(names, last))


def plan_of_maximum(integrand: Integrand, names: frozenset[Name]) -> Plan:
    """The same for a maximum."""
    return _reuse_plan(integrand, ("maximum", names), lambda: integrand.plan_of_maximum(names))


def _reuse_plan(integrand: Integrand, question: Hashable, make: Callable[[], Plan]) -> Plan:
    traced = is_traced(*integrand.reader.known.values())
    return make() if traced else PLANS.get_or_make_for(integrand, question, make)


@dataclass(frozen=True, eq=False)
class Disintegration:
    """Z and the conditionals of what is integrated out, made when they are asked for."""

    of: IndexedDensity
    plan: Plan
    otherwise: Callable[[], Disintegration] | None = None  # the same, where its conditionals have no factors

    @cached_property
    def remaining(self) -> Factor:
        """Z, over all remaining names: a Table where these are finite."""
        whole, integrand = plus(*self.plan.terms), self.of.integrand
        used = {leaf: value for leaf, value in self.of.slots.items() if leaf in whole.leaves}
        expression = Expression(whole, used, integrand.reader, integrand.axes, mark=self.of.mark)
        gone = set(self.plan.eliminated)
        missing = {n: domain for n, domain in self.of.inputs.items() if n not in gone and n not in expression.inputs}
        if is_enumerable(expression):
            logs = to_array(expression)
            logs = on_jax(logs) if self.of.is_on_jax else logs
            if not is_traced(logs.array) and np.isnan(logs.array).any():
                self._require_parameters()
            made: Factor = Table.from_log(logs.array, tuple(logs.names))._marked(expression.exactness)
        else:
            made = Weight(expression)
        return product(Unit(missing), made) if missing else made

    def _require_parameters(self) -> None:
        """Raise the error of a parameter that is not allowed, where known numbers alone decide it."""
        integrand = self.of.integrand
        for mark, _, entry in integrand.reader.marks:
            slots = {leaf: value for leaf, value in self.of.slots.items() if leaf in entry.leaves}
            allowed = Expression(entry, slots, integrand.reader, integrand.axes)
            if mark.is_random or entry.free - set(integrand.axes) or not is_enumerable(allowed):
                continue
            if np.isnan(to_array(allowed).array).any():
                raise mark.requirement.error("its argument")

    @cached_property
    def conditionals(self) -> tuple[Factor, ...]:
        """p(x | y, what is eliminated after x), in the order of elimination."""
        try:
            return tuple(self._each())
        except NoRule:
            if self.otherwise is None:
                raise
            return self.otherwise().conditionals

    def _each(self) -> Iterator[Factor]:
        steps = self.plan.integrals
        for place, step in enumerate(steps):
            later = [name for after in steps[place + 1 :] for name in after.names]
            yield from reversed(self.of.conditionals.of_step(step, later))

    def draw(self, randomness: Randomness) -> dict[Name, Array]:
        """x ~ p(x | y), from the last that is eliminated to the first"""
        try:
            conditionals = self.conditionals
        except NoRule:
            whole = self if self.otherwise is None else self.otherwise()
            if whole.plan.blocked:
                raise
            return whole._draw_steps(randomness)
        names, chosen = [name for step in self.plan.integrals for name in step.names], dict[Name, Array]()
        for term in reversed(conditionals):
            own = tuple(name for name in names if name in term.inputs and name not in chosen)
            chosen.update(interpret(DRAW, randomness, substitute(term, chosen), own))
        return chosen

    def _draw_steps(self, randomness: Randomness) -> dict[Name, Array]:
        """The same of all variables of a step at once, where these have no factors."""
        chosen: dict[Name, Array] = {}
        for step in reversed(self.plan.integrals):
            chosen.update(self.of.given(chosen).conditionals.draw(step, randomness))
        return chosen

    def marginal(self, names: tuple[Name, ...]) -> Factor:
        """p(x | y), of a plan that ends with x; of several, each given those of them that are eliminated after it."""
        steps = [step for step in self.plan.integrals if set(names) & set(step.names)]
        if len(names) == 1:
            return self.of.conditionals.marginal(steps[0], names[0])
        parts: list[Factor] = []
        for place, step in enumerate(steps):
            own = [name for name in names if name in step.names]
            later = [name for after in steps[place + 1 :] for name in after.names if name in names]
            parts += self.of.conditionals.of_step(step, later, own)
        return product(*parts)

    @cached_property
    def modes(self) -> dict[Name, Value]:
        """The values of greatest density, from the last that is eliminated to the first."""
        modes: dict[Name, Value] = {}
        for step in reversed(self.plan.integrals):
            modes.update(self.of.given(modes).conditionals.modes(step))
        return modes
