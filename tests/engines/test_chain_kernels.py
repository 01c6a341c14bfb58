"""Kernels of chains against forward and backward in NumPy, by logarithms; on a CPU they are interpreted.

Compiling what is interpreted takes seconds: tests share shapes, and the sizes are small.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

import fubini as fb
from fubini.engines import chain_kernels
from fubini.engines.chain_evidence import ChainWeights, log_evidence, log_evidence_and_slopes
from fubini.engines.chain_kernels import ChainLogs, total_and_slopes_of, total_of
from fubini.engines.wide_chain_kernels import forward_backward
from fubini.errors import EngineError
from fubini.representations.table_kernels import scan_evidence
from fubini.sequence import method

# Said by JAX from 0.11.2 on, when kernels are lowered for a GPU.
pytestmark = pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated:DeprecationWarning")

NONE = -np.inf
TOLERANCE = {"float64": 1e-10, "float32": 1e-4}

run = jax.jit(total_and_slopes_of)
each_dtype = pytest.mark.parametrize("dtype", TOLERANCE)


class Answer(NamedTuple):
    """The log-evidence of each sequence, and its slopes."""

    total: np.ndarray
    slopes: ChainLogs


def greatest(logs: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    top = logs.max(axis=axes, keepdims=True)
    return np.where(np.isfinite(top), top, 0.0)


def positive(logs: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """The logarithms, those of weights of zero replaced by the greatest."""
    return np.where(logs > NONE, logs, greatest(logs, axes))


def oracle(logs: ChainLogs) -> Answer:
    """Forward and backward by logarithms, one step after another."""
    first, moves, seen = logs
    length = len(seen)
    every = np.broadcast_to(moves, (length, *moves.shape[1:3], seen.shape[2]))
    forward, backward = [first], [np.zeros_like(first)]
    ahead = []
    with np.errstate(divide="ignore"):
        for t in range(length):
            ahead.append(logsumexp(forward[-1][:, None] + every[t], axis=0))
            forward.append(ahead[-1] + seen[t])
        for t in reversed(range(length)):
            backward.append(logsumexp(every[t] + (seen[t] + backward[-1])[None], axis=1))
        backward.reverse()
        total: Any = logsumexp(forward[-1], axis=0)
    with np.errstate(invalid="ignore", over="ignore"):
        pairs = np.array(
            [
                np.exp(forward[t][:, None] + positive(every[t], (0, 1)) + (seen[t] + backward[t + 1])[None] - total)
                for t in range(length)
            ]
        )
        states = [np.exp(ahead[t] + positive(seen[t], (0,)) + backward[t + 1] - total) for t in range(length)]
        start = np.exp(positive(first, (0,)) + backward[0] - total)
    counts = pairs if len(moves) > 1 else pairs.sum(axis=0, keepdims=True)
    return Answer(total, ChainLogs(start, counts, np.array(states)))


def random_logs(
    count: int, length: int, states: int, *, moving: bool = False, shared: bool = True, spread: float = 1.0
) -> ChainLogs:
    rng = np.random.default_rng(count + 100 * length + states)
    moves = rng.normal(size=(length if moving else 1, states, states, 1 if shared else count))
    return ChainLogs(rng.normal(size=(states, count)), moves, spread * rng.normal(size=(length, states, count)))


def check(logs: ChainLogs, dtype: str) -> None:
    """The kernels' answer is the oracle's."""
    tolerance = TOLERANCE[dtype]
    expected = oracle(ChainLogs(*(part.astype(dtype).astype("float64") for part in logs)))
    with jax.enable_x64(dtype == "float64"):
        total, slopes = run(ChainLogs(*(jnp.asarray(part, dtype) for part in logs)))
    assert total.dtype == dtype
    np.testing.assert_allclose(total, expected.total, rtol=tolerance, atol=tolerance)
    for found, wanted in zip(slopes, expected.slopes, strict=True):
        assert found.shape == wanted.shape and found.dtype == dtype
        with np.errstate(over="ignore"):
            wanted = wanted.astype(dtype)
        np.testing.assert_allclose(found, wanted, rtol=10 * tolerance, atol=tolerance)


# -- values ---------------------------------------------------------------------------------------------------------

COUNT, LENGTH, STATES = 5, 7, 2  # the shape that most of the tests share


@each_dtype
def test_forward_and_backward(dtype: str) -> None:
    check(random_logs(COUNT, LENGTH, STATES), dtype)


@pytest.mark.parametrize(
    ("count", "length", "states", "moving", "shared"),
    [(1, 1, 1, False, True), (3, 2, 3, False, False), (70, 50, 2, True, True)],
    ids=["sizes of one", "three states, moves of each sequence", "two blocks, short last chunk, moves in time"],
)
def test_sizes(count: int, length: int, states: int, moving: bool, shared: bool) -> None:
    check(random_logs(count, length, states, moving=moving, shared=shared), "float64")


@each_dtype
def test_weights_two_thousand_nats_apart(dtype: str) -> None:
    check(random_logs(COUNT, LENGTH, STATES, spread=2000.0), dtype)


@each_dtype
def test_a_path_that_is_lost_forward_and_backward(dtype: str) -> None:
    """The second state has no number in either direction, and all of the evidence."""
    first = np.tile([[0.0], [-2000.0]], (1, COUNT))
    moves = np.array([[0.0, NONE], [NONE, 0.0]]).reshape(1, 2, 2, 1)
    seen = np.zeros((LENGTH, STATES, COUNT))
    seen[:, 0] = -1500.0
    seen[-1, 1] = -2000.0
    logs = ChainLogs(first, moves, seen)
    assert np.all(oracle(logs).total == -4000.0)
    check(logs, dtype)


@each_dtype
def test_weights_of_zero_have_slopes(dtype: str) -> None:
    """A left-to-right chain, states ruled out by what is seen, and a start in one state."""
    first, moves, seen = random_logs(COUNT, LENGTH, STATES)
    first[1], moves[0, 1, 0] = NONE, NONE
    seen[2, 0, 1], seen[4, 1, 2] = NONE, NONE
    check(ChainLogs(first, moves, seen), dtype)


def test_masked_steps_leave_the_moves() -> None:
    """What is not seen has weights of one."""
    logs = random_logs(COUNT, LENGTH, STATES)
    logs.seen[3:, :, ::2] = 0.0
    check(logs, "float64")


def test_a_sequence_without_mass_is_alone_in_that() -> None:
    logs = random_logs(COUNT, LENGTH, STATES)
    expected = oracle(logs)
    logs.seen[3, :, 1] = NONE
    with jax.enable_x64(True):
        total, slopes = jax.tree.map(np.asarray, run(ChainLogs(*map(jnp.asarray, logs))))
    others = np.arange(COUNT) != 1
    assert total[1] == NONE
    assert not np.any(np.isfinite(slopes.seen[..., 1]))
    np.testing.assert_allclose(total[others], expected.total[others], rtol=1e-12)
    np.testing.assert_allclose(slopes.seen[..., others], expected.slopes.seen[..., others], atol=1e-12)


def test_evidence_alone() -> None:
    logs = random_logs(COUNT, LENGTH, STATES)
    with jax.enable_x64(True):
        total = jax.jit(total_of)(ChainLogs(*map(jnp.asarray, logs)))
    np.testing.assert_allclose(total, oracle(logs).total, rtol=1e-12)


@pytest.mark.parametrize("moving", [False, True], ids=["one matrix", "moves in time, of each sequence"])
@each_dtype
def test_kernels_are_lowered_for_a_gpu(dtype: str, moving: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three programs of Triton; that they compile, only a machine with a GPU can say."""
    monkeypatch.setattr(chain_kernels, "has_gpu", lambda leaves=(): True)
    shapes = random_logs(3, 9, 2, moving=moving, shared=not moving)
    with jax.enable_x64(dtype == "float64"):
        logs = ChainLogs(*(jax.ShapeDtypeStruct(part.shape, dtype) for part in shapes))
        lowered = jax.jit(lambda logs: total_and_slopes_of(logs)).trace(logs).lower(lowering_platforms=("cuda",))
    assert lowered.as_text().count("xla.gpu.triton") == 3


