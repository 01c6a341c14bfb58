"""Directed networks as joints: one site for each variable, drawn from its factor at the values of its parents."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import jax

from fubini.base.names import Name
from fubini.base.ops import sqrt
from fubini.distributions.density import Distribution
from fubini.errors import DomainError
from fubini.factors.delta import Delta
from fubini.factors.gaussian import Gaussian
from fubini.factors.table import Table
from fubini.models.flavour import Sites
from fubini.models.joint import Joint
from fubini.models.network_evidence import finding_name
from fubini.models.operator_sites import Symbols
from fubini.models.sample import Choice, Deterministic, Run
from fubini.terms.factor import Factor, substitute
from fubini.terms.value import Array, Value, to_value


@jax.tree_util.register_pytree_node_class
class JointNetwork(Joint):
    """`network.joint()`: the sites are the variables, parents first; discrete values are positions."""

    ordered = False

    def __init__(
        self,
        factors: Mapping[str, Factor],
        fixed: Mapping[str, Any] = MappingProxyType({}),
        findings: Mapping[str, Factor] = MappingProxyType({}),
    ) -> None:
        self.tables = dict(factors)  # by child, parents first
        self.fixed = dict(fixed)  # values of children that are set from outside
        self.findings = dict(findings)  # soft evidence: weights of the values of variables

    def sites(self) -> Sites:
        values: dict[str, Any] = {}
        for child, factor in self.tables.items():
            if child in self.fixed:
                values[child] = yield child, Deterministic(self.fixed[child])
                continue
            given: dict[Name, Value] = {
                name: _placed(values[str(name)], factor, name) for name in factor.inputs if name != child
            }
            values[child] = yield child, distribution_of(substitute(factor, given) if given else factor, child)
        for name, weights in self.findings.items():
            at: dict[Name, Value] = {name: _placed(values[name], weights, name)}
            yield finding_name(name, self.tables), substitute(weights, at)

    def run(self, choice: Choice) -> Run:
        if not isinstance(choice, Symbols):
            return super().run(choice)
        values: dict[str, Any] = {}
        for child, factor in self.tables.items():
            if child in self.fixed:
                values[child] = self.fixed[child]
                continue
            values[child] = choice.symbol(child, factor.inputs[child])
            given: dict[Name, Value] = {name: _placed(values[str(name)], factor, name) for name in factor.inputs}
            choice.factors.append(substitute(factor, given))
        for name, weights in self.findings.items():
            choice.factors.append(substitute(weights, {name: _placed(values[name], weights, name)}))
        return Run(())

    def unflatten(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return dict(values)

    def _intervened(self, values: Mapping[str, Any]) -> JointNetwork:
        return JointNetwork(self.tables, {**self.fixed, **values}, self.findings)

    def tree_flatten(self) -> tuple[tuple, tuple[str, ...]]:
        return (*self.tables.values(), self.fixed, self.findings), tuple(self.tables)

    @classmethod
    def tree_unflatten(cls, names: tuple[str, ...], children: tuple) -> JointNetwork:
        new = object.__new__(cls)
        *factors, new.fixed, new.findings = children
        new.tables = dict(zip(names, factors, strict=True))
        return new


def _placed(value: Any, factor: Factor, name: Name) -> Value:
    """A value as what a factor takes for a name."""
    converted = to_value(value)
    return Array._of(converted.array, (), {}, factor.inputs[name]) if isinstance(converted, Array) else converted


def distribution_of(factor: Factor, child: str) -> Distribution:
    """p(child), from a factor over nothing else."""
    if isinstance(factor, Table):
        return Distribution("Categorical", {"probs": factor.weights})
    if isinstance(factor, Delta):
        return Distribution("Delta", {"v": factor.point(child)})
    if isinstance(factor, Gaussian):
        return Distribution("Normal", {"loc": factor.mean(child), "scale": sqrt(factor.variance(child))})
    raise DomainError(
        f"the distribution of {child!r}, {factor}",
        expected="a Table, Gaussian or Delta for all configurations of its parents",
        advice="a variable that is fixed under some of them has no density: ask the network itself",
    )
