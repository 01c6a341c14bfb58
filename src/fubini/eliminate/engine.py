"""Engines: NumPy step by step, XLA as one compiled function for each plan, or the trace in progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from fubini.eliminate.plan import Plan
from fubini.terms.factor import Factor


def engine_of(factors: Sequence[Factor]) -> str:
    """Which engine the data decide: numpy, xla, or trace."""
    engine = "numpy"
    for factor in factors:
        for leaf in factor.leaves():
            kind = type(leaf)
            if kind is np.ndarray or kind is float:
                continue
            if isinstance(leaf, Tracer):
                return "trace"
            if isinstance(leaf, jax.Array):
                engine = "xla"
    return engine


def on_engine(run: Callable, plan: Plan, factors: Sequence[Factor], *static: Any, arrays: tuple = ()) -> Any:
    """run(plan, factors, *arrays, *static) on the engine of the data."""
    if engine_of(factors) != "xla":
        return run(plan, factors, *arrays, *static)
    return _compiled(run, plan, static)(list(factors), arrays)


@lru_cache(maxsize=1024)
def _compiled(run: Callable, plan: Plan, static: tuple) -> Callable:
    return jax.jit(lambda factors, arrays: run(plan, factors, *arrays, *static))
