"""The arrays that a model is made of, by the names that its author gave them."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from fubini.base.closure import Closure
from fubini.base.distant import is_unread
from fubini.models.fixed import Fixed
from fubini.models.flavour import Flavour
from fubini.models.param import Param

Named = tuple[str, np.ndarray]


def named_params(joint: Any) -> dict[str, Param]:
    """Parameters to be learnt by the names of the arguments that they are, or that hold them: weights, scale['a']."""
    named: dict[str, Param] = {}
    for part in (joint, getattr(joint, "joint", None)):
        closure = getattr(part, "closure", None)
        if isinstance(closure, Closure):
            call = _arguments(closure.function, getattr(part, "arguments", ()), getattr(part, "keywords", ()))
            for name, value in call.items():
                leaves = jax.tree_util.tree_flatten_with_path(value, is_leaf=lambda item: isinstance(item, Param))[0]
                named |= {f"{name}{jax.tree_util.keystr(at)}": one for at, one in leaves if isinstance(one, Param)}
    return named


def named_arrays(joint: Flavour) -> Iterator[Named]:
    """Arrays of numbers by name: arguments of a model function, and variables that it reads from around it."""
    for part in (joint, getattr(joint, "joint", None)):
        closure = getattr(part, "closure", None)
        if isinstance(closure, Closure):
            yield from _of_call(closure.function, getattr(part, "arguments", ()), getattr(part, "keywords", ()))
    for leaf in jax.tree_util.tree_leaves(joint, is_leaf=lambda item: isinstance(item, Closure)):
        if isinstance(leaf, Closure):
            yield from _captured(leaf.function)


def _of_call(function: Callable, arguments: tuple, keywords: tuple[str, ...]) -> Iterator[Named]:
    """Arguments that are or hold arrays, and what the function reads from around it."""
    for name, value in _arguments(function, arguments, keywords).items():
        yield from _within(name, value)
    while isinstance(function, functools.partial):
        function = function.func
    yield from _captured(function)


def _arguments(function: Callable, arguments: tuple, keywords: tuple[str, ...]) -> dict[str, Any]:
    """The arguments of a call by name; none of a callable that does not tell their names."""
    count = len(arguments) - len(keywords)
    positional, named = arguments[:count], dict(zip(keywords, arguments[count:], strict=True))
    while isinstance(function, functools.partial):
        positional, named = (*function.args, *positional), {**function.keywords, **named}
        function = function.func
    try:
        return inspect.signature(function).bind(*positional, **named).arguments
    except (TypeError, ValueError):
        return {}


def _within(name: str, value: Any) -> Iterator[Named]:
    """The arrays of an argument: x, or x['a'], x[0]."""
    leaves = jax.tree_util.tree_flatten_with_path(value, is_leaf=lambda item: isinstance(item, Fixed))[0]
    for path, leaf in leaves:
        array = leaf.value if isinstance(leaf, Fixed) else leaf
        if isinstance(array, np.ndarray | jax.Array) and not is_unread(array) and array.size > 1:
            yield f"{name}{jax.tree_util.keystr(path)}", np.asarray(array)


def _captured(function: Any) -> Iterator[Named]:
    """The arrays among the closure and the globals of a function."""
    function = inspect.unwrap(function)
    if not isinstance(function, types.FunctionType):
        return
    outside = inspect.getclosurevars(function)
    for name, value in {**outside.globals, **outside.nonlocals}.items():
        if isinstance(value, np.ndarray | jax.Array):
            yield from _within(name, value)
