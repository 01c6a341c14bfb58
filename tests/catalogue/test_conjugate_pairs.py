"""Conjugate pairs, with one, several and plated observations: evidence and posteriors against formulas."""

import jax.numpy as jnp
import numpy as np
from scipy import stats
from scipy.special import betaln, gammaln

import fubini as fb
from fubini import dist
from tests.catalogue.catalogue import (
    KEY,
    assert_density,
    assert_draws,
    assert_eliminates,
    assert_integral,
    assert_moments,
    close,
    conditioned,
    drawn,
    log_integral,
    log_normal,
    log_student,
)

Y = np.array([0.3, -1.2, 2.4, 0.8])
COUNTS = np.array([3, 0, 4, 2])
TOTALS = np.array([5, 3, 8, 4])
WAITS = np.array([0.4, 1.7, 0.2, 3.1])
EXPOSURE = np.array([1.0, 2.0, 0.5, 3.5])
GROUP = np.array([0, 2, 2, 0])


# -- normal ---------------------------------------------------------------------------------------------------------


@fb.model
def mean_of_one():
    m = yield dist.Normal(1.0, 2.0)
    y = yield dist.Normal(m, 0.5)


def test_a_mean_with_one_observation():
    post = mean_of_one().condition(y=2.5)
    assert_eliminates(post, "m")
    assert float(post.log_evidence()) == close(stats.norm(1, np.sqrt(4.25)).logpdf(2.5))
    assert_moments(post, "m", (1 / 4 + 2.5 / 0.25) / (1 / 4 + 1 / 0.25), 1 / (1 / 4 + 1 / 0.25))


@fb.model
def mean_of_several():
    m = yield dist.Normal(1.0, 2.0)
    first = yield dist.Normal(m, 0.5)
    second = yield dist.Normal(3.0 * m - 1.0, 1.5)
    third = yield dist.Normal(-m, 0.1)


def test_a_mean_with_several_observations():
    post = mean_of_several().condition(first=2.5, second=0.3, third=-1.1)
    assert_eliminates(post, "m")
    design, noise = np.array([[1.0], [3.0], [-1.0]]), np.diag([0.25, 2.25, 0.01])
    y = np.array([2.5, 1.3, -1.1])
    assert float(post.log_evidence()) == close(log_normal(y, noise + 4 * design @ design.T, design[:, 0]))
    mean, variance = conditioned(y, np.ones(1), 4 * np.eye(1), design, noise)
    assert_moments(post, "m", mean[0], variance[0, 0])


@fb.model
def mean_of_a_plate(n):
    m = yield dist.Normal(1.0, 2.0)
    y = yield dist.Normal(m, 0.5).expand([n])


def test_a_mean_with_a_plate():
    post = mean_of_a_plate(4).condition(y=Y)
    assert_eliminates(post, "m")
    assert float(post.log_evidence()) == close(log_normal(Y, 0.25 * np.eye(4) + 4, 1.0))
    precision = 1 / 4 + 4 / 0.25
    assert_moments(post, "m", (1 / 4 + Y.sum() / 0.25) / precision, 1 / precision)
    ahead = post.predict(KEY, "y", draws=20_000)
    covariance = 1 / precision + 0.25 * np.eye(4)
    assert_draws(ahead, np.full(4, (1 / 4 + Y.sum() / 0.25) / precision), covariance)


@fb.model
def log_mean(n):
    m = yield dist.Normal(0.0, 1.5)
    y = yield dist.LogNormal(m, 0.7).expand([n])


def test_a_mean_of_logarithms():
    post = log_mean(4).condition(y=WAITS)
    assert_eliminates(post, "m")
    logs = np.log(WAITS)
    assert float(post.log_evidence()) == close(log_normal(logs, 0.49 * np.eye(4) + 2.25) - logs.sum())
    precision = 1 / 2.25 + 4 / 0.49
    assert_moments(post, "m", logs.sum() / 0.49 / precision, 1 / precision)


@fb.model
def precision_of_a_plate(n):
    t = yield dist.Gamma(2.0, 3.0)
    y = yield dist.Normal(0.5, 1 / jnp.sqrt(t)).expand([n])


