"""Programs with numbers only: A4.1–15 and 18–30 of the conformance suite, each against quadrature."""

import math

import numpy as np
import pytest
from scipy import stats

from fubini.algebra.build import add
from fubini.algebra.tidy import tidied
from fubini.measures import (
    Bernoulli,
    Beta,
    Categorical,
    Cauchy,
    Counting,
    Exponential,
    Gamma,
    Geometric,
    Lebesgue,
    NegativeBinomial,
    Normal,
    Poisson,
    StudentT,
    Uniform,
    bind_all,
    condition,
    dirac,
    factor,
    measure,
    observe,
    opaque,
    reject,
    superpose,
    weight,
)
from fubini.measures.mass import total_mass
from fubini.measures.simplify import simplify
from fubini.measures.values import exp, gamma, lgamma, log, sqrt, symbol
from tests.measures.cases import Case, check, leaf
from tests.measures.oracle import expectations, tanh_sinh, value_of

mu, nu0, x0 = symbol("mu"), symbol("nu", kind="positive"), symbol("x0")
a, b, k, theta = (symbol(name, kind="positive") for name in ("a", "b", "k", "theta"))
alpha, beta = symbol("alpha", kind="positive"), symbol("beta", kind="positive")
count = symbol("count", kind="whole")
p = symbol("p", kind="unit")

CASES = {}


def case(*numbers, **options):
    """A pair of programs under the name of a function that makes them."""

    def register(function):
        written, expected = function()
        CASES[function.__name__] = Case(written, expected, dict(numbers), **options)
        return function

    return register


def program(function):
    return measure(function)()


@case((mu, 0.4))
def p1():
    @program
    def written():
        x = yield Normal(mu, 1)
        y = yield Normal(x, 1)
        z = yield Normal(x, 1)
        return y, z

    @program
    def expected():
        y = yield Normal(mu, sqrt(2))
        z = yield Normal((mu + y) / 2, sqrt(6) / 2)
        return y, z

    return written, expected


@case((a, 1.3), (b, 0.7))
def a4_1():
    @program
    def written():
        x = yield Normal(0, a)
        y = yield Normal(x, b)
        return y

    return written, Normal(0, sqrt(a**2 + b**2))


@case((a, 1.3), (b, 0.7))
def a4_1_first():
    @program
    def written():
        x = yield Normal(0, a)
        yield Normal(x, b)
        return x

    return written, Normal(0, a)


@case((x0, 0.8))
def a4_2():
    @program
    def written():
        x = yield Normal(0, 1)
        yield observe(Normal(x, 1), x0)
        return x

    return written, superpose((exp(-(x0**2) / 4) / (2 * math.sqrt(math.pi)), Normal(x0 / 2, 1 / sqrt(2))))


@case((mu, 0.4), (a, 1.3), (b, 0.7), (x0, 0.9))
def a4_3():
    @program
    def written():
        x = yield Normal(mu, a)
        yield observe(Normal(x, b), x0)
        return x

    @program
    def expected():
        yield observe(Normal(mu, sqrt(a**2 + b**2)), x0)
        x = yield Normal((mu * b**2 + x0 * a**2) / (a**2 + b**2), a * b / sqrt(a**2 + b**2))
        return x

    return written, expected


@case((k, 1.7), (theta, 0.6), (mu, 0.4), (x0, 0.9))
def a4_4():
    @program
    def written():
        tau = yield Gamma(k, 1 / theta)
        yield observe(Normal(mu, tau**-0.5), x0)
        return tau

    square = theta * (x0 - mu) ** 2
    front = sqrt(theta) * gamma(k + 0.5) / (gamma(k) * math.sqrt(2 * math.pi)) * (1 + square / 2) ** (-k - 0.5)
    return written, superpose((front, Gamma(k + 0.5, (2 + square) / (2 * theta))))


