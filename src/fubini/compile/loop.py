"""Loops written from a derivation: a sweep over the entries of each label, and the statistics from nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from fubini.algebra.binding import escapes, replaced
from fubini.algebra.build import ZERO, add, const, factors_in, index, is_test, less, multiply, scale
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.ranges import bounds, is_whole
from fubini.algebra.walk import walk
from fubini.compile.array_names import Names
from fubini.compile.derive import Label
from fubini.compile.emit import Env, LoopWriter, bare
from fubini.compile.fibre import Fibre, fibre_of, is_data, rows_in
from fubini.compile.statistics import Statistic

FACTORS = 16  # logarithms that become factors of a weight, at most
BLOCKS = 128  # candidates from which on a draw passes over blocks of them
POWER = 4  # of a factor, at most: higher ones leave the range of floating-point numbers


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
        if _is_log(part) and len(factors) < FACTORS and abs(coefficient) <= POWER and not part.height:
            factors.append((part.args[1], coefficient))
        elif fibre is not None:
            loops.append(fibre._replace(body=scale(coefficient, fibre.body)))
        else:
            exponent.append((part, coefficient))
    return Weights(tuple(factors), add(exponent), tuple(loops))


def _is_log(of: Node) -> bool:
    """The logarithm of what is not negative; that of another number stays a logarithm, and may not be a number."""
    return of.kind == "call" and of.args[0] == "log" and bounds(of.args[1])[0] >= 0


class TestedSum(NamedTuple):
    """The body of a statistic as a value where tests hold."""

    tests: tuple[Node, ...]
    value: Node

    @classmethod
    def of(cls, one: Statistic) -> TestedSum:
        """Take the tests out of a body, in one order."""
        factors = factors_in(one.body)
        tests = [base for base, power in factors if power > 0 and is_test(base)]
        value = multiply(factor for factor in factors if factor[0] not in tests)
        return cls(tuple(sorted(tests, key=lambda test: test.serial)), value)


class LabelLoop:
    """The text of what is done for one label."""

    def __init__(self, label: Label, weights: Weights, names: Names, writer: LoopWriter) -> None:
        self.label, self.weights, self.names, self.writer = label, weights, names, writer
        self.size = names.sizes.text(label.k.size)
        self.env: Env = {label.k: "k", **names.env(label.at)}

    def place(self) -> None:
        """Write the place of an entry, from its number."""
        if len(self.label.at) > 1:
            rest = "u"
            for axis in reversed(range(len(self.label.at))):
                size = self.names.sizes.text(self.label.at[axis].size)
                self.writer.line(f"u{axis} = {rest} % {size}")
                rest = f"({rest} // {size})"

    @property
    def count(self) -> str:
        """How many entries the label has."""
        return self.names.sizes.text(math.prod(i.size for i in self.label.at))

    @property
    def entry(self) -> str:
        """The label itself."""
        places = ", ".join(self.env[i] for i in self.label.at) or "()"
        return f"{self.names[self.label.leaf].name}[{places}]"

    # -- statistics --------------------------------------------------------------------------------------------------

    def sum_neighbours(self) -> None:
        """Write the sums over the labels that are coupled with the entry."""
        for one in self.label.neighbours:
            self.writer.line(f"{self.names[one.leaf].name}[...] = 0.0")
            self._accumulate(one)

    def _accumulate(self, one: Statistic) -> None:
        """Write a loop over the items of the entry, which go straight to their places where tests say so."""
        parts = TestedSum.of(one)
        targets, tests = solved(one.axes, parts.tests)
        value = replaced(parts.value, targets)
        env, depth = dict(self.env), self.writer.depth
        for i in one.over:
            own = [test for test in tests if self._is_own(test, i)]
            if own:
                tests = [test for test in tests if test is not own[0]]
                self._open_own(i, own[0], env)
            else:
                env[i] = self.writer.fresh("j")
                self.writer.line(f"for {env[i]} in range({self.names.sizes.text(i.size)}):")
                self.writer.depth += 1
        for axis in one.axes:
            if index(axis) not in targets:
                self._open(axis, value, env)
        at = [*map(index, self.label.at), *(targets.get(index(axis), index(axis)) for axis in one.axes)]
        self._add(one.leaf, at, (tests, value), env, "+=")
        self.writer.depth = depth

    def _is_own(self, test: Node, i: Index) -> bool:
        """Whether a test says which items are of the entry, as data decide."""
        u = index(self.label.at[0])
        return len(self.label.at) == 1 and any(
            one is u and other.free == {i} and is_data(other) and is_whole(other)
            for one, other in ((test.args, test.args[::-1]) if test.kind == "eq" else ())
        )

    def _open_own(self, i: Index, test: Node, env: dict) -> None:
        """Open a loop over the items of the entry."""
        u = self.label.at[0]
        (row,) = (part for part in test.args if part is not index(u))
        members = self.names.members(((row, u.size),), (i,))
        p, env[i] = self.writer.fresh("p"), self.writer.fresh("j")
        self.writer.line(f"for {p} in range({members.first}[u], {members.first}[u + 1]):")
        self.writer.depth += 1
        self.writer.line(f"{env[i]} = {members.item}[{p}]")

    def remove(self) -> None:
        """Take the label out of the statistics, then out of what is derived from these."""
        for leaf in self.label.changes:
            self.change(leaf, "-=")

    def restore(self) -> None:
        """Put the label in, what is derived first."""
        for leaf in reversed(self.label.changes):
            self.change(leaf, "+=")

    def change(self, leaf: Leaf, sign: str) -> None:
        """Change one array by what the label adds to it."""
        axes, change = self.label.changes[leaf]
        if leaf in self.names:
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
        at = [targets.get(index(axis), index(axis)) for axis in axes]
        self._add(leaf, at, (tests, value), env, sign)
        self.writer.depth = depth

    def _add(self, leaf: Leaf, at: Sequence[Node], guarded: tuple[Sequence[Node], Node], env: Env, sign: str) -> None:
        """Write what is added to an array at one place, where tests hold."""
        tests, value = guarded
        conditions = [self.writer.test(test, env) for test in tests]
        if conditions:
            self.writer.line(f"if {' and '.join(conditions)}:")
            self.writer.depth += 1
        array = self.names[leaf]
        places = ", ".join(self.writer.place(at[axis], env) for axis in array.order) or "()"
        self.writer.line(f"{array.name}[{places}] {sign} {self.writer.bare(value, env)}")

    def _open(self, axis: Index, value: Node, env: dict) -> None:
        """Open a loop along an axis, or along a fibre of the label where all else is 0."""
        rows = [part for part in set(self._rows(value)) if axis in part.free]
        if len(rows) == 1 and rows[0] in _above(value):
            self.fibre(rows[0], axis, env)
        else:
            env[axis] = self.writer.fresh("c")
            self.writer.line(f"for {env[axis]} in range({self.names.sizes.text(axis.size)}):")
            self.writer.depth += 1

    def _rows(self, value: Node) -> list[Node]:
        return rows_in(value, self.label.at[0]) if len(self.label.at) == 1 else []

    def fibre(self, rows: Node, place: Index, env: dict) -> None:
        """Open a loop over what the label touches."""
        sparse = self.names.sparse(rows, self.label.at[0])
        p = self.writer.fresh("p")
        env[place], env[rows] = f"{sparse.place}[{p}]", f"{sparse.value}[{p}]"
        self.writer.line(f"for {p} in range({sparse.first}[u], {sparse.first}[u + 1]):")
        self.writer.depth += 1

    # -- candidates --------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Write anew what is kept of class k."""
        for kept in self.names.kept(self.label):
            array = self.names[kept.leaf]
            env = {**self.env, kept.axes[0]: "k"}
            self.writer.line(f"{array.name}[k] = {self.writer.bare(kept.value, env)}")

    def weigh(self) -> None:
        """Write the weights w[k] of candidates, and their sum."""
        factors, exponent, loops = self.weights
        env = self.weighing()
        if exponent is ZERO and not loops:
            self._weights(lambda: self.writer.product(factors, env))
        elif bounds(exponent)[1] <= 0 and not loops:
            self._weights(lambda: self._raised(factors, f"exp_below({self.writer.bare(exponent, env)})", env))
            with self.writer.block("if total < 1e-280:"):
                self._exponents(exponent, loops, env)
                self._weights(lambda: self._raised(factors, "exp_below(e[k] - top)", env))
        else:
            self._exponents(exponent, loops, env)
            if loops:  # the work is elsewhere: what is plain compiles faster
                self._plain_weights(lambda: self._raised(factors, "math.exp(e[k] - top)", env))
            else:
                self._weights(lambda: self._raised(factors, "exp_below(e[k] - top)", env))

    def _plain_weights(self, text: Callable[[], str]) -> None:
        self.writer.line("total = 0.0")
        with self.writer.block(f"for k in range({self.size}):"):
            self.writer.line(f"w[k] = {bare(text())}")
            self.writer.line("total += w[k]")

    def raised_weights(self) -> None:
        """Write the weights of exponents alone."""
        self._weights(lambda: "exp_below(e[k] - top)")

    def weighing(self) -> Env:
        """Write what does not depend on the candidate as variables of its own."""
        if not self.names.hoists:
            return self.env
        variables: dict[Node, str] = {}
        for part in (*(base for base, _ in self.weights.factors), self.weights.exponent):
            for node in fixed_parts(part, self.label.k):
                if node not in variables:
                    text = self.writer.bare(node, self.env)
                    variables[node] = self.writer.fresh("a")
                    self.writer.line(f"{variables[node]} = {text}")
        return {**self.env, **variables}

    def _raised(self, factors: Sequence[tuple[Node, float]], exponential: str, env: Env) -> str:
        return f"{self.writer.product(factors, env)} * {exponential}" if factors else exponential

    def _weights(self, text: Callable[[], str]) -> None:
        with self.writer.block(f"for k in range({self.size}):"):
            self.writer.line(f"w[k] = {bare(text())}")
        self.writer.line(f"total = summed(w, {self.size})")

    def _exponents(self, exponent: Node, loops: tuple[Fibre, ...], env: Env) -> None:
        if loops:
            with self.writer.block(f"for k in range({self.size}):"):
                self.writer.line("e[k] = 0.0")
        for loop in loops:
            depth, inner = self.writer.depth, dict(self.env)
            self.fibre(loop.rows, loop.place, inner)
            with self.writer.block(f"for k in range({self.size}):"):
                self.writer.line(f"e[k] += {self.writer.bare(loop.body, inner)}")
            self.writer.depth = depth
        self.writer.line("top = -math.inf")
        with self.writer.block(f"for k in range({self.size}):"):
            if exponent is not ZERO:
                env = self._once(exponent, env)
                self.writer.line(f"e[k] {'+=' if loops else '='} {self.writer.bare(exponent, env)}")
            self.writer.line("top = e[k] if e[k] > top else top")

    def _once(self, of: Node, env: Env) -> Env:
        """Write each sum of a node as a variable, once where it occurs several times."""
        sums = [this for this in walk(of, descend=lambda this: this.kind != "sum") if this.kind == "sum"]
        repeated = [this for this in dict.fromkeys(sums) if not escapes(this)]
        return {**env, **{this: self.writer.value(this, env) for this in repeated}}

    def propose(self) -> None:
        """Propose one candidate instead of all, accepted by the ratio of its weight to that of the label as it is."""
        writer = self.writer
        writer.line("old = k")
        writer.line(f"new, bias = propose(u, old, {self.size}, uniforms[2 * t])")
        with writer.block(f"if new < 0 or new >= {self.size}:"):
            writer.line("return -t - 1")
        env = self.weighing()
        factors, exponent, loops = self.weights
        with writer.block("for c in range(2):"):
            writer.line("k = new if c == 1 else old")
            writer.line("score = 0.0")
            for loop in loops:
                depth, inner = writer.depth, dict(self.env)
                self.fibre(loop.rows, loop.place, inner)
                writer.line(f"score += {writer.bare(loop.body, inner)}")
                writer.depth = depth
            logs = [f"{power!r} * log({writer.bare(base, env)})" for base, power in factors]
            writer.line(f"e[c] = {' + '.join(['score', writer.value(exponent, env), *logs])}")
        with writer.block("if not e[0] > -math.inf and not e[1] > -math.inf:"):
            writer.line("return t + 1")
        writer.line("k = new if math.log(uniforms[2 * t + 1]) < e[1] - e[0] + bias else old")
        writer.line(f"{self.entry} = k")

    def draw(self) -> None:
        """Draw the first candidate at which the sum of weights exceeds a uniform share of all."""
        with self.writer.block("if not 0.0 < total < math.inf:"):
            self.writer.line("return t + 1")
        if self.label.k.size >= BLOCKS:
            self.writer.line(f"k = first_above(w, uniforms[t] * total, {self.size})")
        else:
            self.writer.line("level, k = uniforms[t] * total - w[0], 0")
            with self.writer.block(f"while level >= 0.0 and k < {self.size} - 1:"):
                self.writer.line("k += 1")
                self.writer.line("level -= w[k]")
        self.writer.line(f"{self.entry} = k")


