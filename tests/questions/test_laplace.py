"""Laplace's approximation of a model: the evidence, marginals and means of the normal at the mode."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy

import fubini as fb
from fubini import dist
from fubini.approximate.open_integral import OpenDensity, OpenIntegral
from fubini.errors import DataError, Intractable
from fubini.numerics.normal_at_mode import Normal

X = np.linspace(-1.0, 1.0, 12)
Y = np.array([0, 0, 1, 0, 0, 1, 0, 1, 1, 1, 0, 1])


@fb.model
def logistic(x):
    b = yield dist.Normal(0.0, 2.0).expand([2])
    y = yield dist.Bernoulli(logits=b[0] + b[1] * x)


@fb.model
def spread(n):
    s = yield dist.HalfNormal(2.0)
    y = yield dist.StudentT(3.0, 0.0, s).expand([n])


def by_hand(log_density, start):
    """The mode, the inverse curvature there, and Laplace's log evidence."""
    with jax.enable_x64(True):
        energy = lambda at: -log_density(at)  # noqa: E731
        end = scipy.optimize.minimize(
            jax.jit(energy), start, jac=jax.jit(jax.grad(energy)), method="BFGS", options={"gtol": 1e-10}
        ).x
        covariance = np.linalg.inv(np.asarray(jax.hessian(energy)(jnp.asarray(end))))
        log_evidence = -float(energy(jnp.asarray(end))) + 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
    return end, covariance, log_evidence


def log_joint_of_logistic(b):
    logits = b[0] + b[1] * X
    prior = jax.scipy.stats.norm.logpdf(b, 0.0, 2.0).sum()
    return prior + jnp.sum(Y * logits - jnp.logaddexp(0.0, logits))


def test_evidence_marginals_and_means_of_a_logistic_regression() -> None:
    mode, covariance, log_evidence = by_hand(log_joint_of_logistic, np.zeros(2))
    post = logistic(X).condition(y=Y)
    with fb.laplace():
        found = post.log_evidence()
        marginal = post.marginal("b")
        mean = marginal.mean("b")
    assert float(found) == pytest.approx(log_evidence, abs=1e-5)
    assert found.exactness.marks == ("projected(laplace)",)
    assert marginal.exactness.marks == ("projected(laplace)",)
    assert np.asarray(mean.data) == pytest.approx(mode, abs=1e-4)
    assert np.asarray(marginal.covariance("b").data) == pytest.approx(covariance, abs=1e-4)


def test_a_bounded_latent_is_approximated_on_a_log_scale() -> None:
    y = np.array([0.5, -1.0, 2.0, 0.3, -0.7])

    def log_joint(u):
        s = jnp.exp(u[0])
        return (
            jnp.log(2.0)
            + jax.scipy.stats.norm.logpdf(s, 0.0, 2.0)
            + u[0]
            + jnp.sum(jax.scipy.stats.t.logpdf(y, 3.0, 0.0, s))
        )

    mode, covariance, log_evidence = by_hand(log_joint, np.zeros(1))
    post = spread(5).condition(y=y)
    with fb.laplace():
        found, mean = post.log_evidence(), post.marginal("s").mean("s")
    assert float(found) == pytest.approx(log_evidence, abs=1e-5)
    assert float(mean) == pytest.approx(float(np.exp(mode[0] + covariance[0, 0] / 2)), rel=1e-3)


def test_what_has_a_closed_form_stays_exact() -> None:
    @fb.model
    def level(n):
        m = yield dist.Normal(0.0, 2.0)
        y = yield dist.Normal(m, 1.0).expand([n])

    post = level(3).condition(y=np.array([0.1, 0.4, 1.0]))
    with fb.laplace():
        assert post.log_evidence().exactness.is_exact


def test_models_and_factors_agree() -> None:
    @fb.model
    def counts():
        z = yield dist.Normal(0.0, 1.0)
        y = yield dist.Poisson(jnp.exp(z))

    z = fb.Variable("z", fb.Real)
    f = dist.Normal(0.0, 1.0)("z") * dist.Poisson(fb.ops.exp(z))(3)
    with fb.laplace():
        by_model = counts().condition(y=3).log_evidence()
        by_sum = f.sum("z").log()
        mean_of_model, mean_of_factor = counts().condition(y=3).marginal("z").mean("z"), fb.expectation(f, z, "z")
    by_factor = fb.laplace(f, "z")
    assert float(by_model) == pytest.approx(float(by_factor.sum("z").log()), abs=1e-6)
    assert float(by_sum) == pytest.approx(float(by_model), abs=1e-6)
    assert by_sum.exactness.marks == by_model.exactness.marks == ("projected(laplace)",)
    assert float(mean_of_model) == pytest.approx(float(by_factor.mean("z")), abs=1e-5)
    assert float(mean_of_factor) == pytest.approx(float(by_factor.mean("z")), abs=1e-5)


def test_compare_takes_it() -> None:
    @fb.model
    def constant(n):
        b = yield dist.Normal(0.0, 2.0)
        y = yield dist.Bernoulli(logits=b * jnp.ones(n))

    with fb.laplace():
        both = fb.compare(slope=logistic(X).condition(y=Y), constant=constant(12).condition(y=Y))
    assert 0 < both["slope"].probability < 1


def test_a_density_without_curvature_is_an_error() -> None:
    normals = lambda: [Normal(np.zeros(1), np.eye(1), 0.0, is_mode=False)]  # noqa: E731
    density = OpenDensity(1, lambda x: -(x[:, 0] ** 4), lambda: None, normals, lambda: (lambda x, _: -(x[0] ** 4), ()))
    integral = OpenIntegral(("x",), lambda: Intractable("x"), lambda: density)
    with fb.laplace(), pytest.raises(DataError, match="where the logarithm curves down in every direction"):
        integral.points()


def test_a_start_belongs_to_a_factor() -> None:
    with pytest.raises(DataError, match="a factor, where a search can start"):
        fb.laplace(start={"z": 0.0})


def test_of_a_factor_under_jit_and_its_gradient() -> None:
    z = fb.Variable("z", fb.Real)

    def log_total(mean):
        return fb.laplace(dist.Normal(mean, 1.0)("z") * dist.Poisson(fb.ops.exp(z))(3), "z").sum("z").log().data

    eager, compiled = log_total(jnp.asarray(0.3)), jax.jit(log_total)(jnp.asarray(0.3))
    assert float(compiled) == pytest.approx(float(eager), abs=1e-5)
    assert float(log_total(0.3)) == pytest.approx(float(eager), abs=1e-5)
    step = 1e-3
    difference = (log_total(0.3 + step) - log_total(0.3 - step)) / (2 * step)
    assert float(jax.grad(jax.jit(log_total))(jnp.asarray(0.3))) == pytest.approx(float(difference), abs=1e-3)
