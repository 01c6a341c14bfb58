"""Gaussian processes whose variance scales the noise too: Student's t, by every door, with slopes in the kernel."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as nd
import pytest
from scipy import integrate, stats

import fubini as fb
from fubini import dist
from fubini.errors import DataError

N = 5
X = np.linspace(0.0, 1.0, N)
RANDOM = np.random.default_rng(1)
Y = RANDOM.normal(size=N)
LENGTH, NOISE = 0.1, 0.3


def kernel(length, xp=np):
    return xp.exp(-0.5 * (X[:, None] - X) ** 2 / length) + 1e-4 * xp.eye(N)


@fb.model
def process(length=LENGTH, noise=NOISE):
    v = yield dist.InverseGamma(2.0, 1.0)
    f = yield dist.MultivariateNormal(jnp.zeros(N), v * kernel(length, jnp))
    y = yield dist.Normal(f, noise * jnp.sqrt(v))


def in_numpyro(length=LENGTH, noise=NOISE):
    v = numpyro.sample("v", nd.InverseGamma(2.0, 1.0))
    f = numpyro.sample("f", nd.MultivariateNormal(jnp.zeros(N), v * kernel(length, jnp)))
    numpyro.sample("y", nd.Normal(f, noise * jnp.sqrt(v)).to_event(1), obs=Y)


def observed_in_numpyro(length=LENGTH, noise=NOISE):
    v = numpyro.sample("v", nd.InverseGamma(2.0, 1.0))
    covariance = kernel(length, jnp) + noise**2 * jnp.eye(N)
    numpyro.sample(
        "y", nd.MultivariateNormal(jnp.zeros(N), scale_tril=jnp.sqrt(v) * jnp.linalg.cholesky(covariance)), obs=Y
    )


def of_names(length=LENGTH, noise=NOISE):
    names = dict(
        v=dist.InverseGamma(2.0, 1.0),
        f=lambda v: dist.MultivariateNormal(jnp.zeros(N), v * kernel(length, jnp)),
        y=lambda f, v: dist.Normal(f, noise * jnp.sqrt(v)),
    )
    return fb.JointNamed(names).condition(y=jnp.asarray(Y)).log_evidence()


def of_factors(length=LENGTH, noise=NOISE):
    v, f = fb.Variable("v", fb.Positive), fb.Variable("f", fb.Reals[N])
    prior = dist.InverseGamma(2.0, 1.0)("v") * dist.MultivariateNormal(np.zeros(N), v * kernel(length, jnp))("f")
    return (prior * dist.Normal(f, noise * fb.ops.sqrt(v))(Y)).sum("v", "f").log()


DOORS = {
    "model": lambda *given: process(*given).condition(y=Y).log_evidence(),
    "names": of_names,
    "NumPyro": lambda *given: fb.from_numpyro(in_numpyro, *given).log_evidence(),
    "NumPyro, of what is observed": lambda *given: fb.from_numpyro(observed_in_numpyro, *given).log_evidence(),
    "factors": of_factors,
}


def by_hand(length=LENGTH, noise=NOISE):
    covariance = kernel(length) + noise**2 * np.eye(N)
    return stats.multivariate_t(np.zeros(N), 0.5 * covariance, 4).logpdf(Y)


@pytest.mark.parametrize("door", DOORS)
def test_evidence(door):
    for given in ((LENGTH, NOISE), tuple(np.random.default_rng(0).uniform(0.05, 0.5, 2))):
        found = DOORS[door](*given)
        assert found.exactness.is_exact and float(found) == pytest.approx(by_hand(*given), rel=1e-5)


def test_quadrature_over_the_variance():
    covariance = kernel(LENGTH) + NOISE**2 * np.eye(N)

    def density(v):
        return stats.invgamma(2.0).pdf(v) * stats.multivariate_normal(np.zeros(N), v * covariance).pdf(Y)

    assert by_hand() == pytest.approx(np.log(integrate.quad(density, 0, np.inf)[0]), abs=1e-8)


@pytest.mark.parametrize("door", ["model", "factors"])
@pytest.mark.parametrize("wide", [False, True])
def test_gradient_under_jit(door, wide):
    """In the length of the kernel and in the noise, both traced."""
    with jax.enable_x64(wide):
        value, slopes = jax.jit(jax.value_and_grad(lambda given: DOORS[door](*given).data))(jnp.array([LENGTH, NOISE]))
    step = 1e-4
    along_length = (by_hand(LENGTH + step) - by_hand(LENGTH - step)) / (2 * step)
    along_noise = (by_hand(noise=NOISE + step) - by_hand(noise=NOISE - step)) / (2 * step)
    assert float(value) == pytest.approx(by_hand(), rel=1e-9 if wide else 1e-5)
    np.testing.assert_allclose(slopes, [along_length, along_noise], rtol=1e-4)


def test_marginals_and_draws():
    post = process().condition(y=Y)
    covariance = kernel(LENGTH) + NOISE**2 * np.eye(N)
    expected = kernel(LENGTH) @ np.linalg.solve(covariance, Y)
    np.testing.assert_allclose(post.marginal("f").mean().data, expected, rtol=1e-4)
    shape, rate = 2.0 + N / 2, 1.0 + Y @ np.linalg.solve(covariance, Y) / 2
    assert float(post.marginal("v").mean()) == pytest.approx(rate / (shape - 1), rel=1e-5)
    draws = post.infer(jax.random.key(0), draws=4000, chains=1, progress=False).posterior
    spread = np.diag(kernel(LENGTH) - kernel(LENGTH) @ np.linalg.solve(covariance, kernel(LENGTH)))
    spread = spread * rate / (shape - 1)
    np.testing.assert_allclose(draws["f"].values[0].mean(0), expected, atol=5 * np.sqrt(spread.max() / 4000))
    np.testing.assert_allclose(draws["f"].values[0].var(0), spread, rtol=0.15)


@pytest.mark.parametrize("door", ["model", "factors"])
def test_parameters_that_are_not_allowed(door):
    """Under jit not a number, whatever the variance is."""
    ask = jax.jit(lambda given: DOORS[door](*given).data)
    assert np.isnan(ask(jnp.array([LENGTH, -NOISE]))) and np.isfinite(ask(jnp.array([LENGTH, NOISE])))


def test_a_kernel_that_is_not_positive_definite():
    @fb.model
    def negative(factor):
        v = yield dist.InverseGamma(2.0, 1.0)
        y = yield dist.MultivariateNormal(jnp.zeros(N), v * factor * jnp.eye(N))

    with pytest.raises(DataError, match="covariance_matrix to satisfy PositiveDefinite"):
        negative(-1.0).condition(y=Y).log_evidence()
    assert np.isnan(jax.jit(lambda factor: negative(factor).condition(y=Y).log_evidence().data)(-1.0))
