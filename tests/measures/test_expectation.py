"""Expectations under measures, also of functions that take both signs, against quadrature at random parameters."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import fubini as fb
from fubini.errors import DomainError, Intractable
from fubini.measures import (
    Bernoulli,
    Beta,
    BetaBinomial,
    BetaPrime,
    Binomial,
    Categorical,
    Cauchy,
    ChiSquared,
    Dirichlet,
    Exponential,
    Gamma,
    GeneralizedGamma,
    Geometric,
    HalfNormal,
    Hypergeometric,
    InverseGamma,
    Laplace,
    Lebesgue,
    LogNormal,
    NegativeBinomial,
    Normal,
    Poisson,
    StudentT,
    TruncatedNormal,
    Uniform,
    condition,
    exp,
    log,
    maximum,
    measure,
    observe,
    opaque,
    plate,
    reject,
    sqrt,
    superpose,
    symbol,
    total,
    weight,
    where,
)
from fubini.measures.language import given_back
from fubini.measures.values import as_number
from tests.measures.cases import leaf, perturbed
from tests.measures.oracle import cloud, value_of

mu = symbol("mu")
a, b, s, r = (symbol(name, kind="positive") for name in ("a", "b", "s", "r"))
p = symbol("p", kind="unit")
n = symbol("n", kind="whole")
NUMBERS = {mu: 0.4, a: 1.7, b: 2.3, s: 0.8, r: 1.4, p: 0.35, n: 4}


def by_quadrature(written, function, numbers, count):
    """∫ f dM and ∫ 1 dM."""
    integral = mass = 0.0
    for branch in written.branches:
        leaves, weights = cloud(branch, numbers, count)
        value = given_back(branch.value)
        node = as_number(function(*value) if isinstance(value, tuple) else function(value)).node
        integral += np.sum(weights * value_of(node, leaves))
        mass += np.sum(weights)
    return integral, mass


def check(written, function, count=121, tolerance=1e-6):
    """The expectation and the integral, at some numbers and at others that are drawn at random."""
    mean, integral = fb.expectation(written, function), fb.integrate(written, function)
    rng = np.random.default_rng(len(str(mean)))
    first = {leaf(one): value for one, value in NUMBERS.items()}
    for numbers in (first, {one: perturbed(one, value, rng) for one, value in first.items()}):
        values = {one.name: value for one, value in numbers.items()}
        whole, mass = by_quadrature(written, function, numbers, count)
        at = {name: value for name, value in values.items()}
        assert mean(**at) == pytest.approx(whole / mass, rel=tolerance, abs=1e-8), str(mean)
        assert integral(**at) == pytest.approx(whole, rel=tolerance, abs=1e-8), str(integral)
    return mean


FAMILIES = {
    "Normal": Normal(mu, s),
    "Laplace": Laplace(mu, s),
    "Gamma": Gamma(a, r),
    "Exponential": Exponential(r),
    "ChiSquared": ChiSquared(a),
    "HalfNormal": HalfNormal(s),
    "LogNormal": LogNormal(mu, 0.4),
    "GeneralizedGamma": GeneralizedGamma(a, r, 2),
    "InverseGamma": InverseGamma(a + 9, r),
    "BetaPrime": BetaPrime(a, b + 9),
    "StudentT": StudentT(a + 9, mu, s),
    "TruncatedNormal": TruncatedNormal(mu, s, -0.5, 1.5),
    "Beta": Beta(a, b),
    "Uniform": Uniform(mu - 1, mu + 2),
    "Bernoulli": Bernoulli(p),
    "Poisson": Poisson(a),
    "Geometric": Geometric(p),
    "NegativeBinomial": NegativeBinomial(a, p),
    "Binomial": Binomial(n, p),
    "BetaBinomial": BetaBinomial(a, b, n),
    "Hypergeometric": Hypergeometric(4, 5, 3),
    "Categorical": Categorical([1, 2, 3]),
}
HEAVY = {"InverseGamma", "BetaPrime", "StudentT", "LogNormal"}


@pytest.mark.parametrize("name", FAMILIES)
def test_signed_quadratic(name):
    check(FAMILIES[name], lambda x: x**2 - 3 * x + mu, tolerance=1e-4 if name in HEAVY else 1e-6)


CUBIC = sorted(set(FAMILIES) - HEAVY - {"Laplace", "BetaBinomial", "Hypergeometric"})


@pytest.mark.parametrize("name", CUBIC)
def test_signed_cubic(name):
    check(FAMILIES[name], lambda x: x**3 - 2 * x**2 - x)


def test_text_of_plain_answers():
    assert str(fb.expectation(Normal(mu, s), lambda x: (x - mu) ** 4)) == "3 s⁴"
    assert str(fb.expectation(Normal(mu, s), lambda x: x)) == "mu"
    assert str(fb.expectation(Poisson(a), lambda x: x**2 - x)) == "a²"
    assert float(fb.expectation(Normal(0, 1), lambda x: x)) == 0


def mixture():
    return superpose((p, Normal(mu, 1)), (2 - p, Gamma(a, r)), (0.5, Normal(-3, s)))


def posterior():
    @measure
    def program():
        x = yield Normal(mu, s)
        yield observe(Normal(x, 1), 2.0)
        yield observe(Normal(x, 2), -1.0)
        return x

    return program()


def pair():
    @measure
    def program():
        x = yield Normal(mu, s)
        y = yield Normal(2 * x, 1)
        yield observe(Normal(y, 1), 0.5)
        return x, y

    return program()


def scales():
    @measure
    def program():
        x = yield Gamma(a + 2, r)
        y = yield Normal(mu, 1 / sqrt(x))
        return x, y

    return program()


def counts():
    @measure
    def program():
        x = yield Gamma(a, r)
        y = yield Poisson(x)
        return x, y

    return program()


def waits():
    @measure
    def program():
        x = yield Gamma(a + 4, r)
        y = yield Exponential(x)
        return y

    return program()


def tilted():
    @measure
    def program():
        x = yield Normal(mu, s)
        yield weight(x**2 + 1)
        return x

    return program()


def switched():
    @measure
    def program():
        label = yield Bernoulli(p)
        x = yield Normal(mu + 2 * label, s)
        return label, x

    return program()


PROGRAMS = {
    "a mixture": (mixture(), lambda x: x**2 - 3 * x),
    "a posterior": (posterior(), lambda x: x - 0.2 * x**3),
    "a covariance": (pair(), lambda x, y: x * y - 3 * x),
    "a scale mixture": (scales(), lambda x, y: y**2 - x * y - x),
    "counts of a rate": (counts(), lambda x, y: x * y - y**2),
    "a power that is not whole": (waits(), lambda y: y - 1),
    "a polynomial weight": (tilted(), lambda x: x),
    "a label": (switched(), lambda label, x: label * x - x**2),
    "an exponential": (Normal(mu, s), lambda x: x * exp(x / 2) - 1),
    "a root": (Gamma(a, r), lambda x: sqrt(x) - 1 / sqrt(x)),
    "a logarithm": (Gamma(a, r), lambda x: log(x) - x),
    "log-odds": (Beta(a, b), lambda x: log(x) - log(1 - x)),
    "the Laplace transform": (Gamma(a, r), lambda x: (x - 1) * exp(-s * x)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    check(*PROGRAMS[name], count=201 if name in ("a root", "a logarithm", "log-odds") else 121, tolerance=1e-5)


# -- cut somewhere, against SciPy's quadrature -------------------------------------------------------------------------


def cut(distribution, test):
    @measure
    def program():
        x = yield distribution
        yield condition(test(x))
        return x

    return program()


def conditional_mean(distribution, function, low, high):
    return distribution.expect(function, lb=low, ub=high, conditional=True)


CUT = {
    "a normal tail": (cut(Normal(mu, s), lambda x: x > b), stats.norm(0.4, 0.8), 2.3, np.inf),
    "a normal between": (cut(Normal(mu, s), lambda x: (x > -a) & (x < s)), stats.norm(0.4, 0.8), -1.7, 0.8),
    "a Gamma tail": (cut(Gamma(a, r), lambda x: x > s), stats.gamma(1.7, scale=1 / 1.4), 0.8, np.inf),
    "a Gamma between": (cut(Gamma(a, r), lambda x: (x > s) & (x < b)), stats.gamma(1.7, scale=1 / 1.4), 0.8, 2.3),
    "an Exponential": (cut(Exponential(r), lambda x: x < s), stats.expon(scale=1 / 1.4), 0.0, 0.8),
    "a Beta": (cut(Beta(a, b), lambda x: x < p), stats.beta(1.7, 2.3), 0.0, 0.35),
}


@pytest.mark.parametrize("name", CUT)
def test_truncated(name):
    written, distribution, low, high = CUT[name]
    at = {one.node.args[0].name: value for one, value in NUMBERS.items()}
    for function in (lambda x: x, lambda x: x**2 - 3 * x, lambda x: x**3 - x):
        expected = conditional_mean(distribution, function, low, high)
        assert fb.expectation(written, function)(**at) == pytest.approx(expected, rel=1e-6)


def test_truncated_counts():
    """Of few values, one by one."""
    written = cut(Binomial(9, p), lambda x: x >= 4)
    k, given = np.arange(4, 10), stats.binom(9, 0.35).pmf(np.arange(4, 10))
    expected = np.sum((k**2 - 8 * k) * given) / np.sum(given)
    assert fb.expectation(written, lambda x: x**2 - 8 * x)(p=0.35) == pytest.approx(expected, rel=1e-6)


# -- choices -----------------------------------------------------------------------------------------------------------

CHOICES = {
    "a size": lambda x: abs(x),
    "a positive part": lambda x: maximum(x, 0.5) - 1,
    "a probability": lambda x: x < 0.3,
    "a piece": lambda x: where(x > 1, x**2, -x),
}
ON_NUMBERS = {
    "a size": abs,
    "a positive part": lambda x: np.maximum(x, 0.5) - 1,
    "a probability": lambda x: x < 0.3,
    "a piece": lambda x: np.where(x > 1, x**2, -x),
}


@pytest.mark.parametrize("name", CHOICES)
def test_choice(name):
    x = np.linspace(-8, 8, 2_000_001)
    expected = np.sum(stats.norm(0.4, 0.8).pdf(x) * ON_NUMBERS[name](x)) * (x[1] - x[0])
    assert fb.expectation(Normal(mu, s), CHOICES[name])(mu=0.4, s=0.8) == pytest.approx(expected, rel=1e-4, abs=1e-5)


# -- arrays ------------------------------------------------------------------------------------------------------------

m = symbol("m", 4)
MEANS = np.array([0.3, -1.0, 2.0, 0.7])


def normals():
    @measure
    def program():
        x = yield plate(4, lambda i: Normal(m[i], s))
        return x

    return program()


ARRAYS = {
    "squares": (lambda x: total(4, lambda i: x[i] ** 2) - x[0] * x[1], np.sum(MEANS**2) + 4 * 0.64 + 0.3),
    "a square of the sum": (lambda x: total(4, lambda i: x[i]) ** 2, 4.0 + 4 * 0.64),
    "with an entry": (lambda x: total(4, lambda i: x[i]) ** 2 * x[1], -(4.0 + 4 * 0.64) + 2 * 2.0 * 0.64),
    "all pairs": (lambda x: total(4, 4, lambda i, j: x[i] * x[j]), 4.0 + 4 * 0.64),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_array(name):
    function, expected = ARRAYS[name]
    assert fb.expectation(normals(), function)(m=MEANS, s=0.8) == pytest.approx(expected)


def test_sample_of_an_array():
    """A polynomial of degree four of an array of Gammas, against a large sample."""

    @measure
    def program():
        x = yield plate(3, lambda i: Gamma(i + a, r))
        return x

    found = fb.expectation(program(), lambda x: total(3, lambda i: x[i]) ** 2 * x[0] - x[1] ** 2 * x[2] ** 2)
    rng = np.random.default_rng(0)
    x = rng.gamma(np.arange(3) + 1.7, 1 / 1.4, (1_000_000, 3))
    sample = x.sum(1) ** 2 * x[:, 0] - x[:, 1] ** 2 * x[:, 2] ** 2
    assert abs(found(a=1.7, r=1.4) - sample.mean()) < 5 * sample.std() / 1000


def test_labels_of_an_array():
    """A mixture for each entry, which has no named distribution, has moments."""

    @measure
    def program():
        k = yield plate(3, lambda i: Bernoulli(p))
        x = yield plate(3, lambda i: Normal(2 * k[i], s))
        return x

    def at(function):
        return fb.expectation(program(), function)(p=0.3, s=0.8)

    assert at(lambda x: total(3, lambda i: x[i]) - 1) == pytest.approx(3 * 0.6 - 1)
    assert at(lambda x: total(3, lambda i: x[i] ** 2) - x[0] * x[1]) == pytest.approx(3 * (1.2 + 0.64) - 0.36)


def test_draws_that_bound_each_other():
    """E max(x, y) = 1/a + 1/r − 1/(a + r)"""

    @measure
    def program():
        x = yield Exponential(a)
        y = yield Exponential(r)
        return x, y

    mean = fb.expectation(program(), lambda x, y: maximum(x, y) - 1)(a=1.7, r=1.4)
    assert mean == pytest.approx(1 / 1.7 + 1 / 1.4 - 1 / 3.1 - 1)


def test_simplex():
    @measure
    def program():
        x = yield Dirichlet([1, 2, a])
        k = yield Categorical(x)
        return x, k

    def at(function):
        return fb.expectation(program(), function)(a=3.0)

    assert at(lambda x, k: x[0] * x[1] - x[2] ** 2) == pytest.approx((2 - 12) / 42)
    assert at(lambda x, k: k - 1) == pytest.approx(8 / 6 - 1)
    assert at(lambda x, k: x[k] - 1) == pytest.approx((2 + 6 + 12) / 42 - 1)


def test_many_observations():
    """Masses beyond all numbers cancel."""
    y = np.random.default_rng(1).normal(3.0, 1.0, 2000)

    @measure
    def program():
        x = yield Normal(0, 1)
        yield plate(2000, lambda i: observe(Normal(x, 1), symbol("y", 2000)[i]))
        return x

    assert fb.expectation(program(), lambda x: x)(y=y) == pytest.approx(y.sum() / 2001)


def test_measure_without_a_finite_mass():
    assert float(fb.integrate(Lebesgue(), lambda x: x**2 * exp(-(x**2)))) == pytest.approx(np.sqrt(np.pi) / 2)


# -- the one door ------------------------------------------------------------------------------------------------------


def test_as_factors_and_as_a_measure():
    """The same numbers from factors, which are NumPy's or JAX's."""
    x = fb.Variable("x", fb.Real)
    for data in (np.float32(1.5), jnp.asarray(1.5)):
        factor = fb.dist.Normal(data, 2.0)("x")
        expected = float(fb.expectation(factor, x * x - 3.0 * x, "x"))
        assert float(fb.expectation(Normal(1.5, 2), lambda x: x**2 - 3 * x)) == pytest.approx(expected, rel=1e-5)


def test_derivative_in_a_parameter():
    """The answer is a function of its symbols: dE[x²]/dμ = 2μ, by differences."""
    mean = fb.expectation(Normal(mu, s), lambda x: x**2)
    step = 1e-5
    slope = (mean(mu=0.4 + step, s=0.8) - mean(mu=0.4 - step, s=0.8)) / (2 * step)
    assert slope == pytest.approx(0.8, rel=1e-6)


def test_errors():
    with pytest.raises(Intractable, match="moments of order 1"):
        fb.expectation(Cauchy(0, 1), lambda x: x)
    with pytest.raises(Intractable, match="a family that is known"):
        fb.expectation(opaque("m")(), lambda x: x)
    with pytest.raises(Intractable, match="a polynomial, or a function that is not negative"):
        fb.expectation(Gamma(a, r), lambda x: log(x) ** 3)
    with pytest.raises(DomainError, match="a function of what the measure returns"):
        fb.expectation(Normal(0, 1), 3.0)  # type: ignore[arg-type]
    with pytest.raises(DomainError, match="call the function under"):
        fb.expectation(measure(lambda: Normal(0, 1)), lambda x: x)  # type: ignore[arg-type]
    with pytest.raises(DomainError, match="as a number"):
        fb.expectation(Normal(0, 1), lambda x: (x, x))
    with pytest.raises(DomainError, match="a positive mass"):
        fb.expectation(reject, lambda x: x)


def test_opaque_weights_have_no_known_mass():
    @measure
    def program():
        x = yield opaque("m")()
        yield weight(exp(x))

    with pytest.raises(Intractable, match="could not be integrated out"):
        fb.total_mass(program())


def test_infinite_moments():
    mean = fb.expectation(InverseGamma(a, r), lambda x: x)
    assert mean(a=3.0, r=2.0) == pytest.approx(1.0)
    assert mean(a=0.5, r=2.0) == np.inf
