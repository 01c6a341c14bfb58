"""One sequence whose time lies on a mesh: few numbers are gathered once, and answers are those of one device."""

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

import fubini as fb
from fubini.sequence import stretches

from .meshes import both_kinds, mesh_of
from .programs import in_loops, most_communicated, programs
from .watch import watched

STEPS, STATES = 8 * 9, 3
RANDOM = np.random.default_rng(0)
MOVES = RANDOM.dirichlet(np.ones(STATES), STATES).astype(np.float32)
LIKELIHOODS = RANDOM.uniform(0.1, 1.0, (STEPS, STATES)).astype(np.float32)
FEW = 8 * (2 + 1) * STATES * STATES  # the products of all stretches: on each device two lanes and a remainder

ASKS: dict[str, Callable[[fb.Chain], Any]] = {
    "evidence": lambda chain: chain.log_evidence().array,
    "final": lambda chain: chain.final().weights,
    "filter": lambda chain: chain.filter().weights,
    "smooth": lambda chain: chain.smooth().weights,
    "initial": lambda chain: chain.smooth().initial.weights,
    "pairs": lambda chain: chain.smooth_pairs().weights,
    "argmax": lambda chain: chain.argmax()["x1"],
}
IN_TIME = ("filter", "smooth", "pairs", "argmax")


@pytest.fixture(autouse=True, scope="module")
def short_lanes() -> Iterator[None]:
    """Lanes of few steps, so that a short sequence has several and a remainder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stretches, "FEWEST_STEPS", 4)
        yield


def chain_of(likelihoods: Any, moves: Any = MOVES) -> fb.Chain:
    step = fb.Table(moves, ("x", "x1")) * fb.Table(likelihoods, ("t", "x1"))
    return fb.Chain(init=fb.Table([0.5, 0.3, 0.2], ("x",)), factor=step, time="t", step={"x": "x1"})


def placed(data: np.ndarray, mesh: Mesh) -> jax.Array:
    return jax.device_put(data, NamedSharding(mesh, PartitionSpec("time")))


@pytest.fixture(scope="module")
def one_device() -> dict[str, np.ndarray]:
    chain = chain_of(jnp.asarray(LIKELIHOODS))
    return {name: np.asarray(ask(chain)) for name, ask in ASKS.items()}


@both_kinds
@pytest.mark.parametrize("name", ASKS)
def test_answers_are_those_of_one_device(kind: AxisType, name: str, one_device: dict[str, np.ndarray]) -> None:
    with watched() as seen:
        answer = ASKS[name](chain_of(placed(LIKELIHOODS, mesh_of(kind, time=8))))
    assert not seen.fetched
    np.testing.assert_allclose(answer, one_device[name], rtol=1e-6, atol=1e-6)
    if name in IN_TIME:
        assert answer.sharding.shard_shape(answer.shape)[0] == STEPS // 8, "what is local stays where it is"


@pytest.mark.parametrize("name", ["evidence", "smooth"])
def test_inside_of_jit(name: str, one_device: dict[str, np.ndarray]) -> None:
    given = placed(LIKELIHOODS, mesh_of(AxisType.Explicit, time=8))

    def ask(likelihoods: Any) -> Any:
        return ASKS[name](chain_of(likelihoods))

    np.testing.assert_allclose(jax.jit(ask)(given), one_device[name], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ASKS)
def test_few_numbers_are_gathered_outside_of_loops(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = chain_of(placed(LIKELIHOODS, mesh_of(AxisType.Auto, time=8)))
    for text in programs(lambda: ASKS[name](chain), monkeypatch):
        assert "num_partitions=8" in text
        assert not in_loops(text)
        assert 0 < most_communicated(text) <= FEW


def test_what_is_gathered_does_not_grow_with_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The chain of stretches has as many however long they are, once lanes are full."""
    monkeypatch.setattr(stretches, "MOST_ELEMENTS", 2 * STATES * STATES)
    long = placed(np.tile(LIKELIHOODS, (4, 1)), mesh_of(AxisType.Auto, time=8))
    for text in programs(lambda: chain_of(long).log_evidence(), monkeypatch):
        assert 0 < most_communicated(text) <= FEW


