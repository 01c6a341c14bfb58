"""Programs whose gathers and scatters over rows have as many for each device, so that slopes are sums of each device.

A compiler gathers the places of rows that devices do not divide, where slopes are added at them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Literal

from fubini.base.arrays import Data, is_traced
from fubini.base.jaxprs import inner_program

of_jax: Any = jax


def with_even_rows(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with rows beyond the end in its gathers and scatters where its arguments lie on a mesh.

    What is taken for them is left out, and what is added for them is zero.
    """

    def run(*given: Any) -> Any:
        leaves = jax.tree_util.tree_leaves(given)
        devices = devices_of(leaves)
        if devices == 1:
            return function(*given)
        program, shapes = jax.make_jaxpr(function, return_shape=True)(*given)
        answers = _evaluate(program.jaxpr, program.consts, leaves, devices)
        return jax.tree_util.tree_structure(shapes).unflatten(answers)

    return run


def devices_of(arrays: Sequence[Any]) -> int:
    """The devices of the mesh that traced arrays lie on, its axes being of type Auto; 1 without a mesh."""
    meshes = [of_jax.typeof(array).sharding.mesh for array in arrays if is_traced(array)]
    return max((mesh.size for mesh in meshes if not (mesh.empty or mesh.manual_axes or mesh.explicit_axes)), default=1)


def _evaluate(jaxpr: Any, consts: Sequence[Any], given: Sequence[Any], devices: int) -> list[Any]:
    """The results of a program."""
    values: dict[Any, Any] = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *given], strict=True))

    def read(var: Any) -> Any:
        return var.val if isinstance(var, Literal) else values[var]

    for equation in jaxpr.eqns:
        operands = [read(var) for var in equation.invars]
        with equation.ctx.manager:  # the precision it was written in
            made = _equation(equation, operands, devices)
        values.update(zip(equation.outvars, made, strict=True))
    return [read(var) for var in jaxpr.outvars]


def _equation(equation: Any, operands: list[Any], devices: int) -> Sequence[Any]:
    name = equation.primitive.name
    if name in ("jit", "pjit"):
        inner = inner_program(equation)
        return _evaluate(inner.jaxpr, inner.consts, operands, devices)
    if name == "gather":
        return [_gather(equation, devices, *operands)]
    if name == "scatter-add":
        return [_scatter_add(equation, devices, *operands)]
    bound = equation.primitive.get_bind_params(equation.params)
    functions, params = bound if isinstance(bound, tuple) else ((), bound)  # as versions of JAX have it
    made = equation.primitive.bind(*functions, *operands, **params)
    return made if equation.primitive.multiple_results else [made]


def _gather(equation: Any, devices: int, operand: Data, places: Data) -> Data:
    how = equation.params["dimension_numbers"]
    lacking = _lacking(places, how.start_indices_batching_dims, devices)
    rows = [axis for axis in range(len(equation.outvars[0].aval.shape)) if axis not in how.offset_dims]
    taken = equation.primitive.bind(operand, _longer(places, (*lacking, 0)), **equation.params)
    for axis, count in zip(rows, lacking, strict=True):
        taken = jax.lax.slice_in_dim(taken, 0, taken.shape[axis] - count, axis=axis)
    return taken


def _scatter_add(equation: Any, devices: int, operand: Data, places: Data, added: Data) -> Data:
    how = equation.params["dimension_numbers"]
    lacking = _lacking(places, how.scatter_indices_batching_dims, devices)
    counts = iter(lacking)
    behind = [0 if axis in how.update_window_dims else next(counts) for axis in range(added.ndim)]
    return equation.primitive.bind(operand, _longer(places, (*lacking, 0)), _longer(added, behind), **equation.params)


def _lacking(places: Data, batching: Sequence[int], devices: int) -> list[int]:
    """How many rows devices lack along each axis of places but the last; none where they are fewer than devices."""
    sizes = enumerate(places.shape[:-1])
    return [0 if axis in batching or size < devices else -size % devices for axis, size in sizes]


def _longer(array: Data, behind: Sequence[int]) -> Data:
    """With zeros behind the end."""
    return jnp.pad(array, [(0, count) for count in behind]) if any(behind) else array
