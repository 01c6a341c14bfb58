"""Least squares with a Kronecker precision: against dense linear algebra, with derivatives of both orders."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fubini.errors import DomainError
from fubini.numerics.kronecker_least_squares import KroneckerRows, KroneckerSolution

ROWS, COLUMNS = 4, 3


def problem(seed: int, is_degenerate: bool):
    rng = np.random.default_rng(seed)
    left = np.tril(rng.normal(size=(ROWS, ROWS))) + 2 * np.eye(ROWS)
    right = (
        1.3 * np.eye(COLUMNS) if is_degenerate else np.tril(rng.normal(size=(COLUMNS, COLUMNS))) + 2 * np.eye(COLUMNS)
    )
    return left, right, rng.normal(size=(ROWS, COLUMNS)), rng.normal(size=(ROWS, COLUMNS)), np.array(0.7), np.array(1.9)


def dense(left, right, offset, data, weight, noise):
    """log |P|, the minimum, where it is, and the covariance."""
    K = jnp.kron(left, right)
    P = weight * K.T @ K + noise * jnp.eye(K.shape[0])
    x = jnp.linalg.solve(P, weight * K.T @ offset.reshape(-1) + noise * data.reshape(-1))
    rss = weight * jnp.sum((K @ x - offset.reshape(-1)) ** 2) + noise * jnp.sum((x - data.reshape(-1)) ** 2)
    return jnp.linalg.slogdet(P)[1], rss, x, jnp.linalg.inv(P)


def numbers(*arrays):
    solution = KroneckerSolution(KroneckerRows(*arrays))
    return solution.logdet, solution.rss


@pytest.mark.parametrize("on_jax", [False, True])
@pytest.mark.parametrize("is_degenerate", [False, True])
def test_solution_is_the_dense_one(is_degenerate, on_jax):
    with jax.enable_x64(True):
        arrays = problem(0, is_degenerate)
        logdet, rss, centre, covariance = map(np.asarray, dense(*arrays))
        solution = KroneckerSolution(KroneckerRows(*(map(jnp.asarray, arrays) if on_jax else arrays)))
        np.testing.assert_allclose([solution.logdet, solution.rss], [logdet, rss], rtol=1e-12)
        np.testing.assert_allclose(solution.centre.reshape(-1), centre, rtol=1e-10)
        np.testing.assert_allclose(solution.variances, np.diagonal(covariance), rtol=1e-10)
        roots = np.asarray(solution.roots())
        np.testing.assert_allclose(roots @ roots.T, covariance, atol=1e-12)
        noise = np.random.default_rng(1).normal(size=(5, ROWS * COLUMNS))
        drawn = solution.at(jnp.asarray(noise) if on_jax else noise)
        np.testing.assert_allclose(drawn, centre + noise @ roots.T, atol=1e-10)


@pytest.mark.parametrize("is_degenerate", [False, True])
@pytest.mark.parametrize("which", [0, 1])
def test_derivatives(which, is_degenerate):
    """Of first and second order, also where singular values coincide."""
    with jax.enable_x64(True):
        arrays = tuple(map(jnp.asarray, problem(1, is_degenerate)))
        for derive in (jax.grad, jax.hessian):
            ours = jax.jit(derive(lambda given: numbers(*given)[which]))(arrays)
            theirs = jax.jit(derive(lambda given: dense(*given)[which]))(arrays)
            for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
                np.testing.assert_allclose(one, other, atol=1e-10)


def test_moments_are_not_differentiated():
    arrays = tuple(map(jnp.asarray, problem(1, False)))
    with pytest.raises(DomainError, match="a derivative of draws or moments of normals with a Kronecker covariance"):
        jax.grad(lambda given: jnp.sum(KroneckerSolution(KroneckerRows(*given)).variances))(arrays)
