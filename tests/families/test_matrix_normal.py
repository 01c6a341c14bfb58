"""Matrix normal priors: evidence, marginals and draws against the normal of the vector with a Kronecker covariance."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions
import pytest
from scipy import stats

import fubini as fb
from fubini import dist
from fubini.errors import DataError

LOC = np.array([[0.5, -1.0, 0.0], [0.0, 2.0, 1.0]])
ROWS = np.array([[1.0, 0.0], [0.4, 0.8]])
COLUMNS = np.array([[1.0, 0.0, 0.0], [-0.3, 0.7, 0.0], [0.2, 0.5, 1.2]])
X = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0], [1.0, -1.0]])
Y = np.random.default_rng(0).normal(size=(4, 3))
NOISE = 0.6


@fb.model
def regression(noise=NOISE):
    W = yield dist.MatrixNormal(LOC, ROWS, COLUMNS)
    y = yield dist.Normal(X @ W, noise)


@fb.model
def scaled():
    v = yield dist.InverseGamma(3.0, 2.0)
    W = yield dist.MatrixNormal(LOC, jnp.sqrt(v) * ROWS, COLUMNS)
    y = yield dist.Normal(X @ W, NOISE * jnp.sqrt(v))


def of_rows():
    """The mean and covariance of W, row after row, and the linear map to the rows of y."""
    return LOC.ravel(), np.kron(ROWS @ ROWS.T, COLUMNS @ COLUMNS.T), np.kron(X, np.eye(3))


def expected_evidence(noise=NOISE, y=Y):
    mean, covariance, map_ = of_rows()
    return stats.multivariate_normal(map_ @ mean, map_ @ covariance @ map_.T + noise**2 * np.eye(12)).logpdf(y.ravel())


def expected_posterior():
    mean, covariance, map_ = of_rows()
    precision = np.linalg.inv(covariance) + map_.T @ map_ / NOISE**2
    inverse = np.linalg.inv(precision)
    return inverse @ (np.linalg.solve(covariance, mean) + map_.T @ Y.ravel() / NOISE**2), inverse


def in_numpyro():
    W = numpyro.sample("W", numpyro.distributions.MatrixNormal(LOC, ROWS, COLUMNS))
    numpyro.sample("y", numpyro.distributions.Normal(X @ W, NOISE), obs=Y)


DOORS = {
    "coroutine": lambda: regression().condition(y=Y),
    "named": lambda: fb.JointNamed(
        dict(W=dist.MatrixNormal(LOC, ROWS, COLUMNS), y=lambda W: dist.Normal(X @ W, NOISE))
    ).condition(y=Y),
    "NumPyro": lambda: fb.from_numpyro(in_numpyro),
}


@pytest.mark.parametrize("door", DOORS)
def test_evidence(door):
    found = DOORS[door]().log_evidence()
    assert float(found) == pytest.approx(expected_evidence(), rel=1e-5) and found.exactness.is_exact


def test_evidence_of_factors():
    W = fb.Variable("W", fb.Reals[2, 3])
    mean = fb.lift(lambda W: X @ W)(W)
    found = (dist.MatrixNormal(LOC, ROWS, COLUMNS)("W") * dist.Normal(mean, NOISE)(Y)).sum("W").log()
    assert float(found) == pytest.approx(expected_evidence(), rel=1e-5) and found.exactness.is_exact


def test_evidence_in_float64_and_its_derivative():
    with jax.enable_x64(True):
        evidence = jax.jit(lambda noise: regression(noise).condition(y=jnp.asarray(Y)).log_evidence().data)
        assert float(evidence(NOISE)) == pytest.approx(expected_evidence(), rel=1e-10)
        slope = (expected_evidence(NOISE + 1e-5) - expected_evidence(NOISE - 1e-5)) / 2e-5
        assert float(jax.grad(evidence)(NOISE)) == pytest.approx(slope, rel=1e-6)


def test_marginal_and_draws():
    post, (mean, covariance) = regression().condition(y=Y), expected_posterior()
    marginal = post.marginal("W")
    assert marginal.exactness.is_exact
    np.testing.assert_allclose(np.ravel(marginal.mean("W")), mean, rtol=1e-4, atol=1e-5)
    draws = np.asarray(post.posterior().sample(jax.random.key(0), "W", n=20_000)["W"]).reshape(20_000, 6)
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=5 * np.sqrt(covariance.max() / 20_000))
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.02)


def test_a_common_variance_is_integrated_too():
    """y is a multivariate Student-t of 2a degrees of freedom."""
    mean, covariance, map_ = of_rows()
    shape = map_ @ covariance @ map_.T + NOISE**2 * np.eye(12)
    expected = stats.multivariate_t(map_ @ mean, shape * 2.0 / 3.0, df=6.0).logpdf(Y.ravel())
    assert float(scaled().condition(y=Y).log_evidence()) == pytest.approx(expected, rel=1e-5)


def test_a_scale_that_is_no_root():
    with pytest.raises(DataError, match="scale_tril_row to satisfy"):
        dist.MatrixNormal(LOC, -ROWS, COLUMNS)
