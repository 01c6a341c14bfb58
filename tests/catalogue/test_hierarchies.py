"""Hierarchies: which levels go, and densities of the remaining latents, against normal and count formulas."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import betaln, comb, gammaln, logsumexp

import fubini as fb
from fubini import dist
from tests.catalogue.catalogue import (
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
    log_normals,
    log_student,
    recovered,
    stacked,
)

# -- eight schools --------------------------------------------------------------------------------------------------

SIGMA = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
EFFECTS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])


@fb.model
def eight_schools():
    mu = yield dist.Normal(0.0, 5.0)
    tau = yield dist.HalfCauchy(5.0)
    theta = yield dist.Normal(mu, tau).expand([8])
    y = yield dist.Normal(theta, SIGMA)


@fb.model
def eight_schools_apart():
    mu = yield dist.Normal(0.0, 5.0)
    tau = yield dist.HalfCauchy(5.0)
    unit = yield dist.Normal(0.0, 1.0).expand([8])
    y = yield dist.Normal(mu + tau * unit, SIGMA)


def of_schools(tau):
    return log_normal(EFFECTS, np.diag(SIGMA**2 + tau**2) + 25) + stats.halfcauchy(scale=5).logpdf(tau)


@pytest.mark.parametrize(("model", "effect"), [(eight_schools, "theta"), (eight_schools_apart, "unit")])
def test_eight_schools(model, effect):
    """The evidence is an integral over tau alone; the oracle's is over mu too."""
    post = model().condition(y=EFFECTS)
    assert_eliminates(post, effect, "mu", kept=["tau"])
    assert_density(post, [effect, "mu"], *((dict(tau=tau), of_schools(tau)) for tau in (1e-3, 3.0)))
    found = log_integral(post.eliminate(effect, "mu").log_prob, tau=("positive", -25, 10, 400))

    def joint(mu, tau):
        likelihood = stats.norm.logpdf(EFFECTS, mu[:, None], np.sqrt(SIGMA**2 + tau[:, None] ** 2)).sum(1)
        return likelihood + stats.norm.logpdf(mu, 0, 5) + stats.halfcauchy.logpdf(tau, scale=5)

    expected = log_integral(joint, mu=("real", -40, 50, 300), tau=("positive", -25, 10, 400))
    assert found == close(expected)


def test_effects_of_eight_schools_drawn_back():
    post = eight_schools().condition(y=EFFECTS)
    draws = recovered(post, ["theta", "mu"], tau=3.0)
    design, prior = np.hstack([np.zeros((8, 1)), np.eye(8)]), np.full((9, 9), 25.0)
    prior[1:, 1:] += 9 * np.eye(8)
    mean, covariance = conditioned(EFFECTS, np.zeros(9), prior, design, np.diag(SIGMA**2))
    both = np.concatenate([draws["mu"][:, None], draws["theta"]], axis=1)
    assert_draws(both, mean, covariance)


SCORES = np.array([[28.0, 20, 33], [8, 12, 3], [-3, 4, -9], [7, 2, 11]])


@fb.model
def schools_with_unknown_variance(shape):
    tau = yield dist.HalfNormal(1.0)
    v = yield dist.InverseGamma(3.0, 50.0)
    mu = yield dist.Normal(0.0, 5.0 * jnp.sqrt(v))
    theta = yield dist.Normal(mu, tau * jnp.sqrt(v)).expand([shape[0]])
    y = yield dist.Normal(theta[:, None], jnp.sqrt(v)).expand(shape)


WITHIN = np.kron(np.eye(4), np.ones((3, 3)))


def test_schools_with_unknown_variance():
    """The variance is shared by all levels, and goes; the ratio of levels stays."""
    post = schools_with_unknown_variance(SCORES.shape).condition(y=SCORES)
    assert_eliminates(post, "theta", "mu", "v", kept=["tau"])

    def expected(tau):
        shape = 50 / 3 * (np.eye(12) + tau**2 * WITHIN + 25)
        return log_student(SCORES, shape, 6) + stats.halfnorm.logpdf(tau)

    assert_density(post, ["theta", "mu", "v"], *((dict(tau=tau), expected(tau)) for tau in (0.05, 1.5)))

    def joint(tau, v):
        prior = stats.halfnorm.logpdf(tau) + stats.invgamma(3, scale=50).logpdf(v)
        return prior + log_normals(SCORES, stacked((v, np.eye(12) + 25), (v * tau**2, WITHIN)))

    domain = ("positive", -25, 3, 90)
    whole = log_integral(joint, tau=domain, v=("positive", 0, 14, 90))
    assert_integral(post, ["theta", "mu", "v"], whole, tau=domain)


