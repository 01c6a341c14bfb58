"""Inequalities that a whole number may meet with equality."""

import math

import numpy as np
import pytest
from scipy import stats

from fubini.errors import Intractable
from fubini.measures import (
    Bernoulli,
    Cauchy,
    Normal,
    Poisson,
    condition,
    measure,
)
from fubini.measures.conditioning import disintegrate
from fubini.measures.mass import total_mass
from fubini.measures.simplify import simplify
from fubini.measures.values import maximum, symbol
from tests.measures.oracle import expectations


def mass(program, **values):
    return total_mass(program())(**values)


def test_a_count_above_zero():
    @measure
    def above():
        k = yield Poisson(1.63)
        yield condition(k > 0)
        return k, k**2

    assert expectations(simplify(above()), {}, 57)[0] == pytest.approx(1 - math.exp(-1.63))


def test_a_count_above_zero_beside_another_draw():
    @measure
    def above():
        k = yield Poisson(1.99)
        c = yield Cauchy(0, 1)
        yield condition(k > 0)
        return c

    assert expectations(simplify(above()), {}, 57)[0] == pytest.approx(1 - math.exp(-1.99), rel=1e-3)


def test_a_parameter_above_zero():
    n = symbol("n", 3, kind="whole")

    @measure
    def above():
        x = yield Normal(0, 1)
        yield condition(n[0] > 0)
        return x

    assert [total_mass(simplify(above()))(n=np.array([k, 1, 1])) for k in (0, 1)] == [0, 1]


def test_a_count_above_zero_at_zero():
    @measure
    def above():
        k = yield Poisson(2)
        yield condition(k > 0)
        return k, 0

    found = total_mass(disintegrate(above(), symbol("m", kind="whole")))
    assert [found(m=m) for m in (0, 1)] == [0, pytest.approx(stats.poisson.pmf(1, 2))]


def test_the_greater_of_a_coin_and_one():
    @measure
    def greater():
        x = yield Bernoulli(0.3)
        return maximum(x, 1), 0

    assert total_mass(disintegrate(greater(), 1))() == pytest.approx(1)


def test_a_factor_that_may_be_zero():
    @measure
    def both():
        x = yield Normal(0, 1)
        y = yield Normal(0, 1)
        yield condition(maximum(x, 0) * y > 0)

    with pytest.raises(Intractable):  # no rule solves it; dropping the factor would be wrong
        mass(both)
    assert simplify(both()) == both()