def test_the_gradient_is_summed_once() -> None:
    def total(moves: Any, likelihoods: Any) -> Any:
        return chain_of(likelihoods, moves).log_evidence().array

    moves = jnp.asarray(MOVES)
    gradient = jax.grad(total, argnums=(0, 1))
    expected = gradient(moves, jnp.asarray(LIKELIHOODS))
    given = placed(LIKELIHOODS, mesh_of(AxisType.Explicit, time=8))
    compiled = jax.jit(gradient).lower(moves, given).compile()
    found = compiled(moves, given)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-5)
    assert found[1].sharding.shard_shape(found[1].shape)[0] == STEPS // 8
    text = compiled.as_text()
    assert not in_loops(text)
    assert most_communicated(text) <= FEW


def test_draws_follow_the_pairs() -> None:
    """Also across devices, lanes and remainders, where draws of two stretches meet."""
    chain = chain_of(placed(LIKELIHOODS, mesh_of(AxisType.Auto, time=8)))
    found = chain.sample(jax.random.key(0), 4000)
    draws = np.concatenate([np.asarray(found["x"])[:, None], np.asarray(found["x1"])], axis=1)
    assert draws.shape == (4000, STEPS + 1)
    both = draws[:, :-1] * STATES + draws[:, 1:]
    shares = np.stack([(both == pair).mean(0) for pair in range(STATES**2)], axis=1)
    expected = np.asarray(chain_of(jnp.asarray(LIKELIHOODS)).smooth_pairs().transposed(("t", "x", "x1")).weights)
    np.testing.assert_allclose(shares, expected.reshape(STEPS, -1), atol=4.5 * 0.5 / np.sqrt(4000))
    far = draws[:, 8].astype(float), draws[:, 9 * 5].astype(float)
    assert abs(np.corrcoef(*far)[0, 1]) < 0.1, "stretches draw numbers of their own"


def test_a_best_path_among_equals_is_a_path() -> None:
    """Where many paths are best, the parts of one are found on all devices: of states that alternate, two are."""
    swap = fb.Table([[0.0, 1.0], [1.0, 0.0]], ("x", "x1"))
    flat = fb.Table(placed(np.ones((STEPS, 2), np.float32), mesh_of(AxisType.Auto, time=8)), ("t", "x1"))
    chain = fb.Chain(init=fb.Table([0.5, 0.5], ("x",)), factor=swap * flat, time="t", step={"x": "x1"})
    best = chain.argmax()
    path = np.concatenate([np.asarray(best["x"])[None], np.asarray(best["x1"])])
    assert np.all(path[1:] != path[:-1])


def test_weights_out_of_range() -> None:
    """Steps that all but one path leave: products in linear weights would lose it."""
    logs = np.log(LIKELIHOODS)
    logs[20:30] += np.array([0.0, -60.0, -95.0])
    logs[30] += np.array([-200.0, 0.0, -90.0])
    moves = np.array([[1.0, 1e-20, 0.0], [0.0, 0.9, 0.1], [0.3, 0.0, 0.7]], np.float32)

    def chain(data: Any) -> fb.Chain:
        step = fb.Table(moves, ("x", "x1")) * fb.Table.from_log(data, ("t", "x1"))
        return fb.Chain(init=fb.Table([0.5, 0.3, 0.2], ("x",)), factor=step, time="t", step={"x": "x1"})

    here, expected = chain(placed(logs, mesh_of(AxisType.Auto, time=8))), chain(jnp.asarray(logs))
    np.testing.assert_allclose(here.log_evidence().array, expected.log_evidence().array, rtol=1e-6)
    np.testing.assert_allclose(here.filter().weights, expected.filter().weights, atol=1e-5)