@fb.model
def schools_with_a_variance_of_its_own(shape):
    tau = yield dist.HalfCauchy(5.0)
    v = yield dist.InverseGamma(3.0, 50.0)
    mu = yield dist.Normal(0.0, 25.0)
    theta = yield dist.Normal(mu, tau).expand([shape[0]])
    y = yield dist.Normal(theta[:, None], jnp.sqrt(v)).expand(shape)


def test_schools_with_two_unknown_variances():
    post = schools_with_a_variance_of_its_own(SCORES.shape).condition(y=SCORES)
    assert_eliminates(post, "theta", "mu", kept=["tau", "v"])

    def expected(tau, v):
        prior = stats.halfcauchy(scale=5).logpdf(tau) + stats.invgamma(3, scale=50).logpdf(v)
        return prior + log_normal(SCORES, v * np.eye(12) + tau**2 * WITHIN + 625)

    points = [dict(tau=0.1, v=30.0), dict(tau=12.0, v=70.0)]
    assert_density(post, ["theta", "mu"], *((point, expected(**point)) for point in points))
    draws = recovered(post, ["theta", "mu"], tau=12.0, v=70.0)
    prior = 625 + 144 * np.eye(4)
    mean, covariance = conditioned(
        SCORES.ravel(), np.zeros(4), prior, np.kron(np.eye(4), np.ones((3, 1))), 70 * np.eye(12)
    )
    assert_draws(draws["theta"], mean, covariance)

    def many(tau, v):
        prior = stats.halfcauchy(scale=5).logpdf(tau) + stats.invgamma(3, scale=50).logpdf(v)
        return prior + log_normals(SCORES, stacked((v, np.eye(12)), (tau**2, WITHIN), (1.0, 625)))

    domains = dict(tau=("positive", -20, 8, 60), v=("positive", 0, 10, 40))
    assert_integral(post, ["theta", "mu"], log_integral(many, **domains), **domains)


# -- nested means ---------------------------------------------------------------------------------------------------

CLASS = np.array([0, 0, 1, 1, 2, 3, 3, 3])  # of pupils
SCHOOL = np.array([0, 0, 1, 1])  # of classes
MARKS = np.array([0.5, 1.2, -0.3, 0.1, 2.2, 1.9, 1.4, 2.8])
IN_CLASS, IN_SCHOOL = np.eye(4)[CLASS], np.eye(2)[SCHOOL[CLASS]]


@fb.model
def two_levels(group):
    m = yield dist.Normal(1.0, 3.0)
    a = yield dist.Normal(m, 1.5).expand([4])
    y = yield dist.Normal(a[group], 0.5)


def test_two_levels():
    post = two_levels(CLASS).condition(y=MARKS)
    assert_eliminates(post, "a", "m")
    covariance = 0.25 * np.eye(8) + 2.25 * IN_CLASS @ IN_CLASS.T + 9
    assert float(post.log_evidence()) == close(log_normal(MARKS, covariance, 1.0))
    mean, variance = conditioned(
        MARKS, np.ones(1), 9 * np.eye(1), np.ones((8, 1)), 0.25 * np.eye(8) + 2.25 * IN_CLASS @ IN_CLASS.T
    )
    assert_moments(post, "m", mean[0], variance[0, 0])
    mean, covariance = conditioned(MARKS, np.ones(4), 9 + 2.25 * np.eye(4), IN_CLASS, 0.25 * np.eye(8))
    assert_draws(drawn(post)["a"], mean, covariance)


@fb.model
def three_levels(school, group):
    m = yield dist.Normal(1.0, 3.0)
    b = yield dist.Normal(m, 2.0).expand([2])
    a = yield dist.Normal(b[school], 1.5)
    y = yield dist.Normal(a[group], 0.5)


