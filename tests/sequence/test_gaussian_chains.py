"""Chains of Gaussians against the unrolled model: evidence, filter, smoother, best path, draws, derivatives."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.errors import Intractable
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

REAL, PAIR, SQUARE = fb.Real, fb.Reals[2], fb.Reals[2, 2]
slow = pytest.mark.slow


def single(data: object) -> jax.Array:
    return jnp.asarray(data, jnp.float32)


# A covering design: each thing that a chain of Gaussians may have is in one of them at least.
MODELS: dict[str, Callable[..., Model]] = {
    "scalar": lambda **how: random_model({"x": REAL}, 3, **how),
    "one step": lambda **how: random_model({"x": PAIR}, 1, **how),
    "coupled": lambda **how: random_model({"x": REAL, "y": SQUARE}, 2, **how),
    "plates": lambda **how: random_model({"x": PAIR}, 2, plates={"i": 2, "j": 4}, **how),
    "free bias": lambda **how: random_model({"x": REAL}, 3, shared=fb.Reals[3], **how),
    "summed bias": lambda **how: random_model({"x": REAL}, 2, shared=PAIR, summed=True, plates={"i": 2}, **how),
    "timeless": lambda **how: random_model({"x": PAIR}, 3, timed=False, **how),
    "lags 1 and 2": lambda **how: random_model({"b": PAIR, "c": REAL}, 3, lags={"c": 2}, **how),
    "lags 3 and 1": lambda **how: random_model({"b": REAL, "c": REAL}, 4, lags={"b": 3}, **how),
}


# -- values ---------------------------------------------------------------------------------------------------------

QUICK = {
    "one step": "chunks",
    "coupled": "sequential",
    "plates": "parallel",
    "free bias": "parallel",
    "summed bias": "sequential",
    "lags 1 and 2": "sequential",
}


@pytest.mark.parametrize(("name", "method"), in_chunks(MODELS, QUICK))
def test_evidence(name: str, method: str) -> None:
    """∫ over all states of the unrolled product, a factor over the plates and the free global variables."""
    model = MODELS[name]()
    assert_same(model.chain(method).evidence(), model.evidence())


@pytest.mark.parametrize(("name", "method"), in_turn(MODELS, "sequential", "coupled", "free bias"))
def test_filter(name: str, method: str) -> None:
    """p(state after step t | steps to t): the marginal of the model unrolled that far; Kalman's filter."""
    model = MODELS[name]()
    check_filter(model, model.chain(method).filter())


@pytest.mark.parametrize(("name", "method"), in_turn(MODELS, "parallel", "plates"))
def test_smooth(name: str, method: str) -> None:
    """p(state after step t | everything), and of the state before the first step."""
    model = MODELS[name]()
    check_smoother(model, model.chain(method).smooth())


@pytest.mark.parametrize("length", [1, 2, 3, *(pytest.param(n, marks=slow) for n in (6, 11))])
def test_any_length_in_pairs(length: int) -> None:
    """Halving leaves odd steps over, at any round: none, or one in the first, in the second, or in each."""
    model = random_model({"x": REAL}, length, seed=length)
    assert_same(model.chain("parallel").evidence(), model.evidence())


