"""Fields of normals whose precision is sparse: against dense linear algebra, and against our own dense answers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import fubini as fb
from fubini import dist
from fubini.factors.sparse_gaussian import SparseGaussian
from fubini.integrate import sparse_layout
from fubini.terms.exactness import exactly

KEY = jax.random.key(0)


@fb.model
def field(first, second, cells, n):
    z = yield dist.Normal(0.0, 10.0).expand([n])
    rough = yield dist.Normal(z[first] - z[second], 1.0)
    y = yield dist.Normal(z[cells], 0.3)


@fb.model
def sheet(side):
    z = yield dist.Normal(0.0, 10.0).expand([side, side])
    down = yield dist.Normal(z[1:] - z[:-1], 1.0)
    across = yield dist.Normal(z[:, 1:] - z[:, :-1], 1.0)
    y = yield dist.Normal(z, 0.3)


def neighbours(side: int) -> tuple[np.ndarray, np.ndarray]:
    at = np.arange(side * side).reshape(side, side)
    first = np.concatenate([at[:, :-1].ravel(), at[:-1].ravel()])
    return first, np.concatenate([at[:, 1:].ravel(), at[1:].ravel()])


def observed(side: int, xp=np):
    """A field of which half of the cells are seen, and the numbers of these."""
    first, second = neighbours(side)
    random = np.random.default_rng(side)
    cells = random.choice(side * side, side * side // 2, replace=False)
    data = random.normal(size=len(cells))
    model = field(first, second, cells, side * side)
    return model.condition(rough=xp.zeros(len(first)), y=xp.asarray(data)), (first, second, cells, data)


def by_hand(side: int, first, second, cells, data) -> tuple[float, np.ndarray, np.ndarray]:
    """The evidence, means and variances, from the joint precision in full."""
    n, count = side * side, len(first)
    steps = np.zeros((count, n))
    steps[np.arange(count), first] += 1
    steps[np.arange(count), second] -= 1
    precision = np.eye(n) / 100 + steps.T @ steps
    seen = np.bincount(cells, minlength=n) / 0.09
    covariance = np.linalg.inv(precision + np.diag(seen))
    push = np.bincount(cells, data, n) / 0.09
    mean = covariance @ push
    log_p = stats.norm.logpdf(mean, 0, 10).sum() + stats.norm.logpdf(steps @ mean).sum()
    log_p += stats.norm.logpdf(data, mean[cells], 0.3).sum()
    log_p += 0.5 * n * np.log(2 * np.pi) + 0.5 * np.linalg.slogdet(covariance)[1]
    return log_p, mean, np.diagonal(covariance)


def test_sparse_answers_are_the_dense_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many unknowns as both solve: the same evidence, means, variances and mode."""
    post, numbers = observed(20)
    assert "400 coupled by a sparse precision" in str(fb.explain(post))
    evidence, marginal, mode = float(post.log_evidence()), post.marginal("z"), post.map()
    expected, mean, variance = by_hand(20, *numbers)
    assert evidence == pytest.approx(expected, rel=1e-9) and post.log_evidence().exactness == exactly
    np.testing.assert_allclose(marginal.mean().data, mean, atol=1e-5)
    np.testing.assert_allclose(marginal.variance().data, variance, rtol=1e-5)
    np.testing.assert_allclose(mode.z, mean, atol=1e-5)
    monkeypatch.setattr(sparse_layout, "WORK", np.inf)
    first, second, cells, data = numbers

    @fb.model
    def again(n):  # another model: plans of the same one are kept
        z = yield dist.Normal(0.0, 10.0).expand([n])
        rough = yield dist.Normal(z[first] - z[second], 1.0)
        y = yield dist.Normal(z[cells], 0.3)

    dense = again(400).condition(rough=np.zeros(len(first)), y=data)
    assert "sparse" not in str(fb.explain(dense))
    assert evidence == pytest.approx(float(dense.log_evidence()), rel=1e-9)


