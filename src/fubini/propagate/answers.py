"""Answers of message passing on the engine of the data: NumPy step by step, JAX as one compiled function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data, is_jax, is_traced, require
from fubini.eliminate.engine import engine_of, portable
from fubini.errors import DataError
from fubini.numerics.in_range import compiled
from fubini.terms.factor import Factor, product
from fubini.terms.value import Array, Value


class Answer(NamedTuple):
    """What a method found: a pytree, so that a compiled function returns it."""

    marginals: list[Factor]
    log_evidence: Value
    beliefs: list[Factor]
    assignment: list[Array]
    change: Data
    iterations: Data
    touched: Data


def answer_on_engine(run: Callable[..., Any], static: tuple[Any, ...], factors: Sequence[Factor]) -> Any:
    """run(*static, factors); an error where a compiled function has found that the data are wrong."""
    if engine_of(factors) != "xla":
        return run(*static, factors)
    answer = compiled(_run, (run, static), [portable(factor) for factor in factors])
    leaves = jax.tree.leaves((answer.marginals, answer.log_evidence))
    numbers = jnp.asarray([jnp.all(leaf == leaf) for leaf in leaves] or [True])
    require(jnp.all(numbers), lambda: _cause(run, static, factors))
    return answer._replace(iterations=_number(answer.iterations), touched=_number(answer.touched))


def default_tolerance(factors: Sequence[Factor]) -> float:
    """A change that is small beside rounding errors of the numbers of the factors, or nearly so."""
    leaves = [leaf for factor in factors for leaf in factor.leaves()]
    narrow = any(is_jax(leaf) and leaf.dtype == jnp.float32 for leaf in leaves)
    return 1e-5 if narrow else 1e-9


def _run(run: Callable[..., Any], static: tuple[Any, ...], factors: Sequence[Factor]) -> Any:
    return run(*static, factors)


def _number(count: Data) -> Data:
    return int(count) if np.ndim(count) == 0 and not is_traced(count) else count


def _cause(run: Callable[..., Any], static: tuple[Any, ...], factors: Sequence[Factor]) -> DataError:
    """Return the error that a compiled function cannot raise, from the same run step by step."""
    try:
        run(*static, factors)
    except DataError as error:
        return error
    return DataError(
        f"propagation of {product(*factors)}, whose result is not a number",
        expected="log-weights below infinity, none NaN, and beliefs that have a finite sum",
        advice="damping=0.5 helps where messages run away; a prior where a belief is improper",
    )
