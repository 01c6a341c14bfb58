"""Normals with a known covariance, seen by rows of one entry each: against dense matrices, on NumPy and on JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fubini.numerics.sparse_least_squares import SparseRows
from fubini.numerics.whitened_least_squares import LARGE, lower_inverse, solve_whitened, whitened_rows

N = 9
RANDOM = np.random.default_rng(2)
PLACES = np.sort(RANDOM.uniform(0.0, 4.0, N))
MEAN = RANDOM.normal(size=N)
COLUMNS = np.array([0, 3, 3, 8, 5, 1, 2])  # one is seen twice, and some are not
ENTRIES, RIGHT = RANDOM.normal(size=(2, len(COLUMNS)))
ENTRIES[4] = 0.0  # a row that says nothing of them


def kernel(length, xp=np):
    return xp.exp(-0.5 * ((PLACES[:, None] - PLACES) / length) ** 2) + 1e-4 * xp.eye(N)


def problem(length=1.0, scale=1.0, xp=np, dtype=float):
    parts = (xp.asarray(part, dtype) for part in (ENTRIES * scale, COLUMNS, RIGHT))
    return whitened_rows(kernel(length, xp).astype(dtype), xp.asarray(MEAN, dtype), SparseRows(*parts))


def dense(length=1.0, scale=1.0):
    """log |K| + log |P|, the least sum of squares, the mean and P⁻¹, by the precision P = K⁻¹ + HᵀH."""
    H = np.zeros((len(COLUMNS), N))
    H[np.arange(len(COLUMNS)), COLUMNS] = ENTRIES * scale
    inverse = np.linalg.inv(kernel(length))
    precision = inverse + H.T @ H
    centre = MEAN + np.linalg.solve(precision, H.T @ (RIGHT - H @ MEAN))
    gap = centre - MEAN
    least = gap @ inverse @ gap + np.sum((H @ centre - RIGHT) ** 2)
    logdet = np.linalg.slogdet(precision)[1] + np.linalg.slogdet(kernel(length))[1]
    return logdet, least, centre, np.linalg.inv(precision)


@pytest.mark.parametrize("xp", [np, jnp])
@pytest.mark.parametrize("scale", [1.0, 1e-3, 30.0])
def test_solution(xp, scale):
    logdet, least, centre, covariance = dense(scale=scale)
    with jax.enable_x64(True):
        solution = solve_whitened(problem(scale=scale, xp=xp))
        roots, variances = np.asarray(solution.roots()), solution.variances
        found = solution.at(xp.zeros(N))
        shifted = np.asarray(solution.at(xp.eye(N)) - solution.at(xp.zeros((2, N)))[0])
    np.testing.assert_allclose([solution.logdet, solution.rss], [logdet, least], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found, centre, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(roots @ roots.T, covariance, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(variances, np.diag(covariance), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(shifted.T @ shifted, covariance, rtol=1e-7, atol=1e-9)


def test_single_precision():
    logdet, least, centre, _ = dense()
    solution = solve_whitened(problem(xp=jnp, dtype=np.float32))
    assert solution.logdet.dtype == np.float32
    np.testing.assert_allclose([solution.logdet, solution.rss], [logdet, least], rtol=1e-4)
    np.testing.assert_allclose(solution.at(jnp.zeros(N)), centre, atol=1e-3)


def test_derivatives():
    """First and second ones, of both numbers, against differences; under jit and vmap."""

    def both(point):
        solution = solve_whitened(problem(*point, xp=jnp))
        return jnp.stack([solution.logdet, solution.rss])

    with jax.enable_x64(True):
        point = jnp.array([1.1, 0.9])
        sloped, curved = jax.jit(jax.jacrev(both)), jax.jit(jax.vmap(jax.jacfwd(jax.jacrev(both))))
        slopes, curvature = sloped(point), curved(jnp.stack([point, 2 * point]))[0]
        for axis, step in enumerate(1e-5 * np.eye(2)):
            difference = np.subtract(dense(*(point + step))[:2], dense(*(point - step))[:2]) / 2e-5
            np.testing.assert_allclose(slopes[:, axis], difference, rtol=1e-6)
            steeper = (sloped(point + step) - sloped(point - step)) / 2e-5
            np.testing.assert_allclose(curvature[:, :, axis], steeper, rtol=1e-6)


@pytest.mark.parametrize("xp", [np, jnp])
def test_no_number_where_the_covariance_has_no_root(xp):
    """I + H K Hᵀ has one: it alone would not show it."""
    with jax.enable_x64(True):
        rows = problem(scale=1e-3, xp=xp)
        bad = rows._replace(covariance=rows.covariance - 0.5 * xp.eye(N))
        solution = solve_whitened(bad)
        assert np.isnan(solution.logdet) and np.isnan(solution.rss) and np.isnan(solution.at(xp.zeros(N))).all()


@pytest.mark.parametrize("xp", [np, jnp])
def test_no_number_where_rounding_hides_it(xp):
    """A covariance of rank one but for rounding, seen without noise."""
    with jax.enable_x64(True):
        rows = whitened_rows(
            xp.ones((N, N)) + 1e-15 * xp.eye(N),
            xp.zeros(N),
            SparseRows(1e12 * xp.ones(N), xp.arange(N), 1e12 * xp.ones(N)),
        )
        assert np.isnan(solve_whitened(rows).logdet)


def test_repeated_rows_that_disagree():
    """Of one unknown of variance K: r̄ᵀr̄ / (n/w + K) and the squares around the mean, weighed by w."""
    K, noise, y = 900.0, 1e-5, np.array([3.0, 3.00002, 2.99999])
    rows = whitened_rows(np.full((1, 1), K), np.zeros(1), SparseRows(np.full(3, 1 / noise), np.zeros(3), y / noise))
    apart = np.sum((y - y.mean()) ** 2) / noise**2
    expected = np.log1p(3 * K / noise**2), apart + y.mean() ** 2 / (K + noise**2 / 3)
    np.testing.assert_allclose([solve_whitened(rows).logdet, solve_whitened(rows).rss], expected, rtol=1e-9)


@pytest.mark.parametrize("entries", [np.zeros(7), ENTRIES])
def test_slopes_of_the_entries(entries):
    """Also where they are 0, by the matrix C itself."""

    def by_rows(a):
        solution = solve_whitened(whitened_rows(jnp.asarray(kernel(1.0)), jnp.zeros(N), SparseRows(a, COLUMNS, right)))
        return solution.logdet + solution.rss

    def by_matrix(a):
        C = jnp.eye(7) + a[:, None] * K * a
        return jnp.linalg.slogdet(C)[1] + right @ jnp.linalg.solve(C, right)

    with jax.enable_x64(True):
        K, right = jnp.asarray(kernel(1.0)[COLUMNS][:, COLUMNS]), jnp.asarray(RIGHT)
        a = jnp.asarray(entries)
        for function in (jax.grad, jax.hessian):
            np.testing.assert_allclose(jax.jit(function(by_rows))(a), function(by_matrix)(a), rtol=1e-8, atol=1e-8)


def test_rows_of_none_of_the_unknowns():
    rows = problem()
    beyond = SparseRows(np.append(ENTRIES, 0.0), np.append(COLUMNS, N + 3), np.append(RIGHT, 0.0))
    more = solve_whitened(whitened_rows(rows.covariance, rows.mean, beyond))
    np.testing.assert_allclose([more.logdet, more.rss], dense()[:2], rtol=1e-9)


@pytest.mark.parametrize("size", [1, N, LARGE + 1])
def test_inverse_of_a_triangle(size):
    L = np.tril(RANDOM.normal(size=(size, size))) / size + np.eye(size)
    with jax.enable_x64(True):
        np.testing.assert_allclose(lower_inverse(jnp.asarray(L)) @ L, np.eye(size), atol=1e-12)
