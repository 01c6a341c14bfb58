"""Chains of rows by means and covariances, against one dense normal distribution of all states in NumPy."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fubini.numerics.matrix_entries import inverse, matrix_of, stack_matrix, stack_vector
from fubini.numerics.moment_chains import ChainRows, Passed, log_evidence, passed, slopes, smoothed, to_rows

LENGTH, SIZE, ROWS, CELLS = 4, 2, 5, 3


def random_rows(seed: int, timed: bool = True, cells: int = CELLS, size: int = SIZE) -> ChainRows:
    """A chain whose start and vectors differ from cell to cell, and whose matrices change in time, or not."""
    rng = np.random.default_rng(seed)
    times = LENGTH if timed else 1
    return ChainRows(
        rng.normal(size=(cells, size + 1, size)),
        rng.normal(size=(cells, size + 1)),
        rng.normal(size=(times, 1, ROWS, size)),
        rng.normal(size=(times, 1, ROWS, size)),
        rng.normal(size=(LENGTH, cells, ROWS)),
    )


def dense(rows: ChainRows, cell: int) -> tuple[float, np.ndarray, np.ndarray]:
    """The log-evidence, mean and covariance of all states of one cell: states one after another."""
    size = rows.first.shape[-1]
    end = (LENGTH + 1) * size
    whole, right = [np.zeros((rows.first.shape[-2], end))], [rows.first_vector[cell]]
    whole[0][:, :size] = rows.first[cell]
    for t in range(LENGTH):
        block = np.zeros((ROWS, end))
        block[:, t * size : (t + 1) * size] = rows.before[min(t, len(rows.before) - 1), 0]
        block[:, (t + 1) * size : (t + 2) * size] = rows.after[min(t, len(rows.after) - 1), 0]
        whole.append(block)
        right.append(rows.vector[t, cell])
    R, r = np.concatenate(whole), np.concatenate(right)
    covariance = np.linalg.inv(R.T @ R)
    mean = covariance @ R.T @ r
    log = -0.5 * np.sum((R @ mean - r) ** 2) + 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
    return float(log), mean, covariance


@pytest.fixture(scope="module", params=[True, False], ids=["changing", "steady"])
def answers(request: pytest.FixtureRequest) -> tuple[ChainRows, Passed, tuple, ChainRows]:
    """Rows, and what the filter, the smoother and the slopes say of them."""
    rows = random_rows(0, request.param)
    with jax.enable_x64(True):
        ask = jax.jit(lambda rows: ((found := passed(rows, LENGTH)), smoothed(found), slopes(rows, found)))
        return rows, *ask(ChainRows(*map(jnp.asarray, rows)))


def test_evidence_and_filter(answers: tuple) -> None:
    """∫ over all states, and the last state given all steps"""
    rows, found, *_ = answers
    assert bool(found.safe)
    with jax.enable_x64(True):
        logs, covariances = log_evidence(found), stack_matrix(found.after.covariance)[-1]
        means = stack_vector(found.after.mean)[-1]
    for cell in range(CELLS):
        log, mean, covariance = dense(rows, cell)
        np.testing.assert_allclose(logs[cell], log, rtol=1e-9)
        np.testing.assert_allclose(means[cell], mean[-SIZE:], rtol=1e-8)
        np.testing.assert_allclose(covariances[cell], covariance[-SIZE:, -SIZE:], rtol=1e-8)


def test_smoothed_pairs(answers: tuple) -> None:
    """Moments of neighbours given everything"""
    rows, _, pairs, _ = answers
    with jax.enable_x64(True):
        before, cross = stack_vector(pairs.before.mean), stack_matrix(pairs.cross)
        after, spread = stack_vector(pairs.after.mean), stack_matrix(pairs.after.covariance)
    for cell in range(CELLS):
        _, mean, covariance = dense(rows, cell)
        means = mean.reshape(LENGTH + 1, SIZE)
        blocks = covariance.reshape(LENGTH + 1, SIZE, LENGTH + 1, SIZE)
        np.testing.assert_allclose(before[:, cell], means[:-1], rtol=1e-8)
        np.testing.assert_allclose(after[:, cell], means[1:], rtol=1e-8)
        for t in range(LENGTH):
            np.testing.assert_allclose(cross[t, cell], blocks[t, :, t + 1], atol=1e-10)
            np.testing.assert_allclose(spread[t, cell], blocks[t + 1, :, t + 1], atol=1e-10)


def test_slopes(answers: tuple) -> None:
    """∂ log ∫ / ∂ rows, summed over what shares them, by central differences"""
    rows, *_, found = answers
    rng = np.random.default_rng(5)
    for place, (own, slope) in enumerate(zip(rows, found, strict=True)):
        along = rng.normal(size=own.shape)
        moved = [rows._replace(**{rows._fields[place]: own + step * along}) for step in (1e-5, -1e-5)]
        ends = [sum(dense(other, cell)[0] for cell in range(CELLS)) for other in moved]
        np.testing.assert_allclose((np.asarray(slope) * along).sum(), (ends[0] - ends[1]) / 2e-5, rtol=1e-6)


def test_to_rows(answers: tuple) -> None:
    """exp(−½|R x − r|²) · c is a density with the moments"""
    _, found, *_ = answers
    with jax.enable_x64(True):
        R, r, log = map(np.asarray, to_rows(found.after))
        P, m = np.asarray(stack_matrix(found.after.covariance)), np.asarray(stack_vector(found.after.mean))
    np.testing.assert_allclose(np.swapaxes(R, -1, -2) @ R, np.linalg.inv(P), rtol=1e-8)
    np.testing.assert_allclose(r, (R @ m[..., None])[..., 0], rtol=1e-8)
    np.testing.assert_allclose(log, -0.5 * np.linalg.slogdet(2 * np.pi * P)[1], rtol=1e-8)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_inverse(size: int) -> None:
    """A⁻¹ and det A"""
    A = np.random.default_rng(size).normal(size=(6, size, size))
    with jax.enable_x64(True):
        inverted, determinant = inverse(matrix_of(jnp.asarray(A)))
        np.testing.assert_allclose(stack_matrix(inverted), np.linalg.inv(A), rtol=1e-8)
    np.testing.assert_allclose(determinant, np.linalg.det(A), rtol=1e-8)


@pytest.mark.parametrize("what", ["no start", "equal numbers"])
def test_close_to_singular(what: str) -> None:
    """A start that says nothing of one state, and two states that are the same beyond half of the digits."""
    first = np.eye(2)[None] if what == "equal numbers" else np.array([[[1.0, 1.0], [2.0, 2.0]]])
    rows = random_rows(1, False, 1)._replace(first=first, first_vector=np.zeros((1, 2)))
    if what == "equal numbers":
        rows = rows._replace(first=np.array([[[1.0, 0.0], [1e6, -1e6]]]))
    single = ChainRows(*(jnp.asarray(data, np.float32) for data in rows))
    assert not bool(jax.jit(partial(passed, length=LENGTH))(single).safe)
