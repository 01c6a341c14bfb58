"""Regressions: weights, and noise where its prior allows, integrated out, against normal and Student-t densities."""

import jax.numpy as jnp
import numpy as np
from scipy import stats

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
    log_normals,
    log_student,
    recovered,
    stacked,
)

RANDOM = np.random.default_rng(1)
X = RANDOM.normal(size=(9, 3))
Y = X @ np.array([0.5, -1.0, 2.0]) + 0.4 * RANDOM.normal(size=9)
ONE = np.ones((9, 1))
GROUP = np.array([0, 0, 1, 1, 1, 2, 2, 2, 2])
IN_GROUP = np.eye(3)[GROUP]


def weights_of(y, design, prior, a=3.0, b=2.0):
    """Mean and covariance of weights ~ N(0, v prior) where y ~ N(design weights, v), 1/v ~ Gamma(a, b); mean of v."""
    loc, shape = conditioned(y, np.zeros(len(prior)), prior, design, np.eye(len(y)))
    rest = y @ np.linalg.solve(np.eye(len(y)) + design @ prior @ design.T, y)
    spread = (b + rest / 2) / (a + len(y) / 2 - 1)
    return loc, spread * shape, spread


# -- one vector of weights ------------------------------------------------------------------------------------------


@fb.model
def regression(x):
    v = yield dist.InverseGamma(3.0, 2.0)
    w = yield dist.Normal(0.0, jnp.sqrt(v)).expand([x.shape[1]])
    y = yield dist.Normal(x @ w, jnp.sqrt(v))


def test_regression_with_unknown_noise():
    post = regression(X).condition(y=Y)
    assert_eliminates(post, "w", "v")
    assert float(post.log_evidence()) == close(log_student(Y, 2 / 3 * (np.eye(9) + X @ X.T), 6))
    loc, covariance, noise = weights_of(Y, X, np.eye(3))
    assert_moments(post, "w", loc, np.diag(covariance))
    assert_moments(post, "v", noise, noise**2 / (3 + 4.5 - 2))
    ahead = post.predict(KEY, "y", draws=20_000)
    assert_draws(ahead, X @ loc, X @ covariance @ X.T + noise * np.eye(9))


def test_the_covariance_of_weights_with_unknown_noise():
    post = regression(X).condition(y=Y)
    loc, covariance, _ = weights_of(Y, X, np.eye(3))
    assert_moments(post, "w", loc, covariance)


@fb.model
def regression_by_precision(x):
    t = yield dist.Gamma(3.0, 2.0)
    w = yield dist.Normal(0.0, 2.0 / jnp.sqrt(t)).expand([x.shape[1]])
    y = yield dist.Normal(x @ w, 1 / jnp.sqrt(t))


def test_regression_with_unknown_precision():
    post = regression_by_precision(X).condition(y=Y)
    assert_eliminates(post, "w", "t")
    assert float(post.log_evidence()) == close(log_student(Y, 2 / 3 * (np.eye(9) + 4 * X @ X.T), 6))
    loc, covariance, noise = weights_of(Y, X, 4 * np.eye(3))
    assert_moments(post, "w", loc, np.diag(covariance))
    rate = noise * (3 + 4.5 - 1)
    assert_moments(post, "t", 7.5 / rate, 7.5 / rate**2)


@fb.model
def regression_with_known_noise(x):
    w = yield dist.Normal(1.0, 2.0).expand([x.shape[1]])
    y = yield dist.Normal(x @ w, 0.5)


def test_regression_with_known_noise():
    post = regression_with_known_noise(X).condition(y=Y)
    assert_eliminates(post, "w")
    assert float(post.log_evidence()) == close(log_normal(Y, 0.25 * np.eye(9) + 4 * X @ X.T, X.sum(1)))
    mean, covariance = conditioned(Y, np.ones(3), 4 * np.eye(3), X, 0.25 * np.eye(9))
    assert_moments(post, "w", mean, covariance)


@fb.model
def polynomial(x):
    v = yield dist.InverseGamma(3.0, 2.0)
    w = yield dist.Normal(0.0, 2.0 * jnp.sqrt(v)).expand([4])
    basis = jnp.stack([x**k for k in range(4)], axis=-1)
    y = yield dist.Normal(basis @ w, jnp.sqrt(v))


def test_a_polynomial():
    line = np.linspace(-1.5, 1.5, 9)
    post = polynomial(line).condition(y=Y)
    assert_eliminates(post, "w", "v")
    basis = line[:, None] ** np.arange(4)
    assert float(post.log_evidence()) == close(log_student(Y, 2 / 3 * (np.eye(9) + 4 * basis @ basis.T), 6))
    loc, covariance, _ = weights_of(Y, basis, 4 * np.eye(4))
    assert_moments(post, "w", loc, np.diag(covariance))


