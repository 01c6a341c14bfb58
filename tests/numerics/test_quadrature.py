"""Integrals over a few numbers: within the stated bound of the truth, or refused."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import betaln, gammaln, logsumexp

from fubini.numerics.cubature import MOST_NUMBERS, TOLERANCE, integrate
from fubini.numerics.frame import Frame, NoGrid
from fubini.numerics.kronrod import sum_panels

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


SCALES = [1e-6, 1e-3, 1.0, 1e3, 1e6]

# Densities of one number, at scale 1: skew, with heavy tails, with a boundary at 0, singular there, with two modes.
ONE_NUMBER = {
    "normal": stats.norm(1, 1).logpdf,
    "skew": stats.skewnorm(10).logpdf,
    "heavy": stats.t(1.5).logpdf,
    "half-normal": stats.halfnorm().logpdf,
    "exponential": stats.expon().logpdf,
    "log-normal": stats.lognorm(1).logpdf,
    "kink": stats.laplace(0.3).logpdf,
    "jumps": stats.uniform(-1, 3).logpdf,
    "singular": lambda x: np.where(x > 0, stats.gamma(0.5).logpdf(np.where(x > 0, x, 1.0)), -np.inf),
    "two, a tenth as wide": lambda x: two(x, stats.norm(3, 0.1), stats.norm()),
    "two, a hundredth as wide": lambda x: two(x, stats.norm(10, 0.01), stats.norm()),
    "two, far apart": lambda x: two(x, stats.norm(1000, 0.1), stats.norm()),
    "one in a hundred thousand": lambda x: np.logaddexp(
        math.log(1e-5) + stats.norm.logpdf(x, 30, 0.1), math.log1p(-1e-5) + stats.norm.logpdf(x)
    ),
}


@pytest.mark.parametrize("name", ONE_NUMBER)
@pytest.mark.parametrize("scale", SCALES)
def test_one_number_at_every_scale(name, scale):
    """Within the bound, or refused; on scales between a thousandth and a thousand nearly all are answered."""

    def log_density(x):
        return ONE_NUMBER[name](x[:, 0] / scale) - math.log(scale)

    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        try:
            found = integrate(log_density, 1)
        except NoGrid:
            assert scale == 1e6 or name == "singular"
            return
    assert abs(found.log_value) <= found.error <= 1e-7
    assert len(found.points) < 2000


def tilted_of_three(x):
    return stats.multivariate_normal.logpdf(x, [1, 2, 0], [[1, 0.8, 0.3], [0.8, 1, 0.2], [0.3, 0.2, 1]])


# Of two and three numbers, and what the bound is at most.
SEVERAL = {
    "two scales": (2, lambda x: stats.norm.logpdf(x[:, 0], 1, 1e-4) + stats.norm.logpdf(x[:, 1], 1, 1e4), 1e-7),
    "nearly on a line": (2, lambda x: stats.multivariate_normal.logpdf(x, [1, 2], [[1, 0.999], [0.999, 1]]), 1e-7),
    "heavy tails of three": (3, lambda x: stats.multivariate_t.logpdf(x, [1, 2, 0], np.eye(3), 5), 1e-4),
    "tilted of three": (3, tilted_of_three, 1e-6),
    "log of gammas": (2, lambda x: np.sum(0.5 * x - np.exp(np.minimum(x, 700)) - gammaln(0.5), axis=1), 1e-7),
    "boundary of two": (2, lambda x: stats.expon.logpdf(x).sum(axis=1), 1e-2),
    "curved": (2, lambda x: stats.norm.logpdf(x[:, 0]) + stats.norm.logpdf(x[:, 1] - x[:, 0] ** 2, 0, 0.3), 1e-2),
    "wide funnel": (
        2,
        lambda x: stats.norm.logpdf(x[:, 0], 0, 2) + stats.norm.logpdf(x[:, 1], 0, np.exp(x[:, 0] / 2)),
        1e-2,
    ),
    "narrow in wide": (
        2,
        lambda x: two(x, stats.multivariate_normal([1, 2], TILTED), stats.multivariate_normal([2, 2], 1e-5 * TILTED)),
        1e-2,
    ),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_several_numbers(name):
    size, log_density, most = SEVERAL[name]
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        try:
            found = integrate(log_density, size)
        except NoGrid:
            assert most == 1e-2
            return
    assert abs(found.log_value) <= found.error <= most


@pytest.mark.parametrize("place", [0.25, 0.250001, 0.2543, 0.26])
def test_panels_see_a_jump_before_their_first_node(place):
    panels = sum_panels(lambda t: np.where(t > place, 0.0, -np.inf), np.array([0.0, 0.25, 0.5, 1.0]), TOLERANCE)
    assert abs(np.exp(panels.log_weights).sum() / (1 - place) - 1) <= panels.error <= TOLERANCE


def test_kinks_in_the_middle_of_cells_do_not_deceive():
    """Half-way between nodes, a kink has the same error on two grids (Bernoulli: 4 B₂(¼) = B₂(½))."""
    for place in (0.0, 0.25, 0.3):
        found = integrate(lambda x: stats.laplace.logpdf(x, place, 1).sum(axis=1), 2)  # noqa: B023
        assert abs(found.log_value) <= found.error


def test_a_mode_as_far_as_the_prior_allows():
    def log_density(x):
        return two(x[:, 0], stats.norm(1e5, 1), stats.norm())

    found = integrate(log_density, 1, lambda: Frame(np.eye(1), np.array([-3e5]), np.array([3e5])))
    assert abs(found.log_value) <= found.error <= 1e-7


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
