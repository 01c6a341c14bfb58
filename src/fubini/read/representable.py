"""Numbers that a type can hold: index notation computes without wrapping around and without rounding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from fubini.algebra.build import index
from fubini.algebra.node import Index
from fubini.algebra.ranges import bounds, is_whole
from fubini.read.symbolic_array import SymbolicArray

# Primitives whose exact result the type may not hold.
ARITHMETIC = frozenset(
    (
        *("add", "add_any", "sub", "mul", "neg", "abs", "square", "integer_pow", "pow", "convert_element_type"),
        *("reduce_sum", "cumsum", "dot_general", "scatter-add", "div", "sqrt", "exp", "log", "logistic"),
        *("log1p", "expm1", "rsqrt", "tanh", "sin", "cos", "erf", "lgamma", "digamma"),
    )
)


def is_represented(equation: Any, results: Sequence[SymbolicArray]) -> bool:
    """The exact results of an equation are those that JAX computes, as far as ranges tell.

    Whole numbers of 32 bits and more are taken to be wide enough where no bound is known.
    """
    if equation.primitive.name not in ARITHMETIC or _is_widening(equation):
        return True
    pairs = zip(equation.outvars, results, strict=True)
    return all(_fits(var.aval.dtype, result) for var, result in pairs)


def _is_widening(equation: Any) -> bool:
    """A conversion to a type that holds every number of the one before."""
    return equation.primitive.name == "convert_element_type" and np.can_cast(
        equation.invars[0].aval.dtype, equation.outvars[0].aval.dtype
    )


def _fits(dtype: Any, result: SymbolicArray) -> bool:
    if jnp.issubdtype(dtype, jnp.floating):
        return np.dtype(dtype).itemsize >= 4 or _is_exact(dtype, result)
    if not jnp.issubdtype(dtype, jnp.integer):
        return True
    low, high = bounds(result.at(*(index(Index(size)) for size in result.shape)))
    least, most = whole_range(dtype)
    if np.dtype(dtype).itemsize >= 4:
        low = 0.0 if low == -math.inf and least < 0 else low
        high = 0.0 if high == math.inf else high
    return least <= low and high <= most


def _is_exact(dtype: Any, result: SymbolicArray) -> bool:
    """Whole numbers that a short float holds."""
    entry = result.at(*(index(Index(size)) for size in result.shape))
    low, high = bounds(entry)
    return is_whole(entry) and max(-low, high) <= 2.0 ** (jnp.finfo(dtype).nmant + 1)


def whole_range(dtype: Any) -> tuple[float, float]:
    """The least and greatest number of an integer type."""
    if dtype == np.bool_:
        return 0.0, 1.0
    info = jnp.iinfo(dtype)
    return float(info.min), float(info.max)
