"""Questions to linearised chains and models: every door, both precisions, batches, draws, slopes and learning."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.base.arrays import double_precision
from fubini.errors import Intractable

STEPS = 8
RANDOM = np.random.default_rng(1)
Y = RANDOM.normal(size=(2, STEPS)) * 0.5
X, X_NEXT = fb.Variable("x", fb.Real), fb.Variable("x_next", fb.Real)


def chain(y: np.ndarray, noise: float = 0.4, engine: Callable = np.asarray) -> fb.Chain:
    """A level that is drawn back, whose exponential is seen; y may have an axis of sequences in front."""
    move = dist.Normal(X - 0.3 * fb.ops.sin(X), noise)("x_next")
    seen = dist.Normal(fb.ops.exp(X_NEXT) - 1.0, 0.5)(fb.Array(engine(y), ("b", "t")[-np.ndim(y) :]))
    return fb.Chain(init=dist.Normal(0.2, 0.7)("x"), factor=move * seen, time="t", step={"x": "x_next"})


def level(noise: float, n: int) -> fb.Joint:
    """The same as a model, which has a state before the first observation too."""

    @fb.model
    def model(noise, n):
        x = yield dist.Markov(dist.Normal(0.2, 0.7), lambda x: dist.Normal(x - 0.3 * jnp.sin(x), noise), n + 1)
        y = yield dist.Normal(jnp.exp(x[1:]) - 1.0, 0.5)

    return model(noise, n)


def test_a_model_and_a_chain() -> None:
    """Evidence, marginals, and the most probable path, eager, under jit, then eager again."""
    post, own = level(0.4, STEPS).condition(y=Y[0]), chain(Y[0])
    with fb.linearize():
        first, smooth, best = own.log_evidence(), own.smooth(), own.argmax()
        traced = jax.jit(lambda y: chain(y, engine=jnp.asarray).log_evidence().data)(jnp.asarray(Y[0]))
        again = own.log_evidence()
        of_model, marginal, path = post.log_evidence(), post.marginal("x"), post.map()
    assert float(first) == float(again)
    np.testing.assert_allclose(float(of_model), float(first), rtol=1e-12)
    np.testing.assert_allclose(traced, float(first), rtol=1e-5)
    means = np.append(smooth.initial.mean("x").data, smooth.mean("x_next").data)
    np.testing.assert_allclose(marginal.mean("x").data, means, rtol=1e-10)
    np.testing.assert_allclose(path.x, means, rtol=1e-8)
    np.testing.assert_allclose(np.append(best["x"], best["x_next"]), means, rtol=1e-8)


@pytest.mark.parametrize(
    "own", [pytest.param(fb.linearize(iterations=2), marks=pytest.mark.slow), fb.unscented()], ids=str
)
def test_batches_and_single_precision(own: fb.Interpretation) -> None:
    """Several sequences at once are each alone, and single precision agrees with double."""
    with own:
        every = chain(Y).smooth()
        alone = [chain(y).smooth() for y in Y]
        single = chain(Y.astype(np.float32), engine=jnp.asarray).smooth()
    own_means = every.mean("x_next").data
    assert every.inputs["b"] == fb.Bint[2]
    means = np.stack([each.mean("x_next").data for each in alone])
    order = [name for name in every.inputs if name in ("t", "b")]
    np.testing.assert_allclose(own_means if order == ["b", "t"] else own_means.T, means, rtol=1e-10)
    assert single.mean("x_next").data.dtype == np.float32
    np.testing.assert_allclose(single.mean("x_next").data, own_means, rtol=2e-5, atol=1e-6)


def test_a_linear_chain() -> None:
    """One that is read as linear stays exact; one that is not read as such has the same answers."""
    same = fb.lift(lambda x: jnp.where(x > -jnp.inf, 0.8 * x + 0.1, jnp.nan))

    def linear(function: Callable) -> fb.Chain:
        step = dist.Normal(function(X), 0.5)("x_next") * dist.Normal(function(X_NEXT), 0.3)(fb.Array(Y[0], ("t",)))
        return fb.Chain(init=dist.Normal(1.0, 2.0)("x"), factor=step, time="t", step={"x": "x_next"})

    plain = linear(lambda x: 0.8 * x + 0.1)
    expected = plain.smooth()
    for own in (fb.linearize(), fb.unscented(alpha=0.7, beta=2.0), fb.linearize(iterations=2)):
        with own:
            assert plain.smooth().exactness.is_exact
            found, log_evidence = linear(same).smooth(), linear(same).log_evidence()
        assert found.exactness.marks == (f"projected({own})",)
        np.testing.assert_allclose(found.mean("x_next").data, expected.mean("x_next").data, atol=1e-9)
        np.testing.assert_allclose(found.variance("x_next").data, expected.variance("x_next").data, atol=1e-9)
        np.testing.assert_allclose(float(log_evidence), float(plain.log_evidence()), rtol=1e-9)


def test_pairs_draws_and_lags() -> None:
    """Pairs and draws have the moments of the smoother; a lag goes by the filter's linear steps."""
    own = chain(Y[0])
    with fb.linearize():
        smooth, draws, lagged = own.smooth(), own.sample(jax.random.key(0), 4000), own.smooth(lag=STEPS)
        pairs = smooth.pairs
    np.testing.assert_allclose(pairs.sum("x").mean("x_next").data, smooth.mean("x_next").data, rtol=1e-9)
    np.testing.assert_allclose(lagged.mean("x_next").data, smooth.mean("x_next").data, rtol=1e-9)
    spread = np.sqrt(smooth.variance("x_next").data)
    assert np.max(np.abs(draws["x_next"].mean(0) - smooth.mean("x_next").data) / spread) < 4.5 / np.sqrt(4000)
    np.testing.assert_allclose(draws["x_next"].std(0), spread, rtol=0.06)


