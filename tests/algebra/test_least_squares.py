"""Least squares as programs: as many operations for few unknowns as for many."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fubini as fb
from fubini import dist


@fb.model
def regression(x):
    t = yield dist.HalfNormal(1.0)
    w = yield dist.Normal(0.0, t).expand([x.shape[1]])
    y = yield dist.Normal(x @ w, jnp.exp(t * x[:, 0]))


def programs(value: Any) -> Iterator[Any]:
    """The programs among the parameters of an operation."""
    for part in value if isinstance(value, (tuple, list)) else (value,):
        part = getattr(part, "jaxpr", part)
        if hasattr(part, "eqns"):
            yield part


def operations(program: Any) -> int:
    """Those of loops and branches included."""
    inner = (part for each in program.eqns for value in each.params.values() for part in programs(value))
    return len(program.eqns) + sum(map(operations, inner))


def operations_of_regression(columns: int) -> int:
    random = np.random.default_rng(0)
    x, y = random.normal(size=(50, columns)), random.normal(size=50)
    density = regression(x).condition(y=y).eliminate("w").log_prob
    return operations(jax.make_jaxpr(jax.value_and_grad(lambda t: density(t=t)))(0.5).jaxpr)


def test_a_density_has_as_many_operations_for_any_number_of_columns() -> None:
    assert operations_of_regression(4) == operations_of_regression(40)
