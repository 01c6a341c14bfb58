"""Linear-Gaussian chains over a mesh: sequences, time, and both."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

import fubini as fb
from fubini.sequence import stretches

from .meshes import mesh_of
from .programs import in_loops
from .watch import watched

TRACKS, STEPS = 4, 40
DATA = np.random.default_rng(0).normal(size=(TRACKS, STEPS)).cumsum(-1)

ASKS: dict[str, Callable[[fb.Chain], Any]] = {
    "evidence": lambda chain: chain.log_evidence().array,
    "filter": lambda chain: chain.filter().mean("x1").array,
    "smooth": lambda chain: chain.smooth().variance("x1").array,
    "pairs": lambda chain: chain.smooth_pairs()(x=0.3, x1=-0.2).log().array,
    "argmax": lambda chain: chain.argmax()["x1"],
}


@pytest.fixture(autouse=True)
def short_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes of few steps, so that a short sequence has several and a remainder."""
    monkeypatch.setattr(stretches, "FEWEST_STEPS", 4)


def chain_of(data: Any, scale: Any = 0.5) -> fb.Chain:
    """A local level that reverts to zero."""
    x, x1 = fb.Variable("x", fb.Real), fb.Variable("x1", fb.Real)
    seen = fb.dist.Normal(x1, 0.8)(fb.Array(data, ("track", "t")))
    step = fb.dist.Normal(0.9 * x, scale)("x1") * seen
    return fb.Chain(init=fb.dist.Normal(0.0, 1.0)("x"), factor=step, time="t", step={"x": "x1"})


def evidence_of(scale: Any, data: Any) -> Any:
    return chain_of(data, scale).log_evidence().array.sum()


@pytest.mark.parametrize(
    ("kind", "axes", "double", "names"),
    [
        (AxisType.Auto, ("tracks", None), False, ("evidence", "smooth")),
        (AxisType.Explicit, (None, "time"), True, tuple(ASKS)),
        (AxisType.Auto, ("tracks", "time"), True, ("evidence", "argmax")),
    ],
    ids=["tracks", "time", "tracks and time"],
)
def test_answers_are_those_of_one_device(kind: AxisType, axes: tuple, double: bool, names: tuple[str, ...]) -> None:
    with jax.enable_x64(double):
        data, mesh = DATA.astype(float if double else np.float32), mesh_of(kind, tracks=2, time=4)
        one, many = chain_of(jnp.asarray(data)), chain_of(fb.shard(data, mesh, *axes))
        for name in names:
            expected = np.asarray(ASKS[name](one))
            with watched() as seen:
                answer = ASKS[name](many)
            assert not seen.fetched
            tolerance = 1e-10 if double else 1e-6
            np.testing.assert_allclose(answer, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())


def test_the_gradient_is_summed_outside_of_loops() -> None:
    with jax.enable_x64(True):
        gradient = jax.grad(evidence_of, argnums=(0, 1))
        mesh = mesh_of(AxisType.Explicit, tracks=2, time=4)
        placed = jax.device_put(DATA, jax.NamedSharding(mesh, jax.P("tracks", "time")))
        compiled = jax.jit(gradient).lower(jnp.asarray(0.5), placed).compile()
        assert not in_loops(compiled.as_text())
        found, expected = compiled(jnp.asarray(0.5), placed), gradient(jnp.asarray(0.5), jnp.asarray(DATA))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
        assert found[1].sharding.shard_shape(found[1].shape) == (TRACKS // 2, STEPS // 4)


def test_draws_follow_the_pairs() -> None:
    """Also where draws of two devices, lanes or remainders meet."""
    data = DATA[:1].astype(np.float32)
    chain = chain_of(fb.shard(data, mesh_of(AxisType.Auto, time=8), None, "time"))
    count = 4000
    found = chain.sample(jax.random.key(0), count)
    draws = np.concatenate([np.asarray(found["x"])[:, None, 0], np.asarray(found["x1"]).reshape(count, -1)], axis=1)
    smooth = chain_of(jnp.asarray(data)).smooth()
    mean, variance = (np.asarray(part.array).reshape(-1) for part in (smooth.mean("x1"), smooth.variance("x1")))
    np.testing.assert_allclose(draws[:, 1:].mean(0), mean, atol=4.5 * np.sqrt(variance.max() / count))
    np.testing.assert_allclose(draws[:, 1:].var(0), variance, rtol=4.5 * np.sqrt(2 / count))
