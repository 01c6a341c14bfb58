"""Predictions at new inputs: new groups, later steps of chains, latents that are new; against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as nd
import pytest
from numpyro.contrib.control_flow import scan
from scipy import special, stats

import fubini as fb
from fubini import dist
from fubini.questions.draws import arviz_data

KEY = jax.random.key(0)
N = 4000
CLOSE = 5 / np.sqrt(N)  # standard errors of a mean, in standard deviations


def assert_moments(draws: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> None:
    """Means within five standard errors, variances within those of a normal."""
    mean, variance = np.asarray(mean), np.asarray(variance)
    assert np.all(np.abs(draws.mean(0) - mean) < CLOSE * np.sqrt(variance))
    assert np.all(np.abs(draws.var(0) / variance - 1) < np.sqrt(2) * CLOSE)


# -- a regression: normal-inverse-gamma -----------------------------------------------------------------------------

X = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0], [1.0, 3.0]])
Y = np.array([0.9, 2.1, 2.9, 4.2])
X_NEW = np.array([[1.0, 5.0], [1.0, -1.0], [0.0, 1.0]])


@fb.model
def coroutine(X):
    v = yield dist.InverseGamma(3.0, 2.0)
    w = yield dist.Normal(0.0, jnp.sqrt(v)).expand([2])
    y = yield dist.Normal(X @ w, jnp.sqrt(v))


def named(X):
    return fb.JointNamed(
        dict(
            v=dist.InverseGamma(3.0, 2.0),
            w=lambda v: dist.Normal(0.0, jnp.sqrt(v)).expand([2]),
            y=lambda w, v: dist.Normal(X @ w, jnp.sqrt(v)),
        )
    )


def sequential(X):
    return fb.JointSequential(
        [
            dist.InverseGamma(3.0, 2.0).named("v"),
            lambda v: dist.Normal(0.0, jnp.sqrt(v)).expand([2]).named("w"),
            lambda w, v: dist.Normal(X @ w, jnp.sqrt(v)),
        ]
    )


def numpyro_function(X):
    def model(X):
        v = numpyro.sample("v", nd.InverseGamma(3.0, 2.0))
        w = numpyro.sample("w", nd.Normal(0.0, jnp.sqrt(v)).expand([2]))
        numpyro.sample("y", nd.Normal(X @ w, jnp.sqrt(v)))

    return fb.from_numpyro(model, X)


FLAVOURS = {"coroutine": coroutine, "named": named, "numpyro": numpyro_function}


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_regression_at_new_inputs(flavour: str) -> None:
    """Student's t with 2a degrees of freedom: mean X* m, scale² b/a (1 + x* P⁻¹ x*)"""
    make = FLAVOURS[flavour]
    draws = make(X).condition(y=Y).predict(KEY, "y", model=make(X_NEW), draws=N)
    precision = X.T @ X + np.eye(2)
    mean = np.linalg.solve(precision, X.T @ Y)
    rate = 2.0 + 0.5 * (Y @ Y - mean @ precision @ mean)
    spread = 1.0 + np.einsum("ij,jk,ik->i", X_NEW, np.linalg.inv(precision), X_NEW)
    assert draws.shape == (N, 3)
    assert np.all(np.abs(draws.mean(0) - X_NEW @ mean) < CLOSE * np.sqrt(rate / 4.0 * spread))
    assert np.allclose(draws.var(0), rate / 4.0 * spread, rtol=0.15)


def test_sequential_sites_are_predicted_by_name() -> None:
    ours = sequential(X).condition(x=Y).predict(KEY, "x", model=sequential(X_NEW), draws=50)
    assert np.allclose(ours, coroutine(X).condition(y=Y).predict(KEY, "y", model=coroutine(X_NEW), draws=50))


# -- new groups -----------------------------------------------------------------------------------------------------


@fb.model
def groups(group, count):
    mu = yield dist.Normal(0.0, 3.0)
    alpha = yield dist.Normal(mu, 2.0).expand([count])
    y = yield dist.Normal(alpha[group], 1.0)


