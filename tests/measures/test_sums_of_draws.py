"""Draws of which only the sum matters are one draw of it: plates and loops, of every family that adds up."""

import numpy as np
import pytest
from scipy import stats

import fubini as fb
from fubini.families.family import families
from fubini.measures import (
    Bernoulli,
    Beta,
    Binomial,
    Cauchy,
    ChiSquared,
    Exponential,
    Gamma,
    GeneralizedGamma,
    Geometric,
    LogNormal,
    NegativeBinomial,
    Normal,
    Poisson,
    Uniform,
    array,
    condition,
    log,
    measure,
    observe,
    plate,
    product,
    sqrt,
    symbol,
    total,
)
from tests.measures.cases import Case, check, leaf
from tests.measures.oracle import sampled

mu = symbol("mu")
a, b, s, r = (symbol(name, kind="positive") for name in ("a", "b", "s", "r"))
p = symbol("p", kind="unit")
n = symbol("n", kind="whole")
m = symbol("m", 3)
NUMBERS = {mu: 0.4, a: 1.7, b: 2.3, s: 0.8, r: 1.4, p: 0.35, n: 2, m: np.array([0.3, -1.2, 0.9])}


def plate_sum(kernel, size=3, of=lambda x: x):
    @measure
    def program():
        x = yield plate(size, kernel)
        return total(size, lambda i: of(x[i]))

    return program()


def loop_sum(distribution, size=3, of=lambda x: x):
    @measure
    def program():
        whole = 0
        for _ in range(size):
            whole = whole + of((yield distribution))
        return whole

    return program()


SUMS = {
    "Exponentials": (Exponential(r), Gamma(3, r)),
    "Bernoullis": (Bernoulli(p), Binomial(3, p)),
    "Gammas": (Gamma(a, r), Gamma(3 * a, r)),
    "Poissons": (Poisson(a), Poisson(3 * a)),
    "normals": (Normal(mu, s), Normal(3 * mu, sqrt(3) * s)),
    "Binomials": (Binomial(n, p), Binomial(3 * n, p)),
    "chi-squares": (ChiSquared(a), ChiSquared(3 * a)),
    "negative Binomials": (NegativeBinomial(a, p), NegativeBinomial(3 * a, p)),
    "Geometrics": (Geometric(p), NegativeBinomial(3, 1 - p)),
}


@pytest.mark.parametrize("form", ["plate", "loop"])
@pytest.mark.parametrize("name", SUMS)
def test_sum(name, form):
    one, expected = SUMS[name]
    written = plate_sum(lambda i: one) if form == "plate" else loop_sum(one)
    check(Case(written, expected, NUMBERS, count=41))


def test_sum_of_cauchys():
    check(Case(plate_sum(lambda i: Cauchy(mu, s)), Cauchy(3 * mu, 3 * s), NUMBERS, compares="elsewhere"))


def test_every_family_that_adds_up_is_tested():
    named = {"Exponential", "Bernoulli", "Gamma", "Poisson", "Normal", "Binomial", "ChiSquared", "Cauchy"}
    assert {one.name for one in families() if one.summand is not None} == named | {"NegativeBinomial", "Geometric"}


def test_parameters_that_differ_add_up():
    check(Case(plate_sum(lambda i: Normal(m[i], i + 1)), Normal(total(3, lambda i: m[i]), sqrt(14)), NUMBERS, count=41))
    check(Case(plate_sum(lambda i: Poisson((i + 1) * a)), Poisson(6 * a), NUMBERS, count=41))


def test_parameters_that_have_to_be_shared():
    """Exponentials of different rates are not a Gamma."""
    found = fb.simplify(plate_sum(lambda i: Exponential(i + 1)))
    assert [draw.leaf.shape for draw in found.branches[0].draws] == [(3,)]


