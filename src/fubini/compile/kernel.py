"""Loops written from a derivation: a sweep over the entries of each label, and the statistics from nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from fubini.compile.derive import Label
from fubini.compile.emit import Env, Writer
from fubini.compile.fibre import Fibre, fibre_of, rows_in
from fubini.compile.names import Names
from fubini.index.build import ZERO, add, const, index, less, replaced, scale
from fubini.index.node import Index, Leaf, Node
from fubini.index.ranges import bounds

FACTORS = 16  # logarithms that become factors of a weight, at most


class Weights(NamedTuple):
    """A score as Π factors · exp(exponent + Σ loops)"""

    factors: tuple[tuple[Node, float], ...]
    exponent: Node
    loops: tuple[Fibre, ...]


def weights_of(score: Node, at: tuple[Index, ...]) -> Weights:
    """Logarithms as factors, sums over what an item touches as loops, the rest as an exponent."""
    factors: list[tuple[Node, float]] = []
    exponent: list[tuple[Node, float]] = []
    loops: list[Fibre] = []
    for part, coefficient in score.args if score.kind == "add" else ((score, 1.0),):
        fibre = fibre_of(part, at[0]) if part.kind == "sum" and len(at) == 1 else None
        if part.kind == "call" and part.args[0] == "log" and len(factors) < FACTORS and not part.height:
            factors.append((part.args[1], coefficient))
        elif fibre is not None:
            loops.append(fibre._replace(body=scale(coefficient, fibre.body)))
        else:
            exponent.append((part, coefficient))
    return Weights(tuple(factors), add(exponent), tuple(loops))


class Loop:
    """The text of what is done for one label."""

    def __init__(self, label: Label, weights: Weights, names: Names, writer: Writer) -> None:
        self.label, self.weights, self.names, self.writer = label, weights, names, writer
        self.size = names.size_of(label.k)
        self.env: Env = {label.k: "k", **names.env(label.at)}

    def place(self) -> None:
        """The place of an entry, from its number."""
        if len(self.label.at) > 1:
            rest = "u"
            for axis in reversed(range(len(self.label.at))):
                self.writer.line(f"u{axis} = {rest} % {self.label.at[axis].size}")
                rest = f"({rest} // {self.label.at[axis].size})"

    @property
    def count(self) -> int:
        """How many entries the label has."""
        return math.prod(i.size for i in self.label.at)

    @property
    def entry(self) -> str:
        """The label itself."""
        places = ", ".join(self.env[i] for i in self.label.at) or "()"
        return f"{self.names.arrays[self.label.leaf].name}[{places}]"

    # -- statistics --------------------------------------------------------------------------------------------------

    def remove(self) -> None:
        """Take the label out of the statistics, then out of what is derived from these."""
        for leaf in self.label.changes:
            self.change(leaf, "-=")

    def restore(self) -> None:
        """Put the label in, what is derived first."""
        for leaf in reversed(self.label.changes):
            self.change(leaf, "+=")

    def change(self, leaf: Leaf, sign: str) -> None:
        """One array, by what the label adds to it."""
        axes, change = self.label.changes[leaf]
        if leaf in self.names.arrays:
            for guards, value in change.items():
                self._part(leaf, axes, sorted(guards, key=lambda test: test.serial), value, sign)

    def _part(self, leaf: Leaf, axes: tuple[Index, ...], guards: Sequence[Node], value: Node, sign: str) -> None:
        targets, tests = solved(axes, guards)
        value = replaced(value, targets)
        tests = [replaced(test, targets) for test in tests]
        env, depth = dict(self.env), self.writer.depth
        for axis in axes:
            if index(axis) not in targets:
                self._open(axis, value, env)
        conditions = [self.writer.test(test, env) for test in tests]
        if conditions:
            self.writer.line(f"if {' and '.join(conditions)}:")
            self.writer.depth += 1
        array = self.names.arrays[leaf]
        at = [targets.get(index(axis), index(axis)) for axis in axes]
        places = ", ".join(self.writer.place(at[axis], env) for axis in array.order) or "()"
        self.writer.line(f"{array.name}[{places}] {sign} {self.writer.bare(value, env)}")
        self.writer.depth = depth

    def _open(self, axis: Index, value: Node, env: dict) -> None:
        """A loop along an axis, or along a fibre of the label where all else is 0."""
        rows = [part for part in set(self._rows(value)) if axis in part.free]
        if len(rows) == 1 and value in (rows[0], *(_factors(value) if rows[0] in _factors(value) else ())):
            self.fibre(rows[0], axis, env)
        else:
            env[axis] = self.writer.fresh("c")
            self.writer.line(f"for {env[axis]} in range({axis.size}):")
            self.writer.depth += 1

    def _rows(self, value: Node) -> list[Node]:
        return rows_in(value, self.label.at[0]) if len(self.label.at) == 1 else []

    def fibre(self, rows: Node, place: Index, env: dict) -> None:
        """A loop over what the label touches."""
        sparse = self.names.sparse(rows, self.label.at[0])
        p = self.writer.fresh("p")
        env[place], env[rows] = f"{sparse.place}[{p}]", f"{sparse.value}[{p}]"
        self.writer.line(f"for {p} in range({sparse.first}[u], {sparse.first}[u + 1]):")
        self.writer.depth += 1

    # -- candidates --------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """What is kept of class k."""
        for kept in self.names.kept(self.label):
            array = self.names.arrays[kept.leaf]
            env = {**self.env, kept.axes[0]: "k"}
            self.writer.line(f"{array.name}[k] = {self.writer.bare(kept.value, env)}")

    def weigh(self) -> None:
        """The running sum w[k] of the weights of candidates."""
        factors, exponent, loops = self.weights
        raised = exponent is not ZERO or bool(loops)
        if raised:
            self._exponents(exponent, loops)
        self.writer.line("total = 0.0")
        with self.writer.block(f"for k in range({self.size}):"):
            text = self.writer.product(factors, self.env)
            if raised:
                text = f"{text} * math.exp(e[k] - top)" if factors else "math.exp(e[k] - top)"
            self.writer.line(f"total += {text}")
            self.writer.line("w[k] = total")

    def _exponents(self, exponent: Node, loops: tuple[Fibre, ...]) -> None:
        if loops:
            self.writer.line("e[:] = 0.0")
        for loop in loops:
            depth, env = self.writer.depth, dict(self.env)
            self.fibre(loop.rows, loop.place, env)
            with self.writer.block(f"for k in range({self.size}):"):
                self.writer.line(f"e[k] += {self.writer.bare(loop.body, env)}")
            self.writer.depth = depth
        self.writer.line("top = -math.inf")
        with self.writer.block(f"for k in range({self.size}):"):
            if exponent is not ZERO:
                self.writer.line(f"e[k] {'+=' if loops else '='} {self.writer.bare(exponent, self.env)}")
            self.writer.line("top = max(top, e[k])")

    def draw(self) -> None:
        """The first candidate whose running sum exceeds a uniform share of all."""
        with self.writer.block("if not 0.0 < total < math.inf:"):
            self.writer.line("return t + 1")
        self.writer.line("level, k = uniforms[t] * total, 0")
        with self.writer.block(f"while k < {self.size} - 1 and w[k] <= level:"):
            self.writer.line("k += 1")
        self.writer.line(f"{self.entry} = k")


def solved(axes: tuple[Index, ...], guards: Sequence[Node]) -> tuple[dict[Node, Node], list[Node]]:
    """Tests [axis = e] solved for axes, and the tests that are left; places beyond an axis are tested for."""
    targets: dict[Node, Node] = {}
    left: list[Node] = []
    for test in guards:
        pairs = (test.args, test.args[::-1]) if test.kind == "eq" else ()
        found = next(((a, b) for a, b in pairs if _is_open(a, axes, targets) and not b.free & set(axes)), None)
        if found is None:
            left.append(test)
            continue
        axis, entry = found
        targets[axis] = entry
        low, high = bounds(entry)
        left.extend([less(const(-1.0), entry)] if low < 0 else [])
        left.extend([less(entry, const(axis.args[0].size))] if high > axis.args[0].size - 1 else [])
    return targets, left


def _is_open(of: Node, axes: tuple[Index, ...], targets: dict[Node, Node]) -> bool:
    return of.kind == "index" and of.args[0] in axes and of not in targets


def _factors(of: Node) -> list[Node]:
    if of.kind == "add" and len(of.args) == 1:
        of = of.args[0][0]
    return [base for base, exponent in of.args if exponent > 0] if of.kind == "mul" else [of]
