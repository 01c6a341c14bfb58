"""Normal latents that a long linear recursion takes step by step: rows have its outputs in them, not its inputs.

Σ_i A[t, i] g(i) x[i] with the matrix A of a recursion is an output of it, for the inputs u_i = g(i) x[i]. With x that has
an axis of steps, and other latents that may be in all rows, the problem is solved from step to step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fubini.algebra.binding import closed, replaced
from fubini.algebra.build import ONE, ZERO, const, equal, index, minus, multiply, plus, scale, times
from fubini.algebra.features import NoClosedForm, Place, Slope
from fubini.algebra.node import Index, Leaf, Node, node
from fubini.algebra.responses import response_in, split_response
from fubini.integrate.coupling import CoupledSquare, LatentLayout, is_inside, place_along, tests_of_range
from fubini.integrate.sparse_layout import has_more_indices
from fubini.numerics.least_squares import Inputs, LinearRecursions, RecursionBlock, Unknowns

MOST_OTHERS = 200  # latents without steps: each is in the state of all steps
MOST_MADE = 4_000_000  # entries of a matrix that is made where there is no such layout


class Input(NamedTuple):
    """An array that a recursion takes its inputs from: its matrix, the latent, its axis of steps, and g, closed."""

    matrix: Leaf
    latent: Leaf
    axis: int
    rows: tuple[Index, ...]
    gain: Node
    place: Place

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for inputs that are the same."""
        return self.matrix, self.latent, closed("rows", self.rows, node("call", "row", *map(index, self.rows), self.gain, *self.place))


class Output(NamedTuple):
    """A coefficient times the outputs of a recursion at a place, of some inputs."""

    coefficient: Node
    place: tuple[Node, ...]
    inputs: tuple[Input, ...]


class StepSquare(NamedTuple):
    """A square whose outputs and latents with steps are all of one step; None: it has none of these."""

    square: CoupledSquare
    outputs: tuple[Output, ...]
    slopes: tuple[tuple[Leaf, Slope], ...]  # the others
    time: Node | None


def recursion_block(
    squares: Sequence[CoupledSquare], latents: tuple[Leaf, ...], common: Mapping[Node, float]
) -> tuple[LatentLayout, tuple[Node, ...]] | None:
    """The layout and the nodes of such a problem; None where no square has outputs, or their matrix is as well made."""
    matrices = {leaf for square in squares for _, slope in square.slopes if (leaf := response_in(slope.coefficient)) is not None}
    if not matrices:
        return None
    problem = _problem(squares, latents)
    if problem is not None:
        return problem.layout(), problem.nodes(common)
    if any(math.prod(leaf.shape) > MOST_MADE for leaf in matrices):
        raise NoClosedForm(
            *(latents[0], squares[0].weight),
            "rows of the outputs of a linear recursion at one step each, beside what goes into it at that step and at "
            f"most {MOST_OTHERS} other numbers, as its matrix has too many entries to be made",
        )
    return None


def _problem(squares: Sequence[CoupledSquare], latents: tuple[Leaf, ...]) -> Problem | None:
    if any(map(has_more_indices, squares)):
        return None
    axes: dict[Leaf, int] = {}
    split: list[tuple[CoupledSquare, list[Output], list[tuple[Leaf, Slope]]]] = []
    for square in squares:
        outputs: list[tuple[Node, tuple[Node, ...], Input]] = []
        others: list[tuple[Leaf, Slope]] = []
        for latent, slope in square.slopes:
            if response_in(slope.coefficient) is None:
                others.append((latent, slope))
                continue
            output = _output(latent, slope)
            if output is None or axes.setdefault(latent, output[2].axis) != output[2].axis:
                return None
            outputs.append(output)
        joined = _joined(outputs)
        if joined is None:
            return None
        split.append((square, joined, others))
    reversals = {part.matrix.response.is_reversed for _, outputs, _ in split for out in outputs for part in out.inputs}
    lengths = {latent.shape[axis] for latent, axis in axes.items()}
    if len(reversals) != 1 or len(lengths) != 1 or not _are_alike([out for _, outs, _ in split for out in outs]):
        return None
    (length,), (is_reversed,) = lengths, reversals
    timed = [_timed(square, outs, others, axes, length) for square, outs, others in split]
    rest = [latent for latent in latents if latent not in axes]
    if any(square is None for square in timed) or sum(math.prod(leaf.shape) for leaf in rest) > MOST_OTHERS:
        return None
    return Problem(latents, axes, [square for square in timed if square is not None], length, is_reversed)


