"""Loops whose state is known at every step: what the step before made, what never changes, or a count."""

from __future__ import annotations

from typing import Any

from fubini.index.build import ONE, ZERO, bounds, equal, index, minus, plus, scale, where
from fubini.index.node import Index, Leaf, Node
from fubini.read.reader import Reader, rule
from fubini.read.symbolic_array import SymbolicArray, of_leaf


class Loop:
    """A scan: the body at a step t is read with the slices at t and the state before it."""

    def __init__(self, reader: Reader, equation: Any, operands: tuple[SymbolicArray, ...]) -> None:
        params = equation.params
        self.reader, self.body, self.length = reader, params["jaxpr"], params["length"]
        self.reverse = params["reverse"]
        consts, carry = params["num_consts"], params["num_carry"]
        self.consts, self.first, self.slices = (
            operands[:consts],
            operands[consts : consts + carry],
            operands[consts + carry :],
        )
        self.kinds: list[tuple[str, Node | None]] = [("unknown", None)] * carry
        self.read: dict[Node, list[SymbolicArray]] = {}

    def place(self, t: Node) -> Node:
        """Where step t stands in the slices."""
        return minus(scale(self.length - 1.0, ONE), t) if self.reverse else t

    def at(self, t: Node) -> list[SymbolicArray]:
        """The results of the body at a step."""
        found = self.read.get(t)
        if found is None:
            found = self.read[t] = self._read(t, [self._state(k, t) for k in range(len(self.first))])
        return found

    def _read(self, t: Node, state: list[SymbolicArray]) -> list[SymbolicArray]:
        at = self.place(t)
        slices = [SymbolicArray(x.shape[1:], lambda *rest, x=x: x.at(at, *rest)) for x in self.slices]
        return self.reader.read(self.body.jaxpr, self.body.consts, [*self.consts, *state, *slices])

    def _state(self, k: int, t: Node) -> SymbolicArray:
        first = self.first[k]

        def entry(*at: Node) -> Node:
            kind, step = self.kinds[k]
            if kind == "constant":
                return first.at(*at)
            if kind == "count":
                assert step is not None
                return plus(first.at(*at), scale(step.args[0], t))
            if t is ZERO:
                return first.at(*at)
            before = self.at(minus(t, ONE))[k].at(*at)
            return before if bounds(t)[0] >= 1 else where(equal(t, ZERO), first.at(*at), before)

        return SymbolicArray(first.shape, entry)

    def resolve(self) -> bool:
        """Find what each part of the state is; False where some part that a result needs depends on itself."""
        holes = [Leaf(f"state{k}", part.shape, role="state") for k, part in enumerate(self.first)]
        t = Index(self.length, "t")
        opaque = len(self.reader.opaque)
        results = self._read(index(t), [of_leaf(hole) for hole in holes])
        carry = len(self.first)
        needs = [_leaves(part) & set(holes) for part in results]
        needed = set().union(*needs[carry:]) if needs[carry:] else set()
        grown = True
        while grown:
            more = set().union(*(needs[holes.index(hole)] for hole in needed)) if needed else set()
            grown = not more <= needed
            needed |= more
        made = list(self.reader.opaque)[opaque:]
        used = [*range(carry, len(results)), *(holes.index(hole) for hole in needed)]
        if any(_leaves(results[place]) & set(made) for place in used):
            return False
        resolved: set[Leaf] = set()
        for hole in needed:
            k = holes.index(hole)
            kind = _kind(results[k], hole)
            self.kinds[k] = kind
            if kind[0] != "before":
                resolved.add(hole)
        waiting = needed - resolved
        while waiting:
            ready = {hole for hole in waiting if needs[holes.index(hole)] <= resolved}
            if not ready:
                return False
            resolved |= ready
            waiting -= ready
        return True


def _leaves(array: SymbolicArray) -> set[Leaf]:
    return set(array.at(*(index(Index(size)) for size in array.shape)).leaves)


def _kind(result: SymbolicArray, hole: Leaf) -> tuple[str, Node | None]:
    """What becomes of a part of the state in one step."""
    fresh = [index(Index(size)) for size in result.shape]
    step = minus(result.at(*fresh), of_leaf(hole).at(*fresh))
    if step is ZERO:
        return "constant", None
    if step.kind == "const":
        return "count", step
    return "before", None


@rule("scan")
def read_scan(reader: Reader, equation: Any, *operands: SymbolicArray) -> list[SymbolicArray] | None:
    """ys[t] is the body at t; the state at the end is that after the last step"""
    loop = Loop(reader, equation, operands)
    if not loop.resolve():
        return None
    carry = len(loop.first)
    last = loop.at(scale(loop.length - 1.0, ONE)) if loop.length else []
    found = []
    for place, var in enumerate(equation.outvars):
        if place < carry:
            found.append(last[place])
        else:

            def entry(t: Node, *at: Node, place: int = place) -> Node:
                return loop.at(loop.place(t))[place].at(*at)

            found.append(SymbolicArray(var.aval.shape, entry))
    return found