def test_many_unknowns() -> None:
    """More than dense matrices are used for."""
    side = 46
    post, numbers = observed(side)
    expected, mean, variance = by_hand(side, *numbers)
    assert float(post.log_evidence()) == pytest.approx(expected, rel=1e-9)
    marginal = post.marginal("z")
    assert isinstance(marginal, SparseGaussian) and marginal.exactness == exactly
    np.testing.assert_allclose(marginal.mean().data, mean, atol=1e-5)
    np.testing.assert_allclose(marginal.variance().data, variance, rtol=1e-5)
    np.testing.assert_allclose(post.map().z, mean, atol=1e-5)
    low, high = marginal.interval(0.9)
    np.testing.assert_allclose((high.data - low.data) / 2, 1.6448536 * np.sqrt(variance), rtol=1e-5)
    draws = marginal.sample(KEY, n=2000)["z"]
    assert draws.shape == (2000, side * side)
    _agree(draws, mean, variance)
    recovered = post.eliminate("z").recover(jax.random.split(KEY, 1)[0], {})["z"]
    assert recovered.shape == (side * side,)
    drawn = post.predict(KEY, "z", draws=2000)
    _agree(np.asarray(drawn), mean, variance)


def _agree(draws: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> None:
    scores = (draws.mean(axis=0) - mean) / np.sqrt(variance / len(draws))
    assert np.abs(scores).max() < 6 and np.mean(scores**2) == pytest.approx(1, abs=0.15)
    np.testing.assert_allclose(draws.var(axis=0).mean() / variance.mean(), 1, atol=0.05)


def test_density_of_the_posterior() -> None:
    post, _ = observed(46)
    posterior = post.posterior()
    z = np.random.default_rng(0).normal(size=46 * 46)
    assert float(posterior.log()(z=z)) == pytest.approx(
        float(post.log_prob(z=z)) - float(post.log_evidence()), rel=1e-5
    )
    assert float(posterior.sum("z")) == 1.0
    with pytest.raises(fb.FubiniError, match="the covariances of 2,116 numbers"):
        posterior.covariance("z")


def test_arrays_of_two_axes() -> None:
    """Differences of slices: 60 rows of 60 are no chain of dense cells."""
    side, random = 60, np.random.default_rng(0)
    data = random.normal(size=(side, side))
    seen = {"down": np.zeros((side - 1, side)), "across": np.zeros((side, side - 1)), "y": data}
    post = sheet(side).condition(**seen)
    first, second = neighbours(side)
    flat = field(first, second, np.arange(side * side), side * side)
    flat = flat.condition(rough=np.zeros(len(first)), y=data.ravel())
    assert "3,600 coupled by a sparse precision" in str(fb.explain(post))
    assert float(post.log_evidence()) == pytest.approx(float(flat.log_evidence()), rel=1e-9)
    marginal = post.marginal("z")
    np.testing.assert_allclose(marginal.mean().data, flat.marginal("z").mean().data.reshape(side, side), atol=1e-5)
    assert marginal.variance().data.shape == (side, side)


def test_two_fields_at_once() -> None:
    """A field and offsets of groups: the marginal of one of them."""
    side = 46
    first, second = neighbours(side)
    groups = np.arange(side * side) % 7

    @fb.model
    def grouped(n):
        offset = yield dist.Normal(0.0, 1.0).expand([7])
        z = yield dist.Normal(0.0, 10.0).expand([n])
        rough = yield dist.Normal(z[first] - z[second], 1.0)
        y = yield dist.Normal(z + offset[groups], 0.3)

    random = np.random.default_rng(0)
    data = random.normal(size=side * side) + groups
    post = grouped(side * side).condition(rough=np.zeros(len(first)), y=data)
    marginal = post.marginal("offset")
    n, count = side * side, len(first)
    rows = np.zeros((n + count + n + 7, n + 7))
    rows[:n, :n] = np.eye(n) / 10
    rows[n + np.arange(count), first] += 1
    rows[n + np.arange(count), second] -= 1
    rows[n + count + np.arange(n), np.arange(n)] = 1 / 0.3
    rows[n + count + np.arange(n), n + groups] = 1 / 0.3
    rows[-7:, n:] = np.eye(7)
    right = np.concatenate([np.zeros(n + count), data / 0.3, np.zeros(7)])
    covariance = np.linalg.inv(rows.T @ rows)
    mean = covariance @ (rows.T @ right)
    np.testing.assert_allclose(marginal.mean().data, mean[n:], atol=1e-5)
    np.testing.assert_allclose(marginal.variance().data, np.diagonal(covariance)[n:], rtol=1e-4)


def test_traced() -> None:
    """Under jit, vmap and grad of the data and of a latent that remains."""
    side = 46
    first, second = neighbours(side)
    data = jnp.asarray(np.random.default_rng(0).normal(size=side * side), jnp.float32)

    def post(y):
        model = field(first, second, np.arange(side * side), side * side)
        return model.condition(rough=jnp.zeros(len(first)), y=y)

    def evidence(y):
        return post(y).log_evidence().data

    known = float(post(np.asarray(data, float)).log_evidence())
    assert float(jax.jit(evidence)(data)) == pytest.approx(known, rel=1e-5)
    slope = jax.jit(jax.grad(evidence))(data)
    mean = post(np.asarray(data, float)).marginal("z").mean().data
    np.testing.assert_allclose(slope, -(data - mean) / 0.09, atol=1e-3)  # Fisher's identity
    np.testing.assert_allclose(jax.jit(lambda y: post(y).marginal("z").mean().data)(data), mean, atol=1e-4)


def test_remaining_scale() -> None:
    """The density of a latent that remains, with its slope and curvature, where the field is integrated out."""
    side = 46
    first, second = neighbours(side)

    @fb.model
    def noisy(n):
        s = yield dist.HalfNormal(1.0)
        z = yield dist.Normal(0.0, 10.0).expand([n])
        rough = yield dist.Normal(z[first] - z[second], 1.0)
        y = yield dist.Normal(z, s)

    data = np.random.default_rng(0).normal(size=side * side)
    rest = noisy(side * side).condition(rough=np.zeros(len(first)), y=data).eliminate("z")
    assert rest.kept == ("s",)

    def density(s: float) -> float:
        return float(rest.log_prob(s=s))

    with jax.enable_x64(True):
        slope = float(jax.jit(jax.grad(lambda s: rest.log_prob(s=s)))(0.7))
        curvature = float(jax.jit(jax.hessian(lambda s: rest.log_prob(s=s)))(0.7))
    assert slope == pytest.approx((density(0.7001) - density(0.6999)) / 2e-4, rel=1e-4)
    assert curvature == pytest.approx((density(0.701) + density(0.699) - 2 * density(0.7)) / 1e-6, rel=1e-3)


def test_improper_fields_are_refused() -> None:
    """Differences alone leave the level free."""
    side = 46
    first, second = neighbours(side)

    @fb.model
    def level(n):
        z = yield dist.Normal(0.0, 1e12).expand([n])
        rough = yield dist.Normal(z[first] - z[second], 1.0)

    with pytest.raises(fb.FubiniError, match="the posterior is improper, or its numbers overflow"):
        level(side * side).condition(rough=np.zeros(len(first))).log_evidence()


def test_dense_rows_are_left_to_dense_matrices() -> None:
    """A regression has all unknowns in each row."""
    X = np.random.default_rng(0).normal(size=(500, 300))

    @fb.model
    def regression():
        w = yield dist.Normal(0.0, 1.0).expand([300])
        y = yield dist.Normal(X @ w, 1.0)

    assert "sparse" not in str(fb.explain(regression().condition(y=np.zeros(500))))