def test_a_precision():
    post = precision_of_a_plate(4).condition(y=Y)
    assert_eliminates(post, "t")
    assert float(post.log_evidence()) == close(log_student(Y, 1.5 * np.eye(4), 4, 0.5))
    a, b = 2 + 2, 3 + ((Y - 0.5) ** 2).sum() / 2
    assert_moments(post, "t", a / b, a / b**2)


@fb.model
def variance_of_a_plate(n):
    v = yield dist.InverseGamma(3.0, 2.0)
    y = yield dist.Normal(0.5, jnp.sqrt(v)).expand([n])


def test_a_variance():
    post = variance_of_a_plate(4).condition(y=Y)
    assert_eliminates(post, "v")
    assert float(post.log_evidence()) == close(log_student(Y, 2 / 3 * np.eye(4), 6, 0.5))
    a, b = 3 + 2, 2 + ((Y - 0.5) ** 2).sum() / 2
    assert_moments(post, "v", b / (a - 1), b**2 / ((a - 1) ** 2 * (a - 2)))


@fb.model
def mean_and_variance(n):
    v = yield dist.InverseGamma(3.0, 2.0)
    m = yield dist.Normal(1.0, jnp.sqrt(v / 0.5))
    y = yield dist.Normal(m, jnp.sqrt(v)).expand([n])


def test_a_mean_and_a_variance():
    post = mean_and_variance(4).condition(y=Y)
    assert_eliminates(post, "m", "v")
    assert float(post.log_evidence()) == close(log_student(Y, 2 / 3 * (np.eye(4) + 2), 6, 1.0))
    weight = 0.5 + 4
    mean = (0.5 * 1.0 + Y.sum()) / weight
    a, b = 3 + 2, 2 + (0.5 * 1.0 + (Y**2).sum() - weight * mean**2) / 2
    assert_moments(post, "v", b / (a - 1), b**2 / ((a - 1) ** 2 * (a - 2)))
    assert_moments(post, "m", mean, b / (a - 1) / weight)
    draws = drawn(post)
    assert_draws(draws["m"], mean, b / (a - 1) / weight)
    assert_draws(draws["v"], b / (a - 1), b**2 / ((a - 1) ** 2 * (a - 2)))


@fb.model
def mean_and_precision(n):
    t = yield dist.Gamma(3.0, 2.0)
    m = yield dist.Normal(1.0, 1 / jnp.sqrt(0.5 * t))
    y = yield dist.Normal(m, t**-0.5).expand([n])


def test_a_mean_and_a_precision():
    post = mean_and_precision(4).condition(y=Y)
    assert_eliminates(post, "m", "t")
    assert float(post.log_evidence()) == close(log_student(Y, 2 / 3 * (np.eye(4) + 2), 6, 1.0))
    weight = 0.5 + 4
    mean = (0.5 * 1.0 + Y.sum()) / weight
    a, b = 3 + 2, 2 + (0.5 * 1.0 + (Y**2).sum() - weight * mean**2) / 2
    assert_moments(post, "t", a / b, a / b**2)
    assert_moments(post, "m", mean, b / (a - 1) / weight)


@fb.model
def means_and_variances(group):
    v = yield dist.InverseGamma(3.0, 2.0).expand([3])
    m = yield dist.Normal(1.0, jnp.sqrt(v))
    y = yield dist.Normal(m[group], jnp.sqrt(v[group]))


def test_a_mean_and_a_variance_for_each_group():
    """One group is empty."""
    post = means_and_variances(GROUP).condition(y=Y)
    assert_eliminates(post, "m", "v")
    expected = sum(log_student(Y[g == GROUP], 2 / 3 * (np.eye(2) + 1), 6, 1.0) for g in (0, 2))
    assert float(post.log_evidence()) == close(expected)
    means, variances = [], []
    for g in range(3):
        mine = Y[g == GROUP]
        mean = (1 + mine.sum()) / (1 + len(mine))
        b = 2 + (1 + (mine**2).sum() - (1 + len(mine)) * mean**2) / 2
        means.append(b / (3 + len(mine) / 2 - 1))
        variances.append(means[-1] ** 2 / (3 + len(mine) / 2 - 2))
    assert_moments(post, "v", means, variances)


