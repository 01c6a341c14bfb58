"""Values that are taken with positive mass: no density is added to it."""

import pytest
from scipy import stats

from fubini.measures import (
    Normal,
    measure,
)
from fubini.measures.conditioning import disintegrate
from fubini.measures.mass import total_mass
from fubini.measures.values import maximum, minimum, where

PHI = stats.norm.cdf


def mass(program, **values):
    return total_mass(program())(**values)


CLAMPED = [
    (lambda x: maximum(x, 0.1), PHI(0.1)),
    (lambda x: -minimum(-x, -0.1), PHI(0.1)),
    (lambda x: minimum(x, 0.1), 1 - PHI(0.1)),
    (lambda x: where(x < 0.1, 0.1, x), PHI(0.1)),
]


@pytest.mark.parametrize("clamped, right", CLAMPED)
def test_an_atom_has_its_mass_and_no_density(clamped, right):
    @measure
    def cut():
        x = yield Normal(0, 1)
        return clamped(x), 0

    assert total_mass(disintegrate(cut(), 0.1))() == pytest.approx(right)