@case((x0, 0.9))
def a4_4_numbers():
    @program
    def written():
        tau = yield Gamma(1, 1)
        yield observe(Normal(0, tau**-0.5), x0)
        return tau

    return written, superpose(((x0**2 + 2) ** -1.5, Gamma(1.5, (x0**2 + 2) / 2)))


@case((k, 1.7), (theta, 0.6), (mu, 0.4), (nu0, 1.1), (x0, 0.9))
def a4_5():
    @program
    def written():
        tau = yield Gamma(k, 1 / theta)
        m = yield Normal(mu * sqrt(tau), nu0**-0.5)
        yield observe(Normal(m / sqrt(tau), tau**-0.5), x0)
        return tau, m

    form = theta * nu0 * (mu - x0) ** 2 + 2 * nu0 + 2
    front = gamma(k + 0.5) * sqrt(nu0 * theta) * (2 * nu0 + 2) ** k * form ** (-k - 0.5) / gamma(k) / math.sqrt(math.pi)

    @program
    def expected():
        yield weight(front)
        tau = yield Gamma(k + 0.5, form / (2 * theta * (nu0 + 1)))
        m = yield Normal(sqrt(tau) * (nu0 * mu + x0) / (nu0 + 1), (nu0 + 1) ** -0.5)
        return tau, m

    return written, expected


xp = symbol("xp", kind="positive")


@case((a, 1.7), (b, 0.6), (alpha, 1.4), (xp, 0.9))
def a4_6():
    @program
    def written():
        rate = yield Gamma(a, b)
        yield observe(Gamma(alpha, rate), xp)
        return rate

    front = b**a * xp ** (alpha - 1) * gamma(alpha + a) * (b + xp) ** (-alpha - a) / (gamma(a) * gamma(alpha))
    return written, superpose((front, Gamma(alpha + a, b + xp)))


@case((a, 1.7), (theta, 0.6), (count, 3))
def a4_7():
    @program
    def written():
        rate = yield Gamma(a, 1 / theta)
        yield observe(Poisson(rate), count)
        return rate

    front = theta**count * (1 + theta) ** (-count - a) * gamma(count + a) / (gamma(a) * gamma(count + 1))
    return written, superpose((front, Gamma(count + a, (1 + theta) / theta)))


def poisson_of_gamma(shape, rate):
    @program
    def written():
        x = yield Gamma(shape, rate)
        n = yield Poisson(x)
        return n

    return written


@case()
def a4_8_geometric():
    return poisson_of_gamma(1, 1), Geometric(0.5)


@case((a, 1.7), (p, 0.3))
def a4_8():
    return poisson_of_gamma(a, (1 - p) / p), NegativeBinomial(a, p)


@case()
def a4_8_six():
    return poisson_of_gamma(6, 1), NegativeBinomial(6, 0.5)


@case((alpha, 0.7), (beta, 1.2))
def a4_9():
    @program
    def written():
        x = yield Uniform(0, 1)
        yield weight(x**alpha * (1 - x) ** beta)
        return x

    mass = gamma(1 + alpha) * gamma(1 + beta) / gamma(2 + alpha + beta)
    return written, superpose((mass, Beta(1 + alpha, 1 + beta)))


@case()
def a4_9_twice():
    @program
    def written():
        x = yield Uniform(0, 1)
        yield weight(2 * x)
        return x

    return written, Beta(2, 1)


@case()
def a4_9_rescaled():
    @program
    def written():
        x = yield Uniform(0, 2)
        yield weight(x)
        return x

    @program
    def expected():
        x = yield Beta(2, 1)
        return 2 * x

    return written, expected


@case()
def a4_10():
    return Beta(1, 1), Uniform(0, 1)


@case()
def a4_10_mass():
    @program
    def written():
        x = yield Uniform(0, 1)
        yield weight(x)

    return written, weight(0.5)


