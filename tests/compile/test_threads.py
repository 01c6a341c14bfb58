"""Chains of a compiled sampler in threads draw what they draw one after another."""

from __future__ import annotations

import warnings

import jax
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.questions import label_sweeps

KEY = jax.random.key(5)


@fb.model
def groups():
    weight = yield dist.Dirichlet(np.ones(3))
    mean = yield dist.Normal(0.0, 3.0).expand([3])
    scale = yield dist.HalfNormal(1.0)
    z = yield dist.Categorical(weight).expand([30])
    y = yield dist.Normal(mean[z], scale)


POST = groups().condition(y=np.concatenate([np.linspace(-4, -2, 15), np.linspace(2, 3, 15)]))


@pytest.mark.parametrize("names", [("weight", "mean"), ("weight",)], ids=["one other latent", "two"])
def test_chains_in_threads_are_the_same(names, monkeypatch):
    def drawn(processors):
        monkeypatch.setattr(label_sweeps.os, "cpu_count", lambda: processors)
        return POST.eliminate(*names).gibbs("z").run(KEY, sweeps=12, chains=5, warmup=20)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one, four = drawn(1), drawn(4)
    for name, value in one.items():
        np.testing.assert_array_equal(value, four[name])
        assert len({chain.tobytes() for chain in value}) == 5


def test_a_twin_has_arrays_of_its_own():
    machine = POST.eliminate("weight", "mean").gibbs("z", engine="python").machine
    twin = machine.twin()
    machine.set({"z": np.zeros(30, int), "scale": np.array(1.0)})
    assert twin.functions is machine.functions
    assert not any(np.shares_memory(twin.arrays[name], array) for name, array in machine.arrays.items())
