"""The table of scalar functions: what a record says of numbers, arrays, bounds and loops agrees."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from fubini.base.scalar_functions import FUNCTIONS, ScalarFunction
from fubini.compile.emit import HELPERS

BINARY = ("max", "min", "pow", "quotient", "log_rising")
UNARY = [function for name, function in FUNCTIONS.items() if name not in BINARY]
POINTS = np.array([0.25, 0.5, 1.0, 2.0, 3.75])

each = pytest.mark.parametrize("function", UNARY, ids=str)


@each
def test_engines_agree(function: ScalarFunction) -> None:
    np.testing.assert_allclose(function(POINTS), function(jnp.asarray(POINTS)), rtol=2e-5, atol=1e-6)


@each
def test_whole_numbers_are_numbers(function: ScalarFunction) -> None:
    whole = np.array([1, 2, 3])
    for array in (whole, jnp.asarray(whole)):
        np.testing.assert_allclose(function(array), function(whole * 1.0), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("function", [function for function in UNARY if function.number], ids=str)
def test_numbers_agree_with_arrays(function: ScalarFunction) -> None:
    assert function.number is not None
    np.testing.assert_allclose([function.number(x) for x in POINTS], function(POINTS), rtol=1e-13, atol=1e-15)


@each
def test_values_are_within_bounds(function: ScalarFunction) -> None:
    low, high = function.bounds((0.25, 3.75))
    assert np.all(function(POINTS) >= low) and np.all(function(POINTS) <= high)


@each
def test_traits(function: ScalarFunction) -> None:
    values = function(POINTS)
    assert not function.is_whole or np.all(values == np.floor(values))
    assert not function.is_positive or np.all(values > 0)
    assert not function.is_increasing or np.all(np.diff(values) > 0)
    assert function.exponent is None or np.allclose(values, POINTS**function.exponent)


@pytest.mark.parametrize("function", [function for function in UNARY if function.loop], ids=str)
def test_loops_compute_the_same(function: ScalarFunction) -> None:
    plain = HELPERS.get(function.loop, "").replace('@njit(error_model="numpy")\n', "")
    scope: dict = {"math": math}
    exec(plain, scope)
    text = function.loop if "{" in function.loop else f"{function.loop}({{0}})"
    values = [eval(text.format(repr(float(x))), scope) for x in POINTS]
    np.testing.assert_allclose(values, function(POINTS), rtol=1e-13, atol=1e-15)
