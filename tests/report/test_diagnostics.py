"""Verdicts in words, at their thresholds; summaries and diagnostics against ArviZ and against known numbers."""

import numpy as np
import pytest

from fubini.questions.draw_diagnostics import arviz, describe, diagnose
from fubini.report.chains import rank_shares
from fubini.report.densities import smooth
from fubini.report.diagnostics import judge, verdict
from fubini.report.posterior_draws import read_draws
from fubini.report.predictive import coverage
from tests.report.examples import data

NONE = (np.nan, "")


@pytest.mark.parametrize(
    ("rhat", "level", "words"),
    [
        (1.0, "good", "The chains agree"),
        (1.0104, "good", "The chains agree"),  # 1.01 as it is shown
        (1.0106, "doubtful", "The chains nearly agree"),
        (1.05, "doubtful", "The chains nearly agree"),
        (1.06, "bad", "The chains do not agree"),
        (1e7, "bad", "R-hat is > 100 for tau"),
    ],
)
def test_rhat(rhat, level, words) -> None:
    found = verdict((rhat, "tau"), (2000.0, "mu"), (4, 1000), "nuts", 0)
    assert found.level == level and words in " ".join(found.sentences)


@pytest.mark.parametrize(("ess", "level"), [(400.0, "good"), (399.0, "doubtful"), (100.0, "doubtful"), (99.0, "bad")])
def test_effective_sample_size(ess, level) -> None:
    found = verdict((1.0, "tau"), (ess, "mu"), (4, 1000), "nuts", 0)
    assert found.level == level and f"{ess:,.0f} at least (of mu), from 4,000 draws" in " ".join(found.sentences)


@pytest.mark.parametrize(("diverging", "level"), [(0, "good"), (40, "doubtful"), (41, "bad")])
def test_divergences(diverging, level) -> None:
    found = verdict((1.0, "tau"), (2000.0, "mu"), (4, 1000), "nuts", diverging)
    assert found.level == level and ("divergence" in " ".join(found.sentences)) == bool(diverging)


@pytest.mark.parametrize("method", ["exact", "grid", "backward sampling"])
def test_independent_draws(method) -> None:
    found = verdict((1.0, "tau"), (4000.0, "mu"), (4, 1000), method, 0)
    assert found.level == "good" and "independent of each other" in " ".join(found.sentences)


@pytest.mark.parametrize("method", ["svi", "laplace"])
def test_approximations_are_named(method) -> None:
    found = verdict((1.0, "tau"), (4000.0, "mu"), (4, 1000), method, 0)
    assert found.level == "doubtful" and "normal approximation" in found.sentences[0]


def test_one_chain_is_doubtful() -> None:
    assert verdict(NONE, (2000.0, "mu"), (1, 4000), "nuts", 0).level == "doubtful"


def test_chains_apart_are_found() -> None:
    draws = np.random.default_rng(0).normal(size=(4, 200))
    draws[0] += 5.0
    found = judge(read_draws(data({"x": draws})))
    assert found.level == "bad" and "for x" in " ".join(found.sentences)


def test_verdict_counts_numbers_and_names_sites() -> None:
    """Of many sites the verdict says how many numbers disagree, and where."""
    generator = np.random.default_rng(0)
    draws = {f"x{place}": generator.normal(size=(4, 200, 3)) for place in range(20)}
    for place in range(7):
        draws[f"x{place}"][0, :, 0] += 5.0
    said = " ".join(judge(read_draws(data(draws))).sentences)
    assert "above 1.01 for 7 of 60 numbers that were checked, in x0, x1, x2, x3, x4 and 2 more sites." in said


def test_diagnostics_are_those_of_arviz() -> None:
    az, draws = arviz(), np.random.default_rng(0).normal(size=(4, 200, 3)).cumsum(axis=1)
    rhat, bulk, tail = diagnose(draws)
    dataset = az.convert_to_dataset({"x": draws})
    assert np.allclose(rhat, az.rhat(dataset)["x"])
    assert np.allclose(bulk, az.ess(dataset, method="bulk")["x"])
    assert np.allclose(tail, az.ess(dataset, method="tail")["x"])


def test_what_does_not_vary_has_no_diagnostics() -> None:
    assert all(np.isnan(each).all() for each in diagnose(np.ones((4, 100, 2))))
    assert all(np.isnan(each).all() for each in diagnose(np.random.default_rng(0).normal(size=(4, 3, 2))))


def test_summary() -> None:
    assert np.allclose(describe(np.arange(101.0)), (50.0, np.arange(101.0).std(ddof=1), 5.0, 95.0))


@pytest.mark.parametrize(("bounds", "low"), [((None, None), -5.0), ((0.0, None), 0.0)])
def test_density_integrates_to_one(bounds, low) -> None:
    draws = np.random.default_rng(0).normal(size=4000)
    draws = np.abs(draws) if bounds[0] == 0.0 else draws
    at = np.linspace(low, 5.0, 80)
    heights = smooth(draws, low, 5.0, bounds)
    assert abs(np.trapezoid(heights, at) - 1) < 0.02
    exact = np.exp(-0.5 * at**2) / np.sqrt(2 * np.pi) * (2 if bounds[0] == 0.0 else 1)
    assert np.abs(heights - exact).max() < 0.08


def test_ranks_of_chains_that_agree_are_level() -> None:
    draws = np.random.default_rng(0).normal(size=(4, 2000))
    assert np.abs(rank_shares(draws) - 1).max() < 0.4
    assert np.allclose(rank_shares(draws).mean(axis=1), 1.0)
    draws[0] += 10.0
    assert rank_shares(draws)[0, -5:].min() > 3.9  # the highest quarter of ranks is all of the first chain
    assert np.abs(rank_shares(np.ones((4, 2000))) - 1).max() < 0.01  # equal draws are shared out


@pytest.mark.parametrize(
    ("within", "count", "words"),
    [(90, 100, "as they should"), (60, 100, "fewer than they should"), (100, 100, "more than they should")],
)
def test_coverage(within, count, words) -> None:
    assert words in coverage("y", within, count)
