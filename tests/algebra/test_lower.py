"""Nodes in numbers: whole numbers of any width, places that are not whole, NumPy against JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.algebra.axes import aligned
from fubini.algebra.build import add, call, const, equal, get, index, power, times
from fubini.algebra.evaluation import Evaluation, evaluate
from fubini.algebra.node import Index, Leaf
from fubini.algebra.sums import total

TYPES = (np.uint8, np.int8, np.int16, np.int32, np.int64, np.float32, np.float64)


@fb.model
def spread(n):
    s = yield dist.InverseGamma(2.0, 3.0)
    y = yield dist.Normal(0.0, jnp.sqrt(s)).expand([n])


@pytest.mark.parametrize("width", TYPES)
def test_data_of_any_type_have_one_evidence(width) -> None:
    """Squares of bytes do not wrap."""
    y = np.array([100, 120, 16])
    found = spread(3).condition(y=y.astype(width)).log_evidence()
    a, b = 2 + 1.5, 3 + (y**2).sum() / 2
    right = 2 * np.log(3) + float(jax.scipy.special.gammaln(a)) - a * np.log(b) - 1.5 * np.log(2 * np.pi)
    assert float(found) == pytest.approx(right, rel=1e-6)


def test_whole_numbers_do_not_overflow_under_jit() -> None:
    y = jnp.array([100_000, 2])
    found = jax.jit(lambda y: spread(2).condition(y=y).log_evidence().data)(y)
    assert float(found) == pytest.approx(float(spread(2).condition(y=y * 1.0).log_evidence()), rel=1e-6)


@pytest.mark.parametrize("xp", [np, jnp], ids=["numpy", "jax"])
def test_functions_of_bytes_have_all_digits(xp) -> None:
    leaf, i = Leaf("y", (3,), is_integer=True, low=0.0), Index(3)
    y = np.array([200, 100, 7], np.uint8)
    found = Evaluation({leaf: y}, xp=xp).of(call("log", get(leaf, index(i)))).data
    np.testing.assert_allclose(found, np.log(y.astype(float)), rtol=1e-6)


@pytest.mark.parametrize("xp", [np, jnp], ids=["numpy", "jax"])
def test_a_place_that_is_not_whole_is_no_place(xp) -> None:
    """Σ_j [s_j = c] s_j, and Σ_c [s_j = c] x_c"""
    s, x = Leaf("s", (4,)), Leaf("x", (3,))
    j, c = Index(4), Index(3)
    arrays = {s: np.array([0.5, 1.0, 2.5, 1.0]), x: np.array([3.0, 5.0, 7.0])}
    by_class = total([j], times(equal(get(s, index(j)), index(c)), get(s, index(j))))
    np.testing.assert_allclose(aligned(Evaluation(arrays, xp=xp).of(by_class), (c,)), [0.0, 2.0, 0.0])
    read = total([c], times(equal(get(s, index(j)), index(c)), get(x, index(c))))
    np.testing.assert_allclose(aligned(Evaluation(arrays, xp=xp).of(read), (j,)), [0.0, 5.0, 0.0, 5.0])


def test_places_beyond_single_precision() -> None:
    """i · 2²⁴ + j keeps its last digit."""
    i, j = Index(2), Index(3)
    found = evaluate(add(((index(i), 2.0**24), (index(j), 1.0), (const(1.0), 1.0))), {}, (i, j))
    np.testing.assert_array_equal(np.asarray(found), [[1, 2, 3], [2**24 + 1, 2**24 + 2, 2**24 + 3]])


def test_powers_of_indices() -> None:
    i = Index(3)
    found = evaluate(power(add(((index(i), 1.0), (const(1.0), 1.0))), -2.0), {}, (i,))
    np.testing.assert_allclose(found, [1.0, 0.25, 1 / 9], rtol=1e-6)
