"""Quantiles of numbers whose distribution function is known: by bisection, with the derivative of the solution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data, is_traced, namespace

STEPS = 80
Cumulative = Callable[[Data], Data]
Ends = tuple[Data, Data]


def invert(cdf: Cumulative, levels: Data, kind: str, is_whole: bool = False) -> Data:
    """inf {x : F(x) ≥ q}, entry by entry, among numbers of a kind: real, positive, unit, or whole and not negative.

    >>> invert(lambda x: 1 - np.exp(-x), np.array([0.5]), "positive").round(6)
    array([0.693147])
    """
    xp = namespace(levels)
    least, greatest, to_number = _line(kind, is_whole, levels.dtype)
    ends = xp.full_like(levels, least), xp.full_like(levels, greatest)
    enough = levels * (1 - 8 * np.finfo(levels.dtype).eps) if is_whole else levels

    def halve(low: Data, high: Data) -> Ends:
        middle = xp.floor((low + high) / 2) if is_whole else low + (high - low) / 2
        is_above = cdf(to_number(xp, middle)) >= enough
        return xp.where(is_above, low, middle), xp.where(is_above, middle, high)

    has_tracers = is_traced(levels, cdf(to_number(xp, ends[1])))
    _, high = _repeat(halve, ends, has_tracers)
    solution = to_number(xp, high)
    reached = cdf(solution) >= levels * (1 - 1e-3)  # not where parameters, and so F, are not numbers
    solution = xp.where(reached, solution, np.nan)
    return solution if is_whole or not has_tracers else _with_derivative(cdf, solution, levels)


def _line(kind: str, is_whole: bool, dtype: Any) -> tuple[float, float, Callable[[Any, Data], Data]]:
    """The ends of a line, and the map from it to numbers of a kind: even steps there are relative steps here."""
    if is_whole:
        return -1.0, 0.5 / float(np.finfo(dtype).eps), lambda xp, u: u
    if kind == "unit":
        return 0.0, 1.0, lambda xp, u: u
    limit = float(np.log(np.finfo(dtype).max)) - 1.0
    return -limit, limit, (lambda xp, u: xp.exp(u)) if kind == "positive" else (lambda xp, u: xp.sinh(u))


def _repeat(step: Callable[[Data, Data], Ends], ends: Ends, is_compiled: bool) -> Ends:
    def once(_: Data, pair: Ends) -> Ends:
        return step(*pair)

    if is_compiled:
        return cast(Any, jax.lax).fori_loop(0, STEPS, once, ends)
    for _ in range(STEPS):
        ends = step(*ends)
    return ends


def _with_derivative(cdf: Cumulative, solution: Data, levels: Data) -> Data:
    """x(q, θ) with  dx = (dq − ∂F/∂θ dθ) / f(x)"""
    fixed = jax.lax.stop_gradient(solution)
    value, slope = jax.jvp(cdf, (fixed,), (jnp.ones_like(fixed),))
    slope = jax.lax.stop_gradient(slope)
    step = jnp.where(slope > 0, (levels - value) / jnp.where(slope > 0, slope, 1.0), 0.0)
    return fixed + (step - jax.lax.stop_gradient(step))