def test_three_levels():
    post = three_levels(SCHOOL, CLASS).condition(y=MARKS)
    assert_eliminates(post, "a", "b", "m")
    lower = 0.25 * np.eye(8) + 2.25 * IN_CLASS @ IN_CLASS.T
    covariance = lower + 4 * IN_SCHOOL @ IN_SCHOOL.T + 9
    assert float(post.log_evidence()) == close(log_normal(MARKS, covariance, 1.0))
    mean, variance = conditioned(MARKS, np.ones(1), 9 * np.eye(1), np.ones((8, 1)), lower + 4 * IN_SCHOOL @ IN_SCHOOL.T)
    assert_moments(post, "m", mean[0], variance[0, 0])


@fb.model
def indirect_levels(school, group):
    m = yield dist.Normal(1.0, 3.0)
    b = yield dist.Normal(0.0, 2.0).expand([2])
    a = yield dist.Normal(0.0, 1.5).expand([4])
    y = yield dist.Normal(m + b[school[group]] + a[group], 0.5)


def test_levels_through_an_index_of_an_index():
    post = indirect_levels(SCHOOL, CLASS).condition(y=MARKS)
    assert_eliminates(post, "a", "b", "m")
    lower = 0.25 * np.eye(8) + 2.25 * IN_CLASS @ IN_CLASS.T
    covariance = lower + 4 * IN_SCHOOL @ IN_SCHOOL.T + 9
    assert float(post.log_evidence()) == close(log_normal(MARKS, covariance, 1.0))
    mean, covariance = conditioned(MARKS - 1, np.zeros(2), 4 * np.eye(2), IN_SCHOOL, lower + 9)
    assert_moments(post, "b", mean)
    assert_draws(drawn(post)["b"], mean, covariance)


@fb.model
def levels_with_unknown_scales(school, group):
    s = yield dist.HalfNormal(2.0)
    t = yield dist.HalfNormal(2.0)
    m = yield dist.Normal(0.0, 3.0)
    b = yield dist.Normal(m, s).expand([2])
    a = yield dist.Normal(b[school], t)
    y = yield dist.Normal(a[group], 0.5)


def test_three_levels_with_unknown_scales():
    post = levels_with_unknown_scales(SCHOOL, CLASS).condition(y=MARKS)
    assert_eliminates(post, "a", "b", "m", kept=["s", "t"])

    def expected(s, t):
        s, t = np.asarray(s), np.asarray(t)
        within, between = t[..., None, None] * IN_CLASS, s[..., None, None] * IN_SCHOOL
        covariance = 0.25 * np.eye(8) + within @ within.mT + between @ between.mT + 9
        return log_normals(MARKS, covariance) + stats.halfnorm(scale=2).logpdf(s) + stats.halfnorm(scale=2).logpdf(t)

    points = [dict(s=0.02, t=1.5), dict(s=2.0, t=0.6)]
    assert_density(post, ["a", "b", "m"], *((point, expected(**point)) for point in points))
    whole = dict(s=("positive", -20, 3, 90), t=("positive", -20, 3, 90))
    found = log_integral(post.eliminate("a", "b", "m").log_prob, **whole)
    assert found == close(log_integral(expected, **whole))


# -- several effects ------------------------------------------------------------------------------------------------

DOSE = np.array([0.1, 0.9, -0.4, 1.3, 0.6, -1.1, 0.2, 0.7])
ITEM = np.array([0, 1, 2, 0, 1, 2, 0, 1])


@fb.model
def intercepts_and_slopes(group, x):
    mean = yield dist.Normal(0.0, 3.0).expand([2])
    a = yield dist.Normal(mean[0], 1.5).expand([4])
    b = yield dist.Normal(mean[1], 0.7).expand([4])
    y = yield dist.Normal(a[group] + b[group] * x, 0.5)


