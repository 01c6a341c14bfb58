"""The neural variational Kalman filter against dense Gaussians and sums over counts in NumPy, and its quick mode."""

import os
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import poisson

from examples.ridership import forecast, model, scores
from examples.ridership.__main__ import main
from examples.ridership.data import KINDS, TRAINING_DAYS, Ridership, load, simulated, usual_rates
from examples.ridership.train import series_of

HOURS, STATIONS, DIMENSION = 6, 3, 2


@pytest.fixture
def double_width() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def short_series() -> model.Series:
    whole = simulated(STATIONS)
    series = series_of(whole, usual_rates(whole))
    return jax.tree.map(lambda data: jnp.asarray(data[8 : 8 + HOURS], jnp.result_type(float)), series)


def some_parameters(series: model.Series) -> model.Parameters:
    found = model.initial_parameters(jax.random.key(3), series, DIMENSION)
    keys = jax.random.split(jax.random.key(4), len(found))
    return model.Parameters(*(x + 0.2 * jax.random.normal(key, x.shape) for x, key in zip(found, keys, strict=True)))


# -- the oracle -------------------------------------------------------------------------------------------------------


def dynamics(p: model.Parameters) -> tuple[np.ndarray, np.ndarray]:
    m = np.asarray(p.transition)
    a = m @ np.linalg.inv(np.linalg.cholesky(np.eye(DIMENSION) + m.T @ m)).T
    return a, np.eye(DIMENSION) - a @ a.T


def prior_covariance(p: model.Parameters) -> np.ndarray:
    """Of the states of all hours together, which are stationary."""
    a, _ = dynamics(p)
    powers = [np.linalg.matrix_power(a, lag) for lag in range(HOURS)]
    blocks = [[powers[i - j] if i >= j else powers[j - i].T for j in range(HOURS)] for i in range(HOURS)]
    return np.block(blocks)


