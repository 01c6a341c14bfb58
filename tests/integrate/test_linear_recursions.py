"""Long linear recursions of `lax.scan`: solved step by step, as by the matrix that they stand for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import multivariate_normal, norm, poisson

import fubini as fb
from fubini import dist
from fubini.errors import Intractable
from fubini.factors.recursion_gaussian import RecursionGaussian
from fubini.models.eliminated_model import eliminated
from fubini.models.flat_model import FlatModel
from fubini.read import recursions

RANDOM = np.random.default_rng(20)
T, NOISE, SCALE = 9, 0.5, 1.3
X = RANDOM.normal(size=(T, 2))
TURN = np.array([[0.5, 0.25], [-0.125, 0.875]])


def states(step, start, slices, **options):
    return jax.lax.scan(step, start, slices, **options)[1]


def regression(b):
    return X.copy() @ b  # JAX remembers in which precision it first saw an array


def first_order(e, start=0.0, **options):
    return states(lambda x, e: (0.8 * x + e,) * 2, start, e, **options)


def second_order(e, b):
    def step(state, e):
        x = 0.5 * state[0] + 0.2 * state[1] + e
        return (x, state[0]), x

    return states(step, (b[0], 2 * b[1]), e)


def moving_average(e, b):
    def step(state, e):
        u = 0.7 * state[0] + e + 0.4 * state[1]
        return (u, e), u

    return regression(b) + states(step, (0.0, 0.0), e)


def counted(e, b):
    """The state has a part that no latent moves."""
    return states(lambda s, e: ((0.1 * s[1] * s[0] + e, s[1] + 1.0), s[0] - e), (b[0], 0.0), e)


def vectors(e, b):
    return states(lambda x, e: (TURN @ x + e,) * 2, jnp.zeros(2), jnp.stack([e, 2 * e], 1))


PROGRAMS = {  # of T noises, and two coefficients
    "the second order": second_order,
    "errors with a moving average": moving_average,
    "backwards": lambda e, b: first_order(e, 1.0, reverse=True) + b[0],
    "the last state": lambda e, b: jax.lax.scan(lambda x, e: (0.5 * x + e, None), b[0], e)[0] * jnp.ones(1),
    "noise and a regression go in": lambda e, b: first_order(0.7 * e + regression(b)),
    "known slopes": lambda e, b: states(lambda x, here: (here[1] * x + here[0],) * 2, b[0], (e, X[:, 0])),
    "a slice": lambda e, b: first_order(e, b[0])[2:7],
    "every second": lambda e, b: first_order(e, b[0])[1::2],
    "what goes in beside what comes out": lambda e, b: first_order(e) + 0.3 * e + b[1],
    "two recursions": lambda e, b: first_order(e) - states(lambda x, e: (x + e,) * 2, b[0], e),
    "a state that is counted": counted,
    "a sum of vectors": lambda e, b: vectors(e, b) @ jnp.array([1.0, -0.5]) + b[0],
    "vectors": lambda e, b: vectors(e, b) + b,
}


@pytest.fixture
def by_recursion(monkeypatch):
    monkeypatch.setattr(recursions, "SHORT", 0)


def model(name):
    @fb.model
    def latents(scale):
        b = yield dist.Normal(0.0, 1.0).expand([2])
        e = yield dist.Normal(0.0, scale).expand([T])
        y = yield dist.Normal(PROGRAMS[name](e, b), NOISE)

    return latents


def by_matrix(name, scale=SCALE):
    """The mean and the covariance of the latents, and the offset and matrix of what is observed, by derivatives."""
    with jax.enable_x64(True):
        function = lambda z: jnp.ravel(PROGRAMS[name](z[:T], z[T:]))  # noqa: E731
        offset, matrix = (np.asarray(part(jnp.zeros(T + 2))) for part in (function, jax.jacfwd(function)))
    return offset, matrix, np.diag(np.r_[np.full(T, scale**2), 1.0, 1.0])


def log_evidence(name, y, scale=SCALE):
    offset, matrix, prior = by_matrix(name, scale)
    return multivariate_normal.logpdf(y, offset, matrix @ prior @ matrix.T + NOISE**2 * np.eye(len(offset)))


def is_by_recursion(post):
    (step,) = eliminated(FlatModel(post)).plan.integrals
    return step.result.layout.frame.recursions is not None


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_evidence_and_moments(name, by_recursion):
    offset, matrix, prior = by_matrix(name)
    y = offset + RANDOM.normal(size=len(offset))
    shape = jax.eval_shape(PROGRAMS[name], np.zeros(T), np.zeros(2)).shape
    post = model(name)(SCALE).condition(y=y.reshape(shape))
    assert is_by_recursion(post)
    assert float(post.log_evidence()) == pytest.approx(log_evidence(name, y), rel=1e-10)
    gain = prior @ matrix.T @ np.linalg.inv(matrix @ prior @ matrix.T + NOISE**2 * np.eye(len(y)))
    mean, variance = gain @ (y - offset), np.diag(prior - gain @ matrix @ prior)
    marginal = post.marginal("e")
    np.testing.assert_allclose(marginal.mean("e").data, mean[:T], atol=1e-10)
    np.testing.assert_allclose(marginal.variance("e").data, variance[:T], rtol=1e-10)
    np.testing.assert_allclose(post.marginal("b").mean("b").data, mean[T:], atol=1e-10)


def test_two_steps_at_once_are_by_the_matrix(by_recursion):
    """What no step has alone is solved by the matrix, where this has few entries."""
    random = np.random.default_rng(1)
    y = random.normal(size=T - 1)

    @fb.model
    def differences():
        e = yield dist.Normal(0.0, SCALE).expand([T])
        y = yield dist.Normal(jnp.diff(first_order(e)), NOISE)

    powers = np.arange(T)[:, None] - np.arange(T)
    matrix = np.diff(np.where(powers >= 0, 0.8 ** np.abs(powers), 0.0), axis=0)
    covariance = SCALE**2 * matrix @ matrix.T + NOISE**2 * np.eye(T - 1)
    post = differences().condition(y=y)
    assert not is_by_recursion(post)
    assert float(post.log_evidence()) == pytest.approx(multivariate_normal.logpdf(y, cov=covariance), rel=1e-10)


# -- many steps -----------------------------------------------------------------------------------------------------

LONG = 2_100
DATA = np.random.default_rng(4).normal(size=LONG)


@fb.model
def autoregression(length=LONG, slope=0.8, noise=NOISE):
    e = yield dist.Normal(0.0, SCALE).expand([length])
    y = yield dist.Normal(states(lambda x, e: (slope * x + e,) * 2, 0.0, e), noise)


def kalman(y, slope=0.8, noise=NOISE):
    """log p(y), and the mean and the variance of the last state given all of y."""
    mean, variance, log_p = 0.0, 0.0, 0.0
    for value in y:
        mean, variance = slope * mean, slope**2 * variance + SCALE**2
        spread = variance + noise**2
        log_p -= 0.5 * (np.log(2 * np.pi * spread) + (value - mean) ** 2 / spread)
        gain = variance / spread
        mean, variance = mean + gain * (value - mean), (1 - gain) * variance
    return log_p, mean, variance


@pytest.mark.parametrize("asarray", [np.asarray, jnp.asarray], ids=["NumPy", "JAX"])
def test_evidence_of_a_long_series(asarray):
    """Eager, compiled, and eager again, as by a Kalman filter."""
    y, exact = asarray(DATA), kalman(DATA)[0]
    tolerance = 1e-10 if asarray is np.asarray else 1e-6
    first = autoregression().condition(y=y).log_evidence()
    assert first.exactness.is_exact
    assert float(first) == pytest.approx(exact, rel=tolerance)
    compiled = jax.jit(lambda y: autoregression().condition(y=y).log_evidence().data)
    assert float(compiled(jnp.asarray(DATA))) == pytest.approx(exact, rel=2e-6)
    assert float(autoregression().condition(y=y).log_evidence()) == pytest.approx(exact, rel=tolerance)


def test_gradient_of_a_long_series():
    def evidence(numbers):
        return autoregression(LONG, *numbers).condition(y=jnp.asarray(DATA)).log_evidence().data

    with jax.enable_x64(True):
        found = jax.jit(jax.grad(evidence))(jnp.array([0.8, NOISE]))
    h = 1e-5
    for slope, step in zip(found, np.eye(2) * h, strict=True):
        ahead, behind = (kalman(DATA, *(np.array([0.8, NOISE]) + sign * step))[0] for sign in (1, -1))
        assert float(slope) == pytest.approx((ahead - behind) / (2 * h), rel=1e-6)


def test_posterior_of_a_long_series():
    """Moments, the density, and draws; p(e | y) = p(e) p(y | e) / p(y)."""
    post = autoregression().condition(y=DATA)
    marginal = post.marginal("e")
    assert isinstance(marginal, RecursionGaussian) and marginal.exactness.is_exact
    powers = np.arange(LONG)[:, None] - np.arange(LONG)
    matrix = SCALE * np.where(powers >= 0, 0.8 ** np.abs(powers), 0.0)
    gain = np.linalg.solve(matrix @ matrix.T + NOISE**2 * np.eye(LONG), SCALE * matrix).T
    mean, variance = gain @ DATA, SCALE**2 - SCALE * np.sum(gain * matrix.T, axis=1)
    np.testing.assert_allclose(marginal.mean("e").data, mean, atol=1e-10)
    np.testing.assert_allclose(marginal.variance("e").data, variance, rtol=1e-9)
    e = 0.1 * DATA
    density = norm.logpdf(e, 0, SCALE).sum() + norm.logpdf(DATA, matrix @ e / SCALE, NOISE).sum() - kalman(DATA)[0]
    assert float(marginal.log()(e=e)) == pytest.approx(density, rel=1e-9)
    draws = np.asarray(post.posterior().sample(jax.random.key(1), n=400)["e"])
    assert np.abs((draws.mean(axis=0) - mean) / np.sqrt(variance)).max() < 5 / np.sqrt(400)
    np.testing.assert_allclose((draws.var(axis=0) / variance).mean(), 1.0, atol=0.02)
    assert "through a linear recursion of 2,100 steps" in str(fb.explain(post))


def test_unknown_slope():
    """With the noise integrated out, the density of the slope is that of a Kalman filter."""

    @fb.model
    def unknown():
        slope = yield dist.Uniform(-1.0, 1.0)
        e = yield dist.Normal(0.0, SCALE).expand([LONG])
        y = yield dist.Normal(states(lambda x, e: (slope * x + e,) * 2, 0.0, e), NOISE)

    left = unknown().condition(y=DATA).eliminate("e")
    for slope in (-0.5, 0.8):
        assert float(left.log_prob(slope=slope)) == pytest.approx(kalman(DATA, slope)[0] - np.log(2), rel=1e-6)


def test_forecast():
    """Later states and data follow from the last one."""
    _, mean, variance = kalman(DATA)
    post, longer = autoregression().condition(y=DATA), autoregression(LONG + 2)
    drawn = np.asarray(post.predict(jax.random.key(2), "y", draws=1000, model=longer))[:, -2:]
    for place in range(2):
        mean, variance = 0.8 * mean, 0.64 * variance + SCALE**2
        spread = np.sqrt(variance + NOISE**2)
        assert abs(drawn[:, place].mean() - mean) < 5 * spread / np.sqrt(1000)
        assert drawn[:, place].std() == pytest.approx(spread, rel=0.1)


def test_other_data_of_a_long_series():
    """No closed form: the density is computed through the recursion."""

    @fb.model
    def counts():
        e = yield dist.Normal(0.0, 0.1).expand([LONG])
        y = yield dist.Poisson(jnp.exp(first_order(e)))

    e, y = 0.1 * DATA, np.ones(LONG)
    found = float(counts().condition(y=y).log_prob(e=e))
    rate = np.exp(lfilter([1.0], [1.0, -0.8], e))
    assert found == pytest.approx(norm.logpdf(e, 0, 0.1).sum() + poisson.logpmf(y, rate).sum(), rel=1e-5)


def test_a_long_series_as_factors():
    e = fb.Variable("e", fb.Reals[LONG])
    joint = dist.Normal(0.0, SCALE).expand([LONG])("e") * dist.Normal(fb.lift(first_order)(e), NOISE)(DATA)
    assert float(joint.sum("e").log()) == pytest.approx(kalman(DATA)[0], rel=1e-10)


def test_several_steps_at_once_are_refused():
    @fb.model
    def differences():
        e = yield dist.Normal(0.0, SCALE).expand([LONG])
        y = yield dist.Normal(jnp.diff(first_order(e)), NOISE)

    with pytest.raises(Intractable) as error:
        differences().condition(y=DATA[1:]).log_evidence()
    for words in ("'e' has no closed form", "at one step in each normal density", "4,410,000 entries", "scan0[j"):
        assert words in str(error.value)