@fb.model
def polynomial_by_terms(x):
    c = yield dist.Normal(0.0, 2.0).expand([3])
    y = yield dist.Normal(c[0] + c[1] * x + c[2] * x**2, 0.5)


def test_a_polynomial_by_its_terms():
    line = np.linspace(-1.5, 1.5, 9)
    post = polynomial_by_terms(line).condition(y=Y)
    assert_eliminates(post, "c")
    basis = line[:, None] ** np.arange(3)
    assert float(post.log_evidence()) == close(log_normal(Y, 0.25 * np.eye(9) + 4 * basis @ basis.T))
    mean, covariance = conditioned(Y, np.zeros(3), 4 * np.eye(3), basis, 0.25 * np.eye(9))
    assert_moments(post, "c", mean, covariance)


# -- weights of several sites ---------------------------------------------------------------------------------------


@fb.model
def intercept_and_weights(x):
    v = yield dist.InverseGamma(3.0, 2.0)
    b = yield dist.Normal(0.0, 3.0 * jnp.sqrt(v))
    w = yield dist.Normal(0.0, jnp.sqrt(v)).expand([x.shape[1]])
    y = yield dist.Normal(x @ w + b, jnp.sqrt(v))


def test_an_intercept_and_weights():
    post = intercept_and_weights(X).condition(y=Y + 1.5)
    assert_eliminates(post, "b", "w", "v")
    design, prior = np.hstack([ONE, X]), np.diag([9.0, 1, 1, 1])
    shape = np.eye(9) + design @ prior @ design.T
    assert float(post.log_evidence()) == close(log_student(Y + 1.5, 2 / 3 * shape, 6))
    loc, covariance, noise = weights_of(Y + 1.5, design, prior)
    assert_moments(post, "v", noise)
    draws = drawn(post)
    assert_draws(np.concatenate([draws["b"][:, None], draws["w"]], axis=1), loc, covariance)


def test_the_marginal_of_weights_beside_an_intercept():
    post = intercept_and_weights(X).condition(y=Y + 1.5)
    loc, covariance, _ = weights_of(Y + 1.5, np.hstack([ONE, X]), np.diag([9.0, 1, 1, 1]))
    assert_moments(post, "w", loc[1:], np.diag(covariance)[1:])


@fb.model
def analysis_of_covariance(x, group):
    b = yield dist.Normal(0.0, 3.0)
    w = yield dist.Normal(0.0, 1.0).expand([x.shape[1]])
    a = yield dist.Normal(0.0, 2.0).expand([3])
    offset = 0.1 * x[:, 0] ** 2
    y = yield dist.Normal(b + jnp.dot(x, w) + jnp.take(a, group) + offset, 0.5)


def test_three_sites_and_an_offset():
    post = analysis_of_covariance(X, GROUP).condition(y=Y)
    assert_eliminates(post, "a", "b", "w")
    covariance = 0.25 * np.eye(9) + 9 + X @ X.T + 4 * IN_GROUP @ IN_GROUP.T
    assert float(post.log_evidence()) == close(log_normal(Y - 0.1 * X[:, 0] ** 2, covariance))


@fb.model
def mixed_effects(x, group):
    v = yield dist.InverseGamma(3.0, 2.0)
    b = yield dist.Normal(0.0, 5.0 * jnp.sqrt(v)).expand([x.shape[1]])
    a = yield dist.Normal(0.0, 0.5 * jnp.sqrt(v)).expand([3])
    y = yield dist.Normal(a[group] + x @ b, jnp.sqrt(v))


def test_mixed_effects_with_unknown_noise():
    post = mixed_effects(X, GROUP).condition(y=Y)
    assert_eliminates(post, "a", "b", "v")
    design, prior = np.hstack([X, IN_GROUP]), np.diag([25.0] * 3 + [0.25] * 3)
    assert float(post.log_evidence()) == close(log_student(Y, 2 / 3 * (np.eye(9) + design @ prior @ design.T), 6))
    loc, covariance, _ = weights_of(Y, design, prior)
    draws = drawn(post)
    assert_draws(np.concatenate([draws["b"], draws["a"]], axis=1), loc, covariance)


@fb.model
def mixed_effects_with_two_scales(x, group):
    tau = yield dist.HalfNormal(1.0)
    v = yield dist.InverseGamma(3.0, 2.0)
    b = yield dist.Normal(0.0, 5.0).expand([x.shape[1]])
    a = yield dist.Normal(0.0, tau).expand([3])
    y = yield dist.Normal(a[group] + x @ b, jnp.sqrt(v))


