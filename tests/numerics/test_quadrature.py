"""Integrals over a few numbers: within the stated bound of the truth, or refused."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import betaln, gammaln, logsumexp

from fubini.numerics.cubature import MOST_NUMBERS, TOLERANCE, integrate
from fubini.numerics.frame import NoGrid

TILTED = np.array([[1.0, 0.9], [0.9, 1.0]])


def two(x, first, second):
    return np.logaddexp(math.log(0.3) + first.logpdf(x), math.log(0.7) + second.logpdf(x))


def funnel(x):
    return stats.norm.logpdf(x[:, 0]) + stats.norm.logpdf(x[:, 1], 0, np.exp(x[:, 0] / 2))


# Densities that integrate to one, of one to three numbers.
SMOOTH = {
    "normal": (1, lambda x: stats.norm.logpdf(x[:, 0], 3, 1e-3)),
    "far away": (1, lambda x: stats.norm.logpdf(x[:, 0], 300, 2)),
    "cauchy": (1, lambda x: stats.cauchy.logpdf(x[:, 0], 1, 2)),
    "student": (1, lambda x: stats.t.logpdf(x[:, 0], 3)),
    "gumbel": (1, lambda x: stats.gumbel_r.logpdf(x[:, 0], 5, 3)),
    "logit of a beta": (1, lambda x: 0.5 * x[:, 0] - 3.5 * np.logaddexp(0, x[:, 0]) - betaln(0.5, 3)),
    "log of a gamma": (1, lambda x: 0.1 * x[:, 0] - np.exp(np.minimum(x[:, 0], 700)) - gammaln(0.1)),
    "two far apart": (1, lambda x: two(x[:, 0], stats.norm(-5, 0.1), stats.norm(10, 2))),
    "two nearby": (1, lambda x: two(x[:, 0], stats.norm(-2, 0.5), stats.norm(2, 1))),
    "tilted": (2, lambda x: stats.multivariate_normal.logpdf(x, [1, 2], TILTED)),
    "heavy tails": (2, lambda x: stats.multivariate_t.logpdf(x, [1, 2], TILTED, 4)),
    "two of two": (
        2,
        lambda x: two(x, stats.multivariate_normal([1, 2], TILTED), stats.multivariate_normal([-5, 4], 0.1 * TILTED)),
    ),
    "funnel": (2, funnel),
    "three": (3, lambda x: stats.multivariate_normal.logpdf(x, [1, 2, 0], np.diag([1, 2, 0.1]))),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_densities(name):
    size, log_density = SMOOTH[name]
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # far away, where the density is 0
        found = integrate(log_density, size)
    assert abs(found.log_value) <= found.error <= 10 * TOLERANCE
    assert logsumexp(found.log_weights) == pytest.approx(found.log_value, abs=1e-12)
    assert found.points.shape == (len(found.log_weights), size)


@pytest.mark.parametrize("family", [stats.laplace(0.3, 1), stats.uniform(-1, 2), stats.triang(0.4, -1, 3)])
def test_kinks_and_jumps_are_bounded_too(family):
    found = integrate(lambda x: family.logpdf(x[:, 0]), 1)
    assert abs(found.log_value) <= found.error <= 1e-3


def test_moments_by_the_points():
    found = integrate(lambda x: stats.norm.logpdf(x[:, 0], 3, 0.5), 1)
    shares = np.exp(found.log_weights)
    assert shares @ found.points[:, 0] == pytest.approx(3, rel=1e-9)
    assert shares @ (found.points[:, 0] - 3) ** 2 == pytest.approx(0.25, rel=1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_mixtures_of_normals(seed):
    """With standard deviations that differ up to some tenfold, in one or two dimensions."""
    random = np.random.default_rng(seed)
    size, count = random.integers(1, 3), random.integers(1, 4)
    shares, means = random.dirichlet(np.ones(count)), 4 * random.normal(size=(count, size))
    sds = np.exp(0.7 * random.normal(size=(count, size)))
    parts = list(zip(shares, means, sds, strict=True))
    found = integrate(
        lambda x: logsumexp([np.log(p) + stats.norm.logpdf(x, m, s).sum(1) for p, m, s in parts], axis=0), int(size)
    )
    assert abs(found.log_value) <= found.error <= 1e-6


def test_improper_densities_are_refused():
    with pytest.raises(NoGrid):
        integrate(lambda x: np.zeros(len(x)), 1)
    with pytest.raises(NoGrid):
        integrate(lambda x: np.where(x[:, 0] > 0, -np.log1p(np.abs(x[:, 0])), -np.inf), 1)


def test_too_many_numbers_are_refused():
    with pytest.raises(NoGrid, match=f"{MOST_NUMBERS + 1} numbers"):
        integrate(lambda x: -0.5 * np.sum(x**2, axis=1), MOST_NUMBERS + 1)
