"""Measures whose mass was wrong, or refused beside neighbours that worked; oracles are sums and SciPy's families."""

import math

import numpy as np
import pytest
from scipy import special, stats

import fubini as fb
from fubini.errors import DataError, DomainError, FubiniError
from fubini.measures import (
    Bernoulli,
    Beta,
    Binomial,
    Categorical,
    Counting,
    Dirichlet,
    Exponential,
    Gamma,
    Geometric,
    HalfNormal,
    InverseGamma,
    Laplace,
    NegativeBinomial,
    Normal,
    Poisson,
    TruncatedNormal,
    Uniform,
    condition,
    exp,
    log,
    observe,
    plate,
    sqrt,
    symbol,
    weight,
    where,
)

pytestmark = pytest.mark.right_or_refused


def mass(program):
    """The mass of a generator function."""
    return float(fb.total_mass(fb.measure(program)()))


def cut(distribution, test):
    """The mass of a distribution where a test holds."""

    def program():
        x = yield distribution
        yield condition(test(x))

    return mass(program)


# -- parameters at the ends of their ranges -------------------------------------------------------------------------

CERTAIN = {
    "Binomial at 1": (Binomial(3, 1), 3),
    "Binomial at 0": (Binomial(3, 0), 0),
    "Binomial of none": (Binomial(0, 0.3), 0),
    "Bernoulli at 1": (Bernoulli(1), 1),
    "Bernoulli at 0": (Bernoulli(0), 0),
    "Categorical of one": (Categorical([0, 0, 1]), 2),
    "long Categorical of one": (Categorical([0.0] * 9 + [1.0]), 9),
    "Geometric at 1": (Geometric(1), 0),
    "NegativeBinomial at 0": (NegativeBinomial(2, 0), 0),
}


@pytest.mark.parametrize("name", CERTAIN)
def test_a_distribution_at_its_end_has_all_mass_at_one_value(name):
    distribution, value = CERTAIN[name]
    assert float(fb.total_mass(distribution)) == pytest.approx(1.0)

    def weighted():
        k = yield distribution
        yield weight(1 + k)

    assert mass(weighted) == pytest.approx(1 + value)
    assert cut(distribution, lambda k: k >= value) == pytest.approx(1.0)
    assert cut(distribution, lambda k: k < value) == 0.0


def test_a_mixture_over_a_probability_keeps_its_ends():
    probabilities, weights = [0.0, 0.5, 1.0], [0.2, 0.5, 0.3]

    def mixture():
        z = yield Categorical(weights)
        k = yield Binomial(3, where(z == 0, 0, where(z == 1, 0.5, 1)))
        yield weight(1 + k * k)

    expected = sum(
        w * stats.binom(3, p).expect(lambda k: 1 + k * k) for w, p in zip(weights, probabilities, strict=True)
    )
    assert mass(mixture) == pytest.approx(expected)


def test_an_array_of_draws_at_the_end_of_their_range():
    def flips():
        z = yield Bernoulli(0.4)
        k = yield plate(4, lambda i: Binomial(3, z))
        yield weight(1 + k[0] + k[3])

    assert mass(flips) == pytest.approx(0.6 * 1 + 0.4 * 7)


def test_a_poisson_of_rate_zero_in_a_mixture_is_zero():
    def mixture():
        z = yield Bernoulli(0.4)
        k = yield Poisson(2 * z)
        yield condition(k == 0)

    assert mass(mixture) == pytest.approx(0.6 + 0.4 * math.exp(-2))


@pytest.mark.parametrize(
    "distribution",
    [lambda: Geometric(0), lambda: NegativeBinomial(2, 1), lambda: Dirichlet([0, 1]), lambda: Poisson(-1)],
)
def test_a_distribution_with_bad_parameters_is_refused(distribution):
    with pytest.raises(DomainError):
        distribution()


def test_a_scale_of_zero_in_a_mixture_is_refused():
    def mixture():
        z = yield Bernoulli(0.5)
        yield Normal(0, z)

    with pytest.raises(FubiniError):
        mass(mixture)


