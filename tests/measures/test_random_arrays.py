"""Programs with arrays at random: every way to index a latent, against the density by quadrature."""

import os

import numpy as np
import pytest

from fubini.measures import (
    Beta,
    Categorical,
    Dirichlet,
    Exponential,
    Gamma,
    Normal,
    array,
    factor,
    function,
    log,
    measure,
    observe,
    plate,
    symbol,
    total,
    where,
)
from fubini.measures.simplify import simplify
from tests.measures.cases import again, leaf
from tests.measures.oracle import densities

COUNT = int(os.environ.get("FUBINI_RANDOM_PROGRAMS", "40"))
N, J = 2, 3
data, positive = symbol("data", J), symbol("positive", J, kind="positive")
label = symbol("label", J, kind="whole", high=N - 1)
NUMBERS = {data: [0.3, -0.8, 1.2], positive: [0.4, 1.3, 0.7], label: [1, 0, 1]}


class Maker:
    """A latent array, data that depend on it through a random index, and perhaps another array."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def pick(self, *kinds):
        return kinds[self.rng.integers(len(kinds))]

    def place(self):
        """An index into N entries from one of J."""
        fixed = int(self.rng.integers(N))
        return self.pick(
            lambda j: label[j],
            lambda j: fixed,
            lambda j: where(j < 1, 0, 1),
            lambda j: function("quotient", j, 2),
            lambda j: where(j == 1, fixed, label[j]),
        )

    def number(self, low=0.5, high=2.0):
        return round(float(self.rng.uniform(low, high)), 2)

    def program(self):
        return self.pick(self.normals, self.normals, self.rates, self.coins, self.points, self.two_levels)()

    def normals(self):
        s, slope, at, other = self.number(), self.number(), self.place(), self.place()
        noise, both = self.number(), self.rng.uniform() < 0.4

        @measure
        def made():
            x = yield plate(N, lambda i: Normal(0.3 * (i + 1), s))
            mean = lambda j: slope * x[at(j)] + (x[other(j)] if both else 0)  # noqa: E731
            yield plate(J, lambda j: observe(Normal(mean(j), noise), data[j]))
            y = yield plate(N, lambda i: Normal(x[N - 1 - i], 1))
            return y

        return made()

    def rates(self):
        a, b, at, keep = self.number(1, 3), self.number(), self.place(), self.rng.uniform() < 0.5

        @measure
        def made():
            x = yield plate(N, lambda i: Gamma(a, b * (i + 1)))
            yield plate(J, lambda j: observe(Exponential(x[at(j)]), positive[j]))
            y = yield plate(N, lambda i: Exponential(x[i]))
            return (x, y) if keep else y

        return made()

    def coins(self):
        a, b, at = self.number(1, 3), self.number(1, 3), self.place()

        @measure
        def made():
            p = yield plate(N, lambda i: Beta(a, b + i))
            yield factor(total(J, lambda j: where(data[j] < 0, log(p[at(j)]), 2 * log(1 - p[at(j)]))))
            return p

        return made()

    def points(self):
        at, keep = self.place(), self.rng.uniform() < 0.5

        @measure
        def made():
            p = yield plate(N, lambda i: Dirichlet(array(2, lambda c: 1 + c)))
            yield plate(J, lambda j: observe(Categorical(p[at(j)]), label[j]))
            z = yield plate(N, lambda i: Categorical(p[i]))
            return (p, z) if keep else z

        return made()

    def two_levels(self):
        s, at = self.number(), self.place()

        @measure
        def made():
            m = yield Normal(0, 2)
            x = yield plate(N, lambda i: Normal(m, s))
            yield plate(J, lambda j: observe(Normal(x[at(j)], 1), data[j]))
            y = yield Normal(m, 1)
            return y

        return made()


@pytest.mark.parametrize("seed", range(COUNT))
def test_density_stays(seed):
    written = Maker(seed).program()
    numbers = {leaf(symbol): value for symbol, value in NUMBERS.items()}
    found = simplify(written)
    assert again(found, numbers) == found, str(found)
    before, after = ([densities(one, numbers, count) for count in (31, 41)] for one in (written, found))
    error = sum(abs(fine - coarse) + 1e-7 * abs(fine) for coarse, fine in (before, after))
    assert abs(after[1] - before[1]) <= 10 * error, f"{written}\n\nbecame\n\n{found}\n{before} {after}"
