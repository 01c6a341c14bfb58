"""Variables in layers as a chain: its states are theirs, vectors too."""

from __future__ import annotations

import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.representations.unrolled_chain import unrolled_chain


def test_the_best_path_of_vectors() -> None:
    x = [fb.Variable(f"x{k}", fb.Reals[2]) for k in range(4)]
    factors: list[fb.Factor] = [dist.MultivariateNormal(np.array([1.0, -1.0]), np.eye(2))(x[0])]
    for k in range(1, 4):
        factors.append(dist.MultivariateNormal(x[k - 1] + np.array([0.5, 0.2]), 0.3 * np.eye(2))(x[k]))
        factors.append(dist.MultivariateNormal(x[k], 0.5 * np.eye(2))(np.array([0.1 * k, -0.7])))
    names = [variable.name for variable in x]
    expected = fb.argmax(factors, names)
    made = unrolled_chain(factors, {variable.name: variable.output for variable in x})
    assert made is not None
    values = made.assignment(made.chain.argmax())
    for name in names:
        assert values[name] == pytest.approx(expected[name], abs=1e-9)
