"""How the entries of coupled latents lie: independent axes, a chain that couples neighbours, and a cell."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fubini.algebra.binding import replaced
from fubini.algebra.build import ONE, ZERO, as_product, const, equal, index, less, minus, plus, scale, times
from fubini.algebra.features import Place, Slope
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.ranges import bounds
from fubini.numerics.least_squares import Unknowns

FEW = 1_000  # places beyond the ends that are looked at one by one


class CoupledSquare(NamedTuple):
    """Σ_J −½ weight · (slopes · latents − offset)²"""

    over: tuple[Index, ...]
    weight: Node
    slopes: tuple[tuple[Leaf, Slope], ...]
    offset: Node


class AxisRange(NamedTuple):
    """The position of a square along an axis: i + low of an index i that it is summed over, or low; and its extent."""

    of: Index | None
    low: int
    lags: tuple[int, ...]  # of each slope

    @property
    def spread(self) -> int:
        """The largest distance between entries that it couples."""
        return max(self.lags)


class Placed(NamedTuple):
    """A square over the indices of the frame, and those of its rows."""

    frame: tuple[Index, ...]
    over: tuple[Index, ...]
    weight: Node
    slopes: tuple[tuple[Leaf, Slope], ...]
    lags: tuple[int, ...]
    offset: Node


class LatentLayout(NamedTuple):
    """The frame, which axes of the latents make it, and where each latent begins in a cell."""

    independent: tuple[Index, ...]  # one problem for each of their places
    frame: Unknowns
    axes: tuple[int, ...]  # the independent ones, then that of the chain
    first: Mapping[Leaf, int]
    flipped: bool  # the chain begins at its end

    @property
    def shape(self) -> tuple[int, ...]:
        """The independent axes, that of the chain, and the unknowns of a cell."""
        return (*(i.size for i in self.independent), *self.frame.axes, self.frame.cell)

    @property
    def size(self) -> int:
        """The number of unknowns."""
        return math.prod(self.shape)

    def placed(self, square: CoupledSquare) -> Placed:
        """Replace the indices that it is summed over by those of the frame."""
        names: dict[Node, Node] = {}
        tests, lags = ONE, (0,) * len(square.slopes)
        frame = tuple(Index(size, "t") for size in self.frame.axes)
        for axis, t in zip(self.axes, (*self.independent, *frame), strict=True):
            steps = _steps(square, axis)
            assert steps is not None
            in_chain = t in frame
            here = index(t)
            low = steps.low
            if in_chain:
                lags = steps.lags
                if self.flipped:  # the last of the coupled entries comes first
                    here = minus(const(t.size - 1.0 - steps.spread), here)
                    lags = tuple(steps.spread - lag for lag in lags)
            back = minus(here, const(float(low)))
            if steps.of is None:
                tests = times(tests, equal(here, const(float(low))))
            else:
                names[index(steps.of)] = back
                tests = times(tests, tests_of_range(back, steps.of.size))
        over = tuple(i for i in square.over if index(i) not in names)
        slopes = tuple((leaf, _moved(slope, names)) for leaf, slope in square.slopes)
        weight, offset = times(tests, replaced(square.weight, names)), replaced(square.offset, names)
        return Placed(frame, (*frame, *over), weight, slopes, lags, offset)

    def column(self, latent: Leaf, place: Place, lag: int) -> Node:
        """The column of an entry in a row."""
        offset = ZERO
        for axis, (part, size) in enumerate(zip(place, latent.shape, strict=True)):
            if axis not in self.axes:
                offset = plus(scale(float(size), offset), part)
        return plus(offset, const(float(self.first[latent] + lag * self.frame.cell)))


def _moved(slope: Slope, names: Mapping[Node, Node]) -> Slope:
    place = tuple(replaced(part, names) for part in slope.place)
    return Slope(slope.over, replaced(slope.coefficient, names), place)


def tests_of_range(of: Node, size: int) -> Node:
    """[0 ≤ a < size] of a whole number"""
    return times(less(const(-1.0), of), less(of, const(float(size))))


def layout_of(squares: Sequence[CoupledSquare], latents: tuple[Leaf, ...]) -> LatentLayout:
    """Find as many independent axes as there are, then one chain; the other axes make a cell."""
    independent: list[int] = []
    chain: tuple[int, bool] | None = None
    for axis in range(min(len(latent.shape) for latent in latents)):
        if len({latent.shape[axis] for latent in latents}) > 1:
            continue
        steps = [_steps(square, axis) for square in squares]
        if any(step is None for step in steps) or _shares(squares, (*independent, axis)):
            continue
        known = [step for step in steps if step is not None]
        spread = max(step.spread for step in known)
        if spread == 0:
            independent.append(axis)
        elif spread == 1 and chain is None and _links_all(squares, known, latents[0].shape[axis]):
            chain = _chain(known, axis, latents[0].shape[axis])
    axes = (*independent, *([] if chain is None else [chain[0]]))
    if chain is not None and _shares(squares, axes):
        chain, axes = None, tuple(independent)
    first, cell = {}, 0
    for latent in latents:
        first[latent] = cell
        cell += math.prod(size for axis, size in enumerate(latent.shape) if axis not in axes)
    length = None if chain is None else latents[0].shape[chain[0]]
    each = tuple(Index(latents[0].shape[axis], "n") for axis in independent)
    return LatentLayout(each, Unknowns(length, cell), axes, first, chain is not None and chain[1])


def _links_all(squares: Sequence[CoupledSquare], steps: Sequence[AxisRange], length: int) -> bool:
    """Whether some square couples every unknown of a chain to the next."""
    for square, step in zip(squares, steps, strict=True):
        i = step.of
        if step.spread != 1 or i is None or step.low > 0 or step.low + i.size < length - 1:
            continue
        looked = {0, (length - 2) // 2, length - 2}
        if all(replaced(square.weight, {index(i): const(float(t - step.low))}) is not ZERO for t in looked):
            return True
    return False


def _chain(steps: Iterable[AxisRange], axis: int, size: int) -> tuple[int, bool] | None:
    """The axis of a chain, and whether its first unknown is the last: the one that has rows of its own."""
    alone = [step for step in steps if step.spread == 0]
    if any(step.low == 0 for step in alone):
        return axis, False
    ends = {step.low + (1 if step.of is None else step.of.size) for step in alone}
    return (axis, True) if size in ends else None


def _shares(squares: Sequence[CoupledSquare], axes: tuple[int, ...]) -> bool:
    """Whether one index is the position along two of the axes."""
    for square in squares:
        used = [step.of for axis in axes if (step := _steps(square, axis)) is not None and step.of is not None]
        if len(set(used)) < len(used):
            return True
    return False


def is_inside(place: Node, size: int, weight: Node) -> bool:
    """An index is between 0 and size − 1, or the weight is 0 where it is not; of no indices, all are."""
    if any(i.size == 0 for i in place.free):
        return True
    low, high = _tested_bounds(place, weight)
    if low >= 0 and high <= size - 1:
        return True
    step = place_along(place, tuple(place.free))
    i, shift = step or (None, 0)
    if i is None:
        return False
    outside = [value for value in (*range(min(-shift, i.size)), *range(max(size - shift, 0), i.size))]
    if len(outside) > FEW:
        return False
    return all(replaced(weight, {index(i): const(float(value))}) is ZERO for value in outside)


def _tested_bounds(place: Node, weight: Node) -> tuple[float, float]:
    """The bounds of a whole number where the tests of a weight hold."""
    low, high = bounds(place)
    _, factors = as_product(weight)
    for test in (factor for factor in factors if factor.kind == "lt"):
        a, b = test.args
        if a is place and b.kind == "const":
            high = min(high, math.ceil(b.args[0]) - 1.0)
        elif b is place and a.kind == "const":
            low = max(low, math.floor(a.args[0]) + 1.0)
    return low, high


def _steps(square: CoupledSquare, axis: int) -> AxisRange | None:
    places = [place_along(slope.place[axis], square.over) for _, slope in square.slopes]
    if any(place is None for place in places):
        return None
    if not all(is_inside(slope.place[axis], leaf.shape[axis], square.weight) for leaf, slope in square.slopes):
        return None
    known = [place for place in places if place is not None]
    if len({of for of, _ in known}) != 1:
        return None
    low = min(c for _, c in known)
    return AxisRange(known[0][0], low, tuple(c - low for _, c in known))


def place_along(place: Node, over: tuple[Index, ...]) -> tuple[Index | None, int] | None:
    """i + c, or c"""
    if place.kind == "const":
        return None, int(place.args[0])
    if place.kind == "index" and place.args[0] in over:
        return place.args[0], 0
    if place.kind == "add":
        terms = dict(place.args)
        shift = terms.pop(ONE, 0.0)
        if len(terms) == 1:
            ((part, coefficient),) = terms.items()
            if coefficient == 1 and part.kind == "index" and part.args[0] in over:
                return part.args[0], int(shift)
    return None