GROUP, Z = np.array([0, 0, 1, 1, 1]), np.array([1.0, 2.0, 3.0, 4.0, 3.5])
OLD = groups(GROUP, 2).condition(y=Z)


def normal_posterior(group: np.ndarray, z: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the levels of all groups given the data, by hand."""
    prior = 9.0 * np.ones((count, count)) + 4.0 * np.eye(count)
    design = np.eye(count)[group]
    gain = prior @ design.T @ np.linalg.inv(design @ prior @ design.T + np.eye(len(z)))
    return gain @ z, prior - gain @ design @ prior


def test_new_group_is_drawn_given_the_level_of_all() -> None:
    drawn = OLD.predict(KEY, "y", "alpha", model=groups(np.array([1, 2]), 3), draws=N)
    mean, covariance = normal_posterior(GROUP, Z, 3)
    assert_moments(drawn["alpha"], mean, np.diag(covariance))
    assert_moments(drawn["y"], mean[1:], np.diag(covariance)[1:] + 1.0)
    correlation = np.corrcoef(drawn["alpha"].T)[0, 2]
    assert abs(correlation - covariance[0, 2] / np.sqrt(covariance[0, 0] * covariance[2, 2])) < 0.06


def test_first_entries_are_those_of_the_draws() -> None:
    rng = np.random.default_rng(0)
    draws = {"mu": rng.normal(size=(2, 3)), "alpha": rng.normal(size=(2, 3, 2))}
    alpha = OLD.predict(KEY, "alpha", model=groups(np.array([2]), 4), draws=draws)
    assert alpha.shape == (6, 4)
    assert np.array_equal(alpha[:, :2], draws["alpha"].reshape(6, 2))
    assert len(np.unique(alpha[:, 2:])) == 12


def test_axis_in_the_middle_may_be_the_longer_one() -> None:
    @fb.model
    def table(k):
        m = yield dist.Normal(0.0, 1.0).expand([2, k]).to_event(1)
        y = yield dist.Normal(m.sum(0), 0.1)

    draws = {"m": np.random.default_rng(0).normal(size=(1, 5, 2, 3))}
    m = table(3).condition(y=np.zeros(3)).predict(KEY, "m", model=table(4), draws=draws)
    assert np.array_equal(m[:, :, :3], draws["m"][0]) and m.shape == (5, 2, 4)


# -- latents that are new -------------------------------------------------------------------------------------------


@fb.model
def noisy(x, extra):
    w = yield dist.Normal(0.0, 1.0)
    offset = (yield dist.Normal(3.0 * w, 2.0).named("u")) if extra else 0.0
    y = yield dist.Normal(w * x + offset, 0.5)


def test_latent_of_the_new_model_is_drawn_given_the_rest() -> None:
    x = np.array([1.0, 2.0])
    drawn = noisy(x, False).condition(y=x).predict(KEY, "y", model=noisy(x[:1], True), draws=N)
    variance = 1 / (1.0 + 4 * x @ x)
    assert_moments(drawn, [4.0 * variance * 4 * x @ x], [16.0 * variance + 4.0 + 0.25])


@fb.model
def labels(x):
    p = yield dist.Beta(2.0, 2.0)
    z = yield dist.Bernoulli(p).expand([len(x)])
    y = yield dist.Normal(x + 10.0 * z, 0.1)


def test_latents_of_rows_are_drawn_anew_where_that_is_asked() -> None:
    post = labels(np.zeros(3)).condition(y=np.array([0.0, 0.0, 10.0]))
    p = np.random.default_rng(0).beta(3.0, 4.0, (1, N))
    draws = {"p": p, "z": np.broadcast_to([0, 0, 1], (1, N, 3))}
    drawn = post.predict(KEY, "y", model=labels(np.zeros(5)), draws=draws, new="z")
    assert abs((drawn > 5).mean() - 3 / 7) < 0.03
    kept = post.predict(KEY, "y", model=labels(np.zeros(3)), draws=draws)
    assert np.all((kept > 5) == [False, False, True])


def test_latent_may_depend_on_data_that_are_drawn_anew() -> None:
    @fb.model
    def chain():
        x = yield dist.Normal(0.0, 1.0)
        z = yield dist.Normal(x, 1.0)
        y = yield dist.Normal(z, 0.01)

    draws = {"z": np.arange(6.0).reshape(1, 6)}
    y = chain().condition(x=0.5, y=1.0).predict(KEY, "y", draws=draws)
    assert np.allclose(y, draws["z"][0], atol=0.1)


# -- forecasts ------------------------------------------------------------------------------------------------------

T, LATER = 5, 3
SERIES = np.array([0.1, 0.5, 0.9, 1.2, 1.0])


@fb.model
def local_level(steps):
    z = yield dist.Markov(dist.Normal(0.0, 1.0), lambda x: dist.Normal(0.9 * x, 0.5), steps)
    y = yield dist.Normal(z, 0.3)


def local_level_in_numpyro(steps):
    def model(steps):
        def step(x, _):
            x = numpyro.sample("z", nd.Normal(0.9 * x, 0.5))
            numpyro.sample("y", nd.Normal(x, 0.3))
            return x, None

        first = numpyro.sample("first", nd.Normal(0.0, 1.0))
        scan(step, first, jnp.arange(steps))

    return fb.from_numpyro(model, steps)


def kalman(first: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of all states given the series: x_t = 0.9 x_(t−1) + 0.5 e, the first of this variance."""
    steps = T + LATER
    powers = np.array([[0.9 ** (i - j) if i >= j else 0.0 for j in range(steps)] for i in range(steps)])
    prior = powers @ np.diag([first] + [0.25] * (steps - 1)) @ powers.T
    gain = prior[:, :T] @ np.linalg.inv(prior[:T, :T] + 0.09 * np.eye(T))
    return gain @ SERIES, prior - gain @ prior[:T]


def test_chain_goes_on() -> None:
    drawn = local_level(T).condition(y=SERIES).predict(KEY, "y", "z", model=local_level(T + LATER), draws=N)
    mean, covariance = kalman(1.0)
    assert_moments(drawn["z"], mean, np.diag(covariance))
    assert_moments(drawn["y"], mean, np.diag(covariance) + 0.09)


def test_numpyro_scan_goes_on() -> None:
    post = local_level_in_numpyro(T).condition(y=SERIES)
    drawn = post.predict(KEY, "y", "z", model=local_level_in_numpyro(T + LATER), draws=N)
    mean, covariance = kalman(0.81 + 0.25)
    assert_moments(drawn["z"], mean, np.diag(covariance))
    assert np.allclose(drawn["y"][:, :T], SERIES)  # a series that was observed goes on from the data
    assert_moments(drawn["y"][:, T:], mean[T:], np.diag(covariance)[T:] + 0.09)


@fb.model
def autoregression(steps):
    phi = yield dist.Normal(0.0, 1.0)
    y = yield dist.Markov(dist.Normal(0.0, 1.0), lambda x: dist.Normal(phi * x, 0.5), steps)


def test_observed_chain_goes_on_from_the_data() -> None:
    drawn = autoregression(T).condition(y=SERIES).predict(KEY, "y", model=autoregression(T + 1), draws=N)
    precision = 1.0 + 4.0 * SERIES[:-1] @ SERIES[:-1]
    mean = 4.0 * SERIES[:-1] @ SERIES[1:] / precision
    assert np.allclose(drawn[:, :T], SERIES)
    assert_moments(drawn[:, T], mean * SERIES[-1], SERIES[-1] ** 2 / precision + 0.25)
    again = autoregression(T).condition(y=SERIES).predict(KEY, "y", draws=20)  # the same length: for checks
    assert len(np.unique(again[:, 0])) == 20


def test_random_walk_goes_on() -> None:
    def walk(steps):
        def model(steps):
            x = numpyro.sample("x", nd.GaussianRandomWalk(0.5, steps))
            numpyro.sample("y", nd.Normal(x, 0.3))

        return fb.from_numpyro(model, steps)

    draws = {"x": np.cumsum(np.random.default_rng(0).normal(size=(1, N, T)), -1)}
    x = walk(T).condition(y=SERIES).predict(KEY, "x", model=walk(T + 2), draws=draws)
    assert np.array_equal(x[:, :T], draws["x"][0])
    assert_moments(x[:, T:] - x[:, T - 1 : T], [0.0, 0.0], [0.25, 0.5])


@pytest.mark.parametrize("matrix", ["covariance_matrix", "precision_matrix", "scale_tril"])
def test_gaussian_process_goes_on_at_new_inputs(matrix: str) -> None:
    """N(K*ₓ K⁻¹ f, K** − K*ₓ K⁻¹ Kₓ*)"""

    def kernel(x):
        return np.exp(-0.5 * (x[:, None] - x) ** 2) + 0.1 * np.eye(len(x))

    forms = {"covariance_matrix": kernel, "precision_matrix": lambda x: np.linalg.inv(kernel(x))}
    forms["scale_tril"] = lambda x: np.linalg.cholesky(kernel(x))

    def process(x):
        return fb.JointNamed(dict(f=dist.MultivariateNormal(np.ones(len(x)), **{matrix: forms[matrix](x)})))

    x, f = np.array([0.0, 1.0, 2.0]), np.array([0.5, 1.5, 1.0])
    whole = kernel(np.append(x, [0.5, 3.0]))
    drawn = process(x).condition(f=f).predict(KEY, "f", model=process(np.append(x, [0.5, 3.0])), draws=N)
    gain = whole[3:, :3] @ np.linalg.inv(whole[:3, :3])
    assert np.allclose(drawn[:, :3], f)
    assert_moments(drawn[:, 3:], 1.0 + gain @ (f - 1.0), np.diag(whole[3:, 3:] - gain @ whole[:3, 3:]))


# -- logistic regression, against quadrature ------------------------------------------------------------------------


def test_logistic_regression_at_new_inputs() -> None:
    @fb.model
    def logistic(x):
        w = yield dist.Normal(0.0, 2.0)
        y = yield dist.Bernoulli(logits=x * w)

    x, y, new = np.array([0.5, -1.0, 2.0, 1.0]), np.array([1, 0, 1, 0]), np.array([1.5, -0.7])
    post = logistic(x).condition(y=y)
    w = np.linspace(-12, 12, 2001)
    log_p = stats.norm(0, 2).logpdf(w) + (y * np.outer(w, x) - np.logaddexp(0, np.outer(w, x))).sum(-1)
    shares = np.exp(log_p - special.logsumexp(log_p))
    draws = arviz_data({"posterior": {"w": np.random.default_rng(0).choice(w, (2, 1000), p=shares)}}, None, None)
    drawn = post.predict(KEY, "y", model=logistic(new), draws=draws)
    p = np.exp(log_p - special.logsumexp(log_p)) @ special.expit(np.outer(w, new))
    assert np.all(np.abs(drawn.mean(0) - p) < 5 * np.sqrt(p * (1 - p) / 2000))
    held_out = post.log_predictive(logistic(new).condition(y=np.array([1, 0])), draws=draws)
    terms = log_p + (np.array([1, 0]) * np.outer(w, new) - np.logaddexp(0, np.outer(w, new))).sum(-1)
    assert held_out.exactness.is_estimated and held_out.exactness.error < 0.05
    assert abs(float(held_out) - special.logsumexp(terms) + special.logsumexp(log_p)) < 4 * held_out.exactness.error


# -- draws by any name ----------------------------------------------------------------------------------------------


def test_single_precision_and_jit() -> None:
    x, y = jnp.array([0, 0, 1]), jnp.array([1.0, 2.0, 3.0])
    draws = {"mu": jnp.zeros((1, 4)), "alpha": jnp.ones((1, 4, 2))}

    def means(key, y):
        return groups(x, 2).condition(y=y).predict(key, "alpha", model=groups(x, 3), draws=50)

    eager = means(KEY, y)
    assert eager.dtype == jnp.float32 and eager.shape == (50, 3)
    assert np.allclose(jax.jit(means)(KEY, y), eager, atol=1e-4)
    alpha = groups(x, 2).condition(y=y).predict(KEY, "alpha", model=groups(x, 3), draws=draws)
    assert isinstance(alpha, jax.Array) and np.all(alpha[:, :2] == 1)
