"""Chains: hidden Markov and Kalman models, whose states are eliminated along time."""

from itertools import product

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as nd
import pytest
from numpyro.contrib.control_flow import scan
from scipy.special import logsumexp
from scipy.stats import beta, dirichlet, gamma, halfnorm, multivariate_t, norm, poisson

import fubini as fb
from fubini import dist
from fubini.errors import FubiniError
from tests.catalogue.oracles import (
    KEY,
    MANY,
    assert_close,
    assert_labels,
    assert_mean,
    conditional,
    evidence,
    forward_backward,
    left,
    normal,
    recovered,
)

INIT = np.array([0.5, 0.3, 0.2])
STEP = np.array([[0.8, 0.15, 0.05], [0.1, 0.6, 0.3], [0.3, 0.3, 0.4]])
MEANS = np.array([-1.5, 0.0, 2.0])
Y = np.array([-1.0, -1.4, 0.2, 2.5, 1.1, 0.4])
COUNTS = np.array([1, 0, 4, 6, 2])


def probabilities(post, name):
    """The marginal of finite sites as an array."""
    return np.exp(np.asarray(post.marginal(name).log().data))


# -- finite states ---------------------------------------------------------------------------------------------------


@fb.model
def hidden_markov(n):
    z = yield dist.Markov(dist.Categorical(jnp.array(INIT)), lambda z: dist.Categorical(jnp.array(STEP)[z]), n)
    y = yield dist.Normal(jnp.array(MEANS)[z], 0.7)


def test_hidden_markov_model():
    post = hidden_markov(6).condition(y=Y)
    total, smooth = forward_backward(INIT, STEP, norm.logpdf(Y[:, None], MEANS, 0.7))
    assert_close(evidence(post, ["z"]), total)
    assert_close(probabilities(post, "z"), smooth)


@fb.model
def hidden_markov_by_a_loop(n):
    z = yield dist.Categorical(jnp.array(INIT)).named("z0")
    yield dist.Normal(jnp.array(MEANS)[z], 0.7).named("y0")
    for t in range(1, n):
        z = yield dist.Categorical(jnp.array(STEP)[z]).named(f"z{t}")
        yield dist.Normal(jnp.array(MEANS)[z], 0.7).named(f"y{t}")


def test_a_loop_of_scalar_sites_is_the_same_chain():
    post = hidden_markov_by_a_loop(4).condition(**{f"y{t}": Y[t] for t in range(4)})
    total, smooth = forward_backward(INIT, STEP, norm.logpdf(Y[:4, None], MEANS, 0.7))
    found = evidence(post, [f"z{t}" for t in range(4)])
    assert_close(found, total)
    assert_close(found, float(hidden_markov(4).condition(y=Y[:4]).log_evidence()))
    assert_close(probabilities(post, "z2"), smooth[2])


@fb.model
def unknown_hidden_markov(n):
    p = yield dist.Dirichlet(jnp.array([2.0, 1.0])).expand([2])
    mu = yield dist.Normal(0.0, 3.0).expand([2])
    s = yield dist.HalfNormal(1.0)
    z = yield dist.Markov(dist.Categorical(jnp.array([0.5, 0.5])), lambda z: dist.Categorical(p[z]), n)
    y = yield dist.Normal(mu[z], s)


PROBABILITIES = [np.array([[0.9, 0.1], [0.3, 0.7]]), np.array([[0.4, 0.6], [0.5, 0.5]])]


def test_hidden_markov_model_with_unknown_parameters():
    small = left(unknown_hidden_markov(6).condition(y=Y), ["z"], ["p", "mu", "s"])
    for p, mu, s in zip(PROBABILITIES, (np.array([-1.0, 2.0]), np.array([0.0, 0.5])), (0.5, 1.3), strict=True):
        total, smooth = forward_backward(np.full(2, 0.5), p, norm.logpdf(Y[:, None], mu, s))
        prior = sum(dirichlet.logpdf(row, [2, 1]) for row in p) + norm.logpdf(mu, 0, 3).sum() + halfnorm.logpdf(s)
        assert_close(small.log_prob(p=p, mu=mu, s=s), total + prior)
    assert_labels(recovered(small, {"p": p, "mu": mu, "s": s})["z"], smooth)


