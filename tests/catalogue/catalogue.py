"""What tests of the catalogue share: which latents go, and comparisons with oracles that know nothing of fubini."""

import jax
import numpy as np
import pytest
from scipy.special import expit, logsumexp
from scipy.stats import multivariate_normal, multivariate_t

from fubini.models.eliminated_model import eliminated
from fubini.models.flat_model import FlatModel

KEY = jax.random.key(0)
DRAWS = 20_000


def close(expected):
    """Within a part in 10⁹, or 10⁻⁸."""
    return pytest.approx(expected, rel=1e-9, abs=1e-8)


def assert_eliminates(post, *names, kept=()):
    """All that can be eliminated is, and these are the names."""
    plan = eliminated(FlatModel(post))
    assert (set(plan.eliminated), set(plan.kept)) == (set(names), set(kept))
    assert len(plan.eliminated) == len(names)


def assert_density(post, eliminated, *points):
    """log p(data, kept) at values of the kept sites, as (values, expected)."""
    small = post.eliminate(*eliminated)
    for values, expected in points:
        assert float(small.log_prob(**values)) == close(expected)


def assert_moments(post, name, mean, variance=None):
    """Of the exact marginal; a matrix is the covariance."""
    found = post.marginal(name)
    np.testing.assert_allclose(found.mean(name).data, mean, rtol=1e-8, atol=1e-8)
    if variance is not None:
        spread = found.covariance(name) if np.ndim(variance) > np.ndim(mean) else found.variance(name)
        np.testing.assert_allclose(spread.data, variance, rtol=1e-8, atol=1e-8)


def assert_draws(draws, mean, covariance):
    """Mean and variances (or the covariance) of draws along the leading axis, within five standard errors."""
    draws, mean, covariance = np.asarray(draws), np.asarray(mean), np.asarray(covariance)
    assert draws.shape[1:] == mean.shape
    count = len(draws)
    variance = np.diagonal(covariance) if covariance.ndim > mean.ndim else covariance
    assert np.all(np.abs(draws.mean(0) - mean) < 5 * np.sqrt(variance / count))
    centred = draws - mean
    products = centred[:, :, None] * centred[:, None, :] if covariance.ndim > mean.ndim else centred**2
    assert np.all(np.abs(products.mean(0) - covariance) < 5 * products.std(0) / np.sqrt(count))


def recovered(post, eliminated, **kept):
    """Draws of all sites, the kept ones at one value."""
    many = {name: np.broadcast_to(value, (DRAWS, *np.shape(value))) for name, value in kept.items()}
    return post.eliminate(*eliminated).recover(KEY, many)


def drawn(post):
    """Independent exact draws of all sites of a model of which nothing is left."""
    found = post.infer(KEY, draws=DRAWS, chains=1, progress=False, log_likelihood=False, predictive=False)
    return {name: np.asarray(found.posterior[name])[0] for name in found.posterior.data_vars}


# -- integrals over the remaining latents ---------------------------------------------------------------------------

MAPS = {
    "real": (lambda u: u, lambda u: np.zeros_like(u)),
    "positive": (np.exp, lambda u: u),
    "unit": (expit, lambda u: np.log(expit(u)) + np.log(expit(-u))),
}


def log_integral(log_density, **domains):
    """log ∫ exp(log_density), by trapezia in free coordinates: name=(domain, from, to, number of places)."""
    lines = [np.linspace(*line) for _, *line in domains.values()]
    mesh = [axis.ravel() for axis in np.meshgrid(*lines, indexing="ij")]
    values, log_volume = {}, sum(np.log(line[1] - line[0]) for line in lines)
    for (name, (domain, *_)), u in zip(domains.items(), mesh, strict=True):
        of, log_slope = MAPS[domain]
        values[name] = of(u)
        log_volume = log_volume + log_slope(u)
    return logsumexp(np.asarray(log_density(**values)) + log_volume)


def assert_integral(post, eliminated, expected, **domains):
    """The evidence, by quadrature over the remaining latents."""
    assert log_integral(post.eliminate(*eliminated).log_prob, **domains) == close(expected)


# -- oracles --------------------------------------------------------------------------------------------------------


def log_normal(y, covariance, mean=0.0):
    """log N(y; mean, covariance)"""
    y = np.ravel(y)
    return multivariate_normal(np.broadcast_to(mean, y.shape), covariance).logpdf(y)


def log_normals(y, covariances):
    """log N(y; 0, covariance) for each of many covariances."""
    weighted = np.linalg.solve(covariances, np.broadcast_to(np.ravel(y)[:, None], (*covariances.shape[:-1], 1)))
    return -0.5 * ((weighted[..., 0] @ np.ravel(y)) + np.linalg.slogdet(2 * np.pi * covariances)[1])


def stacked(*pairs):
    """Σ number · matrix, for arrays of numbers."""
    return sum(np.asarray(number)[..., None, None] * matrix for number, matrix in pairs)


def log_student(y, shape, df, mean=0.0):
    """log t(y; mean, shape, df)"""
    y = np.ravel(y)
    return multivariate_t(np.broadcast_to(mean, y.shape), shape, df=df).logpdf(y)


def conditioned(y, prior_mean, prior, design, noise):
    """Mean and covariance of x given y = design x + e, for x ~ N(prior_mean, prior) and e ~ N(0, noise)."""
    gain = np.linalg.solve(design @ prior @ design.T + noise, design @ prior).T
    return prior_mean + gain @ (y - design @ prior_mean), prior - gain @ design @ prior
