"""Laws and weights whose constants are the same number: each counts."""

import math

import pytest
from scipy import stats

from fubini.measures import (
    Categorical,
    Normal,
    Uniform,
    condition,
    measure,
    weight,
)
from fubini.measures.conditioning import disintegrate
from fubini.measures.mass import total_mass
from fubini.measures.simplify import simplify
from fubini.measures.values import sqrt
from tests.measures.oracle import expectations


def mass(program, **values):
    return total_mass(program())(**values)


def test_equal_priors_are_two():
    @measure
    def two():
        z = yield Normal(0, 1)
        x = yield Uniform(0, 2)
        y = yield Uniform(0, 2)
        return z, x, y

    assert total_mass(disintegrate(two(), 0))() == pytest.approx(stats.norm.pdf(0))


def test_a_weight_that_is_a_prior():
    @measure
    def half():
        z = yield Normal(0, 1)
        x = yield Uniform(0, 2)
        yield weight(0.5)
        return z, x

    assert total_mass(disintegrate(half(), 0))() == pytest.approx(stats.norm.pdf(0) / 2)


def test_a_root_beside_an_equal_prior():
    @measure
    def rooted():
        x = yield Uniform(0.5, 2)
        yield weight(sqrt(x))
        yield Uniform(0.5, 2)

    assert expectations(simplify(rooted()), {}, 57)[0] == pytest.approx((2**1.5 - 0.5**1.5) / 2.25)


def test_cases_beside_an_equal_prior():
    @measure
    def cut():
        x = yield Uniform(0, 2)
        k = yield Categorical([0.2, 0.3, 0.5])
        yield condition(x**2 < 0.4)
        return k

    assert mass(cut) == pytest.approx(math.sqrt(0.4) / 2)
    assert total_mass(simplify(cut()))() == pytest.approx(math.sqrt(0.4) / 2)
