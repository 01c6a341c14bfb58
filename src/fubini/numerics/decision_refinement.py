"""Common refinement of several functions in one diagram: each tuple of nodes once, level by level.

It is the pairing of nodes in Bryant's Apply, for any number of operands: what stands at the terminals of the result is
one tuple of terminals each, and an operation on numbers makes a number of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fubini.numerics.decision_nodes import Nodes, across, reduce_nodes, unique_rows


class Refinement(NamedTuple):
    """A reduced diagram, and for each of its terminals the terminals of the operands, one column each."""

    nodes: Nodes
    tuples: np.ndarray


class _Waiting(NamedTuple):
    """Tuples that a level is to look at, and which children they are: the level that has them, and their positions."""

    rows: np.ndarray
    level: int
    positions: np.ndarray


class _Operands(NamedTuple):
    """Functions in one diagram: their roots, the level that is fixed and its values, and how tuples are simplified."""

    nodes: Nodes
    roots: np.ndarray
    fixed: int = -1
    values: np.ndarray = np.zeros(0, np.int64)
    is_symmetric: bool = False  # the order within a tuple does not matter
    absorbing: np.ndarray | None = None  # the references that decide a tuple alone
    sink: np.ndarray | None = None  # the tuple that it then is

    def settled(self, rows: np.ndarray) -> np.ndarray:
        """The tuples past the level that is fixed, simplified."""
        if self.fixed >= 0:
            row, column = np.nonzero(self.nodes.levels[rows] == self.fixed)
            below = self.nodes.children[self.fixed]
            rows[row, column] = below[rows[row, column] - self.nodes.starts[self.fixed], self.values[column]]
        if self.absorbing is not None:
            rows[across(np.logical_or, self.absorbing[rows])] = self.sink
        return np.sort(rows, axis=1) if self.is_symmetric else rows


def _refined(operands: _Operands) -> Refinement:
    """Pair nodes from the first level to the last, each tuple once, and reduce the result."""
    nodes, depth = operands.nodes, len(operands.nodes.children)
    waiting: list[list[_Waiting]] = [[] for _ in range(depth + 1)]
    tuples: list[np.ndarray] = []
    inverses: list[np.ndarray] = []

    def look_at(rows: np.ndarray, level: int) -> None:
        tops = across(np.minimum, nodes.levels[rows])
        for top in np.flatnonzero(np.bincount(tops)):
            positions = np.flatnonzero(tops == top)
            waiting[top].append(_Waiting(rows[positions], level, positions))

    look_at(operands.settled(operands.roots[None].copy()), -1)
    for level in range(depth + 1):
        pieces = [piece.rows for piece in waiting[level]]
        rows, inverse = unique_rows(np.concatenate(pieces)) if pieces else (operands.roots[None][:0], np.zeros(0, int))
        tuples.append(rows)
        inverses.append(inverse)
        if level < depth:
            look_at(operands.settled(_children(nodes, rows, level)), level)
    return _assembled(operands, waiting, tuples, inverses)


def _children(nodes: Nodes, rows: np.ndarray, level: int) -> np.ndarray:
    """The tuples of children, one for each value of the level; what is below the level stays."""
    size = nodes.children[level].shape[1]
    wide = np.repeat(rows[:, None, :], size, axis=1)
    row, column = np.nonzero(nodes.levels[rows] == level)
    wide[row, :, column] = nodes.children[level][rows[row, column] - nodes.starts[level]]
    return wide.reshape(-1, rows.shape[1])


def _assembled(
    operands: _Operands, waiting: list[list[_Waiting]], tuples: list[np.ndarray], inverses: list[np.ndarray]
) -> Refinement:
    """Number the tuples as nodes and put each where it waited as a child."""
    sizes = operands.nodes.sizes
    kept = [level for level in range(len(sizes)) if level != operands.fixed]
    children = {level: np.empty(len(tuples[level]) * sizes[level], np.int64) for level in kept}
    start, root = 0, 0
    for level in (len(sizes), *reversed(kept)):
        ends = np.cumsum([len(piece.rows) for piece in waiting[level]])
        for piece, inverse in zip(waiting[level], np.split(inverses[level], ends[:-1]), strict=False):
            if piece.level < 0:
                root = start + int(inverse[0])
            else:
                children[piece.level][piece.positions] = start + inverse
        start += len(tuples[level])
    terminals = len(tuples[-1])
    raw = Nodes(terminals, tuple(children[level].reshape(-1, sizes[level]) for level in kept), root)
    return Refinement(reduce_nodes(raw, np.arange(terminals), terminals), tuples[-1])


def restrict(nodes: Nodes, level: int, value: int) -> Refinement:
    """f(x = value, ·), without the level of x."""
    return _refined(_Operands(nodes, np.array([nodes.root]), level, np.array([value])))


def cofactors(nodes: Nodes, level: int, is_symmetric: bool = False) -> Refinement:
    """(f(x = 0, ·), f(x = 1, ·), …), without the level of x; sorted where their order does not matter."""
    size = nodes.children[level].shape[1]
    return _refined(_Operands(nodes, np.full(size, nodes.root), level, np.arange(size), is_symmetric))


def pair(
    f: Nodes,
    g: Nodes,
    levels: tuple[Sequence[int], Sequence[int]],
    sizes: Sequence[int],
    absorbing: tuple[np.ndarray, np.ndarray] | None = None,
) -> Refinement:
    """(f, g), each level of f and g being the given level of the result.

    `absorbing` marks the terminals of either that decide a pair alone, as a zero does a product.
    """
    children: list[np.ndarray] = []
    maps = [np.empty(nodes.terminals + nodes.count, np.int64) for nodes in (f, g)]
    maps[0][: f.terminals], maps[1][: g.terminals] = np.arange(f.terminals), f.terminals + np.arange(g.terminals)
    start = f.terminals + g.terminals
    for level in reversed(range(len(sizes))):
        rows = [np.zeros((0, sizes[level]), np.int64)]
        for nodes, own, renumbered in zip((f, g), levels, maps, strict=True):
            if level in own:
                first, part = nodes.starts[own.index(level)], nodes.children[own.index(level)]
                renumbered[first : first + len(part)] = start + np.arange(len(part))
                rows.append(renumbered[part])
                start += len(part)
        children.append(np.concatenate(rows))
    both = Nodes(f.terminals + g.terminals, tuple(children[::-1]), 0)
    roots = np.array([maps[0][f.root], maps[1][g.root]])
    mask, sink = (None, None) if absorbing is None else _sink(f, both, absorbing)
    nodes, tuples = _refined(_Operands(both, roots, absorbing=mask, sink=sink))
    return Refinement(nodes, tuples - np.array([0, f.terminals]))


def _sink(f: Nodes, both: Nodes, absorbing: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The absorbing references, and the pair of terminals that stands for every pair with one of them."""
    mask = np.zeros(both.terminals + both.count, bool)
    mask[: both.terminals] = np.concatenate(absorbing)
    return mask, np.array([absorbing[0].argmax(), f.terminals + absorbing[1].argmax()])


def move_to_end(nodes: Nodes, level: int) -> Nodes:
    """The same function with one level after all others: its cofactors at each terminal become a node there."""
    refined, tuples = cofactors(nodes, level)
    below = nodes.terminals
    raw = Nodes(below, (*(rows + below for rows in refined.children), tuples), refined.root + below)
    return reduce_nodes(raw, np.arange(below), below)
