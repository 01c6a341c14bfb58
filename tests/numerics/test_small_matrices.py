"""Factorisations of small matrices: against NumPy's, by loops and written out, with their derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fubini.numerics import small_matrices

SHAPES = [(3, 1), (1, 3), (2, 2), (5, 2), (3, 3), (7, 3), (6, 5), (2, 6)]


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(4, *shape))


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_lower_root(size: int) -> None:
    A = drawn(size, size)
    K = A @ A.swapaxes(-1, -2) + np.eye(size)
    with jax.enable_x64(True):
        found = np.asarray(small_matrices.lower_root(jnp.asarray(K)))
        slope = jax.jvp(small_matrices.lower_root, (jnp.asarray(K),), (jnp.asarray(K),))[1]
        refused = np.asarray(small_matrices.lower_root(jnp.asarray(-K)))
    np.testing.assert_allclose(found, np.linalg.cholesky(K), atol=1e-12)
    np.testing.assert_allclose(slope, found / 2, atol=1e-12)  # the root of s K is √s L
    assert np.isnan(refused[:, -1, -1]).all()


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("batch", [(4,), (1,), (3, 4)])
def test_lower_solved(size: int, batch: tuple[int, ...]) -> None:
    L = np.tril(drawn(size, size)) + 3 * np.eye(size)
    right = np.random.default_rng(1).normal(size=(*batch, size, 2))
    with jax.enable_x64(True):
        found = small_matrices.lower_solved(jnp.asarray(L), jnp.asarray(right))
    np.testing.assert_allclose(found, np.linalg.solve(L, right), atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_orthogonal_triangular(shape: tuple[int, int]) -> None:
    A = drawn(*shape)
    A[1, :, 0] = 0.0  # a column of zeros
    with jax.enable_x64(True):
        Q, U = map(np.asarray, small_matrices.orthogonal_triangular(jnp.asarray(A)))
        turned = np.asarray(small_matrices.turned(jnp.asarray(A)))
    count = min(shape)
    np.testing.assert_allclose(Q @ U, A, atol=1e-12)
    np.testing.assert_allclose(Q.swapaxes(-1, -2) @ Q, np.broadcast_to(np.eye(count), (4, count, count)), atol=1e-12)
    np.testing.assert_allclose(np.tril(U, -1), 0.0)
    np.testing.assert_allclose(turned.swapaxes(-1, -2) @ turned, A.swapaxes(-1, -2) @ A, atol=1e-12)


@pytest.mark.parametrize("shape", [(4, 2), (6, 5)])
def test_derivatives(shape: tuple[int, int]) -> None:
    A, dA, step = drawn(*shape)[0], drawn(*shape)[1], 1e-6
    with jax.enable_x64(True):
        slopes = jax.jvp(small_matrices.orthogonal_triangular, (jnp.asarray(A),), (jnp.asarray(dA),))[1]
        above, below = (
            list(map(np.asarray, small_matrices.orthogonal_triangular(jnp.asarray(A + s * dA)))) for s in (step, -step)
        )
    for slope, high, low in zip(slopes, above, below, strict=True):
        np.testing.assert_allclose(slope, (high - low) / (2 * step), atol=1e-8)