def test_mixed_effects_with_two_scales():
    post = mixed_effects_with_two_scales(X, GROUP).condition(y=Y)
    assert_eliminates(post, "a", "b", kept=["tau", "v"])

    def expected(tau, v):
        prior = stats.halfnorm.logpdf(tau) + stats.invgamma(3, scale=2).logpdf(v)
        return prior + log_normal(Y, v * np.eye(9) + tau**2 * IN_GROUP @ IN_GROUP.T + 25 * X @ X.T)

    points = [dict(tau=0.01, v=0.2), dict(tau=1.3, v=0.7)]
    assert_density(post, ["a", "b"], *((point, expected(**point)) for point in points))
    draws = recovered(post, ["a", "b"], tau=1.3, v=0.7)
    design, prior = np.hstack([X, IN_GROUP]), np.diag([25.0] * 3 + [1.69] * 3)
    mean, covariance = conditioned(Y, np.zeros(6), prior, design, 0.7 * np.eye(9))
    assert_draws(np.concatenate([draws["b"], draws["a"]], axis=1), mean, covariance)

    def many(tau, v):
        prior = stats.halfnorm.logpdf(tau) + stats.invgamma(3, scale=2).logpdf(v)
        return prior + log_normals(Y, stacked((v, np.eye(9)), (tau**2, IN_GROUP @ IN_GROUP.T), (1.0, 25 * X @ X.T)))

    domains = dict(tau=("positive", -18, 3, 50), v=("positive", -5, 9, 50))
    assert_integral(post, ["a", "b"], log_integral(many, **domains), **domains)


# -- scales of the prior --------------------------------------------------------------------------------------------


@fb.model
def ridge(x):
    tau = yield dist.HalfCauchy(1.0)
    w = yield dist.Normal(0.0, tau).expand([x.shape[1]])
    y = yield dist.Normal(x @ w, 0.5)


def test_ridge():
    """The scale of the prior remains, and the evidence is an integral over it."""
    post = ridge(X).condition(y=Y)
    assert_eliminates(post, "w", kept=["tau"])

    def expected(tau):
        return log_normal(Y, 0.25 * np.eye(9) + tau**2 * X @ X.T) + stats.halfcauchy.logpdf(tau)

    assert_density(post, ["w"], *((dict(tau=tau), expected(tau)) for tau in (1e-3, 2.0)))
    domain = ("positive", -22, 6, 600)
    assert_integral(post, ["w"], log_integral(np.vectorize(expected), tau=domain), tau=domain)
    mean, covariance = conditioned(Y, np.zeros(3), 4 * np.eye(3), X, 0.25 * np.eye(9))
    assert_draws(recovered(post, ["w"], tau=2.0)["w"], mean, covariance)


@fb.model
def ridge_with_unknown_noise(x):
    tau = yield dist.HalfCauchy(1.0)
    v = yield dist.InverseGamma(3.0, 2.0)
    w = yield dist.Normal(0.0, tau * jnp.sqrt(v)).expand([x.shape[1]])
    y = yield dist.Normal(x @ w, jnp.sqrt(v))


def test_ridge_with_unknown_noise():
    post = ridge_with_unknown_noise(X).condition(y=Y)
    assert_eliminates(post, "w", "v", kept=["tau"])

    def expected(tau):
        return log_student(Y, 2 / 3 * (np.eye(9) + tau**2 * X @ X.T), 6) + stats.halfcauchy.logpdf(tau)

    assert_density(post, ["w", "v"], *((dict(tau=tau), expected(tau)) for tau in (1e-2, 2.0)))
    loc, covariance, noise = weights_of(Y, X, 4 * np.eye(3))
    draws = recovered(post, ["w", "v"], tau=2.0)
    assert_draws(draws["w"], loc, covariance)
    assert_draws(draws["v"], noise, noise**2 / (3 + 4.5 - 2))

    def joint(tau, v):
        prior = stats.halfcauchy.logpdf(tau) + stats.invgamma(3, scale=2).logpdf(v)
        return prior + log_normals(Y, stacked((v, np.eye(9)), (v * tau**2, X @ X.T)))

    domain = ("positive", -20, 7, 120)
    whole = log_integral(joint, tau=domain, v=("positive", -5, 9, 70))
    assert_integral(post, ["w", "v"], whole, tau=domain)


@fb.model
def relevance(x):
    t = yield dist.Gamma(2.0, 1.0).expand([x.shape[1]])
    w = yield dist.Normal(0.0, 1 / jnp.sqrt(t))
    y = yield dist.Normal(x @ w, 0.5)


