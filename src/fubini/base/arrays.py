"""Which engine owns an array, and what happens to data that are not what they should be.

Data decide the engine: float64 NumPy as long as no JAX array takes part, JAX's own dtype otherwise. Numerics are
written once, against `namespace(…)`.
"""

import math
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache, lru_cache, wraps
from types import ModuleType
from typing import Any, ParamSpec, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer, eval_context
from jax.experimental import checkify
from jax.extend.core import get_opaque_trace_state
from xxhash import xxh3_128_digest

from fubini.base.auto_axes import settle_axes
from fubini.errors import DataError, DomainError, MemoryLimit

Data = Any  # an array of NumPy or JAX, a tracer, or a Python scalar

P = ParamSpec("P")
R = TypeVar("R")

_checking = jax.make_user_context(default_value=False)
_trusting: ContextVar[bool] = ContextVar("trusting", default=False)


def namespace(*arrays: Data) -> ModuleType:
    """The module whose functions apply: `jax.numpy` where any array is JAX's, `numpy` otherwise.

    >>> namespace(np.ones(2), 1.0).__name__
    'numpy'
    """
    for array in arrays:
        kind = type(array)  # isinstance of jax.Array is slow, and most arrays are NumPy's
        if kind is not np.ndarray and kind is not float and isinstance(array, jax.Array):
            return jnp
    return np


def is_jax(array: Data) -> bool:
    """A JAX array or tracer."""
    return isinstance(array, jax.Array)


def is_key(array: Data) -> bool:
    """A key of JAX's random numbers, typed as such."""
    return isinstance(array, jax.Array) and jax.numpy.issubdtype(array.dtype, jax.dtypes.prng_key)


def is_traced(*arrays: Data) -> bool:
    """Any of them is a tracer: its numbers are not known yet."""
    return any(isinstance(array, Tracer) for array in arrays)


def is_tracing() -> bool:
    """Whether a program is being traced, so that what is computed becomes part of it."""
    now = get_opaque_trace_state()
    with eval_context():
        return now != get_opaque_trace_state()


def is_in_parts(array: Data) -> bool:
    """Whether the numbers of an array that is known lie on several devices: it is not to be fetched."""
    return isinstance(array, jax.Array) and not is_traced(array) and len(array.sharding.device_set) > 1


def as_array(data: Data) -> Data:
    """Data as given if JAX's; otherwise NumPy, with numbers in double precision.

    >>> as_array([1, 2]).dtype.kind, as_array(np.float32(0.5)).dtype.name
    ('i', 'float64')
    """
    if isinstance(data, jax.Array):
        return settle_axes(data)
    if hasattr(type(data), "__jax_array__"):  # one over the devices of a mesh, without what it is padded by
        return settle_axes(data.__jax_array__())
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise DomainError(f"{data!r} as an array", expected="numbers, in rows of one length") from error
    if array.dtype.kind == "O" and any(isinstance(item, jax.Array) for item in array.flat):
        return jnp.asarray(data)
    dtype = {"f": np.float64, "i": np.int64, "u": np.int64}.get(array.dtype.kind)
    return array if dtype is None else array.astype(dtype, copy=False)


def owned(data: Data) -> Data:
    """Data that nobody can change: a NumPy array that could still be written to is copied, and closed for writing."""
    array = as_array(data)
    if is_jax(array) or not array.flags.writeable:
        return array
    array = np.array(array)
    array.setflags(write=False)
    return array


def as_floats(data: Data) -> Data:
    """An array of floating point numbers in the engine of the data."""
    array = owned(data)
    if array.dtype.kind == "f" or jnp.issubdtype(array.dtype, jnp.floating):
        return array
    if array.dtype.kind not in "iub":
        raise DataError(f"data of dtype {array.dtype}", expected="numbers")
    return array.astype(float) if is_jax(array) else array.astype(np.float64)


def as_integers(array: Data) -> Data:
    """Truth values and narrow integers as integers that add up; anything else as it is."""
    if is_jax(array):
        narrow = array.dtype == bool or (jnp.issubdtype(array.dtype, jnp.integer) and array.dtype.itemsize < 4)
        return array.astype(int) if narrow else array
    return array.astype(np.int64, copy=False) if array.dtype.kind in "biu" else array


