"""Loops, solutions and updates that are affine in latents: read as b + A x, and integrated out like any matrix."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import fubini as fb
from fubini import dist
from fubini.algebra.node import Leaf
from fubini.read import all_rules  # noqa: F401
from fubini.read.jaxpr_reader import Reader
from fubini.read.leaf_arrays import LeafArrays
from fubini.read.symbolic_array import of_leaf

RANDOM = np.random.default_rng(0)
N = 4
E, C, A = RANDOM.normal(size=N), RANDOM.normal(), RANDOM.normal(size=(N, N)) + 3 * np.eye(N)


def second_order(e, c):
    """x_t = ½ x_{t−1} + ⅕ x_{t−2} + e_t"""

    def step(state, e):
        x = 0.5 * state[0] + 0.2 * state[1] + e
        return (x, state[0]), x

    return jax.lax.scan(step, (c, 2 * c), e)[1]


AFFINE = {
    "a linear recursion": second_order,
    "backwards": lambda e, c: jax.lax.scan(lambda s, e: (0.5 * s + e, s), c, e, reverse=True)[1],
    "the last state": lambda e, c: jax.lax.scan(lambda s, e: (0.5 * s - e, None), c, e)[0],
    "a loop of known length": lambda e, c: jax.lax.fori_loop(0, 3, lambda i, s: 0.5 * s + c + e[i], 1.0),
    "a loop until a known count": lambda e, c: jax.lax.while_loop(
        lambda s: s[0] < 3, lambda s: (s[0] + 1, 0.5 * s[1] + e), (0, e + c)
    )[1],
    "a solution": lambda e, c: jnp.linalg.solve(A, e + c),
    "a triangular solution": lambda e, c: jax.scipy.linalg.solve_triangular(np.tril(A), e - c, lower=True),
    "an entry multiplied": lambda e, c: e.at[2].multiply(3.0) + c,
    "a convolution": lambda e, c: jnp.convolve(e, jnp.array([1.0, 0.5, 0.25])) + c,
    "a loop of branches": lambda e, c: jax.lax.scan(
        lambda s, x: (jax.lax.cond(x[0] > 1, lambda s: 2 * s, lambda s: s + x[1], s), s), c, (jnp.arange(N), e)
    )[1],
    "a checkpoint": lambda e, c: jax.checkpoint(lambda e: 2 * e + c)(e),
}

NOT_AFFINE = {
    "a product of states": lambda e, c: jax.lax.scan(lambda s, e: (s * e, s), c, e)[1],
    "a test of the state": lambda e, c: jax.lax.scan(lambda s, e: (jnp.where(s > 0, s, e), s), c, e)[1],
    "a state of no derivative": lambda e, c: jax.lax.scan(lambda s, e: (jnp.floor(s) + e, s), c, e)[1],
    "a stopped gradient": lambda e, c: jax.lax.scan(lambda s, e: (jax.lax.stop_gradient(s) + e, s), c, e)[1],
    "a matrix of latents": lambda e, c: jnp.linalg.solve(A + c, e * c),
    "a loop until the state is large": lambda e, c: jax.lax.while_loop(lambda s: s < 9, lambda s: 2 * s + 1, c**2),
    "short floats": lambda e, c: jax.lax.scan(
        lambda s, e: ((s.astype(jnp.float16) * 0.3).astype(e.dtype) + e, s), c, e
    )[1],
}


def read(program):
    """What a reading leaves opaque, and its numbers beside those of the program."""
    with jax.enable_x64(True):
        given = (jnp.asarray(E), jnp.asarray(C))
        traced = jax.make_jaxpr(program)(*given)
        leaves = [Leaf("e", E.shape), Leaf("c", ())]
        reader = Reader()
        (found,) = reader.read(traced.jaxpr, traced.consts, [of_leaf(leaf) for leaf in leaves])
        arrays = LeafArrays({**reader.known, **dict(zip(leaves, given, strict=True))}, reader)
        opaque = reader.leaves_of(found) & set(reader.opaque)
        return opaque, np.asarray(arrays.whole(found)), np.asarray(program(*given))


@pytest.mark.parametrize("name", AFFINE)
def test_affine(name):
    opaque, found, expected = read(AFFINE[name])
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert not opaque


@pytest.mark.parametrize("name", NOT_AFFINE)
def test_not_affine(name):
    opaque, found, expected = read(NOT_AFFINE[name])
    np.testing.assert_allclose(found, expected, rtol=1e-6 if name == "short floats" else 1e-12)
    assert opaque


def test_coefficients_may_be_latent():
    """Affine in the noise for each value of the coefficient, which stays inside of the matrix."""

    def program(e, c):
        return jax.lax.scan(lambda s, e: (c * s + e, s), 0.3, e)[1]

    opaque, found, expected = read(program)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert {leaf.shape for leaf in opaque} == {(N,), (N, N)}
    assert all("e" not in {part.name for part in leaf.of} for leaf in opaque)


# -- models ---------------------------------------------------------------------------------------------------------

Y = RANDOM.normal(size=N)


@fb.model
def autoregression(noise, n=N):
    c = yield dist.Normal(0.0, 1.0)
    e = yield dist.Normal(0.0, 0.7).expand([n])
    y = yield dist.Normal(second_order(e, c), noise)


def moments(noise):
    """The mean and covariance of the observations, by the linear map itself."""
    columns = [second_order(row, 0.0) for row in np.eye(N)] + [second_order(np.zeros(N), 1.0)]
    L = np.asarray(columns).T * np.array([0.7] * N + [1.0])
    return np.zeros(N), L @ L.T + noise**2 * np.eye(N), L


@pytest.mark.parametrize("asarray", [np.asarray, jnp.asarray], ids=["NumPy", "JAX"])
def test_evidence_of_an_autoregression(asarray):
    mean, covariance, _ = moments(0.5)
    found = autoregression(0.5).condition(y=asarray(Y)).log_evidence()
    assert found.exactness.is_exact
    assert float(found) == pytest.approx(stats.multivariate_normal(mean, covariance).logpdf(Y), rel=1e-5)


def test_marginal_of_an_autoregression():
    _, covariance, L = moments(0.5)
    gain = np.linalg.solve(covariance, L[:, :N] * 0.7)
    marginal = autoregression(0.5).condition(y=Y).marginal("e")
    np.testing.assert_allclose(marginal.mean("e").data, gain.T @ Y, rtol=1e-6)


def test_autoregression_as_factors():
    """Evidence, and draws with the moments of the normal posterior."""
    _, covariance, L = moments(0.5)
    e, c = fb.Variable("e", fb.Reals[N]), fb.Variable("c", fb.Real)
    prior = dist.Normal(0.0, 0.7).expand([N])("e") * dist.Normal(0.0, 1.0)("c")
    joint = prior * dist.Normal(fb.lift(second_order)(e, c), 0.5)(Y)
    evidence = joint.sum("e", "c").log()
    assert evidence.exactness.is_exact
    assert float(evidence) == pytest.approx(stats.multivariate_normal(np.zeros(N), covariance).logpdf(Y), rel=1e-5)
    both = L * np.array([0.7] * N + [1.0])
    gain = np.linalg.solve(covariance, both)
    mean, spread = gain.T @ Y, np.eye(N + 1) * np.array([0.49] * N + [1.0]) - gain.T @ both
    values = joint.normalize("e", "c").sample(jax.random.key(2), "e", "c", n=4000)
    draws = np.column_stack([values["e"], values["c"]])
    assert np.all(np.abs(draws.mean(0) - mean) < 5 * np.sqrt(np.diagonal(spread) / 4000))
    np.testing.assert_allclose(np.cov(draws.T), spread, atol=0.05)


def test_gradient_under_jit():
    def evidence(noise):
        return autoregression(noise).condition(y=jnp.asarray(Y)).log_evidence().data

    with jax.enable_x64(True):
        slope = jax.jit(jax.grad(evidence))(0.5)
        wide, narrow = (stats.multivariate_normal(*moments(noise)[:2]).logpdf(Y) for noise in (0.5 + 1e-5, 0.5 - 1e-5))
    assert float(slope) == pytest.approx((wide - narrow) / 2e-5, rel=1e-4)


def test_branches_of_labels():
    """Enumeration over the label of a switch."""

    @fb.model
    def switched():
        z = yield dist.Categorical(jnp.array([0.2, 0.3, 0.5]))
        a = yield dist.Normal(0.0, 1.0)
        x = jax.lax.switch(z, [lambda a: 2 * a, lambda a: a + 1, lambda a: -a], a)
        y = yield dist.Normal(x, 1.0)

    truth = [
        0.2 * stats.norm(0, 5**0.5).pdf(0.3),
        0.3 * stats.norm(1, 2**0.5).pdf(0.3),
        0.5 * stats.norm(0, 2**0.5).pdf(0.3),
    ]
    post = switched().condition(y=0.3)
    assert float(post.log_evidence()) == pytest.approx(np.log(sum(truth)), rel=1e-6)
    np.testing.assert_allclose(post.marginal("z").weights, np.array(truth) / sum(truth), rtol=1e-6)
    draws = post.posterior().sample(jax.random.key(0), "z", "a", n=2000)
    means = np.array([2 * 0.3 / 5, (0.3 - 1) / 2, -0.3 / 2])
    assert float(np.mean(draws["a"])) == pytest.approx(means @ truth / sum(truth), abs=0.08)
    np.testing.assert_allclose(np.bincount(draws["z"], minlength=3) / 2000, np.array(truth) / sum(truth), atol=0.05)

    def slope(branch, scale, y):  # of log N(y | mean, 1 + scale²) in y
        return -(y - branch) / (1 + scale**2)

    found = jax.jit(jax.grad(lambda y: switched().condition(y=y).log_evidence().data))(0.3)
    slopes = [slope(0, 2, 0.3), slope(1, 1, 0.3), slope(0, 1, 0.3)]
    assert float(found) == pytest.approx(np.dot(truth, slopes) / sum(truth), rel=1e-4)


def test_branches_that_a_real_latent_chooses_are_opaque():
    opaque, found, expected = read(lambda e, c: jax.lax.cond(c > 0, lambda e: jnp.sqrt(c) * e, lambda e: e, e))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert opaque
