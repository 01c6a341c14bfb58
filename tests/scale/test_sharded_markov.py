"""Models with `dist.Markov` whose data lie on a mesh, along time or along chains."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import fubini as fb
from fubini import dist

from .meshes import both_kinds, mesh_of
from .programs import in_loops
from .test_plates import assert_close
from .watch import collectives, watched

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
def level(steps: int, noise: Any = 0.5) -> Any:
    z = yield dist.Markov(dist.Normal(0.0, 1.0), lambda z: dist.Normal(0.9 * z, noise), steps)
    y = yield dist.Normal(z, 1.0)


def best(post: Any) -> Any:
    return post.map()[0]


def draws(post: Any) -> Any:
    return post.infer(jax.random.key(0), draws=5, chains=1, progress=False).posterior["z"].values


@pytest.mark.parametrize(
    ("kind", "axes", "double", "tracks", "steps"),
    [
        (AxisType.Auto, ("tracks", "time"), False, 4, 80),
        (AxisType.Explicit, (None, "time"), True, 4, 80),
        (AxisType.Explicit, ("tracks", "time"), True, 3, 61),
    ],
    ids=["tracks and time", "time", "lengths that devices do not divide"],
)
def test_states_of_hidden_markov_models(kind: AxisType, axes: tuple, double: bool, tracks: int, steps: int) -> None:
    """Marginals, the best path, draws: few numbers are gathered, and draws are those of one device."""
    with jax.enable_x64(double):
        data = RANDOM.normal(size=(tracks, steps)).cumsum(-1).astype(float if double else np.float32)
        model, mesh = hidden_tracks(tracks, steps), mesh_of(kind, tracks=2, time=4)
        one, many = (model.condition(y=y) for y in (jnp.asarray(data), fb.shard(data, mesh, *axes)))
        with watched() as seen:
            evidence, marginal, path = many.log_evidence(), many.marginal("z").weights, best(many)
        if steps % 4 == 0:  # an answer of another length lies whole on each device
            seen.require_few_numbers(steps)
            assert {part.sharding.shard_shape(part.shape)[1] for part in (marginal, path)} == {steps // 4}
        tolerance = 1e-10 if double else 1e-6
        np.testing.assert_allclose(float(evidence), float(one.log_evidence()), rtol=tolerance)
        np.testing.assert_allclose(marginal, one.marginal("z").weights, rtol=tolerance, atol=tolerance)
        np.testing.assert_array_equal(path, best(one))
        np.testing.assert_array_equal(draws(many), draws(one))


@fb.model
def tracks_with_moves(tracks: int, steps: int, moves: Any) -> Any:
    z = yield dist.Markov(dist.Categorical(jnp.array([0.2, 0.8])), lambda z: dist.Categorical(moves[z]), steps).expand(
        [tracks]
    )
    y = yield dist.Normal(jnp.asarray([0.0, 2.0])[z], 1.0)


def evidence_of(moves: Any, y: Any) -> Any:
    return tracks_with_moves(*y.shape, moves).condition(y=y).log_evidence().data


def answers_of(moves: Any, y: Any) -> Any:
    post = tracks_with_moves(*y.shape, moves).condition(y=y)
    return jax.value_and_grad(evidence_of, argnums=(0, 1))(moves, y), post.marginal("z").weights, best(post)


def evidence_and_slopes(moves: Any, y: Any) -> Any:
    return jax.value_and_grad(evidence_of)(moves, y)


@pytest.mark.parametrize(
    ("kind", "double", "steps", "ask"),
    [
        (AxisType.Auto, True, 160, answers_of),
        (AxisType.Explicit, False, 160, answers_of),
        (AxisType.Auto, False, 157, evidence_and_slopes),  # other answers of this length lie whole on each device
    ],
    ids=["auto", "explicit", "a length that devices do not divide"],
)
def test_time_of_arguments_of_a_compiled_function(kind: AxisType, double: bool, steps: int, ask: Any) -> None:
    """No step is gathered, nothing is exchanged in a loop, and slopes in the moves are sums of each device.

    One device answers in double precision: in single it loses digits of slopes that devices keep.
    """
    mesh, data = mesh_of(kind, tracks=2, time=4), RANDOM.normal(size=(4, steps)).astype(np.float32)
    with jax.enable_x64(double):
        moves, own = jnp.asarray(MOVES, float), data.astype(float if double else np.float32)
        here = NamedSharding(mesh, PartitionSpec("tracks", "time"))
        placed = fb.shard(own, mesh, "tracks", "time") if steps % 4 else jax.device_put(own, here)
        compiled = jax.jit(ask).lower(moves, placed).compile()
        text, answers = compiled.as_text(), compiled(moves, placed)
    assert all(size < steps for _, size in collectives(text))
    assert not in_loops(text)
    with jax.enable_x64(True):
        expected = jax.jit(ask)(jnp.asarray(MOVES, float), jnp.asarray(data, float))
    assert_close(answers, expected, 1e-10 if double else 1e-6)


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


def slopes_of_a_level(noise: Any, y: Any) -> Any:
    return jax.value_and_grad(lambda noise, y: level(y.shape[0], noise).condition(y=y).log_evidence().data, (0, 1))(
        noise, y
    )


@pytest.mark.parametrize(
    ("kind", "steps"), [(AxisType.Auto, 61), (AxisType.Explicit, 64)], ids=["auto, padded", "explicit"]
)
def test_time_of_a_local_level(kind: AxisType, steps: int) -> None:
    """Each device eliminates the states of its stretch; three rows of three numbers of each are gathered."""
    data = RANDOM.normal(size=steps)
    with jax.enable_x64(True):
        placed = fb.shard(data, mesh_of(kind, time=8), "time")
        expected = slopes_of_a_level(0.5, jnp.asarray(data))
        with watched() as seen:
            evidence = level(steps, 0.5).condition(y=placed).log_evidence()
            slope = jax.grad(lambda noise: level(steps, noise).condition(y=placed).log_evidence().data)(0.5)
        compiled = jax.jit(slopes_of_a_level).lower(0.5, placed).compile() if steps % 8 == 0 else None
        answers = None if compiled is None else compiled(0.5, placed)
    np.testing.assert_allclose([float(evidence), slope], [expected[0], expected[1][0]], rtol=1e-10)
    assert max(size for _, size in seen.collectives) == 8 * 3 * 3
    assert not seen.fetched
    if compiled is not None:
        assert_close(answers, expected, 1e-10)
        assert max(size for _, size in collectives(compiled.as_text())) == 8 * 3 * 3


@pytest.mark.parametrize("steps", [64, 61])
def test_time_of_a_local_level_in_single_precision(steps: int) -> None:
    data = RANDOM.normal(size=steps).astype(np.float32)
    expected = level(steps).condition(y=jnp.asarray(data)).log_evidence()
    answer = level(steps).condition(y=fb.shard(data, mesh_of(AxisType.Auto, time=8), "time")).log_evidence()
    np.testing.assert_allclose(float(answer), float(expected), rtol=1e-6)


def test_explain_says_what_is_told_of_stretches() -> None:
    post = level(64).condition(y=fb.shard(np.zeros(64), mesh_of(AxisType.Auto, time=8), "time"))
    assert "exchanged for the evidence: its sums over rows, and a few rows of each stretch of time" in str(
        fb.explain(post)
    )
