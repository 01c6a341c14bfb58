"""Functions with NumPy arrays of their own, in the precision in force.

JAX remembers in which precision it first saw a NumPy array inside a trace: in the other one a call fails, or computes
with the numbers as they were rounded.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from fubini.base.closure import is_filled, is_library, names_used


def with_own_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with the NumPy arrays it captures as JAX arrays; those of functions that it calls as views."""
    if not _reads_arrays(function, set()):
        return function
    if isinstance(function, types.FunctionType):
        return _rebound(function, {}, lambda array: jnp.asarray(array.view()))
    return _own(function, {})


def _reads_arrays(value: Any, seen: set[int]) -> bool:
    """Whether it is an array, or a function of the user's, or a collection, that has one."""
    if isinstance(value, np.ndarray):
        return True
    if not _has_parts(value) or id(value) in seen:
        return False
    seen.add(id(value))
    return any(_reads_arrays(part, seen) for part in _parts(value))


def _has_parts(value: Any) -> bool:
    if isinstance(value, types.FunctionType):
        return not is_library(value)
    return type(value) in (functools.partial, list, tuple, dict)


def _parts(value: Any) -> list[Any]:
    if isinstance(value, types.FunctionType):
        held = [cell.cell_contents for cell in value.__closure__ or () if is_filled(cell)]
        return [*held, *_globals(value).values(), *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    return list(value.values() if isinstance(value, dict) else value)


def _globals(function: types.FunctionType) -> dict[str, Any]:
    scope = function.__globals__
    return {name: scope[name] for name in names_used(function.__code__) if name in scope}


def _own(value: Any, made: dict[int, Any]) -> Any:
    """The same with views of its arrays."""
    if isinstance(value, np.ndarray):
        return value.view()
    if id(value) in made:
        return made[id(value)]
    if not _reads_arrays(value, set()):
        return value
    if isinstance(value, types.FunctionType):
        return _rebound(value, made, np.ndarray.view)
    if isinstance(value, functools.partial):
        keywords = {name: _own(part, made) for name, part in value.keywords.items()}
        return functools.partial(_own(value.func, made), *(_own(part, made) for part in value.args), **keywords)
    if isinstance(value, dict):
        return {name: _own(part, made) for name, part in value.items()}
    return type(value)(_own(part, made) for part in value)


def _rebound(
    function: types.FunctionType, made: dict[int, Any], of_array: Callable[[np.ndarray], Any]
) -> types.FunctionType:
    """A copy that reads other arrays; made before its parts, as functions may call themselves."""

    def own(value: Any) -> Any:
        return of_array(value) if isinstance(value, np.ndarray) else _own(value, made)

    cells = tuple(types.CellType() for _ in function.__closure__ or ())
    scope = dict(function.__globals__)
    new = types.FunctionType(function.__code__, scope, function.__name__, None, cells)
    made[id(function)] = new
    new.__kwdefaults__ = {name: own(value) for name, value in (function.__kwdefaults__ or {}).items()}
    new.__defaults__ = None if function.__defaults__ is None else tuple(map(own, function.__defaults__))
    for cell, held in zip(cells, function.__closure__ or (), strict=True):
        if is_filled(held):
            cell.cell_contents = own(held.cell_contents)
    scope.update((name, own(value)) for name, value in _globals(function).items())
    return new
