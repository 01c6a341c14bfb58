"""Results that hold if weights stayed in range: with the careful way beside them, or with the question still open.

Inside a user's trace both ways are compiled, and the weights decide. Where the numbers are known when the result is
there, the careful way is compiled only if it turns out to be needed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar, cast

import jax
import jax.numpy as jnp
from jax.extend import core

from fubini.base import lax_loops
from fubini.base.arrays import Data, cached_for_precision, is_traced
from fubini.base.fingerprints import require_agreement
from fubini.base.sharded_array import mesh_of

T = TypeVar("T")


class RangeChecks(NamedTuple):
    """Whether results were in range, asked in one trace."""

    trace: Any
    asked: list[Data]


_open: ContextVar[RangeChecks | None] = ContextVar("open questions", default=None)


def if_in_range(safe: Data, fast: Callable[[], T], carefully: Callable[[], T]) -> T:
    """`fast` where `safe`, else `carefully`. The body of a loop is another trace: it decides by itself."""
    questions = _open.get()
    if questions is None or not is_open():
        return cast(T, lax_loops.cond(safe, fast, carefully))
    questions.asked.append(jnp.all(safe))
    return fast()


def is_open() -> bool:
    """Whether the question is put off until the numbers are there: then nobody differentiates either."""
    questions = _open.get()
    return questions is not None and questions.trace == core.get_opaque_trace_state()


def compiled(function: Callable[..., Any], key: tuple[Any, ...], *given: Any) -> Any:
    """function(*key, *given), compiled for each key; the careful way where the fast one overflows."""
    leaves = jax.tree.leaves(given)
    if not is_traced(*leaves):
        if jax.process_count() > 1:
            require_agreement(mesh_of(leaves), "a question to factors", {"arrays": leaves})
        result, safe = _compiled(function, key, True)(*given)
        if not is_traced(safe) and safe:  # an interpretation may bring arrays of a trace
            return result
    return _compiled(function, key, False)(*given)


def jitted(function: Callable[..., T], compiled: Callable[[Any], Any] = jax.jit) -> Callable[..., T]:
    """The function compiled, for arrays that are known: the careful way once a fast result overflows."""
    fast = cast(Callable[..., tuple[T, Data]], compiled(as_if_in_range(function)))
    careful = cast(Callable[..., T], compiled(function))

    def run(*given: Any) -> T:
        result, safe = fast(*given)
        return result if safe else careful(*given)

    return run


@cached_for_precision(2048)
def _compiled(function: Callable[..., Any], key: tuple[Any, ...], is_hopeful: bool) -> Callable[..., Any]:
    def answer(*given: Any) -> Any:
        return function(*key, *given)

    return jax.jit(as_if_in_range(answer) if is_hopeful else answer)


def as_if_in_range(function: Callable[..., T]) -> Callable[..., tuple[T, Data]]:
    """The result as if everything was in range, and whether it was."""

    def run(*given: Any) -> tuple[T, Data]:
        questions = RangeChecks(core.get_opaque_trace_state(), [])
        token = _open.set(questions)
        try:
            result = function(*given)
        finally:
            _open.reset(token)
        return result, jnp.all(jnp.stack([jnp.asarray(True), *questions.asked]))

    return run