def test_known_states_of_a_chain_leave_conjugate_rows():
    """Of observed states the transition probabilities are integrated out."""

    @fb.model
    def chain(n):
        p = yield dist.Dirichlet(jnp.array([2.0, 1.0])).expand([2])
        z = yield dist.Markov(dist.Categorical(jnp.array([0.5, 0.5])), lambda z: dist.Categorical(p[z]), n)

    states = np.array([0, 0, 1, 1, 1, 0])
    post = chain(6).condition(z=states)
    counts = np.zeros((2, 2))
    np.add.at(counts, (states[:-1], states[1:]), 1)
    new = counts + np.array([2.0, 1.0])
    # 0 → 0, 1 and 1 → 1, 1, 0, one after the other in Pólya's urns
    expected = np.log(0.5) + np.log(2 / 3) + np.log(1 / 4) + np.log(1 / 3) + np.log(2 / 4) + np.log(2 / 5)
    assert_close(evidence(post, ["p"]), expected)
    assert_close(post.marginal("p").mean("p").data, new / new.sum(1, keepdims=True))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_short_chains(n):
    post = hidden_markov(n).condition(y=Y[:n])
    total, _ = forward_backward(INIT, STEP, norm.logpdf(Y[:n, None], MEANS, 0.7))
    assert_close(evidence(post, ["z"]), total)


@fb.model
def unknown_start(n):
    pi = yield dist.Dirichlet(jnp.array([2.0, 1.0, 1.0]))
    low = yield dist.Normal(0.0, 2.0)
    gap = yield dist.HalfNormal(1.0)
    z = yield dist.Markov(dist.Categorical(pi), lambda z: dist.Categorical(jnp.array(STEP)[z]), n)
    y = yield dist.Normal(low + z * gap, 0.7)


def test_an_unknown_start_goes_too():
    """One state has the unknown probabilities: they are integrated out given it, and then the states."""
    small = left(unknown_start(5).condition(y=Y[:5]), ["pi", "z"], ["low", "gap"])
    for low, gap in ((-1.0, 1.2), (0.5, 0.4)):
        likelihood = norm.logpdf(Y[:5, None], low + gap * np.arange(3), 0.7)
        total, smooth = forward_backward([0.5, 0.25, 0.25], STEP, likelihood)
        assert_close(small.log_prob(low=low, gap=gap), total + norm.logpdf(low, 0, 2) + halfnorm.logpdf(gap))
    draws = recovered(small, {"low": low, "gap": gap})
    assert_labels(draws["z"], smooth)
    mean = (np.array([2.0, 1.0, 1.0]) + smooth[0]) / 5  # of a mixture of Dirichlets of which one count is one more
    second = np.array([2.0, 1.0, 1.0]) / 5
    second = (1 - smooth[0]) * second * (5 * second + 1) / 6 + smooth[0] * (5 * second + 1) / 5 * (5 * second + 2) / 6
    assert_mean(draws["pi"], mean, second - mean**2)


@fb.model
def factorial(n):
    z = yield dist.Markov(dist.Categorical(jnp.array(INIT)), lambda z: dist.Categorical(jnp.array(STEP)[z]), n)
    w = yield dist.Markov(dist.Bernoulli(0.5), lambda w: dist.Bernoulli(jnp.where(w == 1, 0.9, 0.2)), n)
    y = yield dist.Normal(jnp.array(MEANS)[z] + 0.6 * w, 0.7)


def test_two_chains_side_by_side():
    """One of them is summed along its path given the other, whose paths are enumerated where they are few."""
    left(factorial(11).condition(y=np.resize(Y, 11)), ["w"], ["z"])  # 2,048 paths of w, more of z
    post = factorial(5).condition(y=Y[:5])
    small = post.eliminate("w")

    def log_p(z):
        likelihood = norm.logpdf(Y[:5, None], MEANS[z][:, None] + np.array([0.0, 0.6]), 0.7)
        total, smooth = forward_backward([0.5, 0.5], np.array([[0.8, 0.2], [0.1, 0.9]]), likelihood)
        return total + np.log(INIT[z[0]]) + np.log(STEP[z[:-1], z[1:]]).sum(), smooth

    for z in (np.array([0, 0, 1, 2, 2]), np.array([1, 2, 0, 0, 1])):
        assert_close(small.log_prob(z=z), log_p(z)[0])
    assert_mean(recovered(small, {"z": z})["w"], log_p(z)[1][:, 1])
    left(post, ["w", "z"])
    assert_close(post.log_evidence(), logsumexp([log_p(np.array(z))[0] for z in product(range(3), repeat=5)]))


