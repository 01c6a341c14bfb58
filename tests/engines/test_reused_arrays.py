"""Arrays are used again, by programs of any plan, and few wait."""

from itertools import pairwise

import numpy as np

import fubini as fb
from fubini.engines.reused_arrays import ReusedArrays, reused_arrays


def test_an_array_that_was_given_back_is_taken() -> None:
    arrays = ReusedArrays(64)
    first = arrays.take(10)
    assert first.shape == (16,) and arrays.take(16) is not first
    arrays.give(first)
    assert arrays.kept == 16 and arrays.take(9) is first and arrays.kept == 0
    assert len(arrays.take(1)) == 1 and len(arrays.take(0)) == 1


def test_what_waits_is_bounded() -> None:
    arrays = ReusedArrays(64)
    for size in (32, 32, 16, 16, 8, 128):
        arrays.give(np.empty(size))
        assert arrays.kept <= 64
    assert arrays.kept == 16 + 16 + 8 and len(arrays.take(128)) == 128


def test_plans_share_them() -> None:
    """Many plans over tables of one size leave the arrays of one run."""
    rng = np.random.default_rng(0)
    kept = None
    with fb.engine("flat"):
        for width in range(3, 9):
            names = [f"x{n}" for n in range(width)]
            factors = [fb.Table(rng.random((8, 8)), pair) for pair in pairwise(names)]
            right = np.linalg.multi_dot([np.ones(8), *(f.weights for f in factors), np.ones(8)])
            np.testing.assert_allclose(float(fb.eliminate(factors, names)), right, rtol=1e-12)
            kept = reused_arrays.kept if kept is None else kept
    assert reused_arrays.kept <= kept + 2**10
