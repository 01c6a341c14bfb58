"""Conditions, weights and parameters out of range; masses in double precision."""

import math

import jax
import pytest
from scipy import stats

from fubini.errors import DataError, DomainError, UnknownName
from fubini.measures import (
    Bernoulli,
    Beta,
    Binomial,
    Categorical,
    Exponential,
    Gamma,
    Geometric,
    Normal,
    Poisson,
    Uniform,
    condition,
    factor,
    measure,
    observe,
    superpose,
    weight,
)
from fubini.measures.conditioning import disintegrate
from fubini.measures.mass import total_mass
from fubini.measures.simplify import simplify
from fubini.measures.values import sqrt, symbol, where
from tests.measures.oracle import expectations


def mass(program, **values):
    return total_mass(program())(**values)


def test_a_condition_is_zero_or_one():
    s, u = symbol("s"), symbol("u")

    @measure
    def either():
        yield condition((s < 1) + (u < 1))
        x = yield Normal(0, 1)
        return x

    assert [mass(either, s=a, u=b) for a in (0, 2) for b in (0, 2)] == [1, 1, 1, 0]

    @measure
    def given():
        yield condition(s)

    assert [mass(given, s=a) for a in (0, 3)] == [0, 1]


def test_masses_in_double_precision():
    n, k = symbol("n", kind="whole"), symbol("k", kind="whole")

    @measure
    def counts():
        x = yield Beta(2, 3)
        yield observe(Binomial(n, x), k)
        return x

    right = stats.betabinom.pmf(40_000, 100_000, 2, 3)
    assert mass(counts, n=1e5, k=4e4) == pytest.approx(right, rel=1e-9)
    with pytest.raises(UnknownName, match="'k'"):
        mass(counts, n=1e5)
    with pytest.raises(DomainError, match=r"(?s)two symbols.*'a'"):
        (symbol("a") + symbol("a"))(a=1.0)


def test_values_between_whole_numbers():
    with pytest.raises(DomainError, match="a whole number"):
        observe(Poisson(3), 1.5)

    @measure
    def counted():
        k = yield Poisson(3)
        return k, 0

    assert total_mass(disintegrate(counted(), 1.5))() == 0
    found = total_mass(disintegrate(counted(), symbol("t")))
    assert [found(t=t) for t in (-1, 1.5, 2)] == [0, 0, pytest.approx(stats.poisson.pmf(2, 3))]


BAD = [
    lambda: Exponential(-1),
    lambda: Poisson(-1),
    lambda: Gamma(2, -1),
    lambda: Gamma(0, 1),
    lambda: Bernoulli(1.5),
    lambda: Geometric(1.5),
    lambda: Normal(math.nan, 1),
    lambda: Normal(0, -1),
    lambda: Uniform(2, 1),
    lambda: Binomial(2.5, 0.5),
    lambda: Beta(-1, 1),
    lambda: Categorical([0.5, -0.5]),
    lambda: weight(-2),
    lambda: weight(math.nan),
]


@pytest.mark.parametrize("made", BAD)
def test_parameters_out_of_range(made):
    with pytest.raises(DomainError):
        made()


@pytest.mark.parametrize("log_weight", [-800, 800])
def test_weights_far_from_one_add(log_weight):
    @measure
    def far():
        yield factor(log_weight)
        x = yield Normal(0, 1)
        return x

    (branch,) = simplify(superpose(far(), far())).branches
    assert branch.weight.args[0] == pytest.approx(log_weight + math.log(2))


def test_a_product_beyond_all_numbers():
    @measure
    def product():
        k = yield Geometric(0.55)
        x = yield Uniform(0.5, 2)
        yield weight(where(k == 0, 0.3, 0.7))
        yield weight(1 + k)
        yield weight(sqrt(x))
        yield Uniform(0, 2)
        return k, x

    right = sum((0.7 if k else 0.3) * (1 + k) * 0.55 * 0.45**k for k in range(200)) * (2**1.5 - 0.5**1.5) / 2.25
    assert expectations(simplify(product()), {}, 57)[0] == pytest.approx(right, rel=1e-6)


def test_a_test_under_a_number():
    @measure
    def doubled():
        x = yield Uniform(0, 2)
        yield weight(2 * (x < 1))

    assert mass(doubled) == pytest.approx(1)


def test_two_counts_that_are_equal():
    """Of a count beyond the other's end the weight is 0, and no distribution has weights that are no numbers."""

    @measure
    def alike():
        x = yield Poisson(0.86)
        y = yield Binomial(3, 0.4)
        yield condition(x == y)
        return x, y

    right = sum(stats.poisson.pmf(k, 0.86) * stats.binom.pmf(k, 3, 0.4) for k in range(4))
    assert expectations(simplify(alike()), {}, 57)[0] == pytest.approx(right, rel=1e-6)


def test_a_weight_that_symbols_make_negative():
    """It is an error, or no number where it is traced; where a condition fails, the mass is zero."""
    mu = symbol("mu")

    @measure
    def above():
        yield condition(mu > 1)
        yield weight(mu - 1)
        yield Normal(mu, 1)

    bare = total_mass(weight(mu - 1))
    with pytest.raises(
        DataError, match=r"the weight mu − 1\n  expected: a number that is not negative\n  nearest:  it is"
    ):
        bare(mu=0.5)
    assert bare(mu=1.5) == 0.5 and bare(mu=1.0) == 0.0
    assert math.isnan(jax.jit(lambda a: bare(mu=a))(0.5)) and float(jax.grad(lambda a: bare(mu=a))(2.5)) == 1.0
    assert total_mass(above())(mu=0.5) == 0.0 and total_mass(above())(mu=3.0) == 2.0
    assert total_mass(weight((mu - 1) * (mu - 2)))(mu=0.5) == pytest.approx(0.75)
