"""Slopes that are nothing but rounding, as of a constant covariate beside an intercept: no number is made of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist

RNG = np.random.default_rng(0)
Y = RNG.normal(size=7)
COVARIATES = {"constant": np.full(7, 0.1), "twice the same": np.full(7, 0.3), "free": RNG.normal(size=7)}


@fb.model
def line(x):
    a = yield dist.Normal(0.0, 2.0)
    b = yield dist.Normal(0.0, 2.0)
    y = yield dist.Normal(a + b * x, 0.5)


@fb.model
def bent(x):
    s = yield dist.DiscreteUniform(0, 6)
    a = yield dist.Normal(0.0, 2.0)
    b = yield dist.Normal(0.0, 2.0)
    bend = yield dist.Normal(0.0, 2.0)
    y = yield dist.Normal(a + b * x + bend * jnp.maximum(x - x[s], 0.0), 0.5)


def log_normal(columns, y):
    covariance = 0.25 * jnp.eye(7) + 4.0 * columns @ columns.T
    return -0.5 * (y @ jnp.linalg.solve(covariance, y) + jnp.linalg.slogdet(2 * jnp.pi * covariance)[1])


def of_line(x, y):
    return log_normal(jnp.stack([jnp.ones(7), x], 1), y)


def of_bent(x, y):
    each = [log_normal(jnp.stack([jnp.ones(7), x, jnp.maximum(x - x[s], 0.0)], 1), y) for s in range(7)]
    return jax.nn.logsumexp(jnp.stack(each)) - jnp.log(7.0)


@pytest.mark.usefixtures("optimised")
@pytest.mark.parametrize("x", COVARIATES.values(), ids=COVARIATES)
def test_gradients_of_a_line(x):
    check(line, of_line, x, (0, 1))


@pytest.mark.usefixtures("optimised")
def test_gradients_of_a_bent_line():
    check(bent, of_bent, np.linspace(-1.0, 2.0, 7), (1,))


def check(model, oracle, x, argnums):
    """Along shifts of the observations, where compilers fuse more."""

    def evidence(x, y):
        return model(x).condition(y=y).log_evidence().data

    def gradients(of):
        return jax.vmap(jax.value_and_grad(of, argnums), (None, 0))

    with jax.enable_x64(True):
        at = jnp.asarray(x), jnp.asarray(Y) + jnp.asarray([[0.0], [0.01]])
        found = jax.jit(gradients(evidence))(*at)
        expected = gradients(oracle)(*at)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-9)
    for ours, theirs in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-8)


GROUP = np.repeat(np.arange(3), [2, 2, 3])


@fb.model
def grouped(x):
    m = yield dist.Normal(0.0, 2.0)
    b = yield dist.Normal(0.0, 2.0)
    a = yield dist.Normal(m, 0.7).expand([3])
    y = yield dist.Normal(a[GROUP] + b * x, 0.5)


def of_groups(x, y):
    members = jnp.eye(3)[GROUP]
    return log_normal(jnp.concatenate([jnp.ones((7, 1)), x[:, None], 0.35 * members], 1), y)


@pytest.mark.usefixtures("optimised")
def test_gradients_of_a_covariate_of_groups():
    check(grouped, of_groups, np.array([0.1, -0.3, 0.7])[GROUP], (0, 1))


@fb.model
def centred(x, scale=1.3):
    m = yield dist.Normal(0.0, 2.0)
    b = yield dist.Normal(m, scale).expand([3])
    y = yield dist.Normal(b[GROUP] * (x - x.mean()), 0.5)


@pytest.mark.usefixtures("optimised")
@pytest.mark.parametrize("is_traced", [False, True])
def test_gradients_of_centred_covariates_that_are_constant(is_traced):
    """Whose every slope is nothing but rounding: the derivative in x is 0, be the prior's scale known or not."""

    def evidence(x, scale):
        return centred(x, scale).condition(y=Y).log_evidence().data

    with jax.enable_x64(True):
        x = jnp.full(7, 0.1)
        ask = jax.jit(jax.grad(evidence))(x, 1.3) if is_traced else jax.jit(jax.grad(lambda x: evidence(x, 1.3)))(x)
    np.testing.assert_allclose(ask, np.zeros(7), atol=1e-8)


@fb.model
def with_variances_of_groups(x):
    v = yield dist.InverseGamma(3.0, 2.0).expand([3])
    b = yield dist.Normal(0.0, jnp.sqrt(v))
    y = yield dist.Normal(b[GROUP] * (x - x.mean()), jnp.sqrt(v)[GROUP])


@pytest.mark.usefixtures("optimised")
def test_gradients_where_no_block_goes_on_to_a_family():
    with jax.enable_x64(True):
        x = jnp.full(7, 0.1)
        found = jax.jit(jax.grad(lambda x: with_variances_of_groups(x).condition(y=Y).log_evidence().data))(x)
    np.testing.assert_allclose(found, np.zeros(7), atol=1e-8)
