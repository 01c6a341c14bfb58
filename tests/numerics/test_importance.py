"""Importance sampling: within four standard errors of the truth, and the standard error is the spread."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from fubini.numerics.importance import Normal, importance_sample

DENSITIES = {
    "a normal at its mode": (stats.norm(1, 2), [Normal(np.array([1.0]), np.array([[2.0]]), 0.0)]),
    "beside its mode": (stats.norm(1, 2), [Normal(np.array([0.0]), np.array([[1.0]]), 0.0)]),
    "heavy tails": (stats.cauchy(0, 1), [Normal(np.array([0.0]), np.array([[1.0]]), 0.0)]),
}


@pytest.mark.parametrize("name", DENSITIES)
def test_one_number(name):
    density, normals = DENSITIES[name]
    found = importance_sample(np.random.default_rng(0), lambda x: density.logpdf(x[:, 0]), normals, 50_000)
    assert abs(logsumexp(found.log_weights)) < 4 * found.error < 0.05


def test_two_modes_and_two_numbers():
    modes, root = [np.array([-4.0, 0.0]), np.array([3.0, 3.0])], np.array([[0.5, 0.0], [0.4, 0.2]])
    shares = np.array([0.25, 0.75])
    normals = [Normal(mode, root, float(np.log(share))) for mode, share in zip(modes, shares, strict=True)]
    distributions = [stats.multivariate_normal(mode, root @ root.T) for mode in modes]

    def log_density(x):
        return logsumexp(
            [np.log(share) + distribution.logpdf(x) for share, distribution in zip(shares, distributions, strict=True)],
            axis=0,
        )

    found = importance_sample(np.random.default_rng(1), log_density, normals, 20_000)
    assert abs(logsumexp(found.log_weights)) < 4 * found.error < 0.05
    weights = np.exp(found.log_weights)
    assert weights @ (found.points[:, 0] > 0) == pytest.approx(0.75, abs=0.03)


def test_the_error_is_the_spread_of_estimates():
    density, normals = DENSITIES["beside its mode"]
    runs = [
        importance_sample(np.random.default_rng(seed), lambda x: density.logpdf(x[:, 0]), normals, 1000)
        for seed in range(200)
    ]
    spread = np.std([logsumexp(run.log_weights) for run in runs])
    assert np.mean([run.error for run in runs]) == pytest.approx(spread, rel=0.2)
