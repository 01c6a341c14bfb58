"""What an eliminated latent is distributed as, in numbers: against enumeration and dense matrices."""

import itertools

import numpy as np
import pytest

from fubini.algebra.build import ONE, ZERO, call, const, get, index, minus, plus, power, times
from fubini.algebra.evaluation import Evaluation
from fubini.algebra.node import Index, Leaf
from fubini.algebra.sums import total
from fubini.integrate.block import eliminated_together
from fubini.integrate.elimination import eliminated
from fubini.integrate.latent_distributions import block_parameters, conditional_parameters, family, parameters
from fubini.integrate.search import IntegrationStep
from fubini.integrate.student import eliminated_power
from tests.integrate.numerics import square

RANDOM = np.random.default_rng(2)
z = Leaf("z", (3,), low=1, high=2, is_integer=True, role="site")
x, m = Leaf("x", (3,), role="site"), Leaf("m", (), role="site")
grid = Leaf("grid", (2, 3), role="site")
table, link, y = Leaf("table", (3, 3)), Leaf("link", (3, 3)), Leaf("y", (3,))
TABLE, LINK, Y = RANDOM.normal(size=(3, 3)), RANDOM.normal(size=(3, 3)), RANDOM.normal(size=3)
ARRAYS = {table: TABLE, link: LINK, y: Y}
i, t, n = Index(3, "i"), Index(2, "t"), Index(2, "n")
at_i, at_t, at_n = map(index, (i, t, n))
UNARY = total([i], get(table, at_i, get(z, at_i)))
LINKS = total([t], get(link, get(z, at_t), get(z, plus(at_t, ONE))))
EYE = np.eye(3)


def evaluation():
    return Evaluation(ARRAYS, xp=np)


@pytest.mark.parametrize("links", [False, True], ids=["Categorical", "Chain"])
def test_states(links):
    result = eliminated([UNARY, LINKS] if links else [UNARY], z, "bint")
    step = IntegrationStep(("z",), result)
    states = 1 + np.array(list(itertools.product(range(2), repeat=3)))
    weights = np.exp([TABLE[range(3), s].sum() + links * LINK[s[:-1], s[1:]].sum() for s in states])
    expected = np.stack([weights @ (states == value) for value in (1, 2)], axis=-1) / weights.sum()
    assert family(step) == ("Chain" if links else "Categorical")
    np.testing.assert_allclose(parameters(step, z, evaluation())["probs"], expected, rtol=1e-12)


def test_normal():
    step = IntegrationStep(
        ("x",), eliminated([total([i], square(minus(get(x, at_i), get(y, at_i)), const(4.0)))], x, "real")
    )
    found = parameters(step, x, evaluation())
    np.testing.assert_allclose(found["loc"], Y)
    np.testing.assert_allclose(found["scale"], np.full(3, 0.5))


def test_dirichlet():
    theta = Leaf("theta", (3,), low=0.0, high=1.0, is_simplex=True, role="site")
    term = total([i], times(plus(at_i, ONE), call("log", get(theta, at_i))))
    step = IntegrationStep(("theta",), eliminated([term], theta, "simplex"))
    np.testing.assert_allclose(parameters(step, theta, evaluation())["concentration"], [2.0, 3.0, 4.0])


# -- blocks ---------------------------------------------------------------------------------------------------------

TERMS = [
    square(get(m), const(0.5)),
    total([i], square(minus(get(x, at_i), get(m)))),
    total([t], square(minus(get(x, plus(at_t, ONE)), get(x, at_t)), const(3.0))),
    total([i], square(minus(get(x, at_i), get(y, at_i)))),
]
A = np.concatenate(
    [
        np.sqrt(0.5) * np.eye(4)[3:],
        np.column_stack([EYE, -np.ones(3)]),
        np.sqrt(3) * np.column_stack([EYE[1:] - EYE[:-1], np.zeros(2)]),
        np.eye(4)[:3],
    ]
)
B = np.concatenate([np.zeros(6), Y])
COVARIANCE = np.linalg.inv(A.T @ A)
CENTRE = COVARIANCE @ A.T @ B


def block(order=(x, m)):
    return eliminated_together(TERMS, order)


def test_a_latent_of_a_block():
    step = IntegrationStep(("x", "m"), block())
    found = parameters(step, x, evaluation())
    assert family(step) == "MultivariateNormal"
    np.testing.assert_allclose(found["loc"], CENTRE[:3], rtol=1e-10)
    np.testing.assert_allclose(found["covariance"], COVARIANCE[:3, :3], rtol=1e-10)


@pytest.mark.parametrize("order", [(x, m), (m, x)])
def test_block_parameters(order):
    """End to end in the order asked for."""
    found = block_parameters(block(), order, evaluation())
    places = [0, 1, 2, 3] if order[0] is x else [3, 0, 1, 2]
    np.testing.assert_allclose(found["loc"], CENTRE[places], rtol=1e-10)
    np.testing.assert_allclose(found["covariance"], COVARIANCE[np.ix_(places, places)], rtol=1e-9)


def test_conditional_parameters():
    found = conditional_parameters(block(), x, {m: np.array(0.7)}, evaluation())
    precision = (A.T @ A)[:3, :3]
    expected = np.linalg.solve(precision, (A.T @ B)[:3] - (A.T @ A)[:3, 3] * 0.7)
    np.testing.assert_allclose(found["loc"], expected, rtol=1e-9)
    np.testing.assert_allclose(found["covariance"], np.linalg.inv(precision), rtol=1e-9)


def test_conditional_parameters_given_nothing():
    found = conditional_parameters(block(), m, {}, evaluation())
    np.testing.assert_allclose(found["loc"], CENTRE[3:], rtol=1e-9)
    np.testing.assert_allclose(found["covariance"], COVARIANCE[3:, 3:], rtol=1e-9)


@pytest.mark.parametrize("end", [0.0, 2.0], ids=["from its start", "from its end"])
def test_independent_chains(end):
    """A walk for each row, which is known at one end."""
    ends = total([n], square(minus(get(grid, at_n, const(end)), plus(at_n, ONE)), const(4.0)))
    steps = total([n, t], square(minus(get(grid, at_n, plus(at_t, ONE)), get(grid, at_n, at_t))))
    found = parameters(IntegrationStep(("grid",), eliminated_together([ends, steps], [grid])), grid, evaluation())
    far = np.abs(np.arange(3) - end)
    cut = np.minimum(far[:, None], far[None, :])
    np.testing.assert_allclose(found["loc"], [[1.0] * 3, [2.0] * 3], rtol=1e-10)
    np.testing.assert_allclose(found["covariance"], np.broadcast_to(0.25 + cut, (2, 3, 3)), rtol=1e-9)


def test_student():
    form = plus(const(2.0), total([i], power(minus(get(x, at_i), get(y, at_i)), 2.0)), power(get(x, ZERO), 2.0))
    step = IntegrationStep(("x",), eliminated_power([times(const(-5.0), call("log", form))], x))
    found = parameters(step, x, evaluation())
    rows = np.concatenate([EYE, EYE[:1]])
    inverse = np.linalg.inv(rows.T @ rows)
    centre = inverse @ Y
    least = 2 + ((centre - Y) ** 2).sum() + centre[0] ** 2
    assert family(step) == "MultivariateStudentT" and float(found["df"]) == 7.0
    np.testing.assert_allclose(found["loc"], centre, rtol=1e-10)
    np.testing.assert_allclose(found["covariance"], inverse * least / 7, rtol=1e-10)
