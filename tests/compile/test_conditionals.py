"""The conditional of each label equals enumeration of the collapsed density."""

import itertools
import math

import numpy as np
import pytest

from tests.compile.cases import CASES, K, gaussian, unknown_variance


def enumerated(case, data, labels, place):
    """p(candidate | all other labels), from the density itself."""
    every = np.repeat(labels[None], case.size, 0)
    every[(slice(None), *place)] = np.arange(case.size) + case.low
    logs = np.asarray(case.post(data).eliminate(*case.eliminated).log_prob(**{case.label: every}))
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


@pytest.mark.parametrize("name", CASES)
def test_conditional_equals_enumeration(name: str) -> None:
    case, g = CASES[name], np.random.default_rng(3)
    labels = case.labels(g)
    data = case.data(g, labels)
    sampler = case.sampler(data, engine="python")
    for place in itertools.product(*(range(size) for size in case.shape)):
        found = sampler.conditional(case.label, place, **{case.label: labels})
        assert np.abs(found - enumerated(case, data, labels, place)).max() < 1e-9, place


@pytest.mark.parametrize("offset", [1e4, 1e6])
@pytest.mark.parametrize("model, names", [(gaussian, ("theta", "mu")), (unknown_variance, ("theta", "mu", "tau"))])
def test_data_off_centre_lose_nothing(model, names, offset: float) -> None:
    """Against sums in extended precision."""
    g = np.random.default_rng(0)
    labels, near = g.integers(0, K, 6), g.normal(0.0, 1.0, 6)
    far = model(6, K).condition(s=near + offset).eliminate(*names).gibbs("y", engine="python")
    for place in range(6):
        found = far.conditional("y", place, y=labels)
        assert np.abs(found - predictive(near + offset, labels, place, model is unknown_variance)).max() < 1e-8


def predictive(s, y, place, unknown):
    """The conditional by sums in long double: log p(s_u | class) + log(n + 1)"""
    s = s.astype(np.longdouble)
    logs = []
    for c in range(K):
        mine = s[(y == c) & (np.arange(len(s)) != place)]
        n = len(mine)
        prior = np.longdouble(1.0) if unknown else np.longdouble(1.0) / 9
        mean = mine.sum() / (n + prior)
        if unknown:
            rate = 3 + ((mine**2).sum() - mine.sum() ** 2 / (n + prior)) / 2
            shape = 2 + np.longdouble(n) / 2
            grown = rate + (n + prior) / (n + prior + 1) * (s[place] - mean) ** 2 / 2
            value = _lgamma(shape + 0.5) - _lgamma(shape) + shape * np.log(rate) - (shape + 0.5) * np.log(grown)
            value += 0.5 * np.log((n + prior) / (n + prior + 1))
        else:
            value = 0.5 * np.log((n + prior) / (n + prior + 1))
            value -= 0.5 * (n + prior) / (n + prior + 1) * (s[place] - mean) ** 2
        logs.append(value + np.log(np.longdouble(n + 1)))
    weights = np.exp(np.array(logs) - max(logs))
    return (weights / weights.sum()).astype(float)


def _lgamma(x):
    return np.longdouble(math.lgamma(float(x)))