@fb.model
def poisson_hidden_markov(n):
    stay = yield dist.Beta(4.0, 1.0)
    rate = yield dist.Gamma(2.0, 0.5).expand([2])
    z = yield dist.Markov(dist.Bernoulli(0.5), lambda z: dist.Bernoulli(jnp.where(z == 1, stay, 1 - stay)), n)
    y = yield dist.Poisson(rate[z])


def test_poisson_hidden_markov_model():
    small = left(poisson_hidden_markov(5).condition(y=COUNTS), ["z"], ["stay", "rate"])
    for stay, rate in ((0.9, np.array([1.0, 5.0])), (0.4, np.array([2.0, 0.5]))):
        step = np.array([[stay, 1 - stay], [1 - stay, stay]])
        total, smooth = forward_backward(np.full(2, 0.5), step, poisson.logpmf(COUNTS[:, None], rate))
        prior = beta.logpdf(stay, 4, 1) + gamma.logpdf(rate, 2, scale=2).sum()
        assert_close(small.log_prob(stay=stay, rate=rate), total + prior)
    assert_mean(recovered(small, {"stay": stay, "rate": rate})["z"], smooth[:, 1])


SEVERAL = np.stack([Y[:4], Y[2:], -Y[1:5]])


@fb.model
def several_sequences(n, length):
    z = yield dist.Markov(
        dist.Categorical(jnp.array(INIT)).expand([n]), lambda z: dist.Categorical(jnp.array(STEP)[z]), length
    )
    y = yield dist.Normal(jnp.array(MEANS)[z], 0.7)


def test_several_sequences_side_by_side():
    """A state is a vector: time is the first axis, sequences the second."""
    post = several_sequences(3, 4).condition(y=SEVERAL.T)
    each = [forward_backward(INIT, STEP, norm.logpdf(row[:, None], MEANS, 0.7)) for row in SEVERAL]
    assert_close(evidence(post, ["z"]), sum(total for total, _ in each))


def test_marginals_of_several_sequences():
    """At each place of the array of states, the probabilities of each state."""
    found = several_sequences(3, 4).condition(y=SEVERAL.T).marginal("z").mean("z")
    each = [forward_backward(INIT, STEP, norm.logpdf(row[:, None], MEANS, 0.7))[1] for row in SEVERAL]
    assert_close(found.data, np.stack(each, axis=1) @ np.arange(3))


@fb.model
def several_chains(n, length):
    mu = yield dist.Normal(0.0, 3.0).expand([3])
    z = yield dist.Markov(
        dist.Categorical(jnp.array(INIT)), lambda z: dist.Categorical(jnp.array(STEP)[z]), length
    ).expand([n])
    y = yield dist.Normal(mu[z], 0.7)


def test_several_sequences_by_expansion():
    """Independent chains: sequences are the first axis, time the second."""
    small = left(several_chains(3, 4).condition(y=SEVERAL), ["z"], ["mu"])
    for mu in (MEANS, np.array([0.1, 0.5, -0.3])):
        each = [forward_backward(INIT, STEP, norm.logpdf(row[:, None], mu, 0.7)) for row in SEVERAL]
        assert_close(small.log_prob(mu=mu), sum(total for total, _ in each) + norm.logpdf(mu, 0, 3).sum())
    assert_labels(recovered(small, {"mu": mu})["z"], np.stack([smooth for _, smooth in each]))


DRIVE = np.array([0.0, 0.4, -1.0, 0.8, 2.0, -0.3])


@fb.model
def driven(drive):
    b = yield dist.Normal(0.0, 1.0)

    def step(z, t):
        return dist.Bernoulli(logits=b * drive[t] + jnp.where(z == 1, 1.0, -1.0))

    z = yield dist.Markov(dist.Bernoulli(0.3), step, len(drive))
    y = yield dist.Normal(2.0 * z, 1.0)


