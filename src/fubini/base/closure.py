"""Functions with what they capture made explicit: JAX arrays as leaves, everything else as part of a key.

An answer is compiled once for each key. A model that reads a global or a closure which has changed since has another
key, so it is never answered from an older trace; and a model that captures a tracer can cross `jit` like any pytree.
What libraries hold is taken to be constant.
"""

from __future__ import annotations

import functools
import hashlib
import sys
import sysconfig
import types
from collections.abc import Callable, Hashable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import numpy as np
from numpyro import handlers
from numpyro.primitives import Messenger

from fubini.base.arrays import Data, is_key, is_traced

LIBRARIES = ("fubini", "jax", "jaxlib", "numpy", "numpyro", "builtins")
INSTALLED = tuple({sysconfig.get_path(kind) for kind in ("stdlib", "purelib", "platlib")})
SIMPLE = frozenset((bool, int, float, complex, str, bytes, type(None)))


class Closure:
    """A function as a pytree: its leaves are the JAX arrays that it and the functions it calls capture."""

    __slots__ = ("function",)

    def __init__(self, function: Callable) -> None:
        self.function = function

    def __repr__(self) -> str:
        return getattr(self.function, "__name__", repr(self.function))

    def __reduce__(self) -> tuple:
        """Pickle by reference, as functions are; one that a decorator hides, through the decorated one."""
        module = sys.modules.get(getattr(self.function, "__module__", None) or "")
        decorated = getattr(module, getattr(self.function, "__name__", ""), None)
        if getattr(decorated, "__wrapped__", None) is self.function:
            return _behind, (decorated,)
        return Closure, (self.function,)


def _behind(decorated: Any) -> Closure:
    return Closure(decorated.__wrapped__)


def _flatten(closure: Closure) -> tuple[tuple[Data, ...], Capture]:
    leaves: list[Data] = []
    return leaves, _captured(closure.function, leaves, {})  # type: ignore[return-value]


def _unflatten(capture: Capture, leaves: tuple[Data, ...]) -> Closure:
    return Closure(_restored(capture, iter(leaves), []))


jax.tree_util.register_pytree_node(Closure, _flatten, _unflatten)


class Capture(NamedTuple):
    """A captured object: the `key` by which it is compared, the `parts` that it is made of, and the object itself."""

    kind: str
    key: Hashable
    parts: tuple[Capture, ...] = ()
    held: Any = None

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Capture) and self[:3] == other[:3])

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self[:3])


def _captured(value: Any, leaves: list[Data], seen: dict[int, int]) -> Capture:
    kind = type(value)  # isinstance of jax.Array is slow, and most of what is captured is none
    if kind in SIMPLE:
        return Capture("constant", (kind, value), held=value)
    if kind in (types.ModuleType, type):
        return Capture("object", id(value), held=value)
    if isinstance(value, jax.Array):
        if is_key(value) and not is_traced(value):  # randomness that is fixed is no number
            with jax.ensure_compile_time_eval():
                numbers = np.asarray(jax.random.key_data(value))
            return Capture("constant", (str(value.dtype), _digest(numbers)), held=value)
        leaves.append(value)
        return Capture("leaf", None)
    if isinstance(value, np.ndarray):
        return Capture("numbers", _digest(value), held=value)
    if isinstance(value, types.FunctionType) and not is_library(value):
        return _captured_function(value, leaves, seen)
    if isinstance(value, functools.partial):
        items = _several((value.func, value.args, value.keywords), leaves, seen)
        return Capture("partial", None, items)
    if isinstance(value, types.MethodType):
        return Capture("method", None, _several((value.__func__, value.__self__), leaves, seen))
    if isinstance(value, (set, frozenset)):
        return Capture("object", (kind, frozenset(value)), held=value)
    if isinstance(value, dict) and kind is dict:  # in its own order, which JAX's flattening would lose
        return Capture("dict", tuple(value), _several(value.values(), leaves, seen))
    if isinstance(value, (list, tuple, dict)):
        items, tree = jax.tree_util.tree_flatten(value, is_leaf=lambda item: item is not value)
        return Capture("tree", tree, _several(items, leaves, seen))
    if is_record(value) or (isinstance(value, Messenger) and value.fn is not None):  # a handler around a model
        return _captured_record(value, leaves, seen)
    if not isinstance(value, type) and not jax.tree_util.all_leaves([value]):
        leaves.append(value)  # a term, a joint or another record: its leaves are parameters
        return Capture("leaf", None)
    return Capture("object", id(value), held=value)  # by identity; the object is kept, so that its id stays its own


def _several(values: Any, leaves: list[Data], seen: dict[int, int]) -> tuple[Capture, ...]:
    return tuple(_captured(value, leaves, seen) for value in values)


def _captured_function(function: types.FunctionType, leaves: list[Data], seen: dict[int, int]) -> Capture:
    if id(function) in seen:
        return Capture("again", seen[id(function)])
    seen[id(function)] = len(seen)
    scope = function.__globals__
    used = tuple(name for name in names_used(function.__code__) if name in scope)
    contents = [cell.cell_contents for cell in function.__closure__ or () if is_filled(cell)]
    filled = tuple(is_filled(cell) for cell in function.__closure__ or ())
    globals_read = [scope[name] for name in used]
    parts = (function.__defaults__, function.__kwdefaults__, contents, globals_read)
    read = _attributes((*globals_read, *contents), names_used(function.__code__), seen)
    return Capture("function", (function.__code__, filled, used, read), _several(parts, leaves, seen), function)