# -- many states ----------------------------------------------------------------------------------------------------


run_wide = jax.jit(lambda logs: forward_backward(logs, True))


@each_dtype
def test_many_states(dtype: str) -> None:
    """Two short chunks, one state that is never entered, and one that is ruled out."""
    logs = random_logs(3, 7, 9)
    logs.moves[0, :, 4], logs.seen[2, 1, 0] = NONE, NONE
    expected, tolerance = oracle(ChainLogs(*(part.astype(dtype).astype("float64") for part in logs))), TOLERANCE[dtype]
    with jax.enable_x64(dtype == "float64"):
        total, slopes, safe = run_wide(ChainLogs(*(jnp.asarray(part, dtype) for part in logs)))
    assert safe
    np.testing.assert_allclose(total, expected.total, rtol=tolerance)
    for ours, theirs in zip(slopes, expected.slopes, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=10 * tolerance, atol=tolerance)


def test_many_states_out_of_range_are_known() -> None:
    """A weight that is lost on the way there and on the way back."""
    logs = random_logs(3, 7, 9)
    logs.first[:, 1] = np.where(np.arange(9) == 3, -2000.0, 0.0)
    with jax.enable_x64(True):
        assert not run_wide(ChainLogs(*map(jnp.asarray, logs))).safe


def test_many_states_out_of_range_are_scanned() -> None:
    """In range and out of it: evidence and slopes are the oracle's."""
    logs = random_logs(1, 2, 9)
    far = logs._replace(first=np.where(np.arange(9) == 3, -2000.0, logs.first.T).T)
    with jax.enable_x64(True):
        answer = jax.jit(lambda weights: log_evidence_and_slopes(scan_evidence, weights))
        for each in (logs, far):
            given = ChainLogs(*map(jnp.asarray, each))
            total, slopes = answer(ChainWeights(jax.tree.map(jnp.ones_like, given), given))
            expected = oracle(each)
            np.testing.assert_allclose(total, expected.total, rtol=1e-12)
            for ours, theirs in zip(slopes, expected.slopes, strict=True):
                np.testing.assert_allclose(ours, theirs, atol=1e-12)


