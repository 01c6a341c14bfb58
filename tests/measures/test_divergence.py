"""Sums and integrals that diverge: no number comes out of them, or infinity does."""

import math

import pytest
from scipy import integrate

from fubini.errors import DataError, Intractable
from fubini.measures import (
    Counting,
    Gamma,
    Geometric,
    Lebesgue,
    NegativeBinomial,
    Normal,
    Uniform,
    factor,
    measure,
    observe,
    weight,
)
from fubini.measures.mass import total_mass
from fubini.measures.simplify import simplify
from fubini.measures.values import symbol
from tests.measures.oracle import expectations


def mass(program, **values):
    return total_mass(program())(**values)


def _counted():
    k = yield Counting()
    yield factor(k * math.log(2))


def _stopped():
    k = yield Geometric(0.3)
    yield weight(2**k)


def _failures():
    k = yield NegativeBinomial(2, 0.7)
    yield weight(2**k)


def _upwards():
    x = yield Lebesgue(0, math.inf)
    yield factor(x)


def _squares():
    x = yield Lebesgue()
    y = yield Lebesgue()
    yield factor(x**2 + y**2)


def _steep():
    x = yield Gamma(2, 1)
    yield factor(3 * x)


def _inverted():
    x = yield Gamma(2, 1)
    yield factor(1 / x)
    yield factor(x)


def _flat():
    x = yield Lebesgue()
    yield observe(Normal(0, 1), 1)
    return x


@pytest.mark.parametrize("program", [_counted, _stopped, _failures, _upwards, _squares, _steep, _inverted, _flat])
def test_no_mass_where_there_is_none(program):
    with pytest.raises((DataError, Intractable)):
        total_mass(measure(program)())


B = symbol("b")


def _gamma():
    x = yield Gamma(2, 1)
    yield factor(B * x)


def _inverse():
    x = yield Gamma(2, 1)
    y = yield Gamma(2, 1)
    yield factor(B * x + B * y)


def _normals():
    x = yield Normal(0, 1)
    y = yield Normal(0, 1)
    yield factor(B * (x**2 + y**2))


def _half():
    x = yield Lebesgue(0, math.inf)
    yield factor((B - 1) * x**2)


def _geometric():
    k = yield Geometric(0.5)
    yield weight(symbol("b", kind="positive") ** k)


def _negative_binomial():
    k = yield NegativeBinomial(2, 0.5)
    yield weight(symbol("b", kind="positive") ** k)


DIVERGENT = [
    (_gamma, 0.5, 4.0),
    (_inverse, 0.5, 16.0),
    (_normals, 0.25, 2.0),
    (_half, 0.0, math.sqrt(math.pi) / 2),
    (_geometric, 1.0, 1.0),
    (_negative_binomial, 1.0, 1.0),
]


def test_meeting_normals_with_a_weight_that_may_be_negative():
    """They are integrated out together: the weight of a square is no number there."""

    @measure
    def meeting():
        x = yield Lebesgue()
        y = yield Lebesgue()
        yield factor(-B * (x - y) ** 2 - B * (x + y) ** 2)

    found = total_mass(meeting())
    assert found(b=0.5) == pytest.approx(math.pi)
    assert not math.isfinite(found(b=-0.5))


@pytest.mark.parametrize("program, small, right", DIVERGENT)
def test_infinite_where_a_parameter_makes_it_so(program, small, right):
    found = total_mass(measure(program)())
    assert found(b=small) == pytest.approx(right)
    assert found(b=3.0) == math.inf


def test_a_power_beyond_the_rate():
    @measure
    def grown():
        x = yield Gamma(2, 1)
        yield weight(symbol("c", kind="positive") ** x)

    found = total_mass(grown())
    assert found(c=2.0) == pytest.approx((1 - math.log(2)) ** -2)
    assert found(c=5.0) == math.inf


def test_a_growing_weight_on_an_interval():
    @measure
    def grown():
        x = yield Uniform(0, 1)
        yield factor(x**2)

    with pytest.raises(Intractable):
        mass(grown)
    right = integrate.quad(lambda x: math.exp(x * x), 0, 1)[0]
    assert expectations(simplify(grown()), {}, 57)[0] == pytest.approx(right)