def _attributes(owners: tuple, names: tuple[str, ...], seen: dict[int, int]) -> tuple:
    """List the attributes of the user's modules and classes that a function reads: part of the key, not replaced."""
    read = []
    for owner in owners:
        if isinstance(owner, (type, types.ModuleType)) and not _is_library_scope(owner):
            for name in names:
                if name in vars(owner):
                    arrays: list[Data] = []
                    capture = _captured(vars(owner)[name], arrays, dict(seen))
                    read.append((name, capture, tuple(map(Same, arrays))))
    return tuple(read)


class Same:
    """An object that is equal to itself alone."""

    __slots__ = ("of",)

    def __init__(self, of: Any) -> None:
        self.of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.of is other.of

    def __hash__(self) -> int:
        return id(self.of)


def is_record(value: Any) -> bool:
    """An object of the user's own class, whose attributes are all there is to it."""
    kind = type(value)
    plain = kind.__new__ is object.__new__ and hasattr(value, "__dict__") and jax.tree_util.all_leaves([value])
    return kind is types.SimpleNamespace or (plain and not _is_library_class(kind))


def _captured_record(value: Any, leaves: list[Data], seen: dict[int, int]) -> Capture:
    if id(value) in seen:
        return Capture("again", seen[id(value)])
    seen[id(value)] = len(seen)
    attributes = dict(vars(value))
    if isinstance(value, handlers.trace):
        attributes.pop("trace", None)  # what it recorded when it last ran
    return Capture("record", type(value), _several((attributes,), leaves, seen), value)


def is_filled(cell: types.CellType) -> bool:
    """Whether the variable of a closure has a value already."""
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


@lru_cache(maxsize=4096)
def names_used(code: types.CodeType) -> tuple[str, ...]:
    """The global names of a function and of those defined inside it; attributes among them do no harm."""
    inner = [
        name for constant in code.co_consts if isinstance(constant, types.CodeType) for name in names_used(constant)
    ]
    return tuple(dict.fromkeys((*code.co_names, *inner)))


@lru_cache(maxsize=4096)
def _is_installed(filename: str) -> bool:
    return filename.startswith(INSTALLED) or filename.startswith("<frozen")


def is_library(function: types.FunctionType) -> bool:
    """Whether a module is not the user's own, so that its values do not change."""
    package = (function.__module__ or "").partition(".")[0]
    return package in LIBRARIES or _is_installed(function.__code__.co_filename)


def _is_library_scope(owner: Any) -> bool:
    if isinstance(owner, type):
        return _is_library_class(owner)
    source = getattr(owner, "__file__", None)
    return owner.__name__.partition(".")[0] in LIBRARIES or source is None or _is_installed(source)


@lru_cache(maxsize=4096)
def _is_library_class(kind: type) -> bool:
    source = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return kind.__module__.partition(".")[0] in LIBRARIES or (source is not None and _is_installed(source))


def _digest(array: np.ndarray) -> tuple:
    if array.dtype == object:
        return (id(array),)
    if isinstance(array, np.ma.MaskedArray):
        return _digest(np.ma.getdata(array)), _digest(np.ma.getmaskarray(array))
    return array.shape, array.dtype.str, hashlib.blake2b(array.tobytes(), digest_size=16).digest()


# -- and back -------------------------------------------------------------------------------------------------------


def _restored(capture: Capture, leaves: Iterator[Data], made: list[Any]) -> Any:
    match capture.kind:
        case "leaf":
            return next(leaves)
        case "numbers":
            return capture.held.view()  # JAX remembers the precision in which it first saw an array
        case "function":
            return _restored_function(capture, leaves, made)
        case "record":
            return _restored_record(capture, leaves, made)
        case "again":
            return made[capture.key]  # type: ignore[index]
    parts = [_restored(part, leaves, made) for part in capture.parts]
    match capture.kind:
        case "partial":
            return functools.partial(parts[0], *parts[1], **parts[2])
        case "method":
            return types.MethodType(*parts)
        case "dict":
            return dict(zip(capture.key, parts, strict=True))  # type: ignore[arg-type]
        case "tree":
            return jax.tree_util.tree_unflatten(capture.key, parts)  # type: ignore[arg-type]
    return capture.held


def _restored_function(capture: Capture, leaves: Iterator[Data], made: list[Any]) -> Any:
    held: types.FunctionType = capture.held
    code, filled, used, _ = capture.key  # type: ignore[misc]
    cells = tuple(types.CellType() for _ in filled)
    scope = dict(held.__globals__)
    new = types.FunctionType(code, scope, held.__name__, None, cells)
    made.append(new)
    defaults, named, contents, globals_read = (_restored(part, leaves, made) for part in capture.parts)
    new.__defaults__, new.__kwdefaults__ = defaults, named
    new.__qualname__, new.__module__ = held.__qualname__, held.__module__
    for cell, content in zip([cell for cell, full in zip(cells, filled, strict=True) if full], contents, strict=True):
        cell.cell_contents = content
    scope.update(zip(used, globals_read, strict=True))
    return new


def _restored_record(capture: Capture, leaves: Iterator[Data], made: list[Any]) -> Any:
    kind: Any = type(capture.held)
    new = kind.__new__(kind)
    made.append(new)
    vars(new).update(_restored(capture.parts[0], leaves, made))
    return new