def test_a_parameter_of_an_observation_that_leaves_its_range_is_refused():
    def of_whole():
        z = yield Bernoulli(0.5)
        yield observe(Bernoulli(2 * z), 1)

    def of_real():
        p = yield Uniform(0, 1)
        yield observe(Bernoulli(2 * p), 1)

    def of_scale():
        s = yield Uniform(-1, 1)
        yield Normal(0, s)

    for program in (of_whole, of_real, of_scale):
        with pytest.raises(FubiniError, match="expected"):
            mass(program)


def test_a_condition_may_keep_a_parameter_in_its_range():
    def program():
        p = yield Uniform(0, 1)
        yield condition(p < 0.5)
        yield observe(Bernoulli(2 * p), 1)

    assert mass(program) == pytest.approx(0.25)


# -- powers, logarithms and roots -----------------------------------------------------------------------------------


@pytest.mark.parametrize("base", [-2.0, -1.0, 0.0, 3.0])
@pytest.mark.parametrize(
    "distribution", [Categorical([0.1, 0.2, 0.3, 0.4]), Binomial(3, 0.4)], ids=["categorical", "binomial"]
)
def test_a_power_with_a_random_exponent_has_the_sign_of_its_base(base, distribution):
    p = [0.1, 0.2, 0.3, 0.4] if "Categorical" in str(distribution) else stats.binom(3, 0.4).pmf(range(4))

    def weighted():
        y = yield distribution
        yield weight(9 + base**y)

    assert mass(weighted) == pytest.approx(sum(w * (9 + base**k) for k, w in enumerate(p)))
    positive = sum(w for k, w in enumerate(p) if base**k > 0)
    if "Categorical" in str(distribution):
        assert cut(distribution, lambda y: base**y > 0) == pytest.approx(positive)


def test_a_power_of_a_negative_base_with_an_exponent_without_an_end_is_refused():
    """Σ (−2)^k / 2^(k + 1) has no limit."""

    def weighted():
        y = yield Geometric(0.5)
        yield weight(3 + (-2.0) ** y)

    with pytest.raises(FubiniError):
        mass(weighted)


@pytest.mark.parametrize("wrong", [lambda x: (-2.0) ** x, lambda x: log(-exp(x)), lambda x: sqrt(-2.0 - 0 * x)])
def test_a_power_or_logarithm_of_a_negative_number_is_refused(wrong):
    def weighted():
        x = yield Normal(0, 1)
        yield weight(wrong(x))

    with pytest.raises(DomainError):
        mass(weighted)


def test_a_negative_weight_is_refused():
    for distribution in (Counting(0, 4), Binomial(3, 0.5)):

        def weighted(distribution=distribution):
            y = yield distribution
            yield weight(3 + (-2.0) ** y)

        with pytest.raises(DataError, match="negative"):
            mass(weighted)


def test_the_logarithm_of_a_draw_that_may_be_negative_is_no_condition_on_all_of_it():
    with pytest.raises(FubiniError):
        cut(Normal(0, 1), lambda x: log(x) < 0)
    assert cut(Exponential(1), lambda x: log(x) < 0) == pytest.approx(1 - math.exp(-1))


# -- sums of draws --------------------------------------------------------------------------------------------------


def flips(n, p, then):
    def program():
        total = 0
        for i in range(n):
            total = total + (yield Bernoulli(p(i)))
        yield then(total)
        return total

    return fb.measure(program)()


def test_a_sum_of_coin_flips_is_one_draw():
    found = fb.simplify(flips(10, lambda i: 0.3, lambda total: weight(1)))
    (branch,) = found.branches
    assert [(draw.distribution.family, str(draw.distribution.parameters[0])) for draw in branch.draws] == [
        ("Binomial", "10")
    ]


def test_a_sum_of_coin_flips_has_as_many_branches_as_values():
    """Coins that differ: not one for each of 2^10 sequences."""
    chances = [0.1 + 0.05 * i for i in range(10)]
    found = fb.simplify(flips(10, lambda i: chances[i], lambda total: weight(1)))
    assert len(found.branches) == 11
    masses = {int(branch.value.args[0]): math.exp(branch.weight.args[0]) for branch in found.branches}
    expected = np.ones(1)
    for p in chances:
        expected = np.convolve(expected, [1 - p, p])
    assert [masses[k] for k in range(11)] == pytest.approx(expected)


