"""Vtrees: full binary trees whose leaves are Boolean variables, by position (Pipatsrisawat and Darwiche 2008)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Nested = Any  # a variable, by position, or a pair of nested vtrees


class Vtree:
    """A full binary tree, its nodes listed children first; the last one is the root.

    `left` and `right` are −1 at a leaf, and `variable` is −1 at an inner node.

    >>> Vtree.from_nested(((0, 1), 2)).height
    2
    """

    def __init__(self, left: Sequence[int], right: Sequence[int], variable: Sequence[int]) -> None:
        self.left, self.right, self.variable = (np.asarray(list(part), np.int32) for part in (left, right, variable))
        self.key = (self.left.tobytes(), self.right.tobytes(), self.variable.tobytes())

    @classmethod
    def from_nested(cls, nested: Nested) -> Vtree:
        """Make a vtree from nested pairs of positions: ((0, 1), 2)."""
        left: list[int] = []
        right: list[int] = []
        variable: list[int] = []
        made: list[int] = []  # the nodes that wait for their parent
        todo: list[tuple[Nested, bool]] = [(nested, False)]
        while todo:
            part, has_children = todo.pop()
            if isinstance(part, tuple) and not has_children:
                todo += [(part, True), (part[1], False), (part[0], False)]
                continue
            if isinstance(part, tuple):
                second_node, first_node = made.pop(), made.pop()
            else:
                second_node = first_node = -1
            made.append(len(left))
            left.append(first_node)
            right.append(second_node)
            variable.append(-1 if isinstance(part, tuple) else int(part))
        return cls(left, right, variable)

    @property
    def root(self) -> int:
        """The last node."""
        return len(self.left) - 1

    @property
    def count(self) -> int:
        """The number of variables."""
        return (len(self.left) + 1) // 2

    @cached_property
    def heights(self) -> NDArray[np.int32]:
        """The height of each node: 0 at a leaf."""
        heights = np.zeros(len(self.left), np.int32)
        for node in np.flatnonzero(self.variable < 0):
            heights[node] = 1 + max(heights[self.left[node]], heights[self.right[node]])
        return heights

    @property
    def height(self) -> int:
        """The height of the root."""
        return int(self.heights[-1])

    @cached_property
    def depths(self) -> NDArray[np.int32]:
        """The depth of each node: 0 at the root."""
        depths = np.zeros(len(self.left), np.int32)
        for node in reversed(np.flatnonzero(self.variable < 0)):
            depths[self.left[node]] = depths[self.right[node]] = depths[node] + 1
        return depths

    @cached_property
    def leaf_of(self) -> NDArray[np.int32]:
        """The leaf of each variable."""
        leaves = np.flatnonzero(self.variable >= 0)
        nodes = np.zeros(self.count, np.int32)
        nodes[self.variable[leaves]] = leaves
        return nodes

    @cached_property
    def scopes(self) -> list[frozenset[int]]:
        """The variables below each node."""
        scopes: list[frozenset[int]] = []
        for node, variable in enumerate(self.variable):
            children = (int(self.left[node]), int(self.right[node]))
            below: list[frozenset[int]] = [scopes[child] for child in children if child >= 0]
            scopes.append(frozenset([int(variable)]) if variable >= 0 else below[0] | below[1])
        return scopes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vtree) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def balanced(variables: Sequence[Nested]) -> Nested:
    """Nested pairs of least height, the parts in this order.

    >>> balanced([0, 1, 2])
    ((0, 1), 2)
    """
    if len(variables) == 1:
        return variables[0]
    half = (len(variables) + 1) // 2
    return balanced(variables[:half]), balanced(variables[half:])


def right_linear(variables: Sequence[Nested]) -> Nested:
    """Nested pairs whose left parts are the parts given, in this order.

    >>> right_linear([0, 1, 2])
    (0, (1, 2))
    """
    nested = variables[-1]
    for part in reversed(variables[:-1]):
        nested = (part, nested)
    return nested


def beside(first: Vtree, second: Vtree) -> Vtree:
    """The vtree of two, the variables of the second counted on from the first."""
    n, k = len(first.left), first.count
    left = [*first.left, *np.where(second.left < 0, -1, second.left + n), n - 1]
    right = [*first.right, *np.where(second.right < 0, -1, second.right + n), n + len(second.left) - 1]
    return Vtree(left, right, [*first.variable, *np.where(second.variable < 0, -1, second.variable + k), -1])
