"""Program 9 of the north star: one chain under several representations, every question on both engines and under jit.

A position on a line moves to the right below zero and to the left above it; the label of its side mostly follows it.
The program itself, with quadrants of a plane, is in tests/representations/test_quadrants.py. What is asked again with
other numbers and other keys is not compiled again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.errors import Intractable
from tests.counting import TRACED, no_tracing

Y = np.array([0.4, -0.9, 1.3])
PUSH, FOLLOWS = np.array([0.5, -0.5]), np.array([[0.9, 0.1], [0.1, 0.9]])
MOVED, SEEN = 0.4, 0.7
NAMES = ("Truncated", "Mixture", "Particles", "Grid")
DRAWS = 200


def made_of(name: str, key: Any) -> Any:
    """The representation of a position; the key is for particles."""
    if name == "Particles":
        return fb.rep.Particles(400, key)
    return {"Truncated": fb.rep.Truncated(), "Mixture": fb.rep.Mixture(2), "Grid": fb.rep.Grid((-6, 6), 240)}[name]


def chain(y: Any, moved: Any = MOVED, push: Any = 1.0, follows: np.ndarray = FOLLOWS, cut: float = 0.0) -> fb.Chain:
    F, F_next = fb.Variable("F", fb.Real), fb.Variable("F_next", fb.Real)
    engine = jnp.asarray if isinstance(y, jax.Array) else np.asarray
    move = dist.Normal(F + push * fb.Array(engine(PUSH), ("S",)), moved)("F_next")
    link = dist.Categorical(probs=fb.Array(engine(follows), ("q",))(q=fb.ops.where(F_next > cut, 1, 0)))("S_next")
    seen = dist.Normal(F_next, SEEN)(fb.Array(y, ("t",)))
    init = dist.Normal(0.0, 1.0)("F") * fb.Table(engine(np.array([0.5, 0.5])), ("S",))
    return fb.Chain(init=init, factor=move * link * seen, time="t", step={"F": "F_next", "S": "S_next"})


def ask(name: str, y: Any, key: Any) -> dict[str, Any]:
    """The answers of every question that there is under a representation."""
    model, (key, draw_key) = chain(y), jax.random.split(key)
    with fb.represent(F=made_of(name, key)):
        smooth = model.smooth()
        answers = {
            "log_evidence": model.log_evidence().data,
            "filter": model.filter().sum("S_next").mean("F_next").data,
            "smooth": smooth.sum("S_next").mean("F_next").data,
            "initial": smooth.initial.sum("S").mean("F").data,
            **{f"drawn {own}": draws for own, draws in model.sample(draw_key, n=DRAWS).items()},
        }
        return answers | ({f"best {own}": value for own, value in model.argmax().items()} if name == "Grid" else {})


# -- the exact answers ------------------------------------------------------------------------------------------------


class Exact(NamedTuple):
    """Numbers over 2000 cells between -6 and 6."""

    log_evidence: float
    filter: np.ndarray
    smooth: np.ndarray


@cache
def exact() -> Exact:
    """Forward and backward over cells, in NumPy."""
    x = -6 + 12 / 2000 * (np.arange(2000) + 0.5)
    density = lambda gap, scale: np.exp(-0.5 * (gap / scale) ** 2) / (scale * np.sqrt(2 * np.pi))  # noqa: E731
    link = FOLLOWS[(x > 0).astype(int)].T
    move = [12 / 2000 * density(x[:, None] - x - push, MOVED) for push in PUSH]
    forward, scales = [0.5 * 12 / 2000 * np.stack([density(x, 1.0)] * 2)], []
    for y in Y:
        after = sum(move[s] @ forward[-1][s] for s in range(2)) * link * density(y - x, SEEN)
        scales.append(after.sum())
        forward.append(after / scales[-1])
    smooth, later = [], np.ones((2, 2000))
    for t in reversed(range(len(Y))):
        smooth.insert(0, forward[t + 1] * later)
        seen = (later * link).sum(axis=0) * density(Y[t] - x, SEEN)
        later = np.stack([seen @ move[s] for s in range(2)])
    means = [np.array([(f.sum(axis=0) @ x) / f.sum() for f in each]) for each in (forward[1:], smooth)]
    return Exact(float(np.log(scales).sum()), *means)


ERRORS = {"Truncated": (0.04, 0.035), "Mixture": (0.03, 0.03), "Particles": (0.15, 0.12), "Grid": (1e-3, 1e-3)}


def require_near(name: str, answers: dict[str, Any]) -> None:
    nats, error = ERRORS[name]
    assert float(answers["log_evidence"]) == pytest.approx(exact().log_evidence, abs=nats)
    assert np.asarray(answers["filter"]) == pytest.approx(exact().filter, abs=error)
    assert np.asarray(answers["smooth"]) == pytest.approx(exact().smooth, abs=error)
    draws = np.asarray(answers["drawn F_next"])
    assert draws.shape == (DRAWS, 3) and answers["drawn S_next"].shape == (DRAWS, 3)
    assert draws.mean(axis=0) == pytest.approx(exact().smooth, abs=error + 4 * 0.6 / np.sqrt(DRAWS))


def require_other(answers: dict[str, Any], others: dict[str, Any]) -> None:
    assert not np.allclose(answers["smooth"], others["smooth"], atol=1e-3)
    assert not np.allclose(answers["drawn F_next"], others["drawn F_next"], atol=1e-3)


# -- on NumPy, on JAX, under jit --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_on_numpy(name: str) -> None:
    answers = ask(name, Y, jax.random.key(0))
    require_near(name, answers)
    assert all(isinstance(answer, (np.ndarray, np.generic, float)) for answer in answers.values())
    key = jax.random.key(1)
    with no_tracing():
        others = ask(name, -Y, key)
    require_other(answers, others)
    before = len([event for event in TRACED if "compile" in event and "trace" not in event])
    with fb.represent(F=made_of(name, key)):
        other = chain(Y, follows=FOLLOWS[::-1], cut=0.3).log_evidence()
    assert len([event for event in TRACED if "compile" in event and "trace" not in event]) == before
    assert abs(float(other) - float(answers["log_evidence"])) > 0.05


@pytest.mark.parametrize("name", NAMES)
def test_under_jit(name: str) -> None:
    compiled = fb.jit(lambda y, key: ask(name, y, key))
    y, others_y = jnp.asarray(Y), jnp.asarray(-Y)
    answers = compiled(y, jax.random.key(0))
    require_near(name, answers)
    assert answers["smooth"].dtype == jnp.float32
    key = jax.random.key(1)
    with no_tracing():
        others = compiled(others_y, key)
    require_other(answers, others)
    if name in ("Truncated", "Grid"):
        with fb.represent(F=made_of(name, None)):
            means = chain(y).smooth().sum("S_next").mean("F_next").data
        assert isinstance(means, jax.Array)
        assert np.asarray(means) == pytest.approx(np.asarray(answers["smooth"]), abs=1e-4)


def test_the_same_key_draws_the_same_particles() -> None:
    """On NumPy, and in double precision under jit."""
    key = jax.random.key(3)
    with jax.enable_x64(True):
        answers = jax.jit(lambda y, key: ask("Particles", y, key))(jnp.asarray(Y), key)
    for question, expected in ask("Particles", Y, key).items():
        assert np.asarray(answers[question]) == pytest.approx(expected, abs=1e-9), question


@pytest.mark.parametrize("name", ["Truncated", "Mixture", "Particles"])
@pytest.mark.parametrize("engine", [np.asarray, jnp.asarray])
def test_the_best_path_of_what_is_projected_or_drawn_is_refused(name: str, engine: Callable) -> None:
    with (
        fb.represent(F=made_of(name, jax.random.key(0))),
        pytest.raises(Intractable, match="argmax of a sequence") as error,
    ):
        chain(engine(Y)).argmax()
    assert "fb.rep.Grid" in str(error.value)


# -- derivatives ------------------------------------------------------------------------------------------------------


def log_evidence(name: str, y: Any, moved: Any) -> Any:
    with fb.represent(F=made_of(name, jax.random.key(0))):
        return chain(y, moved).log_evidence().data


def difference(name: str, y: np.ndarray, moved: float) -> float:
    """(f(y + d, m + e) − f(y − d, m − e)) / 2, in double precision."""
    return (log_evidence(name, Y + y, MOVED + moved) - log_evidence(name, Y - y, MOVED - moved)) / 2


@pytest.mark.parametrize("name", ["Truncated", "Mixture", "Grid"])
def test_derivatives_of_the_evidence(name: str) -> None:
    by_y, by_moved = jax.grad(lambda y, moved: log_evidence(name, y, moved), (0, 1))(jnp.asarray(Y), jnp.asarray(MOVED))
    step, none = 1e-4, np.zeros(3)
    assert float(by_moved) == pytest.approx(difference(name, none, step) / step, abs=2e-3)
    assert float(by_y[1]) == pytest.approx(difference(name, step * np.eye(3)[1], 0.0) / step, abs=2e-3)


def test_derivatives_of_the_evidence_by_particles_are_unbiased() -> None:
    @jax.jit
    @jax.vmap
    @jax.grad
    def derivative(push: Any, key: Any) -> Any:
        with fb.represent(F=fb.rep.Particles(50, key)):
            return chain(jnp.asarray(Y), push=push).evidence().weights

    keys = jax.random.split(jax.random.key(0), 1000)
    estimates = np.asarray(derivative(jnp.ones(len(keys)), keys))
    with fb.represent(F=made_of("Grid", None)):
        high, low = (float(chain(Y, push=1.0 + step).evidence()) for step in (1e-4, -1e-4))
    expected = (high - low) / 2e-4
    error = estimates.std(ddof=1) / np.sqrt(len(keys))
    assert abs(estimates.mean() - expected) < 4 * error and error < 0.2 * abs(expected)


# -- in a model -----------------------------------------------------------------------------------------------------


@fb.model
def written_out(steps: int):
    F = yield dist.Normal(0.0, 1.0)
    S = yield dist.Categorical(probs=jnp.array([0.5, 0.5]))
    for _ in range(steps):
        F = yield dist.Normal(F + jnp.asarray(PUSH)[S], MOVED)
        S = yield dist.Categorical(probs=jnp.asarray(FOLLOWS)[jnp.where(F > 0, 1, 0)])
        y = yield dist.Normal(F, SEEN)


@pytest.mark.parametrize("name", NAMES)
def test_in_a_model_the_same_numbers(name: str) -> None:
    """Sites that are written out; those along time are in tests/questions/test_represented_chains.py."""
    model = written_out(3)
    seen = [own for own in model.names if own.startswith("y")]
    post = model.condition(**dict(zip(seen, Y, strict=True)))
    with fb.represent(F=made_of(name, jax.random.key(0))):
        answer, expected = post.log_evidence(), chain(Y).log_evidence()
        assert float(answer) == pytest.approx(float(expected), abs=1e-9)
        assert answer.exactness == expected.exactness
        smooth = chain(Y).smooth()
        means, labels = smooth.sum("S_next").mean("F_next").data, smooth.sum("F_next").log().data
        for t, site in enumerate(("F_1", "F_2", "F_3")):
            assert post.marginal(site).mean(site).data == pytest.approx(float(means[t]), abs=1e-9)
            assert post.marginal(f"S_{t + 1}").log().data == pytest.approx(labels[t], abs=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_draws_and_the_best_path_in_a_model(name: str) -> None:
    model = written_out(3)
    seen = [own for own in model.names if own.startswith("y")]
    post = model.condition(**dict(zip(seen, Y, strict=True)))
    with fb.represent(F=made_of(name, jax.random.key(0))):
        draws = post.infer(jax.random.key(1), draws=DRAWS, chains=1, log_likelihood=False, predictive=False).posterior
        means = [float(draws[site].mean()) for site in ("F_1", "F_2", "F_3")]
        assert means == pytest.approx(exact().smooth, abs=ERRORS[name][1] + 4 * 0.6 / np.sqrt(DRAWS))
        if name != "Grid":
            with pytest.raises(Intractable, match="argmax of a sequence"):
                post.map()
            return
        best, path = post.map(), chain(Y).argmax()
    positions, labels = [best.F, best.F_1, best.F_2, best.F_3], [best.S, best.S_1, best.S_2, best.S_3]
    assert positions == pytest.approx([path["F"], *path["F_next"]], abs=1e-9)
    assert labels == [path["S"], *path["S_next"]]
