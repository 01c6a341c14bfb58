"""Families that are closed under addition: what a draw adds to a sum of independent draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from fubini.algebra.build import power
from fubini.algebra.node import Node


class Summand(NamedTuple):
    """A draw as a term of a sum: Σ x is of the family, with s = (Σ s_i^p)^(1/p) for parameters s that add up."""

    family: str  # of the sum
    added: Mapping[str, Node]
    shared: Mapping[str, Node] = {}  # parameters that all draws of the sum have in common
    powers: Mapping[str, float] = {}  # p, where it is not 1

    def term(self, name: str) -> Node:
        """s^p of this draw."""
        return power(self.added[name], self.powers.get(name, 1.0))

    def parameters(self, total: Callable[[str], Node]) -> dict[str, Node]:
        """Those of the sum, of the total of s^p over all draws for each s."""
        roots = {name: power(total(name), 1 / self.powers.get(name, 1.0)) for name in self.added}
        return {**self.shared, **roots}
