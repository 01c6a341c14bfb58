"""What JAX traces and compiles, counted."""

from collections.abc import Iterator
from contextlib import contextmanager
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
