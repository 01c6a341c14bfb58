"""What Python calls and holds, and what JAX traces, compiles and launches, counted."""

import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import jax

TRACED: list[str] = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, duration, **details: TRACED.append(event) if "trace" in event or "compile" in event else None
)


@contextmanager
def no_tracing() -> Iterator[None]:
    """Nothing inside is traced or compiled, by us or by JAX."""
    before = len(TRACED)
    yield
    assert TRACED[before:] == []


def equations(jaxpr: Any) -> int:
    """How many equations a program has, those of its inner programs included."""
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    if not hasattr(inner, "eqns"):
        return 0
    given = [list(equation.params.values()) for equation in inner.eqns]
    return len(inner.eqns) + sum(map(equations, jax.tree.leaves(given, is_leaf=_is_program)))


def _is_program(part: Any) -> bool:
    return hasattr(part, "eqns") or hasattr(part, "jaxpr")


def python_calls(ask: Callable[[], object]) -> int:
    """How many functions written in Python are called."""
    called = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal called
        called += event == "call"

    sys.setprofile(count)
    try:
        ask()
    finally:
        sys.setprofile(None)
    return called


def peak_bytes(ask: Callable[[], object]) -> int:
    """The greatest number of bytes that are held at once, besides those held before."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        ask()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def launches(function: Callable, *given: Any) -> int:
    """How many kernels of ours a function launches on a GPU; `has_gpu` must say that there is one."""
    fresh = jax.jit(lambda *given: function(*given))  # JAX keeps what it traced of a function
    return fresh.trace(*given).lower(lowering_platforms=("cuda",)).as_text().count("xla.gpu.triton")
