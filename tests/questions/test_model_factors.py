"""A model as factors: `fb.eliminate`, `fb.marginals` and `fb.sample` of these answer as the model does."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import fubini as fb
from fubini import dist

COUNTS, NOISY = np.array([2, 0, 3, 1]), np.array([0.3, 1.2, -0.4, 0.8])
X = np.array([[1.0, 0.2], [1.0, -1.3], [1.0, 0.7], [1.0, 2.0]])
GROUP = np.array([0, 1, 1, 2])


@fb.model
def rates():
    r = yield dist.Gamma(2.0, 3.0).expand([3])
    y = yield dist.Poisson(jnp.asarray(r)[GROUP] * 2.0)


@fb.model
def regression(inputs):
    v = yield dist.InverseGamma(3.0, 2.0)
    w = yield dist.Normal(0.0, jnp.sqrt(v)).expand([2])
    y = yield dist.Normal(inputs @ w, jnp.sqrt(v))


@fb.model
def mixture():
    m = yield dist.Normal(0.0, 2.0)
    z = yield dist.Categorical(jnp.array([0.3, 0.7])).expand([3])
    y = yield dist.Poisson(jnp.array([1.0, 5.0])[z])
    x = yield dist.Normal(m, 1.0)


@fb.model
def switched():
    z = yield dist.Markov(dist.Categorical(jnp.array([0.5, 0.5])), lambda z: dist.Categorical(jnp.asarray(MOVE)[z]), 4)
    y = yield dist.Normal(jnp.array([0.0, 2.0])[z], 1.0)


MOVE = np.array([[0.9, 0.1], [0.3, 0.7]])
POSTS = {
    "rates of groups": rates().condition(y=COUNTS),
    "a regression": regression(X).condition(y=NOISY),
    "a mixture": mixture().condition(y=COUNTS[:3], x=0.4),
    "a chain": switched().condition(y=NOISY),
    "missing entries": regression(X).condition(y=np.ma.masked_invalid([0.3, np.nan, -0.4, 0.8])),
    "nested": fb.JointNamed(
        dict(inner=fb.JointNamed(dict(m=dist.Normal(0.0, 1.0))), x=lambda inner: dist.Normal(inner["m"] * 2.0, 1.0))
    ).condition(x=0.5),
}


@pytest.mark.parametrize("name", POSTS)
def test_evidence(name):
    post = POSTS[name]
    names = list(dict.fromkeys(name for factor in post.factors() for name in factor.inputs))
    found = fb.eliminate(post.factors(), names)
    assert float(found.log()) == pytest.approx(float(post.log_evidence()), rel=1e-9)
    assert found.exactness.is_exact


def test_posterior_and_marginals():
    post = POSTS["rates of groups"]
    whole = fb.eliminate(post.factors(), []).normalize()
    assert float(whole(r=np.array([0.5, 1.0, 2.0]))) == pytest.approx(
        float(post.posterior()(r=np.array([0.5, 1.0, 2.0]))), rel=1e-9
    )
    mean = fb.marginals(post.factors(), ["r"])["r"].mean("r")
    np.testing.assert_allclose(mean.data, post.marginal("r").mean("r").data, rtol=1e-9)


def test_a_factor_at_values():
    prior, likelihood = POSTS["rates of groups"].factors()
    at = np.array([0.5, 1.0, 2.0])
    assert float(prior(r=at).log()) == pytest.approx(stats.gamma.logpdf(at, 2, scale=1 / 3).sum(), rel=1e-9)
    expected = stats.poisson.logpmf(COUNTS, 2 * at[GROUP]).sum()
    assert float(likelihood(r=at).log()) == pytest.approx(expected, rel=1e-9)


def test_under_jit_and_grad():
    def evidence(inputs):
        return fb.eliminate(regression(inputs).condition(y=NOISY).factors(), ["w", "v"]).log().data

    def asked(inputs):
        return regression(inputs).condition(y=NOISY).log_evidence().data

    with jax.enable_x64(True):
        x = jnp.asarray(X)
        assert float(jax.jit(evidence)(x)) == pytest.approx(float(POSTS["a regression"].log_evidence()), rel=1e-9)
        np.testing.assert_allclose(jax.grad(evidence)(x), jax.grad(asked)(x), rtol=1e-7)


def test_single_precision():
    post = regression(jnp.asarray(X)).condition(y=jnp.asarray(NOISY))
    assert {leaf.dtype.name for factor in post.factors() for leaf in factor.leaves()} == {"float32"}
    found = fb.eliminate(post.factors(), ["w", "v"]).log()
    assert found.data.dtype == jnp.float32 and isinstance(found.data, jax.Array)
    assert float(found) == pytest.approx(float(POSTS["a regression"].log_evidence()), rel=1e-5)


def test_double_precision():
    found = fb.eliminate(POSTS["a regression"].factors(), ["w", "v"]).log()
    assert found.data.dtype == np.float64 and not isinstance(found.data, jax.Array)


@fb.model
def weighted(loss):
    s = yield dist.LogNormal(loss, 1.0)
    x = yield dist.Normal(jnp.exp(-s), 1.0)  # not written in operators
    yield fb.weight(log=-loss)


def test_single_precision_of_a_known_weight():
    """A term of the density that depends on no site is a table of one number."""
    factors = weighted(jnp.asarray(0.5)).condition(x=jnp.asarray(0.2)).factors()
    assert isinstance(factors[-1], fb.Table) and float(factors[-1].log()) == -0.5
    assert {leaf.dtype.name for factor in factors for leaf in factor.leaves()} == {"float32"}
