"""Conditioning on an expression: the set of the conformance suite, those that fail in Hakaru included."""

import math

import numpy as np
import pytest
from scipy import stats

from fubini.errors import DomainError, FubiniError
from fubini.measures import (
    Bernoulli,
    Exponential,
    Gamma,
    Lebesgue,
    Normal,
    Poisson,
    Uniform,
    array,
    measure,
    observe,
    plate,
    superpose,
    weight,
)
from fubini.measures.conditioning import disintegrate
from fubini.measures.mass import total_mass
from fubini.measures.simplify import simplify
from fubini.measures.values import exp, log, maximum, minimum, sqrt, symbol
from tests.measures.cases import Case, check, leaf
from tests.measures.oracle import alike, expectations, value_of

t = symbol("t")


def program(function):
    return measure(function)()


def density(of, at):
    """The mass of a disintegration where t has a value."""
    node = total_mass(disintegrate(of, t)).node
    return float(np.ravel(value_of(node, {leaf(t): np.array([float(at)])}))[0])


def same(found, expected, at):
    assert alike(simplify(found), expected, {leaf(t): at}), str(simplify(found))


@program
def two_normals():
    x = yield Normal(0, 1)
    y = yield Normal(x, 1)
    return y, x


def test_two_normals():
    expected = superpose((exp(-(t**2) / 4) / (2 * math.sqrt(math.pi)), Normal(t / 2, 1 / sqrt(2))))
    same(disintegrate(two_normals, t), expected, 0.7)
    assert density(two_normals, 0.7) == pytest.approx(stats.norm(0, math.sqrt(2)).pdf(0.7))


def test_a_linear_form():
    @program
    def written():
        x = yield Normal(0, 1)
        y = yield Normal(x, 1)
        return (y + y) + x, ()

    assert density(written, 0.7) == pytest.approx(stats.norm(0, math.sqrt(13)).pdf(0.7))


@program
def difference():
    x = yield Uniform(0, 1)
    y = yield Uniform(0, 1)
    return x - y, y


@pytest.mark.parametrize("at", [-1.5, -0.6, 0.0, 0.3, 1.2])
def test_a_difference_of_uniforms(at):
    """(1 − |t|) times a uniform on a segment"""
    assert density(difference, at) == pytest.approx(max(1 - abs(at), 0))
    numbers = {leaf(t): at}
    found = expectations(simplify(disintegrate(difference, t)), numbers)
    y = np.linspace(max(0, -at), max(min(1, 1 - at), max(0, -at)), 20_001)
    assert found[2] == pytest.approx(np.trapezoid(np.exp(-0.1 * (y - 0.1) ** 2), y), abs=1e-6)


def test_minus_five_times_lebesgue():
    @program
    def written():
        x = yield Lebesgue()
        return -5 * x, ()

    assert disintegrate(written, t) == weight(1 / 5)


@pytest.mark.parametrize("at", [0.4, 1.0, 2.5, -1.0])
def test_a_quotient_of_uniforms(at):
    """Fails in Hakaru: ½ below 1, 1/(2 t²) above."""

    @program
    def written():
        x = yield Uniform(0, 1)
        y = yield Uniform(0, 1)
        return x / y, ()

    assert density(written, at) == pytest.approx(0 if at < 0 else 0.5 if at < 1 else 0.5 / at**2)


@pytest.mark.parametrize("at", [0.4, 2.5, -1.0])
def test_the_size_of_a_normal(at):
    """Fails in Hakaru."""

    @program
    def written():
        x = yield Normal(3, 2)
        return abs(x), x

    distribution = stats.norm(3, 2)
    assert density(written, at) == pytest.approx(0 if at < 0 else distribution.pdf(at) + distribution.pdf(-at))


def test_censoring():
    """Fails in Hakaru: a density below 100, and at 100 the mass of all that is above."""

    @program
    def written():
        x = yield Normal(90, 5)
        noisy = yield Normal(x, 5)
        return minimum(noisy, 100), x

    distribution = stats.norm(90, math.sqrt(50))
    assert density(written, 97) == pytest.approx(distribution.pdf(97))
    assert density(written, 100) == pytest.approx(distribution.sf(100))
    assert density(written, 101) == 0


def test_a_form_without_an_inverse():
    """x + x³ has no inverse in the functions of index notation: an error, which says so."""

    @program
    def written():
        x = yield Normal(0, 1)
        return x + x**3, x

    with pytest.raises(FubiniError, match=r"an expression with an inverse in one of its draws"):
        disintegrate(written, t)