def test_double_precision() -> None:
    with jax.enable_x64(True):
        data, moves = LIKELIHOODS.astype(np.float64), MOVES.astype(np.float64)
        chain = chain_of(placed(data, mesh_of(AxisType.Auto, time=8)), moves)
        expected = chain_of(jnp.asarray(data), moves)
        np.testing.assert_allclose(ASKS["smooth"](chain), ASKS["smooth"](expected), rtol=1e-10, atol=1e-12)
        both = jax.value_and_grad(lambda moves, data: chain_of(data, moves).log_evidence().array, argnums=(0, 1))
        given = placed(data, mesh_of(AxisType.Explicit, time=8))
        found, wanted = (
            jax.tree.leaves(jax.jit(both)(jnp.asarray(moves), part)) for part in (given, jnp.asarray(data))
        )
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def test_explain_says_what_is_communicated() -> None:
    chain = chain_of(placed(LIKELIHOODS, mesh_of(AxisType.Auto, time=8)))
    text = str(chain.explain())
    assert "t along 'time' of the mesh, on 8 devices: products of stretches are gathered, once a question" in text
    mesh = mesh_of(AxisType.Auto, tracks=2, time=4)
    both = fb.Table(fb.shard(np.stack([LIKELIHOODS] * 2), mesh, "tracks", "time"), ("track", "t", "x1"))
    step = fb.Table(MOVES, ("x", "x1")) * both
    text = str(fb.Chain(init=fb.Table([0.5, 0.3, 0.2], ("x",)), factor=step, time="t", step={"x": "x1"}).explain())
    assert "track along 'tracks' of the mesh, on 2 devices: each answers for its own" in text
    assert "t along 'time' of the mesh, on 4 devices" in text
    assert "of the mesh" not in str(chain_of(jnp.asarray(LIKELIHOODS)).explain())


def test_time_and_sequences_over_two_meshes() -> None:
    likelihoods = placed(LIKELIHOODS, mesh_of(AxisType.Auto, time=8))
    tracks = fb.shard(np.ones((8, STATES), np.float32), mesh_of(AxisType.Auto, tracks=8), "tracks")
    step = fb.Table(MOVES, ("x", "x1")) * fb.Table(likelihoods, ("t", "x1")) * fb.Table(tracks, ("track", "x1"))
    chain = fb.Chain(init=fb.Table([0.5, 0.3, 0.2], ("x",)), factor=step, time="t", step={"x": "x1"})
    with pytest.raises(fb.FubiniError, match="data over two meshes"):
        chain.log_evidence()


def test_lengths_that_do_not_fit() -> None:
    mesh = mesh_of(AxisType.Auto, time=8)
    longer = fb.Table(placed(LIKELIHOODS, mesh), ("t", "x1"))
    shorter = fb.Table(placed(LIKELIHOODS[:64], mesh), ("t", "x1"))
    with pytest.raises(fb.FubiniError, match=r"Bint\[72\]"):
        chain_of_step = fb.Table(MOVES, ("x", "x1")) * longer * shorter
        chain_of_step.sum("x")
    with pytest.raises(fb.FubiniError, match="length=64 of a sequence whose factor has 72 steps"):
        fb.Chain(init=fb.Table([0.5, 0.3, 0.2], ("x",)), factor=longer, time="t", step={"x": "x1"}, length=64)


def test_a_factor_of_a_length_that_devices_do_not_divide() -> None:
    """It is the factor of the same rows on one device."""
    for kind in (AxisType.Auto, AxisType.Explicit):
        odd = fb.shard(LIKELIHOODS[:71], mesh_of(kind, time=8), "time")
        for make in (fb.Table, fb.Table.from_log, fb.Array):
            placed_odd, plain = make(odd, ("t", "x1")), make(jnp.asarray(LIKELIHOODS[:71]), ("t", "x1"))
            assert placed_odd.inputs == plain.inputs
            numbers = attrgetter("array" if make is fb.Array else "weights")
            np.testing.assert_array_equal(numbers(placed_odd), numbers(plain))


def test_an_axis_that_the_mesh_does_not_have() -> None:
    with pytest.raises(fb.FubiniError, match=r"axes of the mesh: 'time'(.|\n)*nearest"):
        fb.shard(LIKELIHOODS, mesh_of(AxisType.Auto, time=8), "times")
