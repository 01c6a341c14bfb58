"""Sweeps without differences: the density of every candidate is computed anew, from statistics or from the items.

It is what `difference` and `histogram` save, and draws the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from fubini.algebra.binding import replaced
from fubini.algebra.build import ZERO, const, equal, get, index, less, negate, plus
from fubini.algebra.node import Index, Node
from fubini.algebra.ranges import bounds
from fubini.compile.array_names import Names
from fubini.compile.derive import Label
from fubini.compile.emit import LoopWriter
from fubini.compile.fuse import Accumulation
from fubini.compile.histogram import Slot, slots, summarised
from fubini.compile.loop import LabelLoop, TestedSum, Weights, solved
from fubini.compile.pipeline import Sweeps
from fubini.compile.statistics import Statistic


class Recompute:
    """Writes a sweep over a label."""

    def __init__(self, sweeps: Sweeps, names: Names, writer: LoopWriter) -> None:
        self.sweeps, self.names, self.writer = sweeps, names, writer

    def sweep(self, label: Label) -> None:
        """Write a sweep: for one entry after another, the density with each candidate in its place."""
        loop = LabelLoop(label, Weights((), ZERO, ()), self.names, self.writer)
        grouped = self.sweeps.is_grouped
        once = grouped and self.sweeps.is_hoisted
        with self.writer.block("for t in range(items.size):"):
            self.writer.line("u = items[t]")
            loop.place()
            if once:
                self.fill()
                self.writer.line(f"k = {loop.entry}")
                loop.sum_neighbours()
                loop.remove()
            self.writer.line("top = -math.inf")
            with self.writer.block(f"for k in range({loop.size}):"):
                self.writer.line(f"{loop.entry} = k")
                if once:
                    loop.restore()
                elif grouped:
                    self.fill()
                self.writer.line(f"e[k] = {self.writer.bare(self.sweeps.density, loop.env)}")
                self.writer.line("top = e[k] if e[k] > top else top")
                if once:
                    loop.remove()
            loop.raised_weights()
            loop.draw()

    def fill(self) -> None:
        """Write the loops that compute the statistics of all labels."""
        kept = [one for one in self.sweeps.statistics if one.leaf in self.names]
        for one in kept:
            self.writer.line(f"{self.names[one.leaf].name}[...] = 0.0")
        self.accumulate(kept)

    def accumulate(self, kept: Sequence[Statistic]) -> None:
        """Write the loops over items that add up to statistics."""
        for group in self.sweeps.group([part for one in kept for part in accumulations_of(one)]):
            self._loop(group)

    def _loop(self, group: list[Accumulation]) -> None:
        env, depth = {}, self.writer.depth
        for i in group[0].over:
            env[i] = self.writer.fresh("j")
            self.writer.line(f"for {env[i]} in range({self.names.sizes.text(i.size)}):")
            self.writer.depth += 1
        inside = self.writer.depth
        for one in group:
            conditions = [self.writer.test(test, env) for test in one.tests]
            if conditions:
                self.writer.line(f"if {' and '.join(conditions)}:")
                self.writer.depth += 1
            array = self.names[one.leaf]
            places = ", ".join(self.writer.place(one.places[axis], env) for axis in array.order) or "()"
            self.writer.line(f"{array.name}[{places}] += {self.writer.bare(one.value, env)}")
            self.writer.depth = inside
        self.writer.depth = depth


def accumulations_of(one: Statistic) -> list[Accumulation]:
    """A statistic as loops over its items that go straight to their groups, or over all groups where none do."""
    summary = summarised(one.over, one.body)
    cells = [] if summary is None else slots(summary.reducer)
    places = [_places(one, slot) for slot in cells]
    entries = plus(*(get(slot.leaf, *(index(idx.axis) for idx in slot.indexed)) for slot in cells))
    if summary is None or summary.final is not entries or None in places:
        return [_straight(one)]
    pairs = zip(cells, places, strict=True)
    return [Accumulation(one.over, one.leaf, *at, slot.value) for slot, at in pairs if at is not None]


def _straight(one: Statistic) -> Accumulation:
    """A statistic as one loop, along all axes that no test says the group of."""
    parts = TestedSum.of(one)
    targets, tests = solved(one.axes, parts.tests)
    over = (*(axis for axis in one.axes if index(axis) not in targets), *one.over)
    places = tuple(targets.get(index(axis), index(axis)) for axis in one.axes)
    return Accumulation(over, one.leaf, places, tuple(tests), replaced(parts.value, targets))


def _places(one: Statistic, slot: Slot) -> tuple[tuple[Node, ...], tuple[Node, ...]] | None:
    """Where an item goes along each axis, and the tests that it has to pass; None for what is cumulated."""
    tests = [test if holds else negate(test) for test, holds in slot.tests]
    at: dict[Index, Node] = {}
    for axis, entry, _, side in slot.indexed:
        if side != "=":
            return None
        tests.extend([equal(at[axis], entry)] if axis in at else [])  # [c = a] [c = b] is [c = a] [a = b]
        at.setdefault(axis, entry)
        tests.extend([less(const(-1.0), entry)] if bounds(entry)[0] < 0 else [])
        tests.extend([less(entry, const(float(axis.size)))] if bounds(entry)[1] > axis.size - 1 else [])
    return (tuple(at[axis] for axis in one.axes), tuple(tests)) if set(at) == set(one.axes) else None
