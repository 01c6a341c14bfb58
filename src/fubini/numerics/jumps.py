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

from fubini.base.arrays import Data, is_traced, namespace

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
    edge: Data
    above: Data  # true above the edge


class PieceReading(NamedTuple):
    """For each axis its edges in order, and the function of the numbers of edges below the variables."""

    edges: list[Data]
    at: Callable[[Sequence[Data]], Data]


def read_jumps(function: Callable[[Data], Data], size: int) -> PieceReading | None:
    """The edges of a function of `size` numbers, and its value between them; None where it is anything else.

    Edges are finite: a comparison with infinity is not read. In a trace they may be numbers that are not known yet,
    unless a variable is multiplied by such a number, which may be zero.
    """
    try:
        with jax.ensure_compile_time_eval():
            closed = jax.make_jaxpr(function)(jnp.zeros(size))
            jumps: list[Jump] = []
            (whole,) = _Walk(jumps, None).run(closed.jaxpr, closed.consts, [_unknowns(size)])
    except Opaque:
        return None
    if isinstance(whole, _Affine):
        return None
    edges = [_sorted([jump.edge.reshape(-1)[np.flatnonzero(jump.axis == k)] for jump in jumps]) for k in range(size)]

    def at(below: Sequence[Data]) -> Data:
        truths = [_truth(jump, edges, below) for jump in jumps]
        (result,) = _Walk([], iter(truths)).run(closed.jaxpr, closed.consts, [_unknowns(size)])
        return result.value if isinstance(result, _Piece) else result

    return PieceReading(edges, at)


def read_affine(function: Callable[[Data], Data], size: int) -> tuple[Data, Data] | None:
    """Constant and slopes [size, ...] of an affine function of `size` numbers; None where it is anything else."""
    try:
        with jax.ensure_compile_time_eval():
            closed = jax.make_jaxpr(function)(jnp.zeros(size))
            (result,) = _Walk([], None).run(closed.jaxpr, closed.consts, [_unknowns(size)])
    except Opaque:
        return None
    if isinstance(result, _Piece):
        return None
    if not isinstance(result, _Affine):
        result = _Affine(result, jnp.zeros((size, *jnp.shape(result)), jnp.result_type(result)))
    return result.constant, result.slopes


def _sorted(edges: Sequence[Data]) -> Data:
    """The edges of one axis in order, each once; those that a trace does not know yet may stand there twice."""
    if is_traced(*edges):
        return jnp.sort(jnp.concatenate(list(edges)))
    return np.unique(np.concatenate([np.zeros(0), *edges]))


def _truth(jump: Jump, edges: Sequence[Data], below: Sequence[Data]) -> Data:
    """Whether each element of a comparison holds, given how many edges are below each variable."""
    rank: Data = np.zeros(jump.axis.shape, int)
    for k, own in enumerate(edges):
        xp = namespace(own, jump.edge)
        rank = xp.where(jump.axis == k, xp.sum(own < jump.edge[..., None], axis=-1), rank)
    counts = jnp.stack([jnp.asarray(count) for count in below])[np.maximum(jump.axis, 0)]
    return jnp.where(jump.axis < 0, jump.above, (counts > rank) == jump.above)


class _Affine(NamedTuple):
    """c + Σ_k s_k x_k: the constant, and the slopes of each variable along the first axis."""

    constant: Data
    slopes: Data


def _unknowns(size: int) -> _Affine:
    """The variables themselves."""
    return _Affine(jnp.zeros(size), jnp.eye(size))


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
            return [self.linear(equation, args, pieces)]
        if not pieces:
            return _bind(equation, args)
        if self.truths is None:
            return [_Piece(None) for _ in equation.outvars]
        return [_Piece(out) for out in _bind(equation, [a.value if isinstance(a, _Piece) else a for a in args])]

    def linear(self, equation: Any, args: list[Any], pieces: bool) -> _Affine:
        """An equation that is linear in the variables: its derivative takes slopes to slopes."""
        name = equation.primitive.name
        moving = [k for k, arg in enumerate(args) if isinstance(arg, _Affine)]
        bilinear = name in ("mul", "dot_general") and len(moving) > 1
        indexed = name in ("gather", "dynamic_slice", "div", "pad") and moving != [0]
        if name not in LINEAR or pieces or bilinear or indexed:
            raise Opaque
        if name == "stop_gradient":
            return args[0]

        def one(*own: Any) -> Data:
            known = dict(zip(moving, own, strict=True))
            return _bind(equation, [known.get(k, arg) for k, arg in enumerate(args)])[0]

        constants = tuple(args[k].constant for k in moving)
        constant = one(*constants)
        if not jnp.issubdtype(constant.dtype, jnp.floating):
            raise Opaque  # rounded to an integer

        def pushed(*tangents: Data) -> Data:
            return jax.jvp(one, constants, tangents)[1]

        return _Affine(constant, jax.vmap(pushed)(*(args[k].slopes for k in moving)))

    def compare(self, name: str, args: list[Any]) -> Any:
        if self.truths is not None:
            return _Piece(next(self.truths))
        if any(isinstance(arg, _Piece) for arg in args):
            raise Opaque
        left, right = (arg if isinstance(arg, _Affine) else _Affine(jnp.asarray(arg), 0.0) for arg in args)
        slopes = left.slopes - right.slopes
        if is_traced(slopes):
            raise Opaque
        constant = left.constant - right.constant
        constant = constant if is_traced(constant) else np.asarray(constant, np.float64)
        slopes = np.asarray(slopes, np.float64)
        shape = np.broadcast_shapes(np.shape(constant), slopes.shape[1:])  # edges may differ where slopes do not
        slopes = np.stack([np.broadcast_to(slope, shape) for slope in slopes])
        self.jumps.append(_jump(namespace(constant).broadcast_to(constant, shape), slopes, *COMPARISONS[name]))
        return _Piece(None)


def _jump(constant: Data, slopes: np.ndarray, sign: int, or_equal: bool) -> Jump:
    """Where sign · (c + Σ_k s_k x_k) > 0."""
    moving = slopes != 0
    if (moving.sum(axis=0) > 1).any():
        raise Opaque  # a cut that is not along an axis
    still = ~moving.any(axis=0)
    axis = np.where(still, -1, moving.argmax(axis=0))
    slope = np.where(still, 1.0, slopes.sum(axis=0))
    xp = namespace(constant)
    with np.errstate(over="ignore"):
        edge = xp.where(still, 0.0, -constant / slope)
    if not np.isfinite(slope).all() or not (is_traced(edge) or np.isfinite(edge).all()):
        raise Opaque  # beyond all numbers, or none
    holds = sign * constant >= 0 if or_equal else sign * constant > 0
    return Jump(axis, edge, xp.where(still, holds, sign * slope > 0))


def _bind(equation: Any, args: Sequence[Any]) -> list[Any]:
    out: Any = equation.primitive.bind(*(jnp.asarray(arg) for arg in args), **equation.params)
    return list(out) if equation.primitive.multiple_results else [out]