MAPS = {
    "exp": (lambda x: exp(x), Normal(0.3, 0.8), stats.lognorm(0.8, scale=math.exp(0.3)), 1.7),
    "log": (lambda x: log(x), Exponential(1.5), None, 0.2),
    "affine": (lambda x: 3 - 2 * x, Gamma(2, 1.5), None, 1.1),
    "quotient": (lambda x: 2 / x, Gamma(2, 1.5), None, 1.1),
    "power": (lambda x: x**3, Gamma(2, 1.5), None, 1.1),
    "square": (lambda x: x**2, Normal(0.5, 1), stats.ncx2(1, 0.25), 1.1),
    "greatest": (lambda x: maximum(x, 0.5), Normal(0.2, 1), None, 0.9),
}
INVERSES = {
    "log": (stats.expon(scale=1 / 1.5), lambda at: math.exp(at), lambda at: math.exp(at)),
    "affine": (stats.gamma(2, scale=1 / 1.5), lambda at: (3 - at) / 2, lambda at: 0.5),
    "quotient": (stats.gamma(2, scale=1 / 1.5), lambda at: 2 / at, lambda at: 2 / at**2),
    "power": (stats.gamma(2, scale=1 / 1.5), lambda at: at ** (1 / 3), lambda at: at ** (-2 / 3) / 3),
    "greatest": (stats.norm(0.2, 1), lambda at: at, lambda at: 1.0),
}


@pytest.mark.parametrize("name", MAPS)
def test_density_of_a_function(name):
    function, distribution, pushed, at = MAPS[name]

    @program
    def written():
        x = yield distribution
        return function(x), ()

    if pushed is not None:
        expected = pushed.pdf(at)
    else:
        source, inverse, slope = INVERSES[name]
        expected = source.pdf(inverse(at)) * slope(at)
    assert density(written, at) == pytest.approx(expected)


def test_whole_numbers():
    @program
    def written():
        x = yield Poisson(1.5)
        y = yield Poisson(2.5)
        return x + y, x

    count = symbol("t", kind="whole")
    (branch,) = simplify(disintegrate(written, count)).branches
    assert branch.draws[0].distribution.family == "Binomial"
    mass = np.exp(value_of(branch.weight, {leaf(count): np.array([3.0])}))
    assert float(mass[0]) == pytest.approx(stats.poisson(4).pmf(3))


def test_finite_draws():
    @program
    def written():
        x = yield Bernoulli(0.3)
        y = yield Bernoulli(0.2 + 0.5 * x)
        return x == y, x

    assert density(written, 1) == pytest.approx(0.7 * 0.8 + 0.3 * 0.7)
    assert density(written, 0) == pytest.approx(0.7 * 0.2 + 0.3 * 0.3)


def test_in_a_plate_of_data():
    data = symbol("data", 3)

    @program
    def written():
        x = yield Normal(0, 1)
        yield plate(3, lambda i: observe(Normal(x, 1), data[i]))
        y = yield Normal(x, 1)
        return y, x

    check(Case(disintegrate(written, t), None, {t: 0.4, data: [0.1, 0.5, -0.3]}))


def test_what_is_not_a_pair():
    with pytest.raises(DomainError, match="a tuple that begins with a number or an array"):
        disintegrate(Normal(0, 1), t)


def test_an_array():
    """Conditioning on a whole array of data is observing each of it."""
    data = symbol("data", 3)

    @program
    def written():
        x = yield Normal(0, 1)
        y = yield plate(3, lambda i: Normal(x, 1))
        return y, x

    @program
    def observed():
        x = yield Normal(0, 1)
        yield plate(3, lambda i: observe(Normal(x, 1), data[i]))
        return x

    assert simplify(disintegrate(written, data)) == simplify(observed)
    with pytest.raises(DomainError, match=r"a value of shape \(\)"):
        disintegrate(written, t)


def test_an_array_through_a_function():
    data = symbol("data", 3, kind="positive")

    @program
    def written():
        m = yield Normal(0, 1)
        y = yield plate(3, lambda i: Normal(m, 1))
        return array(3, lambda i: exp(y[i])), m

    numbers = [0.4, 1.3, 0.7]
    (branch,) = simplify(disintegrate(written, data)).branches
    mass = value_of(branch.weight, {leaf(data): np.array([numbers])})
    distribution = stats.multivariate_normal(cov=np.eye(3) + np.ones((3, 3)))
    assert float(np.ravel(mass)[0]) == pytest.approx(distribution.logpdf(np.log(numbers)) - np.log(numbers).sum())
