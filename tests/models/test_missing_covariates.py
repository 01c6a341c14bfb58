"""Missing entries of sites that others read are latents: evidence, marginals, draws and predictions, by every door."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as nd
import pytest
from numpyro.contrib.control_flow import scan
from scipy import stats

import fubini as fb
from fubini import dist
from fubini.errors import NoRule

KEY = jax.random.key(0)
GONE = np.isin(np.arange(8), (2, 5))
X = np.array([0.3, -1.2, 0.8, 1.9, -0.4, 0.1, -2.0, 0.7])
Y = np.array([1.4, -1.5, 2.9, 4.6, 0.4, 1.0, -3.2, 2.5])
HOLES = np.ma.array(np.where(GONE, np.nan, X), mask=GONE)


@fb.model
def known_slope(slope=2.0):
    mu = yield dist.Normal(0.0, 1.0)
    x = yield dist.Normal(mu, 1.5).expand([8])
    y = yield dist.Normal(1.0 + slope * x, 0.5)


def numpyro_known_slope(slope=2.0):
    mu = numpyro.sample("mu", nd.Normal(0.0, 1.0))
    with numpyro.plate("rows", 8):
        x = numpyro.sample("x", nd.Normal(mu, 1.5))
        numpyro.sample("y", nd.Normal(1.0 + slope * x, 0.5))


def gaussian(slope: float = 2.0) -> Any:
    """The normal of (mu, x, y), its joint covariance and mean, by hand."""
    to_all = np.concatenate([[1.0], np.ones(8), slope * np.ones(8)])
    own = np.zeros((17, 17))
    own[1:9, 1:9] = 1.5**2 * np.eye(8)
    own[1:9, 9:] = own[9:, 1:9] = slope * 1.5**2 * np.eye(8)
    own[9:, 9:] = (slope**2 * 1.5**2 + 0.25) * np.eye(8)
    return np.concatenate([np.zeros(9), np.ones(8)]), np.outer(to_all, to_all) + own


def by_hand(slope: float = 2.0) -> tuple[float, np.ndarray, np.ndarray]:
    """Evidence, and mean and covariance of what is missing."""
    mean, covariance = gaussian(slope)
    seen = np.concatenate([1 + np.flatnonzero(~GONE), np.arange(9, 17)])
    gone = 1 + np.flatnonzero(GONE)
    data = np.concatenate([X[~GONE], Y])
    gain = covariance[np.ix_(gone, seen)] @ np.linalg.inv(covariance[np.ix_(seen, seen)])
    there = gain @ (data - mean[seen])
    rest = covariance[np.ix_(gone, gone)] - gain @ covariance[np.ix_(seen, gone)]
    return stats.multivariate_normal(mean[seen], covariance[np.ix_(seen, seen)]).logpdf(data), there, rest


DOORS = {
    "model": lambda: known_slope().condition(x=HOLES, y=Y),
    "one after the other": lambda: known_slope().condition(y=Y).condition(x=HOLES),
    "names": lambda: fb.JointNamed(
        dict(
            mu=dist.Normal(0.0, 1.0),
            x=lambda mu: dist.Normal(mu, 1.5).expand([8]),
            y=lambda x: dist.Normal(1.0 + 2.0 * x, 0.5),
        )
    ).condition(x=HOLES, y=Y),
    "numpyro": lambda: fb.from_numpyro(numpyro_known_slope).condition(x=HOLES, y=Y),
    "taken back and given again": lambda: known_slope().condition(x=HOLES, y=Y).uncondition("x").condition(x=HOLES),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door(door: str) -> None:
    evidence, mean, covariance = by_hand()
    post = DOORS[door]()
    found = post.log_evidence()
    assert float(found) == pytest.approx(evidence, abs=1e-9) and found.exactness.is_exact
    missing = post.marginal("x_missing")
    np.testing.assert_allclose(missing.mean(), mean, atol=1e-9)
    np.testing.assert_allclose(missing.covariance(), covariance, atol=1e-9)


def test_under_jit_with_a_gradient() -> None:
    """Single precision; the slope is traced."""
    ask = jax.value_and_grad(lambda slope: known_slope(slope).condition(x=HOLES, y=Y).log_evidence().data)
    value, gradient = jax.jit(ask)(2.0)
    step = 1e-4
    assert float(value) == pytest.approx(by_hand()[0], rel=1e-5)
    central = (by_hand(2.0 + step)[0] - by_hand(2.0 - step)[0]) / (2 * step)
    assert float(gradient) == pytest.approx(central, rel=1e-4)
    assert float(known_slope().condition(x=HOLES, y=Y).log_evidence()) == pytest.approx(by_hand()[0], abs=1e-9)


def test_draws_predictions_and_arviz() -> None:
    post = known_slope().condition(x=HOLES, y=Y)
    draws = post.infer(KEY, draws=2000, progress=False)
    _, mean, covariance = by_hand()
    found = draws.posterior["x_missing"].values.reshape(-1, 2)
    np.testing.assert_allclose(found.mean(axis=0), mean, atol=5 * np.sqrt(covariance[0, 0] / len(found)))
    assert np.isnan(draws.observed_data["x"].values).tolist() == GONE.tolist()
    assert post.predict(KEY, "y", draws=draws).shape == (8000, 8)
    parts = post.log_prob_parts(mu=0.2, x_missing=np.array([0.5, -0.5]))
    whole = np.where(GONE, [0, 0, 0.5, 0, 0, -0.5, 0, 0], X)
    assert float(parts.observed.y) == pytest.approx(stats.norm(1 + 2 * whole, 0.5).logpdf(Y).sum())
    assert float(parts.observed.x) == pytest.approx(stats.norm(0.2, 1.5).logpdf(X[~GONE]).sum())
    assert float(parts.free.x_missing) == pytest.approx(stats.norm(0.2, 1.5).logpdf([0.5, -0.5]).sum())


def test_a_slope_that_is_not_known() -> None:
    """What is missing is integrated out given the slope; quadrature over the slope against a sum over a grid."""

    @fb.model
    def line():
        slope = yield dist.Normal(0.0, 3.0)
        mu = yield dist.Normal(0.0, 1.0)
        x = yield dist.Normal(mu, 1.5).expand([8])
        y = yield dist.Normal(1.0 + slope * x, 0.5)

    grid = np.linspace(1.0, 3.0, 401)
    each = np.array([by_hand(slope)[0] for slope in grid]) + stats.norm(0, 3).logpdf(grid)
    want = np.log(np.sum(np.exp(each - each.max())) * (grid[1] - grid[0])) + each.max()
    with fb.quadrature():
        assert float(line().condition(x=HOLES, y=Y).log_evidence()) == pytest.approx(want, abs=1e-6)


def test_cells_of_a_table() -> None:
    """A matrix of covariates with single cells missing: their sum is observed."""
    table = np.ma.array(np.arange(6.0).reshape(3, 2), mask=[[False, True], [False, False], [True, True]])
    post = fb.JointNamed(
        dict(x=dist.Normal(0.0, 1.0).expand([3, 2]), y=lambda x: dist.Normal(x.sum(-1), 1.0))
    ).condition(x=table, y=np.array([1.0, 5.0, 2.0]))
    want = stats.norm.logpdf([0.0, 2.0, 3.0]).sum()
    want += stats.norm(0, np.sqrt(2)).logpdf(1.0) + stats.norm.logpdf(0.0) + stats.norm(0, np.sqrt(3)).logpdf(2.0)
    assert float(post.log_evidence()) == pytest.approx(want, abs=1e-9)
    np.testing.assert_allclose(post.marginal("x_missing").mean(), [0.5, 2 / 3, 2 / 3], atol=1e-9)


def test_missing_labels_are_summed() -> None:
    """All values of the labels that are missing, by hand."""

    @fb.model
    def groups():
        z = yield dist.Bernoulli(0.3).expand([8])
        y = yield dist.Normal(jnp.array([-1.0, 2.0])[z], 1.0)

    labels = (X > 0).astype(int)
    post = groups().condition(z=np.ma.array(labels, mask=GONE), y=Y)
    each = np.log([0.7, 0.3]) + stats.norm([-1.0, 2.0], 1.0).logpdf(Y[:, None])
    want = np.logaddexp.reduce(each[GONE], axis=1).sum() + each[np.arange(8), labels][~GONE].sum()
    assert float(post.log_evidence()) == pytest.approx(want, abs=1e-9)
    share = np.exp(each[GONE, 1] - np.logaddexp.reduce(each[GONE], axis=1))
    np.testing.assert_allclose(np.asarray(post.marginal("z_missing").weights)[:, 1], share, atol=1e-9)


def test_many_missing_labels_are_summed_one_by_one() -> None:
    @fb.model
    def groups():
        z = yield dist.Categorical(jnp.array([0.2, 0.5, 0.3])).expand([60])
        y = yield dist.Normal(jnp.array([-1.0, 2.0, 0.0])[z], 1.0)

    y, labels, gone = np.linspace(-2, 3, 60), np.arange(60) % 3, np.arange(60) % 2 == 0
    each = np.log([0.2, 0.5, 0.3]) + stats.norm([-1.0, 2.0, 0.0], 1.0).logpdf(y[:, None])
    want = np.logaddexp.reduce(each[gone], axis=1).sum() + each[np.arange(60), labels][~gone].sum()
    found = groups().condition(z=np.ma.array(labels, mask=gone), y=y).log_evidence()
    assert float(found) == pytest.approx(want, abs=1e-8)


def test_labels_whose_centres_are_latent() -> None:
    """A sum over both missing labels of evidences of whole data."""

    @fb.model
    def groups():
        centre = yield dist.Normal(0.0, 3.0).expand([2])
        z = yield dist.Bernoulli(0.3).expand([8])
        y = yield dist.Normal(centre[z], 1.0)

    labels = (X > 0).astype(int)
    found = groups().condition(z=np.ma.array(labels, mask=GONE), y=Y).log_evidence()
    whole = []
    for a in (0, 1):
        for b in (0, 1):
            full = labels.copy()
            full[GONE] = (a, b)
            whole.append(float(groups().condition(z=full, y=Y).log_evidence()))
    assert float(found) == pytest.approx(np.logaddexp.reduce(whole), abs=1e-9)


def test_rows_that_are_missing_as_a_whole() -> None:
    covariance = np.array([[1.0, 0.5], [0.5, 2.0]])
    joint = fb.JointNamed(
        dict(x=dist.MultivariateNormal(np.zeros(2), covariance).expand([3]), y=lambda x: dist.Normal(x.sum(-1), 1.0))
    )
    rows = np.ma.array([[0.5, 0.2], [9.0, 9.0], [0.3, -0.2]], mask=[[False] * 2, [True] * 2, [False] * 2])
    post = joint.condition(x=rows, y=np.array([1.0, 2.0, 0.0]))
    there = rows.data[[0, 2]]
    want = stats.multivariate_normal(np.zeros(2), covariance).logpdf(there).sum()
    want += stats.norm(there.sum(-1), 1.0).logpdf([1.0, 0.0]).sum() + stats.norm(0, np.sqrt(4 + 1)).logpdf(2.0)
    assert float(post.log_evidence()) == pytest.approx(want, abs=1e-9)
    np.testing.assert_allclose(post.marginal("x_missing").mean(), [[1.5 * 2 / 5, 2.5 * 2 / 5]], atol=1e-9)


def test_calibration_of_what_is_missing() -> None:
    """Ranks of the entries that are missing, among draws of them."""
    found = fb.sbc(known_slope().condition(x=HOLES, y=Y), KEY, simulations=20, draws=19, progress=False)
    assert found.ranks["x_missing"].shape == (20, 2)


# -- new data with gaps of their own -----------------------------------------------------------------------------------


@fb.model
def rows_of(n):
    mu = yield dist.Normal(0.0, 1.0)
    x = yield dist.Normal(mu, 1.5).expand([n])
    y = yield dist.Normal(1.0 + 2.0 * x, 0.5)


@pytest.mark.parametrize("sampled", [False, True])
def test_gaps_of_new_data_are_not_those_of_the_old(sampled: bool) -> None:
    """As many of them, under the same name: the evidence of both together over that of the old."""
    old = rows_of(3).condition(x=HOLES[:3], y=Y[:3])
    new = rows_of(3).condition(x=HOLES[5:], y=Y[5:])
    both = rows_of(6).condition(x=np.ma.concatenate([HOLES[:3], HOLES[5:]]), y=np.concatenate([Y[:3], Y[5:]]))
    draws = {"draws": old.infer(KEY, draws=1000, progress=False), "key": KEY} if sampled else {}
    found = float(old.log_predictive(new, **draws))
    assert found == pytest.approx(float(both.log_evidence() - old.log_evidence()), abs=0.1 if sampled else 1e-9)


def test_gaps_in_a_scan_that_reads_them_are_an_error() -> None:
    def model() -> None:
        def step(before: Any, _: Any) -> Any:
            y = numpyro.sample("y", nd.Normal(0.5 * before, 1.0))
            return y, y

        scan(step, 0.0, None, length=3)

    with pytest.raises(NoRule, match="missing entries of 'y', which later steps of a scan depend on"):
        fb.from_numpyro(model).condition(y=np.ma.masked_invalid([0.3, np.nan, 0.7])).log_evidence()