def _output(latent: Leaf, slope: Slope) -> tuple[Node, tuple[Node, ...], Input] | None:
    """A slope as a coefficient times an output of a recursion."""
    split = split_response(slope.over, slope.coefficient)
    if split is None or set(slope.over) - set(split.inner) or not split.inner:
        return None
    steps = split.inner[0]
    axis = next((axis for axis, part in enumerate(slope.place) if part is index(steps)), None)
    places = frozenset().union(*(part.free for part in slope.place))
    gain = multiply(split.inside)
    if axis is None or latent.shape[axis] != steps.size or (places | gain.free) - set(split.inner):
        return None
    if any(steps in part.free for k, part in enumerate(slope.place) if k != axis):
        return None
    if not all(is_inside(part, size, ONE) for part, size in zip(slope.place, latent.shape, strict=True)):
        return None
    part = Input(split.leaf, latent, axis, split.inner, gain, slope.place)
    return multiply(split.outside), split.places, part


def _joined(outputs: Sequence[tuple[Node, tuple[Node, ...], Input]]) -> list[Output] | None:
    """Parts of one recursion together, which all stand at one place and have one coefficient."""
    by_recursion: dict[Node, list[tuple[Node, tuple[Node, ...], Input]]] = {}
    for output in outputs:
        by_recursion.setdefault(output[2].matrix.response.transition, []).append(output)
    if any(len({(coefficient, place) for coefficient, place, _ in parts}) > 1 for parts in by_recursion.values()):
        return None
    return [Output(*parts[0][:2], tuple(part for _, _, part in parts)) for parts in by_recursion.values()]


def _are_alike(outputs: Sequence[Output]) -> bool:
    """Whether each recursion has the same inputs wherever it stands."""
    inputs: dict[Node, frozenset[object]] = {}
    for output in outputs:
        keys = frozenset(part.key for part in output.inputs)
        if inputs.setdefault(output.inputs[0].matrix.response.transition, keys) != keys:
            return False
    return True


def _timed(
    square: CoupledSquare,
    outputs: Sequence[Output],
    others: Sequence[tuple[Leaf, Slope]],
    axes: Mapping[Leaf, int],
    length: int,
) -> StepSquare | None:
    """A square with its step; None where it is of several steps, or of one that is not known."""
    last = const(0.0 if any(_response(out).is_reversed for out in outputs) else length - 1.0)
    times_ = {last if _response(out).is_last else out.place[0] for out in outputs}
    times_ |= {slope.place[axes[latent]] for latent, slope in others if latent in axes}
    if not times_:
        return StepSquare(square, (), tuple(others), None)
    if len(times_) > 1:
        return None
    (time,) = times_
    if place_along(time, square.over) is None or not is_inside(time, length, square.weight):
        return None
    if any(slope.over for latent, slope in others if latent in axes):
        return None
    return StepSquare(square, tuple(outputs), tuple(others), time)


def _response(output: Output):
    return output.inputs[0].matrix.response


