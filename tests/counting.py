"""What JAX traces and compiles, counted."""

from collections.abc import Iterator
from contextlib import contextmanager

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
