"""Scans of chains forward and backward against enumeration by logarithms, in range and out of it."""

import math
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini.engines.chain_evidence import ChainWeights
from fubini.engines.chain_kernels import ChainLogs
from fubini.engines.chain_logarithms import Evidence, evidence_and_slopes_by_logs, smoothed_by_logs
from fubini.engines.chain_scans import both_ways, evidence, evidence_and_slopes, forward, smoothed, to_linear
from tests.engines.test_chain_kernels import NONE, TOLERANCE, Answer, each_dtype, oracle, random_logs

COUNT, LENGTH, STATES = 5, 7, 3  # the shape that most of the tests share

SLOPES = {
    "scans": jax.jit(lambda weights: evidence_and_slopes(weights, False)),
    "logarithms": jax.jit(evidence_and_slopes_by_logs),
}
both_forms = pytest.mark.parametrize("form", SLOPES)


def weights_of(logs: ChainLogs, dtype: str = "float64") -> ChainWeights:
    """w · exp(l), where l is 0 for a weight of zero."""
    ones = ChainLogs(*(jnp.asarray(part > NONE, dtype) for part in logs))
    return ChainWeights(ones, ChainLogs(*(jnp.asarray(np.where(part > NONE, part, 0.0), dtype) for part in logs)))


def slopes_of(expected: Answer, logs: ChainLogs) -> ChainLogs:
    """The slopes in w of an answer, which has those in weights of zero relative to the greatest."""

    def in_zeros(part: np.ndarray, slope: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        top = part.max(axis=axes, keepdims=True)
        with np.errstate(over="ignore"):
            return slope * np.exp(np.where(part > NONE, 0.0, -np.where(np.isfinite(top), top, 0.0)))

    return ChainLogs(*map(in_zeros, logs, expected.slopes, ((0,), (1, 2), (1,))))


def log_of(found: Evidence) -> jax.Array:
    return jnp.log(found.weight) + found.log


def check(logs: ChainLogs, form: str, dtype: str = "float64") -> None:
    """Evidence and slopes are the oracle's, eagerly and in the trace of a gradient."""
    logs = ChainLogs(*(part.astype(dtype).astype("float64") for part in logs))
    expected, tolerance = oracle(logs), TOLERANCE[dtype]
    with jax.enable_x64(dtype == "float64"):
        weights = weights_of(logs, dtype)
        value, slopes = SLOPES[form](weights)
        relative = ChainLogs(*(slope / value.weight for slope in slopes))
        np.testing.assert_allclose(log_of(value), expected.total, rtol=tolerance, atol=tolerance)
    for ours, theirs in zip(relative, slopes_of(expected, logs), strict=True):
        is_held = theirs < 1e30  # the slope in a weight of zero may be any number
        assert ours.dtype == dtype and np.all(is_held | (np.asarray(ours) > 1e20))
        np.testing.assert_allclose(ours[is_held], theirs[is_held], rtol=10 * tolerance, atol=tolerance)


def with_zeros(logs: ChainLogs) -> ChainLogs:
    """A move that is never made, a start that is not there, and two states that are ruled out."""
    logs.first[1, 0] = logs.moves[:, 1, 0] = logs.seen[2, 0, 1] = logs.seen[4, 1, 2] = NONE
    return logs


# -- values and slopes ----------------------------------------------------------------------------------------------


@both_forms
@each_dtype
def test_forward_and_backward_with_zeros(form: str, dtype: str) -> None:
    check(with_zeros(random_logs(COUNT, LENGTH, STATES)), form, dtype)


@both_forms
@pytest.mark.parametrize(
    ("count", "length", "states", "moving", "shared"),
    [(1, 1, 1, False, True), (COUNT, LENGTH, STATES, True, False), (2, 6, 18, False, True), (3, 5, 2, True, True)],
    ids=["sizes of one", "moves in time, of each sequence", "many states", "moves in time"],
)
def test_sizes(form: str, count: int, length: int, states: int, moving: bool, shared: bool) -> None:
    check(random_logs(count, length, states, moving=moving, shared=shared), form)


@both_forms
@each_dtype
def test_weights_two_thousand_nats_apart(form: str, dtype: str) -> None:
    check(random_logs(COUNT, LENGTH, STATES, spread=2000.0), form, dtype)


@each_dtype
@pytest.mark.parametrize("move", ["as likely", "nearly impossible"])
def test_data_that_are_far_from_most_states(move: str, dtype: str) -> None:
    """Weights of states leave the range, none of which matters: neither way is taken by logarithms."""
    logs = random_logs(COUNT, LENGTH, STATES)
    logs.seen[:, 1:] -= {"float32": 300.0, "float64": 3000.0}[dtype]
    logs.seen[3, :2] -= {"float32": 700.0, "float64": 7000.0}[dtype]
    if move == "nearly impossible":
        logs.moves[:, 0, 1] = math.log(np.finfo(dtype).tiny) + logs.moves.max()
    logs = ChainLogs(*(part.astype(dtype).astype("float64") for part in logs))
    check(logs, "scans", dtype)
    with jax.enable_x64(dtype == "float64"):
        weights = weights_of(logs, dtype)
        linear = to_linear(weights)
        assert not forward(linear, keep=False).safe and both_ways(linear).is_whole
        assert linear.is_full == (move == "as likely")
        total = log_of(jax.jit(partial(evidence, drops_small=False))(weights))
        np.testing.assert_allclose(total, oracle(logs).total, rtol=TOLERANCE[dtype])


@each_dtype
def test_a_move_that_is_ruled_out_brings_back_what_left_the_range(dtype: str) -> None:
    """After a state that nothing follows all of the evidence is in one whose weight was no number."""
    logs = random_logs(COUNT, LENGTH, STATES)
    logs.seen[:, 1:] -= {"float32": 300.0, "float64": 3000.0}[dtype]
    logs.moves[:, 0] = logs.moves[:, 1:, 0] = NONE
    check(logs, "scans", dtype)
    with jax.enable_x64(dtype == "float64"):
        weights = weights_of(logs, dtype)
        total = log_of(jax.jit(partial(evidence, drops_small=False))(weights))
        np.testing.assert_allclose(total, oracle(logs).total, rtol=TOLERANCE[dtype])


@both_forms
@each_dtype
def test_a_path_that_is_lost_forward_and_backward(form: str, dtype: str) -> None:
    """The second state has no number in either direction, and all of the evidence."""
    first = np.tile([[0.0], [-2000.0], [-2000.0]], (1, COUNT))
    moves = np.where(np.eye(STATES) > 0, 0.0, NONE).reshape(1, STATES, STATES, 1)
    seen = np.zeros((LENGTH, STATES, COUNT))
    seen[:, 0], seen[:, 2] = -1500.0, -1900.0
    seen[-1, 1] = -2000.0
    check(ChainLogs(first, moves, seen), form, dtype)


@both_forms
def test_an_impossible_sequence_has_slopes(form: str) -> None:
    """Those of two steps by finite differences, which are exact in a weight that is zero: the evidence is linear."""
    logs = random_logs(COUNT, LENGTH, STATES)
    logs.seen[3, :, 1] = NONE
    with jax.enable_x64(True):
        weights = weights_of(logs)
        value, slopes = SLOPES[form](weights)
        assert value.weight[1] == 0 and np.all(np.asarray(value.weight)[[0, 2, 3, 4]] > 0)
        for state in range(STATES):
            ones = weights.ones._replace(seen=weights.ones.seen.at[3, state, 1].set(1.0))
            there, _ = SLOPES[form](weights._replace(ones=ones))
            slope = jnp.log(slopes.seen[3, state, 1]) + value.log[1]
            np.testing.assert_allclose(slope, log_of(there)[1], rtol=1e-12)


def test_other_sequences_do_not_matter() -> None:
    logs = random_logs(COUNT, LENGTH, STATES)
    expected = oracle(logs)
    logs.seen[3, :, 1] = NONE
    with jax.enable_x64(True):
        value, slopes = SLOPES["scans"](weights_of(logs))
        others = np.arange(COUNT) != 1
        np.testing.assert_allclose(log_of(value)[others], expected.total[others], rtol=1e-12)
        np.testing.assert_allclose(
            (slopes.seen / value.weight)[..., others], expected.slopes.seen[..., others], atol=1e-12
        )


@pytest.mark.parametrize("spread", [1.0, 2000.0])
def test_smoothing_in_linear_weights_is_that_by_logarithms(spread: float) -> None:
    """Every cell to its last digits, however small."""
    logs = with_zeros(random_logs(COUNT, LENGTH, STATES, spread=spread))
    logs.seen[3, :, 4] = NONE
    with jax.enable_x64(True):
        weights = weights_of(logs)
        fast = jax.jit(partial(smoothed, drops_small=False))(weights)
        careful = jax.jit(smoothed_by_logs)(weights)
        expected = oracle(logs)
        for place in (0, 1):
            both = (jnp.log(answer[place].ones) + answer[place].logs + answer[2] for answer in (fast, careful))
            np.testing.assert_allclose(*both, rtol=1e-10)
        ours = np.asarray(jnp.log(fast[1].ones) + fast[1].logs + fast[2])
        is_possible = np.isfinite(expected.total)
        probability = np.exp(ours[..., is_possible] - expected.total[is_possible])
        np.testing.assert_allclose(
            probability, np.where(logs.seen > NONE, expected.slopes.seen, 0.0)[..., is_possible], atol=1e-8
        )
        assert np.all(ours[..., ~is_possible] == NONE)


# -- derivatives ----------------------------------------------------------------------------------------------------


def by_enumeration(weights: ChainWeights) -> jax.Array:
    """The log-evidence of two steps: all paths at once, over the greatest."""

    def paths(part: ChainLogs) -> list[jax.Array]:
        first, moves, seen = part
        move = moves[0, ..., 0]
        return [
            first[:, None, None],
            move[:, :, None, None],
            seen[0][None, :, None],
            move[None, :, :, None],
            seen[1][None, None],
        ]

    ones, logs = math.prod(paths(weights.ones)), sum(paths(weights.logs))
    top = jax.lax.stop_gradient(jnp.max(jnp.where(ones > 0, logs, NONE), axis=(0, 1, 2)))
    return jnp.log(jnp.sum(ones * jnp.exp(logs - top), axis=(0, 1, 2))) + top


@pytest.mark.parametrize("spread", [1.0, 1200.0], ids=["in range", "out of range"])
def test_derivatives_of_two_orders(spread: float) -> None:
    """The gradient in all weights, one of which is zero; forward; and its derivative along one direction."""
    with jax.enable_x64(True):
        logs = random_logs(2, 2, 3)
        logs.seen[:, 0] -= spread
        weights = weights_of(
            ChainLogs(logs.first, np.where(np.eye(3) > 0, NONE, logs.moves[0, ..., 0])[None, ..., None], logs.seen)
        )
        along = jax.tree.map(jnp.cos, weights)

        def answers(total: Callable) -> tuple:
            gradient = jax.grad(lambda w: jnp.sum(total(w)))
            forward = jax.jvp(total, (weights,), (along,))
            return forward, jax.jvp(gradient, (weights,), (along,))

        ours = jax.jit(lambda: answers(lambda w: log_of(evidence(w, False))))()
        theirs = jax.jit(lambda: answers(by_enumeration))()
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


# -- chains ---------------------------------------------------------------------------------------------------------


def chain(moves: jax.Array, seen: jax.Array) -> fb.Chain:
    """A chain over two sequences, with a global variable that is summed."""
    start = fb.Table([[0.6, 0.3], [0.0, 0.5]], ("x", "g"))
    step = fb.Table(moves, ("x", "x_next")) * fb.Table.from_log(seen, ("t", "b", "x_next"))
    return fb.Chain(init=start, factor=step, time="t", step={"x": "x_next"}, sum=("g",))


@pytest.mark.parametrize("far", [0.0, 300.0])
def test_eager_compiled_and_mapped(far: float) -> None:
    """Evidence, its gradient and smoothing are the same whoever asks; NumPy's are in double precision."""
    rng = np.random.default_rng(3)
    moves = np.asarray([[0.7, 0.3], [0.0, 1.0]], "float32")
    seen = rng.normal(size=(4, 2, 2)).astype("float32")
    seen[1, 0, 1] -= far

    def answers(moves: jax.Array, seen: jax.Array) -> tuple:
        made = chain(moves, seen)
        smooth = made.smooth()
        return made.log_evidence().data, smooth.weights, smooth.initial.weights

    data = jnp.asarray(moves), jnp.asarray(seen)
    host = answers(moves, seen)  # type: ignore[arg-type]
    mapped = jax.jit(jax.vmap(answers, (None, 0)))(data[0], data[1][None])
    for found in (answers(*data), jax.jit(answers)(*data), jax.tree.map(lambda each: each[0], mapped), answers(*data)):
        for ours, theirs in zip(found, host, strict=True):
            assert ours.shape == theirs.shape and ours.dtype == np.float32 and theirs.dtype == np.float64
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)

    def total(moves: jax.Array, seen: jax.Array) -> jax.Array:
        return jnp.sum(chain(moves, seen).log_evidence().data)

    by_scan = jax.jit(jax.grad(total, (0, 1)))(*data)
    with jax.enable_x64(True):
        wide = jax.jit(jax.grad(total, (0, 1)))(*(jnp.asarray(part, "float64") for part in (moves, seen)))
    for ours, theirs in zip(by_scan, wide, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