@case()
def a4_11():
    @program
    def written():
        x = yield Beta(1, 1)
        heads = yield Bernoulli(x)
        return x, heads

    @program
    def tails():
        yield weight(0.5)
        x = yield Beta(1, 2)
        return x, 0

    @program
    def heads():
        yield weight(0.5)
        x = yield Beta(2, 1)
        return x, 1

    return written, superpose(tails, heads)


@case((alpha, 0.7), (beta, 1.2))
def a4_12():
    @program
    def written():
        x = yield Beta(alpha, beta)
        heads = yield Bernoulli(x)
        return heads

    whole = alpha + beta
    return written, superpose((beta / whole, dirac(0)), (alpha / whole, dirac(1)))


@case()
def a4_13():
    @program
    def written():
        x = yield Bernoulli(0.5)
        y = yield Bernoulli(0.1 + 0.8 * x)
        z = yield Bernoulli(0.1 + 0.8 * x)
        return y, z

    parts = ((0.41, (1, 1)), (0.09, (1, 0)), (0.09, (0, 1)), (0.41, (0, 0)))
    return written, superpose(*((w, dirac(*v)) for w, v in parts))


@case()
def a4_14():
    @program
    def written():
        x = yield Categorical([0.3, 0.7])
        y = yield Categorical([0.3, 0.7])
        return x == y

    return written, superpose((29 / 50, dirac(1)), (21 / 50, dirac(0)))


@case()
def a4_15():
    @program
    def written():
        burglary = yield Bernoulli(1e-4)
        alarm = yield Bernoulli(0.01 + 0.94 * burglary)
        return alarm

    return written, superpose((5047 / 500000, dirac(1)), (1 - 5047 / 500000, dirac(0)))


@case()
def a4_15_given_alarm():
    @program
    def written():
        burglary = yield Bernoulli(1e-4)
        alarm = yield Bernoulli(0.01 + 0.94 * burglary)
        yield condition(alarm == 1)
        return burglary

    return written, superpose((19 / 200000, dirac(1)), (9999 / 10**6, dirac(0)))


@case()
def a4_15_given_silence():
    @program
    def written():
        burglary = yield Bernoulli(1e-4)
        alarm = yield Bernoulli(0.01 + 0.94 * burglary)
        yield condition(alarm == 0)
        return burglary

    return written, superpose((1 / 200000, dirac(1)), (989901 / 10**6, dirac(0)))


@case()
def a4_19():
    return Lebesgue(40, 42), superpose((2, Uniform(40, 42)))


@case()
def a4_19_half():
    return superpose((0.5, Lebesgue(3, 7))), superpose((2, Uniform(3, 7)))


@case(cuts=(0, 1))
def a4_19_weighted():
    @program
    def written():
        x = yield Lebesgue()
        yield condition((x > 0) * (x < 1))
        yield weight(x)
        return x

    return written, superpose((0.5, Beta(2, 1)))


@case()
def a4_24():
    @program
    def written():
        x = yield Uniform(0, 1)
        yield weight(x)
        y = yield Uniform(0, x)
        return y

    return written, superpose((0.5, Beta(1, 2)))


@case()
def a4_25():
    @program
    def written():
        y = yield Lebesgue(0, 1)
        yield weight(1 + y)
        return y

    return written, superpose((1, Uniform(0, 1)), (0.5, Beta(2, 1)))


@case(cuts=(0, 1), compares="elsewhere")  # its mass is infinite
def a4_26():
    @program
    def below():
        t = yield Lebesgue()
        yield condition(t < 1)
        return t

    @program
    def above():
        t = yield Lebesgue()
        yield condition(t > 0)
        return t

    return superpose(below, above), superpose(Lebesgue(-math.inf, 0), (2, Uniform(0, 1)), Lebesgue(1, math.inf))


@case((mu, 0.4), (a, 1.3))
def a4_27():
    return StudentT(1, mu, a), Cauchy(mu, a)