def test_transitions_that_vary_in_time():
    small = left(driven(DRIVE).condition(y=Y), ["z"], ["b"])
    for b in (0.7, -1.2):
        up = 1 / (1 + np.exp(-(b * DRIVE[1:, None] + np.array([-1.0, 1.0]))))
        steps = np.stack([1 - up, up], axis=-1)
        total, smooth = forward_backward([0.7, 0.3], steps, norm.logpdf(Y[:, None], [0.0, 2.0]))
        assert_close(small.log_prob(b=b), total + norm.logpdf(b))
    assert_mean(recovered(small, {"b": b})["z"], smooth[:, 1])


@fb.model
def autoregressive_emissions(y0, n):
    z = yield dist.Markov(dist.Bernoulli(0.5), lambda z: dist.Bernoulli(jnp.array([0.2, 0.9])[z]), n)
    y = yield dist.Normal(jnp.array([0.9, -0.5])[z] * y0, jnp.array([0.5, 1.5])[z])


def test_switching_regimes_of_an_observed_series():
    """The mean of each observation is the one before, times what the regime says."""
    post = autoregressive_emissions(Y[:-1], 5).condition(y=Y[1:])
    likelihood = norm.logpdf(Y[1:, None], Y[:-1, None] * [0.9, -0.5], [0.5, 1.5])
    total, smooth = forward_backward([0.5, 0.5], np.array([[0.8, 0.2], [0.1, 0.9]]), likelihood)
    assert_close(evidence(post, ["z"]), total)
    assert_close(probabilities(post, "z"), smooth)


def numpyro_hidden_markov(y):
    mu = numpyro.sample("mu", nd.Normal(0.0, 3.0).expand([3]).to_event(1))

    def step(before, here):
        z = numpyro.sample("z", nd.Categorical(jnp.array(STEP)[before]))
        numpyro.sample("y", nd.Normal(mu[z], 0.7), obs=here)
        return z, None

    scan(step, 0, y)


def test_hidden_markov_model_by_a_scan_of_numpyro():
    small = left(fb.from_numpyro(numpyro_hidden_markov, Y), ["z"], ["mu"])
    for mu in (MEANS, np.array([0.1, 0.5, -0.3])):
        total, smooth = forward_backward(STEP[0], STEP, norm.logpdf(Y[:, None], mu, 0.7))
        assert_close(small.log_prob(mu=mu), total + norm.logpdf(mu, 0, 3).sum())
    assert_labels(recovered(small, {"mu": mu})["z"], smooth)


# -- real states -----------------------------------------------------------------------------------------------------


def walk(n, first, step, factor=1.0):
    """Covariance of x₀ ~ N(0, first²), x_t ~ N(factor · x_(t−1), step²)."""
    to = np.eye(n)
    for t in range(1, n):
        to[t] += factor * to[t - 1]
    return to @ np.diag([first**2] + [step**2] * (n - 1)) @ to.T


@fb.model
def local_level(n):
    q = yield dist.HalfNormal(1.0)
    s = yield dist.HalfNormal(1.0)
    x = yield dist.Markov(dist.Normal(0.0, 10.0), lambda x: dist.Normal(x, q), n)
    y = yield dist.Normal(x, s)


def test_local_level():
    small = left(local_level(6).condition(y=Y), ["x"], ["q", "s"])
    for q, s in ((0.5, 1.0), (1.5, 0.2)):
        prior = walk(6, 10.0, q)
        expected = normal(prior + s**2 * np.eye(6), Y) + halfnorm.logpdf(q) + halfnorm.logpdf(s)
        assert_close(small.log_prob(q=q, s=s), expected)
    mean, covariance = conditional(prior, np.eye(6), s**2 * np.eye(6), Y)
    assert_mean(recovered(small, {"q": q, "s": s})["x"], mean, np.diag(covariance))


@fb.model
def autoregression_plus_noise(n):
    x = yield dist.Markov(dist.Normal(0.0, 1.5), lambda x: dist.Normal(0.8 * x, 0.5), n)
    y = yield dist.Normal(x, 1.0)


def test_autoregression_plus_noise():
    post = autoregression_plus_noise(6).condition(y=Y)
    prior = walk(6, 1.5, 0.5, 0.8)
    assert_close(evidence(post, ["x"]), normal(prior + np.eye(6), Y))
    mean, covariance = conditional(prior, np.eye(6), np.eye(6), Y)
    found = post.marginal("x")
    assert_close(found.mean("x").data, mean)
    assert_close(found.variance("x").data, np.diag(covariance))


