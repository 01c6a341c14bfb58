"""Best paths and draws of chains by kernels against NumPy, one step after another; on a CPU they are interpreted.

Compiling what is interpreted takes seconds: tests share shapes, and the sizes are small.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini.engines import chain_kernels
from fubini.engines.chain_kernels import ChainLogs
from fubini.engines.path_kernels import Pointers, best_pointers, drawn_pointers, states_from
from fubini.engines.wide_path_kernels import wide_best_pointers, wide_drawn_pointers
from fubini.errors import EngineError
from fubini.sequence import method
from tests.engines.test_chain_kernels import NONE, each_dtype, random_logs

# Said by JAX from 0.11.2 on, when kernels are lowered for a GPU.
pytestmark = pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated:DeprecationWarning")

COUNT, LENGTH, STATES, DRAWS = 5, 7, 2, 3


def choose(logs: np.ndarray, uniform: np.ndarray | None) -> np.ndarray:
    """The first of the greatest, or a draw by inverse transform, along the first axis."""
    if uniform is None:
        return logs.argmax(axis=0)
    weights = np.exp(logs - logs.max(axis=0))
    below = weights.cumsum(axis=0)
    return (below <= uniform * below[-1]).sum(axis=0)


def paths_by_steps(logs: ChainLogs, uniforms: np.ndarray | None) -> np.ndarray:
    """The states of all times; `uniforms` has the numbers of each step, and those of the last state behind."""
    first, moves, seen = logs
    every = np.broadcast_to(moves, (len(seen), *moves.shape[1:3], seen.shape[2]))
    add = np.maximum.reduce if uniforms is None else np.logaddexp.reduce
    forward = [first]
    for move, data in zip(every, seen, strict=True):
        forward.append(add(forward[-1][:, None] + move, axis=0) + data)
    state = choose(forward[-1], None if uniforms is None else uniforms[-1])
    path = [state]
    for t in reversed(range(len(seen))):
        into = np.take_along_axis(every[t], np.broadcast_to(state, (every.shape[1], 1, len(state))), axis=1)[:, 0]
        state = choose(forward[t] + into, None if uniforms is None else uniforms[t])
        path.append(state)
    return np.array(path[::-1])


@partial(jax.jit, static_argnums=0)
def best_by_kernels(pointers_of: Callable[..., Pointers], logs: ChainLogs) -> tuple:
    pointers = pointers_of(logs)
    return states_from(pointers, jnp.argmax(pointers.last, axis=0)), pointers.safe


@partial(jax.jit, static_argnums=0)
def drawn_by_kernels(pointers_of: Callable[..., Pointers], logs: ChainLogs, uniforms: jax.Array) -> tuple:
    pointers = pointers_of(logs, uniforms[:-1])
    weights = jnp.repeat(jnp.exp(pointers.last - jnp.max(pointers.last, axis=0)), DRAWS, axis=1)
    below = jnp.cumsum(weights, axis=0)
    return states_from(pointers, jnp.sum(below <= uniforms[-1] * below[-1], axis=0)), pointers.safe


def check(pointers_of: Callable[..., Pointers], logs: ChainLogs, dtype: str, draws: bool) -> None:
    """Every state is that of the steps in NumPy."""
    given = ChainLogs(*(part.astype(dtype) for part in logs))
    exact = ChainLogs(*(part.astype("float64") for part in given))
    count = logs.seen.shape[2]
    with jax.enable_x64(dtype == "float64"):
        kernel_logs = ChainLogs(*map(jnp.asarray, given))
        if draws:
            uniforms = np.random.default_rng(9).random((len(logs.seen) + 1, count * DRAWS)).astype(dtype)
            found, safe = drawn_by_kernels(pointers_of, kernel_logs, jnp.asarray(uniforms))
            shared = logs.moves.shape[3] == 1
            many = (np.repeat(part, DRAWS, axis=-1) for part in exact)
            first, moves, seen = many
            expected = paths_by_steps(ChainLogs(first, exact.moves if shared else moves, seen), uniforms)
        else:
            found, safe = best_by_kernels(pointers_of, kernel_logs)
            expected = paths_by_steps(exact, None)
    assert safe is None or safe
    np.testing.assert_array_equal(found, expected)


def with_zeros(logs: ChainLogs) -> ChainLogs:
    """A move that is never made, a start that is not there, a state that is ruled out."""
    logs.first[1, 0] = logs.moves[:, 1, 0] = logs.seen[2, 0, 1] = NONE
    return logs


both = pytest.mark.parametrize(
    ("pointers_of", "draws"), [(best_pointers, False), (drawn_pointers, True)], ids=["best", "drawn"]
)


@both
@pytest.mark.parametrize("dtype", ["float64", pytest.param("float32", marks=pytest.mark.slow)])
def test_paths_with_zeros_and_two_thousand_nats_apart(pointers_of: Callable, draws: bool, dtype: str) -> None:
    for spread in (1.0, 2000.0):
        check(pointers_of, with_zeros(random_logs(COUNT, LENGTH, STATES, spread=spread)), dtype, draws)


@both
@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "length", "states", "moving", "shared"),
    [(1, 1, 1, False, True), (3, 5, 3, False, False), (40, 11, 2, True, True)],
    ids=["sizes of one", "moves of each sequence", "two blocks, moves in time"],
)
def test_sizes(
    pointers_of: Callable, draws: bool, count: int, length: int, states: int, moving: bool, shared: bool
) -> None:
    check(pointers_of, random_logs(count, length, states, moving=moving, shared=shared), "float64", draws)


@pytest.mark.parametrize(
    ("pointers_of", "draws"), [(wide_best_pointers, False), (wide_drawn_pointers, True)], ids=["best", "drawn"]
)
@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
def test_paths_of_many_states(pointers_of: Callable, draws: bool, dtype: str) -> None:
    check(pointers_of, with_zeros(random_logs(3, LENGTH, 9)), dtype, draws)
    if not draws:  # maxima are by logarithms: any range
        check(pointers_of, with_zeros(random_logs(3, LENGTH, 9, spread=2000.0)), dtype, draws)


def test_draws_of_many_states_out_of_range_are_known() -> None:
    logs = random_logs(3, LENGTH, 9)
    logs.first[:, 1] = np.where(np.arange(9) == 3, -2000.0, 0.0)
    given = ChainLogs(*(jnp.asarray(part, "float32") for part in logs))
    _, safe = drawn_by_kernels(wide_drawn_pointers, given, jnp.full((LENGTH + 1, 3 * DRAWS), 0.5, "float32"))
    assert not safe


@each_dtype
@pytest.mark.parametrize("size", [3, 40])
def test_paths_are_lowered_for_a_gpu(dtype: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three programs of Triton, and one that goes back through the chunks; only a machine with a GPU compiles them."""
    monkeypatch.setattr(chain_kernels, "has_gpu", lambda leaves=(): True)
    ask_best, ask_draws = (best_pointers, drawn_pointers) if size == 3 else (wide_best_pointers, wide_drawn_pointers)

    def paths(logs: ChainLogs, uniforms: jax.Array) -> tuple:
        found = ask_best(logs), ask_draws(logs, uniforms)
        return tuple(states_from(pointers, jnp.zeros(pointers.paths.shape[3], np.int32)) for pointers in found)

    with jax.enable_x64(dtype == "float64"):
        logs = ChainLogs(*(jax.ShapeDtypeStruct(part.shape, dtype) for part in random_logs(3, 9, size)))
        given = logs, jax.ShapeDtypeStruct((9, 6), dtype)
        lowered = jax.jit(paths).trace(*given).lower(lowering_platforms=("cuda",))
    assert lowered.as_text().count("xla.gpu.triton") == 2 * 4


