"""posterior() of models in plain JAX: a product of conditionals, whose density is the joint over the evidence."""

import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.errors import Intractable

X = np.array([[1.0, 0.2], [0.3, -1.0], [0.5, 0.5], [-0.7, 0.1]])
Y = np.array([0.4, -1.0, 0.3, 1.2])


@fb.model
def regression():
    s = yield dist.Gamma(2.0, 1.0)
    w = yield dist.Normal(0.0, 1 / jnp.sqrt(s)).expand([2])
    y = yield dist.Normal(jnp.asarray(X) @ w, 1 / jnp.sqrt(s))


@fb.model
def labels():
    z = yield dist.Categorical(jnp.array([0.2, 0.8])).expand([4])
    y = yield dist.Normal(jnp.where(z == 1, 1.0, -1.0), 1.0)


@fb.model
def shares():
    p = yield dist.Dirichlet(jnp.ones(3))
    y = yield dist.Categorical(jnp.take(p, jnp.array([2, 0, 1]))).expand([4])


@fb.model
def rates():
    r = yield dist.Gamma(2.0, 3.0).expand([4])
    y = yield dist.Poisson(jnp.exp(jnp.log(r)))


@fb.model
def coins():
    p = yield dist.Beta(1.0, 2.0)
    y = yield dist.Binomial(10, jnp.square(jnp.sqrt(p))).expand([2])


CASES = {
    "regression": (regression().condition(y=Y), dict(s=0.7, w=np.array([0.1, -0.4]))),
    "labels": (labels().condition(y=Y), dict(z=np.array([0, 1, 1, 0]))),
    "shares": (shares().condition(y=np.array([0, 1, 1, 2])), dict(p=np.array([0.2, 0.5, 0.3]))),
    "rates": (rates().condition(y=np.array([0, 3, 1, 2])), dict(r=np.array([0.2, 0.5, 0.3, 2.0]))),
    "coins": (coins().condition(y=np.array([3, 4])), dict(p=0.3)),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_the_joint_over_the_evidence(name: str) -> None:
    post, at = CASES[name]
    found = post.posterior()(**at).log()
    np.testing.assert_allclose(float(found), float(post.log_prob(**at)) - float(post.log_evidence()), rtol=2e-6)


def test_what_has_no_closed_form_is_named() -> None:
    @fb.model
    def unknown():
        p = yield dist.Beta(1.0, 1.0)
        z = yield dist.Bernoulli(p).expand([20])
        y = yield dist.Normal(jnp.where(z, 1.0, -1.0), 1.0)

    with pytest.raises(Intractable, match=r"posterior\(\): the integral over 'p'"):
        unknown().condition(y=np.zeros(20)).posterior()


def test_sites_that_are_eliminated_together_are_one_gaussian() -> None:
    @fb.model
    def two():
        a = yield dist.Normal(0.0, 1.0).expand([2])
        b = yield dist.Normal(0.0, 1.0).expand([2])
        y = yield dist.Normal(jnp.asarray(X) @ (a + jnp.sin(1.0) * b[::-1]), 1.0)

    post, at = two().condition(y=Y), dict(a=np.array([0.1, -0.4]), b=np.array([0.7, 0.2]))
    found = post.posterior()
    assert isinstance(found, fb.Gaussian)
    assert float(found(**at).log()) == pytest.approx(float(post.log_prob(**at)) - float(post.log_evidence()), rel=1e-6)
    np.testing.assert_allclose(found.sum("b").mean("a").data, post.marginal("a").mean("a").data, rtol=1e-9)


@pytest.mark.parametrize("test", [lambda a: a == 1, lambda a: a != 0], ids=["==", "!="])
def test_a_comparison_of_a_site_is_of_its_numbers(test) -> None:
    """Terms are equal if they are written alike, which says nothing of the numbers they stand for."""

    @fb.model
    def net():
        a = yield dist.Bernoulli(0.3)
        b = yield dist.Bernoulli(jnp.where(test(a), 0.9, 0.2))
        c = yield dist.Bernoulli(jnp.where(b == a, 0.7, 0.1))

    post = net().condition(c=1)
    joint = np.array([[0.7 * 0.8 * 0.7, 0.7 * 0.2 * 0.1], [0.3 * 0.1 * 0.1, 0.3 * 0.9 * 0.7]])
    np.testing.assert_allclose(float(post.log_evidence()), np.log(joint.sum()), rtol=1e-6)
    np.testing.assert_allclose(float(post.marginal("a").mean("a")), joint[1].sum() / joint.sum(), rtol=1e-6)
    np.testing.assert_allclose(float(post.posterior()(a=1, b=0).log()), np.log(joint[1, 0] / joint.sum()), rtol=1e-6)
    found = post.map()
    assert (int(found.a), int(found.b)) == np.unravel_index(joint.argmax(), joint.shape)


def test_values_that_do_not_begin_at_zero() -> None:
    @fb.model
    def dice():
        a = yield dist.DiscreteUniform(1, 3)
        b = yield dist.DiscreteUniform(1, 3)
        y = yield dist.Normal(jnp.sqrt(a * 1.0) * b, 1.0)

    post = dice().condition(y=2.0)
    a, b = np.meshgrid([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], indexing="ij")
    joint = np.exp(-0.5 * (2.0 - np.sqrt(a) * b) ** 2) / np.sqrt(2 * np.pi) / 9
    np.testing.assert_allclose(float(post.log_evidence()), np.log(joint.sum()), rtol=1e-6)
    np.testing.assert_allclose(float(post.marginal("b").mean("b")), (joint * b).sum() / joint.sum(), rtol=1e-6)


def test_conditionals_of_each_label() -> None:
    """A mean whose slope a label decides: E[x₁] = Σ_z p(z) s_z E[x₀ | y₀]."""

    @fb.model
    def switched():
        z = yield dist.Bernoulli(0.4)
        x0 = yield dist.Normal(0.0, 1.0)
        y0 = yield dist.Normal(x0, 0.5)
        x1 = yield dist.Normal(x0 * jnp.where(z == 1, 0.9, -0.5), 0.4)

    marginal = switched().condition(y0=0.3).marginal("x1")
    centre, variance, slopes, shares = 0.3 / 1.25, 0.2, np.array([-0.5, 0.9]), np.array([0.6, 0.4])
    mean = shares @ slopes * centre
    second = shares @ (0.16 + slopes**2 * (variance + centre**2))
    assert float(marginal.mean("x1")) == pytest.approx(mean, abs=1e-12)
    assert float(marginal.variance("x1")) == pytest.approx(second - mean**2, abs=1e-12)
    assert marginal.exactness.is_exact


def test_sites_of_a_nested_joint_go_by_their_path() -> None:
    inner = fb.JointNamed(dict(a=dist.Normal(0.0, 1.0), b=lambda a: dist.Normal(a, 1.0)))
    post = fb.JointNamed(dict(inner=inner, y=lambda inner: dist.Normal(inner["b"], 1.0))).condition(y=1.0)
    marginal = post.marginal("inner.a")
    assert np.isclose(float(marginal.mean("inner.a")), 1 / 3) and np.isclose(float(marginal.variance("inner.a")), 2 / 3)
    assert set(post.explain().order) == {"inner.a", "inner.b"}
    with pytest.raises(fb.errors.UnknownName, match=r"inner\.a"):
        post.marginal("inner")
