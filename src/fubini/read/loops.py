"""Loops whose state is known at every step: what the step before made, what never changes, or a count."""

from __future__ import annotations

from typing import Any

from fubini.algebra.binding import replaced
from fubini.algebra.build import ONE, ZERO, const, equal, index, minus, plus, scale, where
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.ranges import bounds
from fubini.base.jaxprs import scan_counts
from fubini.read.jaxpr_reader import Reader, rule
from fubini.read.symbolic_array import SymbolicArray, of_leaf


class Loop:
    """A scan: the body at a step t is read with the slices at t and the state before it."""

    def __init__(self, reader: Reader, equation: Any, operands: tuple[SymbolicArray, ...]) -> None:
        params = equation.params
        self.reader, self.body, self.length = reader, params["jaxpr"], params["length"]
        self.reverse = params["reverse"]
        consts, carry = scan_counts(params)
        self.consts, self.first, self.slices = (
            operands[:consts],
            operands[consts : consts + carry],
            operands[consts + carry :],
        )
        self.kinds: list[tuple[str, Node | None]] = [("unknown", None)] * carry
        self.any = Index(max(self.length - 1, 1), "t")
        self.read: dict[tuple[Node, int], SymbolicArray] = {}

    def place(self, t: Node) -> Node:
        """Where step t stands in the slices."""
        return minus(const(self.length - 1.0), t) if self.reverse else t

    def at(self, t: Node, place: int) -> SymbolicArray:
        """One result of the body at a step; the others, which may need more of the state, are not looked at."""
        result = self.read.get((t, place))
        if result is None:
            state = [self._state(k, t) for k in range(len(self.first))]
            (result,) = self._read(t, state, place)
            self.read[t, place] = result
        return result

    def after(self, k: int) -> SymbolicArray:
        """A part of the state after the last step."""
        return self.at(const(self.length - 1.0), k)

    def _read(self, t: Node, state: list[SymbolicArray], only: int | None = None) -> list[SymbolicArray]:
        at = self.place(t)
        slices = [SymbolicArray(x.shape[1:], lambda *rest, x=x: x.at(at, *rest)) for x in self.slices]
        return self.reader.read(self.body.jaxpr, self.body.consts, [*self.consts, *state, *slices], only)

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
            before = self._before(k, at, minus(t, ONE))
            return before if bounds(t)[0] >= 1 else where(equal(t, ZERO), first.at(*at), before)

        return SymbolicArray(first.shape, entry)

    def _before(self, k: int, at: tuple[Node, ...], t: Node) -> Node:
        """A result at a step that is there, whatever the bounds of t are: it is asked for under a test."""
        entry = self.at(index(self.any), k).at(*at)
        return replaced(entry, {index(self.any): t})

    def resolve(self) -> bool:
        """Find what each part of the state is; False where some part that a result needs depends on itself.

        What one reading of the body resolves lets more be told in the next: that an index is in range, say.
        """
        holes = [Leaf(f"state{k}", part.shape, role="state") for k, part in enumerate(self.first)]
        t = index(Index(self.length, "t"))
        while True:
            before = set(self.reader.opaque)
            state = [
                of_leaf(hole) if self.kinds[k][0] == "unknown" else self._state(k, t) for k, hole in enumerate(holes)
            ]
            results = self._read(t, state)
            unknown = {*holes, *(leaf for leaf in self.reader.opaque if leaf not in before)}
            is_progress = False
            for k, hole in enumerate(holes):
                if self.kinds[k][0] == "unknown":
                    self.kinds[k] = _kind(results[k], hole, unknown)
                    is_progress |= self.kinds[k][0] != "unknown"
            self.read.clear()
            if not is_progress:
                return not any(_leaves(result) & unknown for result in results[len(holes) :])


def _leaves(array: SymbolicArray) -> set[Leaf]:
    return set(array.at(*(index(Index(size)) for size in array.shape)).leaves)


def _kind(result: SymbolicArray, hole: Leaf, unknown: set[Leaf]) -> tuple[str, Node | None]:
    """What becomes of a part of the state in one step."""
    fresh = [index(Index(size)) for size in result.shape]
    step = minus(result.at(*fresh), of_leaf(hole).at(*fresh))
    if step is ZERO:
        return "constant", None
    if step.kind == "const":
        return "count", step
    return ("unknown" if _leaves(result) & unknown else "before"), None


def _is_dropped(var: Any) -> bool:
    return type(var).__name__ == "DropVar"


@rule("scan")
def read_scan(reader: Reader, equation: Any, *operands: SymbolicArray) -> list[SymbolicArray] | None:
    """ys[t] is the body at t; the state at the end is that after the last step"""
    loop = Loop(reader, equation, operands)
    if not loop.length or not loop.resolve():
        return None
    if any(
        kind == "unknown" and not _is_dropped(var) for (kind, _), var in zip(loop.kinds, equation.outvars, strict=False)
    ):
        return None
    carry = len(loop.first)
    results = []
    for place, var in enumerate(equation.outvars):
        if place < carry:
            results.append(SymbolicArray(var.aval.shape, lambda *at, k=place: loop.after(k).at(*at)))
        else:

            def entry(t: Node, *at: Node, place: int = place) -> Node:
                return loop.at(loop.place(t), place).at(*at)

            results.append(SymbolicArray(var.aval.shape, entry))
    return results
