"""Nodes of a multi-valued decision diagram as arrays: what they are, how they are made, merged and read.

A diagram is a function of bounded integers that branches on one of them at each level, always in the same order
(Bryant 1986, for two values; Bahar et al. 1993, with numbers at the end). A reference is an integer: terminals come
first, then the nodes of the last level, and so on up to the first level, so that a node comes after its children.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np

from fubini.base.arrays import digest


@dataclass(frozen=True, eq=False)
class Nodes:
    """The nodes of each level, one row of children for each node; equal to another where all references are.

    >>> xor = from_cells(np.array([[0, 1], [1, 0]]), 2)
    >>> xor.count, xor.terminals, [level.tolist() for level in xor.children]
    (3, 2, [[[2, 3]], [[0, 1], [1, 0]]])
    """

    terminals: int
    children: tuple[np.ndarray, ...]
    root: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of values of each level's variable."""
        return tuple(rows.shape[1] for rows in self.children)

    @property
    def count(self) -> int:
        """The number of nodes, terminals left out."""
        return sum(len(rows) for rows in self.children)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The first reference of each level."""
        ends = np.cumsum([self.terminals, *(len(rows) for rows in self.children[::-1])])
        return tuple(int(start) for start in ends[:-1][::-1])

    @cached_property
    def levels(self) -> np.ndarray:
        """The level of each reference; that of terminals is the number of levels."""
        numbers = [len(self.children), *range(len(self.children) - 1, -1, -1)]
        return np.repeat(numbers, [self.terminals, *(len(rows) for rows in self.children[::-1])])

    @cached_property
    def _key(self) -> tuple[Any, ...]:
        return (
            self.terminals,
            self.root,
            self.sizes,
            tuple(digest(rows) if rows.size else b"" for rows in self.children),
        )

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Nodes) and self._key == other._key)

    def __hash__(self) -> int:
        return hash(self._key)


def unique_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different rows of integers, and for each row its position among them.

    >>> unique_rows(np.array([[1, 0, 2], [0, 0, 1], [1, 0, 2]]))[1].tolist()
    [1, 0, 1]
    """
    if not rows.size:
        return rows, np.zeros(len(rows), np.int64)
    rows = np.ascontiguousarray(rows)
    if rows.shape[1] == 1:
        keys = rows[:, 0]
    elif rows.shape[1] == 2 and rows.dtype == np.int64 and rows.min() >= 0 and rows.max() < 2**31:
        keys = rows[:, 0] * (rows.max() + 1) + rows[:, 1]
    else:  # compared byte by byte: any order of the rows will do
        keys = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))[:, 0]
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return rows[first], inverse


def across(ufunc: np.ufunc, rows: np.ndarray) -> np.ndarray:
    """A reduction along rows, column by column where there are few."""
    return reduce(ufunc, rows.T) if 0 < rows.shape[1] <= 8 else ufunc.reduce(rows, axis=1)


def merge_rows(rows: np.ndarray, start: int) -> tuple[np.ndarray, np.ndarray]:
    """References of nodes with these children, from `start` on, and the nodes made.

    Equal children are the node themselves, and equal nodes are one.
    """
    references = rows[:, 0].copy()
    branching = np.flatnonzero(across(np.logical_or, rows != rows[:, :1]))
    made, inverse = unique_rows(rows[branching])
    references[branching] = start + inverse
    return references, made


def from_cells(cells: np.ndarray, terminals: int) -> Nodes:
    """The reduced diagram of a table of terminals, one axis for each level.

    >>> from_cells(np.zeros((3, 4), int), 1).count
    0
    """
    children: list[np.ndarray] = []
    references, start = cells.astype(np.int64).reshape(-1), terminals
    for size in reversed(cells.shape):
        references, made = merge_rows(references.reshape(-1, size), start)
        children.append(made)
        start += len(made)
    return Nodes(terminals, tuple(children[::-1]), int(references[0]))


def to_cells(nodes: Nodes) -> np.ndarray:
    """The terminal of each assignment, one axis for each level.

    >>> to_cells(from_cells(np.array([[0, 1], [1, 1]]), 2)).tolist()
    [[0, 1], [1, 1]]
    """
    references = np.array([nodes.root])
    for level, rows in enumerate(nodes.children):
        wide = np.repeat(references[:, None], rows.shape[1], axis=1)
        here = nodes.levels[references] == level
        wide[here] = rows[references[here] - nodes.starts[level]]
        references = wide.reshape(-1)
    return references.reshape(nodes.sizes)


def reduce_nodes(nodes: Nodes, classes: np.ndarray, terminals: int) -> Nodes:
    """The reduced diagram in which each terminal is its class: nodes merge from the last level to the first.

    >>> reduce_nodes(from_cells(np.array([[0, 1], [2, 0]]), 3), np.array([0, 1, 1]), 2).count
    3
    """
    new = np.empty(nodes.terminals + nodes.count, np.int64)
    new[: nodes.terminals] = classes
    children: list[np.ndarray] = []
    made_from = terminals
    for start, rows in zip(nodes.starts[::-1], nodes.children[::-1], strict=True):
        new[start : start + len(rows)], made = merge_rows(new[rows], made_from)
        children.append(made)
        made_from += len(made)
    return Nodes(terminals, tuple(children[::-1]), int(new[nodes.root]))


def path_to(nodes: Nodes, terminal: int) -> tuple[int, ...]:
    """The first assignment that ends at a terminal, one value for each level.

    >>> path_to(from_cells(np.array([[0, 1], [1, 2]]), 3), 2)
    (1, 1)
    """
    leads = np.zeros(nodes.terminals + nodes.count, bool)
    leads[terminal] = True
    for start, rows in zip(nodes.starts[::-1], nodes.children[::-1], strict=True):
        leads[start : start + len(rows)] = leads[rows].any(axis=1)
    values: list[int] = []
    reference = nodes.root
    for level, rows in enumerate(nodes.children):
        at_level = nodes.levels[reference] == level
        kids = rows[reference - nodes.starts[level]] if at_level else np.full(rows.shape[1], reference)
        values.append(int(leads[kids].argmax()))
        reference = int(kids[values[-1]])
    return tuple(values)
