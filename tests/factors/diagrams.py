"""Small diagrams, and how they are read: what the tests of diagrams share."""

from typing import Any

import jax
import numpy as np

import fubini as fb
from fubini.base.interpretations import interpret

A = np.array([[0.5, 0.8], [0.1, 0.0], [0.3, 0.9]])  # Koller and Friedman 2009, figure 4.3
B = np.array([[0.5, 0.7], [0.1, 0.2]])
STEP = np.array([[[1.0, 2.0], [1.0, 2.0]], [[3.0, 3.0], [0.0, 0.0]], [[3.0, 3.0], [0.0, 0.0]]])
SIZES = {"a": 3, "b": 2, "c": 2, "d": 3}
KEY = jax.random.key(0)


def cells(factor: fb.Factor, *names: str) -> np.ndarray:
    """The weights of a factor, axes in this order."""
    value = factor.log()
    assert set(value.inputs) == set(names)
    for name in reversed(names):
        value = fb.stack(value, name)
    return np.exp(np.asarray(value.data, np.float64))


def assert_is(factor: fb.Factor, kind: type, expected: Any, *names: str, rtol: float = 1e-12) -> None:
    """Of this kind, exact, with these weights."""
    assert type(factor) is kind
    assert factor.exactness.is_exact
    np.testing.assert_allclose(cells(factor, *names), expected, rtol=rtol, atol=0)


def multiply(f: fb.Factor, g: fb.Factor) -> fb.Factor:
    return interpret(fb.heads.MULTIPLY, f, g)
