"""Normal vectors whose covariance other latents decide, seen through their entries: by the covariance of the data."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import fubini as fb
from fubini import dist
from fubini.models.flat_model import FlatModel
from fubini.questions.draw_elimination import elimination_for_draws

N = 9
RANDOM = np.random.default_rng(3)
X = np.sort(RANDOM.uniform(0.0, 3.0, N))
PLACES = np.array([0, 2, 2, 8, 4, 5, 1, 0, 7, 3])
Y = np.sin(X[PLACES]) + 0.2 * RANDOM.normal(size=len(PLACES))
WEIGHTS = RANDOM.uniform(0.5, 2.0, size=len(PLACES))
TRUTH = {"length": 0.8, "noise": 0.3}


def kernel(length, xp=jnp):
    return xp.exp(-0.5 * ((X[:, None] - X) / length) ** 2) + 1e-5 * xp.eye(N)


@fb.model
def seen(places, weights):
    """Some of the entries, one twice, each with a slope; and a mean."""
    length = yield dist.Gamma(4.0, 4.0)
    noise = yield dist.HalfNormal(1.0)
    f = yield dist.MultivariateNormal(0.3 * X, kernel(length))
    y = yield dist.Normal(weights * f[places] + 0.1, noise * weights)


@fb.model
def scaled():
    """The noise and the variance of the process go together."""
    variance = yield dist.InverseGamma(3.0, 1.0)
    length = yield dist.Gamma(4.0, 4.0)
    f = yield dist.MultivariateNormal(jnp.zeros(N), variance * kernel(length))
    y = yield dist.Normal(f, 0.4 * jnp.sqrt(variance))


def by_hand(length, noise):
    H = WEIGHTS[:, None] * np.eye(N)[PLACES]
    covariance = H @ kernel(length, np) @ H.T + np.diag((noise * WEIGHTS) ** 2)
    prior = stats.gamma(4, scale=0.25).logpdf(length) + stats.halfnorm.logpdf(noise)
    return prior + stats.multivariate_normal(H @ (0.3 * X) + 0.1, covariance).logpdf(Y)


@pytest.fixture(scope="module")
def post():
    return seen(PLACES, WEIGHTS).condition(y=Y)


def is_whitened(model):
    (step,) = (s.integral for s in elimination_for_draws(FlatModel(model)).plan.steps if "f" in s.integral.names)
    return step.result.layout.frame.is_whitened


def log_density(post):
    """The log density of the length and the noise, with the process integrated out."""
    eliminated = post.eliminate("f")
    return lambda length, noise: eliminated.log_prob(length=length, noise=noise)


def test_it_is_used(post):
    assert is_whitened(post) and "by the covariance of the data" in str(post.explain())


def test_density_of_the_others(post):
    """Eager, jitted, eager again; in both precisions."""
    density = log_density(post)
    for wide in (False, True):
        with jax.enable_x64(wide):
            close = pytest.approx(by_hand(**TRUTH), rel=1e-9 if wide else 1e-4)
            point = jnp.array(list(TRUTH.values()))
            jitted = jax.jit(lambda point: density(*point))
            assert float(density(*point)) == close
            assert float(jitted(point)) == close and float(density(*TRUTH.values())) == close
    with jax.enable_x64(True):
        slopes = np.asarray(jax.jit(jax.grad(lambda point: density(*point)))(point))
    at = np.array(list(TRUTH.values()))
    for axis, step in enumerate(1e-6 * np.eye(2)):
        difference = (by_hand(*(at + step)) - by_hand(*(at - step))) / 2e-6
        assert float(slopes[axis]) == pytest.approx(difference, rel=1e-6)


def test_draws_of_the_process(post):
    """Given the others, its mean and covariance."""
    length, noise = TRUTH.values()
    others = {"length": np.full((1, 2000), length), "noise": np.full((1, 2000), noise)}
    drawn = np.asarray(post.recover(jax.random.key(0), others)["f"]).reshape(-1, N)
    H = np.eye(N)[PLACES]
    prior = kernel(length, np)
    gain = prior @ H.T @ np.linalg.inv(H @ prior @ H.T + noise**2 * np.eye(len(Y)))
    mean, covariance = 0.3 * X + gain @ ((Y - 0.1) / WEIGHTS - H @ (0.3 * X)), prior - gain @ H @ prior
    np.testing.assert_allclose(drawn.mean(0), mean, atol=5 * np.sqrt(np.diag(covariance).max() / 2000))
    np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=0.15 * np.diag(covariance).max())


def test_noise_that_scales_with_the_process():
    """A factor that all weights share stays in front of both."""
    post = scaled().condition(y=Y[:N])
    assert is_whitened(post)
    density = post.eliminate("f").log_prob(variance=0.6, length=0.8)
    covariance = 0.6 * (kernel(0.8, np) + 0.16 * np.eye(N))
    expected = stats.multivariate_normal(np.zeros(N), covariance).logpdf(Y[:N])
    expected += stats.gamma(4, scale=0.25).logpdf(0.8) + stats.invgamma(3, scale=1).logpdf(0.6)
    assert float(density) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    "case",
    {
        "few unknowns": lambda f: f[:2],
        "sums of entries": jnp.cumsum,
    }.items(),
    ids=lambda case: case[0],
)
def test_others_go_by_orthogonal_steps(case):
    """Where rows have several entries, or there are few unknowns."""
    name, transform = case
    n = 4 if name == "few unknowns" else N

    @fb.model
    def other():
        length = yield dist.Gamma(4.0, 4.0)
        f = yield dist.MultivariateNormal(jnp.zeros(n), kernel(length)[:n, :n])
        y = yield dist.Normal(transform(f), 0.5)

    H = np.asarray(jax.jacobian(transform)(jnp.zeros(n)))
    post = other().condition(y=Y[: len(H)])
    assert not is_whitened(post)
    covariance = H @ kernel(0.8, np)[:n, :n] @ H.T + 0.25 * np.eye(len(H))
    expected = stats.multivariate_normal(np.zeros(len(H)), covariance).logpdf(Y[: len(H)])
    expected += stats.gamma(4, scale=0.25).logpdf(0.8)
    assert float(post.eliminate("f").log_prob(length=0.8)) == pytest.approx(expected, rel=1e-4)
