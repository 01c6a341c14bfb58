"""What models of the catalogue are compared with: enumeration, forward–backward, dense normals; nothing of fubini's."""

import itertools

import jax
import numpy as np
from scipy.special import betaln, gammaln, logsumexp
from scipy.stats import multivariate_normal

from fubini.models.eliminated_model import eliminated
from fubini.models.flat_model import FlatModel

KEY = jax.random.key(0)
MANY = 4000


def left(post, names, kept=()):
    """The model without the latents that its plan eliminates, which are those in `names`; in any order."""
    plan = eliminated(FlatModel(post))
    assert (set(plan.eliminated), set(plan.kept)) == (set(names), set(kept)), (plan.eliminated, plan.blocked)
    return post.eliminate(*names)


def evidence(post, names):
    """The log-evidence of a model of which all latents, those in `names`, are eliminated."""
    left(post, names)
    return float(post.log_evidence())


def recovered(small, kept):
    """Many draws of all latents at one value of those that are kept."""
    spread = {name: np.broadcast_to(value, (MANY, *np.shape(value))) for name, value in kept.items()}
    return small.recover(KEY, spread)


def assert_close(found, expected):
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-9, atol=1e-9)


def assert_mean(draws, expected, variance=None):
    """The mean of draws is within five standard errors; of zeros and ones, these follow from what is expected."""
    expected = np.asarray(expected)
    spread = expected * (1 - expected) if variance is None else variance
    error = np.sqrt(np.maximum(spread, 0) / len(draws))
    assert np.all(np.abs(draws.mean(0) - expected) <= 5 * error + 1e-9), (draws.mean(0), expected, error)


def assert_labels(draws, probabilities):
    """Draws [many, …] of labels have these probabilities […, label]."""
    one_hot = np.asarray(draws)[..., None] == np.arange(np.shape(probabilities)[-1])
    assert_mean(one_hot.astype(float), probabilities)


def normal(covariance, y, mean=0.0):
    """log N(y; mean, covariance)"""
    return multivariate_normal(np.broadcast_to(mean, np.shape(y)), covariance).logpdf(y)


def conditional(prior, design, noise, y, mean=0.0):
    """Mean and covariance of x ~ N(0, prior) given y ~ N(mean + design x, noise)."""
    gain = prior @ design.T @ np.linalg.inv(design @ prior @ design.T + noise)
    return gain @ (y - mean), prior - gain @ design @ prior


def dirichlet_counts(alpha, counts):
    """log of the probability of one sequence of labels with these counts."""
    alpha, counts = np.broadcast_arrays(np.asarray(alpha, float), counts)
    new, total = alpha + counts, gammaln(alpha.sum()) - gammaln((alpha + counts).sum())
    return total + (gammaln(new) - gammaln(alpha)).sum()


def beta_bernoulli(a, b, ones, zeros):
    """log of the probability of one sequence of so many ones and zeros."""
    return betaln(a + ones, b + zeros) - betaln(a, b)


def gamma_poisson(a, b, y, exposure=1.0):
    """log-evidence of counts y with rates λ · exposure, λ ~ Gamma(a, b)."""
    y = np.asarray(y)
    exposure = np.broadcast_to(exposure, y.shape)
    rest = (y * np.log(exposure) - gammaln(y + 1)).sum()
    return a * np.log(b) - gammaln(a) + gammaln(a + y.sum()) - (a + y.sum()) * np.log(b + exposure.sum()) + rest


def paths(sizes):
    """All sequences of labels, of which the t-th is below sizes[t]."""
    return np.array(list(itertools.product(*map(range, sizes))))


def forward_backward(init, steps, likelihood):
    """log-evidence and smoothed probabilities of a chain: init [k], steps [t − 1, k, k], log-likelihood [t, k]."""
    count = len(likelihood)
    with np.errstate(divide="ignore"):
        log_init, log_steps = np.log(init), np.log(np.broadcast_to(steps, (count - 1, *np.shape(steps)[-2:])))
    forward, backward = [log_init + likelihood[0]], [np.zeros_like(log_init)]
    for t in range(1, count):
        forward.append(logsumexp(forward[-1][:, None] + log_steps[t - 1], axis=0) + likelihood[t])
        after = count - t
        backward.append(logsumexp(log_steps[after - 1] + likelihood[after] + backward[-1], axis=1))
    total = logsumexp(forward[-1])
    return total, np.exp(np.array(forward) + np.array(backward[::-1]) - total)