def fixed_parts(of: Node, k: Index) -> list[Node]:
    """The largest parts of a node that read arrays and do not depend on the candidate, outside of sums."""

    def is_fixed(this: Node) -> bool:
        return k not in this.free and not escapes(this)

    with_leaves = walk(of, enter=lambda this: bool(this.leaves), descend=lambda this: not is_fixed(this))
    return list(filter(is_fixed, with_leaves))


def solved(axes: tuple[Index, ...], guards: Sequence[Node]) -> tuple[dict[Node, Node], list[Node]]:
    """Tests [axis = e] solved for axes, one in another, and the others; places beyond an axis are tested for."""
    targets: dict[Node, Node] = {}
    remaining = list(guards)
    while solution := next(filter(None, (_solution(test, axes, targets) for test in remaining)), None):
        test, axis, entry = solution
        targets[axis] = entry
        remaining = [replaced(other, {axis: entry}) for other in remaining if other is not test]
        low, high = bounds(entry)
        remaining.extend([less(const(-1.0), entry)] if low < 0 else [])
        remaining.extend([less(entry, const(axis.args[0].size))] if high > axis.args[0].size - 1 else [])
    return targets, remaining


def _solution(test: Node, axes: tuple[Index, ...], targets: dict[Node, Node]) -> tuple[Node, Node, Node] | None:
    """A test, the axis that it is solved for, and the entry along it."""
    for axis, entry in (test.args, test.args[::-1]) if test.kind == "eq" else ():
        if _is_open(axis, axes, targets) and not entry.free & set(axes) and is_whole(entry):
            return test, axis, entry
    return None


def _is_open(of: Node, axes: tuple[Index, ...], targets: dict[Node, Node]) -> bool:
    return of.kind == "index" and of.args[0] in axes and of not in targets


def _above(of: Node) -> list[Node]:
    """The factors of a product that it is not divided by."""
    if of.kind == "add" and len(of.args) == 1:
        of = of.args[0][0]
    return [base for base, exponent in of.args if exponent > 0] if of.kind == "mul" else [of]
