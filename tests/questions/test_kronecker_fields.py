"""Gaussian processes on grids, with a Kronecker covariance: against dense normals and against eigenvalues by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions
import pytest
from scipy import stats

import fubini as fb
from fubini import dist
from fubini.factors.kronecker_gaussian import KroneckerGaussian
from fubini.terms.exactness import exactly

KEY = jax.random.key(0)
ROWS, COLUMNS = 12, 20  # as many entries as are solved for by a product
SIZE = ROWS * COLUMNS
Y = np.random.default_rng(0).normal(size=SIZE) + 1.0
LENGTHS, NOISE, VARIANCE, MEAN = (0.3, 0.2), 0.5, 1.7, 0.4


def kernel(n, length):
    x = np.arange(n) / n
    return jnp.exp(-0.5 * ((x[:, None] - x) / length) ** 2) + 1e-2 * jnp.eye(n)


def known_kernel(n, length):
    x = np.arange(n) / n
    return np.exp(-0.5 * ((x[:, None] - x) / length) ** 2) + 1e-2 * np.eye(n)


@fb.model
def by_covariance(lengths=LENGTHS, noise=NOISE, variance=VARIANCE):
    K = variance * jnp.kron(kernel(ROWS, lengths[0]), kernel(COLUMNS, lengths[1]))
    f = yield dist.MultivariateNormal(MEAN, K)
    y = yield dist.Normal(f, noise)


@fb.model
def by_root(lengths=LENGTHS, noise=NOISE, variance=VARIANCE):
    roots = (jnp.linalg.cholesky(kernel(n, length)) for n, length in zip((ROWS, COLUMNS), lengths, strict=True))
    f = yield dist.MultivariateNormal(MEAN, scale_tril=jnp.kron(*roots) * jnp.sqrt(variance))
    y = yield dist.Normal(f.reshape(ROWS, COLUMNS), noise)


@fb.model
def by_precision(lengths=LENGTHS, noise=NOISE, variance=VARIANCE):
    inverses = (jnp.linalg.inv(kernel(n, length)) for n, length in zip((ROWS, COLUMNS), lengths, strict=True))
    f = yield dist.MultivariateNormal(MEAN, precision_matrix=jnp.kron(*inverses) / variance)
    y = yield dist.Normal(2.0 * f, 2.0 * noise)


@fb.model
def by_matrix(lengths=LENGTHS, noise=NOISE, variance=VARIANCE):
    rows, columns = (jnp.linalg.cholesky(kernel(n, length)) for n, length in zip((ROWS, COLUMNS), lengths, strict=True))
    f = yield dist.MatrixNormal(jnp.full((ROWS, COLUMNS), MEAN), jnp.sqrt(variance) * rows, columns)
    y = yield dist.Normal(f, noise)


def in_numpyro():
    K = VARIANCE * jnp.kron(kernel(ROWS, LENGTHS[0]), kernel(COLUMNS, LENGTHS[1]))
    f = numpyro.sample("f", numpyro.distributions.MultivariateNormal(MEAN, K))
    numpyro.sample("y", numpyro.distributions.Normal(f, NOISE), obs=Y)


DOORS = {
    "covariance": lambda: by_covariance().condition(y=Y),
    "root": lambda: by_root().condition(y=Y.reshape(ROWS, COLUMNS)),
    "precision": lambda: by_precision().condition(y=2 * Y),
    "matrix": lambda: by_matrix().condition(y=Y.reshape(ROWS, COLUMNS)),
    "numpyro": lambda: fb.from_numpyro(in_numpyro),
}


def covariance(lengths=LENGTHS, variance=VARIANCE):
    return variance * np.kron(known_kernel(ROWS, lengths[0]), known_kernel(COLUMNS, lengths[1]))


def expected(lengths=LENGTHS, noise=NOISE, variance=VARIANCE):
    whole = covariance(lengths, variance) + noise**2 * np.eye(SIZE)
    return stats.multivariate_normal(np.full(SIZE, MEAN), whole).logpdf(Y)


def expected_posterior():
    K = covariance()
    gain = np.linalg.solve(K + NOISE**2 * np.eye(SIZE), K).T
    return MEAN + gain @ (Y - MEAN), K - gain @ K


@pytest.mark.parametrize("door", DOORS)
def test_evidence_and_moments(door):
    post = DOORS[door]()
    assert f"240 coupled by a Kronecker product of {ROWS} × {COLUMNS}" in str(fb.explain(post))
    change = SIZE * np.log(2) if door == "precision" else 0.0
    assert float(post.log_evidence()) == pytest.approx(expected() - change, rel=1e-5)
    assert post.log_evidence().exactness == exactly
    mean, spread = expected_posterior()
    marginal = post.marginal("f")
    np.testing.assert_allclose(np.ravel(marginal.mean().data), mean, atol=1e-4)
    np.testing.assert_allclose(np.ravel(marginal.variance().data), np.diagonal(spread), rtol=1e-3)


def test_evidence_at_random_parameters():
    """In double precision, with slopes in length scales, noise and variance; under jit."""
    rng = np.random.default_rng(1)

    def evidence(given):
        post = by_covariance(given[:2], given[2], given[3]).condition(y=Y)
        return post.log_evidence().data

    with jax.enable_x64(True):
        compute = jax.jit(jax.value_and_grad(evidence))
        for _ in range(3):
            at = rng.uniform([0.1, 0.1, 0.3, 0.5], [0.5, 0.5, 1.0, 2.0])
            value, slopes = compute(jnp.asarray(at))
            assert float(value) == pytest.approx(expected(at[:2], at[2], at[3]), rel=1e-10)
            for place, step in enumerate(1e-5 * np.eye(4)):
                high, low = (expected(p[:2], p[2], p[3]) for p in (at + step, at - step))
                assert float(slopes[place]) == pytest.approx((high - low) / 2e-5, rel=1e-5, abs=1e-4)


def test_single_precision():
    value = jax.jit(lambda noise: by_covariance(noise=noise).condition(y=jnp.asarray(Y)).log_evidence().data)(NOISE)
    assert value.dtype == jnp.float32
    assert float(value) == pytest.approx(expected(), rel=1e-4)


def test_replicates():
    """Several observations of each entry, with different noise: one of the average."""

    @fb.model
    def twice():
        f = yield dist.MultivariateNormal(MEAN, jnp.kron(kernel(ROWS, 0.3), kernel(COLUMNS, 0.2)))
        y = yield dist.Normal(f, 0.5).expand([3, SIZE])
        z = yield dist.Normal(f, 0.8)

    rng = np.random.default_rng(2)
    y, z = rng.normal(size=(3, SIZE)), rng.normal(size=SIZE)
    post = twice().condition(y=y, z=z)
    assert "Kronecker" in str(fb.explain(post))
    K = covariance(variance=1.0)
    whole = np.kron(np.ones((4, 4)), K) + np.diag(np.repeat([0.25, 0.25, 0.25, 0.64], SIZE))
    data = np.concatenate([y.ravel(), z])
    assert float(post.log_evidence()) == pytest.approx(
        stats.multivariate_normal(np.full(4 * SIZE, MEAN), whole).logpdf(data), rel=1e-6
    )


def test_scale_in_common():
    """A variance that prior and noise share is integrated out too: Student's t."""

    @fb.model
    def scaled():
        v = yield dist.InverseGamma(3.0, 2.0)
        f = yield dist.MultivariateNormal(0.0, v * jnp.kron(kernel(ROWS, 0.3), kernel(COLUMNS, 0.2)))
        y = yield dist.Normal(f, NOISE * jnp.sqrt(v))

    post = scaled().condition(y=Y)
    K = covariance(variance=1.0) + NOISE**2 * np.eye(SIZE)
    by_hand = stats.multivariate_t(np.zeros(SIZE), K * 2.0 / 3.0, df=6.0).logpdf(Y)
    assert float(post.log_evidence()) == pytest.approx(by_hand, rel=1e-6)


