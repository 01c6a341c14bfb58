"""`jax.lax` loops and branches, also inside `jax.shard_map`, where all that they hand on varies over the same axes.

There JAX knows of each number whether it differs between the devices along an axis. What a loop starts with is often
the same on all, and what it ends with is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import jax

lax: Any = jax.lax  # its functions tell nothing of their arguments
leaves: Callable[[Any], list[Any]] = jax.tree_util.tree_leaves
of_jax: Any = jax
Step = Callable[[Any, Any], tuple[Any, Any]]


def scan(
    step: Step, start: Any, over: Any, length: int | None = None, reverse: bool = False, unroll: int = 1
) -> tuple[Any, Any]:
    """`jax.lax.scan`"""

    def advance(state: Any) -> Any:
        return step(state, jax.tree_util.tree_map(lambda array: array[0], over))[0]

    if _is_on_one_device() and all([array.shape[0] for array in leaves(over)]):
        start = spread_alike(advance, start)
    return cast("tuple[Any, Any]", lax.scan(step, start, over, length=length, reverse=reverse, unroll=unroll))


def while_loop(goes_on: Callable[[Any], Any], step: Callable[[Any], Any], start: Any) -> Any:
    """`jax.lax.while_loop`"""
    return lax.while_loop(goes_on, step, spread_alike(step, start))


def fori_loop(first: Any, last: Any, step: Callable[[Any, Any], Any], start: Any) -> Any:
    """`jax.lax.fori_loop`"""
    return lax.fori_loop(first, last, step, spread_alike(lambda state: step(first, state), start))


def cond(test: Any, one: Callable[..., Any], other: Callable[..., Any], *given: Any) -> Any:
    """`jax.lax.cond`"""
    if not _is_on_one_device():
        return lax.cond(test, one, other, *given)
    results = [leaves(of_jax.eval_shape(branch, *given)) for branch in (one, other)]
    axes = [_axes(a) | _axes(b) for a, b in zip(*results, strict=True)]

    def alike(branch: Callable[..., Any]) -> Callable[..., Any]:
        def compute(*given: Any) -> Any:
            flat, tree = jax.tree_util.tree_flatten(branch(*given))
            return tree.unflatten([_varied(value, over) for value, over in zip(flat, axes, strict=True)])

        return compute

    return lax.cond(test, alike(one), alike(other), *given)


def spread_alike(advance: Callable[[Any], Any], start: Any) -> Any:
    """What a loop starts with, varying over the axes that its steps make it vary over; as it is outside shard_map."""
    if not _is_on_one_device():
        return start
    while True:
        flat, tree = jax.tree_util.tree_flatten(start)
        after = leaves(of_jax.eval_shape(advance, start))
        if len(after) != len(flat) or all(_axes(b) <= _axes(a) for a, b in zip(flat, after, strict=True)):
            return start
        start = tree.unflatten([_varied(a, _axes(b)) for a, b in zip(flat, after, strict=True)])


def _is_on_one_device() -> bool:
    """Whether a program is traced for each device on its own, as inside shard_map."""
    return bool(of_jax.sharding.get_abstract_mesh().manual_axes)


def _axes(value: Any) -> frozenset[str]:
    """The axes of a mesh that numbers vary over."""
    kind: Any = value if isinstance(value, jax.ShapeDtypeStruct) else of_jax.typeof(value)
    if hasattr(kind, "vma"):  # other versions of JAX
        return frozenset(kind.vma or ())
    manual = getattr(kind, "manual_axis_type", None)
    return frozenset(manual.varying if manual is not None else ())


def _varied(value: Any, axes: frozenset[str]) -> Any:
    new = tuple(sorted(axes - _axes(value)))
    return lax.pcast(value, new, to="varying") if new else value
