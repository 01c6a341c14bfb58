"""What has no rule of its own but is affine in some operands: b + Σ_i A[…, i] x[i], A and b computed as they stand.

Loops with a linear recursion, solutions of linear systems and convolutions are such. Whether an equation is affine is
told from its primitives alone, never from numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal

from fubini.algebra.build import ZERO, index, plus, times
from fubini.algebra.node import Index, Node
from fubini.algebra.sums import total
from fubini.base.arrays import Data, double_precision
from fubini.base.jaxprs import inner_program, scan_counts
from fubini.read.symbolic_array import SymbolicArray

MOST_ENTRIES = 4_000_000  # of one matrix A, or of a table of what labels decide

# The degree of a result in some inputs: 0 where it does not depend on them, 1 where it is affine in them.
Degree = int
NOT_AFFINE: Degree = 2

# Primitives whose result is a sum of entries of their operands.
SUMS = frozenset(
    (
        *(
            "neg",
            "add",
            "sub",
            "add_any",
            "reshape",
            "broadcast_in_dim",
            "transpose",
            "squeeze",
            "expand_dims",
            "slice",
        ),
        *("rev", "concatenate", "pad", "reduce_sum", "cumsum", "copy", "copy_p", "split", "stack", "unstack", "tile"),
    )
)
PRODUCTS = frozenset(("mul", "dot_general", "conv_general_dilated"))
ENTRIES = frozenset(("gather", "dynamic_slice"))  # whose rules refuse indices out of range, which is then reported

# Of these the named operands, by place, may be affine; the others say which entries are taken, or by what is divided.
FIXED_BESIDE = {
    "div": (0,),
    "gather": (0,),
    "dynamic_slice": (0,),
    "dynamic_update_slice": (0, 1),
    "scatter": (0, 2),
    "scatter-add": (0, 2),
    "scatter-mul": (0,),
    "triangular_solve": (1,),
}


class Reader(Protocol):
    """What is asked of the reader of a program."""

    def numbers(self, array: SymbolicArray) -> Data | None:
        """The numbers of an array that depends on known ones alone."""
        ...

    def computed(
        self, name: str, shape: tuple[int, ...], function: Callable[..., Data], operands: tuple[SymbolicArray, ...]
    ) -> SymbolicArray:
        """What a function makes of arrays."""
        ...


def affine_result(
    reader: Reader, equation: Any, place: int, operands: Sequence[SymbolicArray], compute: Callable[..., Data]
) -> SymbolicArray | None:
    """One result of an equation as an affine function of some operands; None where it is affine in none.

    `compute` makes the result of arrays. Larger operands are tried first, since the others stay inside of A and b.
    """
    var = equation.outvars[place]
    open_ones = [k for k, part in enumerate(operands) if reader.numbers(part) is None and _is_real(equation.invars[k])]
    chosen: list[int] = []
    for k in sorted(open_ones, key=lambda k: -math.prod(operands[k].shape)):
        if _degree(equation, place, {*chosen, k}) == 1 and math.prod((*var.aval.shape, *operands[k].shape)) <= (
            MOST_ENTRIES
        ):
            chosen.append(k)
    if not chosen or not _is_real(var) or equation.primitive.name in ENTRIES:
        return None
    others = tuple(part for k, part in enumerate(operands) if k not in chosen)
    shapes = [part.shape for part in operands]

    def at_points(points: Sequence[Data], given: Sequence[Data]) -> Data:
        """The result where the chosen operands are at these points."""
        mixed, rest = dict(zip(chosen, points, strict=True)), iter(given)
        return compute(*(mixed[k] if k in mixed else next(rest) for k in range(len(operands))))

    def origin() -> list[Data]:
        return [jnp.zeros(shapes[k]) for k in chosen]

    def offset(*given: Data) -> Data:
        return at_points(origin(), given)

    def coefficients(slot: int) -> Callable[..., Data]:
        return lambda *given: jax.jacfwd(lambda points: at_points(points, given))(origin())[slot]

    name, shape = equation.primitive.name, var.aval.shape
    base = reader.computed(name, shape, _precisely(offset), others)
    matrices = [
        reader.computed(name, (*shape, *shapes[k]), _precisely(coefficients(slot)), others)
        for slot, k in enumerate(chosen)
    ]

    def entry(*at: Node) -> Node:
        parts = [_product(matrix, operands[k], at) for k, matrix in zip(chosen, matrices, strict=True)]
        return plus(base.at(*at), *parts)

    return SymbolicArray(shape, entry)


def _precisely(function: Callable[..., Data]) -> Callable[..., Data]:
    """The function in the precision that programs are read in, its derivatives too; the result in that in force."""

    def compute(*given: Data) -> Data:
        with double_precision():
            result = function(*given)
        return result.astype(jax.dtypes.canonicalize_dtype(result.dtype))

    return compute


def _product(matrix: SymbolicArray, x: SymbolicArray, at: Sequence[Node]) -> Node:
    """Σ_i A[at, i] x[i]"""
    indices = [Index(size) if size != 1 else None for size in x.shape]
    places = [ZERO if i is None else index(i) for i in indices]
    return total([i for i in indices if i is not None], times(matrix.at(*at, *places), x.at(*places)))


def _is_real(var: Any) -> bool:
    """Of a type that rounds little."""
    dtype = np.dtype(var.aval.dtype)
    return dtype.kind == "f" and dtype.itemsize >= 4


# -- degrees --------------------------------------------------------------------------------------------------------


def _degree(equation: Any, place: int, moving: set[int]) -> Degree:
    """The degree of one result in some operands."""
    return _degrees(equation, [1 if k in moving else 0 for k in range(len(equation.invars))])[place]


def _degrees(equation: Any, given: Sequence[Degree]) -> list[Degree]:
    """The degrees of the results of an equation, those of its operands given."""
    name, count = equation.primitive.name, len(equation.outvars)
    if not any(given):
        return [0] * count
    if name in SPECIAL:
        return SPECIAL[name](equation, given)
    if (program := inner_program(equation)) is not None:
        return _program_degrees(program, given)
    if not all(map(_is_real, equation.outvars)):
        return [NOT_AFFINE] * count
    if name in SUMS or name == "convert_element_type":
        return [max(given)] * count
    if name in PRODUCTS:
        return [min(sum(given), NOT_AFFINE)] * count
    free = FIXED_BESIDE.get(name, ())
    fixed = not any(degree for k, degree in enumerate(given) if k not in free)
    return [max(given) if fixed else NOT_AFFINE] * count


def _program_degrees(program: Any, given: Sequence[Degree]) -> list[Degree]:
    """The degrees of the results of a program, those of its inputs given."""
    jaxpr = getattr(program, "jaxpr", program)
    known: dict[Any, Degree] = dict(zip(jaxpr.invars, given, strict=True))

    def degree(var: Any) -> Degree:
        return 0 if isinstance(var, Literal) else known.get(var, 0)

    for equation in jaxpr.eqns:
        known.update(zip(equation.outvars, _degrees(equation, [degree(var) for var in equation.invars]), strict=True))
    return [degree(var) for var in jaxpr.outvars]


def _settled(step: Callable[[list[Degree]], list[Degree]], state: Sequence[Degree]) -> list[Degree]:
    """The degrees of a loop's state at any step: those that one more step does not raise."""
    before = list(state)
    while True:
        after = [max(pair) for pair in zip(before, step(before), strict=True)]
        if after == before:
            return before
        before = after


