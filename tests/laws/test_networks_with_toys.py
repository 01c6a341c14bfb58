"""Representations from outside the package beside those of the package: integrals, marginals, plates."""

import numpy as np
import pytest
from scipy import stats

import fubini as fb

from .oracles import Example, integral, points
from .representations import EXAMPLES, assert_at, assert_total
from .toy import Steps, steps


def steps_and_gaussian() -> tuple[Steps, fb.Gaussian, np.ndarray]:
    """Over the same variable u, and ∫ steps · gaussian du for each b and a, by the normal distribution function."""
    heights, means = np.array([[1.0, 2.0, 0.5], [0.25, 1.5, 3.0]]), np.array([0.5, -0.25, 1.0])
    edges = np.array([-1.0, 0.0, 0.5, 2.0])
    f = steps("u", edges, heights, ("b",))
    g = fb.Gaussian(mean=means[:, None], precision=[[2.0]], inputs={"a": fb.Bint[3], "u": fb.Real})
    mass = np.sqrt(np.pi) * np.exp(means**2)
    shares = np.diff(stats.norm.cdf(edges[None], means[:, None], np.sqrt(0.5)), axis=1)
    return f, g, (heights @ shares.T) * mass


def test_a_toy_integrates_its_product_with_a_gaussian():
    f, g, expected = steps_and_gaussian()
    found = (f * g).sum("u")
    np.testing.assert_allclose([[float(found(b=b, a=a)) for a in range(3)] for b in range(2)], expected, rtol=1e-9)


def test_a_toy_integrates_its_product_with_a_gaussian_given_in_two_factors():
    f, g, expected = steps_and_gaussian()
    assert_total((f * g**0.5 * g**0.5).sum("u", "a", "b"), expected.sum())
    assert_total((g**0.5 * f * g**0.5).sum("u", "a", "b"), expected.sum())


def network() -> list[Example]:
    return [EXAMPLES[key] for key in ("table", "batched gaussian", "steps", "box", "log table")]


@pytest.mark.parametrize("name", ["a", "b", "x", "y", "u"])
def test_marginals_of_a_network_with_toys(name):
    """All from one backward pass over tables, a Gaussian, steps and a box."""
    examples = network()
    at = {name: points(examples, nodes=True)[name]}
    marginal = fb.marginals([example.factor for example in examples], ("a", "b", "x", "y", "u"))[name]
    kinds = {"a": fb.Table, "b": fb.Table, "x": fb.Mixture, "y": fb.Mixture, "u": Steps}
    assert isinstance(marginal, kinds[name])
    assert_at(marginal, integral(examples, at) / integral(examples), at)


def test_plates_with_toys():
    """Σ_b Π_a of a table and of steps that live in the plate, with their variable u shared by all cells."""
    rng = np.random.default_rng(0)
    heights, weights, table = rng.uniform(0.5, 2, (3, 2)), rng.uniform(0.5, 2, (2, 3)), rng.uniform(0.5, 2, 2)
    f = steps("u", (0.0, 1.0, 3.0), heights, ("a",))
    found = fb.eliminate([f, fb.Table(weights, ("b", "a")), fb.Table(table, ("b",))], {"u": (), "b": ()}, ("a",))
    assert_total(found, (heights.prod(0) @ [1.0, 2.0]) * (weights.prod(1) @ table))