@slow
def test_several_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven steps by chunks of three, with a lag: the one that is left over comes first."""
    monkeypatch.setattr(questions, "CHUNK", 3)
    model = random_model({"x": REAL, "y": REAL}, 7, lags={"y": 2})
    assert_same(model.chain("chunks").evidence(), model.evidence())


LAGS = {2: {"c": 2}, 3: {"b": 3}}  # the longest lag, of two chains


# fewer steps than the longest lag, whole rounds of it, and one or two steps more
ROUNDS = [(2, 2), (3, 2), *(pytest.param(*case, marks=slow) for case in ((2, 5), (3, 7)))]


@pytest.mark.parametrize(("lag", "length"), ROUNDS)
def test_lags_of_any_length(lag: int, length: int) -> None:
    """Also where the steps do not fill whole rounds of the longest lag, or are fewer than it."""
    model = random_model({"b": REAL, "c": REAL}, length, lags=LAGS[lag], seed=length)
    for method in ("parallel", "sequential") if length in (2, 5) else ("parallel",):
        assert_same(model.chain(method).evidence(), model.evidence())


@pytest.mark.parametrize(
    ("size", "length"), [(1, 1), (3, 2), pytest.param(2, 3, marks=slow), pytest.param(1, 10, marks=slow)]
)
def test_the_bias_of_a_sensor(size: int, length: int) -> None:
    """A bias in every observation, free: given a number for it, the chain is the one with that bias subtracted."""
    rng = np.random.default_rng(size)
    data = rng.normal(size=(length, size))
    x, b = fb.Variable("x_next", fb.Reals[size]), fb.Variable("bias", fb.Reals[size])
    transition = dist.Normal(0.9 * fb.Variable("x", fb.Reals[size]), np.full(size, 0.5))("x_next")
    start = dist.Normal(np.zeros(size), np.ones(size))("x")
    step = transition * dist.Normal(x + b, np.full(size, 0.3))(fb.Array(data, ("t",)))
    found = fb.Chain(init=start, factor=step, time="t", step={"x": "x_next"}).evidence()
    assert set(found.inputs) == {"bias"}
    value = rng.normal(size=size)
    expected = _kalman(data - value, 0.9, 0.25, 0.09)
    np.testing.assert_allclose(found(bias=value).log().data, expected, rtol=1e-6)


def _kalman(data: np.ndarray, a: float, q: float, r: float) -> float:
    """The log-evidence of independent scalar chains, by the textbook's filter."""
    total = 0.0
    for series in data.T:
        m, v = 0.0, 1.0
        for y in series:
            m, v = a * m, a * a * v + q
            s = v + r
            total -= 0.5 * (np.log(2 * np.pi * s) + (y - m) ** 2 / s)
            m, v = m + v / s * (y - m), v * r / s
    return total


@slow
def test_single_precision() -> None:
    """float32 in, float32 out; within its precision of the unrolled model in float64."""
    model, exact = MODELS["scalar"](engine=single), MODELS["scalar"]()
    chain = model.chain()
    assert chain.log_evidence().data.dtype == jnp.float32
    assert_same(chain.evidence(), exact.evidence(), rtol=1e-5, atol=1e-5)
    check_smoother(exact, chain.smooth(), rtol=1e-4, atol=1e-4)


# -- best paths and draws -------------------------------------------------------------------------------------------


