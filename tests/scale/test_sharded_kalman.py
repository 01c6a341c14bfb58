"""Linear-Gaussian chains over a mesh: sequences, time, and both."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

import fubini as fb
from fubini.sequence import stretches

from .meshes import mesh_of
from .programs import in_loops, programs

TRACKS, STEPS = 4, 40
DATA = np.random.default_rng(0).normal(size=(TRACKS, STEPS)).cumsum(-1).astype(np.float32)

ASKS: dict[str, Callable[[fb.Chain], Any]] = {
    "evidence": lambda chain: chain.log_evidence().array,
    "smooth": lambda chain: chain.smooth().mean("x1").array,
    "argmax": lambda chain: chain.argmax()["x1"],
}


def chain_of(data: Any, *names: str) -> fb.Chain:
    """A local level that reverts to zero."""
    x, x1 = fb.Variable("x", fb.Real), fb.Variable("x1", fb.Real)
    seen = fb.dist.Normal(x1, 0.8)(fb.Array(data, names))
    step = fb.dist.Normal(0.9 * x, 0.5)("x1") * seen
    return fb.Chain(init=fb.dist.Normal(0.0, 1.0)("x"), factor=step, time="t", step={"x": "x1"})


@pytest.fixture(scope="module")
def one_device() -> dict[str, np.ndarray]:
    chain = chain_of(jnp.asarray(DATA), "track", "t")
    return {name: np.asarray(ask(chain)) for name, ask in ASKS.items()}


@pytest.mark.parametrize("axes", [("tracks", None), (None, "time"), ("tracks", "time")], ids=str)
def test_answers_are_those_of_one_device(
    axes: tuple, one_device: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stretches, "FEWEST_STEPS", 4)
    mesh = mesh_of(AxisType.Auto, tracks=2, time=4)
    chain = chain_of(fb.shard(DATA, mesh, *axes), "track", "t")
    for name in ("evidence",) if all(axes) else ASKS:
        texts = programs(lambda ask=ASKS[name]: ask(chain), monkeypatch) if name == "evidence" else []
        assert not any(map(in_loops, texts))
        monkeypatch.setattr(stretches, "FEWEST_STEPS", 4)
        scale = np.abs(one_device[name]).max()
        np.testing.assert_allclose(ASKS[name](chain), one_device[name], rtol=1e-6, atol=1e-6 * scale)
