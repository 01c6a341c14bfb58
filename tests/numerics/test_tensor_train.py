"""Tensor trains as arrays: products, sums, orders and rounding, against the tensors themselves, and derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fubini.numerics.tensor_train import (
    absorb_cores,
    add_cores,
    from_tensor,
    linear_entries,
    multiply_cores,
    ranks_of,
    reverse_cores,
    scale_cores,
    swap_cores,
    to_tensor,
    trim_cores,
)
from fubini.numerics.train_rounding import reorder_cores, round_cores, target_ranks

RNG = np.random.default_rng(3)


def random_cores(sizes, rank, batch=(), positive=False):
    ranks = [1, *[rank] * (len(sizes) - 1), 1]
    shapes = [(*batch, n, ranks[k], ranks[k + 1]) for k, n in enumerate(sizes)]
    return [RNG.random(shape) if positive else RNG.normal(size=shape) for shape in shapes]


def dense(cores):
    """The tensor, one matrix product after the other."""
    whole = cores[0]
    sizes = [core.shape[-3] for core in cores]
    for core in cores[1:]:
        whole = whole[..., :, None, :, :] @ core[..., None, :, :, :]
        whole = whole.reshape(*whole.shape[:-4], -1, *whole.shape[-2:])
    return whole.reshape(*whole.shape[:-3], *sizes)


@pytest.mark.parametrize("sizes", [(3,), (2, 3), (2, 3, 4), (4, 1, 2, 3), (2, 2, 2, 2, 2)])
def test_from_tensor(sizes) -> None:
    tensor = RNG.normal(size=(2, *sizes))
    cores = from_tensor(tensor, len(sizes))
    np.testing.assert_array_equal(dense(cores), tensor)
    bounds = [min(np.prod(sizes[: k + 1]), np.prod(sizes[k + 1 :])) for k in range(len(sizes) - 1)]
    assert list(ranks_of(cores)) == bounds


def test_to_tensor_is_in_scale() -> None:
    cores = [core * 1e200 for core in random_cores((2, 3, 2), 2, positive=True)]
    entries, shift = to_tensor(cores, [True] * 3)
    expected = dense([core / 1e200 for core in cores])
    np.testing.assert_allclose(np.log(entries) + shift, np.log(expected) + 600 * np.log(10), rtol=1e-13)


def test_to_tensor_has_zero_where_no_digit_is_left() -> None:
    first, last = np.array([[[1.0, 1.0]], [[1.0, 0.5]]]), np.array([[[0.1], [-0.1 * (1 + 1e-16)]], [[1.0], [1.0]]])
    entries, _ = to_tensor([first, last], [True, True])
    assert entries[0, 0] == 0.0 and np.all(entries[[0, 1, 1], [1, 0, 1]] > 0)


def test_multiply_and_add_cores() -> None:
    a, b = random_cores((2, 3, 2), 2, (4,)), random_cores((2, 3, 2), 3)
    np.testing.assert_allclose(dense(multiply_cores(a, b)), dense(a) * dense(b), atol=1e-12)
    np.testing.assert_allclose(dense(add_cores(a, b)), dense(a) + dense(b), atol=1e-12)
    assert ranks_of(multiply_cores(a, b)) == (6, 6) and ranks_of(add_cores(a, b)) == (5, 5)


def test_absorb_cores() -> None:
    cores = random_cores((2, 3, 2, 3), 2)
    kept = [False, True, False, True]
    parts = [core if keep else core.sum(-3, keepdims=True) for core, keep in zip(cores, kept, strict=True)]
    done, shift = absorb_cores(parts, kept)
    np.testing.assert_allclose(dense(done) * np.exp(shift), dense(cores).sum((0, 2)), atol=1e-12)
    done, shift = absorb_cores([core.sum(-3, keepdims=True) for core in cores], [False] * 4)
    np.testing.assert_allclose(done[0].item() * np.exp(shift), dense(cores).sum(), atol=1e-12)


def test_long_chains_stay_in_range() -> None:
    cores = [np.full((3, *shape), 5.0) for shape in [(1, 4), *[(4, 4)] * 1998, (4, 1)]]
    done, shift = absorb_cores([core.sum(-3, keepdims=True) for core in cores], [False] * 2000)
    assert np.log(done[0].item()) + shift == pytest.approx(2000 * np.log(15.0) + 1999 * np.log(4.0), rel=1e-12)


def test_trim_cores() -> None:
    cores = random_cores((2, 3, 2, 2), 20)
    trimmed = trim_cores(cores)
    assert ranks_of(trimmed) == (2, 4, 2)
    np.testing.assert_allclose(dense(trimmed), dense(cores), rtol=1e-11, atol=1e-11)


def test_swap_and_reverse_cores() -> None:
    for rank in (1, 2, 5):
        cores = random_cores((2, 3, 4), rank, (2,))
        swapped = [cores[0], *swap_cores(*cores[1:])]
        np.testing.assert_allclose(dense(swapped), np.swapaxes(dense(cores), -1, -2), atol=1e-12)
        swapped = [*swap_cores(*cores[:2]), cores[2]]
        np.testing.assert_allclose(dense(swapped), np.swapaxes(dense(cores), -2, -3), atol=1e-12)
        np.testing.assert_allclose(dense(reverse_cores(cores)), np.moveaxis(dense(cores), (1, 3), (3, 1)), atol=1e-12)


@pytest.mark.parametrize("places", [(2, 0, 3, 1), (3, 2, 1, 0), (0, 1, 2, 3), (3, 1, 2, 0)])
def test_reorder_cores(places) -> None:
    cores = random_cores((2, 3, 4, 2), 2)
    done, error = reorder_cores(cores, places, 100)
    assert error is None
    np.testing.assert_allclose(dense(done), np.transpose(dense(cores), places), atol=1e-12)
    done, error = reorder_cores(cores, places, 2)
    gap = np.linalg.norm(dense(done) - np.transpose(dense(cores), places)) / np.linalg.norm(dense(cores))
    assert gap <= (0.0 if error is None else float(error)) + 1e-12 and max(ranks_of(done)) <= 2


def test_reversal_needs_no_rounding() -> None:
    done, error = reorder_cores(random_cores((2,) * 12, 3), range(11, -1, -1), 3)
    assert error is None and ranks_of(done) == (3,) * 11


@pytest.mark.parametrize("bound", [1, 2, 3, 5])
def test_round_cores(bound) -> None:
    """The error reported is that of the tensor; no train of these ranks is nearer than the worst bond says."""
    cores = random_cores((3, 2, 4, 3), 6, (2,))
    done, error = round_cores(cores, bound)
    exact, rounded = dense(cores), dense(done)
    flat = (exact - rounded).reshape(2, -1)
    np.testing.assert_allclose(
        error, np.linalg.norm(flat, axis=1) / np.linalg.norm(exact.reshape(2, -1), axis=1), atol=1e-12
    )
    assert list(ranks_of(done)) == target_ranks(cores, bound)
    for k in range(1, 4):
        values = np.linalg.svd(exact.reshape(2, int(np.prod((3, 2, 4, 3)[:k])), -1), compute_uv=False)
        least = np.sqrt((values[:, bound:] ** 2).sum(-1) / (values**2).sum(-1))
        assert np.all(error >= least - 1e-12)
        assert np.all(error <= 3 * max(np.max(least), 1.0))


def test_round_cores_keeps_what_fits() -> None:
    low = random_cores((3, 3, 3, 3), 2)
    twice = add_cores(low, low)
    done, error = round_cores(twice, 2)
    np.testing.assert_allclose(dense(done), 2 * dense(low), rtol=1e-10, atol=1e-12)
    assert error < 1e-7  # the square root of what is left of the squares


def test_round_cores_of_zero() -> None:
    done, error = round_cores([np.zeros_like(core) for core in random_cores((3, 3, 3), 3)], 1)
    assert not dense(done).any() and error == 0.0


def test_linear_entries_of_a_wide_range() -> None:
    entries, top = linear_entries(np.array([1e-300, 0.0, 1.0]), np.array([700.0, 5000.0, 3.0]), (0,))
    assert top == pytest.approx(700 - 300 * np.log(10), rel=1e-12)
    np.testing.assert_allclose(entries * np.exp(top), [np.exp(700 - 300 * np.log(10)), 0.0, np.exp(3.0)], rtol=1e-11)


def objective(bound, sizes, weights):
    def value(cores):
        done, _ = round_cores(cores, bound)
        done, shift = scale_cores(done)
        entries, log = to_tensor(done, [True] * len(sizes))
        return jnp.sum(weights * entries * jnp.exp(log + shift))

    return value


def assert_derivative(value, cores) -> None:
    """The gradient against central differences along a direction."""
    direction = [RNG.normal(size=core.shape) for core in cores]
    step = 1e-5
    ends = [value([jnp.asarray(c + s * step * d) for c, d in zip(cores, direction, strict=True)]) for s in (1, -1)]
    gradient = jax.jit(jax.grad(value))([jnp.asarray(core) for core in cores])
    slope = sum(jnp.sum(g * d) for g, d in zip(gradient, direction, strict=True))
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * step), rtol=2e-6, atol=1e-8)


@pytest.mark.parametrize("bound", [1, 2, 3, 4])
def test_derivative_of_rounding(bound) -> None:
    sizes = (3, 2, 4, 3)
    with jax.enable_x64(True):
        assert_derivative(objective(bound, sizes, RNG.normal(size=sizes)), random_cores(sizes, 5))


def test_derivative_where_kept_singular_values_are_equal() -> None:
    """Diagonal matrices: singular values 2, 2, 1 of which the equal ones are kept."""
    with jax.enable_x64(True):
        first = np.eye(3)[:, None, :]
        last = np.diag([2.0, 2.0, 1.0]).T[:, :, None]
        assert_derivative(objective(2, (3, 3), RNG.normal(size=(3, 3))), [first, last])


def test_derivative_along_tensors_of_a_rank_below_the_bound() -> None:
    """a(x) b(y) c(z) twice over, in ranks 4 and bounded by 3: the rank of the tensor is 1 whatever a, b, c are."""
    weights = RNG.normal(size=(3, 4, 3))
    parts = [RNG.normal(size=size) for size in (3, 4, 3)]

    def value(parts):
        one = [part[:, None, None] for part in parts]
        four = add_cores(add_cores(one, one), add_cores(one, one))
        done, _ = round_cores(four, 3)
        entries, log = to_tensor(done, [True] * 3)
        return jnp.sum(weights * entries * jnp.exp(log))

    with jax.enable_x64(True):
        assert_derivative(value, parts)


def test_derivative_is_not_a_number_where_the_projection_jumps() -> None:
    """Singular values 2, 1, 1 of which two are kept: the second could be any of a plane."""
    with jax.enable_x64(True):
        first, last = np.eye(3)[:, None, :], np.diag([2.0, 1.0, 1.0])[:, :, None]
        gradient = jax.grad(objective(2, (3, 3), RNG.normal(size=(3, 3))))([jnp.asarray(first), jnp.asarray(last)])
        assert not all(np.isfinite(g).all() for g in gradient)


def test_jit_and_vmap_agree_with_numpy() -> None:
    with jax.enable_x64(True):
        cores = random_cores((3, 2, 4), 4, (5,))
        done, error = jax.jit(jax.vmap(lambda cores: round_cores(cores, 2)))([jnp.asarray(core) for core in cores])
        expected, same = round_cores(cores, 2)
        np.testing.assert_allclose(dense(done), dense(expected), atol=1e-10)
        np.testing.assert_allclose(error, same, atol=1e-10)