def test_intercepts_and_slopes():
    post = intercepts_and_slopes(CLASS, DOSE).condition(y=MARKS)
    assert_eliminates(post, "a", "b", "mean")
    slopes = DOSE[:, None] * IN_CLASS
    noise = 0.25 * np.eye(8) + 2.25 * IN_CLASS @ IN_CLASS.T + 0.49 * slopes @ slopes.T
    design = np.stack([np.ones(8), DOSE], 1)
    assert float(post.log_evidence()) == close(log_normal(MARKS, noise + 9 * design @ design.T))
    mean, covariance = conditioned(MARKS, np.zeros(2), 9 * np.eye(2), design, noise)
    assert_moments(post, "mean", mean)
    assert_draws(drawn(post)["mean"], mean, covariance)


@fb.model
def correlated_intercepts_and_slopes(group, x):
    mean = yield dist.Normal(0.0, 3.0).expand([2])
    ab = yield dist.MultivariateNormal(mean, jnp.array([[2.25, 0.6], [0.6, 0.49]])).expand([4])
    y = yield dist.Normal(ab[group, 0] + ab[group, 1] * x, 0.5)


def test_correlated_intercepts_and_slopes():
    post = correlated_intercepts_and_slopes(CLASS, DOSE).condition(y=MARKS)
    assert_eliminates(post, "ab", "mean")
    design = np.stack([np.ones(8), DOSE], 1)
    between = IN_CLASS @ IN_CLASS.T * (design @ np.array([[2.25, 0.6], [0.6, 0.49]]) @ design.T)
    noise = 0.25 * np.eye(8) + between
    assert float(post.log_evidence()) == close(log_normal(MARKS, noise + 9 * design @ design.T))


@fb.model
def crossed(person, item):
    m = yield dist.Normal(0.0, 3.0)
    a = yield dist.Normal(0.0, 1.5).expand([4])
    b = yield dist.Normal(0.0, 0.7).expand([3])
    y = yield dist.Normal(m + a[person] + b[item], 0.5)


def test_crossed_effects():
    post = crossed(CLASS, ITEM).condition(y=MARKS)
    assert_eliminates(post, "a", "b", "m")
    in_item = np.eye(3)[ITEM]
    noise = 0.25 * np.eye(8) + 0.49 * in_item @ in_item.T + 9
    assert float(post.log_evidence()) == close(log_normal(MARKS, noise + 2.25 * IN_CLASS @ IN_CLASS.T))
    mean, covariance = conditioned(MARKS, np.zeros(4), 2.25 * np.eye(4), IN_CLASS, noise)
    assert_moments(post, "a", mean)
    assert_draws(drawn(post)["a"], mean, covariance)


@fb.model
def crossed_with_unknown_scales(person, item):
    s = yield dist.HalfNormal(2.0)
    t = yield dist.HalfNormal(2.0)
    v = yield dist.InverseGamma(3.0, 2.0)
    a = yield dist.Normal(0.0, s * jnp.sqrt(v)).expand([4])
    b = yield dist.Normal(0.0, t * jnp.sqrt(v)).expand([3])
    y = yield dist.Normal(a[person] + b[item], jnp.sqrt(v))


def test_crossed_effects_with_unknown_scales():
    post = crossed_with_unknown_scales(CLASS, ITEM).condition(y=MARKS)
    assert_eliminates(post, "a", "b", "v", kept=["s", "t"])
    in_item = np.eye(3)[ITEM]

    def expected(s, t):
        shape = np.eye(8) + s**2 * IN_CLASS @ IN_CLASS.T + t**2 * in_item @ in_item.T
        return log_student(MARKS, 2 / 3 * shape, 6) + stats.halfnorm(scale=2).logpdf([s, t]).sum()

    points = [dict(s=0.02, t=1.5), dict(s=2.0, t=0.6)]
    assert_density(post, ["a", "b", "v"], *((point, expected(**point)) for point in points))

    def joint(s, t, v):
        prior = (
            stats.halfnorm(scale=2).logpdf(s) + stats.halfnorm(scale=2).logpdf(t) + stats.invgamma(3, scale=2).logpdf(v)
        )
        people, items = IN_CLASS @ IN_CLASS.T, in_item @ in_item.T
        return prior + log_normals(MARKS, stacked((v, np.eye(8)), (v * s**2, people), (v * t**2, items)))

    domains = dict(s=("positive", -18, 3, 42), t=("positive", -18, 3, 42))
    whole = log_integral(joint, **domains, v=("positive", -4, 9, 50))
    assert_integral(post, ["a", "b", "v"], whole, **domains)