def dense(model: Model, names: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of all states of the unrolled model, elements of the names one after another."""
    factors = [term for whole in model.copies() for term in getattr(whole, "terms", (whole,))]
    sizes = {
        name: int(np.prod(domain.shape))
        for factor in factors
        for name, domain in factor.inputs.items()
        if not domain.is_finite
    }
    places, end = {}, 0
    for name in names:
        places[name] = np.arange(end, end + sizes[name])
        end += sizes[name]
    precision, info = np.zeros((end, end)), np.zeros(end)
    for factor in factors:
        at = np.concatenate([places[name] for name, domain in factor.inputs.items() if not domain.is_finite])
        precision[np.ix_(at, at)] += np.asarray(factor.precision)
        info[at] += np.asarray(factor.info)
    covariance = np.linalg.inv(precision)
    return covariance @ info, covariance


def flat(model: Model, found: dict, names: list[str], draws: tuple[int, ...] = ()) -> np.ndarray:
    """The values of all states, in the order of the names, behind the axis of draws."""
    values = {model.before(0)[name]: found[name] for old, _ in model.links for name in old}
    for old, new in model.links:
        for number in range(model.length):
            values[f"{old[0]}_{number + len(old)}"] = np.take(found[new[-1]], number, axis=len(draws))
    values.update({name: found[name] for name in model.globals})
    return np.concatenate([np.asarray(values[name]).reshape(*draws, -1) for name in names], -1)


def last_cell(model: Model, found: dict, draws: tuple[int, ...] = ()) -> tuple[Model, dict]:
    """The model, and values of its variables, for the last cell of its plates: axes behind draws and time."""
    sizes = {name: domain.extent for name, domain in model.factor.inputs.items() if name in ("i", "j")}
    if not sizes:
        return model, found
    cell = {name: size - 1 for name, size in sizes.items()}
    terms = tuple(term(**{name: at for name, at in cell.items() if name in term.inputs}) for term in model.terms)
    after = {new[-1] for _, new in model.links}
    lead = {name: (slice(None),) * (len(draws) + (name in after)) for name in found}
    return replace(model, terms=terms), {name: value[(*lead[name], *cell.values())] for name, value in found.items()}


# No real variable is left over. A covering design: the others have nothing that is not in one of these.
CLOSED = ("one step", "coupled", "plates", "summed bias", "timeless", "lags 3 and 1")


@pytest.mark.parametrize("name", every(CLOSED, "one step"))
def test_argmax(name: str) -> None:
    """The mode of all states together is their mean."""
    model = MODELS[name](seed=3)
    model, found = last_cell(model, model.chain().argmax())
    names = [*model.states(), *model.globals]
    mean, _ = dense(model, names)
    np.testing.assert_allclose(flat(model, found, names), mean, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", every(CLOSED, "summed bias"))
def test_draws_have_the_joint_distribution(name: str) -> None:
    """Means, covariances and the mean log-density of whole paths, within 4.5 standard errors."""
    model, n = MODELS[name](seed=4), 4000
    model, found = last_cell(model, model.chain().sample(jax.random.key(2), n), (n,))
    names = [*model.states(), *model.globals]
    mean, covariance = dense(model, names)
    draws = flat(model, found, names, (n,))
    assert draws.shape == (n, len(mean))
    scale = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(draws.mean(0) - mean) < 4.5 * scale / np.sqrt(n))
    spread = np.sqrt(np.outer(scale, scale) ** 2 + covariance**2)
    assert np.all(np.abs(np.cov(draws.T) - covariance) < 4.5 * spread / np.sqrt(n))
    # (z − m) Σ⁻¹ (z − m) is χ² with as many degrees as there are elements: mean d, variance 2 d
    away = np.linalg.solve(np.linalg.cholesky(covariance), (draws - mean).T)
    assert abs((away**2).sum(0).mean() - len(mean)) < 4.5 * np.sqrt(2 * len(mean) / n)


@pytest.mark.parametrize("ask", [lambda chain: chain.argmax(), lambda chain: chain.sample(jax.random.key(0))])
def test_a_free_real_variable_has_no_best_path_and_no_draws(ask: Callable) -> None:
    """A path would be a function of it: the error says what to do with it."""
    with pytest.raises(Intractable, match="'g' to be chosen with them, summed out or known"):
        ask(MODELS["free bias"]().chain())


@slow
def test_the_log_density_of_draws() -> None:
    """Joint at a path less log-evidence is the normal density of that path, normalising constant and all."""
    model = MODELS["coupled"](seed=6)
    names = model.states()
    mean, covariance = dense(model, names)
    chain = model.chain()
    draws = flat(model, chain.sample(jax.random.key(3), 4000), names, (4000,))[:5]
    logs = -0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
    logs = logs - 0.5 * np.einsum("ni,ij,nj->n", draws - mean, np.linalg.inv(covariance), draws - mean)
    factors = [term for whole in model.copies() for term in getattr(whole, "terms", (whole,))]
    for draw, expected in zip(draws, logs, strict=True):
        at, end = {}, 0
        for name in names:
            size = 1 if name.startswith("x") else 4
            at[name] = draw[end] if size == 1 else draw[end : end + size].reshape(2, 2)
            end += size
        joint = sum(float(f(**{k: v for k, v in at.items() if k in f.inputs}).log().data) for f in factors)
        np.testing.assert_allclose(joint - float(chain.log_evidence().data), expected, rtol=1e-6)


@slow
def test_the_axes_of_draws() -> None:
    """n, then time, then plates, then the elements of the state."""
    chain = MODELS["plates"]().chain()
    many, best = chain.sample(jax.random.key(0), 7), chain.argmax()
    assert many["x"].shape == (7, 2, 4, 2) and many["x_next"].shape == (7, 2, 2, 4, 2)
    assert best["x"].shape == (2, 4, 2) and best["x_next"].shape == (2, 2, 4, 2)
    np.testing.assert_allclose(best["x_next"], chain.smooth().mean("x_next").data, rtol=1e-7)


# -- derivatives ----------------------------------------------------------------------------------------------------


# What a model may have is in one of the three lists at least; the lags in pairs are those of tables.
IN_ORDER = ("scalar", "coupled", "plates", "free bias", "lags 3 and 1")


@pytest.mark.parametrize("name", every(IN_ORDER, "scalar"))
def test_gradients_in_order(name: str) -> None:
    """In double width, one step after another."""
    check_gradients(MODELS[name](seed=5), "sequential", "float64")


@slow
@pytest.mark.parametrize("name", ["summed bias", "timeless"])
def test_gradients_in_pairs(name: str) -> None:
    """In single width, all steps at once."""
    check_gradients(MODELS[name](seed=5), "parallel", "float32")


@slow
def test_gradients_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpointed at each chunk: of four steps one, and the other three."""
    monkeypatch.setattr(questions, "CHUNK", 3)
    check_gradients(random_model({"x": REAL}, 4, seed=5), "chunks", "float64")


def tracked(noise: jax.Array, data: jax.Array, mask: object = None) -> fb.Chain:
    """A scalar random walk seen through noise."""
    x, x_next = fb.Variable("x", fb.Real), fb.Variable("x_next", fb.Real)
    seen = dist.Normal(x_next, noise)(fb.Array(data, ("t",)))
    if mask is not None:
        seen = seen ** fb.Array(mask, ("t",))
    step = dist.Normal(0.9 * x, 0.5)("x_next") * seen
    return fb.Chain(init=dist.Normal(0.0, 1.0)("x"), factor=step, time="t", step={"x": "x_next"})


DATA = np.array([0.3, -0.2, 1.1, 0.9, 0.4])


def test_gradient_of_a_scale() -> None:
    """Of a parameter inside a density, in double width: as central differences of the textbook's filter."""
    with jax.enable_x64(True):
        found = jax.jit(jax.grad(lambda s: tracked(s, jnp.asarray(DATA)).log_evidence().data))(jnp.asarray(0.7))
    at = lambda s: _kalman(DATA[:, None], 0.9, 0.25, s * s)  # noqa: E731
    np.testing.assert_allclose(found, (at(0.7 + 1e-5) - at(0.7 - 1e-5)) / 2e-5, rtol=1e-6)


# -- missing observations, and what lies ahead ----------------------------------------------------------------------


@pytest.mark.parametrize("observed", [[1, 0, 1, 1, 0], pytest.param([0] * 5, marks=slow)], ids=["some", "none"])
def test_missing_observations(observed: list[int]) -> None:
    """A likelihood to the power of a mask is left out where the mask is 0; its data there do not matter."""
    mask = np.array(observed, float)
    chain = tracked(0.7, np.where(mask, DATA, 99.0), mask)
    x = {number: fb.Variable(f"x_{number}", fb.Real) for number in range(6)}
    factors = [dist.Normal(0.0, 1.0)("x_0")]
    factors += [dist.Normal(0.9 * x[number], 0.5)(f"x_{number + 1}") for number in range(5)]
    factors += [dist.Normal(x[number + 1], 0.7)(DATA[number]) for number in range(5) if mask[number]]
    expected = fb.eliminate(factors, list(map("x_{}".format, range(6)))).log().data
    np.testing.assert_allclose(chain.log_evidence().data, expected, rtol=1e-6, atol=1e-6)
    marginals = fb.marginals(factors, list(map("x_{}".format, range(6))))
    found = chain.smooth()
    for number in range(5):
        expected = marginals[f"x_{number + 1}"]
        np.testing.assert_allclose(
            found(t=number).mean("x_next").data, expected.mean(f"x_{number + 1}").data, atol=1e-6
        )
        np.testing.assert_allclose(
            found(t=number).variance("x_next").data, expected.variance(f"x_{number + 1}").data, rtol=1e-5
        )


def test_masked_densities() -> None:
    """dist.Normal(...).mask(present): as the power of the mask, missing data being any number at all."""
    present = np.array([True, False, True, True, False])
    x, x_next = fb.Variable("x", fb.Real), fb.Variable("x_next", fb.Real)
    seen = dist.Normal(x_next, 0.7).mask(fb.Array(present, ("t",)))(fb.Array(np.where(present, DATA, 99.0), ("t",)))
    step = dist.Normal(0.9 * x, 0.5)("x_next") * seen
    chain = fb.Chain(init=dist.Normal(0.0, 1.0)("x"), factor=step, time="t", step={"x": "x_next"})
    expected = tracked(0.7, DATA, present.astype(float)).log_evidence().data
    np.testing.assert_allclose(chain.log_evidence().data, expected, rtol=1e-6)


def test_forecast() -> None:
    """The last state starts a chain of steps that are not seen: its states have the predicted moments."""
    chain = tracked(0.7, DATA)
    last = chain.final()
    mean, variance = float(last.mean("x").data), float(last.variance("x").data)
    transition = dist.Normal(0.9 * fb.Variable("x", fb.Real), 0.5)("x_next")
    ahead = fb.Chain(init=last, factor=transition, time="t", step={"x": "x_next"}, length=3)
    np.testing.assert_allclose(ahead.log_evidence().data, 0.0, atol=1e-6)
    found = ahead.filter()
    for number in range(3):
        mean, variance = 0.9 * mean, 0.81 * variance + 0.25
        np.testing.assert_allclose(found(t=number).mean("x_next").data, mean, rtol=1e-5)
        np.testing.assert_allclose(found(t=number).variance("x_next").data, variance, rtol=1e-5)
    np.testing.assert_allclose(ahead.final().mean("x").data, mean, rtol=1e-5)


# -- long chains, and under JAX's transformations -------------------------------------------------------------------


@pytest.fixture
def optimised() -> Iterator[None]:
    """As XLA compiles for users: it rounds less."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)


@pytest.mark.usefixtures("optimised")
def test_two_thousand_steps_in_single_precision() -> None:
    """The log-evidence of a long chain is right to a few parts in a million: the logs of steps are added afterwards."""
    data = np.random.default_rng(12).normal(size=2000).astype(np.float32)
    found = tracked(single(0.7), single(data)).log_evidence().data
    expected = _kalman(data.astype(float)[:, None], 0.9, 0.25, float(np.float32(0.7)) ** 2)
    np.testing.assert_allclose(float(found), expected, rtol=5e-6)


def test_vmap() -> None:
    """A chain mapped over data: each as if alone."""
    data = np.random.default_rng(13).normal(size=(3, 5))
    found = jax.jit(jax.vmap(lambda y: tracked(single(0.7), y).log_evidence().data))(single(data))
    expected = [_kalman(each[:, None], 0.9, 0.25, 0.49) for each in data]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_second_chain_of_the_same_shapes_traces_nothing() -> None:
    """Evidence and draws of other numbers, with another key."""

    def ask(seed: int, key: jax.Array) -> None:
        chain = random_model({"x": REAL}, 4, seed=seed, engine=single).chain()
        jax.block_until_ready([chain.log_evidence().data, chain.sample(key, 3)["x"]])

    first, second = list(jax.random.split(jax.random.key(0), 2))
    ask(0, first)
    with no_tracing():
        ask(1, second)