ROUND_TRIPS = {
    "Beta": Beta(a, b),
    "Gamma": Gamma(a, b),
    "Cauchy": Cauchy(mu, a),
    "StudentT": StudentT(k, mu, a),
    "NegativeBinomial": NegativeBinomial(a, p),
    "Poisson": Poisson(a),
    "Exponential": Exponential(b),
    "Geometric": Geometric(p),
    "Normal": Normal(mu, a),
    "Uniform": Uniform(1, 3),
    "Categorical": Categorical([a, b, k, 1, 1, 1, 1, 1, 1]),
}
NUMBERS = ((mu, 0.4), (a, 1.3), (b, 1.7), (k, 3.2), (p, 0.3))
for name, distribution in ROUND_TRIPS.items():
    CASES[f"a4_27_{name}"] = Case(distribution, None if name == "Categorical" else distribution, dict(NUMBERS))


@case((p, 0.3))
def a4_28():
    @program
    def written():
        x = yield Counting(0, 2)
        yield weight(p**x * (1 - p) ** (1 - x))
        return x

    return written, superpose((1 - p, dirac(0)), (p, dirac(1)))


@case((p, 0.3))
def a4_28_flat():
    @program
    def written():
        x = yield Categorical([p, 1 - p])
        yield weight(p**x * (1 - p) ** (1 - x))
        return x

    return written, superpose((p * (1 - p), dirac(0)), (p * (1 - p), dirac(1)))


xa, xb = symbol("xa"), symbol("xb")


@case((xa, 0.8), (xb, -1.1), compares="elsewhere")
def a4_29():
    @program
    def written():
        t = yield Uniform(3, 8)
        e = yield Uniform(1, 4)
        x1 = yield Normal(0, t)
        yield observe(Normal(x1, e), xa)
        x2 = yield Normal(x1, t)
        yield observe(Normal(x2, e), xb)
        return t, e

    @program
    def expected():
        t = yield Uniform(3, 8)
        e = yield Uniform(1, 4)
        d = t**4 + 3 * t**2 * e**2 + e**4
        form = 2 * xa**2 * t**2 + xa**2 * e**2 - 2 * xa * xb * t**2 + xb**2 * t**2 + xb**2 * e**2
        yield weight(exp(-form / (2 * d)) / sqrt(d) / (2 * math.pi))
        return t, e

    return written, expected


def test_a4_29_mass():
    found = expectations(simplify(CASES["a4_29"].written), {leaf(xa): 0.8, leaf(xb): -1.1})
    u, w = tanh_sinh(31)
    mass = 0.0
    for t, first in zip(3 + 5 * u, w, strict=True):
        for e, second in zip(1 + 3 * u, w, strict=True):
            covariance = t**2 * np.array([[1, 1], [1, 2]]) + e**2 * np.eye(2)
            mass += first * second * stats.multivariate_normal(cov=covariance).pdf([0.8, -1.1])
    np.testing.assert_allclose(found[0], mass, rtol=1e-9)


m, of = opaque("m"), {"m": lambda *at: stats.laplace(*(at or (np.zeros((1, 1)),)), 1.0)}


@case(opaque=of)
def a4_30():
    @program
    def written():
        x = yield Normal(0, 1)
        y = yield m()
        z = yield Normal(x, 1)
        return y, z

    @program
    def expected():
        y = yield m()
        z = yield Normal(0, sqrt(2))
        return y, z

    return written, expected


@case(opaque=of)
def a4_30_dependent():
    @program
    def written():
        x = yield Normal(0, 1)
        y = yield m(x)
        z = yield Normal(x, 1)
        return y, z

    return written, written


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    check(CASES[name])