# -- global and local latents ---------------------------------------------------------------------------------------


@fb.model
def local_offsets(x):
    b = yield dist.Normal(0.0, 2.0)
    z = yield dist.Normal(0.0, 1.2).expand(x.shape)
    y = yield dist.Normal(b * x + z, 0.5)


def test_global_and_local_normals():
    post = local_offsets(DOSE).condition(y=MARKS)
    assert_eliminates(post, "z", "b")
    assert float(post.log_evidence()) == close(log_normal(MARKS, 1.69 * np.eye(8) + 4 * np.outer(DOSE, DOSE)))
    mean, variance = conditioned(MARKS, np.zeros(1), 4 * np.eye(1), DOSE[:, None], 1.69 * np.eye(8))
    assert_moments(post, "b", mean[0], variance[0, 0])
    noise = 0.25 * np.eye(8) + 4 * np.outer(DOSE, DOSE)
    mean, covariance = conditioned(MARKS, np.zeros(8), 1.44 * np.eye(8), np.eye(8), noise)
    assert_draws(drawn(post)["z"], mean, covariance)


FAILURES = np.array([5, 1, 5, 14])
TIME = np.array([94.3, 15.7, 62.9, 126.0]) / 10


@fb.model
def pumps(time):
    scale = yield dist.Gamma(2.0, 1.0)
    rate = yield dist.Gamma(1.8, scale).expand(time.shape)
    y = yield dist.Poisson(rate * time)


def test_global_and_local_rates():
    """The scale given the rates has a closed form too, but fewer latents remain when the rates are eliminated."""
    post = pumps(TIME).condition(y=FAILURES)
    assert_eliminates(post, "rate", kept=["scale"])

    def expected(scale):
        counts = stats.nbinom(1.8, scale / (scale + TIME)).logpmf(FAILURES).sum()
        return counts + stats.gamma(2).logpdf(scale)

    assert_density(post, ["rate"], *((dict(scale=scale), expected(scale)) for scale in (0.3, 4.0)))
    draws = recovered(post, ["rate"], scale=0.3)["rate"]
    assert_draws(draws, (1.8 + FAILURES) / (0.3 + TIME), (1.8 + FAILURES) / (0.3 + TIME) ** 2)
    rates = np.array([0.5, 0.1, 0.7, 1.0])
    local = stats.gamma(1.8).logpdf(rates).sum() + stats.poisson(rates * TIME).logpmf(FAILURES).sum()
    a, b = 2 + 4 * 1.8, 1 + rates.sum()
    whole = local + rates.sum() + gammaln(a) - a * np.log(b)
    assert_density(post, ["scale"], (dict(rate=rates), whole))

    def joint(scale):
        u, step = np.linspace(-30, 10, 800, retstep=True)
        found = stats.gamma(2).logpdf(scale)
        for time, count in zip(TIME, FAILURES, strict=True):
            cells = stats.gamma.logpdf(np.exp(u), 1.8, scale=1 / scale[:, None]) + stats.poisson.logpmf(
                count, np.exp(u) * time
            )
            found = found + logsumexp(cells + u, axis=1) + np.log(step)
        return found

    domain = ("positive", -14, 6, 60)
    assert_integral(post, ["rate"], log_integral(joint, scale=domain), scale=domain)


# -- counts ---------------------------------------------------------------------------------------------------------

AT_BATS, HITS = np.array([45, 45, 30, 20]), np.array([18, 12, 9, 3])


@fb.model
def baseball(n):
    phi = yield dist.Beta(2.0, 5.0)
    kappa = yield dist.Gamma(3.0, 0.1)
    p = yield dist.Beta(phi * kappa, (1 - phi) * kappa).expand(n.shape)
    y = yield dist.Binomial(n, p)