def test_other_noise_is_dense():
    """Where entries have noise of their own the covariance is no sum of a product and the identity."""

    @fb.model
    def uneven(noise):
        f = yield dist.MultivariateNormal(MEAN, jnp.kron(kernel(ROWS, 0.3), kernel(COLUMNS, 0.2)))
        y = yield dist.Normal(f, noise)

    noise = np.random.default_rng(3).uniform(0.3, 1.0, size=SIZE)
    post = uneven(noise).condition(y=Y)
    assert "Kronecker" not in str(fb.explain(post))
    by_hand = stats.multivariate_normal(np.full(SIZE, MEAN), covariance(variance=1.0) + np.diag(noise**2)).logpdf(Y)
    assert float(post.log_evidence()) == pytest.approx(by_hand, rel=1e-6)


def as_factors(noise=NOISE):
    K = jnp.kron(kernel(ROWS, LENGTHS[0]), kernel(COLUMNS, LENGTHS[1]))
    f = fb.Variable("f", fb.Reals[SIZE])
    return dist.MultivariateNormal(MEAN, VARIANCE * K)("f") * dist.Normal(f, noise)(Y)


def test_as_factors():
    assert float(as_factors().sum("f").log()) == pytest.approx(expected(), rel=1e-5)
    slope = jax.jit(jax.grad(lambda noise: as_factors(noise).sum("f").log().data))(NOISE)
    assert float(slope) == pytest.approx((expected(noise=0.5001) - expected(noise=0.4999)) / 2e-4, rel=1e-4)


