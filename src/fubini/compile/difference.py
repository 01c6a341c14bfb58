"""What one label changes: Δ f(S) = f(S + d) − f(S), as a function of the label's new value alone.

Rules D4 to D6 of docs/array_latents.md. A change is a sum of values under tests; a function of things that
change only under one test changes only under it, so that a sum over classes collapses to the class of the label: the
ratio to a common baseline. Quotients change in predictive form,

    Δ (B C / A)  =  b c / a − A / (a (A + a)) · (b − a B/A) (c − a C/A),

whose first part the sums of squares cancel: off-centre numbers lose nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from fubini.algebra.binding import opened, remade, replaced
from fubini.algebra.build import (
    ONE,
    ZERO,
    add,
    call,
    const,
    equal,
    factors_in,
    get,
    index,
    is_test,
    minus,
    multiply,
    negate,
    plus,
    power,
    scale,
    times,
    where,
)
from fubini.algebra.node import Index, Leaf, Node, node
from fubini.algebra.ranges import exceeds_zero, is_whole
from fubini.algebra.sums import total
from fubini.algebra.walk import rewrite, walk
from fubini.compile.statistics import canonical, inner_sums

Guards = frozenset[Node]
Change = dict[Guards, Node]  # a sum of values, each where its tests hold
UNITS = 3  # groups of tests that distinguish cases, at most
FEW = 4  # factors that a ratio of gamma functions is written out in


class Derived(NamedTuple):
    """A function of statistics that is kept as one: what would cancel, or be summed again, is updated instead."""

    leaf: Leaf
    axes: tuple[Index, ...]
    value: Node


class Difference:
    """Changes of nodes, given those of the arrays that they read."""

    def __init__(self, changes: Mapping[Leaf, tuple[tuple[Index, ...], Node]], derived: Mapping[Node, Derived]) -> None:
        self.changes = {leaf: change for leaf, change in changes.items() if change[1] is not ZERO}
        for one in derived.values():  # in order: later ones read earlier ones
            change = whole(self.of(one.value))
            if change is not ZERO:
                self.changes[one.leaf] = (one.axes, change)

    def of(self, this: Node) -> Change:
        """The change of a node."""
        if not self.varies(this):
            return {}
        match this.kind:
            case "get" if this.args[0] in self.changes:
                return self._of_entry(this)
            case "add":
                return joined([(self.of(part), coefficient) for part, coefficient in this.args])
            case "sum":
                over, body = opened(this)
                return joined([(guarded(_summed(over, g, v)), 1.0) for g, v in self.of(body).items()])
            case "mul":
                return self._of_product(this)
        return self._of_function(this)

    def varies(self, this: Node) -> bool:
        """Whether a node reads an array that changes."""
        return any(leaf in self.changes for leaf in this.leaves)

    def _of_entry(self, this: Node) -> Change:
        leaf, *at = this.args
        axes, change = self.changes[leaf]
        return guarded(replaced(change, dict(zip(map(index, axes), at, strict=True))))

    def _of_product(self, this: Node) -> Change:
        fixed = multiply((base, exponent) for base, exponent in this.args if not self.varies(base))
        moving = [(base, exponent) for base, exponent in this.args if self.varies(base)]
        if len(moving) == 1 and moving[0][1] == 1:
            return _scaled(self.of(moving[0][0]), fixed)
        quotient = _quotient(moving)

        def changed(steps: Mapping[Node, Node]) -> Node:
            if quotient is not None:
                return predictive(*((part, steps[part]) for part in quotient))
            moved = multiply((plus(base, steps[base]), exponent) for base, exponent in moving)
            return minus(moved, multiply(moving))

        cases = self._steps([base for base, _ in moving])
        return joined([(_scaled({guards: changed(steps)}, fixed), 1.0) for guards, steps in cases.items()])

    def _of_function(self, this: Node) -> Change:
        moving = [part for part in this.children if self.varies(part)]

        def changed(steps: Mapping[Node, Node]) -> Node:
            if this.kind == "call" and this.args[0] == "lgamma":
                return rising(moving[0], steps[moving[0]])
            moved = remade(this, lambda part: plus(part, steps[part]) if part in steps else part)
            return minus(moved, this)

        return {guards: changed(steps) for guards, steps in self._steps(moving).items()}

    def _steps(self, moving: Sequence[Node]) -> dict[Guards, dict[Node, Node]]:
        """The change of each part in each of the cases that change any: where all tests in common hold, or by tests."""
        changes = {part: self.of(part) for part in moving}
        every = [guards for change in changes.values() for guards in change]
        common = frozenset.intersection(*every) if every else frozenset()
        cases = exclusive([guards - common for guards in every])
        if cases is None:
            parts = {part: {guards - common: v for guards, v in change.items()} for part, change in changes.items()}
            return {common: {part: whole(change) for part, change in parts.items()}}
        return {
            common | case: {
                part: add((value, 1.0) for guards, value in change.items() if guards - common in held)
                for part, change in changes.items()
            }
            for case, held in cases.items()
        }


def _summed(over: Sequence[Index], guards: Guards, value: Node) -> Node:
    """Σ over what tests leave of a change, kept in one: where nothing is added, it is 0 as it stands."""
    if value.kind != "add":
        return total(over, times(*guards, value))
    change = total(over, times(*guards, node("call", "same", value)))
    return change if any("same" in calls(part) for part in inner_sums(change)) else bared(change)


def bared(of: Node) -> Node:
    """Remove the marks that keep changes in one."""

    def bare(this: Node, visit: Callable[[Node], Node]) -> Node:
        if "same" not in calls(this):
            return this
        return visit(this.args[1]) if this.kind == "call" and this.args[0] == "same" else remade(this, visit)

    return rewrite(of, bare)


def calls(of: Node) -> frozenset[str]:
    """The names of the functions in a node."""
    return frozenset(this.args[0] for this in walk(of) if this.kind == "call")


# -- changes --------------------------------------------------------------------------------------------------------


def whole(change: Change) -> Node:
    """A change as one node."""
    return add((times(*guards, value), 1.0) for guards, value in change.items())


def guarded(of: Node) -> Change:
    """A node as a sum of values under tests."""
    if of is ZERO:
        return {}
    parts = of.args if of.kind == "add" else ((of, 1.0),)
    return joined([({_tests(part): _rest(part)}, coefficient) for part, coefficient in parts])


def _tests(of: Node) -> Guards:
    return frozenset(base for base, exponent in factors_in(of) if exponent > 0 and is_test(base) and base is not ONE)


def _rest(of: Node) -> Node:
    tests = _tests(of)
    return multiply((base, exponent) for base, exponent in factors_in(of) if base not in tests)


def joined(changes: Sequence[tuple[Change, float]]) -> Change:
    """Σ coefficient · change"""
    by_guards: dict[Guards, list[tuple[Node, float]]] = {}
    for change, coefficient in changes:
        for guards, value in change.items():
            by_guards.setdefault(guards, []).append((value, coefficient))
    summed = {guards: add(parts) for guards, parts in by_guards.items()}
    return {guards: value for guards, value in summed.items() if value is not ZERO}


def exclusive(every: Sequence[Guards]) -> dict[Guards, list[Guards]] | None:
    """Cases of which no two hold at once, with the guards that hold in each: [a], [b] hold in a ∧ b, a ∧ ¬b, ¬a ∧ b.

    Tests that always occur together are one. None where something changes whatever the tests say, or cases are many.
    """
    distinct = list(dict.fromkeys(every))
    if len(distinct) < 2 or frozenset[Node]() in distinct:
        return None
    units = _units(distinct)
    if len(units) > UNITS:
        return None
    cases: dict[Guards, list[Guards]] = {}
    for signs in product((True, False), repeat=len(units)):
        true = [unit for unit, holds in zip(units, signs, strict=True) if holds]
        false = [_negated(unit) for unit, holds in zip(units, signs, strict=True) if not holds]
        case = frozenset[Node]().union(*true, false)
        held = [guards for guards in distinct if guards <= case]
        if held:
            cases[case] = held
    return cases


def _units(distinct: Sequence[Guards]) -> list[Guards]:
    """Tests by the guards that they occur in, without those that negate others."""
    by_guards: dict[tuple[bool, ...], list[Node]] = {}
    for test in sorted(frozenset[Node]().union(*distinct), key=lambda test: test.serial):
        by_guards.setdefault(tuple(test in guards for guards in distinct), []).append(test)
    units = [frozenset(tests) for tests in by_guards.values()]
    negations = {_negated(unit) for unit in units}
    return [unit - negations for unit in units if unit - negations]


def _negated(unit: Guards) -> Node:
    return negate(times(*sorted(unit, key=lambda test: test.serial)))


def _scaled(change: Change, by: Node) -> Change:
    return joined([(guarded(times(by, *guards, value)), 1.0) for guards, value in change.items()])


# -- functions ------------------------------------------------------------------------------------------------------


def _quotient(moving: Sequence[tuple[Node, float]]) -> tuple[Node, Node, Node] | None:
    """B, C and A of B C / A, or of B² / A"""
    above = [base for base, exponent in moving if exponent > 0 for _ in range(int(exponent))]
    below = [base for base, exponent in moving if exponent < 0]
    exact = all(exponent in (1.0, 2.0, -1.0) for _, exponent in moving)
    return (above[0], above[1], below[0]) if exact and len(above) == 2 and len(below) == 1 else None


def predictive(first: tuple[Node, Node], second: tuple[Node, Node], below: tuple[Node, Node]) -> Node:
    """Δ (B C / A) around the means B/A and C/A"""
    (big_b, b), (big_c, c), (big_a, a) = first, second, below
    means = [multiply(((big, 1.0), (big_a, -1.0))) for big in (big_b, big_c)]
    plain = add(((times(big_b, c), 1.0), (times(big_c, b), 1.0), (times(b, c), 1.0)))
    if a is ZERO:
        return times(plain, power(big_a, -1.0))
    parts = [_residual(part, a, mean) for part, mean in zip((b, c), means, strict=True)]
    if any(part is None for part in parts):
        return _by_remainder((b, c), a, big_a, means)
    (left, by_left), (right, by_right) = (part for part in parts if part is not None)
    head = multiply(((b, 1.0), (c, 1.0), (a, -1.0)))
    weight = multiply(((by_left, 1.0), (by_right, 1.0), (a, -1.0), (big_a, 1.0), (plus(big_a, a), -1.0)))
    around = times(weight, left, right)
    if exceeds_zero(a) or (
        is_polynomial(head) and is_polynomial(multiply(((by_left, 1.0), (by_right, 1.0), (a, -1.0))))
    ):
        return minus(head, around)
    if any(leaf.role == "state" for leaf in (*a.leaves, *b.leaves, *c.leaves)):
        return _by_remainder((b, c), a, big_a, means)
    none = equal(a, ZERO)  # an item of no weight
    return minus(where(none, ZERO, head), where(none, scale(-1.0, times(plain, power(big_a, -1.0))), around))


def _residual(b: Node, a: Node, mean: Node) -> tuple[Node, Node] | None:
    """b − a·mean as (s − x·mean)·w: the two factors, with b = w s and a = w x"""
    if b is ZERO:
        return None
    ratio = _powers(multiply(((a, 1.0), (b, -1.0))))
    x = multiply((base, exponent) for base, exponent in ratio if exponent > 0)
    s = multiply((base, -exponent) for base, exponent in ratio if exponent < 0)
    front = multiply(((a, 1.0), (b, -1.0), (s, 1.0), (x, -1.0)))
    if front.kind != "const":
        return None
    return minus(s, times(front, x, mean)), multiply(((b, 1.0), (s, -1.0)))


def _powers(of: Node) -> Sequence[tuple[Node, float]]:
    """The bases of a product and their powers, without a number in front."""
    if of.kind == "add" and len(of.args) == 1:
        return factors_in(of.args[0][0])
    return () if of.kind == "const" else factors_in(of)


def _by_remainder(steps: tuple[Node, Node], a: Node, big_a: Node, means: Sequence[Node]) -> Node:
    """m n a + m s + n r + r s / (A + a), with r = b − a m and s = c − a n"""
    (m, n), (r, s) = means, [minus(step, times(a, mean)) for step, mean in zip(steps, means, strict=True)]
    last = multiply(((r, 1.0), (s, 1.0), (plus(big_a, a), -1.0)))
    return plus(times(m, n, a), times(m, s), times(n, r), last)


def is_polynomial(of: Node) -> bool:
    """Whether a node divides by nothing but what is greater than 0."""
    return all(exponent > 0 or exceeds_zero(base) for base, exponent in _powers(of))


def rising(x: Node, by: Node) -> Node:
    """log Γ(x + r) − log Γ(x), written out for small whole r"""
    count = by.args[0] if by.kind == "const" else None
    if count is not None and count == int(count) and 0 <= count <= FEW:
        return add((call("log", plus(x, const(float(place)))), 1.0) for place in range(int(count)))
    if is_whole(by):
        return node("call", "log_rising", x, by)
    return minus(call("lgamma", plus(x, by)), call("lgamma", x))


# -- what is kept beside the statistics -----------------------------------------------------------------------------


class Keeping:
    """Finds the parts of a density that are to be kept: sums, and sums of quotients, inside other functions."""

    def __init__(self, states: frozenset[Leaf]) -> None:
        self.states = states
        self.derived: dict[Node, Derived] = {}

    def of(self, this: Node, linear: bool = True) -> Node:
        """Replace what is kept by leaves."""
        if not self._varies(this):
            return this
        if this.kind == "sum" and linear:
            over, body = opened(this)
            return total(over, self.of(body))
        if this.kind == "add" and linear:
            return add((self.of(part), coefficient) for part, coefficient in this.args)
        if this.kind == "mul" and linear:
            moving = [base for base, exponent in this.args if self._varies(base)]
            alone = len(moving) == 1 and dict(this.args)[moving[0]] == 1
            return multiply((self.of(base, alone), exponent) for base, exponent in this.args)
        if this.kind == "sum" or (this.kind == "add" and any(map(self._is_quotient, this.children))):
            return self._kept(self.of(this))
        return remade(this, lambda part: self.of(part, False))

    def _kept(self, this: Node) -> Node:
        free, key = canonical(this)
        if key not in self.derived:
            leaf = Leaf(f"R{len(self.derived)}", tuple(i.size for i in free), role="state")
            axes = tuple(Index(i.size, "c") for i in free)
            names = {index(i): index(axis) for i, axis in zip(free, axes, strict=True)}
            self.derived[key] = Derived(leaf, axes, replaced(this, names))
            self.states |= {leaf}
        return get(self.derived[key].leaf, *map(index, free))

    def _is_quotient(self, this: Node) -> bool:
        return this.kind == "mul" and any(exponent < 0 and self._varies(base) for base, exponent in this.args)

    def _varies(self, this: Node) -> bool:
        return bool(this.leaves & self.states)