def test_a_condition_on_a_sum_of_coin_flips():
    found = float(fb.total_mass(flips(12, lambda i: 0.3, lambda total: condition(total >= 5))))
    assert found == pytest.approx(stats.binom(12, 0.3).sf(4))


def test_a_sum_of_coin_flips_that_differ():
    p = symbol("p", kind="unit")
    probabilities = [0.1 + 0.05 * i for i in range(9)]
    masses = np.array([1.0])
    for i in range(9):
        q = 0.25 if i == 4 else probabilities[i]
        masses = np.convolve(masses, [1 - q, q])
    made = flips(9, lambda i: p if i == 4 else probabilities[i], lambda total: condition(total == 3))
    assert fb.total_mass(made)(p=0.25) == pytest.approx(masses[3])


def test_coin_flips_with_a_probability_that_is_drawn():
    def program():
        p = yield Beta(2, 3)
        total = 0
        for _ in range(8):
            total = total + (yield Bernoulli(p))
        yield condition(total == 5)

    assert mass(program) == pytest.approx(stats.betabinom(8, 2, 3).pmf(5))


# -- tests as numbers -----------------------------------------------------------------------------------------------

DISTRIBUTIONS = {
    "Normal": (Normal(0, 1), stats.norm()),
    "Exponential": (Exponential(1.5), stats.expon(scale=1 / 1.5)),
    "Laplace": (Laplace(0.2, 0.7), stats.laplace(0.2, 0.7)),
    "Gamma": (Gamma(2.5, 1.5), stats.gamma(2.5, scale=1 / 1.5)),
    "InverseGamma": (InverseGamma(2, 1.5), stats.invgamma(2, scale=1.5)),
    "HalfNormal": (HalfNormal(1.5), stats.halfnorm(scale=1.5)),
    "Beta": (Beta(2, 1.5), stats.beta(2, 1.5)),
    "Uniform": (Uniform(-1, 2), stats.uniform(-1, 3)),
    "Poisson": (Poisson(1.2), stats.poisson(1.2)),
    "Binomial": (Binomial(4, 0.3), stats.binom(4, 0.3)),
    "Geometric": (Geometric(0.4), stats.geom(0.4, loc=-1)),
    "NegativeBinomial": (NegativeBinomial(2, 0.4), stats.nbinom(2, 0.6)),
}
C = 1 / 3
TESTS = {
    "(x > c) == 1": (lambda x: (x > C) == 1, lambda distribution: distribution.sf(C)),
    "(x > c) == 0": (lambda x: (x > C) == 0, lambda distribution: distribution.cdf(C)),
    "1 - (x > c)": (lambda x: 1 - (x > C), lambda distribution: distribution.cdf(C)),
    "where(x > c, 2, 5) == 2": (lambda x: where(x > C, 2, 5) == 2, lambda distribution: distribution.sf(C)),
    "2 * (x > c) > 1": (lambda x: 2 * (x > C) > 1, lambda distribution: distribution.sf(C)),
    "(x > c) + (x > 1) >= 1": (lambda x: (x > C) + (x > 1) >= 1, lambda distribution: distribution.sf(C)),
    "(x > c) == (x > 1)": (lambda x: (x > C) == (x > 1), lambda distribution: distribution.cdf(C) + distribution.sf(1)),
    "x <= c": (lambda x: x <= C, lambda distribution: distribution.cdf(C)),
    "x > 0.7": (lambda x: x > 0.7, lambda distribution: distribution.sf(0.7)),
    "0.2 < x < 0.7": (
        lambda x: (x > 0.2) * (x < 0.7),
        lambda distribution: distribution.cdf(0.7) - distribution.cdf(0.2),
    ),
    "x < c or x > 0.7": (
        lambda x: (x < C) | (x > 0.7),
        lambda distribution: distribution.cdf(C) + distribution.sf(0.7),
    ),
    "not x < c": (lambda x: ~(x < C), lambda distribution: distribution.sf(C)),
    "x == 2": (lambda x: x == 2, lambda distribution: distribution.pmf(2) if hasattr(distribution, "pmf") else 0.0),
    "x != 2": (lambda x: x != 2, lambda distribution: 1 - distribution.pmf(2) if hasattr(distribution, "pmf") else 1.0),
    "x == 1.5": (lambda x: x == 1.5, lambda distribution: 0.0),
}


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_a_test_is_a_condition_however_it_is_written(distribution):
    written, known = DISTRIBUTIONS[distribution]
    for name, (test, expected) in TESTS.items():
        assert cut(written, test) == pytest.approx(expected(known), rel=1e-9, abs=1e-12), name


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_a_test_is_a_number_in_a_weight_and_in_a_parameter(distribution):
    written, known = DISTRIBUTIONS[distribution]

    def weighted():
        x = yield written
        yield weight(2 - (x > C))

    def flipped():
        x = yield written
        z = yield Bernoulli(0.2 + 0.5 * (x > C))
        yield condition(z == 1)

    assert mass(weighted) == pytest.approx(1 + known.cdf(C))
    assert mass(flipped) == pytest.approx(0.2 + 0.5 * known.sf(C))