DRAWS = {
    "posterior": lambda n: by_precision().condition(y=2 * Y).posterior().sample(KEY, "f", n=n)["f"],
    "predict": lambda n: by_root().condition(y=Y.reshape(ROWS, COLUMNS)).predict(KEY, "f", draws=n),
    "infer, a matrix": lambda n: (
        by_matrix()
        .condition(y=Y.reshape(ROWS, COLUMNS))
        .infer(KEY, draws=n, chains=1, progress=False, log_likelihood=False, predictive=False)
        .posterior["f"]
        .values
    ),
    "factors": lambda n: as_factors().normalize("f").sample(KEY, "f", n=n)["f"],
    "under jit": lambda n: jax.jit(
        lambda noise: by_covariance(noise=noise).condition(y=jnp.asarray(Y)).marginal("f").sample(KEY, n=n)["f"]
    )(NOISE),
}


@pytest.mark.parametrize("door", DRAWS)
def test_draws(door):
    """Means, variances, and variances of random sums of entries, within standard errors."""
    count = 2000
    draws = np.asarray(DRAWS[door](count)).reshape(count, SIZE)
    mean, spread = expected_posterior()
    assert np.abs((draws.mean(axis=0) - mean) / np.sqrt(np.diagonal(spread) / count)).max() < 5
    np.testing.assert_allclose((draws.var(axis=0) / np.diagonal(spread)).mean(), 1, atol=0.02)
    sums = np.random.default_rng(6).normal(size=(SIZE, 6))
    np.testing.assert_allclose((draws @ sums).var(axis=0) / np.diagonal(sums.T @ spread @ sums), 1, atol=0.16)


# -- more unknowns than dense matrices are used for -------------------------------------------------------------------

SIDE = 48


@fb.model
def large(noise=NOISE):
    f = yield dist.MultivariateNormal(0.0, jnp.kron(kernel(SIDE, 0.3), kernel(SIDE, 0.2)))
    y = yield dist.Normal(f, noise)


