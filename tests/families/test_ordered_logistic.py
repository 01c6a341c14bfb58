"""Grades between cutpoints: evidence over labels by every door, densities and slopes against NumPyro's."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as nd
import pytest
from scipy import integrate, special, stats

import fubini as fb
from fubini import dist

CUTPOINTS, LEVELS, SHARES = np.array([-1.0, 0.5, 1.2]), np.array([-1.0, 0.0, 2.0]), np.array([0.2, 0.3, 0.5])
GRADES = np.array([0, 1, 2, 3, 1])


def chances(predictor):
    return np.diff([0.0, *special.expit(CUTPOINTS - predictor), 1.0])


EACH = np.stack([chances(level) for level in LEVELS])
EVIDENCE = np.log(SHARES @ EACH)[GRADES].sum()


@fb.model
def graded(shares=SHARES):
    z = yield dist.Categorical(jnp.asarray(shares)).expand([5])
    y = yield dist.OrderedLogistic(jnp.asarray(LEVELS)[z], CUTPOINTS)


def in_numpyro():
    with numpyro.plate("rows", 5):
        z = numpyro.sample("z", nd.Categorical(SHARES))
        numpyro.sample("y", nd.OrderedLogistic(jnp.asarray(LEVELS)[z], CUTPOINTS), obs=GRADES)


def of_names():
    names = dict(
        z=dist.Categorical(jnp.asarray(SHARES)).expand([5]),
        y=lambda z: dist.OrderedLogistic(jnp.asarray(LEVELS)[z], CUTPOINTS),
    )
    return fb.JointNamed(names).condition(y=jnp.asarray(GRADES))


DOORS = {
    "model": lambda: graded().condition(y=GRADES),
    "names": of_names,
    "NumPyro": lambda: fb.from_numpyro(in_numpyro),
}


@pytest.mark.parametrize("door", DOORS)
def test_evidence(door):
    found = DOORS[door]().log_evidence()
    assert found.exactness.is_exact and float(found) == pytest.approx(EVIDENCE, rel=1e-6)


def test_evidence_of_factors():
    whole = dist.Categorical(SHARES)("z") * dist.OrderedLogistic(fb.Array(LEVELS, ("z",)), CUTPOINTS)(2)
    assert float(whole.sum("z").log()) == pytest.approx(np.log(SHARES @ EACH)[2], rel=1e-6)


def test_under_jit_with_a_gradient():
    def ask(logits):
        return graded(jax.nn.softmax(logits)).condition(y=jnp.asarray(GRADES)).log_evidence().data

    def by_hand(logits):
        return np.log(special.softmax(logits) @ EACH)[GRADES].sum()

    value, slope = jax.jit(jax.value_and_grad(ask))(jnp.log(SHARES))
    steps = 1e-5 * np.eye(3)
    expected = [(by_hand(np.log(SHARES) + step) - by_hand(np.log(SHARES) - step)) / 2e-5 for step in steps]
    assert float(value) == pytest.approx(EVIDENCE, rel=1e-5)
    np.testing.assert_allclose(slope, expected, rtol=1e-3, atol=1e-4)


def test_labels_and_draws():
    post = graded().condition(y=GRADES)
    expected = (SHARES[:, None] * EACH / (SHARES @ EACH))[:, GRADES].T
    np.testing.assert_allclose(post.marginal("z").weights, expected, atol=1e-6)
    draws = post.infer(jax.random.key(0), draws=2000, chains=1, progress=False).posterior["z"].values[0]
    np.testing.assert_allclose([(draws == k).mean(0) for k in range(3)], expected.T, atol=0.05)


@fb.model
def regression():
    slope = yield dist.Normal(0.0, 1.0)
    y = yield dist.OrderedLogistic(slope * np.arange(5.0), CUTPOINTS)


def test_density_and_slope_are_numpyros():
    def theirs(slope):
        return (
            nd.Normal(0.0, 1.0).log_prob(slope)
            + nd.OrderedLogistic(slope * np.arange(5.0), CUTPOINTS).log_prob(GRADES).sum()
        )

    with jax.enable_x64(True):
        post = regression().condition(y=GRADES)
        found = jax.value_and_grad(lambda slope: post.log_prob(slope=slope))(0.4)
        np.testing.assert_allclose(found, jax.value_and_grad(theirs)(0.4), rtol=1e-9)


def test_quadrature_over_a_slope():
    def density(slope):
        rows = [chances(slope * x)[y] for x, y in enumerate(GRADES)]
        return stats.norm.pdf(slope) * np.prod(rows)

    with fb.quadrature():
        found = float(regression().condition(y=GRADES).log_evidence())
    assert found == pytest.approx(np.log(integrate.quad(density, -8, 8)[0]), abs=1e-6)