def test_predict_of_a_latent():
    """Its posterior draws, or an error: not draws of the prior."""
    post = autoregression_plus_noise(6).condition(y=Y)
    prior = walk(6, 1.5, 0.5, 0.8)
    mean, covariance = conditional(prior, np.eye(6), np.eye(6), Y)
    try:
        draws = post.predict(KEY, "x", draws=MANY)
    except FubiniError:
        return
    assert draws.shape == (MANY, 6)
    assert_mean(draws, mean, np.diag(covariance))


@fb.model
def unknown_autoregression(n):
    phi = yield dist.Uniform(-1.0, 1.0)
    c = yield dist.Normal(0.0, 2.0)
    x = yield dist.Markov(dist.Normal(0.0, 1.0), lambda x: dist.Normal(phi * x, 0.5), n)
    y = yield dist.Normal(c + x, 0.3)


def test_autoregression_about_an_unknown_level():
    small = left(unknown_autoregression(6).condition(y=Y), ["x", "c"], ["phi"])
    for phi in (0.6, -0.3):
        prior = walk(6, 1.0, 0.5, phi)
        covariance = prior + 4 + 0.09 * np.eye(6)
        assert_close(small.log_prob(phi=phi), normal(covariance, Y) - np.log(2))
    design = np.hstack([np.ones((6, 1)), np.eye(6)])
    whole = np.block([[np.full((1, 1), 4.0), np.zeros((1, 6))], [np.zeros((6, 1)), prior]])
    mean, covariance = conditional(whole, design, 0.09 * np.eye(6), Y)
    draws = recovered(small, {"phi": phi})
    found = np.concatenate([draws["c"][:, None], draws["x"]], axis=1)
    assert_mean(found, mean, np.diag(covariance))


TREND = np.array([[1.0, 1.0], [0.0, 0.9]])


@fb.model
def local_trend(n):
    x = yield dist.Markov(
        dist.Normal(jnp.zeros(2), jnp.array([5.0, 1.0])),
        lambda x: dist.Normal(jnp.array(TREND) @ x, jnp.array([0.5, 0.3])),
        n,
    )
    y = yield dist.Normal(x[:, 0], 1.0)


def trend(n):
    """The covariance of the states of a local trend."""
    to = np.eye(2 * n)
    for t in range(1, n):
        to[2 * t : 2 * t + 2] += TREND @ to[2 * t - 2 : 2 * t]
    return to @ np.diag([25.0, 1.0] + [0.25, 0.09] * (n - 1)) @ to.T


def test_local_trend():
    """A state of two numbers."""
    post = local_trend(6).condition(y=Y)
    design = np.kron(np.eye(6), [[1.0, 0.0]])
    assert_close(evidence(post, ["x"]), normal(design @ trend(6) @ design.T + np.eye(6), Y))


def test_moments_of_a_local_trend():
    design = np.kron(np.eye(6), [[1.0, 0.0]])
    mean, covariance = conditional(trend(6), design, np.eye(6), Y)
    found = local_trend(6).condition(y=Y).marginal("x")
    assert_close(found.mean("x").data, mean.reshape(6, 2))
    assert_close(found.variance("x").data, np.diag(covariance).reshape(6, 2))


@fb.model
def correlated_trend(n):
    q = yield dist.HalfNormal(1.0)
    noise = q * jnp.array([[1.0, 0.3], [0.3, 0.5]])
    x = yield dist.Markov(
        dist.MultivariateNormal(jnp.zeros(2), jnp.eye(2)),
        lambda x: dist.MultivariateNormal(jnp.array(TREND) @ x, covariance_matrix=noise),
        n,
    )
    y = yield dist.Normal(x @ jnp.array([1.0, 0.5]), 0.7)


def test_a_state_with_correlated_noise():
    small = left(correlated_trend(5).condition(y=Y[:5]), ["x"], ["q"])
    design = np.kron(np.eye(5), [[1.0, 0.5]])
    for q in (0.6, 2.0):
        to = np.eye(10)
        for t in range(1, 5):
            to[2 * t : 2 * t + 2] += TREND @ to[2 * t - 2 : 2 * t]
        noise = np.kron(np.eye(5), q * np.array([[1.0, 0.3], [0.3, 0.5]]))
        noise[:2, :2] = np.eye(2)
        prior = to @ noise @ to.T
        expected = normal(design @ prior @ design.T + 0.49 * np.eye(5), Y[:5]) + halfnorm.logpdf(q)
        assert_close(small.log_prob(q=q), expected)
    mean, covariance = conditional(prior, design, 0.49 * np.eye(5), Y[:5])
    draws = recovered(small, {"q": q})["x"]
    assert_mean(draws.reshape(len(draws), -1), mean, np.diag(covariance))


