"""Structures made from others: products, sums, tables, and circuits side by side.

Each comes with arrays that say from which leaf and element of its operands a leaf or element takes its weight.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from fubini.numerics.circuit_structure import CircuitStructure, Finished, Integers, Nodes
from fubini.numerics.vtree import Vtree, beside


class Combined(NamedTuple):
    """A structure, and for each leaf and each element a row of where its weights come from."""

    structure: CircuitStructure
    leaves: Integers
    elements: Integers


def _traced_back(finished: Finished, leaves: dict[int, Any], elements: dict[int, list[Any]]) -> Combined:
    """The rows of origins in the order in which leaves and elements were numbered."""
    of_leaves = [leaves[node] for node in finished.leaves]
    of_elements = [row for node in finished.totals for row in elements[node]]
    width = len(of_leaves[0])
    return Combined(
        finished.structure, np.asarray(of_leaves, np.int32), np.asarray(of_elements, np.int32).reshape(-1, width)
    )


@lru_cache(maxsize=256)
def multiply_structures(
    a: CircuitStructure, b: CircuitStructure, wide_a: tuple[int, ...] = (), wide_b: tuple[int, ...] = ()
) -> Combined | None:
    """The product of two circuits over one vtree, element by element; None where no assignment is left.

    (Σ_i θ_i p_i s_i)(Σ_j θ'_j q_j r_j) = Σ_ij θ_i θ'_j (p_i q_j)(s_i r_j), pairs without a model left out (Shen, Choi,
    Darwiche 2016, algorithm 1). At the wide variables an operand is constant: it admits both values.
    """
    support_a, support_b = a.widened(wide_a), b.widened(wide_b)
    nodes = Nodes(a.vtree)
    leaves: dict[int, Any] = {}
    elements: dict[int, list[Any]] = {}
    made: dict[tuple[int, int], int | None] = {}

    def make_leaf(first: int, second: int) -> int | None:
        both = support_a[first] & support_b[second]
        if not both.any():
            return None
        number = nodes.leaf(int(a.variable[first]), bool(both[0]), bool(both[1]), (first, second))
        leaves[number] = (first, second)
        return number

    def make(place: int, pairs: set[tuple[int, int]]) -> None:
        """The products of these pairs of nodes at a vtree node; of subs only those whose primes have a model."""
        if a.vtree.variable[place] >= 0:
            made.update((pair, make_leaf(*pair)) for pair in sorted(pairs))
            return
        ways = {pair: list(product(_elements(a, pair[0]), _elements(b, pair[1]))) for pair in sorted(pairs)}
        make(int(a.vtree.left[place]), {(primes_a[i], primes_b[j]) for way in ways.values() for i, j in way})
        ways = {
            pair: [(i, j) for i, j in way if made[primes_a[i], primes_b[j]] is not None] for pair, way in ways.items()
        }
        make(int(a.vtree.right[place]), {(subs_a[i], subs_b[j]) for way in ways.values() for i, j in way})
        for pair, way in ways.items():
            rows = [(i, j) for i, j in way if made[subs_a[i], subs_b[j]] is not None]
            content = [(made[primes_a[i], primes_b[j]], made[subs_a[i], subs_b[j]]) for i, j in rows]
            made[pair] = nodes.total(place, content, pair) if rows else None  # type: ignore[arg-type]
            if rows:
                elements[made[pair]] = rows  # type: ignore[index]

    primes_a, primes_b, subs_a, subs_b = (part.tolist() for part in (a.prime, b.prime, a.sub, b.sub))
    make(a.vtree.root, {(a.count - 1, b.count - 1)})
    root = made[a.count - 1, b.count - 1]
    return None if root is None else _traced_back(nodes.finish(root), leaves, elements)


def _elements(structure: CircuitStructure, node: int) -> range:
    """The elements of a sum."""
    return range(*map(int, np.searchsorted(structure.owner, [node, node + 1])))


@lru_cache(maxsize=256)
def add_structures(structures: tuple[CircuitStructure, ...]) -> Combined:
    """The sum of circuits over one vtree of two variables or more: one root with the elements of all.

    The rows are (operand, leaf) and (operand, element).
    """
    nodes = Nodes(structures[0].vtree)
    leaves: dict[int, Any] = {}
    elements: dict[int, list[Any]] = {}
    content: list[tuple[int, int]] = []
    origins: list[Any] = []
    for operand, structure in enumerate(structures):
        numbers = _copy(nodes, structure, operand, leaves, elements)
        root = _elements(structure, structure.count - 1)
        content += [(numbers[structure.prime[e]], numbers[structure.sub[e]]) for e in root]
        origins += [(operand, e) for e in root]
    top = nodes.total(structures[0].vtree.root, content, "all")
    elements[top] = origins
    return _traced_back(nodes.finish(top), leaves, elements)


def _copy(nodes: Nodes, structure: CircuitStructure, tag: int, leaves: dict[int, Any], elements: dict[int, Any]) -> Any:
    """Number the nodes of a structure among others; the number of each."""
    numbers: dict[int, int] = {}
    for leaf, (variable, support) in enumerate(zip(structure.variable, structure.support, strict=True)):
        numbers[leaf] = nodes.leaf(int(variable), bool(support[0]), bool(support[1]), (tag, leaf))
        leaves[numbers[leaf]] = (tag, leaf)
    for position, place in enumerate(structure.place):
        node = structure.leaves + position
        own = _elements(structure, node)
        content = [(numbers[int(structure.prime[e])], numbers[int(structure.sub[e])]) for e in own]
        numbers[node] = nodes.total(int(place), content, (tag, node))
        elements[numbers[node]] = [(tag, e) for e in own]
    return numbers


@lru_cache(maxsize=256)
def join_structures(a: CircuitStructure, b: CircuitStructure) -> Combined:
    """The product of circuits over different variables: their roots are the only prime and sub of a new root.

    The rows are (operand, leaf) and (operand, element), (2, 0) for the element of the root.
    """
    vtree = beside(a.vtree, b.vtree)
    moved = CircuitStructure(vtree, b.variable + a.vtree.count, b.support, b.place + len(a.vtree.left), b.elements)
    nodes = Nodes(vtree)
    leaves: dict[int, Any] = {}
    elements: dict[int, list[Any]] = {}
    first, second = (_copy(nodes, structure, tag, leaves, elements) for tag, structure in enumerate((a, moved)))
    top = nodes.total(vtree.root, [(first[a.count - 1], second[b.count - 1])])
    elements[top] = [(2, 0)]
    return _traced_back(nodes.finish(top), leaves, elements)


class Tabulated(NamedTuple):
    """The structure of a table over some variables, their order, and the cell of each leaf's weights, −1 for 1."""

    structure: CircuitStructure
    order: tuple[int, ...]
    cells: Integers


@lru_cache(maxsize=256)
def tabulate(vtree: Vtree, variables: frozenset[int]) -> Tabulated:
    """Any function of a few variables as a deterministic circuit: f(l, r) = Σ_l 1[l] f(l, ·), down to one variable."""
    order = tuple(int(v) for v in vtree.variable if v in variables)
    nodes = Nodes(vtree)
    cells: dict[int, tuple[int, int]] = {}

    def scope(place: int) -> list[int]:
        return [variable for variable in order if variable in vtree.scopes[place]]

    def term(place: int, values: tuple[int, ...]) -> int:
        """The indicator of values of the variables below."""
        if not values:
            return nodes.true(place)
        if vtree.variable[place] >= 0:
            return nodes.leaf(int(vtree.variable[place]), values[0] == 0, values[0] == 1)
        left, right = int(vtree.left[place]), int(vtree.right[place])
        cut = len(scope(left))
        return nodes.total(place, [(term(left, values[:cut]), term(right, values[cut:]))])

    def function(place: int, before: tuple[int, ...]) -> int:
        """The table at values of the variables before this place."""
        if vtree.variable[place] >= 0:
            number = nodes.leaf(int(vtree.variable[place]), True, True, before)
            cell = int("".join(map(str, (*before, 0))), 2)
            cells[number] = (cell, cell + 1)
            return number
        left, right = int(vtree.left[place]), int(vtree.right[place])
        inside, outside = scope(left), scope(right)
        if not outside:
            return nodes.total(place, [(function(left, before), nodes.true(right))], before)
        if not inside:
            return nodes.total(place, [(nodes.true(left), function(right, before))], before)
        values = product((0, 1), repeat=len(inside))
        content = [(term(left, value), function(right, (*before, *value))) for value in values]
        return nodes.total(place, content, before)

    finished = nodes.finish(function(vtree.root, ()))
    return Tabulated(finished.structure, order, np.asarray([cells.get(n, (-1, -1)) for n in finished.leaves]))
