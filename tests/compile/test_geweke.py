"""Joint-distribution tests (Geweke 2004): sweeps alternate with new data, and both stay as the model draws them."""

import copy
import dataclasses
from functools import partial
from unittest import mock

import numpy as np
import pytest

from fubini.compile import row_proposals
from tests.compile.cases import CASES, DOC, Case

ROUNDS = 300
BATCHES = 20


def features(labels: np.ndarray, data: np.ndarray) -> np.ndarray:
    """Numbers that depend on labels alone, and on how data go together with them."""
    flat, x = labels.ravel(), np.tanh(data.astype(float).ravel() / 3)
    mine = flat if len(flat) == len(x) else flat[DOC]
    alike = np.equal.outer(mine, mine) & ~np.eye(len(mine), dtype=bool)
    near = -np.abs(np.subtract.outer(x, x))
    return np.array(
        [flat.mean(), alike.mean(), (alike * near).mean(), (mine * x).mean(), (alike * x * x[:, None]).mean()]
    )


def first(case, g):
    """Labels and data; data of few values have the least and the greatest, for what is known of data is used."""
    while True:
        labels = case.labels(g)
        data = case.data(g, labels)
        if case.top is None or (data.min() == 0 and data.max() == case.top):
            return labels, data


def rebound(sampler, case, data):
    """The same loops on other data; what was read of the model is others' too, and stays as it is."""
    left = sampler.eliminated_model = copy.copy(sampler.eliminated_model)
    left.model = copy.copy(left.model)
    reader = copy.copy(left.reading.reader)
    leaf = next(leaf for leaf in reader.known if leaf.name == case.observed)
    reader.known = {**reader.known, leaf: data.reshape(leaf.shape)}
    left.model.reading = dataclasses.replace(left.reading, reader=reader)
    sampler.machine.refill(sampler._evaluate)


def neighbour(place, old, size, uniform):
    """One up with probability 0.7, or one down."""
    if uniform < 0.7:
        return (old + 1) % size, np.log(0.3 / 0.7)
    return (old - 1) % size, np.log(0.7 / 0.3)


def proposing(case, data):
    return case.post(data).eliminate(*case.eliminated).metropolis(case.label, proposal=neighbour, engine="python")


def from_rows(case, data):
    """Classes proposed from those of other items, as where they are many."""
    with mock.patch.object(row_proposals, "LEAST", 2):
        sampler = case.sampler(data, engine="python")
        assert sampler.program.uniforms > 1
    return sampler


WAYS = {name: partial(Case.sampler, engine="python") for name in CASES}
WAYS |= {f"{name}, compiled": Case.sampler for name in ("unknown variance", "naive bayes")}
WAYS |= {
    f"{name}, without differences": partial(Case.sampler, engine="python", without=("difference",))
    for name in ("gaussian", "topics")
}
WAYS |= {f"{name}, proposed": proposing for name in ("gaussian", "topics", "table")}
WAYS["topics, proposed from rows"] = from_rows


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.one_in(3)
def test_labels_and_data_stay_as_the_model_draws_them(name: str) -> None:
    case, g = CASES[name.split(",")[0]], np.random.default_rng(11)
    labels, data = first(case, g)
    sampler = WAYS[name](case, data)
    items = np.arange(labels.size)
    chain = []
    for _ in range(ROUNDS):
        sampler.machine.set({case.label: labels - case.low})
        sampler.machine.sweep(case.label, sampler.machine.uniforms(g, len(items)), items)
        labels = sampler.machine.values(case.label).copy() + case.low
        chain.append(features(labels, data))
        data = case.data(g, labels)
        rebound(sampler, case, data)
    prior = np.array([features(y, case.data(g, y)) for y in (case.labels(g) for _ in range(4 * ROUNDS))])
    means = np.array(chain).reshape(BATCHES, -1, prior.shape[1]).mean(1)
    error = np.sqrt(means.var(0, ddof=1) / BATCHES + prior.var(0) / len(prior))
    scores = (means.mean(0) - prior.mean(0)) / np.where(error == 0, 1.0, error)
    assert np.abs(scores).max() < 4.5, scores


def test_other_data_leave_what_was_read_as_it_is() -> None:
    case, g = CASES["gaussian"], np.random.default_rng(1)
    labels, data = first(case, g)
    before = float(case.post(data).eliminate(*case.eliminated).log_prob(y=labels))
    rebound(case.sampler(data, engine="python"), case, data + 1.0)
    assert float(case.post(data).eliminate(*case.eliminated).log_prob(y=labels)) == before
