"""Normal latents that a long linear recursion takes step by step: rows have its outputs in them, not its inputs.

With latents that have an axis of steps, and few others that may be in all rows, the problem is solved step by step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fubini.algebra.binding import closed, replaced
from fubini.algebra.build import ONE, ZERO, call, const, equal, index, minus, multiply, plus, scale, times
from fubini.algebra.features import NoClosedForm, Place, Slope
from fubini.algebra.node import Index, Leaf, Node, node
from fubini.algebra.responses import MOST_ENTRIES
from fubini.integrate.coupling import CoupledSquare, LatentLayout, tests_of_range
from fubini.integrate.recursion_squares import (
    Input,
    Output,
    StepSquare,
    at_step,
    have_same_inputs,
    is_of_outputs,
    join_outputs,
    output_of,
    step_of,
)
from fubini.integrate.sparse_layout import has_more_indices
from fubini.numerics.least_squares import Inputs, LinearRecursions, RecursionBlock, Unknowns

MOST_OTHERS = 200  # latents without steps: each is in the state of all steps


def recursion_block(
    squares: Sequence[CoupledSquare], latents: tuple[Leaf, ...], common: Mapping[Node, float]
) -> tuple[LatentLayout, tuple[Node, ...]] | None:
    """The layout and the nodes of such a problem; None where no square has outputs, or their matrix is as well made."""
    slopes = [slope for square in squares for _, slope in square.slopes if is_of_outputs(slope)]
    if not slopes:
        return None
    matrices = {leaf for slope in slopes for leaf in slope.coefficient.leaves if leaf.response is not None}
    problem = _problem(squares, latents)
    if problem is not None:
        return problem.layout(), problem.nodes(common)
    if any(math.prod(leaf.shape) > MOST_ENTRIES for leaf in matrices):
        size = max(math.prod(leaf.shape) for leaf in matrices)
        raise NoClosedForm(
            *(latents[0], slopes[0].coefficient),
            "what a linear recursion makes at one step in each normal density, as xs, xs[2:] or masked data have it, "
            f"with at most {MOST_OTHERS} latents beside it: its matrix of {size:,} entries is not made",
        )
    return None


def _problem(squares: Sequence[CoupledSquare], latents: tuple[Leaf, ...]) -> Problem | None:
    if any(map(has_more_indices, squares)):
        return None
    axes: dict[Leaf, int] = {}
    split: list[tuple[CoupledSquare, list[Output], list[tuple[Leaf, Slope]]]] = []
    for square in squares:
        outputs: list[Output] = []
        others: list[tuple[Leaf, Slope]] = []
        for latent, slope in square.slopes:
            if not is_of_outputs(slope):
                others.append((latent, slope))
                continue
            output = output_of(latent, slope)
            if output is None or axes.setdefault(latent, output.inputs[0].axis) != output.inputs[0].axis:
                return None
            outputs.append(output)
        joined = join_outputs(outputs)
        if joined is None:
            return None
        split.append((square, joined, others))
    reversals = {out.response.is_reversed for _, outs, _ in split for out in outs}
    lengths = {latent.shape[axis] for latent, axis in axes.items()}
    if len(reversals) != 1 or len(lengths) != 1 or not have_same_inputs([out for _, outs, _ in split for out in outs]):
        return None
    (length,), (is_reversed,) = lengths, reversals
    timed = [at_step(square, outs, others, axes, length) for square, outs, others in split]
    rest = [latent for latent in latents if latent not in axes]
    if any(square is None for square in timed) or sum(math.prod(leaf.shape) for leaf in rest) > MOST_OTHERS:
        return None
    return Problem(latents, axes, [square for square in timed if square is not None], length, is_reversed)


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
        slopes: list[Node] = []
        for part in parts:
            names = dict(zip(map(index, part.rows), map(index, over), strict=True))
            place = tuple(replaced(at, names) for at in part.place)
            slopes.append(_slope((), self._column(part.latent, place), replaced(part.gain, names)))
        return closed("rows", over, node("call", "row", index(over[0]), ONE, ZERO, *slopes))

    def _column(self, latent: Leaf, place: Place) -> Node:
        places = [
            (p, size)
            for axis, (p, size) in enumerate(zip(place, latent.shape, strict=True))
            if axis != self.axes.get(latent)
        ]
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
                tests = times(
                    tests_of_range(names[index(i)], i.size), equal(scale(float(stride), names[index(i)]), ahead)
                )
            over = (t, *(other for other in over if other is not i))
        weight = multiply([(square.weight, 1.0), *((base, -exponent) for base, exponent in common.items())])
        slopes = [
            _slope(slope.over, self._column(leaf, slope.place), slope.coefficient) for leaf, slope in timed.slopes
        ]
        for output in timed.outputs:
            response = output.response
            sizes = output.inputs[0].matrix.shape[: response.output_axes]
            within = list(zip(output.place, sizes, strict=True))[0 if response.is_last else 1 :]
            column = plus(const(float(self._columns[response.transition])), _row_major(within))
            slopes.append(_slope(output.over, column, times(output.front, output.coefficient)))
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