@fb.model
def second_order(n):
    x = yield dist.Markov(
        dist.Normal(jnp.zeros(2), 1.0),
        lambda x: dist.Normal(jnp.stack([0.5 * x[0] + 0.2 * x[1], x[0]]), jnp.array([0.5, 0.1])),
        n,
    )
    y = yield dist.Normal(x[:, 0], 1.0)


def test_second_order_autoregression():
    post = second_order(5).condition(y=Y[:5])
    step, to = np.array([[0.5, 0.2], [1.0, 0.0]]), np.eye(10)
    for t in range(1, 5):
        to[2 * t : 2 * t + 2] += step @ to[2 * t - 2 : 2 * t]
    prior = to @ np.diag([1.0, 1.0] + [0.25, 0.01] * 4) @ to.T
    assert_close(evidence(post, ["x"]), normal(prior[::2, ::2] + np.eye(5), Y[:5]))


LOADING, NOISE = np.array([[1.0, 0.0], [0.5, 1.0]]), np.array([[1.0, 0.3], [0.3, 0.5]])


@fb.model
def kalman_of_vectors(n):
    x = yield dist.Markov(
        dist.MultivariateNormal(jnp.zeros(2), jnp.eye(2)),
        lambda x: dist.MultivariateNormal(jnp.array(TREND) @ x, jnp.array(NOISE)),
        n,
    )
    y = yield dist.MultivariateNormal(x @ jnp.array(LOADING), 0.5 * jnp.eye(2))


def test_kalman_model_of_vectors():
    y = np.stack([Y[:3], Y[3:]], 1)
    post = kalman_of_vectors(3).condition(y=y)
    to = np.eye(6)
    for t in range(1, 3):
        to[2 * t : 2 * t + 2] += TREND @ to[2 * t - 2 : 2 * t]
    noise = np.kron(np.eye(3), NOISE)
    noise[:2, :2] = np.eye(2)
    design = np.kron(np.eye(3), LOADING.T)
    expected = normal(design @ to @ noise @ to.T @ design.T + 0.5 * np.eye(6), y.ravel())
    assert_close(evidence(post, ["x"]), expected)


@fb.model
def regressor_and_start(u):
    b = yield dist.Normal(0.0, 1.0)
    start = yield dist.Normal(0.0, 2.0)
    x = yield dist.Markov(dist.Normal(start, 1.0), lambda x: dist.Normal(0.8 * x, 0.5), len(u))
    y = yield dist.Normal(x + b * u, 0.7)


def test_a_chain_with_a_regressor_and_an_unknown_start():
    post = regressor_and_start(DRIVE).condition(y=Y)
    covariance = walk(6, np.sqrt(5.0), 0.5, 0.8) + np.outer(DRIVE, DRIVE) + 0.49 * np.eye(6)
    assert_close(evidence(post, ["b", "start", "x"]), normal(covariance, Y))


def test_the_marginal_of_a_regressor_beside_a_chain():
    covariance = walk(6, np.sqrt(5.0), 0.5, 0.8) + np.outer(DRIVE, DRIVE) + 0.49 * np.eye(6)
    found = regressor_and_start(DRIVE).condition(y=Y).marginal("b")
    assert_close(found.mean("b").data, DRIVE @ np.linalg.solve(covariance, Y))
    assert_close(found.variance("b").data, 1 - DRIVE @ np.linalg.solve(covariance, DRIVE))


@fb.model
def stochastic_volatility(n):
    m = yield dist.Normal(0.0, 1.0)
    h = yield dist.Markov(dist.Normal(m, 1.0), lambda h: dist.Normal(m + 0.9 * (h - m), 0.5), n)
    y = yield dist.Normal(0.0, jnp.exp(h / 2))