def test_a_precision_for_each_weight():
    """As many precisions as weights, so either may go: here it is the weights."""
    post = relevance(X).condition(y=Y)
    assert_eliminates(post, "w", kept=["t"])

    def expected(t):
        return log_normal(Y, 0.25 * np.eye(9) + X / t @ X.T) + stats.gamma(2).logpdf(t).sum()

    points = [np.array([0.5, 1.0, 3.0]), np.array([10.0, 0.1, 0.4])]
    assert_density(post, ["w"], *((dict(t=t), expected(t)) for t in points))
    w = np.array([0.3, -1.0, 1.8])
    local = sum(stats.t(4, scale=np.sqrt(0.5)).logpdf(w))
    assert_density(post, ["t"], (dict(w=w), local + stats.norm(X @ w, 0.5).logpdf(Y).sum()))


# -- other noise and other priors -----------------------------------------------------------------------------------

SIZES = np.array([1.0, 4, 2, 9, 1, 3, 2, 5, 1])


@fb.model
def weighted(x, sizes):
    v = yield dist.InverseGamma(3.0, 2.0)
    w = yield dist.Normal(0.0, jnp.sqrt(v)).expand([x.shape[1]])
    y = yield dist.Normal(x @ w, jnp.sqrt(v / sizes))


def test_known_weights_of_observations():
    post = weighted(X, SIZES).condition(y=Y)
    assert_eliminates(post, "w", "v")
    assert float(post.log_evidence()) == close(log_student(Y, 2 / 3 * (np.diag(1 / SIZES) + X @ X.T), 6))
    root = np.sqrt(SIZES)
    loc, covariance, _ = weights_of(root * Y, root[:, None] * X, np.eye(3))
    assert_moments(post, "w", loc, np.diag(covariance))


HALF = np.array([[1.0, 0, 0], [0.5, 0.8, 0], [0.3, -0.2, 0.6]])


@fb.model
def correlated_weights(x, covariance):
    w = yield dist.MultivariateNormal(jnp.zeros(3), covariance)
    y = yield dist.Normal(x @ w, 0.5)


def test_a_prior_with_a_covariance_matrix():
    prior = HALF @ HALF.T
    post = correlated_weights(X, prior).condition(y=Y)
    assert_eliminates(post, "w")
    assert float(post.log_evidence()) == close(log_normal(Y, 0.25 * np.eye(9) + X @ prior @ X.T))
    mean, covariance = conditioned(Y, np.zeros(3), prior, X, 0.25 * np.eye(9))
    assert_moments(post, "w", mean, covariance)


@fb.model
def g_prior(x):
    v = yield dist.InverseGamma(3.0, 2.0)
    w = yield dist.MultivariateNormal(jnp.zeros(3), precision_matrix=x.T @ x / (9.0 * v))
    y = yield dist.Normal(x @ w, jnp.sqrt(v))


def test_a_prior_with_the_precision_of_the_design():
    """Zellner's g-prior."""
    post = g_prior(X).condition(y=Y)
    assert_eliminates(post, "w", "v")
    prior = 9 * np.linalg.inv(X.T @ X)
    assert float(post.log_evidence()) == close(log_student(Y, 2 / 3 * (np.eye(9) + X @ prior @ X.T), 6))


LINE = np.linspace(0, 2, 9)
KERNEL = 1.5 * np.exp(-0.5 * (LINE[:, None] - LINE) ** 2 / 0.3**2)


@fb.model
def smooth_function(line):
    kernel = 1.5 * jnp.exp(-0.5 * (line[:, None] - line) ** 2 / 0.3**2)
    f = yield dist.MultivariateNormal(jnp.zeros(len(line)), kernel)
    y = yield dist.Normal(f, 0.4)


def test_a_smooth_function():
    """Gaussian-process regression."""
    post = smooth_function(LINE).condition(y=Y)
    assert_eliminates(post, "f")
    assert float(post.log_evidence()) == close(log_normal(Y, 0.16 * np.eye(9) + KERNEL))
    mean, covariance = conditioned(Y, np.zeros(9), KERNEL, np.eye(9), 0.16 * np.eye(9))
    assert_moments(post, "f", mean, covariance)


@fb.model
def correlated_noise(x, covariance):
    w = yield dist.Normal(0.0, 2.0).expand([x.shape[1]])
    y = yield dist.MultivariateNormal(x @ w, covariance)