@fb.model
def independent_mean_and_variance(n):
    v = yield dist.InverseGamma(3.0, 2.0)
    m = yield dist.Normal(0.0, 2.0)
    y = yield dist.Normal(m, jnp.sqrt(v)).expand([n])


def test_a_mean_whose_prior_has_a_scale_of_its_own():
    """Either has a closed form given the other, both together have none."""
    post = independent_mean_and_variance(4).condition(y=Y)
    assert_eliminates(post, "m", kept=["v"])
    prior = stats.invgamma(3, scale=2)
    points = [(dict(v=v), prior.logpdf(v) + log_normal(Y, v * np.eye(4) + 4)) for v in (0.3, 2.0)]
    assert_density(post, ["m"], *points)
    given = [(dict(m=m), stats.norm(0, 2).logpdf(m) + log_student(Y, 2 / 3 * np.eye(4), 6, m)) for m in (-0.4, 1.2)]
    assert_density(post, ["v"], *given)

    def joint(m, v):
        likelihood = stats.norm.logpdf(Y, m[:, None], np.sqrt(v)[:, None]).sum(1)
        return prior.logpdf(v) + stats.norm(0, 2).logpdf(m) + likelihood

    domain = ("positive", -6, 14, 200)
    assert_integral(post, ["m"], log_integral(joint, m=("real", -20, 20, 400), v=domain), v=domain)


# -- beta -----------------------------------------------------------------------------------------------------------


@fb.model
def coin(n):
    p = yield dist.Beta(2.0, 3.0)
    y = yield dist.Bernoulli(p).expand([n])


def test_a_probability_of_flips():
    post = coin(5).condition(y=np.array([1, 0, 1, 1, 0]))
    assert_eliminates(post, "p")
    assert float(post.log_evidence()) == close(betaln(5, 5) - betaln(2, 3))
    assert_moments(post, "p", 0.5, stats.beta(5, 5).var())


@fb.model
def coin_of_several():
    p = yield dist.Uniform(0.0, 1.0)
    first = yield dist.Binomial(5, p)
    second = yield dist.Binomial(9, 1 - p)
    flip = yield dist.Bernoulli(p)


def test_a_probability_of_several_counts():
    post = coin_of_several().condition(first=3, second=2, flip=0)
    assert_eliminates(post, "p")
    binomials = np.log(10) + np.log(36)
    assert float(post.log_evidence()) == close(betaln(1 + 3 + 7, 1 + 2 + 2 + 1) + binomials)
    assert_moments(post, "p", 11 / 17, stats.beta(11, 6).var())


@fb.model
def coin_of_a_plate(totals):
    p = yield dist.Beta(2.0, 3.0)
    y = yield dist.Binomial(totals, p)


def test_a_probability_of_a_plate_of_counts():
    post = coin_of_a_plate(TOTALS).condition(y=COUNTS)
    assert_eliminates(post, "p")
    yes, no = COUNTS.sum(), (TOTALS - COUNTS).sum()
    coefficients = (-betaln(COUNTS + 1, TOTALS - COUNTS + 1) - np.log(TOTALS + 1)).sum()
    assert float(post.log_evidence()) == close(coefficients + betaln(2 + yes, 3 + no) - betaln(2, 3))
    assert_moments(post, "p", stats.beta(2 + yes, 3 + no).mean(), stats.beta(2 + yes, 3 + no).var())


@fb.model
def coins(totals):
    p = yield dist.Beta(2.0, 3.0).expand(totals.shape)
    y = yield dist.Binomial(totals, p)


def test_a_probability_for_each_count():
    post = coins(TOTALS).condition(y=COUNTS)
    assert_eliminates(post, "p")
    assert float(post.log_evidence()) == close(stats.betabinom(TOTALS, 2, 3).logpmf(COUNTS).sum())
    distribution = stats.beta(2 + COUNTS, 3 + TOTALS - COUNTS)
    assert_moments(post, "p", distribution.mean(), distribution.var())


