"""Bundles: factors that are alike as one factor with an index over its members, so that one operation does for all.

Variables of one domain are bundled too. A message of a bundle has an index over members; variables gather the messages
that arrive at each of them, and factors those of their variables, by substitution for the index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data, is_jax, is_traced
from fubini.base.domains import Bint, Domain
from fubini.base.interpretations import interpret
from fubini.base.names import Bound, Name
from fubini.factors.promotion import promoted
from fubini.propagate.factor_graph import FactorGraph
from fubini.terms.factor import Factor, rename, substitute
from fubini.terms.heads import MULTIPLY_OUT, POWER
from fubini.terms.name_axis import name_axis
from fubini.terms.value import Array, Variable, to_value


@lru_cache(maxsize=4096)
def inner_name(kind: str, position: int) -> Bound:
    """A name inside bundles, the same each time, so that what is compiled for one graph serves the next."""
    return Bound(f"{kind}{position}")


class Places:
    """Whole numbers that compare by value: part of what a compiled function is kept for."""

    def __init__(self, array: Any) -> None:
        self.array = np.ascontiguousarray(array, dtype=np.int64)
        self._bytes = self.array.tobytes()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Places) and self.array.shape == other.array.shape and self._bytes == other._bytes

    def __hash__(self) -> int:
        return hash((self.array.shape, self._bytes))


@dataclass(frozen=True)
class Edge:
    """The messages between one variable of each member of a bundle of factors and a bundle of variables."""

    bundle: int
    slot: Name  # the variable, inside the factor
    node: int
    variable: Places | None = None  # of each member of the bundle; None: one factor, one variable
    member: Places | None = None  # [variable, arrival] the member whose message arrives, −1 for none


@dataclass(frozen=True)
class Node:
    """A bundle of variables: the name that their messages have, their domain, and their own names."""

    name: Name
    domain: Domain
    index: Any  # the name over its members; None of one variable by itself
    members: tuple[Name, ...]


@dataclass(frozen=True)
class Bundles:
    """The structure of a factor graph in bundles: hashable, without numbers."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    indices: tuple[Any, ...]  # the name over the members of each bundle of factors; None of one factor by itself
    batch: frozenset[Name]

    @cached_property
    def edges_of_bundle(self) -> list[list[int]]:
        """The edges of each bundle of factors."""
        return _positions([edge.bundle for edge in self.edges], len(self.indices))

    @cached_property
    def edges_of_node(self) -> list[list[int]]:
        """The edges of each bundle of variables."""
        return _positions([edge.node for edge in self.edges], len(self.nodes))

    def spread(self, belief: Factor, edge: Edge) -> Factor:
        """What a bundle of variables says, for each member of a bundle of factors."""
        node = self.nodes[edge.node]
        if edge.variable is None:
            return belief
        index = self.indices[edge.bundle]
        domain = Bint[len(node.members)]
        at = Array._of(edge.variable.array, (index,), {index: Bint[len(edge.variable.array)]}, domain)
        return substitute(belief, {node.index: at, node.name: Variable(edge.slot, node.domain)})

    def collect(self, message: Factor, edge: Edge) -> Factor:
        """The product of the messages of an edge that arrive at each variable."""
        node = self.nodes[edge.node]
        if edge.member is None:
            return message
        arrival = inner_name("arrival", 0)
        places = edge.member.array
        inputs = {node.index: Bint[places.shape[0]], arrival: Bint[places.shape[1]]}
        count = message.inputs[self.indices[edge.bundle]]
        at = Array._of(np.maximum(places, 0), (node.index, arrival), inputs, count)
        gathered = substitute(message, {self.indices[edge.bundle]: at, edge.slot: Variable(node.name, node.domain)})
        if places.min() < 0:
            there = Array._of((places >= 0) * 1.0, (node.index, arrival), inputs, to_value(1.0).output)
            gathered = interpret(POWER, promoted(gathered), there)
        return interpret(MULTIPLY_OUT, gathered, (arrival,))