@each_dtype
def test_kernels_of_many_states_are_lowered_for_a_gpu(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain_kernels, "has_gpu", lambda leaves=(): True)
    for size in (16, 40):
        with jax.enable_x64(dtype == "float64"):
            logs = ChainLogs(*(jax.ShapeDtypeStruct(part.shape, dtype) for part in random_logs(3, 9, size)))
            lowered = jax.jit(lambda logs: forward_backward(logs, True)).trace(logs).lower(lowering_platforms=("cuda",))
        assert lowered.as_text().count("xla.gpu.triton") == 3


# -- derivatives ----------------------------------------------------------------------------------------------------


def by_enumeration(weights: ChainWeights) -> jax.Array:
    """The log-evidence of two steps."""
    first, moves, seen = (one * jnp.exp(log) for one, log in zip(*weights, strict=True))
    return jnp.log(jnp.einsum("in,ij,jn,jk,kn->n", first, moves[0, ..., 0], seen[0], moves[0, ..., 0], seen[1]))


def test_second_derivatives_are_those_of_the_scan() -> None:
    """Along one direction, of the gradient in all weights, one of which is zero."""
    with jax.enable_x64(True):
        logs = ChainLogs(*map(jnp.asarray, random_logs(1, 2, 2)))
        ones = jax.tree.map(jnp.ones_like, logs)
        weights = ChainWeights(ones._replace(moves=ones.moves.at[0, 0, 1].set(0.0)), logs)
        along = jax.tree.map(jnp.cos, weights)

        def second(evidence: Callable) -> ChainWeights:
            gradient = jax.grad(lambda w: jnp.sum(evidence(w)))
            return jax.jit(lambda w: jax.jvp(gradient, (w,), (along,)))(weights)

        fused, enumerated = second(lambda w: log_evidence(scan_evidence, w)), second(by_enumeration)
    for ours, theirs in zip(jax.tree.leaves(fused), jax.tree.leaves(enumerated), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


# -- chains ---------------------------------------------------------------------------------------------------------


def chain(moves: jax.Array, seen: jax.Array) -> fb.Chain:
    """A chain over two sequences, with a global variable that is summed."""
    start = fb.Table(jnp.asarray([[0.6, 0.3], [0.0, 0.5]]), ("x", "g"))
    step = fb.Table(moves, ("x", "x_next")) * fb.Table.from_log(seen, ("t", "b", "x_next"))
    return fb.Chain(init=start, factor=step, time="t", step={"x": "x_next"}, sum=("g",))


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that seems to have a GPU: kernels are interpreted."""
    monkeypatch.setattr(method, "has_gpu", lambda leaves=(): True)


def model() -> tuple[jax.Array, jax.Array]:
    rng = np.random.default_rng(1)
    return jnp.asarray([[0.7, 0.3], [0.0, 1.0]]), jnp.asarray(rng.normal(size=(3, 2, 2)), jnp.float32)


def check_engines(answers: Callable) -> None:
    """The kernels' answers are the scan's."""
    with fb.engine("kernel"):
        fused = jax.jit(lambda *given: answers(*given))(*model())
    with fb.engine("rules"):
        scanned = jax.jit(lambda *given: answers(*given))(*model())
    for ours, theirs in zip(jax.tree.leaves(fused), jax.tree.leaves(scanned), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("interpreted")
def test_a_chain_has_its_evidence_and_gradient_by_kernels() -> None:
    """The gradient in weights of zero too."""
    check_engines(jax.value_and_grad(lambda *given: jnp.sum(chain(*given).log_evidence().data), (0, 1)))


@pytest.mark.usefixtures("interpreted")
def test_a_chain_is_smoothed_by_kernels() -> None:
    def answers(moves: jax.Array, seen: jax.Array) -> tuple:
        smoothed = chain(moves, seen).smooth()
        return smoothed.weights, smoothed.initial.weights

    check_engines(answers)


@pytest.mark.usefixtures("interpreted")
def test_explain_says_that_kernels_answer() -> None:
    assert "by fused kernels" in str(chain(*model()).explain())
    with fb.engine("rules"):
        assert "kernels" not in str(chain(*model()).explain())


def test_a_kernel_on_a_machine_without_a_gpu() -> None:
    if jax.default_backend() == "gpu":
        pytest.skip("this machine has a GPU")
    with fb.engine("kernel"), pytest.raises(EngineError, match="this machine has no GPU"):
        chain(*model()).log_evidence()


@pytest.mark.usefixtures("interpreted")
def test_a_kernel_for_what_kernels_do_not_serve() -> None:
    moves, seen = model()
    many = fb.Table(jnp.full((65, 65), 0.5), ("x", "x_next"))
    large = fb.Chain(init=fb.Table(jnp.ones(65), ("x",)), factor=many, time="t", step={"x": "x_next"}, length=2)
    real = fb.dist.Normal(fb.Variable("x", fb.Real), 1.0)("x_next")
    walk = fb.Chain(init=fb.dist.Normal(0.0, 1.0)("x"), factor=real, time="t", step={"x": "x_next"}, length=2)
    asked = {
        "it has 65 states": large.log_evidence,
        "the filtered of a chain: kernels do not answer it": chain(moves, seen).filter,
        "'x' is no table's state": walk.log_evidence,
    }
    with fb.engine("kernel"):
        for message, question in asked.items():
            with pytest.raises(EngineError, match=message):
                question()
