"""Array arithmetic of two kinds: JAX's, to be compiled and differentiated, and NumPy's, for answers asked for once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, ParamSpec, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base import lax_loops
from fubini.base.arrays import Data
from fubini.base.scalar_functions import ScalarFunction, scalar_function
from fubini.numerics.small_matrices import orthogonal_triangular, turned

P = ParamSpec("P")
R = TypeVar("R")

numpy_solve: Callable[[Data, Data], Data] = np.linalg.solve  # its overloads tell nothing of Data


def xp_of(*arrays: Data) -> Any:
    """NumPy if all of these are its arrays, else JAX's version of it."""
    return np if all(isinstance(array, (np.ndarray, np.generic, float, int)) for array in arrays) else jnp


def called(name: Any, xp: ModuleType | Any, given: Sequence[Data]) -> Data:
    """A function by its name in index notation, or one of JAX as it is, at numbers."""
    if not isinstance(name, str | ScalarFunction):
        return xp.asarray(name(*given))
    function = scalar_function(name)
    if function.takes_whole:
        return function.array(xp, *(array.astype(int) for array in given))
    return function.array(xp, *(array * 1.0 for array in given))  # functions of whole numbers have fewer digits


def constant(array: Data) -> Data:
    """The same numbers, which derivatives do not see."""
    return array if isinstance(array, np.ndarray) else jax.lax.stop_gradient(array)


def one_hot(places: Data, size: int, dtype: Any) -> Data:
    """1 at its place, 0 elsewhere, along a new last axis."""
    return (places.astype(int)[..., None] == xp_of(places).arange(size)).astype(dtype)


def segment_sums(data: Data, target: Data, count: int) -> Data:
    """Sums of the rows that have the same target."""
    if xp_of(data) is jnp:
        return jax.ops.segment_sum(data, target, count)
    sums = np.zeros((count, *data.shape[1:]), data.dtype)
    np.add.at(sums, target, data)
    return sums


def scanned(step: Callable[[Any, Any], tuple[Any, Any]], start: Data, over: Any, reverse: bool = False) -> Any:
    """`jax.lax.scan`; on NumPy, a loop."""
    leaves, tree = cast("tuple[list[Data], Any]", jax.tree_util.tree_flatten(over))
    if xp_of(start, *leaves) is jnp:
        return lax_loops.scan(step, start, over, reverse=reverse)
    length = len(leaves[0])
    outputs: list[Any] = []
    for place in reversed(range(length)) if reverse else range(length):
        start, kept = step(start, tree.unflatten([leaf[place] for leaf in leaves]))
        outputs.append(kept)
    if not outputs:
        return start, None
    return start, jax.tree_util.tree_map(lambda *parts: np.stack(parts), *(outputs[::-1] if reverse else outputs))


def recomputed(step: Callable[P, R], prevent_cse: bool = True) -> Callable[P, R]:
    """`jax.checkpoint`: a step whose numbers are computed again for derivatives, not kept."""
    return cast("Callable[P, R]", jax.checkpoint(step, prevent_cse=prevent_cse))


def repeated(step: Callable[[Any, Data], Any], start: Any, steps: Data) -> Any:
    """step(…step(start, 0)…, steps − 1), for as many steps as numbers say, without derivatives."""
    if xp_of(*jax.tree_util.tree_leaves(start), steps) is jnp:
        first = jnp.zeros((), int), start
        return lax_loops.while_loop(lambda now: now[0] < steps, lambda now: (now[0] + 1, step(now[1], now[0])), first)[
            1
        ]
    for place in range(int(steps)):
        start = step(start, np.asarray(place))
    return start


def qr(A: Data) -> tuple[Data, Data]:
    """A = Q U, of at least as many rows as columns."""
    return tuple(np.linalg.qr(A)) if xp_of(A) is np else orthogonal_triangular(A)  # type: ignore[return-value]


def triangle(A: Data) -> Data:
    """U of A = Q U, of at least as many rows as columns, for what stays the same when rows are turned."""
    return np.linalg.qr(A, mode="r") if xp_of(A) is np else turned(A)


def taken_from(A: Data, start: Data, size: int) -> Data:
    """Entries from a start on, along the first axis."""
    return A[start : start + size] if xp_of(A) is np else jax.lax.dynamic_slice_in_dim(A, start, size)


def upper_solved(U: Data, right: Data) -> Data:
    """U⁻¹ R for upper triangular U; not numbers where it is singular, on NumPy."""
    if xp_of(U, right) is jnp:
        return jax.lax.linalg.triangular_solve(U, right, left_side=True, lower=False)
    try:
        return numpy_solve(U, right)
    except np.linalg.LinAlgError:
        return np.full(right.shape, np.nan)
