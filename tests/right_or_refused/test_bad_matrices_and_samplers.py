"""What is said of matrices that are no covariances, and of truncated families that numpyro cannot draw from."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

import fubini as fb
from fubini import dist

NEGATIVE, LOPSIDED = -np.eye(2), np.array([[1.0, 0.5], [0.0, 1.0]])


@pytest.mark.parametrize("name", ["covariance_matrix", "precision_matrix"])
def test_a_symmetric_matrix_is_told_of_its_eigenvalues(name):
    with pytest.raises(fb.errors.DataError, match="least eigenvalue is -1") as raised:
        dist.MultivariateNormal(np.zeros(2), **{name: NEGATIVE})
    assert "transpose" not in str(raised.value)


def test_another_matrix_is_told_of_its_transpose():
    with pytest.raises(fb.errors.DataError, match="average it with its transpose"):
        dist.MultivariateNormal(np.zeros(2), LOPSIDED)


@pytest.mark.parametrize("kernel", [NEGATIVE, LOPSIDED], ids=["negative", "lopsided"])
@pytest.mark.parametrize("on", [np, jnp])
def test_a_bad_kernel_beside_a_latent_is_named(kernel, on):
    """As factors, v times a matrix that is no covariance: the parameter is named, and no number answered."""
    v = fb.Variable("v", fb.Positive)
    joint = dist.InverseGamma(2.0, 1.0)("v") * dist.MultivariateNormal(np.zeros(2), v * on.asarray(kernel))(np.ones(2))
    with pytest.raises(fb.errors.DataError, match="MultivariateNormal with covariance_matrix"):
        joint.sum("v")


@fb.model
def half_student_scale():
    s = yield dist.TruncatedDistribution(dist.StudentT(3.0, 0.0, 1.0), low=0.0)
    y = yield dist.Normal(0.0, s).expand([3])


def test_quadrature_over_a_family_without_draws():
    y = np.array([0.5, 1.0, -0.3])
    with fb.quadrature():
        value = half_student_scale().condition(y=y).log_evidence()
    exact = integrate.quad(lambda s: 2 * stats.t(3).pdf(s) * stats.norm(0, s).pdf(y).prod(), 0, np.inf)[0]
    assert float(value) == pytest.approx(np.log(exact), rel=1e-3)


def test_a_draw_without_a_sampler():
    """numpyro's advice to install a package is not passed on."""
    density = dist.TruncatedDistribution(dist.StudentT(3.0, 0.0, 1.0), low=0.0)("s")
    with pytest.raises(fb.errors.NoRule, match="drawn by quantiles of StudentT"):
        density.sample(jax.random.key(0), "s", n=3)
