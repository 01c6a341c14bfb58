"""Factorisations written out for few columns, and looped for more, against NumPy's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fubini.numerics.quadratic import diagonal, scale_of
from fubini.numerics.small_matrices import lower_root, lower_solved, orthogonal_triangular, turned

SIZES = [1, 2, 3, 4]  # the last in a loop


@pytest.fixture(autouse=True)
def _double_precision():
    with jax.enable_x64(True):
        yield


def definite(size: int) -> np.ndarray:
    half = np.random.default_rng(size).normal(size=(2, size, size))
    return half @ np.swapaxes(half, -1, -2) + 0.1 * np.eye(size)


@pytest.mark.parametrize("size", SIZES)
def test_root_and_solution(size: int) -> None:
    K = definite(size)
    L = lower_root(jnp.asarray(K))
    np.testing.assert_allclose(L, np.linalg.cholesky(K), atol=1e-12)
    right = np.random.default_rng(0).normal(size=(size, 2))
    np.testing.assert_allclose(lower_solved(L, jnp.asarray(right)), np.linalg.solve(L, right[None]), atol=1e-11)


@pytest.mark.parametrize("size", SIZES)
def test_a_matrix_that_is_not_definite_has_no_root(size: int) -> None:
    K = definite(size)
    K[0, -1, -1] = -5.0
    pivots = diagonal(lower_root(jnp.asarray(K)))
    assert np.isnan(pivots[0]).any() and np.isfinite(pivots[1]).all()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e200])
def test_reflections(size: int, scale: float) -> None:
    A = scale * np.random.default_rng(size).normal(size=(2, 5, size))
    Q, U = map(np.asarray, orthogonal_triangular(jnp.asarray(A)))
    np.testing.assert_allclose(Q @ (U / scale), A / scale, atol=1e-12)
    np.testing.assert_allclose(np.swapaxes(Q, -1, -2) @ Q, np.broadcast_to(np.eye(size), (2, size, size)), atol=1e-12)
    assert (np.tril(U, -1) == 0).all()
    np.testing.assert_allclose(np.abs(np.asarray(turned(jnp.asarray(A)))) / scale, np.abs(U) / scale, atol=1e-12)


def test_a_column_of_zeros_turns_nothing() -> None:
    A = jnp.asarray([[0.0, 3.0], [0.0, 4.0], [0.0, 0.0]])
    Q, U = orthogonal_triangular(A)
    np.testing.assert_allclose(Q @ U, A, atol=1e-15)
    assert U[0, 0] == 0.0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_scale_is_the_power_of_two_of_the_greatest(dtype: str) -> None:
    data = np.array([[3.0, -5.0], [0.0, 0.0], [1e-30, 8.0], [np.inf, 1.0], [np.nan, 1.0], [0.75, 0.1]], dtype)
    expected = np.array([4.0, 1.0, 8.0, 1.0, 1.0, 0.5], dtype)[:, None]
    for engine in (np, jnp):
        found = scale_of(engine.asarray(data), -1)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, expected)
