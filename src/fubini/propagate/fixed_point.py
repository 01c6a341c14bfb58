"""Iteration to a fixed point: a Python loop where numbers are known, one compiled loop inside a trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base import lax_loops
from fubini.base.arrays import Data, is_traced
from fubini.errors import DataError, Intractable

WARM_UP = 6  # steps within which the layout of messages must settle, so that a compiled loop can hand them on


class Progress(NamedTuple):
    """A state, how far the last step moved it, the number of steps, and how many divisions a policy touched."""

    state: Any
    change: Data
    iterations: Data
    touched: Data


def require_limits(damping: float, tolerance: float, iterations: int) -> None:
    """Raise unless these are what an iteration takes."""
    if not 0 <= damping < 1:
        raise DataError(f"damping={damping!r}", expected="a number from 0, which is none, up to but not 1")
    if not isinstance(iterations, int) or isinstance(iterations, bool) or iterations < 1:
        raise DataError(f"iterations={iterations!r}", expected="a whole number of at least 1")
    if not tolerance >= 0:
        raise DataError(f"tolerance={tolerance!r}", expected="a number that is not negative")


Step = Callable[[Any], tuple[Any, Data, Data]]


def iterate(step: Step, state: Any, iterations: int, tolerance: float, touched: Data = 0) -> Progress:
    """Apply `step`, which says what the state becomes and by how much it moves, until that is below the tolerance."""
    progress = Progress(state, np.inf, 0, touched)
    if is_traced(*jax.tree.leaves(state)):
        return _iterate_traced(step, progress, iterations, tolerance)
    while progress.iterations < iterations and not progress.change <= tolerance:
        progress = _advance(step, progress)
    return progress


def _advance(step: Step, progress: Progress) -> Progress:
    state, change, touched = step(progress.state)
    return Progress(state, change, progress.iterations + 1, progress.touched + touched)


def _iterate_traced(step: Step, progress: Progress, iterations: int, tolerance: float) -> Progress:
    """A few steps one by one, until a step leaves the layout of the state as it is; then a loop."""
    for _ in range(WARM_UP):
        if _layout(jax.eval_shape(step, progress.state)[0]) == _layout(progress.state):
            return _loop(step, progress, iterations, tolerance)
        progress = _advance(step, progress)
        if progress.iterations == iterations:
            return progress
    raise Intractable(
        "propagation under jit of messages that grow with each step",
        expected="messages of one layout, step after step",
        nearest=f"after {WARM_UP} steps they still change theirs, as mixtures of more and more terms do",
        advice="project the messages: fb.expectation_propagation, or `with fb.moment_matching():`",
    )


def _loop(step: Step, progress: Progress, iterations: int, tolerance: float) -> Progress:
    state = jax.tree.map(jnp.asarray, progress.state)
    change = jnp.asarray(progress.change, float)
    touched = jnp.asarray(progress.touched, int)
    return lax_loops.while_loop(
        lambda now: (now.iterations < iterations) & ~(now.change <= tolerance),
        lambda now: _like(_advance(step, now), now),
        Progress(state, change, jnp.asarray(progress.iterations, int), touched),
    )


def _layout(state: Any) -> tuple:
    leaves, structure = jax.tree.flatten(state)
    return structure, tuple(np.shape(leaf) for leaf in leaves)


def _like(new: Progress, old: Progress) -> Progress:
    """The new numbers in the types of the old."""
    return jax.tree.map(lambda a, b: jnp.asarray(a).astype(b.dtype), new, old)