# -- chains ---------------------------------------------------------------------------------------------------------


def chain(dtype: str = "float32") -> fb.Chain:
    """Two states in one, two sequences and one of them without mass, moves with a zero."""
    random = np.random.default_rng(1)
    start = fb.Table(jnp.asarray([[0.6], [0.4]], dtype), ("x", "z"))
    moves = fb.Table(jnp.asarray(random.random((2, 1, 2, 1)), dtype), ("x", "z", "y", "w"))
    seen = random.random((4, 2, 2)) * (np.arange(4)[:, None, None] < 3)
    seen[3, 0] = 1.0
    step = moves * fb.Table(jnp.asarray(seen, dtype), ("t", "b", "y"))
    return fb.Chain(init=start, factor=step, time="t", step={"x": "y", "z": "w"})


@pytest.mark.slow
def test_a_chain_has_its_best_path_and_draws_by_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the scan, for the same key; where there is no mass, none."""
    monkeypatch.setattr(method, "has_gpu", lambda leaves=(): True)

    def answers() -> tuple:
        return chain().argmax(), chain().sample(jax.random.key(0), n=5), chain().sample(jax.random.key(1))

    with fb.engine("rules"):
        scanned = answers()
    with fb.engine("kernel"):
        fused = answers()
    assert jax.tree.structure(fused) == jax.tree.structure(scanned)
    for ours, theirs in zip(jax.tree.leaves(fused), jax.tree.leaves(scanned), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    assert np.all(fused[0]["y"][:, 1] == -1) and np.all(fused[0]["y"][:, 0] >= 0)


@pytest.mark.slow
def test_pairs_of_a_chain_by_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(method, "has_gpu", lambda leaves=(): True)
    possible = fb.Chain(init=chain().init, factor=chain().factor(b=0), time="t", step={"x": "y", "z": "w"})
    found = {}
    for engine in ("rules", "kernel"):
        with fb.engine(engine):
            found[engine] = possible.smooth_pairs().transposed(("t", "x", "z", "y", "w")).weights
    np.testing.assert_allclose(found["kernel"], found["rules"], rtol=1e-5, atol=1e-7)


def test_what_kernels_do_not_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(method, "has_gpu", lambda leaves=(): True)
    table = fb.Table(jnp.ones((2, 2, 2)), ("x", "x_next", "g"))
    start = fb.Table(jnp.ones(2), ("x",))
    shared = fb.Chain(init=start, factor=table, time="t", step={"x": "x_next"}, length=2, sum=("g",))
    with fb.engine("kernel"):
        for ask in (shared.argmax, lambda: shared.sample(jax.random.key(0))):
            with pytest.raises(EngineError, match="'g' would be chosen with the states"):
                ask()
        with pytest.raises(EngineError, match="the states before every state would be"):
            chain().sample(jax.random.key(0), n=2**25)
