"""Missing and censored data: what is not there has no factor, or is a latent of its own."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as nd
from scipy.special import logsumexp
from scipy.stats import binom, gamma, halfnorm, multivariate_t, norm

import fubini as fb
from fubini import dist
from fubini.errors import FubiniError
from tests.catalogue.oracles import (
    assert_close,
    assert_mean,
    beta_bernoulli,
    conditional,
    dirichlet_counts,
    evidence,
    forward_backward,
    gamma_poisson,
    left,
    normal,
    recovered,
)

Y = np.array([0.4, -1.2, 2.2, 0.9, 1.5, -0.3])
MISSING = np.array([False, True, False, False, True, False])
THERE = np.flatnonzero(~MISSING)
HOLES = np.ma.array(np.where(MISSING, np.nan, Y), mask=MISSING)

# -- entries left out ------------------------------------------------------------------------------------------------


@fb.model
def mean_and_noise(n):
    v = yield dist.InverseGamma(3.0, 2.0)
    m = yield dist.Normal(1.0, 2.0 * jnp.sqrt(v))
    y = yield dist.Normal(m, jnp.sqrt(v)).expand([n])


def test_missing_normals():
    post = mean_and_noise(6).condition(y=HOLES)
    student = multivariate_t(np.ones(4), (2 / 3) * (np.eye(4) + 4), df=6)
    assert_close(evidence(post, ["v", "m"]), student.logpdf(Y[THERE]))


def test_the_mean_of_missing_normals():
    found = mean_and_noise(6).condition(y=HOLES).marginal("m")
    assert_close(found.mean("m").data, (0.25 + Y[THERE].sum()) / 4.25)


def test_the_variance_of_missing_normals():
    found = mean_and_noise(6).condition(y=HOLES).marginal("v")
    rate = 2 + 0.5 * (Y[THERE] - 1) @ np.linalg.solve(np.eye(4) + 4, Y[THERE] - 1)
    assert_close(found.mean("v").data, rate / (3 + 2 - 1))


@fb.model
def rates(n):
    rate = yield dist.Gamma(2.0, 1.0).expand([2])
    y = yield dist.Poisson(rate).expand([n, 2])


def test_missing_counts():
    """Different entries of each column."""
    counts = np.array([[3, 0], [1, 2], [4, 1]])
    mask = np.array([[False, True], [True, False], [False, False]])
    post = rates(3).condition(y=np.ma.array(counts, mask=mask))
    columns = [counts[~mask[:, place], place] for place in range(2)]
    assert_close(evidence(post, ["rate"]), sum(gamma_poisson(2.0, 1.0, column) for column in columns))
    expected = [(2 + column.sum()) / (1 + len(column)) for column in columns]
    assert_close(post.marginal("rate").mean("rate").data, expected)


@fb.model
def answers(people, items):
    p = yield dist.Beta(2.0, 1.0).expand([items])
    y = yield dist.Bernoulli(p).expand([people, items])


def test_missing_answers():
    bits = np.array([[1, 0], [1, 1], [0, 0]])
    mask = np.array([[False, True], [True, False], [False, False]])
    post = answers(3, 2).condition(y=np.ma.array(bits, mask=mask))
    ones, seen = (bits * ~mask).sum(0), (~mask).sum(0)
    assert_close(evidence(post, ["p"]), beta_bernoulli(2.0, 1.0, ones, seen - ones).sum())
    assert_close(post.marginal("p").mean("p").data, (2 + ones) / (3 + seen))


@fb.model
def colours(n):
    p = yield dist.Dirichlet(jnp.array([1.0, 2.0, 3.0]))
    y = yield dist.Categorical(p).expand([n])


def test_missing_categories():
    post = colours(5).condition(y=np.ma.array([0, 2, 1, 2, 0], mask=[False, False, True, False, True]))
    counts = np.array([1, 0, 2])
    assert_close(evidence(post, ["p"]), dirichlet_counts([1.0, 2.0, 3.0], counts))
    assert_close(post.marginal("p").mean("p").data, (counts + np.array([1, 2, 3])) / 9)


COVARIANCE = np.array([[1.0, 0.5], [0.5, 2.0]])


@fb.model
def vectors(n):
    m = yield dist.Normal(0.0, 3.0).expand([2])
    y = yield dist.MultivariateNormal(m, jnp.array(COVARIANCE)).expand([n])


def test_missing_parts_of_vectors():
    """A vector of which a part is there has the marginal of that part."""
    rows = np.array([[0.5, 1.0], [-0.3, 0.8], [1.2, -1.1]])
    mask = np.array([[False, True], [False, False], [True, False]])
    post = vectors(3).condition(y=np.ma.array(rows, mask=mask))
    covariance = np.kron(np.eye(3), COVARIANCE) + np.kron(np.ones((3, 3)), 9 * np.eye(2))
    there = np.flatnonzero(~mask.ravel())
    assert_close(evidence(post, ["m"]), normal(covariance[np.ix_(there, there)], rows.ravel()[there]))


@fb.model
def groups(group, n):
    m = yield dist.Normal(0.0, 2.0)
    g = yield dist.Normal(m, 1.0).expand([3])
    y = yield dist.Normal(g[group], 0.5)


def test_missing_entries_of_groups():
    """A group of which nothing is there has its prior."""
    group = np.array([0, 1, 0, 2, 1, 2])
    post = groups(group, 6).condition(y=HOLES)
    z = np.eye(3)[group][THERE]
    prior = np.eye(3) + 4
    assert_close(evidence(post, ["m", "g"]), normal(z @ prior @ z.T + 0.25 * np.eye(4), Y[THERE]))
    mean, covariance = conditional(prior, z, 0.25 * np.eye(4), Y[THERE])
    assert_close(post.marginal("g").mean("g").data, mean)
    assert_close(post.marginal("g").variance("g").data, np.diag(covariance))


def test_a_mask_in_the_model():
    """The same by `.mask`, with whatever number in place of what is missing."""

    @fb.model
    def masked(there):
        m = yield dist.Normal(1.0, 2.0)
        y = yield dist.Normal(m, 1.0).expand([6]).mask(there)

    post = masked(~MISSING).condition(y=np.where(MISSING, 99.0, Y))
    assert_close(evidence(post, ["m"]), normal(np.eye(4) + 4, Y[THERE], 1.0))


# -- chains and mixtures ---------------------------------------------------------------------------------------------

STEP = np.array([[0.8, 0.2], [0.3, 0.7]])


@fb.model
def hidden_markov(n):
    mu = yield dist.Normal(0.0, 2.0).expand([2])
    z = yield dist.Markov(dist.Bernoulli(0.5), lambda z: dist.Categorical(jnp.array(STEP)[z]), n)
    y = yield dist.Normal(mu[z], 0.7)


def test_missing_emissions_of_a_hidden_markov_model():
    small = left(hidden_markov(6).condition(y=HOLES), ["z"], ["mu"])
    for mu in (np.array([0.0, 1.5]), np.array([-1.0, 0.3])):
        likelihood = np.where(MISSING[:, None], 0.0, norm.logpdf(Y[:, None], mu, 0.7))
        total, smooth = forward_backward([0.5, 0.5], STEP, likelihood)
        assert_close(small.log_prob(mu=mu), total + norm.logpdf(mu, 0, 2).sum())
    assert_mean(recovered(small, {"mu": mu})["z"], smooth[:, 1])


@fb.model
def local_level(n):
    q = yield dist.HalfNormal(1.0)
    x = yield dist.Markov(dist.Normal(0.0, 2.0), lambda x: dist.Normal(x, q), n)
    y = yield dist.Normal(x, 0.5)


def test_missing_observations_of_a_local_level():
    small = left(local_level(6).condition(y=HOLES), ["x"], ["q"])
    lower, design = np.tril(np.ones((6, 6))), np.eye(6)[THERE]
    for q in (0.5, 1.3):
        prior = lower @ np.diag([4.0] + [q**2] * 5) @ lower.T
        covariance = design @ prior @ design.T + 0.25 * np.eye(4)
        assert_close(small.log_prob(q=q), normal(covariance, Y[THERE]) + halfnorm.logpdf(q))
    mean, covariance = conditional(prior, design, 0.25 * np.eye(4), Y[THERE])
    assert_mean(recovered(small, {"q": q})["x"], mean, np.diag(covariance))


@fb.model
def mixture(n):
    mu = yield dist.Normal(0.0, 2.0).expand([2])
    z = yield dist.Bernoulli(0.3).expand([n])
    y = yield dist.Normal(mu[z][:, None], 1.0).expand([n, 2])


def test_missing_coordinates_of_a_mixture():
    y = Y.reshape(3, 2)
    mask = MISSING.reshape(3, 2)
    small = left(mixture(3).condition(y=np.ma.array(y, mask=mask)), ["z"], ["mu"])
    for mu in (np.array([0.0, 1.5]), np.array([-1.0, 0.3])):
        each = np.where(mask[..., None], 0.0, norm.logpdf(y[..., None], mu)).sum(1) + np.log([0.7, 0.3])
        assert_close(small.log_prob(mu=mu), logsumexp(each, axis=1).sum() + norm.logpdf(mu, 0, 2).sum())


@fb.model
def factor_analysis(n):
    w = yield dist.Normal(0.0, 1.0).expand([2])
    z = yield dist.Normal(0.0, 1.0).expand([n])
    y = yield dist.Normal(z[:, None] * w, 0.6)


def test_missing_entries_of_a_factor_model():
    y, mask = Y.reshape(3, 2), MISSING.reshape(3, 2)
    small = left(factor_analysis(3).condition(y=np.ma.array(y, mask=mask)), ["z"], ["w"])
    for w in (np.array([0.5, -1.0]), np.array([1.5, 0.3])):
        expected = norm.logpdf(w).sum()
        for row, hole in zip(y, mask, strict=True):
            there = w[~hole]
            expected += normal(np.outer(there, there) + 0.36 * np.eye(len(there)), row[~hole])
        assert_close(small.log_prob(w=w), expected)


def test_labels_of_which_some_are_known():
    """Those that are missing are summed: over all values of them, the evidence of labels that are known."""
    y, labels = Y.reshape(3, 2), np.ma.array([0, 1, 0], mask=[False, True, True])
    found = mixture(3).condition(y=y, z=labels).log_evidence()
    whole = [mixture(3).condition(y=y, z=np.array([0, a, b])).log_evidence() for a in (0, 1) for b in (0, 1)]
    assert_close(float(found), logsumexp([float(one) for one in whole]))


@fb.model
def some_labels_known(labels, n):
    mu = yield dist.Normal(0.0, 2.0).expand([2])
    z = yield dist.Bernoulli(0.3).expand([n])
    y = yield dist.Normal(mu[jnp.where(labels >= 0, labels, z)], 1.0)


def test_semi_supervised_mixture():
    """Where a label is known it is used, elsewhere it is summed."""
    labels = np.array([0, -1, 1, -1, -1, 1])
    small = left(some_labels_known(labels, 6).condition(y=Y), ["z"], ["mu"])
    for mu in (np.array([0.0, 1.5]), np.array([-1.0, 0.3])):
        each = norm.logpdf(Y[:, None], mu)
        known = each[labels >= 0, labels[labels >= 0]].sum()
        unknown = logsumexp(each[labels < 0] + np.log([0.7, 0.3]), axis=1).sum()
        assert_close(small.log_prob(mu=mu), known + unknown + norm.logpdf(mu, 0, 2).sum())


# -- latents for what is missing -------------------------------------------------------------------------------------

X = np.array([0.2, -0.7, 1.1, 0.5, -1.3, 0.9])
LOST = np.array([1, 4])


@fb.model
def missing_covariates(x, lost):
    b = yield dist.Normal(0.0, 2.0)
    gap = yield dist.Normal(0.3, 1.5).expand([len(lost)])
    y = yield dist.Normal(b * jnp.asarray(x).at[lost].set(gap), 0.5)


def test_missing_covariates():
    """Given the slope, the numbers that fill the gaps are integrated out."""
    small = left(missing_covariates(X, LOST).condition(y=Y), ["gap"], ["b"])
    kept = np.setdiff1d(np.arange(6), LOST)
    for b in (0.8, -1.7):
        expected = norm.logpdf(Y[kept], b * X[kept], 0.5).sum() + norm.logpdf(b, 0, 2)
        expected += norm.logpdf(Y[LOST], 0.3 * b, np.sqrt((1.5 * b) ** 2 + 0.25)).sum()
        assert_close(small.log_prob(b=b), expected)
    precision = 1 / 2.25 + b**2 / 0.25
    draws = recovered(small, {"b": b})["gap"]
    assert_mean(draws, (0.3 / 2.25 + b * Y[LOST] / 0.25) / precision, 1 / precision)


@fb.model
def missing_covariates_by_concatenation(x, lost):
    b = yield dist.Normal(0.0, 2.0)
    gap = yield dist.Normal(0.3, 1.5).expand([lost])
    y = yield dist.Normal(b * jnp.concatenate([x, gap]), 0.5)


def test_missing_covariates_by_concatenation():
    small = left(missing_covariates_by_concatenation(X[:4], 2).condition(y=Y), ["gap"], ["b"])
    for b in (0.8, -1.7):
        expected = norm.logpdf(Y[:4], b * X[:4], 0.5).sum() + norm.logpdf(b, 0, 2)
        expected += norm.logpdf(Y[4:], 0.3 * b, np.sqrt((1.5 * b) ** 2 + 0.25)).sum()
        assert_close(small.log_prob(b=b), expected)
    precision = 1 / 2.25 + b**2 / 0.25
    assert_mean(recovered(small, {"b": b})["gap"], (0.3 / 2.25 + b * Y[4:] / 0.25) / precision, 1 / precision)


@fb.model
def missing_covariates_by_where(x, there):
    a = yield dist.Normal(0.0, 1.0)
    b = yield dist.Normal(0.0, 2.0)
    full = yield dist.Normal(0.3, 1.5).expand([len(x)])
    y = yield dist.Normal(a + b * jnp.where(there, x, full), 0.5)


def test_missing_covariates_by_where():
    small = left(missing_covariates_by_where(X, ~MISSING).condition(y=Y), ["full", "a"], ["b"])
    for b in (0.8, -1.7):
        mean = b * np.where(MISSING, 0.3, X)
        covariance = np.diag(0.25 + MISSING * (1.5 * b) ** 2) + 1
        assert_close(small.log_prob(b=b), normal(covariance, Y, mean) + norm.logpdf(b, 0, 2))
    design = np.hstack([np.ones((6, 1)), b * np.diag(MISSING.astype(float))])
    shift = b * np.where(MISSING, 0.3, X)
    gap, covariance = conditional(np.diag([1.0] + [2.25] * 6), design, 0.25 * np.eye(6), Y, shift)
    draws = recovered(small, {"b": b})
    assert_mean(draws["full"], 0.3 + gap[1:], np.diag(covariance)[1:])


@fb.model
def censored(n):
    m = yield dist.Normal(0.0, 2.0)
    z = yield dist.Normal(m, 1.0).expand([n])
    y = yield dist.Normal(jnp.maximum(z, 0.0), 0.1)


def test_censoring_by_a_latent():
    """The mean is integrated out given the uncensored values, which stay."""
    y = np.maximum(Y, 0.0)
    small = left(censored(6).condition(y=y), ["m"], ["z"])
    for z in (Y, Y + np.array([0.1, -0.3, 0.0, 0.2, -0.1, -0.4])):
        expected = normal(np.eye(6) + 4, z) + norm.logpdf(y, np.maximum(z, 0), 0.1).sum()
        assert_close(small.log_prob(z=z), expected)
    assert_mean(recovered(small, {"z": z})["m"], z.sum() / (6 + 0.25), 1 / (6 + 0.25))


def numpyro_censored(y, censored, limit):
    m = numpyro.sample("m", nd.Normal(0.0, 2.0))
    s = numpyro.sample("s", nd.HalfNormal(1.0))
    beyond = numpyro.sample("beyond", nd.ImproperUniform(nd.constraints.greater_than(limit), (), (censored,)))
    numpyro.sample("y", nd.Normal(m, s), obs=jnp.concatenate([y, beyond]))


def test_censoring_by_a_latent_of_numpyro():
    """Values beyond a limit are latents without a distribution of their own."""
    small = left(fb.from_numpyro(numpyro_censored, Y, 2, 3.0), ["m"], ["s", "beyond"])
    for s, beyond in ((0.7, np.array([3.5, 4.0])), (1.4, np.array([3.1, 6.0]))):
        whole = np.concatenate([Y, beyond])
        expected = normal(s**2 * np.eye(8) + 4, whole) + halfnorm.logpdf(s)
        assert_close(small.log_prob(s=s, beyond=beyond), expected)


TIMES, ENDED = np.array([0.5, 2.0, 1.2, 3.0]), np.array([True, False, True, False])


@fb.model
def survival_times(n):
    rate = yield dist.Gamma(2.0, 1.0)
    rest = yield dist.Exponential(rate).expand([n])
    y = yield dist.Exponential(rate).expand([n])


def test_exponential_times_ahead():
    """Latents that nothing was observed of are integrated out before the rate that they share."""
    post = survival_times(4).condition(y=TIMES)
    expected = 2 * np.log(1) + np.log(120.0) - 6 * np.log(1 + TIMES.sum())
    assert_close(evidence(post, ["rate", "rest"]), expected)
    small = post.eliminate("rest")
    assert_close(small.log_prob(rate=0.8), gamma.logpdf(0.8, 2) + (np.log(0.8) - 0.8 * TIMES).sum())
    assert_mean(recovered(small, {"rate": 0.8})["rest"], 1 / 0.8, 1 / 0.64)


@fb.model
def right_censored(ended, beyond):
    rate = yield dist.Gamma(2.0, 1.0)
    y = yield dist.Exponential(rate).expand([ended])
    survived = yield dist.Poisson(rate * beyond)


def test_censored_times_by_the_event_that_did_not_come():
    """No event in so much time is a count of zero."""
    post = right_censored(2, TIMES[~ENDED]).condition(y=TIMES[ENDED], survived=np.zeros(2, int))
    assert_close(evidence(post, ["rate"]), np.log(6.0) - 4 * np.log(1 + TIMES.sum()))
    assert_close(post.marginal("rate").mean("rate").data, 4 / (1 + TIMES.sum()))


@fb.model
def censored_family(ended):
    rate = yield dist.Gamma(2.0, 1.0)
    y = yield dist.RightCensoredDistribution(dist.Exponential(rate * jnp.ones(4)), ~ended)


def test_censored_times_as_a_family():
    """A censored time has the factor exp(−rate · time): the rate is a Gamma."""
    post = censored_family(ENDED).condition(y=TIMES)
    small = post.eliminate()
    for rate in (0.8, 1.7):
        assert_close(small.log_prob(rate=rate), gamma.logpdf(rate, 2) + 2 * np.log(rate) - rate * TIMES.sum())
    assert_close(evidence(post, ["rate"]), np.log(6) - 4 * np.log(1 + TIMES.sum()))


def test_censored_times_of_an_expansion():
    """NumPyro's expansions have no distribution function; that is reported."""

    @fb.model
    def expanded(ended):
        rate = yield dist.Gamma(2.0, 1.0)
        y = yield dist.RightCensoredDistribution(dist.Exponential(rate).expand([4]), ~ended)

    try:
        found = float(expanded(ENDED).condition(y=TIMES).log_prob(rate=0.8))
    except FubiniError:
        return
    assert_close(found, gamma.logpdf(0.8, 2) + 2 * np.log(0.8) - 0.8 * TIMES.sum())


@fb.model
def unseen_counts(n):
    rate = yield dist.Gamma(2.0, 1.0)
    y = yield dist.Poisson(rate).expand([n])
    seen = yield dist.Binomial(y, 0.4)


def test_thinned_counts_with_the_total_observed():
    """What is seen of a count, and the count, are both observed."""
    y, seen = np.array([3, 5, 2]), np.array([1, 3, 0])
    post = unseen_counts(3).condition(y=y, seen=seen)
    assert_close(evidence(post, ["rate"]), gamma_poisson(2.0, 1.0, y) + binom.logpmf(seen, y, 0.4).sum())
