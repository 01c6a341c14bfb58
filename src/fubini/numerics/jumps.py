"""Functions that jump where a number crosses another, and are constant in between: read from their jaxpr.

Each value in the jaxpr is constant, affine in the variables, or constant between jumps. A comparison of an affine value
of one element with a constant makes a jump; any other use of the variables ends the reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core as jax_core

from fubini.base.arrays import Data, is_traced

COMPARISONS = {"lt": (-1, False), "le": (-1, True), "gt": (1, False), "ge": (1, True)}
LINEAR = frozenset(
    (
        *("add", "sub", "neg", "mul", "div", "dot_general", "reduce_sum", "convert_element_type", "copy"),
        *("slice", "squeeze", "broadcast_in_dim", "reshape", "transpose", "concatenate", "rev", "pad"),
        *("gather", "dynamic_slice", "expand_dims", "stop_gradient", "real"),
    )
)
CALLS = frozenset(("pjit", "jit", "closed_call", "custom_jvp_call", "custom_vjp_call", "remat", "checkpoint"))


class Opaque(Exception):
    """A use of the variables that is no comparison with a constant."""


class Jump(NamedTuple):
    """One element of a comparison: true above the edge of an axis, or below it; axis −1 where it is constant."""

    axis: np.ndarray  # of each element of the comparison
    edge: np.ndarray
    above: np.ndarray  # true above the edge


class PieceReading(NamedTuple):
    """For each axis its edges in order, and the function of the numbers of edges below the variables."""

    edges: list[np.ndarray]
    at: Callable[[Sequence[Data]], Data]


def read_jumps(function: Callable[[Data], Data], size: int) -> PieceReading | None:
    """The edges of a function of `size` numbers, and its value between them; None where it is anything else."""
    try:
        with jax.ensure_compile_time_eval():
            closed = jax.make_jaxpr(function)(jnp.zeros(size))
            points = np.concatenate([np.zeros((1, size)), np.eye(size)])
            jumps: list[Jump] = []
            _Walk(jumps, None).run(closed.jaxpr, closed.consts, [_Affine(points)])
    except Opaque:
        return None
    edges = [np.unique(np.concatenate([np.zeros(0), *(j.edge[j.axis == k] for j in jumps)])) for k in range(size)]

    def at(below: Sequence[Data]) -> Data:
        truths = [_truth(jump, edges, below) for jump in jumps]
        (result,) = _Walk([], iter(truths)).run(closed.jaxpr, closed.consts, [_Affine(points)])
        return result.value if isinstance(result, _Piece) else result

    return PieceReading(edges, at)


def read_affine(function: Callable[[Data], Data], size: int) -> tuple[Data, Data] | None:
    """Constant and slopes [size, ...] of an affine function of `size` numbers; None where it is anything else."""
    try:
        with jax.ensure_compile_time_eval():
            closed = jax.make_jaxpr(function)(jnp.zeros(size))
            points = np.concatenate([np.zeros((1, size)), np.eye(size)])
            (result,) = _Walk([], None).run(closed.jaxpr, closed.consts, [_Affine(points)])
            if isinstance(result, _Piece):
                return None
            moves = isinstance(result, _Affine)
            data = result.points if moves else jnp.broadcast_to(result, (size + 1, *jnp.shape(result)))
            return data[0], data[1:] - data[0]
    except Opaque:
        return None


def _truth(jump: Jump, edges: Sequence[np.ndarray], below: Sequence[Data]) -> Data:
    """Whether each element of a comparison holds, given how many edges are below each variable."""
    rank = np.zeros(jump.axis.shape, int)
    for k, own in enumerate(edges):
        rank = np.where(jump.axis == k, np.searchsorted(own, np.where(jump.axis == k, jump.edge, 0.0)), rank)
    counts = jnp.stack([jnp.asarray(count) for count in below])[np.maximum(jump.axis, 0)]
    return jnp.where(jump.axis < 0, jump.above, (counts > rank) == jump.above)


class _Affine(NamedTuple):
    """Values at the origin and at each unit vector, along the first axis."""

    points: Data


class _Piece(NamedTuple):
    """A value that is constant between jumps; None while the jumps are being collected."""

    value: Any


class _Walk:
    """One way through a jaxpr: collecting jumps, or computing with known truths of the comparisons."""

    def __init__(self, jumps: list[Jump], truths: Iterator[Data] | None) -> None:
        self.jumps, self.truths = jumps, truths

    def run(self, jaxpr: Any, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
        values: dict[Any, Any] = {}
        values.update(zip(jaxpr.constvars, consts, strict=True))
        values.update(zip(jaxpr.invars, args, strict=True))

        def read(var: Any) -> Any:
            return var.val if isinstance(var, jax_core.Literal) else values[var]

        for equation in jaxpr.eqns:
            outs = self.step(equation, [read(var) for var in equation.invars])
            values.update(zip(equation.outvars, outs, strict=True))
        return [read(var) for var in jaxpr.outvars]

    def step(self, equation: Any, args: list[Any]) -> list[Any]:
        name = equation.primitive.name
        affine, pieces = (any(isinstance(arg, kind) for arg in args) for kind in (_Affine, _Piece))
        if name in CALLS:
            inner = next(equation.params[key] for key in ("jaxpr", "call_jaxpr", "fun_jaxpr") if key in equation.params)
            closed = inner if hasattr(inner, "consts") else None
            return self.run(inner.jaxpr if closed else inner, inner.consts if closed else (), args)
        if name in COMPARISONS and affine:
            return [self.compare(name, args)]
        if affine:
            return [_Affine(self.linear(equation, args, pieces))]
        if not pieces:
            return _bind(equation, args)
        if self.truths is None:
            return [_Piece(None) for _ in equation.outvars]
        return [_Piece(out) for out in _bind(equation, [a.value if isinstance(a, _Piece) else a for a in args])]

    def linear(self, equation: Any, args: list[Any], pieces: bool) -> Data:
        """An equation that is linear in the variables, at all points at once."""
        name = equation.primitive.name
        moving = [isinstance(arg, _Affine) for arg in args]
        bilinear = name in ("mul", "dot_general") and sum(moving) > 1
        indexed = name in ("gather", "dynamic_slice", "div", "pad") and any(moving[1:])
        if name not in LINEAR or pieces or bilinear or indexed:
            raise Opaque
        axes = tuple(0 if is_moving else None for is_moving in moving)
        plain = [arg.points if isinstance(arg, _Affine) else arg for arg in args]

        def one(*given: Any) -> Data:
            return _bind(equation, given)[0]

        out = jax.vmap(one, in_axes=axes)(*plain)
        if not is_traced(out) and not jnp.issubdtype(out.dtype, jnp.floating):
            raise Opaque  # rounded to an integer
        return out

    def compare(self, name: str, args: list[Any]) -> Any:
        if self.truths is not None:
            return _Piece(next(self.truths))
        if any(isinstance(arg, _Piece) for arg in args):
            raise Opaque
        left, right = (arg.points if isinstance(arg, _Affine) else jnp.asarray(arg)[None] for arg in args)
        gap = left - right
        if is_traced(gap):
            raise Opaque
        self.jumps.append(_jump(np.asarray(gap, np.float64), *COMPARISONS[name]))
        return _Piece(None)


def _jump(gap: np.ndarray, sign: int, or_equal: bool) -> Jump:
    """Where sign · gap > 0, the gap being given at the origin and at each unit vector."""
    slopes = gap[1:] - gap[0]
    moving = slopes != 0
    if (moving.sum(axis=0) > 1).any():
        raise Opaque  # a cut that is not along an axis
    still = ~moving.any(axis=0)
    axis = np.where(still, -1, moving.argmax(axis=0))
    slope = np.where(still, 1.0, slopes.sum(axis=0))
    holds = sign * gap[0] >= 0 if or_equal else sign * gap[0] > 0
    return Jump(axis, np.where(still, 0.0, -gap[0] / slope), np.where(still, holds, sign * slope > 0))


def _bind(equation: Any, args: Sequence[Any]) -> list[Any]:
    out: Any = equation.primitive.bind(*(jnp.asarray(arg) for arg in args), **equation.params)
    return list(out) if equation.primitive.multiple_results else [out]
