"""Compiled functions whose captured arrays are arguments of what is compiled, so that arrays on a mesh stay there."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from fubini.base.distant import is_distant


def jit_over(model: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`jax.jit` for functions that read a model; where its data lie on a mesh, by `jit_with_arrays`."""
    leaves = jax.tree_util.tree_leaves(model)
    return jit_with_arrays if is_distant(*leaves) else jax.jit


def jit_with_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    """`jax.jit`, which would fetch the arrays that a function captures, and write them into its program.

    >>> double = jit_with_arrays(lambda x: 2 * x)
    >>> float(double(1.5))
    3.0
    """
    kept: dict[Any, Callable[..., Any]] = {}

    @wraps(function)
    def run(*given: Any) -> Any:
        leaves, tree = jax.tree_util.tree_flatten(given)
        kind = (tree, *(jax.typeof(leaf) for leaf in leaves))
        if kind not in kept:
            kept[kind] = _compiled(function, given)
        return kept[kind](*leaves)

    return run


def _compiled(function: Callable[..., Any], given: Any) -> Callable[..., Any]:
    """A function of the leaves of its arguments."""
    program, shapes = jax.make_jaxpr(function, return_shape=True)(*given)
    structure = jax.tree_util.tree_structure(shapes)

    @jax.jit
    def compute(captured: list[Any], leaves: tuple[Any, ...]) -> Any:
        return jaxpr_as_fun(ClosedJaxpr(program.jaxpr, captured))(*leaves)

    return lambda *leaves: structure.unflatten(compute(program.consts, leaves))
