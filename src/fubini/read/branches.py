"""Branches of `lax.cond` and `lax.switch`, all of which are read."""

from __future__ import annotations

from typing import Any

from fubini.algebra.build import const, equal, where
from fubini.algebra.node import Node
from fubini.algebra.ranges import bounds
from fubini.read.jaxpr_reader import Reader, rule
from fubini.read.symbolic_array import SymbolicArray


@rule("cond")
def read_cond(
    reader: Reader, equation: Any, choice: SymbolicArray, *operands: SymbolicArray
) -> list[SymbolicArray] | None:
    """where(choice = 0, f₀, where(choice = 1, f₁, …)), of a choice that whole numbers make

    Where a real latent chooses, it stays as it is: the derivative of the branch that is not taken need not be finite.
    """
    branches, made = equation.params["branches"], choice.at()
    low, high = bounds(made)
    if low < 0 or high > len(branches) - 1 or not all(leaf.is_integer or leaf in reader.known for leaf in made.leaves):
        return None
    read = [reader.read(branch.jaxpr, branch.consts, operands) for branch in branches]
    return [_chosen(made, cases) for cases in zip(*read, strict=True)]


def _chosen(choice: Node, cases: tuple[SymbolicArray, ...]) -> SymbolicArray:
    def entry(*at: Node) -> Node:
        *earlier, chosen = (case.at(*at) for case in cases)
        for k in reversed(range(len(earlier))):
            chosen = where(equal(choice, const(float(k))), earlier[k], chosen)
        return chosen

    return SymbolicArray(cases[0].shape, entry)