def test_counts_that_are_equal():
    def equal():
        j = yield Poisson(1.5)
        k = yield Binomial(3, 0.4)
        yield condition(j == k)

    def beyond():
        j = yield Poisson(1.5)
        k = yield Poisson(0.5)
        yield condition(j + k == 3)

    expected = sum(stats.poisson(1.5).pmf(k) * stats.binom(3, 0.4).pmf(k) for k in range(4))
    assert mass(equal) == pytest.approx(expected)
    assert mass(beyond) == pytest.approx(stats.poisson(2.0).pmf(3))


def test_the_mass_of_a_tail_keeps_its_digits():
    assert cut(Poisson(0.01), lambda k: k >= 6) == pytest.approx(stats.poisson(0.01).sf(5), rel=1e-9)
    assert cut(Gamma(3, 1), lambda x: x > 60) == pytest.approx(stats.gamma(3).sf(60), rel=1e-9)
    assert cut(Exponential(1), lambda x: x < 1e-9) == pytest.approx(stats.expon().cdf(1e-9), rel=1e-9)


# -- entries of arrays ----------------------------------------------------------------------------------------------


def at_entries(distribution, place, data=0.7):
    def program():
        m = yield plate(3, lambda i: Normal(i, 1))
        z = yield distribution
        yield observe(Normal(m[place(z)], 1), data)

    return program


