"""Models with `dist.Markov` whose data lie on a mesh, along time or along chains."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

import fubini as fb
from fubini import dist

from .meshes import both_kinds, mesh_of
from .watch import watched

MOVES = np.array([[0.9, 0.1], [0.3, 0.7]], np.float32)
RANDOM = np.random.default_rng(0)


@fb.model
def hidden(steps: int) -> Any:
    z = yield dist.Markov(
        dist.Categorical(jnp.array([0.2, 0.8])), lambda z: dist.Categorical(jnp.asarray(MOVES)[z]), steps
    )
    y = yield dist.Normal(jnp.asarray([0.0, 2.0])[z], 1.0)


@fb.model
def hidden_tracks(tracks: int, steps: int) -> Any:
    z = yield dist.Markov(
        dist.Categorical(jnp.array([0.2, 0.8])), lambda z: dist.Categorical(jnp.asarray(MOVES)[z]), steps
    ).expand([tracks])
    y = yield dist.Normal(jnp.asarray([0.0, 2.0])[z], 1.0)


@fb.model
def level(steps: int) -> Any:
    z = yield dist.Markov(dist.Normal(0.0, 1.0), lambda z: dist.Normal(0.9 * z, 0.5), steps)
    y = yield dist.Normal(z, 1.0)


@both_kinds
@pytest.mark.parametrize("steps", [64, 261])
def test_time_of_a_hidden_markov_model(kind: AxisType, steps: int) -> None:
    """At any length: behind the end, states stay as they are."""
    data = RANDOM.normal(size=steps).astype(np.float32)
    expected = hidden(steps).condition(y=jnp.asarray(data)).log_evidence()
    with watched() as seen:
        answer = hidden(steps).condition(y=fb.shard(data, mesh_of(kind, time=8), "time")).log_evidence()
    np.testing.assert_allclose(float(answer), float(expected), rtol=1e-6)
    seen.require_few_numbers(steps)


@pytest.mark.parametrize("tracks", [16, 13])
def test_tracks_of_a_hidden_markov_model(tracks: int) -> None:
    data = RANDOM.normal(size=(tracks, 50)).astype(np.float32)
    expected = hidden_tracks(tracks, 50).condition(y=jnp.asarray(data)).log_evidence()
    with watched() as seen:
        placed = fb.shard(data, mesh_of(AxisType.Auto, tracks=8), "tracks")
        answer = hidden_tracks(tracks, 50).condition(y=placed).log_evidence()
    np.testing.assert_allclose(float(answer), float(expected), rtol=1e-6)
    assert max((numbers for _, numbers in seen.collectives), default=0) <= 8
    assert not seen.fetched


@pytest.mark.parametrize("steps", [64, 61])
def test_time_of_a_local_level(steps: int) -> None:
    data = RANDOM.normal(size=steps).astype(np.float32)
    expected = level(steps).condition(y=jnp.asarray(data)).log_evidence()
    answer = level(steps).condition(y=fb.shard(data, mesh_of(AxisType.Auto, time=8), "time")).log_evidence()
    np.testing.assert_allclose(float(answer), float(expected), rtol=1e-6)