def _positions(keys: Sequence[int], count: int) -> list[list[int]]:
    lists: list[list[int]] = [[] for _ in range(count)]
    for position, key in enumerate(keys):
        lists[key].append(position)
    return lists


# -- one by one, or bundled -----------------------------------------------------------------------------------------


def one_by_one(graph: FactorGraph) -> tuple[Bundles, tuple[Factor, ...]]:
    """Each factor and each variable by itself."""
    number = {name: place for place, name in enumerate(graph.variables)}
    nodes = tuple(Node(name, graph.domains[name], None, (name,)) for name in graph.variables)
    edges = tuple(Edge(k, name, number[name]) for k, scope in enumerate(graph.scopes) for name in scope)
    return Bundles(nodes, edges, (None,) * len(graph.factors), graph.batch), graph.factors


def bundled(graph: FactorGraph) -> tuple[Bundles, tuple[Factor, ...]]:
    """Factors of one layout together, and variables of one domain."""
    nodes, where = _bundle_variables(graph)
    groups: dict[Any, list[int]] = {}
    renamed = [_in_slots(graph, position) for position in range(len(graph.factors))]
    for position, factor in enumerate(renamed):
        classes = tuple(where[name][0] for name in graph.scopes[position])
        groups.setdefault((_layout(factor), classes), []).append(position)
    indices, edges, factors = [], [], []
    for number, ((_, classes), members) in enumerate(groups.items()):
        index = inner_name("member", number)
        indices.append(index)
        factors.append(name_axis(_stacked([renamed[member] for member in members]), index))
        for slot, node in enumerate(classes):
            variable = np.array([where[graph.scopes[member][slot]][1] for member in members])
            arrivals = _arrivals(variable, len(nodes[node].members))
            edges.append(Edge(number, inner_name("slot", slot), node, Places(variable), Places(arrivals)))
    return Bundles(nodes, tuple(edges), tuple(indices), graph.batch), tuple(factors)


def _bundle_variables(graph: FactorGraph) -> tuple[tuple[Node, ...], dict[Name, tuple[int, int]]]:
    classes: dict[Domain, list[Name]] = {}
    for name in graph.variables:
        classes.setdefault(graph.domains[name], []).append(name)
    where = {name: (k, place) for k, names in enumerate(classes.values()) for place, name in enumerate(names)}
    nodes = tuple(
        Node(inner_name("variable", k), domain, inner_name("node", k), tuple(names))
        for k, (domain, names) in enumerate(classes.items())
    )
    return nodes, where


def _in_slots(graph: FactorGraph, position: int) -> Factor:
    """A factor whose variables are called by their position."""
    names = {name: inner_name("slot", slot) for slot, name in enumerate(graph.scopes[position])}
    return rename(graph.factors[position], names)


def _layout(factor: Factor) -> tuple:
    leaves, structure = jax.tree_util.tree_flatten(factor)
    return structure, tuple((np.shape(leaf), getattr(leaf, "dtype", None)) for leaf in leaves), is_traced(*leaves)


def _stacked(factors: Sequence[Factor]) -> Factor:
    return jax.tree.map(_stack_arrays, *factors)


def _stack_arrays(*arrays: Data) -> Data:
    if is_traced(*arrays):
        return jnp.stack(arrays)
    if all(type(array) is float and array == arrays[0] for array in arrays):
        return arrays[0]  # a number that all members share
    stacked = np.stack([np.asarray(array) for array in arrays])
    return jnp.asarray(stacked) if any(map(is_jax, arrays)) else stacked


def _arrivals(variable: np.ndarray, count: int) -> np.ndarray:
    """[variable, arrival] the members whose variable it is, in order, filled up with −1."""
    degrees = np.bincount(variable, minlength=count)
    places = np.full((count, max(1, degrees.max(initial=1))), -1)
    order = np.argsort(variable, kind="stable")
    starts = np.concatenate([[0], np.cumsum(degrees)[:-1]])
    places[variable[order], np.arange(len(variable)) - starts[variable[order]]] = order
    return places
