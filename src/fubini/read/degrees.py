"""The degree of what a program computes in some of its inputs, by its primitives alone: is it affine in them?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.extend.core import Literal

from fubini.base.jaxprs import inner_program, scan_counts

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


def is_real(var: Any) -> bool:
    """Of a type that rounds little."""
    dtype = np.dtype(var.aval.dtype)
    return dtype.kind == "f" and dtype.itemsize >= 4


def degree_of(equation: Any, place: int, moving: set[int]) -> Degree:
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
    if not all(map(is_real, equation.outvars)):
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
    state = state_degrees(equation, given)
    return [
        *state,
        *_program_degrees(equation.params["jaxpr"], [*given[:consts], *state, *given[consts + carry :]])[carry:],
    ]


def state_degrees(equation: Any, given: Sequence[Degree]) -> list[Degree]:
    """The degrees of the parts of the state of a scan at any step, those of its operands given."""
    consts, carry = scan_counts(equation.params)
    fixed, first, slices = given[:consts], given[consts : consts + carry], given[consts + carry :]
    return _settled(lambda state: _program_degrees(equation.params["jaxpr"], [*fixed, *state, *slices])[:carry], first)


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
