"""Ratios of gamma functions of large numbers: no digits are lost."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import fubini as fb
from fubini import dist
from fubini.base.scalar_functions import LOG_RISING

TRIALS, HITS = np.array([45, 45, 40, 3]), np.array([18, 0, 7, 3])


def rising(x, r):
    """log Γ(x + r) / Γ(x), for whole r"""
    low = min(x, x + r)
    return math.copysign(1, r) * math.fsum(math.log(low + i) for i in range(abs(r)))


@pytest.mark.parametrize("x", [0.3, 5.0, 15.9, 16.1, 100.0, 1e6, 1e17])
@pytest.mark.parametrize("r", [0, 1, 7, 45, -3])
def test_log_rising(x, r):
    if x + r <= 0:
        return
    with jax.enable_x64(True):
        found = LOG_RISING.array(np, np.array(x), np.array(float(r)))
        traced, slope = jax.value_and_grad(lambda x: LOG_RISING.array(jnp, x, jnp.array(float(r))))(x)
    assert float(found) == pytest.approx(rising(x, r), rel=1e-13, abs=1e-13)
    assert float(traced) == pytest.approx(rising(x, r), rel=1e-13, abs=1e-13)
    low = min(x, x + r)
    assert float(slope) == pytest.approx(math.copysign(math.fsum(1 / (low + i) for i in range(abs(r))), r), rel=1e-10)


@fb.model
def batting():
    mean = yield dist.Beta(2.0, 2.0)
    log_kappa = yield dist.Normal(4.0, 1.5)
    kappa = jnp.exp(log_kappa)
    theta = yield dist.Beta(mean * kappa, (1.0 - mean) * kappa).expand([4])
    hits = yield dist.Binomial(TRIALS, theta)


def by_hand(mean, log_kappa):
    """The prior, and Beta-binomial probabilities by products."""
    kappa = math.exp(log_kappa)
    total = math.log(6 * mean * (1 - mean)) - 0.5 * ((log_kappa - 4) / 1.5) ** 2 - 0.5 * math.log(2 * math.pi * 2.25)
    for n, h in zip(map(int, TRIALS), map(int, HITS), strict=True):
        total += math.log(math.comb(n, h)) + rising(mean * kappa, h) + rising((1 - mean) * kappa, n - h)
        total -= rising(kappa, n)
    return total


@pytest.mark.parametrize("log_kappa", [0.0, 4.0, 12.0, 40.0])
def test_rates_of_great_concentration(log_kappa):
    """Of concentrations up to e⁴⁰ the difference of gamma functions had no digit right; eager, jitted, eager again."""
    density = batting().condition(hits=HITS).eliminate("theta").log_prob
    for wide in (True, False):
        close = pytest.approx(by_hand(0.4, log_kappa), rel=1e-10 if wide else 1e-4)
        with jax.enable_x64(wide):
            assert float(density(mean=0.4, log_kappa=log_kappa)) == close
            jitted = jax.jit(lambda at: density(mean=0.4, log_kappa=at))
            assert float(jitted(jnp.array(log_kappa))) == close
            assert float(density(mean=0.4, log_kappa=log_kappa)) == close


def test_evidence_by_quadrature():
    """Its grid reaches such concentrations."""
    with fb.quadrature():
        evidence = batting().condition(hits=HITS).log_evidence()
    means, kappas = (np.arange(80) + 0.5) / 80, np.linspace(-4, 12, 81)
    grid = np.array([[by_hand(mean, kappa) for kappa in kappas] for mean in means])
    assert float(evidence) == pytest.approx(np.log(np.exp(grid).sum() / 80 * 0.2), abs=1e-4)
    assert evidence.exactness.error < 1e-6


@fb.model
def shared():
    """The concentration of the integrated number is that of an observed one too, whose Γ(κ) stays."""
    kappa = yield dist.Gamma(2.0, 1.0)
    theta = yield dist.Beta(kappa, kappa).expand([2])
    rate = yield dist.Gamma(kappa, 2.0)
    hits = yield dist.Binomial(np.array([5, 7]), theta)
    counts = yield dist.Poisson(rate).expand([4])
    t = yield dist.Gamma(kappa, 1.0).expand([3])


@pytest.mark.parametrize("kappa", [0.01, 3.0, 1e3, 1e8])
def test_gamma_functions_of_other_sites_stay(kappa):
    hits, counts, t = np.array([3, 0]), np.array([0, 2, 1, 5]), np.array([0.5, 1.2, 3.0])
    right = math.log(kappa) - kappa + stats.gamma.logpdf(t, kappa).sum()
    for n, h in zip((5, 7), map(int, hits), strict=True):
        right += math.log(math.comb(n, h)) + rising(kappa, h) + rising(kappa, n - h) - rising(2 * kappa, n)
    right += rising(kappa, 8) + kappa * math.log(2 / 6) - 8 * math.log(6) - special.gammaln(counts + 1.0).sum()
    density = shared().condition(hits=hits, counts=counts, t=t).eliminate("theta", "rate").log_prob
    with jax.enable_x64(True):
        assert float(density(kappa=kappa)) == pytest.approx(right, rel=1e-12)
        assert float(jax.jit(lambda at: density(kappa=at))(jnp.array(kappa))) == pytest.approx(right, rel=1e-12)
