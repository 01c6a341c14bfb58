"""Areal models and known sparse precisions: against dense normals."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions
import pytest
import scipy.sparse
from scipy import stats

import fubini as fb
from fubini import dist
from fubini.factors.sparse_gaussian import SparseGaussian
from fubini.terms.exactness import exactly

NOISE, TAU = 0.5, 2.0


def grid(side: int) -> np.ndarray:
    """The neighbours on a square grid."""
    path = np.eye(side, k=1) + np.eye(side, k=-1)
    return np.kron(path, np.eye(side)) + np.kron(np.eye(side), path)


def precision(W: np.ndarray, alpha: float) -> np.ndarray:
    return np.diag(W.sum(axis=-1)) - alpha * W


def data(n: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=n)


@fb.model
def areas(W, alpha, tau=TAU, loc=0.3):
    f = yield dist.CAR(loc, alpha, tau, W)
    y = yield dist.Normal(f, NOISE)


@fb.model
def field(P, tau=TAU):
    f = yield dist.MultivariateNormal(0.3, precision_matrix=tau * P)
    y = yield dist.Normal(f, NOISE)


def expected(P, y):
    whole = np.linalg.inv(P) + NOISE**2 * np.eye(len(y))
    return stats.multivariate_normal(np.full(len(y), 0.3), whole).logpdf(y)


@pytest.mark.parametrize("alpha", [-0.6, 0.0, 0.9])
def test_evidence_at_few_areas(alpha):
    """With slopes in the correlation and the precision."""
    W, y = grid(4), data(16)
    assert float(areas(W, alpha).condition(y=y).log_evidence()) == pytest.approx(
        expected(TAU * precision(W, alpha), y), rel=1e-6
    )
    with jax.enable_x64(True):
        slopes = jax.grad(lambda p: areas(W, p[0], p[1]).condition(y=y).log_evidence().data)(jnp.array([alpha, TAU]))
        for place, step in enumerate(1e-5 * np.eye(2)):
            a, t = np.array([alpha, TAU]) + step
            b, u = np.array([alpha, TAU]) - step
            difference = expected(t * precision(W, a), y) - expected(u * precision(W, b), y)
            assert float(slopes[place]) == pytest.approx(difference / 2e-5, rel=1e-6)


def test_traced_neighbours():
    """Neighbours of which nothing but their number is known."""
    W, y = jnp.asarray(grid(3)), data(9)
    found = jax.jit(lambda W: areas(W, 0.7).condition(y=y).log_evidence().data)(W)
    assert float(found) == pytest.approx(expected(TAU * precision(grid(3), 0.7), y), rel=1e-5)


def test_doors():
    W, y = grid(4), data(16)

    def in_numpyro(W, is_sparse):
        f = numpyro.sample("f", numpyro.distributions.CAR(0.3, 0.9, TAU, W, is_sparse=is_sparse))
        numpyro.sample("y", numpyro.distributions.Normal(f, NOISE), obs=y)

    @fb.model
    def of_scipy():
        f = yield dist.CAR(0.3, 0.9, TAU, scipy.sparse.csr_matrix(W), is_sparse=True)
        y = yield dist.Normal(f, NOISE)

    by_hand = expected(TAU * precision(W, 0.9), y)
    f = fb.Variable("f", fb.Reals[16])
    factors = dist.CAR(0.3, 0.9, TAU, W)("f") * dist.Normal(f, NOISE)(y)
    assert float(factors.sum("f").log()) == pytest.approx(by_hand, rel=1e-6)
    assert float(of_scipy().condition(y=y).log_evidence()) == pytest.approx(by_hand, rel=1e-6)
    for matrix, is_sparse in ((W, False), (W, True), (scipy.sparse.csr_matrix(W), True)):
        evidence = fb.from_numpyro(in_numpyro, matrix, is_sparse).log_evidence()
        assert float(evidence) == pytest.approx(by_hand, rel=1e-5)


def test_no_neighbours():
    W = grid(3)
    W[0], W[:, 0] = 0.0, 0.0
    with pytest.raises(fb.FubiniError, match="every site has a neighbour"):
        areas(W, 0.5).condition(y=data(9)).log_evidence()


SIDE = 46


@pytest.mark.parametrize("kind", ["areas", "pairs", "factor"])
def test_many_unknowns(kind):
    """More than dense matrices are used for: by neighbours, by pairs, by a sparse factor."""
    W, y = grid(SIDE), data(SIDE * SIDE)
    P = precision(W, 0.9)
    if kind == "factor":
        sparse = scipy.sparse.csr_array(P + 0.2 * np.eye(len(P)))
        P = (sparse @ sparse).toarray()
    post = areas(W, 0.9).condition(y=y) if kind == "areas" else field(P).condition(y=y)
    assert "2,116 coupled by a sparse precision" in str(fb.explain(post))
    whole = TAU * P + np.eye(len(P)) / NOISE**2
    covariance = np.linalg.inv(whole)
    mean = 0.3 + covariance @ (y - 0.3) / NOISE**2
    residual = y - 0.3
    square = residual @ residual / NOISE**2 - residual @ covariance @ residual / NOISE**4
    logdet = np.linalg.slogdet(TAU * P)[1] - np.linalg.slogdet(whole)[1] - 2 * len(y) * np.log(NOISE)
    by_hand = 0.5 * (logdet - square - len(y) * np.log(2 * np.pi))
    assert float(post.log_evidence()) == pytest.approx(by_hand, rel=1e-9) and post.log_evidence().exactness == exactly
    marginal = post.marginal("f")
    assert isinstance(marginal, SparseGaussian)
    np.testing.assert_allclose(marginal.mean().data, mean, atol=1e-5)
    np.testing.assert_allclose(marginal.variance().data, np.diagonal(covariance), rtol=1e-5)
    draws = np.asarray(marginal.sample(jax.random.key(0), n=1000)["f"])
    scores = (draws.mean(axis=0) - mean) / np.sqrt(np.diagonal(covariance) / 1000)
    assert np.abs(scores).max() < 6 and np.mean(scores**2) == pytest.approx(1, abs=0.15)
    np.testing.assert_allclose(draws.var(axis=0).mean() / np.diagonal(covariance).mean(), 1, atol=0.05)


def test_slopes_of_many():
    """In the correlation and the precision of 2,116 areas."""
    W, y = grid(SIDE), data(SIDE * SIDE)

    def evidence(p):
        return areas(W, p[0], p[1]).condition(y=y).log_evidence().data

    with jax.enable_x64(True):
        at = jnp.array([0.9, TAU])
        slopes = jax.grad(evidence)(at)
        for place, step in enumerate(1e-4 * np.eye(2)):
            difference = float(evidence(at + step)) - float(evidence(at - step))
            assert float(slopes[place]) == pytest.approx(difference / 2e-4, rel=1e-5)