@fb.model
def tries(n):
    p = yield dist.Beta(2.0, 3.0)
    y = yield dist.Geometric(p).expand([n])


def test_a_probability_of_failures_before_success():
    post = tries(4).condition(y=COUNTS)
    assert_eliminates(post, "p")
    assert float(post.log_evidence()) == close(betaln(2 + 4, 3 + COUNTS.sum()) - betaln(2, 3))
    assert_moments(post, "p", stats.beta(6, 12).mean(), stats.beta(6, 12).var())


# -- gamma ----------------------------------------------------------------------------------------------------------


@fb.model
def rate_of_counts(exposure):
    rate = yield dist.Gamma(2.0, 3.0)
    y = yield dist.Poisson(rate * exposure)


def test_a_rate_of_counts():
    post = rate_of_counts(EXPOSURE).condition(y=COUNTS)
    assert_eliminates(post, "rate")
    a, b = 2 + COUNTS.sum(), 3 + EXPOSURE.sum()
    constant = (COUNTS * np.log(EXPOSURE) - gammaln(COUNTS + 1)).sum()
    assert float(post.log_evidence()) == close(2 * np.log(3) + gammaln(a) - a * np.log(b) + constant)
    assert_moments(post, "rate", a / b, a / b**2)


@fb.model
def rates_of_counts(group, exposure):
    rate = yield dist.Gamma(2.0, 3.0).expand([3])
    y = yield dist.Poisson(rate[group] * exposure)


def test_a_rate_for_each_group():
    """One group is empty."""
    post = rates_of_counts(GROUP, EXPOSURE).condition(y=COUNTS)
    assert_eliminates(post, "rate")
    a = 2 + np.bincount(GROUP, COUNTS, minlength=3)
    b = 3 + np.bincount(GROUP, EXPOSURE, minlength=3)
    constant = (COUNTS * np.log(EXPOSURE) - gammaln(COUNTS + 1)).sum()
    assert float(post.log_evidence()) == close((2 * np.log(3) + gammaln(a) - a * np.log(b)).sum() + constant)
    assert_moments(post, "rate", a / b, a / b**2)


@fb.model
def rate_of_waits(n):
    rate = yield dist.Gamma(2.0, 3.0)
    y = yield dist.Exponential(rate).expand([n])


def test_a_rate_of_waits():
    post = rate_of_waits(4).condition(y=WAITS)
    assert_eliminates(post, "rate")
    a, b = 2 + 4, 3 + WAITS.sum()
    assert float(post.log_evidence()) == close(2 * np.log(3) + gammaln(a) - a * np.log(b))
    assert_moments(post, "rate", a / b, a / b**2)


@fb.model
def rate_of_gammas(n):
    rate = yield dist.Exponential(1.5)
    y = yield dist.Gamma(2.5, rate).expand([n])


def test_a_rate_of_gammas():
    post = rate_of_gammas(4).condition(y=WAITS)
    assert_eliminates(post, "rate")
    a, b = 1 + 4 * 2.5, 1.5 + WAITS.sum()
    constant = np.log(1.5) - 4 * gammaln(2.5) + 1.5 * np.log(WAITS).sum()
    assert float(post.log_evidence()) == close(constant + gammaln(a) - a * np.log(b))
    assert_moments(post, "rate", a / b, a / b**2)


@fb.model
def mean_wait(n):
    m = yield dist.InverseGamma(3.0, 2.0)
    y = yield dist.Exponential(1 / m).expand([n])


def test_a_mean_wait():
    post = mean_wait(4).condition(y=WAITS)
    assert_eliminates(post, "m")
    a, b = 3 + 4, 2 + WAITS.sum()
    assert float(post.log_evidence()) == close(3 * np.log(2) - gammaln(3) + gammaln(a) - a * np.log(b))
    assert_moments(post, "m", b / (a - 1), b**2 / ((a - 1) ** 2 * (a - 2)))


@fb.model
def rate_of_variances(n):
    rate = yield dist.Gamma(2.0, 3.0)
    v = yield dist.InverseGamma(1.5, rate).expand([n])


