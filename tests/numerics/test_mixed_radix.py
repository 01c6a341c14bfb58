"""Keys of cells and their positions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini.numerics.mixed_radix import split_keys

SIZES = (3, 4, 2, 3)


@pytest.mark.parametrize("xp", [np, jnp])
@pytest.mark.parametrize("shape", [(20_000,), (20_000, 1), (2, 10_000, 1), (100, 200)])
def test_split_keys(shape: tuple[int, ...], xp: object) -> None:
    keys = np.random.default_rng(0).integers(0, 72, shape)
    expected = np.unravel_index(keys.ravel(), SIZES)
    for found, at in zip(split_keys(xp.asarray(keys), SIZES), expected, strict=True):  # type: ignore[attr-defined]
        np.testing.assert_array_equal(found, at.reshape(shape))


def test_many_draws_beside_an_axis_of_length_one() -> None:
    """More than 8192 draws, which NumPy's unravel_index takes in several parts."""
    weights = np.random.default_rng(0).random((1, 3, 4))
    draws = fb.sample(jax.random.key(0), fb.Table(weights, ("i", "a", "b")), ("a", "b"), n=20_000)
    cells = np.ravel_multi_index([draws["a"].ravel(), draws["b"].ravel()], (3, 4))
    np.testing.assert_allclose(np.bincount(cells, minlength=12) / 20_000, weights.ravel() / weights.sum(), atol=0.015)