@pytest.mark.parametrize("end", range(5))
@pytest.mark.parametrize("side", ["below", "above", "not below", "not above"])
def test_a4_18_truncation(end, side):
    @program
    def written():
        x = yield Uniform(1, 3)
        yield condition({"below": x < end, "above": end < x, "not below": x >= end, "not above": x <= end}[side])
        return x

    inside = (1, min(3, end)) if side in ("below", "not above") else (max(1, end), 3)
    width = inside[1] - inside[0]
    expected = reject if width <= 0 else superpose((width / 2, Uniform(*inside)))
    check(Case(written, expected, cuts=(end,)))


@pytest.mark.parametrize(("end", "mass"), [(-0.5, 0.0), (0.3, 0.3), (1.0, 1.0), (1.7, 1.0)])
def test_a4_20_symbolic_truncation(end, mass):
    c = symbol("c")

    @program
    def written():
        x = yield Uniform(0, 1)
        yield condition(x < c)

    assert total_mass(written)(c=end) == pytest.approx(mass)


@pytest.mark.parametrize("order", ["xy", "yx"])
def test_a4_17_orderings_of_normals(order):
    """x > y has mass ½; of the others, x > 0 has ⅛ and x < 0 has ⅜; which of the two is drawn first says nothing."""

    def branch(*tests):
        @program
        def written():
            drawn = {}
            for name in order:
                drawn[name] = yield Normal(0, 1)
            for test in tests:
                yield condition(test(drawn["x"], drawn["y"]))

        return float(np.exp(value_of(simplify(written).branches[0].weight, {})))

    assert branch(lambda x, y: y < x) == pytest.approx(1 / 2)
    assert branch(lambda x, y: x < y, lambda x, y: x > 0) == pytest.approx(1 / 8)
    assert branch(lambda x, y: x < y, lambda x, y: x < 0) == pytest.approx(3 / 8)
    assert branch(lambda x, y: y < x, lambda x, y: x < 0.7) == pytest.approx(stats.norm.cdf(0.7) ** 2 / 2)


def test_a4_22_slice():
    u = symbol("u", kind="positive")

    @program
    def written():
        x = yield Normal(0, 1)
        yield weight(exp(-u) * exp(x**2 / 2))
        yield condition(x**2 / 2 < u)
        return x

    front = 2 * sqrt(u) * exp(-u) / math.sqrt(math.pi)
    expected = superpose((front, Uniform(-sqrt(2 * u), sqrt(2 * u))))
    check(Case(written, expected, {u: 0.8}, compares="elsewhere"))
    assert total_mass(written)(u=0.8) == pytest.approx(2 * math.sqrt(0.8 / math.pi) * math.exp(-0.8))


@pytest.mark.parametrize("height", [-0.2, 0.1, 0.39, 0.5])
def test_a4_23_clamp(height):
    y = symbol("y")

    @program
    def written():
        x = yield Normal(0, 1)
        density = exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
        yield condition((y > 0) * (y < density))
        yield weight(1 / density)
        return x

    inside = 0 < height < 1 / math.sqrt(2 * math.pi)
    radius = math.sqrt(-math.log(2 * math.pi) - 2 * math.log(height)) if inside else 0.0
    assert total_mass(written)(y=height) == pytest.approx(2 * radius)
    (branch,) = simplify(written).branches
    assert [draw.distribution.family for draw in branch.draws] == ["Uniform"]


def test_a4_31_acceptance_ratios():
    """The ratio of a Metropolis–Hastings step in closed form: a symmetric proposal cancels."""
    x, y = symbol("x"), symbol("y")

    def log_density(of, at):
        (branch,) = observe(of, at).branches
        return branch.weight

    target = lambda at: log_density(Normal(0, 1), at)  # noqa: E731
    step = lambda start, at: log_density(Normal(start, a), at)  # noqa: E731
    ratio = tidied(add([(target(y), 1), (step(y, x), 1), (target(x), -1), (step(x, y), -1)]))
    assert ratio is tidied(((x**2 - y**2) / 2).node)


@case()
def unused():
    return bind_all(factor(log(2) + lgamma(3)), dirac(1)), superpose((4, dirac(1)))