def test_a_hierarchy_of_probabilities():
    post = baseball(AT_BATS).condition(y=HITS)
    assert_eliminates(post, "p", kept=["phi", "kappa"])

    def expected(phi, kappa):
        prior = stats.beta(2, 5).logpdf(phi) + stats.gamma(3, scale=10).logpdf(kappa)
        return prior + stats.betabinom(AT_BATS, phi * kappa, (1 - phi) * kappa).logpmf(HITS).sum()

    points = [dict(phi=0.3, kappa=40.0), dict(phi=0.6, kappa=1.5)]
    assert_density(post, ["p"], *((point, expected(**point)) for point in points))
    draws = recovered(post, ["p"], phi=0.3, kappa=40.0)["p"]
    distribution = stats.beta(12 + HITS, 28 + AT_BATS - HITS)
    assert_draws(draws, distribution.mean(), distribution.var())
    whole = dict(phi=("unit", -6, 4, 50), kappa=("positive", -3, 7, 50))
    found = log_integral(post.eliminate("p").log_prob, **whole)

    def nested(phi, kappa):
        u, step = np.linspace(-14, 8, 450, retstep=True)
        yes, no, a = -np.logaddexp(0, -u), -np.logaddexp(0, u), (phi * kappa)[:, None]
        b = kappa[:, None] - a
        found = stats.beta(2, 5).logpdf(phi) + stats.gamma(3, scale=10).logpdf(kappa)
        for n, k in zip(AT_BATS, HITS, strict=True):
            cells = (a + k) * yes + (b + n - k) * no - betaln(a, b)
            found += np.log(comb(n, k)) + logsumexp(cells, axis=1) + np.log(step)
        return found

    assert found == close(log_integral(nested, **whole))


@fb.model
def failures(time):
    a = yield dist.Exponential(1.0)
    b = yield dist.Gamma(0.5, 1.0)
    rate = yield dist.Gamma(a, b).expand(time.shape)
    y = yield dist.Poisson(rate * time)


def test_a_hierarchy_of_rates():
    post = failures(TIME).condition(y=FAILURES)
    assert_eliminates(post, "rate", kept=["a", "b"])

    def expected(a, b):
        prior = stats.expon.logpdf(a) + stats.gamma(0.5).logpdf(b)
        return prior + stats.nbinom(a, b / (b + TIME)).logpmf(FAILURES).sum()

    points = [dict(a=0.7, b=0.9), dict(a=2.5, b=0.2)]
    assert_density(post, ["rate"], *((point, expected(**point)) for point in points))
    draws = recovered(post, ["rate"], a=0.7, b=0.9)["rate"]
    assert_draws(draws, (0.7 + FAILURES) / (0.9 + TIME), (0.7 + FAILURES) / (0.9 + TIME) ** 2)

    def many(a, b):
        prior = stats.expon.logpdf(a) + stats.gamma(0.5).logpdf(b)
        return prior + stats.nbinom.logpmf(FAILURES, a[:, None], b[:, None] / (b[:, None] + TIME)).sum(1)

    domains = dict(a=("positive", -8, 4, 50), b=("positive", -30, 4, 80))
    assert_integral(post, ["rate"], log_integral(many, **domains), **domains)


CAUSES = np.array([[3, 1, 0], [2, 2, 2], [0, 5, 1]])


@fb.model
def causes(totals):
    concentration = yield dist.Gamma(2.0, 1.0)
    share = yield dist.Dirichlet(jnp.full(3, 1.0) * concentration).expand([3])
    y = yield dist.Multinomial(totals, probs=share)


def test_a_hierarchy_of_shares():
    post = causes(CAUSES.sum(1)).condition(y=CAUSES)
    assert_eliminates(post, "share", kept=["concentration"])

    def expected(c):
        shares = sum(stats.dirichlet_multinomial(np.full(3, c), row.sum()).logpmf(row) for row in CAUSES)
        return shares + stats.gamma(2).logpdf(c)

    assert_density(post, ["share"], *((dict(concentration=c), expected(c)) for c in (0.4, 3.0)))
    draws = recovered(post, ["share"], concentration=0.4)["share"]
    distributions = [stats.dirichlet(0.4 + row) for row in CAUSES]
    assert_draws(
        draws,
        np.stack([distribution.mean() for distribution in distributions]),
        np.stack([distribution.var() for distribution in distributions]),
    )
    domain = ("positive", -8, 5, 60)
    assert_integral(post, ["share"], log_integral(np.vectorize(expected), c=domain), concentration=domain)