@pytest.mark.parametrize(
    ("distribution", "values", "place"),
    [
        (Counting(1, 4), range(1, 4), lambda z: z - 1),
        (Counting(0, 6), range(6), lambda z: z // 2),
        (Counting(-3, 2), range(-3, 2), lambda z: z // 2 + 2),
        (Counting(0, 6), range(6), lambda z: z % 3),
        (Counting(0, 3), range(3), lambda z: 2 - z),
    ],
)
def test_an_entry_at_a_function_of_a_draw(distribution, values, place):
    expected = sum(stats.norm(place(z), math.sqrt(2)).pdf(0.7) for z in values)
    assert mass(at_entries(distribution, place)) == pytest.approx(expected)


def test_entries_of_a_plate_at_functions_of_a_plate():
    means = np.array([0.1, 0.9, 2.0])
    m = symbol("m", 3)

    def program():
        z = yield plate(4, lambda i: Categorical([0.2, 0.3, 0.5]))
        yield plate(4, lambda i: observe(Normal(m[z[i] // 2], 1), 0.7))

    expected = sum(w * stats.norm(means[z // 2], 1).pdf(0.7) for z, w in enumerate([0.2, 0.3, 0.5])) ** 4
    assert fb.total_mass(fb.measure(program)())(m=means) == pytest.approx(expected)


@pytest.mark.parametrize(
    "distribution", [Categorical([0.2, 0.3, 0.5]), Binomial(2, 0.3)], ids=["categorical", "binomial"]
)
def test_an_entry_beyond_the_ends_is_refused(distribution):
    m = symbol("m", 3)

    def of_parameters():
        z = yield distribution
        yield observe(Normal(m[z - 1], 1), 0.7)

    with pytest.raises(FubiniError):
        mass(at_entries(distribution, lambda z: z - 1))
    with pytest.raises(FubiniError):
        fb.total_mass(fb.measure(of_parameters)())(m=np.arange(3.0))


def test_an_entry_beyond_the_ends_that_a_condition_leaves_out():
    def program():
        m = yield plate(3, lambda i: Normal(i, 1))
        z = yield Categorical([0.2, 0.3, 0.5])
        yield condition(z >= 1)
        yield observe(Normal(m[z - 1], 1), 0.7)

    expected = sum(w * stats.norm(z, math.sqrt(2)).pdf(0.7) for z, w in enumerate([0.3, 0.5]))
    assert mass(program) == pytest.approx(expected)


# -- numbers --------------------------------------------------------------------------------------------------------


def test_the_mass_of_a_closed_measure_is_a_number():
    assert float(fb.total_mass(Normal(0, 1))) == 1.0
    with pytest.raises(LookupError, match="a value of"):
        float(fb.total_mass(weight(symbol("a", kind="positive"))))


def test_piecewise_weights():
    def program():
        x = yield Gamma(2, 1)
        y = yield Normal(where(x < 1, 0, 2), 1)
        yield weight(where(y > 0.5, 3, 1))

    low, high = special.gammainc(2, 1), special.gammaincc(2, 1)
    expected = low * (1 + 2 * stats.norm.sf(0.5)) + high * (1 + 2 * stats.norm(2).sf(0.5))
    assert mass(program) == pytest.approx(expected)


def test_polynomial_weights():
    expected = {
        "Normal": (Normal(0.5, 2), lambda x: (x - 1) ** 2, stats.norm(0.5, 2)),
        "Uniform": (Uniform(-1, 2), lambda x: x**2, stats.uniform(-1, 3)),
        "Poisson": (Poisson(1.2), lambda k: k * k + 3 * k + 1, stats.poisson(1.2)),
        "Geometric": (Geometric(0.4), lambda k: (1 + k) ** 2, stats.geom(0.4, loc=-1)),
        "NegativeBinomial": (NegativeBinomial(2, 0.4), lambda k: k**3, stats.nbinom(2, 0.6)),
        "Gamma": (Gamma(2.5, 1.5), lambda x: (1 + x) ** 3, stats.gamma(2.5, scale=1 / 1.5)),
    }
    for name, (distribution, polynomial, known) in expected.items():

        def program(distribution=distribution, polynomial=polynomial):
            x = yield distribution
            yield weight(polynomial(x))

        assert mass(program) == pytest.approx(known.expect(polynomial), rel=1e-7), name


def test_a_weight_that_may_be_negative_has_no_mass():
    def program():
        x = yield Normal(1, 1)
        yield weight(x)

    with pytest.raises(FubiniError):
        mass(program)


def test_a_sum_that_is_a_weight_twice():
    def program():
        x = yield Gamma(2, 2)
        yield Bernoulli(0.25 + 0.5 * (x < 0.5))
        yield Bernoulli(0.25 + 0.5 * (x < 0.5))

    assert mass(program) == pytest.approx(1.0)


def test_an_array_whose_entries_are_coupled_by_a_condition_is_simplified():
    def program():
        z = yield plate(3, lambda i: Counting(0, 3))
        yield condition(z[0] + z[1] > 1)
        return z[0], z[1], z[2]

    found = fb.total_mass(fb.simplify(fb.measure(program)()))
    assert float(found) == pytest.approx(3 * sum(a + b > 1 for a in range(3) for b in range(3)))


# -- numbers for symbols --------------------------------------------------------------------------------------------

A, P, ROW = symbol("a"), symbol("p", kind="unit"), symbol("row", 3)
ALLOWED = {  # of one parameter each, numbers that are allowed, and numbers that are not
    "Beta": (lambda a: Beta(a, 2), 0.5, (-0.5, 0.0)),
    "Gamma": (lambda a: Gamma(2, a), 0.5, (-1.0,)),
    "Normal": (lambda a: Normal(0, a), 0.5, (-1.0, 0.0)),
    "Normal of a square": (lambda a: Normal(0, 1 - a * a), 0.5, (2.0,)),
    "Uniform": (lambda a: Uniform(0, a), 0.5, (-1.0,)),
    "TruncatedNormal": (lambda a: TruncatedNormal(0, 1, a, 2), 0.5, (3.0,)),
    "Bernoulli": (lambda a: Bernoulli(a), 0.5, (1.5, -0.5)),
    "Binomial": (lambda a: Binomial(3, a), 0.5, (1.5, -0.5)),
    "Geometric": (lambda a: Geometric(a), 0.5, (1.5, 0.0)),
    "NegativeBinomial": (lambda a: NegativeBinomial(2, a), 0.5, (1.5, 1.0)),
    "Poisson": (lambda a: Poisson(a), 0.5, (-0.5,)),
    "Categorical": (lambda a: Categorical([a, 1]), 0.5, (-0.5,)),
    "Dirichlet": (lambda a: Dirichlet([a, 1]), 0.5, (-0.5,)),
    "a plate": (lambda a: plate(3, lambda i: Exponential(a * (i + 1))), 0.5, (-0.5,)),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_a_number_that_the_family_does_not_allow_is_refused_at_the_call(name):
    make, good, bad = ALLOWED[name]
    found = fb.total_mass(make(A))
    assert found(a=good) == pytest.approx(1.5 if name == "Categorical" else 1.0)
    for number in (*bad, math.nan):
        with pytest.raises(FubiniError, match="expected"):
            found(a=number)
        with pytest.raises(FubiniError, match="expected"):
            (2 * fb.total_mass(fb.simplify(make(A))))(a=number)


def test_so_are_numbers_for_an_array_and_for_a_parameter_that_draws_decide_too():
    rows = fb.total_mass(plate(3, lambda i: Beta(ROW[i], 2)))
    assert rows(row=[1.0, 2.0, 3.0]) == pytest.approx(1.0)
    with pytest.raises(DataError, match="Beta"):
        rows(row=[1.0, -0.5, 3.0])

    @fb.measure
    def mixed():
        x = yield Gamma(2, 1)
        y = yield Normal(0, A * x)
        yield weight(y * y)

    found = fb.total_mass(mixed())
    assert found(a=3) == pytest.approx(9 * 6)  # E[x²] of Gamma(2, 1) is 6
    with pytest.raises(FubiniError, match="positive"):
        found(a=-3)


def test_so_are_numbers_at_which_a_measure_is_conditioned():
    @fb.measure
    def program():
        x = yield Normal(0, 1)
        yield observe(Beta(x, 2), 0.25)
        return x, ()

    found = fb.total_mass(fb.disintegrate(program(), A))
    assert found(a=1.5) == pytest.approx(stats.norm.pdf(1.5) * stats.beta.pdf(0.25, 1.5, 2))
    with pytest.raises(FubiniError, match="Beta"):
        found(a=-0.5)


def test_a_condition_on_symbols_leaves_out_what_is_not_allowed():
    @fb.measure
    def program():
        yield condition(A > 0)
        x = yield Beta(A, 2)
        yield weight(x)

    found = fb.total_mass(program())
    assert found(a=-0.5) == 0.0
    assert found(a=0.5) == pytest.approx(0.2)


def test_a_probability_that_a_symbol_decides_is_checked_at_the_call():
    found = fb.total_mass(observe(Bernoulli(2 * P), 1))
    assert found(p=0.3) == pytest.approx(0.6)
    with pytest.raises(FubiniError, match="probs"):
        found(p=0.7)


def test_numbers_are_what_the_kind_of_their_symbol_says():
    positive, whole, simplex = symbol("s", kind="positive"), symbol("n", kind="whole"), symbol("w", 2, kind="simplex")
    for number, good, bad in (
        (positive, 2.0, (-1.0, 0.0)),
        (P, 1.0, (1.5, -0.5)),
        (whole, 3, (2.5, -1)),
        (simplex[0], [0.5, 0.5], ([0.5, 0.6], [0.5, 0.25, 0.25])),
    ):
        (name,) = {leaf.name for leaf in number.node.leaves}
        assert number(**{name: good}) == np.ravel(good)[0]
        for value in bad:
            with pytest.raises(FubiniError, match="expected"):
                number(**{name: value})