def _scan_degrees(equation: Any, given: Sequence[Degree]) -> list[Degree]:
    """A state is affine where one step makes an affine one of it."""
    consts, carry = scan_counts(equation.params)
    fixed, first, slices = given[:consts], given[consts : consts + carry], given[consts + carry :]

    def body(state: Sequence[Degree]) -> list[Degree]:
        return _program_degrees(equation.params["jaxpr"], [*fixed, *state, *slices])

    state = _settled(lambda state: body(state)[:carry], first)
    return [*state, *body(state)[carry:]]


def _while_degrees(equation: Any, given: Sequence[Degree]) -> list[Degree]:
    """As a scan, where the number of steps does not depend on the inputs."""
    params = equation.params
    tests, fixed = params["cond_nconsts"], params["body_nconsts"]
    of_test, of_body, first = given[:tests], given[tests : tests + fixed], given[tests + fixed :]
    state = _settled(lambda state: _program_degrees(params["body_jaxpr"], [*of_body, *state]), first)
    is_fixed = _program_degrees(params["cond_jaxpr"], [*of_test, *state]) == [0]
    return state if is_fixed else [NOT_AFFINE] * len(state)


def _cond_degrees(equation: Any, given: Sequence[Degree]) -> list[Degree]:
    """Every branch, where the choice does not depend on the inputs."""
    choice, *operands = given
    branches = [_program_degrees(branch, operands) for branch in equation.params["branches"]]
    return [NOT_AFFINE if choice else max(each) for each in zip(*branches, strict=True)]


def _choice_degrees(equation: Any, given: Sequence[Degree]) -> list[Degree]:
    choice, *cases = given
    return [NOT_AFFINE if choice else max(cases)]


def _solve_degrees(equation: Any, given: Sequence[Degree]) -> list[Degree]:
    """A⁻¹ b is linear in b."""
    counts = equation.params["const_lengths"]
    matrices = counts.matvec + counts.vecmat + counts.solve + counts.transpose_solve
    linear = not any(given[:matrices])
    return [max(given) if linear else NOT_AFFINE] * len(equation.outvars)


SPECIAL: dict[str, Callable[[Any, Sequence[Degree]], list[Degree]]] = {
    "scan": _scan_degrees,
    "while": _while_degrees,
    "cond": _cond_degrees,
    "select_n": _choice_degrees,
    "custom_linear_solve": _solve_degrees,
}
