"""Programs at random: whatever simplify does to them, their integrals stay what they were."""

import os

import numpy as np
import pytest

from fubini.measures.language import (
    Bernoulli,
    Beta,
    Binomial,
    Exponential,
    Gamma,
    InverseGamma,
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
from fubini.measures.simplify import simplify
from fubini.measures.values import exp, log, sqrt
from tests.measures.cases import again
from tests.measures.oracle import expectations

COUNT = int(os.environ.get("FUBINI_RANDOM_PROGRAMS", "60"))


class Maker:
    """Draws, weights and what is returned, each chosen at random from what is there already."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.real, self.positive, self.unit, self.whole = [], [], [], []
        self.light = []  # positive ones with tails that are not heavy

    def pick(self, *kinds):
        return kinds[self.rng.integers(len(kinds))]

    def number(self, low=0.5, high=2.0):
        return round(float(self.rng.uniform(low, high)), 2)

    def location(self):
        choices = [self.number(-1, 1), *self.real, *(self.number(-1, 1) * x for x in self.real)]
        return self.pick(*choices)

    def scale(self):
        return self.pick(self.number(), self.number(), *self.positive, *(sqrt(x) for x in self.positive))

    def rate(self):
        return self.pick(self.number(), *self.positive, *(self.number() * x for x in self.positive))

    def probability(self):
        return self.pick(self.number(0.2, 0.8), *self.unit)

    def law(self):
        kind = self.pick("real", "real", "positive", "positive", "unit", "whole")
        if kind == "real":
            return kind, Normal(self.location(), self.scale())
        if kind == "positive":
            return kind, self.pick(
                Gamma(self.number(1, 3), self.rate()), Exponential(self.rate()), InverseGamma(3, self.rate())
            )
        if kind == "unit":
            return kind, self.pick(Beta(self.number(1, 3), self.number(1, 3)), Uniform(0, 1))
        counts = Poisson(self.pick(self.number(), *self.light))
        return kind, self.pick(counts, Bernoulli(self.probability()), Binomial(3, self.probability()))

    def statement(self):
        """A weight or an observation."""
        found = [factor(-0.1 * x**2) for x in self.real] + [weight(exp(-0.2 * x)) for x in self.positive]
        found += [weight(p * (1 - p)) for p in self.unit] + [weight(1 + x) for x in self.positive]
        found += [observe(Normal(x, self.number()), self.number(-1, 1)) for x in self.real]
        found += [observe(Poisson(x), 2) for x in self.positive] + [observe(Bernoulli(p), 1) for p in self.unit]
        found += [observe(Exponential(x), self.number()) for x in self.positive]
        found += [superpose((0.3, factor(-0.1 * x)), (0.6, weight(2))) for x in self.positive]
        return self.pick(*found) if found else weight(self.number())

    def value(self, drawn):
        kept = [x for x in drawn if self.rng.uniform() < 0.5]
        if drawn and self.rng.uniform() < 0.3:
            kept.append(self.pick(*drawn) * self.number() + self.number())
        return tuple(kept)


def program(seed):
    @measure
    def made():
        maker = Maker(seed)
        drawn = []
        for _ in range(maker.rng.integers(1, 4)):
            kind, law = maker.law()
            x = yield law
            drawn.append(x)
            getattr(maker, kind).append(x)
            if kind == "positive" and not law.branches[0].draws[0].law.leaves and "Inverse" not in str(law):
                maker.light.append(x)
            if maker.rng.uniform() < 0.4:
                yield maker.statement()
        return maker.value(drawn)

    return made()


@pytest.mark.parametrize("seed", range(COUNT))
def test_integrals_stay(seed):
    written = program(seed)
    found = simplify(written)
    assert again(found, {}) == found, str(found)
    before, after = ([expectations(one, {}, count) for count in (41, 57)] for one in (written, found))
    error = sum(np.abs(fine - coarse) + 1e-7 * np.abs(fine) for coarse, fine in (before, after))  # of the quadrature
    difference = np.abs(after[1] - before[1])
    assert np.all(difference <= 10 * error + 1e-9), f"{written}\n\nbecame\n\n{found}\n{before[1]} {after[1]}"


def test_names_and_order_of_branches_say_nothing():
    first, second = Normal(0, 1), Exponential(2)
    pair = superpose((0.3, first), (0.7, second))
    assert set(map(str, simplify(pair).branches)) == set(
        map(str, simplify(superpose((0.7, second), (0.3, first))).branches)
    )


def test_conditions_are_kept():
    @measure
    def cut():
        x = yield Normal(0, 1)
        yield condition(log(1 + x**2) < 1)
        return x

    found = simplify(cut())
    assert len(found.branches[0].tests) == 1
