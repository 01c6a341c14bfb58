"""Covariances between variables, against enumeration, matrices and known moments."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.errors import Intractable, UnknownName

r = fb.Variable("r", fb.Positive)


def test_covary_gaussian():
    covariance = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 1.5]])
    f = fb.Gaussian(mean=np.zeros(3), covariance=covariance, inputs={"x": fb.Real, "y": fb.Reals[2]})
    np.testing.assert_allclose(f.covariance().data, covariance)
    np.testing.assert_allclose(f.covariance("x", "y").data, covariance[0, 1:])
    np.testing.assert_allclose(f.covariance("y", "x").data, covariance[1:, 0])


def test_covary_table():
    p = np.array([[[0.1, 0.2], [0.05, 0.15]], [[0.2, 0.1], [0.15, 0.05]], [[0.1, 0.3], [0.4, 0.2]]])
    f = fb.Table(p, ("a", "b", "c"))
    q = p / p.sum()
    a, b, c = np.indices(p.shape)
    expected = np.cov(np.stack([a.ravel(), b.ravel(), c.ravel()]), aweights=q.ravel(), bias=True)
    np.testing.assert_allclose(f.covariance().data, expected, atol=1e-12)
    for at in range(2):  # the other variables stay
        weights = p[:, :, at].ravel()
        given = np.cov(np.stack([a[:, :, 0].ravel(), b[:, :, 0].ravel()]), aweights=weights, bias=True)
        np.testing.assert_allclose(f.covariance("a", "b").data[at], given[0, 1], atol=1e-12)


def test_covary_mixture():
    shares, first, second = np.array([0.3, 0.7]), np.array([2.0, 5.0]), np.array([1.0, 4.0])
    parts = dist.Gamma(fb.Array(first, ("k",)), 1.0)("x") * dist.Gamma(fb.Array(second, ("k",)), 1.0)("y")
    f = (fb.Table(shares, ("k",)) * parts).sum("k")
    between = np.cov(np.stack([first, second]), aweights=shares, bias=True)
    expected = between + np.diag([shares @ first, shares @ second])
    order = [("x", "y").index(name) for name in f.inputs]
    np.testing.assert_allclose(f.covariance().data, expected[np.ix_(order, order)], rtol=1e-6)
    np.testing.assert_allclose(float(f.covariance("x", "y")), expected[0, 1], rtol=1e-6)


def test_covary_conditionals():
    """n | r ~ Poisson(r): Cov(r, n) = V[r], V[n] = E[r] + V[r]"""
    f = dist.Gamma(4.0, 3.0)("r") * dist.Poisson(r)("n")
    np.testing.assert_allclose(f.covariance().data, [[4 / 9, 4 / 9], [4 / 9, 4 / 3 + 4 / 9]], rtol=1e-6)


def test_under_jit():
    @jax.jit
    def ask(weights):
        return fb.Table(weights, ("a", "b")).covariance("a", "b").data

    table = np.array([[0.1, 0.2], [0.3, 0.4]])
    np.testing.assert_allclose(
        ask(jnp.asarray(table)), fb.Table(table, ("a", "b")).covariance("a", "b").data, rtol=1e-5
    )


def test_bad_input():
    f = dist.Gamma(4.0, 3.0)("r") * dist.Poisson(fb.ops.exp(r))("n")
    with pytest.raises(Intractable, match=r"the covariance of 'r', 'n'(.|\n)*draws have one"):
        f.covariance("r", "n")
    with pytest.raises(UnknownName, match="the covariance with 'm'"):
        f.covariance("r", "m")