def test_correlated_noise():
    noise = 0.3 * np.eye(9) + 0.2 * np.exp(-np.abs(LINE[:, None] - LINE))
    post = correlated_noise(X, noise).condition(y=Y)
    assert_eliminates(post, "w")
    assert float(post.log_evidence()) == close(log_normal(Y, noise + 4 * X @ X.T))
    mean, covariance = conditioned(Y, np.zeros(3), 4 * np.eye(3), X, noise)
    assert_moments(post, "w", mean, covariance)


TWO = np.stack([Y, 0.5 * Y[::-1] + 1], axis=1)


@fb.model
def two_outputs(x):
    v = yield dist.InverseGamma(3.0, 2.0)
    w = yield dist.Normal(0.0, jnp.sqrt(v)).expand([x.shape[1], 2])
    y = yield dist.Normal(x @ w, jnp.sqrt(v))


def test_two_outputs():
    post = two_outputs(X).condition(y=TWO)
    assert_eliminates(post, "w", "v")
    shape = np.kron(np.eye(9) + X @ X.T, np.eye(2))
    assert float(post.log_evidence()) == close(log_student(TWO, 2 / 3 * shape, 6))


# -- missing observations -------------------------------------------------------------------------------------------

THERE = np.array([1, 1, 0, 1, 0, 1, 1, 1, 1], bool)


def test_missing_observations():
    """The observations that are there decide, and those that are not are drawn."""
    post = regression(X).condition(y=np.ma.array(np.where(THERE, Y, np.nan), mask=~THERE))
    seen, design = Y[THERE], X[THERE]
    assert float(post.log_evidence()) == close(log_student(seen, 2 / 3 * (np.eye(7) + design @ design.T), 6))
    assert_eliminates(post, "w", "v")
    loc, covariance, noise = weights_of(seen, design, np.eye(3))
    assert_moments(post, "w", loc, np.diag(covariance))
    ahead = post.predict(KEY, "y", draws=20_000)
    assert_draws(ahead[:, ~THERE], X[~THERE] @ loc, X[~THERE] @ covariance @ X[~THERE].T + noise * np.eye(2))


def test_missing_entries_of_two_outputs():
    there = np.ones((9, 2), bool)
    there[[1, 4, 4], [0, 0, 1]] = False
    post = two_outputs(X).condition(y=np.ma.array(TWO, mask=~there))
    assert_eliminates(post, "w", "v")
    shape = np.kron(np.eye(9) + X @ X.T, np.eye(2))[np.ix_(there.ravel(), there.ravel())]
    assert float(post.log_evidence()) == close(log_student(TWO[there], 2 / 3 * shape, 6))


# -- contrasts ------------------------------------------------------------------------------------------------------

TREATED = np.array([0, 1, 0, 1, 1, 0, 0, 1, 0], bool)


@fb.model
def treatment(treated):
    v = yield dist.InverseGamma(3.0, 2.0)
    control = yield dist.Normal(0.0, 2.0 * jnp.sqrt(v))
    effect = yield dist.Normal(0.0, jnp.sqrt(v))
    y = yield dist.Normal(jnp.where(treated, control + effect, control), jnp.sqrt(v))


def test_a_treatment():
    post = treatment(TREATED).condition(y=Y)
    assert_eliminates(post, "control", "effect", "v")
    design, prior = np.hstack([ONE, TREATED[:, None]]), np.diag([4.0, 1.0])
    assert float(post.log_evidence()) == close(log_student(Y, 2 / 3 * (np.eye(9) + design @ prior @ design.T), 6))
    loc, covariance, _ = weights_of(Y, design, prior)
    draws = drawn(post)
    assert_draws(np.stack([draws["control"], draws["effect"]], axis=1), loc, covariance)


@fb.model
def two_factors(treated, group):
    cell = yield dist.Normal(0.0, 2.0).expand([3])
    effect = yield dist.Normal(0.0, 1.0).expand([3])
    y = yield dist.Normal(cell[group] + jnp.where(treated, effect[group], 0.0), jnp.where(treated, 0.5, 0.3))


def test_two_factors_and_their_interaction():
    """Analysis of variance: an effect for each group, and noise that depends on the treatment."""
    post = two_factors(TREATED, GROUP).condition(y=Y)
    assert_eliminates(post, "cell", "effect")
    design = np.hstack([IN_GROUP, TREATED[:, None] * IN_GROUP])
    prior, noise = np.diag([4.0] * 3 + [1.0] * 3), np.diag(np.where(TREATED, 0.25, 0.09))
    assert float(post.log_evidence()) == close(log_normal(Y, noise + design @ prior @ design.T))
    mean, covariance = conditioned(Y, np.zeros(6), prior, design, noise)
    draws = drawn(post)
    assert_draws(np.concatenate([draws["cell"], draws["effect"]], axis=1), mean, covariance)
