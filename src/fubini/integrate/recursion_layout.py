"""Normal latents that a long linear recursion takes step by step: rows have its outputs in them, not its inputs.

Σ_i A[t, i] g(i) x[i] with the matrix A of a recursion is an output of it, for the inputs u_i = g(i) x[i]. With x that has
an axis of steps, and other latents that may be in all rows, the problem is solved from step to step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fubini.algebra.binding import closed, replaced
from fubini.algebra.build import ONE, ZERO, call, const, divide, equal, index, minus, multiply, plus, scale, times
from fubini.algebra.features import NoClosedForm, Place, Slope
from fubini.algebra.leaf import Response
from fubini.algebra.node import Index, Leaf, Node, node
from fubini.algebra.responses import response_term, split_response
from fubini.integrate.coupling import CoupledSquare, LatentLayout, is_inside, place_along, tests_of_range
from fubini.integrate.elimination import is_never_zero
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
    def form(self) -> Node:
        """The entries and g: one node for inputs that are the same."""
        return closed("rows", self.rows, node("call", "row", *map(index, self.rows), self.gain, *self.place))

    @property
    def key(self) -> tuple[Leaf, Leaf, Node]:
        """Equal for inputs that are the same."""
        return self.matrix, self.latent, self.form


class Output(NamedTuple):
    """A number times Σ over some indices of a coefficient times an output of a recursion, of some inputs."""

    over: tuple[Index, ...]
    front: Node  # of all entries
    coefficient: Node
    place: tuple[Node, ...]
    inputs: tuple[Input, ...]

    @property
    def key(self) -> Node:
        """Equal for outputs of the same entries with the same coefficients, but for what is in front."""
        return closed("slopes", self.over, node("call", "slope", self.coefficient, *self.place))

    @property
    def matrices(self) -> list[list[Input]]:
        """The inputs by their matrix, in the order of these."""
        matrices = sorted({part.matrix for part in self.inputs}, key=lambda leaf: leaf.response.first_input)
        return [[part for part in self.inputs if part.matrix is matrix] for matrix in matrices]

    @property
    def response(self) -> Response:
        """The recursion that it is an output of."""
        response = self.inputs[0].matrix.response
        assert response is not None
        return response


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
    slopes = [slope for square in squares for _, slope in square.slopes if _is_of_outputs(slope)]
    if not slopes:
        return None
    matrices = {leaf for slope in slopes for leaf in slope.coefficient.leaves if leaf.response is not None}
    problem = _problem(squares, latents)
    if problem is not None:
        return problem.layout(), problem.nodes(common)
    if any(math.prod(leaf.shape) > MOST_MADE for leaf in matrices):
        size = max(math.prod(leaf.shape) for leaf in matrices)
        raise NoClosedForm(
            *(latents[0], slopes[0].coefficient),
            "what a linear recursion makes at one step in each normal density, as xs, xs[2:] or masked data have it, "
            f"with at most {MOST_OTHERS} latents beside it: its matrix of {size:,} entries is not made",
        )
    return None


def _is_of_outputs(slope: Slope) -> bool:
    """Whether it has outputs of a recursion that the latent goes into."""
    term = response_term(slope.coefficient)
    return term is not None and bool(term.inputs & set(slope.over))


def _problem(squares: Sequence[CoupledSquare], latents: tuple[Leaf, ...]) -> Problem | None:
    if any(map(has_more_indices, squares)):
        return None
    axes: dict[Leaf, int] = {}
    split: list[tuple[CoupledSquare, list[Output], list[tuple[Leaf, Slope]]]] = []
    for square in squares:
        outputs: list[Output] = []
        others: list[tuple[Leaf, Slope]] = []
        for latent, slope in square.slopes:
            if not _is_of_outputs(slope):
                others.append((latent, slope))
                continue
            output = _output(latent, slope)
            if output is None or axes.setdefault(latent, output.inputs[0].axis) != output.inputs[0].axis:
                return None
            outputs.append(output)
        joined = _joined(outputs)
        if joined is None:
            return None
        split.append((square, joined, others))
    reversals = {out.response.is_reversed for _, outs, _ in split for out in outs}
    lengths = {latent.shape[axis] for latent, axis in axes.items()}
    if len(reversals) != 1 or len(lengths) != 1 or not _are_alike([out for _, outs, _ in split for out in outs]):
        return None
    (length,), (is_reversed,) = lengths, reversals
    timed = [_timed(square, outs, others, axes, length) for square, outs, others in split]
    rest = [latent for latent in latents if latent not in axes]
    if any(square is None for square in timed) or sum(math.prod(leaf.shape) for leaf in rest) > MOST_OTHERS:
        return None
    return Problem(latents, axes, [square for square in timed if square is not None], length, is_reversed)


def _output(latent: Leaf, slope: Slope) -> Output | None:
    """A slope as a coefficient times outputs of a recursion."""
    term = response_term(slope.coefficient)
    assert term is not None
    split = split_response((*slope.over, *term.over), term.product)
    if split is None or set(slope.over) - set(split.inner):
        return None
    steps, inner = split.inner[0], set(split.inner)
    axes = [axis for axis, part in enumerate(slope.place) if steps in part.free]
    places = frozenset().union(*(part.free for part in slope.place))
    gain = multiply(split.inside)
    if len(axes) != 1 or slope.place[axes[0]] is not index(steps) or latent.shape[axes[0]] != steps.size:
        return None
    if (places | gain.free) - inner:
        return None
    if not all(is_inside(part, size, ONE) for part, size in zip(slope.place, latent.shape, strict=True)):
        return None
    part = Input(split.leaf, latent, axes[0], split.inner, gain, slope.place)
    front = multiply((base, e) for base, e in split.outside if not base.free)
    coefficient = multiply((base, e) for base, e in split.outside if base.free)
    return Output(tuple(i for i in term.over if i not in inner), front, coefficient, split.places, (part,))


def _joined(outputs: Sequence[Output]) -> list[Output] | None:
    """Parts of one recursion together, which are all of the same entries: a (A g x + c A h y)  =  a A (g x + c h y)"""
    by_recursion: dict[Node, list[Output]] = {}
    for output in outputs:
        by_recursion.setdefault(output.response.transition, []).append(output)
    joined = []
    for parts in by_recursion.values():
        first, *others = sorted(parts, key=lambda part: [key.serial for key in part.inputs[0].key])
        inputs = list(first.inputs)
        for part in others:
            if part.key is not first.key or not (part.front is first.front or is_never_zero(first.front)):
                return None
            share = ONE if part.front is first.front else divide(part.front, first.front)
            inputs.extend(own._replace(gain=times(share, own.gain)) for own in part.inputs)
        joined.append(first._replace(inputs=tuple(inputs)))
    return joined


def _are_alike(outputs: Sequence[Output]) -> bool:
    """Whether each recursion has the same inputs wherever it stands."""
    inputs: dict[Node, frozenset[object]] = {}
    for output in outputs:
        keys = frozenset(part.key for part in output.inputs)
        if inputs.setdefault(output.response.transition, keys) != keys:
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
    last = const(0.0 if any(out.response.is_reversed for out in outputs) else length - 1.0)
    times_ = {last if out.response.is_last else out.place[0] for out in outputs}
    times_ |= {slope.place[axes[latent]] for latent, slope in others if latent in axes}
    if not times_:
        return StepSquare(square, (), tuple(others), None)
    if len(times_) > 1:
        return None
    (time,) = times_
    if step_of(time, square.over) is None or not is_inside(time, length, square.weight):
        return None
    if any(slope.over for latent, slope in others if latent in axes):
        return None
    return StepSquare(square, tuple(outputs), tuple(others), time)


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
        return {output.response.transition: output for output in reversed(every)}

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
            RecursionBlock(output.response.states, output.response.sizes[1], len(output.matrices))
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
            start += output.response.sizes[1]
        return columns

    def layout(self) -> LatentLayout:
        """All entries of the latents end to end."""
        return LatentLayout((), self.frame, (), self.first, flipped=False)

    def nodes(self, common: Mapping[Node, float]) -> tuple[Node, ...]:
        """The matrices and inputs of each recursion, the rows of steps, and those of the other latents."""
        made: list[Node] = []
        for transition, output in self.recursions.items():
            made.extend((transition, *map(self._input_rows, output.matrices)))
        along = [square for square in self.squares if square.time is not None]
        alone = [square for square in self.squares if square.time is None]
        return (*made, *(self._rows(square, common) for square in (*along, *alone)))

    def _input_rows(self, parts: Sequence[Input]) -> Node:
        """The inputs u_i = Σ g(i) x[i] of one matrix."""
        over = parts[0].rows
        slopes = []
        for part in parts:
            names = dict(zip(map(index, part.rows), map(index, over), strict=True))
            place = tuple(replaced(at, names) for at in part.place)
            slopes.append(_slope((), self._column(part.latent, place), replaced(part.gain, names)))
        return closed("rows", over, node("call", "row", index(over[0]), ONE, ZERO, *slopes))

    def _column(self, latent: Leaf, place: Place) -> Node:
        places = [(p, size) for axis, (p, size) in enumerate(zip(place, latent.shape, strict=True)) if axis != self.axes.get(latent)]
        return plus(const(float(self._columns[latent])), _row_major(places))

    def _rows(self, timed: StepSquare, common: Mapping[Node, float]) -> Node:
        """√w (Σ slopes · unknowns − offset), at every step t"""
        square, t = timed.square, Index(self.length, "t")
        names: dict[Node, Node] = {}
        tests, over, frame = ONE, square.over, ()
        if timed.time is not None:
            i, shift, stride = step_of(timed.time, square.over) or (None, 0, 1)
            frame, ahead = (t,), minus(index(t), const(float(shift)))
            if i is None:
                tests = equal(ahead, ZERO)
            else:
                names[index(i)] = ahead if stride == 1 else call("quotient", ahead, const(float(stride)))
                tests = times(tests_of_range(names[index(i)], i.size), equal(scale(float(stride), names[index(i)]), ahead))
            over = (t, *(other for other in over if other is not i))
        weight = multiply([(square.weight, 1.0), *((base, -exponent) for base, exponent in common.items())])
        slopes = [_slope(slope.over, self._column(leaf, slope.place), slope.coefficient) for leaf, slope in timed.slopes]
        for output in timed.outputs:
            response = output.response
            sizes = output.inputs[0].matrix.shape[: response.output_axes]
            within = list(zip(output.place, sizes, strict=True))[0 if response.is_last else 1 :]
            column = plus(const(float(self._columns[response.transition])), _row_major(within))
            slopes.append(_slope(output.over, column, times(output.front, output.coefficient)))
        parts = [replaced(part, names) for part in (square.offset, *slopes)]
        body = node("call", "row", *map(index, frame), times(tests, replaced(weight, names)), *parts)
        return closed("rows", over, body)


def step_of(time: Node, over: tuple[Index, ...]) -> tuple[Index | None, int, int] | None:
    """c i + s, or s: the index i, s and c; None where a step is no such number."""
    if (place := place_along(time, over)) is not None:
        return *place, 1
    if time.kind == "add":
        terms = dict(time.args)
        shift = terms.pop(ONE, 0.0)
        if len(terms) == 1:
            ((part, stride),) = terms.items()
            if part.kind == "index" and part.args[0] in over and stride == int(stride) > 0:
                return part.args[0], int(shift), int(stride)
    return None


def _slope(over: Sequence[Index], column: Node, coefficient: Node) -> Node:
    return closed("slopes", over, node("call", "slope", column, coefficient))


def _row_major(places: Sequence[tuple[Node, int]]) -> Node:
    column = ZERO
    for part, size in places:
        column = plus(scale(float(size), column), part)
    return column
