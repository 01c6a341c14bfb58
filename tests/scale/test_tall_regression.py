"""A regression of many rows, compiled, needs few times the bytes of its data: no matrix of all rows by all rows."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist

from .plate_models import cases

MODEL = cases(8)["regression"].model


def evidence(X: Any, y: Any) -> Any:
    return MODEL(X).condition(y=y).log_evidence().data


def mean(X: Any, y: Any) -> Any:
    return MODEL(X).condition(y=y).marginal("w").mean("w").data


def of_factors(X: Any, y: Any) -> Any:
    location = fb.Array(X, ("i",)) @ fb.Variable("w", fb.Reals[X.shape[1]])
    rows = dist.Normal(location, 1.0)(fb.Array(y, ("i",))).product("i")
    return fb.eliminate([dist.Normal(0.0, 1.0).expand([X.shape[1]])("w"), rows], sum=("w",)).log().data


@pytest.mark.parametrize("ask", [evidence, mean, of_factors, jax.grad(evidence, argnums=(0, 1))])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_memory_under_jit(ask: Any, dtype: str) -> None:
    rows, columns = 1_100_000, 5
    with jax.enable_x64(dtype == "float64"):
        shapes = [jax.ShapeDtypeStruct(shape, np.dtype(dtype)) for shape in ((rows, columns), (rows,))]
        memory = jax.jit(ask).lower(*shapes).compile().memory_analysis()
    data = rows * (columns + 1) * np.dtype(dtype).itemsize
    assert memory.argument_size_in_bytes == data
    assert memory.temp_size_in_bytes + memory.argument_size_in_bytes <= 4 * data


@pytest.mark.parametrize("rows", [4_000, 600_000])  # as many as are taken in blocks
def test_values_under_jit_are_those_of_normal_equations(rows: int) -> None:
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(rows, 5)), rng.normal(size=rows)
    X *= 10.0 ** rng.integers(-3, 1, size=(rows, 1))  # small rows keep their digits beside large ones
    with jax.enable_x64(True):
        answer = jax.jit(of_factors)(jnp.asarray(X), jnp.asarray(y))
        evidence_slope = jax.jit(jax.grad(of_factors, argnums=1))(jnp.asarray(X), jnp.asarray(y))
    K = np.eye(5) + X.T @ X
    w = np.linalg.solve(K, X.T @ y)
    rest = y - X @ w
    expected = -0.5 * (rows * np.log(2 * np.pi) + np.linalg.slogdet(K)[1] + y @ rest)
    np.testing.assert_allclose(answer, expected, rtol=1e-10)
    np.testing.assert_allclose(evidence_slope, -rest, rtol=1e-8, atol=1e-9)