def cached_for_precision(maxsize: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """`lru_cache` with the precision in force as part of the key.

    JAX remembers in which precision a compiled function first saw a NumPy array inside a trace, and a call in the
    other precision then fails: a function that is kept belongs to one of them.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @lru_cache(maxsize=maxsize)
        def kept(is_double: bool, args: tuple[Any, ...], keywords: tuple[tuple[str, Any], ...]) -> R:
            return function(*args, **dict(keywords))  # type: ignore[call-arg]

        @wraps(function)
        def find(*args: P.args, **keywords: P.kwargs) -> R:
            return kept(is_double_precision(), args, tuple(keywords.items()))

        return find

    return decorate


def traced_once(function: Callable[P, R]) -> Callable[P, R]:
    """`jax.jit` for numerics of JAX arrays alone: programs that call it often trace it once for each kind of arguments.

    >>> traced_once(jnp.hypot)(jnp.asarray(3.0), jnp.asarray(4.0)).item()
    5.0
    """
    return cast("Callable[P, R]", jax.jit(function))


def unshared(arrays: list[Data]) -> list[Data]:
    """The same numbers, NumPy's as views: JAX remembers in which precision it first saw an array inside a trace."""
    return [array.view() if type(array) is np.ndarray else array for array in arrays]


def is_double_precision() -> bool:
    """JAX computes in double precision here."""
    return bool(jax.config.jax_enable_x64)  # type: ignore[attr-defined]


def double_precision() -> AbstractContextManager[Any]:
    """JAX in double precision, as NumPy is: for what is known, and for what is read."""
    return jax.enable_x64(True)


def precision(is_double: bool) -> AbstractContextManager[Any]:
    """Double precision, or the one in force."""
    return jax.enable_x64(True) if is_double else nullcontext()


def known_stays_known(*arrays: Data) -> AbstractContextManager[Any]:
    """Known arrays are computed with at once, inside a trace too, where JAX would make tracers of them."""
    return nullcontext() if is_traced(*arrays) else jax.ensure_compile_time_eval()


def precisely(function: Callable[..., Data]) -> Callable[..., Data]:
    """The function in the precision that programs are read in, its derivatives too; the result in that in force."""

    def compute(*given: Data) -> Data:
        with double_precision():
            result = function(*given)
        return result.astype(jax.dtypes.canonicalize_dtype(result.dtype))

    return compute


def in_force(array: Data) -> Data:
    """An array of JAX in the precision in force, whatever the one was that it was made in; narrow numbers are widened.

    >>> in_force(jnp.asarray([1.0])).dtype.name
    'float32'
    """
    kind = np.dtype(array.dtype).kind
    wide = jax.dtypes.canonicalize_dtype({"f": np.float64, "i": np.int64, "u": np.int64}.get(kind, array.dtype))
    return array if array.dtype == wide else array.astype(wide)


def stop_gradient(array: Data) -> Data:
    """The array as a constant; NumPy arrays are constants already."""
    return jax.lax.stop_gradient(array) if is_jax(array) else array


def require(ok: Data, error: Callable[[], DataError], *poisoned: Data) -> tuple[Data, ...]:
    """Raise where `ok` is false; under tracing fill those entries with NaN (−1 for integers) instead.

    `ok` broadcasts against each poisoned array. Inside `checked` the traced error raises too.
    """
    if not is_traced(ok):
        if not (bool(jnp.all(ok)) if is_in_parts(ok) else np.all(np.asarray(ok))):
            raise error()
        return poisoned
    if _trusting.get():
        return poisoned
    if _checking.value:
        checkify.check(jnp.all(ok), str(error()).replace("{", "{{").replace("}", "}}"))
    return tuple(_poison(ok, array) for array in poisoned)


@contextmanager
def within_memory(asked: str) -> Iterator[None]:
    """Memory that is not there is an error of ours."""
    try:
        yield
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        first = (str(error).splitlines() or [""])[0]
        if not isinstance(error, MemoryError) and "RESOURCE_EXHAUSTED" not in first:
            raise
        raise MemoryLimit(
            asked,
            expected="arrays that fit into memory",
            nearest=first,
            advice="ask for fewer draws or chains at a time, or for fewer sites",
        ) from error


def require_room(asked: str, *shapes: tuple[int, ...]) -> None:
    """Raise before arrays of these shapes are asked for that no memory of this machine holds."""
    size = 8 * max((math.prod(shape) for shape in shapes), default=0)
    if size > _memory():
        raise MemoryLimit(
            asked,
            expected=f"arrays that fit into memory, {_memory() / 2**30:.0f} GB",
            nearest=f"one of {size / 2**30:.3g} GB",
            advice="ask for fewer draws or chains at a time, or for smaller sites",
        )


@cache
def _memory() -> float:
    """Bytes that this machine has; without bound where it does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return math.inf


@contextmanager
def trusting() -> Iterator[None]:
    """Data are taken to be right: for reading a program, where marks of wrong data would hide what it computes."""
    token = _trusting.set(True)
    try:
        yield
    finally:
        _trusting.reset(token)


def _poison(ok: Data, array: Data) -> Data:
    array = jnp.asarray(array)
    if not jnp.issubdtype(array.dtype, jnp.floating):
        return jnp.where(ok, array, -1)
    return array * jnp.where(ok, 1.0, jnp.nan).astype(array.dtype)  # a factor, so that derivatives are NaN too


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """The function, with data errors raised that tracing would otherwise turn into NaN.

    >>> safe = checked(jax.jit(lambda w: require(w >= 0, lambda: DataError("a negative weight"), w)[0]))
    >>> safe(jnp.array([1.0, -1.0]))
    Traceback (most recent call last):
        ...
    fubini.errors.DataError: a negative weight
    """

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with _checking(True):
            error, result = checkify.checkify(function, errors=checkify.user_checks)(*args, **kwargs)
        message = error.get()
        if message is not None:
            raise DataError(message.split(" (`check` failed)")[0])
        return result

    return run


def digest(array: np.ndarray) -> bytes:
    """128 bits that tell its numbers from others, without a copy of them."""
    return xxh3_128_digest(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
