"""JSON networks of discrete, Gaussian and conditional linear Gaussian nodes, as the bnlearn repository's data are kept.

A node is `{"name", "type": "discrete", "states", "parents", "prob"}`, `{"name", "type": "gaussian", "parents",
"intercept", "coef", "sd"}` or `{"name", "type": "clg", "discrete_parents", "levels", "continuous_parents", "intercept",
"coef", "sd"}`, whose arrays run over the configurations of the discrete parents, the first varying fastest.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from fubini import distributions as dist
from fubini.base.domains import Bint, Domain, Real
from fubini.base.file_limits import DEFAULT, Limits
from fubini.base.names import Name
from fubini.errors import FileFormatError, closest, listed
from fubini.factors.delta import Delta
from fubini.factors.promotion import promoted
from fubini.factors.table import Table
from fubini.io.json_text import load_json
from fubini.io.record import RowSums, find_cycle, first_invalid, first_unnormalised
from fubini.models.network import Network
from fubini.terms.factor import Factor
from fubini.terms.value import Array, Value, Variable

KEYS = {
    "discrete": ("states", "parents", "prob"),
    "gaussian": ("parents", "intercept", "coef", "sd"),
    "clg": ("discrete_parents", "levels", "continuous_parents", "intercept", "coef", "sd"),
}


def parse_json(text: str, source: str = "<text>", limits: Limits = DEFAULT) -> Network:
    """The network that a JSON text describes."""
    return _Reader(source, load_json(text, source, limits), limits).network()


class _Reader:
    """The nodes of one file, checked against each other."""

    def __init__(self, source: str, document: Any, limits: Limits) -> None:
        self.source, self.limits, self.cells, self.sums = source, limits, 0, RowSums(source)
        if not isinstance(document, dict) or not isinstance(document.get("nodes"), list):
            raise self.error("the text", "is not a network", expected='{"name": …, "nodes": [ … ]}')
        self.title = str(document.get("name", ""))
        limits.require("variables", len(document["nodes"]), source)
        self.nodes: dict[str, dict] = {}
        for node in document["nodes"]:
            self._add(node)
        self.domains = {name: self._domain(name, node) for name, node in self.nodes.items()}
        cycle = find_cycle({name: self.parents(name) for name in self.nodes})
        if cycle:
            raise self.error("the network", f"has the cycle {' → '.join(cycle)}", expected="no node above itself")

    def error(self, what: str, cause: str, *, expected: str = "", nearest: str = "") -> FileFormatError:
        return FileFormatError(f"{self.source}: {what} {cause}", expected=expected, nearest=nearest)

    def _add(self, node: Any) -> None:
        if not isinstance(node, dict) or not isinstance(node.get("name"), str):
            raise self.error(f"node {len(self.nodes) + 1}", "has no name", expected='{"name": "x", "type": …}')
        name, kind = node["name"], node.get("type")
        if name in self.nodes:
            raise self.error(f"node {name!r}", "occurs twice", expected="one node for each name")
        if not isinstance(kind, str) or kind not in KEYS:
            raise self.error(f"node {name!r}", f"is of type {kind!r}", expected=f"one of {listed(KEYS)}")
        missing = [key for key in KEYS[kind] if key not in node]
        if missing:
            raise self.error(f"node {name!r}", f"lacks {listed(missing)}", expected=f"the keys {listed(KEYS[kind])}")
        for key in ("parents", "discrete_parents", "continuous_parents"):
            parents = node.get(key, [])
            if not _are_names(parents):
                raise self.error(f"node {name!r}", f"has the {key} {parents!r}", expected="a list of different names")
        for key in ("coef", "levels"):
            if not isinstance(node.get(key, {}), dict):
                raise self.error(f"node {name!r}", f"has the {key} {node[key]!r}", expected="one entry for each parent")
        self.nodes[name] = node

    def _domain(self, name: str, node: Mapping) -> Domain:
        if node["type"] != "discrete":
            return Real
        states = self._labels(name, "states", node["states"])
        self.limits.require("states", len(states), f"{self.source}: node {name!r}")
        return Bint.labelled(*states)

    def _labels(self, name: str, key: str, entries: Any, expected: str = "a list of different labels") -> list[str]:
        """Different labels, words or numbers, as words."""
        labels = entries if isinstance(entries, list) else []
        words = [str(label) for label in labels if isinstance(label, str | int | float) and not isinstance(label, bool)]
        if not words or len(set(words)) != len(labels):
            raise self.error(f"node {name!r}", f"has the {key} {entries!r}", expected=expected)
        return words

    def parents(self, name: str) -> list[str]:
        """All parents of a node, each known and of the right kind."""
        node = self.nodes[name]
        discrete, continuous = self._parents_by_kind(node)
        for parent in (*discrete, *continuous):
            if parent not in self.nodes:
                raise self.error(
                    f"node {name!r}",
                    f"has the parent {parent!r}",
                    expected="a node of the network",
                    nearest=closest(parent, self.nodes),
                )
        for parents, kind in ((discrete, "discrete"), (continuous, "continuous")):
            for parent in parents:
                if (self.nodes[parent]["type"] == "discrete") != (kind == "discrete"):
                    raise self.error(f"node {name!r}", f"has the parent {parent!r}", expected=f"a {kind} node there")
        return [*discrete, *continuous]

    def _parents_by_kind(self, node: Mapping) -> tuple[list[str], list[str]]:
        if node["type"] == "clg":
            return node["discrete_parents"], node["continuous_parents"]
        return (node["parents"], []) if node["type"] == "discrete" else ([], node["parents"])

    def network(self) -> Network:
        """All nodes as factors."""
        for name in self.nodes:
            self._count(name)
        makers = {"discrete": self._table, "gaussian": self._regression, "clg": self._regression}
        factors = tuple(promoted(makers[node["type"]](name, node)) for name, node in self.nodes.items())
        self.sums.warn()
        return Network(self.domains, factors, True, self.title, children=tuple(self.nodes))

    def _count(self, name: str) -> None:
        """A table has a cell for each configuration, a regression a square of its real variables for each."""
        discrete, continuous = self._parents_by_kind(self.nodes[name])
        table = self.nodes[name]["type"] == "discrete"
        axes = (*discrete, name) if table else discrete
        self.limits.require("scope", len(axes), f"{self.source}: node {name!r}")
        self.cells += math.prod(self.domains[axis].extent for axis in axes) * (len(continuous) + 1) ** 2
        self.limits.require("cells", self.cells, f"{self.source}: the nodes up to {name!r}")

    def _numbers(self, name: str, key: str, entries: Any, shape: tuple[int, ...]) -> np.ndarray:
        flat: list[float] = []
        cause = _flatten(entries, shape, flat)
        if cause:
            raise self.error(f"node {name!r}", f"has {key} {cause}", expected=f"finite numbers of shape {shape}")
        array = np.array(flat, np.float64).reshape(shape)
        if not np.all(np.isfinite(array)):
            raise self.error(f"node {name!r}", f"has {key} that are infinite or not numbers", expected="finite numbers")
        return array

    def _table(self, name: str, node: Mapping) -> Factor:
        axes = (*node["parents"], name)
        sizes = tuple(self.domains[axis].extent for axis in axes)
        array = self._numbers(name, "prob", node["prob"], (sizes[-1], *sizes[:-1]))
        rows = np.moveaxis(array, 0, -1)
        if first_invalid(rows) is not None or first_unnormalised(rows) is not None:
            raise self.error(
                f"node {name!r}", "has a bad distribution", expected="probabilities that sum to 1 over its states"
            )
        domains: dict[Name, Domain] = {axis: self.domains[axis] for axis in axes}
        return Table(np.ascontiguousarray(self.sums.normalise(rows)), domains)

    def _regression(self, name: str, node: Mapping) -> Factor:
        """N(intercept + Σ coef · parent, sd) for each configuration; a point where sd is 0."""
        discrete, continuous = self._parents_by_kind(node)
        orders = [self._order(name, parent, node) for parent in discrete]
        unknown = [key for key in node["coef"] if key not in continuous]
        if unknown or len(node["coef"]) != len(continuous):
            raise self.error(
                f"node {name!r}",
                f"has coefficients of {listed(node['coef'])}",
                expected=f"one of each of its parents: {listed(continuous)}",
            )

        def over_parents(key: str, given: Any) -> np.ndarray:
            return self._configured(name, key, given, discrete, orders)

        def value(data: np.ndarray) -> Value:
            return Array(data, tuple(discrete))

        slopes = [
            value(over_parents(f"the coefficient of {p}", node["coef"][p])) * Variable(p, Real) for p in continuous
        ]
        mean = reduce(lambda a, b: a + b, slopes, value(over_parents("intercept", node["intercept"])))
        sd = over_parents("sd", node["sd"])
        if np.any(sd < 0):
            raise self.error(f"node {name!r}", "has a negative sd", expected="standard deviations, 0 for a point")
        fixed = sd == 0
        spread = dist.Normal(mean, value(np.where(fixed, 1.0, sd)))(name)
        if not fixed.any():
            return spread
        parents: dict[Name, Domain] = {parent: self.domains[parent] for parent in discrete}
        point = Delta({name: mean}, Table(fixed.astype(float), parents))
        return point if fixed.all() else Table((~fixed).astype(float), parents) * spread + point

    def _configured(
        self, name: str, key: str, given: Any, parents: Sequence[str], orders: Sequence[Sequence[int]]
    ) -> np.ndarray:
        """Numbers over the configurations of the discrete parents, in the order of the parents' own states."""
        sizes = tuple(self.domains[parent].extent for parent in parents)
        if not parents:
            return self._numbers(name, key, given, ())
        array = self._numbers(name, key, given, (math.prod(sizes),)).reshape(sizes, order="F")
        return np.ascontiguousarray(array[np.ix_(*orders)])

    def _order(self, name: str, parent: str, node: Mapping) -> list[int]:
        """List for each state of a parent where this node lists it."""
        labels = self.domains[parent].labels or ()
        levels = self._labels(name, f"levels of {parent!r}", node["levels"].get(parent), listed(labels))
        if sorted(levels) != sorted(labels):
            raise self.error(
                f"node {name!r}", f"has the levels {listed(levels)} of {parent!r}", expected=f"{listed(labels)}"
            )
        positions = {level: position for position, level in enumerate(levels)}
        return [positions[label] for label in labels]


def _are_names(parents: Any) -> bool:
    """A list of different names."""
    words = isinstance(parents, list) and all(isinstance(parent, str) for parent in parents)
    return words and len(set(parents)) == len(parents)


def _flatten(entries: Any, shape: tuple[int, ...], flat: list[float]) -> str:
    """The numbers of nested lists of this shape, added to a list; else what is wrong with them."""
    if not shape:
        if isinstance(entries, bool) or not isinstance(entries, int | float):
            return "that are not numbers" if not isinstance(entries, list) else "of another shape: a list is a number"
        if abs(entries) > sys.float_info.max:
            return "that are infinite or not numbers"
        flat.append(float(entries))
        return ""
    if not isinstance(entries, list) or len(entries) != shape[0]:
        size = f"a list of {len(entries)}" if isinstance(entries, list) else repr(entries)
        return f"of another shape: {size} where {shape[0]} are due"
    return next((cause for entry in entries if (cause := _flatten(entry, shape[1:], flat))), "")