def by_eigenvalues(data):
    """The evidence, and the means and variances of f."""
    (a, V), (b, W) = (np.linalg.eigh(known_kernel(SIDE, length)) for length in (0.3, 0.2))
    scale, turned = np.outer(a, b), V.T @ data.reshape(SIDE, SIDE) @ W
    whole = scale + NOISE**2
    evidence = -0.5 * np.sum(np.log(2 * np.pi * whole) + turned**2 / whole)
    return evidence, V @ (scale / whole * turned) @ W.T, V**2 @ (scale * NOISE**2 / whole) @ (W**2).T


def test_many_unknowns():
    data = np.random.default_rng(4).normal(size=SIDE * SIDE)
    post = large().condition(y=data)
    evidence, mean, variance = by_eigenvalues(data)
    assert float(post.log_evidence()) == pytest.approx(evidence, rel=1e-6)
    marginal = post.marginal("f")
    assert isinstance(marginal, KroneckerGaussian) and marginal.exactness == exactly
    np.testing.assert_allclose(marginal.mean().data, mean.ravel(), atol=1e-4)
    np.testing.assert_allclose(marginal.variance().data, variance.ravel(), rtol=1e-3)
    np.testing.assert_allclose(post.map().f, mean.ravel(), atol=1e-4)
    draws = np.asarray(marginal.sample(KEY, n=2000)["f"])
    _agree(draws, mean.ravel(), variance.ravel())
    drawn = np.asarray(post.predict(KEY, "f", draws=500))
    _agree(drawn, mean.ravel(), variance.ravel())
    assert post.eliminate("f").recover(KEY, {})["f"].shape == (SIDE * SIDE,)
    z = mean.ravel() + 0.1
    density = -0.5 * _height() - 0.5 * _square(0.1 * np.ones((SIDE, SIDE)))
    assert float(post.posterior().log()(f=z)) == pytest.approx(density, rel=1e-3)
    assert float(post.posterior().sum("f")) == 1.0
    with pytest.raises(fb.FubiniError, match="the covariances of 2,304 numbers"):
        marginal.covariance("f")


def _spectrum():
    """The eigenvectors of the kernels, and the eigenvalues of the posterior covariance."""
    (a, V), (b, W) = (np.linalg.eigh(known_kernel(SIDE, length)) for length in (0.3, 0.2))
    return V, W, 1 / (1 / np.outer(a, b) + 1 / NOISE**2)


def _height():
    return np.sum(np.log(2 * np.pi * _spectrum()[2]))


def _square(gap):
    V, W, scale = _spectrum()
    return np.sum((V.T @ gap @ W) ** 2 / scale)


def _agree(draws, mean, variance):
    scores = (draws.mean(axis=0) - mean) / np.sqrt(variance / len(draws))
    assert np.abs(scores).max() < 6 and np.mean(scores**2) == pytest.approx(1, abs=0.4)  # neighbours move together
    np.testing.assert_allclose(draws.var(axis=0).mean() / variance.mean(), 1, atol=0.05)


def test_too_many_without_a_product():
    """Missing entries leave no product: refused, as other normals of this number are."""

    @fb.model
    def partly():
        f = yield dist.MultivariateNormal(0.0, jnp.kron(kernel(SIDE, 0.3), kernel(SIDE, 0.2)))
        y = yield dist.Normal(f[: SIDE * SIDE - 1], NOISE)

    with pytest.raises(fb.FubiniError, match="at most 2,000 coupled unknowns"):
        partly().condition(y=np.zeros(SIDE * SIDE - 1)).log_evidence()


def test_no_covariance():
    with pytest.raises(fb.FubiniError, match="covariance_matrix"):
        bad = jnp.eye(ROWS) - 2.0

        @fb.model
        def model():
            f = yield dist.MultivariateNormal(0.0, jnp.kron(bad, kernel(COLUMNS, 0.2)))
            y = yield dist.Normal(f, 1.0)

        model().condition(y=Y).log_evidence()
