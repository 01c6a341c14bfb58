"""Chains of tables against the unrolled model: evidence, filter, smoother, best path, draws, derivatives, extremes."""

import itertools
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.errors import DataError
from fubini.sequence import chain_questions as questions
from tests.counting import no_tracing

from .models import (
    Model,
    assert_same,
    check_filter,
    check_gradients,
    check_smoother,
    every,
    in_chunks,
    in_turn,
    random_model,
)

SINGLE = float(np.finfo(np.float32).eps)
TWO, THREE = fb.Bint[2], fb.Bint[3]
slow = pytest.mark.slow

# One model for each thing that a chain of tables may have.
MODELS: dict[str, Callable[..., Model]] = {
    "one chain": lambda **how: random_model({"x": THREE}, 5, **how),
    "one step": lambda **how: random_model({"x": THREE}, 1, **how),
    "two chains": lambda **how: random_model({"x": TWO, "y": THREE}, 3, **how),
    "plates": lambda **how: random_model({"x": TWO}, 3, plates={"i": 2, "j": 4}, **how),
    "free global": lambda **how: random_model({"x": TWO}, 4, shared=THREE, **how),
    "summed global": lambda **how: random_model({"x": TWO}, 4, shared=THREE, summed=True, **how),
    "timeless": lambda **how: random_model({"x": THREE}, 6, timed=False, **how),
    "everything": lambda **how: random_model(
        {"x": TWO, "y": TWO}, 3, lags={"y": 2}, plates={"i": 2}, shared=THREE, summed=True, **how
    ),
    "lags 1 and 2": lambda **how: random_model({"b": TWO, "c": TWO}, 5, lags={"c": 2}, **how),
    "lags 3 and 1": lambda **how: random_model({"b": TWO, "c": TWO}, 4, lags={"b": 3}, **how),
}


# -- values ---------------------------------------------------------------------------------------------------------

QUICK = {
    "one chain": "chunks",
    "one step": "parallel",
    "plates": "sequential",
    "summed global": "sequential",
    "timeless": "parallel",
    "everything": "sequential",
    "lags 3 and 1": "sequential",
}


@pytest.mark.parametrize(("name", "method"), in_chunks(MODELS, QUICK))
@pytest.mark.one_in(3)
def test_evidence(name: str, method: str) -> None:
    """Σ over all states of the unrolled product, a factor over the plates and the free global variables."""
    model = MODELS[name]()
    assert_same(model.chain(method).evidence(), model.evidence())


@pytest.mark.parametrize(("name", "method"), in_turn(MODELS, "sequential", "plates", "everything"))
def test_filter(name: str, method: str) -> None:
    """p(state after step t | steps to t): the marginal of the model unrolled that far."""
    model = MODELS[name]()
    check_filter(model, model.chain(method).filter())


@pytest.mark.parametrize(("name", "method"), in_turn(MODELS, "parallel", "two chains"))
def test_smooth(name: str, method: str) -> None:
    """p(state after step t | everything), and of the state before the first step."""
    model = MODELS[name]()
    check_smoother(model, model.chain(method).smooth())


@pytest.mark.parametrize("length", [1, 2, 3, *(pytest.param(n, marks=slow) for n in (5, 7, 12))])
def test_any_length_in_pairs(length: int) -> None:
    """Halving leaves odd steps over, at any round: none, or one in the first, in the last, or in each."""
    model = random_model({"x": TWO}, length, seed=length)
    assert_same(model.chain("parallel").evidence(), model.evidence())


