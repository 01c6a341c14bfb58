"""The structure of circuits: nodes over a vtree, as static arrays in layers.

A node at a leaf of the vtree is over one variable, with a weight for each of its two values. A node at an inner vtree
node is a sum over elements, n(x, y) = Σ_e θ_e p_e(x) s_e(y): the prime p_e is a node of the left child, the sub s_e one
of the right (Kisa, Van den Broeck, Choi, Darwiche 2014). The weights are no part of the structure.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fubini.base.arrays import digest
from fubini.numerics.vtree import Vtree

Integers = NDArray[np.int32]  # one type in both precisions of JAX


class Layer(NamedTuple):
    """The nodes of one height: positions of their elements and nodes, and where in these each node begins."""

    elements: slice
    nodes: slice
    starts: Integers  # the first element of each node, counted from the first of the layer
    owners: Integers  # the node of each element, counted from the first of the layer


class Arrivals(NamedTuple):
    """The elements that lead to the nodes of one layer, sorted by node."""

    nodes: slice
    elements: Integers
    starts: Integers
    owners: Integers


class CircuitStructure:
    """Nodes 0 … K−1 are at leaves of the vtree, the others sums over elements, lower vtree nodes first."""

    def __init__(self, vtree: Vtree, variable: Integers, support: NDArray[np.bool_], place: Integers, e: Any) -> None:
        """Take over the vtree node of each sum as `place`, and (owner, prime, sub) of the elements as `e`."""
        self.vtree, self.support = vtree, support
        self.variable, self.place = np.asarray(variable, np.int32), np.asarray(place, np.int32)
        self.owner, self.prime, self.sub = (np.asarray(column, np.int32) for column in e)
        arrays = (self.variable, support, self.place, self.owner, self.prime, self.sub)
        self.key = (vtree.key, *(digest(array) if array.size else b"" for array in arrays))

    @property
    def leaves(self) -> int:
        """The number of nodes at leaves of the vtree."""
        return len(self.variable)

    @property
    def size(self) -> int:
        """The number of elements."""
        return len(self.owner)

    @property
    def count(self) -> int:
        """The number of nodes."""
        return self.leaves + len(self.place)

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """The sums by height, lowest first."""
        heights = self.vtree.heights[self.place]
        layers: list[Layer] = []
        for height in np.unique(heights):
            first, last = np.searchsorted(heights, [height, height + 1])
            begin, end = np.searchsorted(self.owner, [first + self.leaves, last + self.leaves])
            owners = self.owner[begin:end] - np.int32(first + self.leaves)
            starts = np.searchsorted(owners, np.arange(int(last) - int(first)))
            nodes = slice(int(first) + self.leaves, int(last) + self.leaves)
            layers.append(Layer(slice(int(begin), int(end)), nodes, starts.astype(np.int32), owners))
        return tuple(layers)

    @cached_property
    def arrivals(self) -> tuple[Arrivals, ...]:
        """For the leaves, and each layer but the last, the elements that lead there."""
        child = np.concatenate([self.prime, self.sub])
        order = np.argsort(child, kind="stable")
        child, element = child[order], order % max(self.size, 1)
        arrivals: list[Arrivals] = []
        for nodes in [slice(0, self.leaves), *(layer.nodes for layer in self.layers)]:
            begin, end = np.searchsorted(child, [nodes.start, nodes.stop])
            owners = child[begin:end] - nodes.start
            starts = np.searchsorted(owners, np.arange(nodes.stop - nodes.start))
            indices = (element[begin:end], starts, owners)
            arrivals.append(Arrivals(nodes, *(array.astype(np.int32) for array in indices)))
        return tuple(arrivals)

    @cached_property
    def supports(self) -> int:
        """The number of assignments that some choice of elements admits, of a deterministic circuit."""
        return self.count_models(self.support, np.ones(self.size, bool))

    def count_models(self, support: NDArray[np.bool_], is_open: NDArray[np.bool_]) -> int:
        """The number of assignments, in whole numbers, where these leaves and elements are positive."""
        counts = [int(number) for number in support.sum(1)] + [0] * len(self.place)
        for owner, prime, sub in zip(*(part[is_open].tolist() for part in self.elements), strict=True):
            counts[owner] += counts[prime] * counts[sub]
        return counts[-1]

    def with_constants(self, variables: Sequence[int]) -> CircuitStructure:
        """The structure after these variables are eliminated: their leaves are constants, kept in the first weight."""
        gone = np.isin(self.variable, variables)[:, None]
        support = np.where(gone, np.array([True, False]), self.support)
        return CircuitStructure(self.vtree, self.variable, support, self.place, self.elements)

    def widened(self, variables: Sequence[int]) -> NDArray[np.bool_]:
        """The support with both values of some variables, at which the circuit is constant."""
        return self.support | np.isin(self.variable, variables)[:, None]

    @property
    def elements(self) -> tuple[Integers, Integers, Integers]:
        """The sum, the prime and the sub of each element."""
        return self.owner, self.prime, self.sub

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, CircuitStructure) and self.key == other.key)

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"<{self.count:,} nodes, {self.size:,} elements>"


Leaf = tuple[int, bool, bool]  # a variable, and which of its values have weight


class Nodes:
    """Nodes while a structure is made: each is given a number, children before parents."""

    def __init__(self, vtree: Vtree) -> None:
        self.vtree = vtree
        self.place: list[int] = []  # the vtree node
        self.content: list[Any] = []  # a Leaf, or a tuple of (prime, sub)
        self._known: dict[Any, int] = {}
        self._true: dict[int, int] = {}

    def leaf(self, variable: int, zero: bool, one: bool, tag: Any = None) -> int:
        """The node over one variable; a tag makes it another one than those of the same support."""
        return self._number(int(self.vtree.leaf_of[variable]), (variable, zero, one), tag)

    def total(self, place: int, elements: Sequence[tuple[int, int]], tag: Any = None) -> int:
        """The sum over elements at a vtree node."""
        return self._number(place, tuple(elements), tag)

    def true(self, place: int) -> int:
        """The node that admits everything below a vtree node."""
        known = self._true
        for node in self._missing(place):
            variable = int(self.vtree.variable[node])
            if variable >= 0:
                known[node] = self.leaf(variable, True, True)
            else:
                pair = (known[int(self.vtree.left[node])], known[int(self.vtree.right[node])])
                known[node] = self.total(node, [pair])
        return known[place]

    def _missing(self, place: int) -> list[int]:
        """The vtree nodes at and below one that have no node yet that admits everything, children first."""
        nodes: list[int] = []
        todo = [place]
        while todo:
            node = todo.pop()
            if node not in self._true:
                nodes.append(node)
                if self.vtree.variable[node] < 0:
                    todo += [int(self.vtree.left[node]), int(self.vtree.right[node])]
        return sorted(nodes)

    def _number(self, place: int, content: Any, tag: Any) -> int:
        key = (place, content, tag)
        if key not in self._known:
            self._known[key] = len(self.place)
            self.place.append(place)
            self.content.append(content)
        return self._known[key]

    def finish(self, root: int) -> Finished:
        """The structure of what the root needs, and how its nodes and elements were numbered."""
        needed = self._needed(root)
        heights = self.vtree.heights
        leaves = [node for node in needed if self.vtree.variable[self.place[node]] >= 0]
        totals = [node for node in needed if self.vtree.variable[self.place[node]] < 0]
        totals.sort(key=lambda node: (heights[self.place[node]], self.place[node], node))
        new = {node: position for position, node in enumerate([*leaves, *totals])}
        rows = [(new[n], new[p], new[s]) for n in totals for p, s in self.content[n]]
        columns = np.asarray(rows, np.int32).reshape(-1, 3).T
        support = np.asarray([self.content[n][1:] for n in leaves], bool).reshape(-1, 2)
        variable = np.asarray([self.content[n][0] for n in leaves], np.int32)
        place = np.asarray([self.place[n] for n in totals], np.int32)
        return Finished(CircuitStructure(self.vtree, variable, support, place, columns), leaves, totals)

    def _needed(self, root: int) -> list[int]:
        needed, todo = {root}, [root]
        while todo:
            node = todo.pop()
            if self.vtree.variable[self.place[node]] < 0:
                below = {child for pair in self.content[node] for child in pair} - needed
                needed |= below
                todo += below
        return sorted(needed)


class Finished(NamedTuple):
    """A structure, and the numbers under which its leaves and sums, in order, were made."""

    structure: CircuitStructure
    leaves: list[int]
    totals: list[int]
