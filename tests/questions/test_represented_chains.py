"""Models whose sites are arrays along time, under fb.represent: the numbers of the chain of the same factors."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as numpyro_dist
import pytest
from numpyro.contrib.control_flow import scan

import fubini as fb
from fubini import dist

Y, SIDE = np.array([0.4, -0.9, 1.3]), np.array([1, 0, 1])
MOVE, PUSH = np.array([[0.8, 0.2], [0.3, 0.7]]), np.array([0.5, -0.5])
TELLS = np.array([[0.9, 0.1], [0.1, 0.9]])  # of the side, to the left and to the right of 0
REPRESENTATIONS = {
    "Truncated": fb.rep.Truncated(),
    "Mixture": fb.rep.Mixture(2),
    "Particles": fb.rep.Particles(20, jax.random.key(0)),
    "Grid": fb.rep.Grid((-6, 6), 60),
}


@fb.model
def pushed(n: int):
    s = yield dist.Markov(dist.Categorical(jnp.array([0.5, 0.5])), lambda s: dist.Categorical(jnp.asarray(MOVE)[s]), n)
    x = yield dist.Markov(dist.Normal(0.0, 1.0), lambda x, t: dist.Normal(x + jnp.asarray(PUSH)[s[t - 1]], 0.4), n)
    y = yield dist.Normal(x, 0.7)
    side = yield dist.Categorical(probs=jnp.asarray(TELLS)[jnp.where(x > 0, 1, 0)])


@fb.model
def walked(n: int):
    x = yield dist.Markov(dist.Normal(0.0, 1.0), lambda x: dist.Normal(0.9 * x, 0.4), n)
    y = yield dist.Normal(x, 0.7)
    side = yield dist.Categorical(probs=jnp.asarray(TELLS)[jnp.where(x > 0, 1, 0)])


def seen(x: fb.Value, y: Any, side: fb.Value) -> fb.Factor:
    right = fb.ops.where(x > 0.0, 1, 0)
    return dist.Normal(x, 0.7)(y) * dist.Categorical(probs=fb.Array(TELLS, ("q",))(q=right))(side)


@cache
def chain(is_pushed: bool = True) -> fb.Chain:
    x, x_next = fb.Variable("x", fb.Real), fb.Variable("x_next", fb.Real)
    move, start, step = dist.Normal(0.9 * x, 0.4)("x_next"), dist.Normal(0.0, 1.0)("x"), {"x": "x_next"}
    if is_pushed:
        move = dist.Normal(x + fb.Array(PUSH, ("s",)), 0.4)("x_next") * fb.Table(MOVE, ("s", "s_next"))
        start, step = start * fb.Table([0.5, 0.5], ("s",)), {"s": "s_next", **step}
    later = seen(x_next, fb.Array(Y[1:], ("t",)), fb.Array(SIDE[1:], ("t",), fb.Bint[2]))
    return fb.Chain(
        init=start * seen(x, Y[0], fb.Array(SIDE[0], (), fb.Bint[2])),
        factor=move * later,
        time="t",
        step=step,
    )


@cache
def posterior(is_pushed: bool = True) -> Any:
    return (pushed(3) if is_pushed else walked(3)).condition(y=Y, side=SIDE)


@pytest.mark.parametrize("name", REPRESENTATIONS)
def test_evidence_is_that_of_the_chain(name: str) -> None:
    is_pushed = name in ("Truncated", "Grid")
    with fb.represent(x=REPRESENTATIONS[name]):
        answer, expected = posterior(is_pushed).log_evidence(), chain(is_pushed).log_evidence()
    assert float(answer) == pytest.approx(float(expected), abs=1e-9)
    assert answer.exactness == expected.exactness


def test_evidence_under_jit() -> None:
    def log_evidence(y: jax.Array) -> jax.Array:
        with fb.represent(x=fb.rep.Truncated()):
            return walked(3).condition(y=y, side=SIDE).log_evidence().data

    with fb.represent(x=fb.rep.Truncated()):
        expected = float(posterior(False).log_evidence())
    assert float(jax.jit(log_evidence)(jnp.asarray(Y))) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("name", ["Truncated", "Grid"])
def test_marginals_are_those_of_the_smoother(name: str) -> None:
    with fb.represent(x=REPRESENTATIONS[name]):
        x, s, smooth = posterior().marginal("x"), posterior().marginal("s"), chain().smooth()
    assert x.inputs == {"x_place": fb.Bint[3], "x": fb.Real}
    means = [float(smooth.initial.sum("s").mean("x").data), *smooth.sum("s_next").mean("x_next").data]
    assert x.mean("x").data == pytest.approx(means, abs=1e-9)
    assert x.variance("x").data[1:] == pytest.approx(smooth.sum("s_next").variance("x_next").data, abs=1e-9)
    labels = [smooth.initial.sum("x").log().data, *smooth.sum("x_next").log().data]
    assert s.log().data == pytest.approx(np.array(labels), abs=1e-9)


@pytest.mark.parametrize("name", ["Mixture", "Particles"])
def test_marginals_of_one_state_are_those_of_the_smoother(name: str) -> None:
    with fb.represent(x=REPRESENTATIONS[name]):
        x, smooth = posterior(False).marginal("x"), chain(False).smooth()
    assert x.exactness == smooth.exactness
    assert x.mean("x").data == pytest.approx([smooth.initial.mean("x").data, *smooth.mean("x_next").data], abs=1e-9)
    assert x.variance("x").data[1:] == pytest.approx(smooth.variance("x_next").data, abs=1e-9)


DRAWN = [fb.rep.Truncated(), fb.rep.Mixture(2), fb.rep.Grid((-6, 6), 240), fb.rep.Particles(1000, jax.random.key(0))]


@pytest.mark.parametrize("rep", DRAWN, ids=repr)
def test_draws_have_the_moments_of_the_marginals(rep: Any) -> None:
    with fb.represent(x=rep):
        post, expected = posterior(False), posterior(False).marginal("x")
        data = post.infer(jax.random.key(0), draws=1000, chains=2, log_likelihood=False, predictive=False)
        predictions = post.predict(jax.random.key(1), "y", draws=2000)
    draws = np.asarray(data.posterior["x"])
    deviations = np.sqrt(expected.variance("x").data)
    assert draws.shape == (2, 1000, 3)
    assert np.abs(draws.mean((0, 1)) - expected.mean("x").data).max() < 4 * deviations.max() / np.sqrt(2000)
    assert data.posterior.attrs["method"] == "backward sampling"
    assert predictions.mean(0) == pytest.approx(expected.mean("x").data, abs=0.1)


def test_the_best_path_on_a_grid() -> None:
    with fb.represent(x=fb.rep.Grid((-6, 6), 60)):
        values, expected = posterior().map(), chain().argmax()
    assert values.x.tolist() == [expected["x"], *expected["x_next"]]
    assert values.s.tolist() == [expected["s"], *expected["s_next"]]


# -- oracles that are no chain ----------------------------------------------------------------------------------------


@fb.model
def missing():
    x = yield dist.Markov(dist.Normal(0.0, 1.0), lambda x: dist.Normal(0.9 * x, 0.4), 3)
    y = yield dist.Normal(x, 0.7)


@fb.model
def differences():
    turned = jnp.array([[0.9, 0.2], [-0.1, 0.8]])
    x = yield dist.Markov(
        dist.Normal(jnp.zeros(2), 1.0).to_event(1),
        lambda x: dist.MultivariateNormal(turned @ x, 0.4 * jnp.eye(2)),
        3,
    )
    y = yield dist.Normal(x[:, 0], 0.7).mask(jnp.array([True, False, True]))
    d = yield dist.Normal(x[1:, 1] - x[:-1, 1], 0.3)


@fb.model
def parameters():
    m = yield dist.Normal(0.0, 1.0)
    k = yield dist.Categorical(probs=jnp.array([0.3, 0.7]))
    x = yield dist.Markov(dist.Normal(m, 1.0), lambda x: dist.Normal(0.9 * x + m, 0.4), 3)
    y = yield dist.Normal(x + jnp.array([0.0, 1.0])[k], 0.7)


LINEAR = {
    "missing entries": missing().condition(y=np.ma.masked_invalid([0.4, np.nan, 1.3])),
    "differences, masks and vectors": differences().condition(y=Y, d=Y[1:]),
    "parameters of all steps": parameters().condition(y=Y),
}


@pytest.mark.parametrize("name", LINEAR)
def test_without_cuts_the_exact_answers(name: str) -> None:
    post = LINEAR[name]
    with fb.represent(x=fb.rep.Truncated()):
        answer = float(post.log_evidence())
    assert answer == pytest.approx(float(post.log_evidence()), abs=1e-9)


def test_marginals_without_cuts() -> None:
    post = LINEAR["missing entries"]
    with fb.represent(x=fb.rep.Truncated()):
        marginal = post.marginal("x")
    assert marginal.mean("x").data == pytest.approx(post.marginal("x").mean("x").data, abs=1e-9)
    assert marginal.variance("x").data == pytest.approx(post.marginal("x").variance("x").data, abs=1e-9)


def test_the_marginal_of_a_parameter_of_all_steps() -> None:
    post = LINEAR["parameters of all steps"]
    with fb.represent(x=fb.rep.Truncated()):
        marginal = post.marginal("k")
    parts = [float(post.condition(k=k).log_evidence()) for k in (0, 1)]
    assert marginal.log().data == pytest.approx(np.array(parts) - np.logaddexp(*parts), abs=1e-9)


def scanned(y: np.ndarray) -> None:
    """The label follows the position, and pushes the next one."""

    def step(state: Any, value: Any) -> Any:
        x = numpyro.sample("x", numpyro_dist.Normal(state[0] + jnp.asarray(PUSH)[state[1]], 0.4))
        s = numpyro.sample("s", numpyro_dist.Categorical(probs=jnp.asarray(TELLS)[jnp.where(x > 0, 1, 0)]))
        numpyro.sample("y", numpyro_dist.Normal(x, 0.7), obs=value)
        return (x, s), None

    start = numpyro.sample("x0", numpyro_dist.Normal(0.0, 1.0))
    scan(step, (start, 0), y)


def test_a_scan_of_numpyro() -> None:
    x, x_next = fb.Variable("x", fb.Real), fb.Variable("x_next", fb.Real)

    def link(x: fb.Value, name: str) -> fb.Factor:
        return dist.Categorical(probs=fb.Array(TELLS, ("q",))(q=fb.ops.where(x > 0.0, 1, 0)))(name)

    move = dist.Normal(x + fb.Array(PUSH, ("s",)), 0.4)("x_next")
    same = fb.Chain(
        init=dist.Normal(PUSH[0], np.sqrt(1.16))("x") * link(x, "s") * dist.Normal(x, 0.7)(Y[0]),
        factor=move * link(x_next, "s_next") * dist.Normal(x_next, 0.7)(fb.Array(Y[1:], ("t",))),
        time="t",
        step={"x": "x_next", "s": "s_next"},
    )
    post = fb.from_numpyro(scanned, Y)
    with fb.represent(x=fb.rep.Grid((-6, 6), 60)):
        assert float(post.log_evidence()) == pytest.approx(float(same.log_evidence()), abs=1e-9)
        with pytest.raises(fb.FubiniError, match="one of the states of the chain: 'x', 's'"):
            post.marginal("x0")
        with pytest.raises(fb.FubiniError, match="draws of 'x0'"):
            post.infer(jax.random.key(0))


def test_weights_along_time() -> None:
    def smooth(y: np.ndarray) -> None:
        _, x = scan(lambda x, _: (numpyro.sample("x", numpyro_dist.Normal(x, 1.0)),) * 2, 0.0, None, length=3)
        numpyro.factor("near", -jnp.sum((x[1:] - x[:-1]) ** 2) - 0.1 * jnp.sum(x**2))
        numpyro.sample("y", numpyro_dist.Normal(x, 0.7), obs=y)

    post = fb.from_numpyro(smooth, Y)
    with fb.represent(x=fb.rep.Grid((-6, 6), 240)):
        answer = float(post.log_evidence())
    assert answer == pytest.approx(float(post.log_evidence()), abs=1e-3)


def test_finite_chains_in_a_sparse_table() -> None:
    @fb.model
    def switched():
        z = yield dist.Markov(
            dist.Categorical(jnp.array([0.5, 0.5])), lambda z: dist.Categorical(jnp.asarray(MOVE)[z]), 3
        )
        y = yield dist.Normal(jnp.asarray(PUSH)[z], 1.0)

    post = switched().condition(y=Y)
    with fb.represent(z=fb.rep.Sparse(8)):
        answer = float(post.log_evidence())
    assert answer == pytest.approx(float(post.log_evidence()), abs=1e-9)


def test_new_data_compile_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with fb.represent(x=fb.rep.Truncated()):
        before = float(posterior().log_evidence())
        monkeypatch.setattr("fubini.sequence.chain_questions.through", None)  # nothing is traced anew
        assert float(pushed(3).condition(y=Y + 0.1, side=SIDE).log_evidence()) != before


# -- errors -----------------------------------------------------------------------------------------------------------


def test_questions_without_an_answer() -> None:
    post = posterior()
    with fb.represent(x=fb.rep.Truncated()):
        with pytest.raises(fb.FubiniError, match=r"infer\(key\) draws them together"):
            post.posterior()
        for own in ("Truncated", "Mixture", "Particles"):
            with fb.exact, fb.represent(x=REPRESENTATIONS[own]), pytest.raises(fb.FubiniError, match="argmax of a seq"):
                post.map()
        with pytest.raises(fb.FubiniError, match=r"fb\.sum_product"):
            post.log_evidence(fb.max_product)
        with pytest.raises(fb.FubiniError, match="draws are independent"):
            post.infer(jax.random.key(0), method="nuts")
    with fb.represent(z=fb.rep.Truncated()), pytest.raises(fb.FubiniError, match="sites of it: 's', 'x'"):
        post.log_evidence()


def test_a_site_that_couples_distant_times() -> None:
    @fb.model
    def ends():
        x = yield dist.Markov(dist.Normal(0.0, 1.0), lambda x: dist.Normal(0.9 * x, 0.4), 4)
        y = yield dist.Normal(x[0] - x[3], 0.7)

    with (
        fb.represent(x=fb.rep.Truncated()),
        pytest.raises(fb.FubiniError, match="the site 'y' as factors along time") as error,
    ):
        ends().condition(y=0.3).log_evidence()
    assert "x[3]" in str(error.value) and "fb.Chain" in str(error.value)