@slow
@pytest.mark.parametrize("lags", [{}, {"y": 2}], ids=["no lags", "a lag"])
def test_several_chunks(lags: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven steps by chunks of three: the one that is left over comes first."""
    monkeypatch.setattr(questions, "CHUNK", 3)
    model = random_model({"x": TWO, "y": TWO}, 7, lags=lags, plates={"i": 2})
    assert_same(model.chain("chunks").evidence(), model.evidence())


LAGS = {2: {"c": 2}, 3: {"b": 3}}  # the longest lag, of two chains


# fewer steps than the longest lag, whole rounds of it, and one or two steps more
ROUNDS = [(2, 2), (3, 2), *(pytest.param(*case, marks=slow) for case in ((2, 3), (3, 6), (3, 8)))]


@pytest.mark.parametrize(("lag", "length"), ROUNDS)
def test_lags_of_any_length(lag: int, length: int) -> None:
    """Also where the steps do not fill whole rounds of the longest lag, or are fewer than it."""
    model = random_model({"b": TWO, "c": TWO}, length, lags=LAGS[lag], seed=length)
    for method in ("parallel", "sequential") if length in (2, 6) else ("parallel",):
        assert_same(model.chain(method).evidence(), model.evidence())


@slow
def test_single_precision() -> None:
    """float32 in, float32 out; within its precision of the unrolled model in float64."""
    model = MODELS["one chain"](engine=lambda data: jnp.asarray(data, jnp.float32))
    exact = MODELS["one chain"]()
    chain = model.chain()
    assert chain.log_evidence().data.dtype == jnp.float32
    assert_same(chain.evidence(), exact.evidence(), rtol=8 * SINGLE, atol=16 * SINGLE)
    check_smoother(exact, chain.smooth(), rtol=1e-5, atol=1e-5)


def test_double_precision_stays_numpy() -> None:
    """NumPy's data are answered in NumPy, in double width."""
    chain = MODELS["one chain"]().chain()
    found = chain.filter()
    assert isinstance(found.weights, np.ndarray) and found.weights.dtype == np.float64
    assert np.asarray(chain.log_evidence().data).dtype == np.float64


# -- best paths and draws -------------------------------------------------------------------------------------------


def enumerated(model: Model) -> tuple[np.ndarray, list[str], int]:
    """The joint weights of all paths, the names of its axes, and how many of them, in front, are a batch."""
    factors = model.copies()
    free = ("i", "j", "g") if "g" not in model.globals else ("i", "j")
    batch = [name for name in free if any(name in factor.inputs for factor in factors)]
    names = [*batch, *model.states(), *model.globals]
    letters = {name: position for position, name in enumerate(names)}
    operands = []
    for factor in [term for whole in factors for term in getattr(whole, "terms", (whole,))]:
        operands += [np.exp(factor.log().data), [letters[name] for name in factor.inputs]]
    return np.einsum(*operands, list(letters.values()), optimize=True), names, len(batch)


# A covering design: the others have nothing that is not in one of these.
COVERING = ("one step", "plates", "free global", "timeless", "everything", "lags 3 and 1")


@pytest.mark.parametrize("name", every(COVERING, "timeless"))
def test_argmax(name: str) -> None:
    """The path of greatest weight among all of them, for each cell of the batch; Viterbi's."""
    model = MODELS[name](seed=3)
    found = model.chain().argmax()
    weights, names, batch = enumerated(model)
    flat = weights.reshape(*weights.shape[:batch], -1)
    best = np.unravel_index(flat.argmax(-1), weights.shape[batch:])
    # time is in front of what argmax gives; the batch follows
    path = {key: np.moveaxis(value, 0, -1) if _is_after(model, key) else value for key, value in found.items()}
    ours = {**model.path(path), **{key: found[key] for key in model.globals}}
    for key, expected in zip(names[batch:], best, strict=True):
        np.testing.assert_array_equal(ours[key], expected, err_msg=key)


def _is_after(model: Model, name: str) -> bool:
    return name in [new[-1] for _, new in model.links]


@pytest.mark.parametrize("name", every(COVERING, "free global"))
def test_draws_have_the_joint_distribution(name: str) -> None:
    """Frequencies of pairs of variables, and the mean log-density of whole paths, within 4.5 standard errors.

    The log-density of a path is its joint weight less the evidence; its mean is minus the entropy.
    """
    model, n = MODELS[name](seed=4), 4000
    drawn = model.chain().sample(jax.random.key(1), n)
    weights, names, batch = enumerated(model)
    cell, names = (-1,) * batch, names[batch:]  # the last cell of the batch, whose axes come last
    weights, drawn = weights[cell], {key: value[(..., *cell)] for key, value in drawn.items()}
    p = weights / weights.sum()
    paths = {**model.path(drawn), **{key: drawn[key] for key in model.globals}}
    draws = np.stack([np.asarray(paths[key]) for key in names], -1)
    assert draws.shape == (n, len(names))
    logs = np.log(p[tuple(draws.T)])
    entropy = -(p * np.log(p)).sum()
    spread = np.sqrt((p * np.log(p) ** 2).sum() - entropy**2)
    assert abs(logs.mean() + entropy) < 4.5 * spread / np.sqrt(n)
    for pair in itertools.combinations(range(len(names)), 2):
        expected = p.sum(tuple(axis for axis in range(p.ndim) if axis not in pair))
        counts = np.zeros_like(expected)
        np.add.at(counts, tuple(draws[:, list(pair)].T), 1)
        error = np.sqrt(expected * (1 - expected) / n)
        assert np.all(np.abs(counts / n - expected) < 4.5 * error), [names[axis] for axis in pair]


@slow
def test_the_axes_of_draws() -> None:
    """n, then time, then plates; without n no axis, and every draw differs."""
    chain = random_model({"x": TWO}, 4, plates={"i": 5}).chain()
    many, one = chain.sample(jax.random.key(0), 7), chain.sample(jax.random.key(0))
    assert many["x"].shape == (7, 5) and many["x_next"].shape == (7, 4, 5)
    assert one["x"].shape == (5,) and one["x_next"].shape == (4, 5)
    assert len({many["x_next"][draw].tobytes() for draw in range(7)}) > 1
    found = chain.argmax()
    assert found["x"].shape == (5,) and found["x_next"].shape == (4, 5)


# -- derivatives ----------------------------------------------------------------------------------------------------


# What a model may have is in one of the three lists at least.
IN_ORDER = ("one step", "timeless", "everything")


@pytest.mark.parametrize("name", every(IN_ORDER, "one step"))
def test_gradients_in_order(name: str) -> None:
    """In double width, one step after another."""
    check_gradients(MODELS[name](seed=5), "sequential", "float64")


@slow
@pytest.mark.parametrize("name", ["two chains", "free global", "lags 3 and 1"])
def test_gradients_in_pairs(name: str) -> None:
    """In single width, all steps at once."""
    check_gradients(MODELS[name](seed=5), "parallel", "float32")


@slow
def test_gradients_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpointed at each chunk: of four steps one, and the other three."""
    monkeypatch.setattr(questions, "CHUNK", 3)
    check_gradients(random_model({"x": TWO}, 4, plates={"i": 2}, seed=5), "chunks", "float64")


@slow
def test_the_derivative_of_evidence_is_the_smoother() -> None:
    """∂ log Z / ∂ log f(t, x) = p(x after step t | everything), also where a likelihood is zero."""
    rng = np.random.default_rng(8)
    transition = jnp.asarray(rng.dirichlet(np.ones(3), 3), jnp.float32)
    logs = jnp.asarray(rng.normal(size=(4, 3)), jnp.float32).at[1, 2].set(-jnp.inf)

    def chain(logs: jax.Array) -> fb.Chain:
        step = fb.Table(transition, ("x", "x_next")) * fb.Table.from_log(logs, ("t", "x_next"))
        return fb.Chain(init=fb.Table(jnp.ones(3) / 3, ("x",)), factor=step, time="t", step={"x": "x_next"})

    found = jax.jit(jax.grad(lambda logs: chain(logs).log_evidence().data))(logs)
    np.testing.assert_allclose(found, np.exp(chain(logs).smooth().log().data), rtol=1e-5, atol=1e-6)


# -- missing observations, and what lies ahead ----------------------------------------------------------------------


def hidden(observed: list[bool], engine: Callable = np.asarray) -> tuple[Model, fb.Factor, fb.Factor]:
    """A hidden Markov model, and its transition and likelihood."""
    rng = np.random.default_rng(9)
    transition = fb.Table(engine(rng.dirichlet(np.ones(3), 3)), ("x", "x_next"))
    likelihood = fb.Table(engine(rng.uniform(0.1, 1.0, (len(observed), 3))), ("t", "x_next"))
    start = fb.Table(engine(rng.dirichlet(np.ones(3))), ("x",))
    seen = fb.Table(np.where(np.array(observed)[:, None], np.exp(likelihood.log().data), 1.0), ("t", "x_next"))
    return Model(start, (transition, seen), {"x": "x_next"}, len(observed)), transition, likelihood


@pytest.mark.parametrize(
    "observed", [[True, False, False, True], pytest.param([False] * 4, marks=slow)], ids=["some", "none"]
)
def test_missing_observations(observed: list[bool]) -> None:
    """A likelihood to the power of a mask: a step without an observation has a likelihood of 1."""
    model, transition, likelihood = hidden(observed)
    step = transition * likelihood ** fb.Array(np.array(observed, float), ("t",))
    chain = fb.Chain(init=model.init, factor=step, time="t", step={"x": "x_next"})
    assert_same(chain.evidence(), model.evidence())
    check_smoother(model, chain.smooth())
    if not any(observed):
        np.testing.assert_allclose(chain.log_evidence().data, 0.0, atol=1e-12)


def test_masked_densities() -> None:
    """dist.X(...).mask(present): the same as leaving these observations out."""
    present = np.array([True, False, True, False])
    counts = np.array([1, 0, 3, 0])
    rates = np.array([0.5, 2.0, 4.0])
    transition = np.array([[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.0, 0.3, 0.7]])
    mask = fb.Array(present, ("t",))
    emission = dist.Poisson(fb.Array(rates, ("x_next",))).mask(mask)(fb.Array(counts, ("t",)))
    step = fb.Table(transition, ("x", "x_next")) * emission
    chain = fb.Chain(init=fb.Table([0.2, 0.3, 0.5], ("x",)), factor=step, time="t", step={"x": "x_next"})
    state, total = np.array([0.2, 0.3, 0.5]), 0.0
    for here, count in zip(present, counts, strict=True):
        state = state @ transition
        if here:
            state = state * np.exp(-rates) * rates**count / np.prod(np.arange(1, count + 1))
        total += np.log(state.sum())
        state = state / state.sum()
    np.testing.assert_allclose(chain.log_evidence().data, total, rtol=1e-6)
    np.testing.assert_allclose(np.exp(chain.filter()(t=3).log().data), state, rtol=1e-5)


def test_forecast() -> None:
    """The last state is where a chain without observations starts: as the first chain with steps that are not seen."""
    model, transition, _ = hidden([True] * 3)
    longer, _, _ = hidden([True] * 3)
    ahead = fb.Chain(init=model.chain().final(), factor=transition, time="t", step={"x": "x_next"}, length=2)
    seen = np.concatenate([np.exp(longer.terms[1].log().data), np.ones((2, 3))])
    whole = Model(model.init, (transition, fb.Table(seen, ("t", "x_next"))), model.step, 5)
    np.testing.assert_allclose(ahead.log_evidence().data, 0.0, atol=1e-12)
    assert_same(ahead.final()(x="x_next"), whole.marginal(5, 4))
    assert_same(model.chain().final()(x="x_next"), model.marginal(3, 2))


def test_a_global_in_the_last_state() -> None:
    """The last state comes with the global variables that are summed, so that another chain learns of them on."""
    model = MODELS["summed global"]()
    found = model.chain().final()
    names = model.after(model.length - 1)
    others = [name for name in model.states() if name not in names.values()]
    kept = fb.eliminate(model.copies(), others).normalize(*names.values(), "g")
    assert_same(found(x="x_next"), kept(**{old: new for new, old in names.items()}))


# -- extremes -------------------------------------------------------------------------------------------------------


def sharp(engine: Callable, logs: np.ndarray, transition: np.ndarray, method: str) -> fb.Chain:
    step = fb.Table(engine(transition), ("x", "x_next")) * fb.Table.from_log(engine(logs), ("t", "x_next"))
    start = fb.Table(engine(np.full(len(transition), 1 / len(transition))), ("x",))
    return fb.Chain(init=start, factor=step, time="t", step={"x": "x_next"}, method=method)


def forward(logs: np.ndarray, transition: np.ndarray) -> np.ndarray:
    """The log-weights after each step, by logaddexp in double width."""
    with np.errstate(divide="ignore"):
        moves = np.log(transition)
    now, found = np.full(len(transition), -np.log(len(transition))), []
    for row in logs:
        now = np.logaddexp.reduce(now[:, None] + moves, axis=0) + row
        found.append(now)
    return np.array(found)


FLIP = np.array([[0.9, 0.1], [0.1, 0.9]])
STUCK = np.eye(2)
LEAVES = np.array([[0.5, 0.5], [0.0, 1.0]])


@partial(jax.jit, static_argnums=2)
def sharp_slope(logs: jax.Array, transition: jax.Array, method: str) -> tuple:
    """The log-evidence and its derivative in the log-likelihoods, compiled once for all transitions."""
    return jax.value_and_grad(lambda logs: sharp(jnp.asarray, logs, transition, method).log_evidence().data)(logs)


@pytest.mark.parametrize("method", ["sequential", pytest.param("parallel", marks=slow)])
@pytest.mark.parametrize("transition", [FLIP, STUCK, pytest.param(LEAVES, marks=slow)], ids=["flip", "stuck", "leaves"])
def test_sharp_emissions(transition: np.ndarray, method: str) -> None:
    """Log-likelihoods 200 nats apart that change their mind, in float32: nothing underflows, values or derivatives."""
    logs = np.array([[0.0, -200.0], [-200.0, 0.0], [0.0, -200.0], [-200.0, 0.0]])
    single = lambda data: jnp.asarray(data, jnp.float32)  # noqa: E731
    total, slope = sharp_slope(single(logs), single(transition), method)
    expected = forward(logs, transition)
    np.testing.assert_allclose(total, np.logaddexp.reduce(expected[-1]), rtol=4 * SINGLE)
    assert np.all(np.isfinite(slope))
    np.testing.assert_allclose(slope.sum(1), 1.0, rtol=1e-5)
    found = sharp(single, logs, transition, method).filter().log().data
    np.testing.assert_allclose(
        found, expected - np.logaddexp.reduce(expected, axis=1, keepdims=True), rtol=1e-5, atol=2e-5
    )


@pytest.mark.parametrize("method", [pytest.param("parallel", marks=slow), "sequential"])
def test_impossible_evidence(method: str) -> None:
    """Weight 0 for all paths: log-evidence −∞, and a filter that is an error or NaN, never a plausible number."""
    with np.errstate(divide="ignore"):
        logs = np.log(np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]))
    chain = sharp(lambda data: jnp.asarray(data, jnp.float32), logs, STUCK, method)
    assert float(chain.log_evidence().data) == -np.inf
    try:
        found = np.asarray(chain.filter().log().data)
    except DataError:
        return
    np.testing.assert_allclose(np.exp(found[0]), [1.0, 0.0])
    assert np.all(np.isnan(found[1:]))


def test_two_thousand_steps_in_single_precision() -> None:
    """The log-evidence of a long chain is right to 1e-6 of itself."""
    rng = np.random.default_rng(12)
    transition = rng.dirichlet(np.ones(4), 4).astype(np.float32)
    logs = rng.normal(size=(2000, 4)).astype(np.float32)
    expected = np.logaddexp.reduce(forward(logs.astype(float), transition.astype(float))[-1])
    for method in ("sequential", "chunks"):
        found = sharp(jnp.asarray, logs, transition, method).log_evidence().data
        np.testing.assert_allclose(float(found), expected, rtol=1e-6)


# -- under JAX's transformations ------------------------------------------------------------------------------------


def evidence_of(logs: jax.Array) -> jax.Array:
    step = fb.Table(jnp.asarray(FLIP, jnp.float32), ("x", "x_next")) * fb.Table.from_log(logs, ("t", "x_next"))
    start = fb.Table(jnp.ones(2) / 2, ("x",))
    return fb.Chain(init=start, factor=step, time="t", step={"x": "x_next"}).log_evidence().data


def test_vmap() -> None:
    """A chain mapped over a batch of data: each as if alone."""
    logs = np.random.default_rng(13).normal(size=(3, 4, 2))
    found = jax.jit(jax.vmap(evidence_of))(jnp.asarray(logs, jnp.float32))
    expected = [np.logaddexp.reduce(forward(each, FLIP)[-1]) for each in logs]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_second_chain_of_the_same_shapes_traces_nothing() -> None:
    """Evidence, best path and draws of other numbers, with another key."""

    def ask(seed: int, key: jax.Array) -> None:
        model = random_model({"x": TWO}, 4, seed=seed, engine=CASTS[seed])
        chain = model.chain()
        jax.block_until_ready([chain.log_evidence().data, chain.argmax()["x"], chain.sample(key, 3)["x"]])

    keys = jax.random.split(jax.random.key(0), 2)
    keys = [keys[0], keys[1]]
    ask(0, keys[0])
    with no_tracing():
        ask(1, keys[1])


CASTS = [lambda data: jnp.asarray(data, jnp.float32)] * 2


def test_a_users_function_is_traced_once() -> None:
    """jax.jit around a chain: the second call with the same shapes runs no Python of ours."""
    called = []

    @jax.jit
    def ask(logs: jax.Array) -> jax.Array:
        called.append(None)
        return evidence_of(logs)

    for seed in range(3):
        logs = np.random.default_rng(seed).normal(size=(4, 2))
        expected = np.logaddexp.reduce(forward(logs, FLIP)[-1])
        np.testing.assert_allclose(ask(jnp.asarray(logs, jnp.float32)), expected, rtol=1e-6)
    assert len(called) == 1


def test_a_lifted_function_is_not_called_again() -> None:
    """Counted by a side effect: energies of a lifted function, recorded, enter a compiled chain."""
    called = []

    def energy(x: jax.Array) -> jax.Array:
        called.append(None)
        return -x * x

    def chain(shift: float) -> fb.Chain:
        data = fb.Array(jnp.asarray(np.arange(8.0).reshape(4, 2) + shift, jnp.float32), ("t", "x_next"))
        step = fb.Table(jnp.asarray(FLIP, jnp.float32), ("x", "x_next")) * fb.weight(log=fb.lift(energy)(data))
        return fb.Chain(init=fb.Table(jnp.ones(2) / 2, ("x",)), factor=step, time="t", step={"x": "x_next"})

    for shift in (0.0, 0.5):
        logs = -((np.arange(8.0).reshape(4, 2) + shift) ** 2)
        expected = np.logaddexp.reduce(forward(logs, FLIP)[-1])
        np.testing.assert_allclose(chain(shift).log_evidence().data, expected, rtol=1e-5)
    count = len(called)
    chain(0.25).log_evidence()
    assert len(called) - count <= 1  # at most when the factor is made, never inside the compiled chain