FUNCTIONS = {
    "squares": (Normal(0, 1), lambda x: x**2, ChiSquared(5)),
    "squares of a scale": (Normal(0, s), lambda x: x**2, Gamma(2.5, 1 / (2 * s**2))),
    "logarithms of uniforms": (Uniform(0, 1), lambda x: -log(x), Gamma(5, 1)),
    "scaled normals": (Normal(mu, s), lambda x: 2 * x - 1, Normal(10 * mu - 5, sqrt(20) * s)),
    "scaled Gammas": (Gamma(a, r), lambda x: s * x, Gamma(5 * a, r / s)),
}


@pytest.mark.parametrize("form", ["plate", "loop"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_sum_of_functions(name, form):
    one, of, expected = FUNCTIONS[name]
    written = plate_sum(lambda i: one, 5, of) if form == "plate" else loop_sum(one, 5, of)
    found = check(Case(written, expected, NUMBERS, compares="elsewhere"))
    assert float(fb.total_mass(found)) == 1


def test_sample_of_squares():
    """The oracle of a chi-square: a sample of the loop."""
    sample = sampled(loop_sum(Normal(0, 1), 4, lambda x: x**2), {}, 20_000, np.random.default_rng(0))
    assert stats.kstest(sample, stats.chi2(4).cdf).pvalue > 1e-3


def test_large_plates():
    assert fb.simplify(plate_sum(lambda i: Exponential(r), 10_000)) == fb.simplify(Gamma(10_000, r))
    assert fb.simplify(plate_sum(lambda i: Normal(0, 1), 10_000, lambda x: x**2)) == ChiSquared(10_000)


def test_functions_of_sums():
    @measure
    def root(size):
        x = yield plate(size, lambda i: Normal(0, s))
        return sqrt(total(size, lambda i: x[i] ** 2))

    @measure
    def mean(size):
        x = yield plate(size, lambda i: Normal(mu, s))
        return total(size, lambda i: x[i]) / size

    @measure
    def geometric(size):
        x = yield plate(size, lambda i: LogNormal(mu, s))
        return product(size, lambda i: x[i])

    check(Case(root(3), GeneralizedGamma(1.5, 1 / (2 * s**2), 2), NUMBERS, compares="elsewhere"))
    check(Case(mean(4), Normal(mu, s / 2), NUMBERS, compares="elsewhere"))
    check(Case(geometric(4), LogNormal(4 * mu, 2 * s), NUMBERS, compares="elsewhere"))


def test_rows():
    """The sums of the rows of an array of draws are an array of draws."""

    @measure
    def rows():
        x = yield plate(3, lambda i: plate(4, lambda j: Exponential(i + r)))
        return array(3, lambda i: total(4, lambda j: x[i, j]))

    @measure
    def squares():
        x = yield plate(3, lambda i: plate(4, lambda j: Normal(0, s)))
        return array(3, lambda i: total(4, lambda j: x[i, j] ** 2))

    check(Case(rows(), plate(3, lambda i: Gamma(4, i + r)), NUMBERS, compares="elsewhere"))
    check(Case(squares(), plate(3, lambda i: Gamma(2, 1 / (2 * s**2))), NUMBERS, compares="elsewhere"))


def test_sums_of_latents():
    """Rates that are drawn add up as well: a Poisson of a sum of Gammas is a negative Binomial."""

    @measure
    def counts():
        rate = yield plate(5, lambda i: Gamma(a, r))
        x = yield plate(5, lambda i: Poisson(rate[i]))
        return total(5, lambda i: x[i])

    check(Case(counts(), NegativeBinomial(5 * a, 1 / (1 + r)), NUMBERS, compares="elsewhere"))


def test_what_matters_beside_the_sum_stays():
    """A sum is no draw of its own where an entry is returned as well."""

    @measure
    def program():
        x = yield plate(3, lambda i: Exponential(r))
        return total(3, lambda i: x[i]), x[0]

    (branch,) = fb.simplify(program()).branches
    assert any(draw.leaf.shape == (3,) for draw in branch.draws)


def test_conditions_on_sums():
    @measure
    def program():
        x = yield plate(4, lambda i: Poisson(a))
        yield condition(total(4, lambda i: x[i]) >= 3)

    assert fb.total_mass(program())(a=0.6) == pytest.approx(stats.poisson(2.4).sf(2), rel=1e-6)

    @measure
    def coins(size):
        x = yield plate(size, lambda i: Bernoulli(p))
        yield condition(total(size, lambda i: x[i]) >= 4)

    assert fb.total_mass(coins(9))(p=0.3) == pytest.approx(stats.binom(9, 0.3).sf(3), rel=1e-6)


def test_observed_sum():
    """A sum inside of what is observed."""

    @measure
    def program():
        x = yield plate(4, lambda i: Normal(0, s))
        yield observe(Normal(total(4, lambda i: x[i]), 1), 2.0)

    mass = fb.total_mass(program())(s=0.8)
    assert mass == pytest.approx(stats.norm(0, np.sqrt(1 + 4 * 0.64)).pdf(2.0), rel=1e-6)


t, k = symbol("t", kind="positive"), symbol("k", kind="whole")


def test_disintegration_at_a_sum():
    @measure
    def coins():
        x = yield Beta(2, 3)
        y = yield plate(6, lambda i: Bernoulli(x))
        return total(6, lambda i: y[i]), x

    @measure
    def waits():
        x = yield Gamma(2, 3)
        y = yield plate(6, lambda i: Exponential(x))
        return total(6, lambda i: y[i]), x

    @measure
    def noise():
        x = yield Gamma(2, 3)
        y = yield plate(6, lambda i: Normal(0, 1 / sqrt(x)))
        return total(6, lambda i: y[i] ** 2), x

    given = fb.disintegrate(coins(), k)
    assert fb.total_mass(given)(k=4) == pytest.approx(stats.betabinom(6, 2, 3).pmf(4))
    assert fb.simplify(given).branches[0].draws[0].distribution.family == "Beta"
    density = fb.total_mass(fb.disintegrate(waits(), t))(t=1.3)
    assert density == pytest.approx(stats.betaprime(6, 2, scale=3).pdf(1.3))
    density = fb.total_mass(fb.disintegrate(noise(), t))(t=1.3)
    assert density == pytest.approx(stats.betaprime(3, 2, scale=6).pdf(1.3))


def test_each_entry_has_its_own_root():
    """x² = t has two solutions for each entry of an array: 2ⁿ for all of them."""

    @measure
    def squares():
        x = yield plate(3, lambda i: Normal(0, 1))
        return array(3, lambda i: x[i] ** 2)

    @measure
    def with_one():
        x = yield plate(3, lambda i: Normal(0, 1))
        return array(3, lambda i: x[i] ** 2), x[0]

    assert fb.simplify(squares()) == plate(3, lambda i: ChiSquared(1))
    t3, at = symbol("t", 3, kind="positive"), np.array([0.4, 1.0, 2.5])
    given = fb.disintegrate(with_one(), t3)
    assert fb.total_mass(given)(t=at) == pytest.approx(np.prod(stats.chi2(1).pdf(at)))
    assert fb.expectation(given, lambda x: x**2)(t=at) == pytest.approx(0.4)
    assert fb.expectation(given, lambda x: x)(t=at) == pytest.approx(0.0)


def test_random_numbers():
    """A sum of n Exponentials at random rates, against a large sample."""
    rng = np.random.default_rng(5)
    for _ in range(3):
        rate = rng.uniform(0.3, 3.0)
        found = fb.simplify(plate_sum(lambda i: Exponential(r), 7))
        sample = sampled(found, {leaf(r): rate}, 20_000, rng)
        draws = rng.exponential(1 / rate, (20_000, 7)).sum(1)
        assert stats.ks_2samp(sample, draws).pvalue > 1e-3