def test_slopes_and_fit() -> None:
    """The slope of the evidence in a parameter, by differences; a parameter that is learnt has none."""
    with fb.linearize():
        with double_precision():
            slope = jax.jit(jax.grad(lambda noise: chain(Y[0], noise, jnp.asarray).log_evidence().data))(0.4)
        step = 1e-5
        ends = [float(chain(Y[0], 0.4 + side * step).log_evidence()) for side in (1, -1)]
        np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * step), rtol=1e-7)
        fitted = fb.fit(level(fb.param(0.4, fb.Positive), STEPS).condition(y=Y[0]), steps=60, progress=False)
        value = float(fitted.params["noise"])
        begin, end = (float(chain(Y[0], noise).log_evidence()) for noise in (0.4, value))
        with pytest.raises(Intractable, match="expectation–maximisation"):
            fb.fit(level(fb.param(0.4, fb.Positive), STEPS).condition(y=Y[0]), method="em", progress=False)
    np.testing.assert_allclose(fitted.history[[0, -1]], [begin, end], atol=2e-3)
    assert np.all(np.diff(fitted.history) > 0)


@pytest.mark.slow
def test_predict_and_infer() -> None:
    """Draws of a forecast, whose entries are missing: further from the data than those that were seen."""
    y = np.ma.masked_array(np.append(Y[0], [0.0, 0.0]), np.arange(STEPS + 2) >= STEPS)
    with fb.unscented():
        post = level(0.4, STEPS + 2).condition(y=y)
        draws = post.infer(jax.random.key(0), draws=300, chains=1)
        later = post.predict(jax.random.key(1), "y", draws=300)
        said = str(fb.explain(post))
    found = draws.posterior["x"].values[0]
    assert found.shape == (300, STEPS + 3) and np.std(found[:, -1]) > np.std(found[:, STEPS])
    assert np.shape(later) == (300, STEPS + 2)
    assert "unscented(): densities that are not linear, by sigma points of the filter's states" in said
    assert "projected(unscented())" in said and "each step" in said


def test_counts_by_their_moments() -> None:
    """A Poisson number with a mean of exp(x): one step by hand."""
    count = fb.Array(np.array([3]), ("t",))
    step = dist.Normal(X, 0.4)("x_next") * dist.Poisson(fb.ops.exp(X_NEXT))(count)
    own = fb.Chain(init=dist.Normal(0.2, 0.7)("x"), factor=step, time="t", step={"x": "x_next"})
    P, rate = 0.49 + 0.16, np.exp(0.2)
    S = rate**2 * P + rate
    with fb.linearize():
        found = own.filter()
    np.testing.assert_allclose(found.mean("x_next").data, [0.2 + P * rate / S * (3 - rate)], rtol=1e-9)
    np.testing.assert_allclose(found.variance("x_next").data, [P - (P * rate) ** 2 / S], rtol=1e-9)


def test_a_refusal_names_what_would_answer() -> None:
    """Without a projection there is no closed form, and the error says which projections there are."""
    post = level(0.4, STEPS).condition(y=Y[0])
    for ask in (post.log_evidence, lambda: post.marginal("x")):
        with pytest.raises(Intractable, match=r"fb\.linearize\(\).* or .*fb\.unscented\(\)"):
            ask()
