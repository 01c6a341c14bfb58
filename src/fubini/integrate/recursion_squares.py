"""Squares that have outputs of linear recursions in them, in place of what goes into these.

Σ_i A[t, i] g(i) x[i] with the matrix A of a recursion is an output of it, for the inputs u_i = g(i) x[i].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fubini.algebra.binding import closed
from fubini.algebra.build import ONE, const, divide, index, multiply, times
from fubini.algebra.features import Place, Slope
from fubini.algebra.leaf import Response
from fubini.algebra.node import Index, Leaf, Node, node
from fubini.algebra.responses import response_term, split_response
from fubini.integrate.coupling import CoupledSquare, is_inside, place_along
from fubini.integrate.elimination import is_never_zero


class Input(NamedTuple):
    """An array that a recursion takes its inputs from: its matrix, the latent, its axis of steps, and g, closed."""

    matrix: Leaf
    response: Response
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
        """Equal for outputs of the same entries with the same coefficients, whatever factor is in front."""
        return closed("slopes", self.over, node("call", "slope", self.coefficient, *self.place))

    @property
    def matrices(self) -> list[list[Input]]:
        """The inputs by their matrix, in the order of these."""
        firsts = sorted({part.response.first_input for part in self.inputs})
        return [[part for part in self.inputs if part.response.first_input == first] for first in firsts]

    @property
    def response(self) -> Response:
        """The recursion that it is an output of."""
        return self.inputs[0].response


class StepSquare(NamedTuple):
    """A square whose outputs and latents with steps are all of one step; None: it has none of these."""

    square: CoupledSquare
    outputs: tuple[Output, ...]
    slopes: tuple[tuple[Leaf, Slope], ...]  # the others
    time: Node | None


def is_of_outputs(slope: Slope) -> bool:
    """Whether it has outputs of a recursion that the latent goes into."""
    term = response_term(slope.coefficient)
    return term is not None and bool(term.inputs & set(slope.over))


def output_of(latent: Leaf, slope: Slope) -> Output | None:
    """A slope as a coefficient times outputs of a recursion."""
    term = response_term(slope.coefficient)
    assert term is not None
    split = split_response((*slope.over, *term.over), term.product)
    if split is None or set(slope.over) - set(split.inner):
        return None
    steps, *entries = split.inner
    if len(entries) > 1:  # of a slice
        return None
    inner = set(split.inner)
    axes = [axis for axis, part in enumerate(slope.place) if steps in part.free]
    places = {i for part in slope.place for i in part.free}
    gain = multiply(split.inside)
    if len(axes) != 1 or slope.place[axes[0]] is not index(steps) or latent.shape[axes[0]] != steps.size:
        return None
    if (places | gain.free) - inner:
        return None
    if not all(is_inside(part, size, ONE) for part, size in zip(slope.place, latent.shape, strict=True)):
        return None
    part = Input(split.leaf, split.response, latent, axes[0], split.inner, gain, slope.place)
    front = multiply((base, e) for base, e in split.outside if not base.free)
    coefficient = multiply((base, e) for base, e in split.outside if base.free)
    return Output(tuple(i for i in term.over if i not in inner), front, coefficient, split.places, (part,))


def join_outputs(outputs: Sequence[Output]) -> list[Output] | None:
    """Parts of one recursion together, which are all of the same entries: a (A g x + c A h y)  =  a A (g x + c h y)"""
    by_recursion: dict[Node, list[Output]] = {}
    for output in outputs:
        by_recursion.setdefault(output.response.transition, []).append(output)
    joined: list[Output] = []
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


def have_same_inputs(outputs: Sequence[Output]) -> bool:
    """Whether each recursion has the same inputs wherever it stands."""
    inputs: dict[Node, frozenset[object]] = {}
    for output in outputs:
        keys = frozenset(part.key for part in output.inputs)
        if inputs.setdefault(output.response.transition, keys) != keys:
            return False
    return True


def at_step(
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