def log_normal(x: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> float:
    gap = x - mean
    return float(-0.5 * (gap @ np.linalg.solve(covariance, gap) + np.linalg.slogdet(2 * np.pi * covariance)[1]))


def readings(p: model.Parameters, series: model.Series) -> tuple[np.ndarray, np.ndarray]:
    return tuple(np.asarray(part).ravel() for part in model.read(p, series))  # type: ignore[return-value]


def dense_posterior(p: model.Parameters, series: model.Series) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean and covariance of q over all hours, and the logarithm of its mass."""
    place, scale = readings(p, series)
    prior = prior_covariance(p)
    seen = prior + np.diag(scale**2)
    gain = np.linalg.solve(seen, prior).T
    return gain @ place, prior - gain @ prior, log_normal(place, np.zeros(len(place)), seen)


def bound_of(p: model.Parameters, series: model.Series, mean: np.ndarray, covariance: np.ndarray) -> float:
    """E_q[log p(trips | z)] − KL(q, p), the first by many draws."""
    random, prior = np.random.default_rng(0), prior_covariance(p)
    draws = random.multivariate_normal(mean, covariance, size=20_000).reshape(-1, HOURS, DIMENSION)
    seen = jax.jit(jax.vmap(lambda z: log_likelihood(p, series, z)))(draws)
    ratio = np.linalg.solve(prior, covariance)
    far = mean @ np.linalg.solve(prior, mean)
    return float(seen.mean()) - 0.5 * (np.trace(ratio) + far - len(mean) - np.linalg.slogdet(ratio)[1])


def log_likelihood(p: model.Parameters, series: model.Series, z: jax.Array) -> jax.Array:
    parts = jax.vmap(model.gates_and_rates, (None, 0, 0))(p, series.calendar, z)
    return model.log_mass(*parts, series.trips).sum()


# -- the model --------------------------------------------------------------------------------------------------------


def test_log_mass_is_zero_inflated_poisson(double_width: None) -> None:
    trips, gate, rate = np.arange(400.0), 0.3, 4.0
    expected = gate * (trips == 0) + (1 - gate) * poisson.pmf(trips, rate)
    factorials = np.cumsum(np.log(np.maximum(trips, 1)))
    found = np.exp(model.log_mass(np.log(gate / (1 - gate)), np.log(rate), trips) - factorials)
    np.testing.assert_allclose(found, expected, atol=1e-14)
    assert found.sum() == pytest.approx(1.0)


def test_dynamics_are_stationary(double_width: None) -> None:
    p = some_parameters(short_series())
    a, noise = dynamics(p)
    z, after = np.array([0.3, -1.2]), np.array([0.5, 0.1])

    @jax.jit
    def asked(p: model.Parameters) -> tuple[jax.Array, jax.Array]:
        kept = (model.start(p) * model.move(p)).sum("z")
        return model.move(p)(z=z, z_next=after).log().data, kept.covariance("z_next").data

    log_density, covariance = asked(p)
    assert np.linalg.norm(a, 2) < 1
    assert float(log_density) == pytest.approx(log_normal(after, a @ z, noise))
    np.testing.assert_allclose(covariance, np.eye(DIMENSION), atol=1e-10)


def test_posterior_is_that_of_the_dense_gaussian(double_width: None) -> None:
    series = short_series()
    p = some_parameters(series)
    mean, covariance, log_mass = dense_posterior(p, series)

    @jax.jit
    def asked(p: model.Parameters, series: model.Series) -> tuple[jax.Array, ...]:
        chain, last = model.posterior(p, series), forecast.last_by_chain(p, series)
        smoothed = chain.smooth().mean("z_next").data
        return chain.log_evidence().data, smoothed, last.mean("z").data, last.covariance("z").data

    evidence, smoothed, last_mean, last_covariance = asked(p, series)
    assert float(evidence) == pytest.approx(log_mass)
    np.testing.assert_allclose(smoothed.ravel(), mean, atol=1e-9)
    np.testing.assert_allclose(last_mean, mean[-DIMENSION:], atol=1e-9)
    np.testing.assert_allclose(last_covariance, covariance[-DIMENSION:, -DIMENSION:], atol=1e-9)


@pytest.mark.parametrize("guide", ["mean field", "collapsed"])
def test_bound_is_expected_likelihood_less_divergence(guide: str, double_width: None) -> None:
    series = short_series()
    p = some_parameters(series)
    if guide == "collapsed":
        bound, (mean, covariance, _) = model.collapsed_bound, dense_posterior(p, series)
    else:
        place, scale = readings(p, series)
        bound, mean, covariance = model.mean_field_bound, place, np.diag(scale**2)
    estimates = jax.jit(jax.vmap(lambda key: bound(p, series, key)))(jax.random.split(jax.random.key(0), 4_000))
    error = float(estimates.std() / np.sqrt(len(estimates)))
    assert float(estimates.mean()) == pytest.approx(bound_of(p, series, mean, covariance), abs=5 * error)


def test_continued_states_forget_the_last() -> None:
    series = short_series()
    p = some_parameters(series)
    place, scale = model.read(p, series)
    last = forecast.last_by_mean_field
    states = np.asarray(forecast.paths(p, series, jax.random.key(0), last=last, hours=60, draws=4_000))
    a, noise = dynamics(p)
    np.testing.assert_allclose(states[:, 0].mean(0), a @ place[-1], atol=0.08)
    np.testing.assert_allclose(np.cov(states[:, 0].T), a @ np.diag(scale[-1] ** 2) @ a.T + noise, atol=0.1)
    np.testing.assert_allclose(np.cov(states[:, -1].T), np.eye(DIMENSION), atol=0.1)


# -- scores and data --------------------------------------------------------------------------------------------------


def test_crps_is_the_area_between_distribution_functions() -> None:
    random = np.random.default_rng(0)
    draws, truth = random.poisson(4.0, (50, 7)).astype(float), random.poisson(4.0, 7)
    grid = np.arange(40)
    below = (draws[..., None] <= grid).mean(0)
    expected = ((below - (truth[:, None] <= grid)) ** 2).sum(-1)
    np.testing.assert_allclose(scores.crps(np.sort(draws, axis=0), truth), expected, atol=1e-12)


def test_intervals_of_the_true_rates_cover_80_percent() -> None:
    random = np.random.default_rng(0)
    rates = random.gamma(20.0, 20.0, (48, 4, 4))
    days = (random.poisson(rates[start : start + 24], (400, 24, 4, 4)) for start in (0, 24))
    found = scores.score(days, random.poisson(rates))
    for view in scores.VIEWS:
        assert found[view].covered == pytest.approx(0.8, abs=0.07)


def test_kinds_of_hours_and_usual_rates() -> None:
    week = Ridership(np.ones((24 * 7, 2, 2)), np.datetime64("2025-08-01"), np.arange(2))  # from a Friday
    assert [week.kinds[24 * day + 5] for day in range(7)] == [5, 29, 53, 5, 5, 5, 5]
    np.testing.assert_allclose(usual_rates(week), 1.0, atol=0.01)
    doubled = week._replace(trips=week.trips * np.where(week.kinds == 8, 3.0, 1.0)[:, None, None])
    assert usual_rates(doubled).shape == (KINDS, 2, 2)
    np.testing.assert_allclose(usual_rates(doubled)[8], 3.0, atol=0.02)


# -- the program ------------------------------------------------------------------------------------------------------


def test_full_mode_asks_for_data(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("FUBINI_DATA", raising=False)
    assert main(["--full"]) == 2
    assert "FUBINI_DATA" in capsys.readouterr().err


@pytest.mark.slow
def test_quick_mode(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    monkeypatch.delenv("FUBINI_DATA", raising=False)
    assert main(["--quick", "--steps", "5", "--draws", "20", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "seasonal mean" in printed and "collapsed, dimension 2" in printed and "nan" not in printed
    assert (tmp_path / "ridership_2.png").stat().st_size > 0


@pytest.mark.skipif("FUBINI_DATA" not in os.environ, reason="needs the data sets: FUBINI_DATA is not set")
def test_metro_data() -> None:
    whole = load(Path(os.environ["FUBINI_DATA"]))
    assert whole.trips.shape == (24 * 18, 68, 68)
    assert 8_000_000 < whole.trips.sum() < 12_059_475
    past, future = whole.days(0, TRAINING_DAYS), whole.days(TRAINING_DAYS, 18)
    assert (len(past.trips), len(future.trips), str(future.first)) == (264, 168, "2025-08-12")
    assert whole.busiest(6).trips.shape == (24 * 18, 6, 6)
    few = Ridership(whole.trips[:, :20, :20], whole.first, whole.stations[:20])
    past, future = few.days(0, TRAINING_DAYS), few.days(TRAINING_DAYS, 18)
    found = scores.score(forecast.by_season(past, future, 50, 0), future.trips)["pairs"]
    assert 0 < found.crps < found.error