def test_a_rate_of_variances():
    post = rate_of_variances(4).condition(v=WAITS)
    assert_eliminates(post, "rate")
    a, b = 2 + 4 * 1.5, 3 + (1 / WAITS).sum()
    constant = 2 * np.log(3) - 4 * gammaln(1.5) - 2.5 * np.log(WAITS).sum()
    assert float(post.log_evidence()) == close(constant + gammaln(a) - a * np.log(b))
    assert_moments(post, "rate", a / b, a / b**2)


@fb.model
def concentration_and_rate(n):
    concentration = yield dist.Gamma(2.0, 1.0)
    rate = yield dist.Gamma(2.0, 3.0)
    y = yield dist.Gamma(concentration, rate).expand([n])


def test_a_rate_beside_a_shape():
    """The shape has no closed form; the evidence is an integral over it alone."""
    post = concentration_and_rate(4).condition(y=WAITS)
    assert_eliminates(post, "rate", kept=["concentration"])

    def expected(shape):
        a, b = 2 + 4 * shape, 3 + WAITS.sum()
        likelihood = (shape - 1) * np.log(WAITS).sum() - 4 * gammaln(shape)
        return stats.gamma(2).logpdf(shape) + likelihood + 2 * np.log(3) + gammaln(a) - a * np.log(b)

    assert_density(post, ["rate"], *((dict(concentration=shape), expected(shape)) for shape in (0.4, 2.5)))

    def joint(concentration, rate):
        prior = stats.gamma(2).logpdf(concentration) + stats.gamma(2, scale=1 / 3).logpdf(rate)
        return prior + stats.gamma.logpdf(WAITS, concentration[:, None], scale=1 / rate[:, None]).sum(1)

    domain = ("positive", -12, 4, 120)
    whole = log_integral(joint, concentration=domain, rate=("positive", -14, 5, 150))
    assert_integral(post, ["rate"], whole, concentration=domain)


# -- Dirichlet ------------------------------------------------------------------------------------------------------

PRIOR = np.array([1.0, 2.0, 0.5])


@fb.model
def die(n):
    p = yield dist.Dirichlet(PRIOR)
    y = yield dist.Categorical(p).expand([n])


def test_probabilities_of_labels():
    post = die(4).condition(y=GROUP)
    assert_eliminates(post, "p")
    after = PRIOR + np.array([2, 0, 2])
    expected = gammaln(3.5) - gammaln(PRIOR).sum() + gammaln(after).sum() - gammaln(7.5)
    assert float(post.log_evidence()) == close(expected)
    assert_moments(post, "p", stats.dirichlet(after).mean())
    draws = drawn(post)["p"]
    assert_draws(draws, stats.dirichlet(after).mean(), stats.dirichlet(after).var())


TABLE = np.array([[2, 1, 0], [0, 3, 1]])


@fb.model
def dice_of_several():
    p = yield dist.Dirichlet(PRIOR)
    first = yield dist.Multinomial(3, probs=p)
    second = yield dist.Multinomial(4, probs=p)
    label = yield dist.Categorical(p)


def test_probabilities_of_several_counts():
    post = dice_of_several().condition(first=TABLE[0], second=TABLE[1], label=2)
    assert_eliminates(post, "p")
    after = PRIOR + np.array([2, 4, 2])
    constant = (gammaln(np.array([4, 5])) - gammaln(TABLE + 1).sum(1)).sum()
    expected = constant + gammaln(3.5) - gammaln(PRIOR).sum() + gammaln(after).sum() - gammaln(after.sum())
    assert float(post.log_evidence()) == close(expected)
    assert_moments(post, "p", after / after.sum())


@fb.model
def dice():
    p = yield dist.Dirichlet(PRIOR).expand([2])
    y = yield dist.Multinomial(np.array([3, 4]), probs=p)


def test_probabilities_for_each_row_of_counts():
    post = dice().condition(y=TABLE)
    assert_eliminates(post, "p")
    expected = sum(stats.dirichlet_multinomial(PRIOR, row.sum()).logpmf(row) for row in TABLE)
    assert float(post.log_evidence()) == close(expected)
    assert_moments(post, "p", (PRIOR + TABLE) / (PRIOR + TABLE).sum(1, keepdims=True))
