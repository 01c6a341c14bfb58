"""Engines: NumPy step by step, XLA as one compiled function for each plan, or the trace in progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from fubini.base.interpretations import interpret
from fubini.base.sharded_array import mesh_of
from fubini.eliminate.plan import Plan
from fubini.eliminate.typed_axes import explicit_axes_of, over_auto_axes
from fubini.engines.choice import asked_engine
from fubini.errors import Intractable
from fubini.numerics.in_range import compiled
from fubini.terms.factor import Factor, product, terms_of
from fubini.terms.heads import FIX


def engine_of(factors: Sequence[Factor]) -> str:
    """The engine that the data decide: numpy, xla, or trace."""
    engines = {_engine(factor) for factor in factors}
    return next((engine for engine in ("trace", "xla") if engine in engines), "numpy")


def _engine(factor: Factor) -> str:
    engine = factor.__dict__.get("_cached_engine")
    if engine is None:
        engine = factor.__dict__["_cached_engine"] = _engine_of_leaves(factor)
    return engine


def _engine_of_leaves(factor: Factor) -> str:
    engine = "numpy"
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
    """run(plan, factors, *arrays, *static) on the engine of the data; step by step where numbers decide a rule."""
    engine = engine_of(factors)
    if engine == "trace" and (axes := explicit_axes_of(factors)):
        return over_auto_axes(lambda given, keys: run(plan, given, *keys, *static), axes, list(factors), arrays)
    if engine == "xla":
        try:
            return compiled(
                _planned, (run, plan, static, asked_engine()), [portable(fixed(factor)) for factor in factors], arrays
            )
        except Intractable:
            pass
        except ValueError:  # of JAX, where arrays lie on devices of two meshes
            mesh_of(leaf for factor in factors for leaf in factor.leaves())
            raise
    return run(plan, factors, *arrays, *static)


def _planned(
    run: Callable, plan: Plan, static: tuple, asked: str | None, factors: Sequence[Factor], arrays: tuple
) -> Any:
    """The run inside a compiled function, which is one of its own for each engine that is asked for."""
    return run(plan, factors, *arrays, *static)


def fixed(factor: Factor) -> Factor:
    """A factor in the form that its numbers decide."""
    return product(*(interpret(FIX, term) for term in terms_of(factor))) if factor.promotes else factor


def portable(factor: Factor) -> Factor:
    """A factor with numbers that single precision can hold."""
    return factor._portable()
