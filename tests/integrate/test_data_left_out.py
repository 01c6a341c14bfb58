"""No data at all, rows that are missing as a whole, and data under a mask: the evidence is that of the others."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate

import fubini as fb
from fubini import dist

MISSING = np.arange(4) == 2
TIMES, COUNTS = np.array([1.3, 2.1, 9.0, 0.5]), np.array([[1, 2, 2], [5, 0, 0], [0, 0, 0], [1, 1, 3]])
ROWS = np.random.default_rng(0).normal(size=(4, 2))
ROOT = np.array([[1.0, 0.0], [0.3, 0.7]])


@fb.model
def greatest(n):
    x = yield dist.Pareto(1.0, 2.0)
    y = yield dist.Uniform(0.0, x).expand([n])


@fb.model
def covariance(n):
    x = yield dist.InverseWishart(5.0, np.eye(2))
    y = yield dist.MultivariateNormal(np.zeros(2), x).expand([n])


@fb.model
def mean_and_covariance(n):
    x = yield dist.InverseWishart(5.0, np.eye(2))
    mu = yield dist.MultivariateNormal(np.zeros(2), x / 0.3)
    y = yield dist.MultivariateNormal(mu, x).expand([n])


@fb.model
def mean(n):
    x = yield dist.MultivariateNormal(np.zeros(2), np.eye(2))
    y = yield dist.MultivariateNormal(x, scale_tril=ROOT).expand([n])


@fb.model
def shares(n):
    x = yield dist.Dirichlet(np.ones(3))
    y = yield dist.Multinomial(total_count=5, probs=x).expand([n])


MODELS = {
    "an end": (greatest, TIMES, 2.0),
    "a covariance": (covariance, ROWS, np.eye(2) / 2),
    "a mean and a covariance": (mean_and_covariance, ROWS, np.eye(2) / 2),
    "a mean": (mean, ROWS, np.zeros(2)),
    "shares": (shares, COUNTS, np.full(3, 1 / 3)),
}


@pytest.mark.parametrize("name", MODELS)
def test_missing_rows(name):
    """As the model of the other rows: evidence and posterior mean."""
    model, y, _ = MODELS[name]
    holes = np.ma.array(y, mask=np.broadcast_to(MISSING.reshape(4, *[1] * (y.ndim - 1)), y.shape))
    with_holes, without = model(4).condition(y=holes), model(3).condition(y=y[~MISSING])
    expected = float(without.log_evidence())
    assert float(with_holes.log_evidence()) == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(with_holes.marginal("x").mean().data, without.marginal("x").mean().data, rtol=1e-9)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("on", [np, jnp])
def test_no_data(name, on):
    """The evidence of nothing is 1, and the posterior is the prior."""
    model, y, mean_before = MODELS[name]
    post = model(0).condition(y=on.asarray(y[:0]))
    assert float(post.log_evidence()) == pytest.approx(0.0, abs=1e-6)
    np.testing.assert_allclose(post.marginal("x").mean().data, mean_before, rtol=1e-5, atol=1e-6)


def test_impossible_rows_under_a_mask():
    """Counts that do not add up are impossible, where they count."""

    @fb.model
    def masked(mask):
        x = yield dist.Dirichlet(np.ones(3))
        y = yield dist.Multinomial(total_count=5, probs=x).expand([4]).mask(mask)

    expected = float(shares(3).condition(y=COUNTS[~MISSING]).log_evidence())
    assert float(masked(~MISSING).condition(y=COUNTS).log_evidence()) == pytest.approx(expected, rel=1e-9)
    with pytest.raises(fb.errors.DataError, match=r"p\(observed\) is 0"):
        masked(np.ones(4, bool)).condition(y=COUNTS).log_evidence()


def test_ends_under_a_mask():
    """A datum that does not count sets no end; with the derivative in the power."""

    @fb.model
    def masked(a):
        x = yield dist.Uniform(0.0, 5.0)
        y = yield dist.Pareto(x, a).expand([4]).mask(np.array([True, False, True, False]))

    def by_hand(a):
        return np.log(integrate.quad(lambda x: (a * x**a) ** 2 * (1.3 * 9.0) ** (-a - 1) / 5, 0, 1.3)[0])

    with jax.enable_x64(True):
        found = jax.jit(jax.value_and_grad(lambda a: masked(a).condition(y=TIMES).log_evidence().data))(1.7)
    slope = (by_hand(1.7 + 1e-4) - by_hand(1.7 - 1e-4)) / 2e-4
    np.testing.assert_allclose(found, (by_hand(1.7), slope), rtol=1e-6)
    assert float(masked(1.7).condition(y=TIMES).log_evidence()) == pytest.approx(by_hand(1.7), rel=1e-9)


def test_labels_that_say_which_data_count():
    @fb.model
    def masked():
        z = yield dist.Bernoulli(0.4).expand([4])
        x = yield dist.Pareto(1.0, 2.0)
        y = yield dist.Uniform(0.0, x).mask(z == 1)

    def each(z):
        count, end = z.sum(), max([1.0, *TIMES[z]])
        return 0.4**count * 0.6 ** (4 - count) * 2 / (2 + count) * end ** (-2.0 - count)

    total = sum(each(np.array(z)) for z in itertools.product((False, True), repeat=4))
    assert float(masked().condition(y=TIMES).log_evidence()) == pytest.approx(np.log(total), rel=1e-9)
