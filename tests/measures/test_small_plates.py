"""Plates of one entry are like others."""

import pytest

from fubini.measures import (
    Bernoulli,
    Beta,
    measure,
    observe,
    plate,
)
from fubini.measures.mass import total_mass


def mass(program, **values):
    return total_mass(program())(**values)


@pytest.mark.parametrize("size", [1, 2])
def test_small_plates(size):
    @measure
    def many():
        p = yield plate(size, lambda i: Beta(3, 3))
        yield plate(size, lambda i: observe(Bernoulli(p[i]), 1))

    assert mass(many) == pytest.approx(0.5**size)
