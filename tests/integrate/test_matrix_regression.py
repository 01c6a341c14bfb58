"""A regression of vectors whose coefficients and noise share an inverse-Wishart covariance: a matrix Student's t."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import multigammaln

import fubini as fb
from fubini import dist

RNG = np.random.default_rng(5)
X, Y = RNG.normal(size=(6, 3)), RNG.normal(size=(6, 2))
PSI = np.array([[1.5, 0.3], [0.3, 0.8]])


@fb.model
def regression(df, psi, precision):
    S = yield dist.InverseWishart(df, psi)
    B = yield dist.MultivariateNormal(np.zeros(2), S / precision).expand([3])
    y = yield dist.MultivariateNormal(X @ B, S)


@fb.model
def line(df, psi):
    """The same with an intercept that is written by itself."""
    S = yield dist.InverseWishart(df, psi)
    B = yield dist.MultivariateNormal(np.zeros(2), S).expand([2])
    y = yield dist.MultivariateNormal(B[0] + X[:, :1] * B[1], S)


def factors(df, psi, y):
    S, B = fb.Variable("S", fb.PositiveDefinite[2]), fb.Variable("B", fb.Reals[3, 2])
    coefficients = dist.MultivariateNormal(np.zeros(2), S).expand([3])("B")
    return dist.InverseWishart(df, psi)("S") * coefficients * dist.MultivariateNormal(X @ B, S)(y)


def log_matrix_t(x, y, df, psi, spread):
    """log p(Y) = log ∫∫ N(Y; X B, I ⊗ S) N(B; 0, spread ⊗ S) IW(S; df, Ψ) dB dS"""
    n, p = y.shape
    rows = np.eye(n) + x @ spread @ x.T
    whole = psi + y.T @ np.linalg.solve(rows, y)
    determinants = [np.linalg.slogdet(one)[1] for one in (rows, psi, whole)]
    front = multigammaln(0.5 * (df + n), p) - multigammaln(0.5 * df, p) - 0.5 * n * p * np.log(np.pi)
    return front + np.dot([-0.5 * p, 0.5 * df, -0.5 * (df + n)], determinants)


@pytest.mark.parametrize("wide", [False, True])
def test_evidence(wide):
    with jax.enable_x64(wide):
        value = regression(5.0, PSI, 2.0).condition(y=Y).log_evidence()
    assert value.exactness.is_exact
    assert float(value) == pytest.approx(log_matrix_t(X, Y, 5.0, PSI, np.eye(3) / 2), rel=1e-9 if wide else 1e-5)


def test_evidence_with_an_intercept():
    ones = np.column_stack([np.ones(6), X[:, 0]])
    value = line(5.0, PSI).condition(y=Y).log_evidence()
    assert float(value) == pytest.approx(log_matrix_t(ones, Y, 5.0, PSI, np.eye(2)), rel=1e-5)


@pytest.mark.parametrize("on", [np, jnp])
def test_evidence_of_factors(on):
    value = factors(5.0, PSI, on.asarray(Y)).sum("B", "S").log()
    assert float(value) == pytest.approx(log_matrix_t(X, Y, 5.0, PSI, np.eye(3)), rel=1e-5)


def test_gradient():
    with jax.enable_x64(True):
        found = jax.jit(jax.grad(lambda t: regression(5.0, PSI, t).condition(y=Y).log_evidence().data))(2.0)
    up, down = (log_matrix_t(X, Y, 5.0, PSI, np.eye(3) / (2.0 + step)) for step in (1e-5, -1e-5))
    assert float(found) == pytest.approx((up - down) / 2e-5, rel=1e-6)


def test_collinear_inputs():
    """Rows of the coefficients that the data cannot tell apart: their prior can."""
    x = np.column_stack([X[:, 0], X[:, 0], 2 * X[:, 0]])

    @fb.model
    def model():
        S = yield dist.InverseWishart(5.0, PSI)
        B = yield dist.MultivariateNormal(np.zeros(2), S).expand([3])
        y = yield dist.MultivariateNormal(x @ B, S)

    value = model().condition(y=Y).log_evidence()
    assert float(value) == pytest.approx(log_matrix_t(x, Y, 5.0, PSI, np.eye(3)), rel=1e-5)


def test_covariance_and_draws():
    post = regression(5.0, PSI, 2.0).condition(y=Y)
    whole = PSI + Y.T @ np.linalg.solve(np.eye(6) + X @ X.T / 2, Y)
    np.testing.assert_allclose(post.marginal("S").mean("S").data, whole / (5 + 6 - 3), rtol=1e-4)
    draws = post.infer(jax.random.key(2), draws=4000, chains=1, progress=False)
    assert draws.posterior.attrs["method"] == "exact"
    expected = np.linalg.solve(X.T @ X + 2 * np.eye(3), X.T @ Y)
    np.testing.assert_allclose(np.asarray(draws.posterior["B"]).mean((0, 1)), expected, atol=0.04)
