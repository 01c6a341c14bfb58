"""Sequences over a mesh: each device answers for its own, as one device answers for all, and communicates nothing."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

import fubini as fb

from .meshes import both_kinds, mesh_of
from .programs import in_loops, most_communicated, program, programs
from .watch import watched

TRACKS, STEPS, STATES = 16, 12, 3
RANDOM = np.random.default_rng(0)
MOVES = RANDOM.dirichlet(np.ones(STATES), STATES).astype(np.float32)
LIKELIHOODS = RANDOM.uniform(0.1, 1.0, (TRACKS, STEPS, STATES)).astype(np.float32)
LENGTHS = RANDOM.integers(1, STEPS + 1, TRACKS)
PRESENT = (np.arange(STEPS) < LENGTHS[:, None]).astype(np.float32)

ASKS: dict[str, Callable[[fb.Chain], Any]] = {
    "evidence": lambda chain: chain.log_evidence().array,
    "final": lambda chain: chain.final().weights,
    "filter": lambda chain: chain.filter().weights,
    "smooth": lambda chain: chain.smooth().weights,
    "initial": lambda chain: chain.smooth().initial.weights,
    "pairs": lambda chain: chain.smooth().pairs.weights,
    "argmax": lambda chain: chain.argmax()["x1"],
}


def chain_of(likelihoods: Any, present: Any, moves: Any = MOVES) -> fb.Chain:
    """A hidden Markov model of tracks, of which some end before the others."""
    seen = fb.Table(likelihoods, ("track", "t", "x1")) ** fb.Array(present, ("track", "t"))
    step = fb.Table(moves, ("x", "x1")) * seen
    return fb.Chain(init=fb.Table([0.5, 0.3, 0.2], ("x",)), factor=step, time="t", step={"x": "x1"})


def placed(data: np.ndarray, mesh: Mesh) -> jax.Array:
    return jax.device_put(data, NamedSharding(mesh, PartitionSpec("tracks")))


def on_mesh(kind: AxisType) -> fb.Chain:
    mesh = mesh_of(kind, tracks=8)
    return chain_of(placed(LIKELIHOODS, mesh), placed(PRESENT, mesh))


@pytest.fixture(scope="module")
def one_device() -> dict[str, np.ndarray]:
    chain = chain_of(jnp.asarray(LIKELIHOODS), jnp.asarray(PRESENT))
    return {name: np.asarray(ask(chain)) for name, ask in ASKS.items()}


@both_kinds
@pytest.mark.parametrize("name", ASKS)
def test_answers_are_those_of_one_device(kind: AxisType, name: str, one_device: dict[str, np.ndarray]) -> None:
    with watched() as seen:
        answer = ASKS[name](on_mesh(kind))
    seen.require_few_numbers(TRACKS)
    np.testing.assert_allclose(answer, one_device[name], rtol=1e-6, atol=1e-7)
    if name != "evidence":
        assert answer.sharding.shard_shape(answer.shape) != answer.shape, "what is local stays where it is"


@pytest.mark.parametrize("name", ["evidence", "smooth"])
def test_inside_of_jit(name: str, one_device: dict[str, np.ndarray]) -> None:
    mesh = mesh_of(AxisType.Explicit, tracks=8)
    given = placed(LIKELIHOODS, mesh), placed(PRESENT, mesh)

    def ask(likelihoods: Any, present: Any) -> Any:
        return ASKS[name](chain_of(likelihoods, present))

    compiled = jax.jit(ask).lower(*given).compile()
    np.testing.assert_allclose(compiled(*given), one_device[name], rtol=1e-6, atol=1e-6)
    text = compiled.as_text()
    assert not in_loops(text)
    assert most_communicated(text) == 0


@pytest.mark.parametrize("name", ["evidence", "final", "argmax"])
def test_inside_of_jit_on_auto_axes(name: str, one_device: dict[str, np.ndarray]) -> None:
    """Where arguments do not tell how they lie the compiler places the loop, and communicates after it at most."""
    mesh = mesh_of(AxisType.Auto, tracks=8)
    given = placed(LIKELIHOODS, mesh), placed(PRESENT, mesh)
    compiled = jax.jit(lambda likelihoods, present: ASKS[name](chain_of(likelihoods, present))).lower(*given).compile()
    np.testing.assert_allclose(compiled(*given), one_device[name], rtol=1e-6, atol=1e-6)
    assert not in_loops(compiled.as_text())


@pytest.mark.parametrize("name", ASKS)
def test_nothing_is_communicated(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = on_mesh(AxisType.Auto)
    for text in programs(lambda: ASKS[name](chain), monkeypatch):
        assert "num_partitions=8" in text
        assert most_communicated(text) == 0


def test_without_a_mesh_of_names_loops_would_communicate() -> None:
    """The reader of programs sees what the compiler makes of a loop over rows that are reduced in it."""
    rows = placed(LIKELIHOODS, mesh_of(AxisType.Auto, tracks=8))

    def summed(rows: Any) -> Any:
        return jax.lax.scan(lambda total, row: (total * 0.5 + jnp.max(row), None), 0.0, jnp.moveaxis(rows, 1, 0))[0]

    assert in_loops(program(summed, rows))


def test_the_gradient_is_summed_once(one_device: dict[str, np.ndarray]) -> None:
    def total(moves: Any, *data: Any) -> Any:
        return chain_of(*data, moves).log_evidence().array.sum()

    moves = jnp.asarray(MOVES)
    expected = jax.grad(total)(moves, jnp.asarray(LIKELIHOODS), jnp.asarray(PRESENT))
    for kind in (AxisType.Auto, AxisType.Explicit):
        mesh = mesh_of(kind, tracks=8)
        given = placed(LIKELIHOODS, mesh), placed(PRESENT, mesh)
        np.testing.assert_allclose(jax.grad(total)(moves, *given), expected, rtol=2e-6)
    text = program(jax.grad(total), moves, *given)
    assert not in_loops(text)
    assert most_communicated(text) == moves.size


def test_double_precision() -> None:
    with jax.enable_x64(True):
        mesh = mesh_of(AxisType.Auto, tracks=8)
        data = LIKELIHOODS.astype(np.float64), PRESENT.astype(np.float64)
        moves = MOVES.astype(np.float64)
        chain = chain_of(*(placed(part, mesh) for part in data), moves)
        expected = chain_of(*map(jnp.asarray, data), moves)
        for name in ("evidence", "smooth"):
            np.testing.assert_allclose(ASKS[name](chain), ASKS[name](expected), rtol=1e-10, atol=1e-12)


def test_draws_of_tracks_are_independent_and_follow_the_smoother() -> None:
    likelihoods = np.broadcast_to(LIKELIHOODS[:1], LIKELIHOODS.shape)
    mesh = mesh_of(AxisType.Auto, tracks=8)
    chain = chain_of(placed(likelihoods, mesh), placed(np.ones_like(PRESENT), mesh))
    draws = np.asarray(chain.sample(jax.random.key(0), 500)["x1"])
    assert draws.shape == (500, STEPS, TRACKS)
    shares = np.stack([(draws == k).mean((0, 2)) for k in range(STATES)], axis=1)
    smooth = chain.smooth()
    expected = np.asarray(smooth.transposed(("track", "t", "x1")).weights)[0]
    np.testing.assert_allclose(shares, expected, atol=4 * 0.5 / np.sqrt(500 * TRACKS))
    assert len(np.unique(draws[0].T, axis=0)) > 8, "each device draws its own"


def test_weights_out_of_range() -> None:
    """Where weights leave the range of single precision on one device alone, it goes by logarithms there."""
    logs = np.log(LIKELIHOODS)
    logs[3, 2:9] += np.array([0.0, -80.0, -95.0])
    logs[3, 5] += np.array([-200.0, 0.0, -90.0])

    def chain(data: Any) -> fb.Chain:
        step = fb.Table(MOVES, ("x", "x1")) * fb.Table.from_log(data, ("track", "t", "x1"))
        return fb.Chain(init=fb.Table([0.5, 0.3, 0.2], ("x",)), factor=step, time="t", step={"x": "x1"})

    mesh = mesh_of(AxisType.Auto, tracks=8)
    here, expected = chain(placed(logs, mesh)), chain(jnp.asarray(logs))
    np.testing.assert_allclose(here.log_evidence().array, expected.log_evidence().array, rtol=1e-6)
    np.testing.assert_allclose(here.smooth().weights, expected.smooth().weights, rtol=1e-4, atol=1e-7)
