"""Sparse factors, selected inverses and sparse least squares: against dense linear algebra."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse

from fubini.errors import DataError, DomainError
from fubini.numerics import selected_inverse, sparse_cholesky, sparse_least_squares
from fubini.numerics.host_calls import host_call
from fubini.numerics.least_squares import LeastSquaresSolution
from fubini.numerics.sparse_callbacks import solve_sparse
from fubini.numerics.sparse_cholesky import envelope, factorise
from fubini.numerics.sparse_least_squares import RowSizes, SparseRows, joined_rows, solve_rows


def random_rows(unknowns: int = 40, seed: int = 0) -> tuple[SparseRows, RowSizes, np.ndarray]:
    """A weak prior of each unknown and differences of pairs, some of them of signs that cancel; and A in full."""
    random = np.random.default_rng(seed)
    pairs = np.stack([random.permutation(unknowns) for _ in range(2)], axis=1)
    signs = np.stack([np.ones(unknowns), random.choice([-1.0, 1.0], unknowns)], axis=1)
    blocks = [
        SparseRows(np.full((unknowns, 1), 0.5), np.arange(unknowns)[:, None], random.normal(size=unknowns)),
        SparseRows(signs, pairs, random.normal(size=unknowns)),
        SparseRows(np.array([[2.0, 0.0]]), np.array([[3, unknowns]]), np.array([1.0])),  # beyond the end: nothing
    ]
    rows, sizes = joined_rows(blocks, unknowns)
    dense = np.zeros((2 * unknowns + 1, unknowns))
    for block, start in zip(blocks, (0, unknowns, 2 * unknowns), strict=True):
        for row, (entries, columns) in enumerate(zip(block.entries, block.columns, strict=True)):
            for entry, column in zip(entries, columns, strict=True):
                if column < unknowns:
                    dense[start + row, column] += entry
    return rows, sizes, dense


few_or_many = pytest.mark.parametrize("few", [selected_inverse.FEW, 0])  # by NumPy, or by compiled loops


@few_or_many
@pytest.mark.parametrize("seed", range(5))
def test_factor_agrees_with_a_dense_inverse(seed: int, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selected_inverse, "FEW", few)
    _, _, dense = random_rows(seed=seed)
    precision = dense.T @ dense
    factor, inverse = factorise(sparse.csc_array(precision)), np.linalg.inv(precision)
    assert factor.logdet == pytest.approx(np.linalg.slogdet(precision)[1], abs=1e-12)
    np.testing.assert_allclose(factor.solve(np.arange(40.0)), inverse @ np.arange(40.0), atol=1e-12)
    roots = factor.colour(np.eye(40))
    np.testing.assert_allclose(roots @ roots.T, inverse, atol=1e-12)
    np.testing.assert_allclose(factor.inverse.diagonal, np.diagonal(inverse), atol=1e-12)
    first, second = np.nonzero(precision)
    np.testing.assert_allclose(factor.inverse.at(first, second), inverse[first, second], atol=1e-12)


@few_or_many
def test_selected_inverse_fills_in_what_cancels(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """1 and 2 are coupled through 0 and directly, and both cancel: L is 0 there, and the inverse is not read there."""
    monkeypatch.setattr(selected_inverse, "FEW", few)
    matrix = np.array([[1.0, 1.0, 1.0, 0.0], [1.0, 3.0, 1.0, 1.0], [1.0, 1.0, 3.0, 1.0], [0.0, 1.0, 1.0, 3.0]])
    factor = factorise(sparse.csc_array(matrix))
    np.testing.assert_allclose(factor.inverse.diagonal, np.diagonal(np.linalg.inv(matrix)), atol=1e-14)


def test_singular_matrices_have_no_factor() -> None:
    steps = np.eye(30) - np.eye(30, k=1)
    flat = steps[:-1].T @ steps[:-1]  # of differences alone: the level is free
    for matrix in (flat, flat + 1e-14 * np.eye(30), np.zeros((3, 3))):
        factor = factorise(sparse.csc_array(matrix))
        assert not factor.is_regular and np.isnan(factor.logdet)
        assert np.isnan(factor.solve(np.ones(len(matrix)))).all()


def test_factor_that_fills_in_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = sparse.csc_array(2 * np.eye(10) - np.eye(10, k=1) - np.eye(10, k=-1))
    assert envelope(matrix) == 9
    monkeypatch.setattr(sparse_cholesky, "LARGEST", 8)
    with pytest.raises(DataError, match="9: each is coupled to many"):
        factorise(matrix)


def test_solution_agrees_with_dense_least_squares() -> None:
    rows, sizes, dense = random_rows()
    solution = solve_rows(rows, sizes)
    x, rss, _, _ = np.linalg.lstsq(dense, rows.right)
    assert solution.rss == pytest.approx(rss[0], rel=1e-12)
    assert solution.logdet == pytest.approx(np.linalg.slogdet(dense.T @ dense)[1], abs=1e-12)
    np.testing.assert_allclose(solution.at(np.zeros(40)), x, atol=1e-12)
    np.testing.assert_allclose(solution.variances, np.diagonal(np.linalg.inv(dense.T @ dense)), atol=1e-12)
    assert solve_rows(rows, sizes) is solution  # kept


def test_few_unknowns_that_rounding_would_hide_are_solved_by_orthogonal_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = np.concatenate([np.full(9, 1e-9), np.tile([1.0, -1.0], 8)])
    columns = np.concatenate([np.arange(9), np.stack([np.arange(8), np.arange(1, 9)], axis=1).reshape(-1)])
    rows, sizes = SparseRows(entries, columns, np.ones(17)), RowSizes(9, ((9, 1), (8, 2)))
    solution = solve_rows(rows, sizes)
    assert isinstance(solution, LeastSquaresSolution)
    assert float(solution.logdet) == pytest.approx(np.log(9e-18), rel=1e-8)  # n ε, of one tree
    assert solution.variances.shape == (9,)
    monkeypatch.setattr(sparse_least_squares, "DENSE", 8)
    assert np.isnan(solve_rows(rows._replace(right=np.zeros(17)), sizes).logdet)


def test_numbers_that_are_none_give_none() -> None:
    rows, sizes, _ = random_rows()
    entries = rows.entries.copy()
    entries[3] = np.nan
    assert np.isnan(solve_rows(rows._replace(entries=entries), sizes).logdet)


@pytest.mark.parametrize("is_double", [True, False])
def test_callbacks_agree_with_numpy(is_double: bool) -> None:
    rows, sizes, _ = random_rows()
    known, tolerance = solve_rows(rows, sizes), 1e-12 if is_double else 1e-4
    noise = np.random.default_rng(0).normal(size=(3, 40))

    @jax.jit
    def answers(entries, right, noise):
        solution = solve_sparse(SparseRows(entries, jnp.asarray(rows.columns), right), sizes)
        return solution.logdet, solution.rss, solution.at(noise), solution.variances

    with jax.enable_x64(is_double):
        dtype = jnp.float64 if is_double else jnp.float32
        entries, right = jnp.asarray(rows.entries, dtype), jnp.asarray(rows.right, dtype)
        made = answers(entries, right, jnp.asarray(noise, dtype))
        assert all(part.dtype == dtype for part in made)
        for part, expected in zip(made, (known.logdet, known.rss, known.at(noise), known.variances), strict=True):
            np.testing.assert_allclose(part, expected, atol=tolerance, rtol=tolerance)
        many = jax.vmap(lambda scale: answers(scale * entries, right, jnp.asarray(noise, dtype)))(jnp.ones(2, dtype))
        np.testing.assert_allclose(many[2][1], known.at(noise), atol=tolerance, rtol=tolerance)


def test_derivatives_agree_with_dense_ones() -> None:
    rows, sizes, _ = random_rows()
    places = np.concatenate([np.repeat(np.arange(80), np.repeat([1, 2], 40)), [80, 80]])
    inside = rows.columns < 40

    def dense(theta):
        entries = rows.entries * jnp.exp(theta[0]) ** inside
        A = jnp.zeros((81, 41)).at[places, rows.columns].add(entries)[:, :40]
        b = rows.right * theta[1]
        x = jnp.linalg.solve(A.T @ A, A.T @ b)
        return jnp.linalg.slogdet(A.T @ A)[1] + jnp.sum((A @ x - b) ** 2)

    def by_callback(theta):
        entries = rows.entries * jnp.exp(theta[0]) ** inside
        solution = solve_sparse(SparseRows(entries, jnp.asarray(rows.columns), rows.right * theta[1]), sizes)
        return solution.logdet + solution.rss

    with jax.enable_x64(True):
        at = jnp.array([0.3, 1.2])
        assert by_callback(at) == pytest.approx(float(dense(at)), rel=1e-12)
        np.testing.assert_allclose(jax.jit(jax.grad(by_callback))(at), jax.grad(dense)(at), rtol=1e-10)
        np.testing.assert_allclose(jax.jacfwd(by_callback)(at), jax.grad(dense)(at), rtol=1e-10)
        np.testing.assert_allclose(jax.hessian(by_callback)(at), jax.hessian(dense)(at), rtol=1e-6, atol=1e-6)


def test_derivatives_of_draws_are_refused() -> None:
    rows, sizes, _ = random_rows()

    def drawn(scale):
        entries = jnp.asarray(rows.entries) * scale
        return solve_sparse(SparseRows(entries, rows.columns, jnp.asarray(rows.right)), sizes).at(jnp.ones(40)).sum()

    with pytest.raises(DomainError, match="a derivative of draws or moments of 40 coupled normals"):
        jax.grad(drawn)(1.0)


def test_host_calls_keep_double_precision() -> None:
    third = np.array([1 / 3, 2 / 3])
    with jax.enable_x64(True):
        (made,) = jax.jit(lambda x: host_call(lambda x: (x * 3,), ((2,),), np.float64, x))(jnp.asarray(third))
        np.testing.assert_array_equal(made, third * 3)
        (number,) = host_call(lambda x: (x.sum(),), ((),), np.float64, jnp.asarray(third))
        assert number.shape == () and float(number) == third.sum()
