"""Nodes as array programs: each index an axis, a sum under a test of an index a sum by segments.

On JAX, to be compiled or differentiated; on NumPy, for an answer that is asked for once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from fubini.algebra.axes import Axes, aligned, product, root, taken, union, where_holds
from fubini.algebra.binding import opened_once
from fubini.algebra.build import const, factors_in, is_test
from fubini.algebra.cell_stretches import StretchedSolution
from fubini.algebra.mesh_sums import OVER_ROWS, reads_rows
from fubini.algebra.node import Index, Leaf, Node, node
from fubini.algebra.placement import Placed, Spread, filled, spread_indices
from fubini.algebra.ranges import bounds, is_whole
from fubini.algebra.responses import sum_by_recursion
from fubini.algebra.rows import Rows, front_of, is_tall
from fubini.algebra.state_paths import Paths
from fubini.algebra.time_stretches import in_stretches
from fubini.algebra.walk import walk
from fubini.base.arrays import Data, in_force
from fubini.numerics.arithmetic import called, segment_sums
from fubini.numerics.finite_chains import log_sum_exp
from fubini.numerics.kronecker_least_squares import KroneckerRows, KroneckerSolution
from fubini.numerics.least_squares import (
    DENSE,
    LeastSquaresSolution,
    LinearRecursions,
    Unknowns,
    joined,
    solve,
    solve_rows,
)
from fubini.numerics.recursion_least_squares import RecursionSolution, solve_recursions
from fubini.numerics.recursion_rows import RecursionRows, recursion_rows
from fubini.numerics.sparse_callbacks import TracedSolution, solve_sparse
from fubini.numerics.sparse_least_squares import RowSizes, SparseRows, SparseSolution, joined_rows
from fubini.numerics.whitened_least_squares import WhitenedRows, WhitenedSolution, solve_whitened, whitened_rows

Solution = (
    LeastSquaresSolution
    | StretchedSolution
    | SparseSolution
    | TracedSolution
    | KroneckerSolution
    | WhitenedSolution
    | RecursionSolution
)


def evaluate(of: Node, arrays: Mapping[Leaf, Data], order: Sequence[Index] = ()) -> Data:
    """The numbers of a node over its free indices, in this order."""
    return aligned(Evaluation(arrays).of(of), tuple(order))


class Evaluation:
    """Values of nodes, each computed once, on NumPy or JAX; `before` holds values that are known already."""

    def __init__(self, arrays: Mapping[Leaf, Data], before: Mapping[Node, Axes] | None = None, xp: Any = jnp) -> None:
        self.arrays, self.xp = arrays, xp
        self.placed: Placed = getattr(getattr(arrays, "reader", None), "placed", {})
        self.memo: dict[Node, Axes] = dict(before or {})
        self.solutions: dict[tuple[Any, ...], Solution] = {}

    def spread(self, this: Node) -> dict[Index, Spread]:
        """The indices in a node that run along an axis of a mesh."""
        return spread_indices([opened_once(this)[1] if this.is_binder else this], self.placed) if self.placed else {}

    def opened(self, this: Node) -> tuple[tuple[Index, ...], Node]:
        """The body of a binder, over the same indices each time."""
        return opened_once(this)

    def of(self, this: Node) -> Axes:
        """The numbers of a node over its free indices, in some order."""
        numbers = self.memo.get(this)
        if numbers is None:
            numbers = self.memo[this] = self._on_mesh(this) or getattr(self, f"_{this.kind}")(this)
        return numbers

    def _on_mesh(self, this: Node) -> Axes | None:
        """For NumPy, a sum over rows on a mesh, which is computed there."""
        if (
            self.xp is not np
            or not self.placed
            or this.kind not in OVER_ROWS
            or not reads_rows(this.leaves, self.placed)
        ):
            return None
        return self.arrays.sum_on_mesh(this)  # type: ignore[attr-defined]

    def _const(self, this: Node) -> Axes:
        return Axes(self.xp.asarray(this.args[0]), ())

    def _index(self, this: Node) -> Axes:
        i = this.args[0]
        assert isinstance(i, Index), "a bound index outside its binder"
        return Axes(self.xp.arange(i.size), (i,))

    def _get(self, this: Node) -> Axes:
        return self.entries(this)

    def entries(self, this: Node, is_as_held: bool = False) -> Axes:
        """Entries of an array, in the precision in force or as it is held."""
        leaf, *at = this.args
        array = self.xp.asarray(self.arrays[leaf])
        if self.xp is np:
            array = array.astype(float, copy=False)
        elif leaf.role == "data" and not is_as_held:
            array = in_force(array)
        if all(part.kind == "index" for part in at) and len(set(at)) == len(at):
            axes = tuple(part.args[0] for part in at)
            if all(i.size <= size for i, size in zip(axes, array.shape, strict=True)):
                return Axes(array[tuple(slice(i.size) for i in axes)], axes)
        places = [self.of(part) for part in at]
        axes = union(places)
        spread = [aligned(place, axes).astype(int) for place in places]
        inside = [self.xp.clip(place, 0, size - 1) for place, size in zip(spread, array.shape, strict=True)]
        sizes = tuple(i.size for i in axes)
        if self.placed and self.xp is not np:
            inside = self._filled(inside, this, axes)
        taken = array[tuple(inside)][tuple(map(slice, sizes))]
        return Axes(self.xp.broadcast_to(taken, sizes), axes)

    def _filled(self, places: list[Data], this: Node, axes: tuple[Index, ...]) -> list[Data]:
        """Places over rows on a mesh, as many for each device, so that slopes are sums of each device."""
        spread = spread_indices([this], self.placed)
        for axis, i in enumerate(axes):
            if i in spread:
                parts = spread[i].parts
                places = [filled(place, parts, axis) if place.shape[axis] > 1 else place for place in places]
        return places

    def _add(self, this: Node) -> Axes:
        return self._added(this, [self.of(part) for part, _ in this.args])

    def _added(self, this: Node, parts: Sequence[Axes]) -> Axes:
        axes = union(parts)
        data = [aligned(part, axes) for part in parts]
        coefficients: Sequence[float] = [coefficient for _, coefficient in this.args]
        if not this.leaves and is_whole(this):  # of indices, which single precision would round
            data, coefficients = [part.astype(int) for part in data], [int(c) for c in coefficients]
        return Axes(sum(c * part for part, c in zip(data, coefficients, strict=True)), axes)

    def _mul(self, this: Node) -> Axes:
        return self.product_of(this.args)

    def product_of(self, factors: Sequence[tuple[Node, float]]) -> Axes:
        """Π base^exponent; 0 log 0 is 0, and so is what a test leaves out, be it infinite."""
        tests = [factor for factor in factors if _is_guard(*factor)]
        rest = [factor for factor in factors if factor not in tests]
        if not tests:
            return self._without_tests(rest)
        holds = product([(self.of(base), 1.0) for base, _ in tests])
        return where_holds(holds, self._without_tests(rest, holds))

    def root_of(self, factors: Sequence[tuple[Node, float]]) -> Axes:
        """√Π base^exponent; |base|^(exponent/2) where that is whole: squares may overflow or vanish."""
        squares = [(base, exponent) for base, exponent in factors if exponent % 2 == 0]
        others = self.product_of([factor for factor in factors if factor not in squares])
        sizes = [(Axes(self.xp.abs(self.of(base).data), self.of(base).of), e / 2) for base, e in squares]
        return product([(Axes(root(others.data), others.of), 1.0), *sizes])

    def _divisor(self, base: Node, exponent: float, holds: Axes | None) -> Axes:
        """A factor; one that is divided by is 1 where it does not count, so that derivatives are numbers."""
        factor = self.of(base)
        if holds is None or exponent > 0:
            return factor
        axes = union([factor, holds])
        return Axes(self.xp.where(aligned(holds, axes) != 0, aligned(factor, axes), 1.0), axes)

    def _without_tests(self, factors: Sequence[tuple[Node, float]], holds: Axes | None = None) -> Axes:
        log = next((base for base, exponent in factors if exponent == 1 and _may_be_infinite(base)), None)
        if log is None or len(factors) == 1:
            return product([(self._divisor(base, exponent, holds), exponent) for base, exponent in factors])
        others = product(
            [(self._divisor(base, exponent, holds), exponent) for base, exponent in factors if base is not log]
        )
        if log.kind != "call":
            numbers = self.of(log)
            axes = union([others, numbers])
            weight, value = aligned(others, axes), aligned(numbers, axes)
            value = self.xp.where((weight == 0) & self.xp.isinf(value), 1.0, value)
        else:
            inside = self.of(log.args[1])
            axes = union([others, inside])
            weight, of = aligned(others, axes), aligned(inside, axes)
            value = self.xp.log(self.xp.where((weight == 0) & (of == 0), 1.0, of))
        return Axes(self.xp.broadcast_to(weight * value, tuple(i.size for i in axes)), axes)

    def _call(self, this: Node) -> Axes:
        if this.args[0] == "log" and (logs := _logs(this.args[1])):
            return self._add(node("add", *logs))
        parts = [self.of(part) for part in this.args[1:]]
        axes = union(parts)
        return Axes(called(this.args[0], self.xp, [aligned(part, axes) for part in parts]), axes)

    def _eq(self, this: Node) -> Axes:
        a, b, axes = self._pair(this)
        return Axes((a == b).astype(float), axes)

    def _lt(self, this: Node) -> Axes:
        a, b, axes = self._pair(this)
        return Axes((a < b).astype(float), axes)

    def _pair(self, this: Node) -> tuple[Data, Data, tuple[Index, ...]]:
        parts = [self.of(part) for part in this.args]
        axes = union(parts)
        return *(aligned(part, axes) for part in parts), axes  # type: ignore[return-value]

    def _where(self, this: Node) -> Axes:
        parts = [self.of(part) for part in this.args]
        axes = union(parts)
        test, first, second = (aligned(part, axes) for part in parts)
        return Axes(self.xp.where(test != 0, first, second), axes)

    def _logdet(self, this: Node) -> Axes:
        return Axes(self.solution(this.args[0], this.args[1:]).logdet, _outer(this.args[1:]))

    def _rss(self, this: Node) -> Axes:
        return Axes(self.solution(this.args[0], this.args[1:]).rss, _outer(this.args[1:]))

    def solution(
        self, frame: Unknowns, rows: tuple[Node, ...], at: tuple[Index, ...] | None = None, is_drawn: bool = False
    ) -> Solution:
        """Of a least-squares problem, solved once; of many, one for each place of the indices `at`.

        Of a sparse precision by its factor; on JAX few unknowns by dense matrices unless they are drawn, as these have
        all derivatives.
        """
        outer = _outer(rows) if at is None else at
        is_sparse = frame.is_sparse and (is_drawn or self.xp is np or frame.cell > DENSE)
        key = (frame, is_sparse, outer, *rows)
        if key in self.solutions:
            return self.solutions[key]
        if frame.kronecker is not None:
            self.solutions[key] = KroneckerSolution(self.kronecker_rows(rows))
        elif frame.recursions is not None:
            self.solutions[key] = solve_recursions(frame.recursions, self.recursion_rows(frame.recursions, rows))
        elif frame.is_whitened:
            self.solutions[key] = solve_whitened(self.whitened_rows(frame, rows))
        elif is_sparse:
            self.solutions[key] = solve_sparse(*self.sparse_rows(frame, rows))
        else:
            self.solutions[key] = self._by_cells(frame, rows, outer)
        return self.solutions[key]

    def _by_cells(self, frame: Unknowns, rows: tuple[Node, ...], outer: tuple[Index, ...]) -> Solution:
        """Of a cell, or a chain of them, whose time may lie on a mesh."""
        numbers, sizes = [self._rows_of(part, frame, outer) for part in rows], tuple(i.size for i in outer)
        if frame.length is None or self.xp is np:
            return solve(numbers, frame, sizes)
        whole, time, spread = joined(numbers, (*sizes, *frame.axes)), Index(frame.length), dict[Index, Spread]()
        for part in rows:
            own = self.opened(part)[1].args[1].args[0]
            spread |= {time if i is own else i: along for i, along in self.spread(part).items()}
        placement = in_stretches(whole[..., 0], time, outer, spread)
        return solve_rows(whole, frame) if placement is None else StretchedSolution(whole, frame, placement)

    def sparse_rows(self, frame: Unknowns, rows: tuple[Node, ...]) -> tuple[SparseRows, RowSizes]:
        """The rows of a problem with a sparse precision."""
        return joined_rows([Rows(self, part, frame, ()).entries() for part in rows], frame.cell)

    def kronecker_rows(self, rows: tuple[Node, ...]) -> KroneckerRows:
        """The matrices and numbers of a problem with a Kronecker precision."""
        return KroneckerRows(*map(self.matrix, rows))

    def whitened_rows(self, frame: Unknowns, rows: tuple[Node, ...]) -> WhitenedRows:
        """The covariance and the mean of unknowns, and the rows of their data."""
        covariance, mean, *data = rows
        return whitened_rows(self.matrix(covariance), self.matrix(mean), self.sparse_rows(frame, tuple(data))[0])

    def recursion_rows(self, sizes: LinearRecursions, rows: tuple[Node, ...]) -> RecursionRows:
        """The rows of a problem with outputs of linear recursions, whose nodes stand one after another."""
        nodes = iter(rows)
        blocks: list[tuple[Data, list[Data]]] = []
        for block in sizes.blocks:
            transition = self.matrix(next(nodes))
            blocks.append((transition, [Rows(self, next(nodes), sizes, ()).numbers()[0] for _ in range(block.parts)]))
        along = [Rows(self, next(nodes), sizes, ()).numbers() for _ in range(sizes.rows)]
        others = [Rows(self, part, Unknowns(None, sizes.width - 1), ()).numbers() for part in nodes]
        return recursion_rows(sizes, blocks, along, others)

    def matrix(self, part: Node) -> Data:
        """The numbers of a matrix by its entry."""
        body = self.opened(part)[1]
        over = tuple(place.args[0] for place in body.args[1:-1])
        return self.xp.broadcast_to(aligned(self.of(body.args[-1]), over), tuple(i.size for i in over))

    def _rows_of(self, part: Node, frame: Unknowns, outer: tuple[Index, ...]) -> tuple[Data, Data]:
        """Rows of a problem as matrix and right side: few, where many are turned into a triangle."""
        triangle = node("triangle", frame, part)
        is_whole = frame.length is None and not part.free and self.spread(part)
        if triangle not in self.memo and (outer or not (is_whole or is_tall(part, frame))):
            return Rows(self, part, frame, outer).numbers()
        rows = self.of(triangle)
        scale = self.root_of(front_of(part)[0]).data
        return scale * rows.data[:, :-1], scale * rows.data[:, -1]

    def _triangle(self, this: Node) -> Axes:
        """U of [A b] = Q U, for rows A x = b that data alone decide, up to a weight in front of all of them."""
        frame, part = this.args
        rows = Rows(self, part, frame, ())
        rows.factors = [factor for factor in rows.factors if factor not in front_of(part)[0]]
        return Axes(rows.triangle(), ())

    def _lse(self, this: Node) -> Axes:
        over, body = self.opened(this)
        inside = self.of(body)
        axes = tuple(i for i in inside.of if i not in over)
        inner = tuple(i for i in over if i in inside.of)
        unused = math.prod(i.size for i in over if i not in inside.of)
        data = aligned(inside, (*axes, *inner)).reshape(*(i.size for i in axes), -1)
        return Axes(log_sum_exp(data) + math.log(unused), axes)

    def _greatest(self, this: Node) -> Axes:
        over, body = self.opened(this)
        inside = self.of(body)
        gone = tuple(axis for axis, i in enumerate(inside.of) if i in over)
        kept = tuple(i for i in inside.of if i not in over)
        if not all(i.size for i in over):
            return Axes(self.xp.full(tuple(i.size for i in kept), -math.inf), kept)
        return Axes(self.xp.max(inside.data, axis=gone), kept)

    def _chain(self, this: Node) -> Axes:
        """log Σ over paths, of all that start and end anywhere"""
        body = self.opened(this)[1]
        logits, links, axes = self.potentials(body)
        return Axes(self.paths(logits, links, body.args[1].args[0], axes, body).evidence(), axes)

    def paths(self, logits: Data, links: Data, time: Index, batch: Sequence[Index], *nodes: Node) -> Paths:
        """The paths of a chain whose logits and links are the numbers of these nodes."""
        return Paths.of(logits, links, time, batch, spread_indices(nodes, self.placed))

    def potentials(self, body: Node) -> tuple[Data, Data, tuple[Index, ...]]:
        """Logits [… batch, t, k] and links [… batch, t, k, next] of a chain, and the batch."""
        t, k, following = (part.args[0] for part in body.args[1:4])
        logit, link = (self.of(part) for part in body.args[4:])
        axes = tuple(i for i in union([logit, link]) if i not in (t, k, following))
        outer = tuple(i.size for i in axes)
        logits = self.xp.broadcast_to(aligned(logit, (*axes, t, k)), (*outer, t.size, k.size))
        links = self.xp.broadcast_to(aligned(link, (*axes, t, k, following)), (*outer, t.size, k.size, k.size))
        return logits, links, axes

    def _sum(self, this: Node) -> Axes:
        over, body = self.opened(this)
        factors = list(factors_in(body))
        tests = self._segments(factors, over)
        if tests:
            return self._by_segments(over, factors, tests)
        terms = sum_by_recursion(self, over, body) or self._at_entries(over, factors)
        kept = tuple(i for i in terms.of if i not in over)
        missing = math.prod(i.size for i in over if i not in terms.of)
        gone = tuple(axis for axis, i in enumerate(terms.of) if i in over)
        return Axes(self.xp.sum(terms.data, axis=gone) * missing, kept)

    def _at_entries(self, over: tuple[Index, ...], factors: list[tuple[Node, float]]) -> Axes:
        """The product of factors; under a test [i = e] of a summed index, what depends on i is read at e alone."""
        for place, (base, _) in enumerate(factors):
            for one, entry in (base.args, base.args[::-1]) if base.kind == "eq" else ():
                inside = one.kind == "index" and one.args[0] in over and one.args[0] not in entry.free
                if inside and is_whole(entry):
                    i, at = one.args[0], self.of(entry)
                    rest = [factor for other, factor in enumerate(factors) if other != place]
                    parts = [(self._read_at(part, i, at), e) for part, e in rest if not _is_guard(part, e)]
                    tests = [(self._read_at(part, i, at), 1.0) for part, e in rest if _is_guard(part, e)]
                    reached = Axes(((at.data >= 0) & (at.data < i.size)).astype(float), at.of)
                    value = product([*parts, (Axes(self.xp.asarray(1.0 / i.size), ()), 1.0)])  # i is summed over again
                    return where_holds(product([*tests, (reached, 1.0)]), value)
        return self.product_of(factors)

    def _read_at(self, part: Node, i: Index, at: Axes) -> Axes:
        """A part read at i = at; of a sum each term, so that no array has the axes of all."""
        if part.kind == "add" and i in part.free:
            return self._added(part, [self._read_at(term, i, at) for term, _ in part.args])
        return taken(self.of(part), i, at)

    def _segments(
        self, factors: Sequence[tuple[Node, float]], over: tuple[Index, ...]
    ) -> dict[int, tuple[Index, Node]]:
        """Tests [e = c] of an index c from outside that no other factor has, with e in the indices summed."""
        tests: dict[int, tuple[Index, Node]] = {}
        for place, (base, _) in enumerate(factors):
            if base.kind != "eq":
                continue
            for one, other in (base.args, base.args[::-1]):
                free = one.kind == "index" and one.args[0] not in over
                others = [part for spot, (part, _) in enumerate(factors) if spot != place]
                if (
                    free
                    and other.free <= set(over)
                    and is_whole(other)
                    and not any(one.args[0] in part.free for part in others)
                ):
                    tests[place] = (one.args[0], other)
        return tests

    def _by_segments(
        self, over: tuple[Index, ...], factors: Sequence[tuple[Node, float]], tests: dict[int, tuple[Index, Node]]
    ) -> Axes:
        """Σ_J [e(J) = c] k(J), for all c at once"""
        weights = self.product_of([factor for place, factor in enumerate(factors) if place not in tests])
        kept = tuple(i for i in weights.of if i not in over)
        spread = spread_indices([base for base, _ in factors], self.placed)
        over = tuple(sorted(over, key=lambda i: i not in spread))  # rows of one device stand together
        data = self.xp.broadcast_to(aligned(weights, (*over, *kept)), tuple(i.size for i in (*over, *kept)))
        classes = tuple(i for i, _ in tests.values())
        places = [aligned(self.of(entry), over).astype(int) for _, entry in tests.values()]
        shape = tuple(i.size for i in over)
        flat = self.xp.zeros(shape, int)
        inside = self.xp.ones(shape, bool)
        for place, i in zip(places, classes, strict=True):
            flat = flat * i.size + place
            inside &= (place >= 0) & (place < i.size)
        count = math.prod(i.size for i in classes)
        target = self.xp.where(inside, flat, count).reshape(-1)
        rows = data.reshape(-1, *data.shape[len(over) :])
        if over[0] in spread:
            sums = spread[over[0]].sum_of_each(partial(segment_sums, count=count + 1), rows, target)
        else:
            sums = segment_sums(rows, target, count + 1)
        summed = sums[:count]
        return Axes(summed.reshape(*(i.size for i in classes), *data.shape[len(over) :]), (*classes, *kept))


def _is_guard(base: Node, exponent: float) -> bool:
    """A test among factors; what is divided by it is none."""
    return exponent > 0 and is_test(base)


def _logs(of: Node) -> list[tuple[Node, float]]:
    """log Π base^exponent as a sum: powers may overflow or vanish where their logarithms do not."""
    parts, constant = factors_in(of), 0.0
    if of.kind == "add" and len(of.args) == 1 and of.args[0][1] > 0:
        parts, constant = factors_in(of.args[0][0]), math.log(of.args[0][1])
    if all(exponent == 1 for _, exponent in parts) or not all(bounds(base)[0] >= 0 for base, _ in parts):
        return []
    return [(node("call", "log", base), exponent) for base, exponent in parts] + [(const(constant), 1.0)]


def _may_be_infinite(of: Node) -> bool:
    """A logarithm, or one in a sum or in either case of a test."""
    nodes = walk(of, descend=lambda this: this.kind in ("where", "add"))
    return any(this.kind == "call" and this.args[0] == "log" for this in nodes)


def _outer(rows: Sequence[Node]) -> tuple[Index, ...]:
    """Indices from outside, in the order in which they were made: there is one problem for each of their values."""
    none: frozenset[Index] = frozenset()
    return tuple(sorted(none.union(*(part.free for part in rows)), key=lambda i: i.serial))
