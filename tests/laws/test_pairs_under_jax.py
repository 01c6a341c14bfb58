"""Every pair of the representations that hold arrays, under jit, vmap and grad, in double precision.

The oracle is the evidence of the same pair in NumPy, which test_conformance.py holds against quadrature.
"""

from collections.abc import Callable
from itertools import combinations_with_replacement
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.factors.diagram import Diagram
from fubini.factors.sparse import Sparse
from fubini.factors.train import Train
from tests.representations.log_linear import LogLinear

X = fb.Variable("x", fb.Real)
AT = np.array([0.3, -0.8, 1.1])


def table(t):
    return fb.Table(np.array([0.2, 0.0, 1.4]) * t, ("a",))


def gaussian(t):
    return dist.Normal(fb.Array(AT * t, ("a",)), 0.7)("x")


def rank_deficient(t):
    return dist.Normal(2.0 * X, 1.0 + t)("y")


def quotient(t):
    return dist.Normal(0.1 * t, 0.5)("x") / dist.Normal(0.4, 2.0)("x")


def point(t):
    return fb.Delta({"z": t * X + 1.0}, fb.Table(np.array([0.5, 1.0, 2.0]) * t, ("a",)))


def mixture(t):
    return (
        fb.Table(np.array([0.3, 0.7]) * t, ("k",)) * dist.Normal(fb.Array(np.array([-1.0, 1.0]), ("k",)), 1.0)("x")
    ).sum("k")


def sparse(t):
    return Sparse(np.array([[0, 1], [2, 0], [2, 1]]), np.array([0.4, 1.5, 0.7]) * t, {"a": fb.Bint[3], "b": fb.Bint[2]})


def diagram(t):
    return Diagram(np.array([[0.5, 0.5], [2.0, 0.0], [0.5, 2.0]]) * t, ("a", "b"))


def train(t):
    first, last = np.array([[[1.0, 0.5], [0.25, 2.0], [0.6, 0.2]]]), np.array([[[0.75], [1.5]], [[0.3], [1.0]]])
    return Train([first * t, last], ("a", "b"), rank=3)


def circuit(t):
    weights = np.array([[0.5, 1.5], [0.0, 0.25]]) * t
    return fb.circuits.unconstrained(("b", "c")).multiply(fb.Table(weights, ("b", "c")))


def log_linear(t):
    theta = np.array([[0.3, -0.6], [-0.2, 0.9], [0.5, 0.1]])
    return LogLinear(fb.Array(theta * t, ("a", "b")), fb.Array(np.array([0.4, -0.7]), ("c",)))


def pieces(t):
    heights = np.array([0.8, 1.5])
    low, high = fb.Table(heights * t, ("b",)), fb.Table(heights, ("b",))
    return fb.Piecewise([({"x": (-np.inf, 0.2)}, low), ({"x": (0.2, 1.5)}, high)])


def truncated(t):
    return fb.Piecewise([({"x": (-0.4, np.inf)}, dist.Normal(0.3 * t, 0.8)("x"))])


def atoms(t):
    points = fb.Array(np.array([0.1, 0.9]) * t, ("i",))
    return fb.Delta({"x": points}, fb.Table(np.array([0.4, 1.1]), ("i",))).sum("i")


FACTORS = (table, sparse, diagram, train, gaussian, rank_deficient, quotient, point, mixture)
TOGETHER = (
    circuit,
    log_linear,
    pieces,
    truncated,
    atoms,
)  # each compiled with these and with BESIDE at once
BESIDE = (table, gaussian, mixture)
PAIRS = [pair for pair in combinations_with_replacement(FACTORS, 2) if pair != (point, point)]


def evidence(one: Callable, two: Callable, t):
    """All variables summed out of the pair and priors; linear in nothing, smooth in t."""
    joint = one(t) * two(1.5 * t) * dist.Normal(0.2, 1.3)("x")
    return joint.sum(*joint.inputs).log().data


@pytest.mark.slow
@pytest.mark.parametrize(("one", "two"), PAIRS, ids=lambda factor: factor.__name__)
@pytest.mark.one_in(3)
def test_pair(one: Callable, two: Callable) -> None:
    def plain(t: float) -> float:
        return float(evidence(one, two, t))

    step = 1e-5
    slope = (plain(0.9 + step) - plain(0.9 - step)) / (2 * step)
    with jax.enable_x64(True):
        both = jax.jit(jax.value_and_grad(lambda t: evidence(one, two, t)))
        value, gradient = both(jnp.asarray(0.9))
        mapped = jax.jit(jax.vmap(lambda t: evidence(one, two, t)))(jnp.asarray([0.9, 1.2]))
        np.testing.assert_allclose(value, plain(0.9), rtol=1e-9)
        np.testing.assert_allclose(gradient, slope, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(mapped, [plain(0.9), plain(1.2)], rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("one", TOGETHER, ids=lambda factor: factor.__name__)
def test_pairs_of_one_kind(one: Callable) -> None:
    """All pairs of one kind in one compiled function, with the derivative by t."""
    partners = [two for two in (*BESIDE, *TOGETHER[TOGETHER.index(one) :]) if (one, two) != (atoms, atoms)]

    def every(t: Any) -> list:
        return [evidence(one, two, t) for two in partners]

    step = 1e-5
    before, after, plain = (np.array([float(log) for log in every(0.9 + shift)]) for shift in (-step, step, 0.0))
    with jax.enable_x64(True):
        values, slopes = jax.jit(lambda t: jax.jvp(every, (t,), (jnp.ones_like(t),)))(jnp.asarray(0.9))
        np.testing.assert_allclose(values, plain, rtol=1e-9)
        np.testing.assert_allclose(slopes, (after - before) / (2 * step), rtol=1e-5, atol=1e-7)
