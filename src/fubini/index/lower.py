"""Nodes as array programs: each index an axis, a sum under a test of an index a sum by segments.

On JAX, to be compiled or differentiated; on NumPy, for an answer that is asked for once.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from fubini.arrays import Data
from fubini.index.arithmetic import called, one_hot, qr, segment_sums, xp_of
from fubini.index.build import is_test, opened
from fubini.index.chains import chain_evidence, log_sum_exp
from fubini.index.least_squares import Frame, Solution, solve
from fubini.index.node import BINDERS, Index, Leaf, Node, children, node
from fubini.index.ranges import is_whole

LARGEST = 5_000_000  # numbers of a part that is computed beforehand


class Axes(NamedTuple):
    """Numbers along the axes of some indices."""

    data: Data
    of: tuple[Index, ...]


def evaluate(root: Node, arrays: Mapping[Leaf, Data], order: Sequence[Index] = ()) -> Data:
    """The numbers of a node over its free indices, in this order."""
    return aligned(Evaluation(arrays).of(root), tuple(order))


class Evaluation:
    """Values of nodes, each computed once, on NumPy or JAX; `before` holds values that are known already."""

    def __init__(self, arrays: Mapping[Leaf, Data], before: Mapping[Node, Axes] | None = None, xp: Any = jnp) -> None:
        self.arrays, self.xp = arrays, xp
        self.memo: dict[Node, Axes] = dict(before or {})
        self.solutions: dict[tuple, Solution] = {}

    def opened(self, this: Node) -> tuple[tuple[Index, ...], Node]:
        """The body of a binder, over the same indices each time."""
        return _opened(this)

    def of(self, this: Node) -> Axes:
        """The numbers of a node over its free indices, in some order."""
        found = self.memo.get(this)
        if found is None:
            found = self.memo[this] = getattr(self, f"_{this.kind}")(this)
        return found

    def _const(self, this: Node) -> Axes:
        return Axes(self.xp.asarray(this.args[0]), ())

    def _index(self, this: Node) -> Axes:
        i = this.args[0]
        assert isinstance(i, Index), "a bound index outside its binder"
        return Axes(self.xp.arange(i.size), (i,))

    def _get(self, this: Node) -> Axes:
        leaf, *at = this.args
        array = self.xp.asarray(self.arrays[leaf])
        if self.xp is np:
            array = array.astype(float)
        if all(part.kind == "index" for part in at) and len(set(at)) == len(at):
            axes = tuple(part.args[0] for part in at)
            if all(i.size <= size for i, size in zip(axes, array.shape, strict=True)):
                return Axes(array[tuple(slice(i.size) for i in axes)], axes)
        places = [self.of(part) for part in at]
        axes = _union(places)
        spread = [aligned(place, axes).astype(int) for place in places]
        inside = [self.xp.clip(place, 0, size - 1) for place, size in zip(spread, array.shape, strict=True)]
        return Axes(self.xp.broadcast_to(array[tuple(inside)], tuple(i.size for i in axes)), axes)

    def _add(self, this: Node) -> Axes:
        parts = [self.of(part) for part, _ in this.args]
        axes = _union(parts)
        data = [aligned(part, axes) for part in parts]
        coefficients: list[float] = [coefficient for _, coefficient in this.args]
        if not this.leaves and is_whole(this):  # of indices, which single precision would round
            data, coefficients = [part.astype(int) for part in data], [int(c) for c in coefficients]
        return Axes(sum(c * part for part, c in zip(data, coefficients, strict=True)), axes)

    def _mul(self, this: Node) -> Axes:
        return self.product_of(this.args)

    def product_of(self, factors: Sequence[tuple[Node, float]]) -> Axes:
        """Π base^exponent; 0 log 0 is 0, and so is what a test leaves out, be it infinite."""
        tests = [factor for factor in factors if _is_guard(*factor)]
        rest = [factor for factor in factors if factor not in tests]
        found = self._without_tests(rest)
        if not tests:
            return found
        return _where(_product([(self.of(base), 1.0) for base, _ in tests]), found)

    def _without_tests(self, factors: Sequence[tuple[Node, float]]) -> Axes:
        log = next((base for base, exponent in factors if exponent == 1 and _may_be_infinite(base)), None)
        if log is None or len(factors) == 1:
            return _product([(self.of(base), exponent) for base, exponent in factors])
        others = _product([(self.of(base), exponent) for base, exponent in factors if base is not log])
        if log.kind != "call":
            found = self.of(log)
            axes = _union([others, found])
            weight, value = aligned(others, axes), aligned(found, axes)
            value = self.xp.where((weight == 0) & self.xp.isinf(value), 1.0, value)
        else:
            inside = self.of(log.args[1])
            axes = _union([others, inside])
            weight, of = aligned(others, axes), aligned(inside, axes)
            value = self.xp.log(self.xp.where((weight == 0) & (of == 0), 1.0, of))
        return Axes(self.xp.broadcast_to(weight * value, tuple(i.size for i in axes)), axes)

    def _call(self, this: Node) -> Axes:
        parts = [self.of(part) for part in this.args[1:]]
        axes = _union(parts)
        return Axes(called(this.args[0], self.xp, [aligned(part, axes) for part in parts]), axes)

    def _eq(self, this: Node) -> Axes:
        a, b, axes = self._pair(this)
        return Axes((a == b).astype(float), axes)

    def _lt(self, this: Node) -> Axes:
        a, b, axes = self._pair(this)
        return Axes((a < b).astype(float), axes)

    def _pair(self, this: Node) -> tuple[Data, Data, tuple[Index, ...]]:
        parts = [self.of(part) for part in this.args]
        axes = _union(parts)
        return *(aligned(part, axes) for part in parts), axes  # type: ignore[return-value]

    def _where(self, this: Node) -> Axes:
        parts = [self.of(part) for part in this.args]
        axes = _union(parts)
        test, first, second = (aligned(part, axes) for part in parts)
        return Axes(self.xp.where(test != 0, first, second), axes)

    def _logdet(self, this: Node) -> Axes:
        return Axes(self.solution(this.args[0], this.args[1:]).logdet, _outer(this.args[1:]))

    def _rss(self, this: Node) -> Axes:
        return Axes(self.solution(this.args[0], this.args[1:]).rss, _outer(this.args[1:]))

    def solution(self, frame: Frame, rows: tuple[Node, ...], at: tuple[Index, ...] | None = None) -> Solution:
        """Of a least-squares problem, found once; of many, one for each place of the indices `at`."""
        outer = _outer(rows) if at is None else at
        key = (frame, outer, *rows)
        if key not in self.solutions:
            numbers = [self._rows_of(part, frame, outer) for part in rows]
            self.solutions[key] = solve(numbers, frame, tuple(i.size for i in outer))
        return self.solutions[key]

    def _rows_of(self, part: Node, frame: Frame, outer: tuple[Index, ...]) -> tuple[Data, Data]:
        """Rows of a problem as matrix and right side: few, where many were turned into a triangle beforehand."""
        found = self.memo.get(node("triangle", frame, part))
        if found is None:
            return Rows(self, part, frame, outer).numbers()
        root = _root(self.product_of(_front(part)[0]).data)
        return root * found.data[:, :-1], root * found.data[:, -1]

    def _triangle(self, this: Node) -> Axes:
        """U of [A b] = Q U, for rows A x = b that data alone decide, up to a weight in front of all of them."""
        frame, part = this.args
        rows = Rows(self, part, frame, ())
        rows.factors = [factor for factor in rows.factors if factor not in _front(part)[0]]
        matrix, right = rows.numbers()
        return Axes(qr(self.xp.concatenate([matrix, right[:, None]], axis=1))[1], ())

    def _lse(self, this: Node) -> Axes:
        over, body = self.opened(this)
        found = self.of(body)
        axes = tuple(i for i in found.of if i not in over)
        inner = tuple(i for i in over if i in found.of)
        unused = math.prod(i.size for i in over if i not in found.of)
        data = aligned(found, (*axes, *inner)).reshape(*(i.size for i in axes), -1)
        return Axes(log_sum_exp(data) + math.log(unused), axes)

    def _chain(self, this: Node) -> Axes:
        """log Σ over paths, of all that start and end anywhere"""
        logits, links, axes = self.potentials(self.opened(this)[1])
        return Axes(chain_evidence(logits, links), axes)

    def potentials(self, body: Node) -> tuple[Data, Data, tuple[Index, ...]]:
        """Logits [… batch, t, k] and links [… batch, t, k, next] of a chain, and the batch."""
        t, k, following = (part.args[0] for part in body.args[1:4])
        logit, link = (self.of(part) for part in body.args[4:])
        axes = tuple(i for i in _union([logit, link]) if i not in (t, k, following))
        outer = tuple(i.size for i in axes)
        logits = self.xp.broadcast_to(aligned(logit, (*axes, t, k)), (*outer, t.size, k.size))
        links = self.xp.broadcast_to(aligned(link, (*axes, t, k, following)), (*outer, t.size, k.size, k.size))
        return logits, links, axes

    def _sum(self, this: Node) -> Axes:
        over, body = self.opened(this)
        factors = list(body.args) if body.kind == "mul" else [(body, 1.0)]
        tests = self._segments(factors, over)
        if tests:
            return self._by_segments(over, factors, tests)
        found = self._at_entries(over, factors)
        kept = tuple(i for i in found.of if i not in over)
        missing = math.prod(i.size for i in over if i not in found.of)
        gone = tuple(axis for axis, i in enumerate(found.of) if i in over)
        return Axes(self.xp.sum(found.data, axis=gone) * missing, kept)

    def _at_entries(self, over: tuple[Index, ...], factors: list[tuple[Node, float]]) -> Axes:
        """The product of factors; under a test [i = e] of a summed index, what depends on i is read at e alone."""
        for place, (base, _) in enumerate(factors):
            for one, entry in (base.args, base.args[::-1]) if base.kind == "eq" else ():
                inside = one.kind == "index" and one.args[0] in over and one.args[0] not in entry.free
                if inside and is_whole(entry):
                    i, at = one.args[0], self.of(entry)
                    rest = [factor for other, factor in enumerate(factors) if other != place]
                    parts = [(_taken(self.of(part), i, at), e) for part, e in rest if not _is_guard(part, e)]
                    tests = [(_taken(self.of(part), i, at), 1.0) for part, e in rest if _is_guard(part, e)]
                    reached = Axes(((at.data >= 0) & (at.data < i.size)).astype(float), at.of)
                    value = _product([*parts, (Axes(self.xp.asarray(1.0 / i.size), ()), 1.0)])  # i is summed over again
                    return _where(_product([*tests, (reached, 1.0)]), value)
        return self.product_of(factors)

    def _segments(
        self, factors: Sequence[tuple[Node, float]], over: tuple[Index, ...]
    ) -> dict[int, tuple[Index, Node]]:
        """Tests [e = c] of an index c from outside that no other factor has, with e in the indices summed."""
        found: dict[int, tuple[Index, Node]] = {}
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
                    found[place] = (one.args[0], other)
        return found

    def _by_segments(self, over: tuple[Index, ...], factors: list, tests: dict[int, tuple[Index, Node]]) -> Axes:
        """Σ_J [e(J) = c] k(J), for all c at once"""
        found = self.product_of([factor for place, factor in enumerate(factors) if place not in tests])
        kept = tuple(i for i in found.of if i not in over)
        data = self.xp.broadcast_to(aligned(found, (*over, *kept)), tuple(i.size for i in (*over, *kept)))
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
        summed = segment_sums(data.reshape(-1, *data.shape[len(over) :]), target, count + 1)[:count]
        return Axes(summed.reshape(*(i.size for i in classes), *data.shape[len(over) :]), (*classes, *kept))


_OPENED: weakref.WeakKeyDictionary[Node, tuple[tuple[Index, ...], Node]] = weakref.WeakKeyDictionary()


def _opened(this: Node) -> tuple[tuple[Index, ...], Node]:
    found = _OPENED.get(this)
    if found is None:
        found = _OPENED[this] = opened(this)
    return found


def known_parts(roots: Iterable[Node], unknown: Callable[[Node], bool]) -> list[Node]:
    """The largest nodes in these that do not depend on what is unknown: what can be computed beforehand."""
    found: dict[Node, None] = {}
    seen: set[Node] = set()

    def visit(this: Node) -> None:
        if this in seen:
            return
        seen.add(this)
        if not unknown(this) and not _is_piece(this):
            if this.kind not in ("const", "index", "get") and math.prod(i.size for i in this.free) <= LARGEST:
                found.setdefault(this)
            return
        if this.kind in ("logdet", "rss"):
            frame, *rows = this.args
            found.update((node("triangle", frame, part), None) for part in rows if _has_triangle(part, frame, unknown))
        for part in (_opened(this)[1],) if this.kind in BINDERS else children(this):
            visit(part)

    for root in roots:
        visit(root)
    return list(found)


def _front(rows: Node) -> tuple[list[tuple[Node, float]], Node]:
    """The factors of the weight that all rows share, and the rows."""
    over, body = _opened(rows)
    weight = body.args[1]
    factors = list(weight.args) if weight.kind == "mul" else [(weight, 1.0)]
    return [(base, exponent) for base, exponent in factors if not base.free & set(over)], body


def _has_triangle(rows: Node, frame: Frame, unknown: Callable[[Node], bool]) -> bool:
    """Many rows of a single problem, which data alone decide but for a common weight."""
    if frame.length is not None or rows.free or math.prod(rows.args[0]) <= 2 * frame.width:
        return False
    front, body = _front(rows)
    weight, *others = body.args[1:]
    factors = list(weight.args) if weight.kind == "mul" else [(weight, 1.0)]
    inner = [base for base, exponent in factors if (base, exponent) not in front]
    return not any(map(unknown, (*inner, *others)))


def largest(roots: Iterable[Node]) -> tuple[int, int]:
    """The numbers of the largest node in these, and the steps of the longest chain."""
    numbers, steps = 1, 1
    seen: set[Node] = set()
    waiting = list(roots)
    while waiting:
        this = waiting.pop()
        if this in seen:
            continue
        seen.add(this)
        numbers = max(numbers, math.prod(i.size for i in this.free))
        if this.kind in ("logdet", "rss"):
            steps = max(steps, this.args[0].length or 1)
        elif this.kind == "chain":
            steps = max(steps, _opened(this)[1].args[1].args[0].size)
        waiting.extend((_opened(this)[1],) if this.kind in BINDERS else children(this))
    return numbers, steps


def _is_piece(this: Node) -> bool:
    """Part of a least-squares problem or a chain, no number of its own."""
    return this.kind in ("rows", "slopes") or (this.kind == "call" and this.args[0] in ("row", "slope", "potentials"))


def _is_guard(base: Node, exponent: float) -> bool:
    """A test among factors; what is divided by it is none."""
    return exponent > 0 and is_test(base)


def _where(test: Axes, found: Axes) -> Axes:
    """What is found where a test holds, 0 elsewhere, be it infinite there."""
    axes, xp = _union([found, test]), xp_of(found.data, test.data)
    data = xp.where(aligned(test, axes) != 0, aligned(found, axes), 0.0)
    return Axes(xp.broadcast_to(data, tuple(i.size for i in axes)), axes)


def _may_be_infinite(of: Node) -> bool:
    """A logarithm, or one in a sum or in either case of a test."""
    if of.kind in ("where", "add"):
        return any(map(_may_be_infinite, children(of)))
    return of.kind == "call" and of.args[0] == "log"


def _outer(rows: Sequence[Node]) -> tuple[Index, ...]:
    """Indices from outside, in the order in which they were made: there is one problem for each of their values."""
    return tuple(sorted(frozenset().union(*(part.free for part in rows)), key=lambda i: i.serial))


class Rows:
    """One block of rows of a least-squares problem: √weight · (slopes, offset) over a frame and indices of its own."""

    def __init__(self, evaluation: Evaluation, this: Node, frame: Frame, outer: tuple[Index, ...]) -> None:
        self.evaluation, self.width = evaluation, frame.width - 1
        over, body = evaluation.opened(this)
        count = len(frame.axes)
        self.frame = tuple(part.args[0] for part in body.args[1 : 1 + count])
        weight, self.offset, *self.slopes = body.args[1 + count :]
        self.gathered: list[tuple[Index, Axes]] = []
        self.factors = self._read_at_entries(weight, tuple(i for i in over if i not in self.frame))
        gone = {i for i, _ in self.gathered}
        self.over = tuple(i for i in over if i not in self.frame and i not in gone)
        self.frame = (*outer, *self.frame)

    def _read_at_entries(self, weight: Node, over: tuple[Index, ...]) -> list[tuple[Node, float]]:
        """Without the tests [c = e] of a class c that a row is in: what depends on c is read at e alone."""
        factors = list(weight.args) if weight.kind == "mul" else [(weight, 1.0)]
        for factor in list(factors):
            for one, entry in (factor[0].args, factor[0].args[::-1]) if factor[0].kind == "eq" else ():
                inside = one.kind == "index" and one.args[0] in over and not entry.free & {one.args[0], *self.frame}
                if inside and factor in factors and is_whole(entry) and not entry.free & {i for i, _ in self.gathered}:
                    self.gathered.append((one.args[0], self.evaluation.of(entry)))
                    factors.remove(factor)
        return factors

    def _over(self, part: Axes, inner: tuple[Index, ...] = ()) -> Data:
        """Over the frame, the rows and more indices; along the frame, of one entry where it does not change."""
        for i, at in self.gathered:
            part = _taken(part, i, at)
        data = aligned(part, (*self.frame, *self.over, *inner))
        lead = data.shape[: len(self.frame)]
        data = self.evaluation.xp.broadcast_to(data, (*lead, *(i.size for i in (*self.over, *inner))))
        return data.reshape(*lead, math.prod(i.size for i in self.over), *(i.size for i in inner))

    def numbers(self) -> tuple[Data, Data]:
        """The matrix [… frame, row, column] and the right side [… frame, row]."""
        of = self.evaluation.of
        weight = self._over(self.evaluation.product_of(self.factors))
        for i, at in self.gathered:
            weight = weight * self._over(Axes(((at.data >= 0) & (at.data < i.size)).astype(float), at.of))
        root = _root(weight)
        matrix = self.evaluation.xp.zeros((*root.shape, self.width))
        for slope in self.slopes:
            inner, entry = self.evaluation.opened(slope)
            place, coefficient = entry.args[1:]
            numbers = self._over(of(coefficient), inner)
            numbers = numbers.reshape(*numbers.shape[: len(self.frame) + 1], -1)
            if not place.leaves and place.free <= set(inner):  # the same columns in every row
                columns = self.evaluation.xp.broadcast_to(
                    aligned(of(place), inner), tuple(i.size for i in inner)
                ).reshape(-1)
                matrix = matrix + numbers @ one_hot(columns, self.width, numbers.dtype)
            else:
                columns = self._over(of(place), inner)
                columns = columns.reshape(*columns.shape[: len(self.frame) + 1], -1)
                spread = one_hot(columns, self.width, numbers.dtype)
                matrix = matrix + self.evaluation.xp.sum(numbers[..., None] * spread, axis=-2)
        return root[..., None] * matrix, root * self._over(of(self.offset))


def _root(weight: Data) -> Data:
    """√weight, with a derivative at 0, where a row counts for nothing"""
    xp = xp_of(weight)
    return xp.where(weight == 0, 0.0, xp.sqrt(xp.where(weight == 0, 1.0, weight)))


def _union(parts: Sequence[Axes]) -> tuple[Index, ...]:
    return tuple(dict.fromkeys(i for part in parts for i in part.of))


def aligned(part: Axes, axes: tuple[Index, ...]) -> Data:
    """With an axis for each of these indices; those it does not have are of one entry."""
    order = [part.of.index(i) for i in axes if i in part.of]
    shape = [i.size if i in part.of else 1 for i in axes]
    return part.data.transpose(order).reshape(shape) if axes else part.data


def _product(parts: Sequence[tuple[Axes, float]]) -> Axes:
    axes, xp = _union([part for part, _ in parts]), xp_of(*(part.data for part, _ in parts))
    found: Any = 1.0
    for part, exponent in parts:
        found = found * _raised(aligned(part, axes), exponent)
    return Axes(xp.broadcast_to(found, tuple(i.size for i in axes)), axes)


def _taken(part: Axes, i: Index, at: Axes) -> Axes:
    """A part that depends on i, read at i = at."""
    if i not in part.of:
        return part
    others = tuple(other for other in part.of if other is not i)
    kept = tuple(other for other in others if other not in at.of)
    xp = xp_of(part.data, at.data)
    places = xp.clip(at.data.astype(int), 0, i.size - 1)
    shared = tuple(other for other in others if other in at.of)
    data = xp.transpose(part.data, [part.of.index(other) for other in (i, *shared, *kept)])
    grid = [xp.arange(other.size).reshape([-1 if o is other else 1 for o in at.of]) for other in shared]
    return Axes(data[(places, *grid)], (*at.of, *kept))


def _raised(data: Data, exponent: float) -> Data:
    data = data * 1.0  # whole numbers would overflow
    if exponent == 1:
        return data
    if exponent == 0.5:
        return xp_of(data).sqrt(data)
    if exponent == -0.5:
        return 1.0 / xp_of(data).sqrt(data)
    return data ** (int(exponent) if exponent == int(exponent) else exponent)
