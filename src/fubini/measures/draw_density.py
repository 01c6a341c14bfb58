"""Distributions of one draw: a family with its parameters, its log-density and support, in index notation."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fubini.algebra.build import index
from fubini.algebra.node import Leaf, Node
from fubini.families.family import family_of
from fubini.families.parameters import Support, Vector


class DrawDistribution(NamedTuple):
    """A family and its parameters; an opaque one has a name of its own, and nothing else is known of it."""

    family: str
    parameters: tuple[Node | Vector, ...]
    label: str = ""

    @property
    def given(self) -> dict[str, Node]:
        """The parameters by name."""
        return dict(zip(family_of(self.family).parameters, self.parameters, strict=True))  # type: ignore[arg-type]

    def mapped(self, change: Callable[[Node], Node]) -> DrawDistribution:
        """With a function applied to each parameter."""
        return self._replace(parameters=tuple(_mapped(part, change) for part in self.parameters))

    @property
    def leaves(self) -> frozenset[Leaf]:
        """All that its parameters depend on."""
        return frozenset().union(*(_entry(part).leaves for part in self.parameters))

    @property
    def is_opaque(self) -> bool:
        """Nothing is known of it but its name."""
        return self.family == "Opaque"


def _entry(part: Node | Vector) -> Node:
    return part.entry if isinstance(part, Vector) else part


def _mapped(part: Node | Vector, change: Callable[[Node], Node]) -> Node | Vector:
    return Vector(part.over, change(part.entry)) if isinstance(part, Vector) else change(part)


def log_density(distribution: DrawDistribution, entry: Callable[..., Node]) -> Node:
    """At a value, which is read by its entry: a number has no axes, a point of a simplex one."""
    family = family_of(distribution.family)
    if family.support_at(distribution.given) is not None:
        return family.log_density(entry(), distribution.given)
    (vector,) = distribution.parameters
    assert isinstance(vector, Vector)
    return family.log_density(Vector(vector.over, entry(index(vector.over))), distribution.given)


def is_of_numbers(distribution: DrawDistribution) -> bool:
    """Its parameters are numbers, and are known."""
    return not distribution.is_opaque and not family_of(distribution.family).is_of_vectors


def support_of(distribution: DrawDistribution) -> Support | None:
    """Where a density of numbers is not zero; None where nothing is known, or of a point of a simplex."""
    return None if distribution.is_opaque else family_of(distribution.family).support_at(distribution.given)