class Problem(NamedTuple):
    """All squares by their steps, and the axis of steps of each latent that has one."""

    latents: tuple[Leaf, ...]
    axes: Mapping[Leaf, int]
    squares: Sequence[StepSquare]
    length: int
    is_reversed: bool

    @property
    def recursions(self) -> dict[Node, Output]:
        """Each recursion, by its matrices, with its inputs."""
        every = [output for square in self.squares for output in square.outputs]
        return {_response(output).transition: output for output in reversed(every)}

    @property
    def first(self) -> dict[Leaf, int]:
        """The place of each latent among all unknowns, end to end."""
        sizes = [math.prod(latent.shape) for latent in self.latents]
        return {latent: sum(sizes[:k]) for k, latent in enumerate(self.latents)}

    @property
    def frame(self) -> Unknowns:
        """The sizes of the problem."""
        first, others = self.first, [latent for latent in self.latents if latent not in self.axes]
        inputs = tuple(Inputs(first[latent], latent.shape, self.axes[latent]) for latent in self._along)
        blocks = tuple(
            RecursionBlock(_response(output).states, _response(output).sizes[1], len(output.inputs))
            for output in self.recursions.values()
        )
        rows = sum(square.time is not None for square in self.squares)
        counts = tuple((first[latent], math.prod(latent.shape)) for latent in others)
        sizes = LinearRecursions(self.length, inputs, counts, blocks, rows, self.is_reversed)
        return Unknowns(None, sum(math.prod(latent.shape) for latent in self.latents), recursions=sizes)

    @property
    def _along(self) -> list[Leaf]:
        return [latent for latent in self.latents if latent in self.axes]

    @property
    def _columns(self) -> dict[Leaf | Node, int]:
        """The first column of each latent and recursion in a row."""
        columns: dict[Leaf | Node, int] = {}
        start = 0
        for latent in (*self._along, *(latent for latent in self.latents if latent not in self.axes)):
            columns[latent] = start
            start += math.prod(latent.shape) // (self.length if latent in self.axes else 1)
        for transition, output in self.recursions.items():
            columns[transition] = start
            start += _response(output).sizes[1]
        return columns

    def layout(self) -> LatentLayout:
        """All entries of the latents end to end."""
        return LatentLayout((), self.frame, (), self.first, flipped=False)

    def nodes(self, common: Mapping[Node, float]) -> tuple[Node, ...]:
        """The matrices and inputs of each recursion, the rows of steps, and those of the other latents."""
        made: list[Node] = []
        for transition, output in self.recursions.items():
            ordered = sorted(output.inputs, key=lambda part: part.matrix.response.first_input)
            made.extend((transition, *map(self._input_rows, ordered)))
        along = [square for square in self.squares if square.time is not None]
        alone = [square for square in self.squares if square.time is None]
        return (*made, *(self._rows(square, common) for square in (*along, *alone)))

    def _input_rows(self, part: Input) -> Node:
        steps, *others = part.rows
        column = self._column(part.latent, part.place)
        slope = closed("slopes", (), node("call", "slope", column, part.gain))
        return closed("rows", (steps, *others), node("call", "row", index(steps), ONE, ZERO, slope))

    def _column(self, latent: Leaf, place: Place) -> Node:
        places = [(p, size) for axis, (p, size) in enumerate(zip(place, latent.shape, strict=True)) if axis != self.axes.get(latent)]
        return plus(const(float(self._columns[latent])), _row_major(places))

    def _rows(self, timed: StepSquare, common: Mapping[Node, float]) -> Node:
        """√w (Σ slopes · unknowns − offset), at every step t"""
        square, t = timed.square, Index(self.length, "t")
        names: dict[Node, Node] = {}
        tests, over, frame = ONE, square.over, ()
        if timed.time is not None:
            i, shift = place_along(timed.time, square.over) or (None, 0)
            frame = (t,)
            if i is None:
                tests = equal(index(t), const(float(shift)))
            else:
                names[index(i)] = minus(index(t), const(float(shift)))
                tests = tests_of_range(names[index(i)], i.size)
            over = (t, *(other for other in over if other is not i))
        weight = multiply([(square.weight, 1.0), *((base, -exponent) for base, exponent in common.items())])
        slopes = [_slope(slope.over, self._column(leaf, slope.place), slope.coefficient) for leaf, slope in timed.slopes]
        for output in timed.outputs:
            response = _response(output)
            sizes = output.inputs[0].matrix.shape[: response.output_axes]
            within = list(zip(output.place, sizes, strict=True))[0 if response.is_last else 1 :]
            column = plus(const(float(self._columns[response.transition])), _row_major(within))
            slopes.append(_slope((), column, output.coefficient))
        parts = [replaced(part, names) for part in (square.offset, *slopes)]
        body = node("call", "row", *map(index, frame), times(tests, replaced(weight, names)), *parts)
        return closed("rows", over, body)


def _slope(over: Sequence[Index], column: Node, coefficient: Node) -> Node:
    return closed("slopes", over, node("call", "slope", column, coefficient))


def _row_major(places: Sequence[tuple[Node, int]]) -> Node:
    column = ZERO
    for part, size in places:
        column = plus(scale(float(size), column), part)
    return column