def test_stochastic_volatility():
    """Only the level about which the volatility moves goes."""
    small = left(stochastic_volatility(5).condition(y=Y[:5]), ["m"], ["h"])
    for h in (Y[:5], np.array([0.1, 0.3, -0.2, 0.5, 1.0])):
        expected = normal(walk(5, 1.0, 0.5, 0.9) + 1, h) + norm.logpdf(Y[:5], 0, np.exp(h / 2)).sum()
        assert_close(small.log_prob(h=h), expected)
    inverse = np.linalg.inv(walk(5, 1.0, 0.5, 0.9))
    precision = 1 + inverse.sum()
    assert_mean(recovered(small, {"h": h})["m"], inverse.sum(0) @ h / precision, 1 / precision)


@fb.model
def switching(n):
    s = yield dist.Markov(dist.Bernoulli(0.5), lambda s: dist.Bernoulli(jnp.where(s == 1, 0.9, 0.2)), n)
    x = yield dist.Markov(dist.Normal(0.0, 1.0), lambda x, t: dist.Normal(x, jnp.where(s[t] == 1, 1.5, 0.3)), n)
    y = yield dist.Normal(x, 1.0)


def test_switching_between_scales():
    """States that are finite go before those that are real."""
    small = left(switching(5).condition(y=Y[:5]), ["s"], ["x"])
    for x in (Y[:5], np.array([0.1, 0.3, -0.2, 0.5, 1.0])):
        likelihood = np.concatenate([np.zeros((1, 2)), norm.logpdf(np.diff(x)[:, None], 0, [0.3, 1.5])])
        total, smooth = forward_backward([0.5, 0.5], np.array([[0.8, 0.2], [0.1, 0.9]]), likelihood)
        assert_close(small.log_prob(x=x), total + norm.logpdf(x[0]) + norm.logpdf(Y[:5], x).sum())
    assert_mean(recovered(small, {"x": x})["s"], smooth[:, 1])
    other = switching(5).condition(y=Y[:5]).eliminate("x")
    lower = np.tril(np.ones((5, 5)))
    for s in (np.array([0, 0, 1, 1, 0]), np.array([1, 1, 0, 0, 1])):
        scale = np.concatenate([[1.0], np.where(s[1:] == 1, 1.5, 0.3)])
        prior = np.log(0.5) + np.log(np.array([[0.8, 0.2], [0.1, 0.9]])[s[:-1], s[1:]]).sum()
        assert_close(other.log_prob(s=s), prior + normal(lower @ np.diag(scale**2) @ lower.T + np.eye(5), Y[:5]))


@fb.model
def random_walk_plus_noise(n):
    q = yield dist.HalfNormal(1.0)
    x = yield dist.GaussianRandomWalk(q, n)
    y = yield dist.Normal(x, 0.5)


def test_gaussian_random_walk_plus_noise():
    small = left(random_walk_plus_noise(6).condition(y=Y), ["x"], ["q"])
    for q in (0.5, 1.5):
        prior = walk(6, q, q)
        assert_close(small.log_prob(q=q), normal(prior + 0.25 * np.eye(6), Y) + halfnorm.logpdf(q))
    mean, covariance = conditional(prior, np.eye(6), 0.25 * np.eye(6), Y)
    assert_mean(recovered(small, {"q": q})["x"], mean, np.diag(covariance))


@fb.model
def unknown_noise_level(n):
    v = yield dist.InverseGamma(3.0, 2.0)
    x = yield dist.Markov(dist.Normal(0.0, 3.0 * jnp.sqrt(v)), lambda x: dist.Normal(x, 0.5 * jnp.sqrt(v)), n)
    y = yield dist.Normal(x, jnp.sqrt(v))


def test_local_level_in_units_of_an_unknown_noise():
    """All variances are in proportion: a Student's t."""
    post = unknown_noise_level(6).condition(y=Y)
    shape = walk(6, 3.0, 0.5) + np.eye(6)
    expected = multivariate_t(np.zeros(6), (2 / 3) * shape, df=6).logpdf(Y)
    assert_close(evidence(post, ["x", "v"]), expected)
    rate = 2 + 0.5 * Y @ np.linalg.solve(shape, Y)
    assert_close(post.marginal("v").mean("v").data, rate / (3 + 3 - 1))


def numpyro_local_level(y):
    q = numpyro.sample("q", nd.HalfNormal(1.0))

    def step(before, here):
        x = numpyro.sample("x", nd.Normal(before, q))
        numpyro.sample("y", nd.Normal(x, 0.5), obs=here)
        return x, None

    scan(step, 0.0, y)


