"""Reading jumps and affine functions from their jaxprs: against the functions themselves, and what is not read."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fubini.numerics.jumps import read_affine, read_jumps

Function = Callable[[jax.Array], jax.Array]

JUMPS: dict[str, tuple[Function, list[list[float]]]] = {
    "above": (lambda x: jnp.where(x[0] > 0.5, 1.0, -2.0), [[0.5], []]),
    "below, scaled and moved": (lambda x: jnp.where(3.0 - 2.0 * x[1] <= 1.0, 1.0, 0.0), [[], [1.0]]),
    "quadrants": (lambda x: jnp.where(x[1] > 0, jnp.where(x[0] > 0, 0, 1), jnp.where(x[0] > 0, 3, 2)), [[0.0], [0.0]]),
    "every element": (lambda x: jnp.sum(jnp.where(x < jnp.array([0.3, -0.7]), 1.0, 4.0)), [[0.3], [-0.7]]),
    "far away": (lambda x: jnp.where(x[0] > 1e17, 1.0, 0.0), [[1e17], []]),
    "two of one axis": (lambda x: jnp.exp(jnp.where((x[0] > -1) & (x[0] < 1), 1.0, 0.5)), [[-1.0, 1.0], []]),
    "a held value": (lambda x: jnp.where(jax.lax.stop_gradient(x[0]) > 0.25, 1.0, 0.0), [[0.25], []]),
}


@pytest.mark.parametrize("name", JUMPS)
def test_jumps(name: str) -> None:
    function, edges = JUMPS[name]
    with jax.enable_x64(True):
        reading = read_jumps(function, 2)
        assert reading is not None
        assert [own.tolist() for own in reading.edges] == edges
        for point in np.random.default_rng(0).normal(size=(20, 2)):
            below = [int((own < z).sum()) for own, z in zip(reading.edges, point, strict=True)]
            assert reading.at(below) == function(jnp.asarray(point))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.where(x[0] > jnp.inf, 1.0, 0.0),
        lambda x: jnp.where(x[0] * jnp.nan > 0.0, 1.0, 0.0),
        lambda x: jnp.where(x[0] + x[1] > 0.0, 1.0, 0.0),
        lambda x: jnp.where(x[0] * x[1] > 0.0, 1.0, 0.0),
        lambda x: jnp.where(x[0].astype(int) > 0, 1.0, 0.0),
        lambda x: jnp.where(x[0] > 0.0, x[1], 0.0),
        lambda x: (x[0] > 0.0, x[1])[1],
        jnp.sum,
    ],
    ids=["infinity", "no number", "oblique", "product", "rounded", "not constant", "unused", "affine"],
)
def test_no_jumps(function: Function) -> None:
    assert read_jumps(function, 2) is None


AFFINE: list[Function] = [
    lambda x: 1e8 + 0.3 * x[0] - x[1] / 7.0,
    lambda x: jnp.array([[1.0, 2.0], [0.5, -1.0]]) @ x + jnp.array([1e8, 0.0]),
    lambda x: jnp.concatenate([x[::-1], jnp.array([2.0])]) * 0.1,
    lambda x: jax.lax.stop_gradient(x[0]) * 2.0 - 1.0,
]


@pytest.mark.parametrize("function", AFFINE)
def test_affine(function: Function) -> None:
    """The slopes are those of the function to the last digits, however large its constant is."""
    with jax.enable_x64(True):
        reading = read_affine(function, 2)
        assert reading is not None
        constant, slopes = reading
        assert constant == pytest.approx(np.asarray(function(jnp.zeros(2))), abs=1e-12)
        for k, unit in enumerate(np.eye(2) * 2.0**30):
            moved = np.asarray(function(jnp.asarray(unit))) - np.asarray(function(-jnp.asarray(unit)))
            assert slopes[k] == pytest.approx(moved / 2.0**31, rel=1e-12, abs=1e-12)


def test_rounding_is_not_affine_in_a_trace() -> None:
    readings = []

    def traced(a: jax.Array) -> jax.Array:
        readings.append(read_affine(lambda x: (a * x[0]).astype(int) * 2, 1))
        readings.append(read_affine(lambda x: a * x[0], 1))
        return a

    jax.jit(traced)(2.0)
    assert readings[0] is None
    assert readings[1] is not None
