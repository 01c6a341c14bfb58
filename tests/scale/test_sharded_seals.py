"""The seals' tracks over a mesh: a hidden Markov model of each, as on one device."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

import fubini as fb
from examples.harbour_seals.data import read

from .meshes import mesh_of
from .programs import in_loops, programs

MOVES = np.array([[0.9, 0.08, 0.02], [0.1, 0.8, 0.1], [0.05, 0.15, 0.8]], np.float32)
STEPS = 300


@pytest.fixture(scope="module")
def weights(data: Path) -> np.ndarray:
    """Step lengths as three classes of Gamma distributions, of 1 where nothing was observed."""
    steps = np.asarray(read(data).step)[..., :STEPS].reshape(-1, STEPS)
    steps = steps[np.isfinite(steps).any(-1)] / 1000.0
    steps = np.concatenate([steps, np.full((-len(steps) % 8, STEPS), np.nan)])
    seen = np.where(np.isfinite(steps) & (steps > 0), steps, np.nan)[..., None]
    scale = np.array([0.2, 1.0, 4.0])
    return np.where(np.isnan(seen), 1.0, np.exp(-seen / scale) / scale).astype(np.float32)


def chain_of(weights: jax.Array) -> fb.Chain:
    start, moves = jnp.asarray([0.4, 0.3, 0.3], weights.dtype), jnp.asarray(MOVES, weights.dtype)
    step = fb.Table(moves, ("x", "x1")) * fb.Table(weights, ("track", "t", "x1"))
    return fb.Chain(init=fb.Table(start, ("x",)), factor=step, time="t", step={"x": "x1"})


@pytest.mark.parametrize(("kind", "double"), [(AxisType.Auto, False), (AxisType.Explicit, True)], ids=str)
def test_tracks_over_devices(
    kind: AxisType, double: bool, weights: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    with jax.enable_x64(double):
        weights, tolerance = weights.astype(float if double else np.float32), 1e-10 if double else 1e-6
        one, many = chain_of(jnp.asarray(weights)), chain_of(fb.shard(weights, mesh_of(kind, tracks=8), "tracks"))
        np.testing.assert_allclose(many.log_evidence().array, one.log_evidence().array, rtol=tolerance)
        np.testing.assert_allclose(many.smooth().weights, one.smooth().weights, rtol=tolerance, atol=tolerance)
        np.testing.assert_array_equal(many.argmax()["x1"], one.argmax()["x1"])
        for text in programs(many.log_evidence, monkeypatch):
            assert not in_loops(text)
