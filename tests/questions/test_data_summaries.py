"""A few points stand for all data, whatever the parameters: for every family of which it is claimed."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gammaln

import fubini as fb
from fubini import dist
from fubini.factors.promotion import promoted
from fubini.families.family import families, read_family
from fubini.questions.data_summaries import summary_of
from fubini.questions.expected_log import log_cells

ROWS, STATES = 30, 2
RNG = np.random.default_rng(0)
COVARIANCE = np.array([[[1.0, 0.3], [0.3, 2.0]], [[0.5, -0.1], [-0.1, 0.4]]])


CASES = {
    "Normal": (lambda k: dist.Normal(k([1.0, -2.0]), k([0.3, 4.0])), RNG.normal(3.0, 2.0, ROWS)),
    "MultivariateNormal": (
        lambda k: dist.MultivariateNormal(k([[1.0, 0.0], [0.5, 2.0]]), covariance_matrix=k(COVARIANCE)),
        RNG.normal(100.0, 2.0, (ROWS, 2)),
    ),
    "BernoulliProbs": (lambda k: dist.Bernoulli(k([0.2, 0.9])), RNG.integers(0, 2, ROWS)),
    "BernoulliLogits": (lambda k: dist.Bernoulli(logits=k([0.2, -3.0])), RNG.integers(0, 2, ROWS)),
    "Poisson": (lambda k: dist.Poisson(k([0.2, 9.0])), RNG.integers(0, 9, ROWS)),
    "Independent": (
        lambda k: dist.Normal(k([[1.0, -2.0, 0.0], [2.0, 2.0, 2.0]]), 0.5).to_event(1),
        RNG.normal(3.0, 2.0, (ROWS, 3)),
    ),
}


@pytest.mark.parametrize("family", CASES)
def test_a_weighted_sum_over_data_is_one_over_points(family: str) -> None:
    make, data = CASES[family]
    density = make(lambda values: fb.Array(np.asarray(values), ("x",)))(fb.Array(data, ("t",)))
    summary = summary_of(density)
    assert summary is not None
    factor = promoted(density)
    axis = tuple(factor.inputs).index("t")
    counts = RNG.random([ROWS, STATES] if axis == 0 else [STATES, ROWS])
    logs = np.asarray(log_cells(factor))
    weights = np.asarray(summary.weights(jnp.asarray(counts), factor))
    at_points = np.asarray(log_cells(summary.at_points(density)))
    if family == "Poisson":  # but for log y!, which no parameter changes
        constant = gammaln(data + 1.0)
        logs = logs + (constant[:, None] if axis == 0 else constant[None])
        at_points = at_points + gammaln(np.asarray(summary.points.array) + 1.0)[:, None]
    over_points = (weights * at_points).reshape(-1, STATES).sum(0)
    np.testing.assert_allclose(over_points, (counts * logs).sum(axis), rtol=2e-5)


@pytest.mark.parametrize("data", [np.array([0, 1, 1] * 10), RNG.poisson(1e6, 30)])
def test_of_events_and_counts_no_weight_is_negative(data: np.ndarray) -> None:
    """Nothing cancels: in single precision sums of differences of large numbers would."""
    family = dist.Bernoulli(fb.Array(np.array([0.2, 0.9]), ("x",))) if data.max() < 2 else dist.Poisson(1e6)
    density = family(fb.Array(data, ("t",)))
    summary = summary_of(density)
    assert summary is not None
    assert (summary.basis >= 0).all()
    np.testing.assert_allclose(summary.basis.sum(axis=1), 1.0, rtol=1e-12)


def test_every_family_with_a_degree_has_a_case() -> None:
    records = [read_family(name) for name in CASES]
    assert {record for record in families() if record.degree is not None} == {one for one in records if one is not None}


def test_data_that_parameters_go_with_have_no_points() -> None:
    mean = fb.Array(np.arange(30.0), ("t",))
    assert summary_of(dist.Normal(mean, 1.0)(fb.Array(np.zeros(30), ("t",)))) is None
    assert summary_of(dist.Gamma(2.0, 1.0)(fb.Array(np.ones(30), ("t",)))) is None
    assert summary_of(dist.Normal(0.0, 1.0)(fb.Array(np.zeros(4), ("t",)))) is None
