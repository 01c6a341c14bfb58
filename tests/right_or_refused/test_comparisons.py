"""Comparisons of Values are Values, however they are written; of factors, an error that names `fb.same`."""

import math
import operator
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.measures import Bernoulli, Uniform, condition

pytestmark = pytest.mark.right_or_refused

X, Y = fb.Variable("x", fb.Bint[3]), fb.Variable("y", fb.Real)
PRIOR, SEEN = np.array([0.2, 0.3, 0.5]), 1.5
COMPARE = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]


def normal(x: float, mean: float) -> float:
    """N(x; mean, 1)"""
    return math.exp(-0.5 * (x - mean) ** 2) / math.sqrt(2 * math.pi)


EVIDENCE = math.log(0.3 * normal(SEEN, 2.0) + 0.7 * normal(SEEN, 3.0))


@pytest.mark.parametrize("compare", COMPARE)
def test_comparisons_are_those_of_the_numbers(compare: Callable) -> None:
    for other in (1, 1.0, np.float64(1.0), jnp.asarray(1.0)):
        for test in (compare(X, other), compare(other, X)):
            assert isinstance(test, fb.Value) and test.output == fb.Bint[2]
        right, left = compare(X, other), compare(other, X)
        assert [int(right(x=k).data) for k in range(3)] == [int(compare(k, 1)) for k in range(3)]
        assert [int(left(x=k).data) for k in range(3)] == [int(compare(1, k)) for k in range(3)]
    against = compare(np.array([0.0, 1.0, 2.0]), Y)
    np.testing.assert_array_equal(against(y=1.0).data, compare(np.array([0.0, 1.0, 2.0]), 1.0))


def test_and_or_not_of_tests() -> None:
    inside = (Y > 0.0) & ~(Y >= 2.0) | (Y == 5.0)
    assert [bool(inside(y=v)) for v in (-1.0, 1.0, 2.0, 5.0)] == [False, True, False, True]
    assert bool((True & (Y > 0))(y=1.0)) and bool((False | (Y > 0))(y=1.0))


@pytest.mark.parametrize("ask", [lambda: X & 1, lambda: 3 | X, lambda: ~X, lambda: (Y > 0) & Y])
def test_bits_of_numbers_are_refused(ask: Callable) -> None:
    with pytest.raises(fb.FubiniError, match="truth values"):
        ask()


def test_the_truth_of_an_open_value_is_an_error_and_of_a_known_one_is_known() -> None:
    assert bool(fb.Array(2.0) > 1.0) is True and bool(fb.Array(2.0) == 1.0) is False
    for open_value in (Y > 0, Y, fb.Array(np.array([1.0, 2.0])) > 0, fb.Array(2.0)):
        with pytest.raises(fb.FubiniError, match="the truth of"):
            bool(open_value)
    with pytest.raises(fb.FubiniError, match="traced"):
        jax.jit(lambda v: 1 if fb.Array(v) > 0 else 2)(1.0)
    assert Y in [Y] and {X: 1, Y: 2}[Y] == 2  # containers go by identity


@pytest.mark.parametrize("compare", [operator.eq, operator.ne])
def test_factors_and_distributions_do_not_compare(compare: Callable) -> None:
    f = fb.Table([1.0, 2.0], ("a",))
    for first, second in ((f, f), (f, 1.0), (f * f, f), (dist.Normal(0.0, 1.0), dist.Normal(0.0, 1.0))):
        with pytest.raises(fb.FubiniError, match=r"fb\.same"):
            compare(first, second)


def test_same_compares_structure_and_the_very_arrays() -> None:
    data = np.array([1.0, 2.0])
    data.setflags(write=False)
    assert fb.same(fb.Table(data, ("a",)), fb.Table(data, ("a",)))
    assert not fb.same(fb.Table(data, ("a",)), fb.Table(data.copy(), ("a",)))
    assert not fb.same(fb.Table(data, ("a",)), fb.Table(data, ("b",)))
    assert fb.same(Y + X, fb.Variable("y", fb.Real) + fb.Variable("x", fb.Bint[3])) and not fb.same(Y, X)


def test_where_of_a_comparison_in_factors() -> None:
    mean = fb.ops.where(X == 1, 2.0, 3.0)
    assert [float(mean(x=k)) for k in range(3)] == [3.0, 2.0, 3.0]
    for prior in (PRIOR, jnp.asarray(PRIOR)):
        found = (fb.Table(prior, ("x",)) * dist.Normal(mean, 1.0)(SEEN)).sum("x").log()
        assert float(found) == pytest.approx(EVIDENCE, rel=1e-6)
    assert fb.expectation(fb.Table(PRIOR, ("x",)), fb.ops.where(X >= 1, 1.0, 0.0), "x").data == pytest.approx(0.8)


@fb.model
def coroutine():
    x = yield dist.Categorical(PRIOR)
    y = yield dist.Normal(fb.ops.where(x == 1, 2.0, 3.0), 1.0)


@fb.model
def between():
    x = yield dist.Categorical(PRIOR)
    y = yield dist.Normal(fb.ops.where((x > 0) & (x < 2), 2.0, 3.0), 1.0)


@fb.model
def lifted():
    x = yield dist.Categorical(PRIOR)
    y = yield dist.Normal(fb.lift(lambda x: jnp.where(x == 1, 2.0, 3.0))(x), 1.0)


@fb.model
def plain():
    x = yield dist.Categorical(PRIOR)
    y = yield dist.Normal(jnp.where(x == 1, 2.0, 3.0), 1.0)


MODELS: dict[str, Callable] = {
    "coroutine": coroutine,
    "and": between,
    "lifted": lifted,
    "plain JAX": plain,
    "named": lambda: fb.JointNamed(
        dict(x=dist.Categorical(PRIOR), y=lambda x: dist.Normal(fb.ops.where(x != 1, 3.0, 2.0), 1.0))
    ),
    "sequential": lambda: fb.JointSequential(
        [
            dist.Categorical(PRIOR).named("x"),
            lambda x: dist.Normal(fb.ops.where(x == 1, 2.0, 3.0), 1.0).named("y"),
        ]
    ),
}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_where_of_a_comparison_in_models(make: Callable) -> None:
    model = make()
    values = [1, SEEN] if isinstance(model, fb.JointSequential) else {"x": 1, "y": SEEN}
    assert float(model.log_prob(values)) == pytest.approx(math.log(0.3 * normal(SEEN, 2.0)))
    seen = model.condition([None, SEEN]) if isinstance(model, fb.JointSequential) else model.condition(y=SEEN)
    weights = PRIOR * [normal(SEEN, 3.0), normal(SEEN, 2.0), normal(SEEN, 3.0)]
    assert float(seen.log_evidence()) == pytest.approx(EVIDENCE)
    np.testing.assert_allclose(seen.marginal("x").weights, weights / weights.sum(), rtol=1e-6)
    assert seen.posterior()(x=1).log().data == pytest.approx(math.log(weights[1] / weights.sum()))


@fb.measure
def program():
    z = yield Bernoulli(0.3)
    u = yield Uniform(0.0, 1.0)
    yield condition(u <= fb.ops.where(z == 1, 0.5, 0.25))
    return z


def test_where_of_a_comparison_in_measures() -> None:
    assert fb.total_mass(program())() == pytest.approx(0.3 * 0.5 + 0.7 * 0.25)
