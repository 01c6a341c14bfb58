"""The unproduct unit set: e(x) = e₀ Π_i g(i, x[i]) for every way to index x, and no more than is sound."""

import numpy as np
import pytest

from fubini.measures import Gamma, Normal, factor, measure, observe, plate, weight
from fubini.measures.mass import total_mass
from fubini.measures.simplify import simplify
from fubini.measures.values import exp, function, log, product, symbol, total, where
from tests.measures.cases import Case, check, leaf
from tests.measures.oracle import expectations

N = 3
a, b = symbol("a", kind="positive"), symbol("b", kind="positive")
NUMBERS = {a: 1.7, b: 2.3}


def f(x):
    return -0.3 * x


def g(x):
    return 0.4 * log(x) - 0.2 * x


# an expression in x, and whether x goes
SET = {
    "x[j]": (lambda x: product(N, lambda j: x[j]), True),
    "a constant": (lambda x: 2, True),
    "a power of two": (lambda x: product(N, lambda j: 2), True),
    "2 x[j]": (lambda x: product(N, lambda j: 2 * x[j]), True),
    "2 + x[j]": (lambda x: product(N, lambda j: 2 + x[j]), False),
    "f(x[j])": (lambda x: product(N, lambda j: function("tanh", x[j])), False),
    "exp of a sum": (lambda x: exp(total(N, lambda k: g(x[k]))), True),
    "a product of these": (lambda x: product(N, lambda j: 2 * x[j]) * exp(total(N, lambda k: g(x[k]))), True),
    "shifted": (lambda x: product(N - 1, lambda j: x[j + 1]), True),
    "part of the range": (lambda x: product(N - 1, lambda j: x[j]), True),
    "a triangle": (
        lambda x: exp(total(N, lambda j: total(N, lambda k: (k <= j) * (f(x[j]) + g(x[k]))))),
        True,
    ),
    "a triangle of two indices": (lambda x: exp(total(N, N, lambda j, k: (k <= j) * (f(x[j]) + g(x[k])))), True),
    "fixed places": (lambda x: x[0] * x[2], True),
    "reversed": (lambda x: product(N, lambda j: x[N - 1 - j] ** (j + 1)), True),
    "piecewise": (lambda x: product(N, lambda j: where(j < 1, x[j], 1)), True),
    "an exponent": (lambda x: product(N, lambda j: 0.5 ** x[j]), True),
    "even places": (lambda x: product(2, lambda j: x[2 * j] ** (j + 1)), True),  # fails in Hakaru: no map is injective
    "one place twice": (lambda x: product(N, lambda j: x[function("quotient", j, 2)]), True),
}


def with_weight(expression):
    @measure
    def program():
        x = yield plate(N, lambda i: Gamma(a, b))
        yield weight(expression(x))

    return program()


@pytest.mark.parametrize("name", SET)
def test_unproduct(name):
    expression, goes = SET[name]
    program = with_weight(expression)
    before = expectations(program, {leaf(symbol): value for symbol, value in NUMBERS.items()})
    found = simplify(program)
    assert bool(found.branches[0].draws) is not goes, str(found)
    after = expectations(found, {leaf(symbol): value for symbol, value in NUMBERS.items()})
    np.testing.assert_allclose(after[0], before[0], rtol=1e-6)


def test_beyond_the_range():
    """Fails in Hakaru: an entry that there is not stays where it is, and is never dropped."""
    (branch,) = simplify(with_weight(lambda x: product(N, lambda j: x[j + 1]))).branches
    assert [draw.distribution.family for draw in branch.draws] == ["Gamma"]
    assert "x[i + 1]" in str(simplify(with_weight(lambda x: product(N, lambda j: x[j + 1]))))


def test_beyond_the_range_under_a_test():
    expression = lambda x: product(N, lambda j: where(j < N - 1, x[j + 1], 1))  # noqa: E731
    check(Case(with_weight(expression), None, NUMBERS))
    assert not simplify(with_weight(expression)).branches[0].draws


def test_neighbours_remain():
    """x[j] and x[j + 1] in one term: no unproduct, and no wrong one."""
    data = symbol("data", N - 1)

    @measure
    def program():
        x = yield plate(N, lambda i: Normal(0, 1))
        yield plate(N - 1, lambda j: observe(Normal(x[j + 1] - x[j], 1), data[j]))
        return x

    check(Case(program(), None, {data: [0.4, -0.2]}, compares="density"))


def test_the_mass_of_neighbours():
    """Coupled normal entries are integrated out together: a walk, against the multivariate normal."""
    data = symbol("data", N)

    @measure
    def walk():
        x = yield plate(N, lambda i: Normal(0, 2))
        yield plate(N - 1, lambda j: observe(Normal(x[j + 1] - x[j], 1), 0))
        yield plate(N, lambda i: observe(Normal(x[i], 0.5), data[i]))

    numbers = np.array([0.4, -0.2, 0.7])
    steps = np.diff(np.eye(N), axis=0)
    root = np.vstack([np.eye(N) / 2, steps, np.eye(N) / 0.5])
    right = np.concatenate([np.zeros(N), np.zeros(N - 1), numbers / 0.5])
    _, rss, *_ = np.linalg.lstsq(root, right, rcond=None)
    log_mass = -(len(right) - N) / 2 * np.log(2 * np.pi) - 0.5 * rss[0] - 0.5 * np.linalg.slogdet(root.T @ root)[1]
    log_mass += -N * np.log(2) - N * np.log(0.5)
    assert np.log(total_mass(walk())(data=numbers)) == pytest.approx(log_mass)


def test_a_gather():
    label = symbol("label", 4, kind="whole", high=N - 1)
    expression = lambda x: product(4, lambda j: x[label[j]])  # noqa: E731
    check(Case(with_weight(expression), None, {**NUMBERS, label: [0, 2, 2, 0]}))


def test_a_gather_out_of_range_remains():
    """Labels of which nothing is known may miss every entry."""
    label = symbol("label", 4, kind="whole")
    found = simplify(with_weight(lambda x: product(4, lambda j: x[label[j]])))
    assert [draw.distribution.family for draw in found.branches[0].draws] == ["Gamma"]


def test_a_factor_is_a_weight():
    assert simplify(factor(log(a))) == simplify(weight(a))