def test_local_level_by_a_scan_of_numpyro():
    small = left(fb.from_numpyro(numpyro_local_level, Y), ["x"], ["q"])
    for q in (0.5, 1.5):
        prior = walk(6, q, q)
        assert_close(small.log_prob(q=q), normal(prior + 0.25 * np.eye(6), Y) + halfnorm.logpdf(q))
    mean, covariance = conditional(prior, np.eye(6), 0.25 * np.eye(6), Y)
    assert_mean(recovered(small, {"q": q})["x"], mean, np.diag(covariance))


def numpyro_local_trend(y):
    def step(before, here):
        x = numpyro.sample("x", nd.MultivariateNormal(jnp.array(TREND) @ before, 0.3 * jnp.eye(2)))
        numpyro.sample("y", nd.Normal(x[0], 0.5), obs=here)
        return x, None

    scan(step, jnp.zeros(2), y)


def test_local_trend_by_a_scan_of_numpyro():
    post = fb.from_numpyro(numpyro_local_trend, Y[:5])
    to = np.eye(10)
    for t in range(1, 5):
        to[2 * t : 2 * t + 2] += TREND @ to[2 * t - 2 : 2 * t]
    prior = 0.3 * to @ to.T
    assert_close(evidence(post, ["x"]), normal(prior[::2, ::2] + 0.25 * np.eye(5), Y[:5]))


def numpyro_level_and_slope(y):
    def step(before, here):
        level = numpyro.sample("level", nd.Normal(before[0] + before[1], 0.5))
        slope = numpyro.sample("slope", nd.Normal(0.9 * before[1], 0.3))
        numpyro.sample("y", nd.Normal(level, 0.5), obs=here)
        return (level, slope), None

    scan(step, (0.0, 0.0), y)


def test_level_and_slope_as_two_sites_of_a_scan_of_numpyro():
    post = fb.from_numpyro(numpyro_level_and_slope, Y[:5])
    to = np.eye(10)
    for t in range(1, 5):
        to[2 * t : 2 * t + 2] += TREND @ to[2 * t - 2 : 2 * t]
    prior = to @ np.diag([0.25, 0.09] * 5) @ to.T
    assert_close(evidence(post, ["level", "slope"]), normal(prior[::2, ::2] + 0.25 * np.eye(5), Y[:5]))


def numpyro_sequences(y):
    mu = numpyro.sample("mu", nd.Normal(0.0, 3.0).expand([3]).to_event(1))

    def step(before, here):
        with numpyro.plate("sequences", 3):
            z = numpyro.sample("z", nd.Categorical(jnp.array(STEP)[before]))
            numpyro.sample("y", nd.Normal(mu[z], 0.7), obs=here)
        return z, None

    scan(step, jnp.zeros(3, int), y)


def test_several_sequences_in_a_plate_of_a_scan_of_numpyro():
    small = left(fb.from_numpyro(numpyro_sequences, SEVERAL.T), ["z"], ["mu"])
    for mu in (MEANS, np.array([0.1, 0.5, -0.3])):
        each = [forward_backward(STEP[0], STEP, norm.logpdf(row[:, None], mu, 0.7)) for row in SEVERAL]
        assert_close(small.log_prob(mu=mu), sum(total for total, _ in each) + norm.logpdf(mu, 0, 3).sum())
    assert_labels(recovered(small, {"mu": mu})["z"], np.stack([smooth for _, smooth in each], axis=1))


@fb.model
def local_level_by_a_loop(n):
    x = yield dist.Normal(0.0, 1.5).named("x0")
    yield dist.Normal(x, 1.0).named("y0")
    for t in range(1, n):
        x = yield dist.Normal(0.8 * x, 0.5).named(f"x{t}")
        yield dist.Normal(x, 1.0).named(f"y{t}")


def test_a_kalman_model_by_a_loop_of_scalar_sites():
    post = local_level_by_a_loop(4).condition(**{f"y{t}": Y[t] for t in range(4)})
    prior = walk(4, 1.5, 0.5, 0.8)
    assert_close(evidence(post, [f"x{t}" for t in range(4)]), normal(prior + np.eye(4), Y[:4]))
    mean, covariance = conditional(prior, np.eye(4), np.eye(4), Y[:4])
    assert_close(post.marginal("x1").mean("x1").data, mean[1])
    assert_close(post.marginal("x1").variance("x1").data, covariance[1, 1])
