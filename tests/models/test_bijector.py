"""The map from unconstrained numbers to values: ancestors decide supports, discrete sites are left alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist

KEY = jax.random.key(0)


def triangle() -> fb.Joint:
    return fb.JointNamed(dict(u=dist.Uniform(0.4, 1.5), v=lambda u: dist.Uniform(0.0, u)))


def test_a_support_may_depend_on_an_ancestor() -> None:
    """A23: u = 0.95, and v in the middle of (0, u)."""
    found = triangle().bijector().forward(u=0.0, v=0.0)
    assert (float(found["u"]), float(found["v"])) == pytest.approx((0.95, 0.475), abs=1e-6)
    back = triangle().bijector().inverse(u=0.95, v=0.475)
    assert (float(back["u"]), float(back["v"])) == pytest.approx((0.0, 0.0), abs=1e-12)


def test_of_a_conditioned_joint() -> None:
    """A23: observed sites are not part of it, and hold where others need them."""
    bijector = triangle().condition(u=1.2).bijector()
    assert bijector.shape == {"v": ()}
    assert float(bijector.forward(v=0.0)["v"]) == pytest.approx(0.6, abs=1e-6)


def test_a_batch() -> None:
    """A23: leading axes of the numbers, broadcast together."""
    found = triangle().bijector().forward(u=np.zeros((4, 1)), v=np.linspace(-1, 1, 3))
    assert found["u"].shape == found["v"].shape == (4, 3)
    np.testing.assert_allclose(found["v"], 0.95 / (1 + np.exp(-np.linspace(-1, 1, 3))) * np.ones((4, 1)), rtol=1e-10)


def mixed() -> fb.Joint:
    """Real, positive, simplex, vectors, a count, and what is computed."""

    @fb.model
    def model():
        m = yield dist.Normal(np.zeros(2), 1.0)
        s = yield dist.Exponential(1.0)
        p = yield dist.Dirichlet(np.ones(3))
        k = yield dist.Poisson(s)
        r = yield fb.deterministic(s * k)
        x = yield dist.Normal(m[0] + r, s + p[0])
        return x

    return model()


def test_discrete_sites_are_left_alone() -> None:
    """TFP's 1407 and 1403, where a discrete or deterministic part is an AttributeError on None."""
    bijector = mixed().bijector()
    assert bijector.shape == ((2,), (), (2,), (), ())  # m, s, p, k, x: a simplex of three has two free numbers
    found = bijector.forward(m=np.zeros(2), s=0.0, p=np.zeros(2), k=3, x=1.0)
    assert found.k == 3 and found.s == 1.0 and found.r == 3.0 and found.k.dtype.kind == "i"
    np.testing.assert_allclose(found.p, np.full(3, 1 / 3), rtol=1e-10)


def test_there_and_back() -> None:
    value = {
        "m": np.array([[0.1, -2.0], [1.0, 3.0]]),
        "s": np.array([0.3, 2.0]),
        "p": np.array([[0.2, 0.3, 0.5], [0.7, 0.1, 0.2]]),
        "k": np.array([0, 4]),
        "x": np.array([0.5, -1.0]),
    }
    bijector = mixed().bijector()
    found = bijector.forward(bijector.inverse(value))
    for name, want in value.items():
        np.testing.assert_allclose(getattr(found, name), want, rtol=1e-10)


def test_log_det() -> None:
    """Against the determinant of the Jacobian of all numbers together."""
    bijector = triangle().bijector()

    def forward(free: jax.Array) -> jax.Array:
        found = bijector.forward(u=free[0], v=free[1])
        return jnp.stack([found["u"], found["v"]])

    for free in ([0.0, 0.0], [0.7, -1.3]):
        want = jnp.log(jnp.abs(jnp.linalg.det(jax.jacobian(forward)(jnp.array(free)))))
        assert float(bijector.log_det(u=free[0], v=free[1])) == pytest.approx(float(want), abs=1e-6)
    assert bijector.log_det(u=np.zeros(3), v=0.0).shape == (3,)


def test_the_density_of_unconstrained_numbers_integrates_to_one() -> None:
    bijector, grid = triangle().bijector(), np.linspace(-12, 12, 241)
    u, v = grid[:, None], grid[None, :]
    log_prob = triangle().log_prob(bijector.forward(u=u, v=v)) + bijector.log_det(u=u, v=v)
    assert np.exp(log_prob).sum() * 0.1**2 == pytest.approx(1.0, abs=1e-4)


def test_nested_joints_keep_their_containers() -> None:
    inner = fb.JointSequential((dist.Dirichlet(np.ones(3)), dist.Poisson(1.0)))
    joint = fb.JointNamed(dict(a=inner, b=dist.Exponential(1.0)))
    assert joint.bijector().shape == {"a": ((2,), ()), "b": ()}
    back = joint.bijector().inverse(a=(np.full(3, 1 / 3), 2), b=1.0)
    assert isinstance(back["a"], tuple) and back["a"][1] == 2
    np.testing.assert_allclose(back["a"][0], np.zeros(2), atol=1e-12)
    assert float(joint.bijector().forward(back)["b"]) == 1.0


def test_under_jit_and_grad() -> None:
    def loss(u: jax.Array) -> jax.Array:
        return triangle().bijector().forward(u=u, v=0.0)["v"]

    assert float(jax.jit(jax.grad(loss))(0.0)) == pytest.approx(1.1 / 8, abs=1e-6)  # v = u / 2, du = 1.1 / 4
