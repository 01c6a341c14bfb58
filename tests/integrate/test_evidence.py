"""Evidence of models in plain JAX, latents eliminated in index notation, against independent formulas."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import halfcauchy, multivariate_normal, multivariate_t, norm

import fubini as fb
from fubini import dist
from fubini.models.eliminated_model import eliminated
from fubini.models.flat_model import FlatModel

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(20, 3)), RANDOM.normal(size=20)
GROUP = np.array([0, 0, 1, 1, 2, 2, 2])
Z = np.eye(3)[GROUP]
Y7, X7 = RANDOM.normal(size=7), RANDOM.normal(size=(7, 2))


def asked(post, **kept):
    """The log-density of the observations and the sites kept, and the names that were eliminated, in order."""
    found = eliminated(FlatModel(post), [name for name in post.outline.free if name not in kept])
    value = None if found.blocked else float(found.compute_log_density(kept, float64=True))
    return value, [step.names for step in found.plan.integrals], found.blocked


@fb.model
def normal(n):
    x = yield dist.Normal(0.5, 10.0)
    y = yield dist.Normal(2.0 * x, 1.5).expand([n])


@fb.model
def beta_binomial(n):
    p = yield dist.Beta(2.0, 3.0)
    y = yield dist.Binomial(5, p).expand([n])


@fb.model
def dirichlet_multinomial():
    p = yield dist.Dirichlet(jnp.ones(3))
    y = yield dist.Multinomial(2, probs=p).expand([2])


@fb.model
def gamma_poisson(exposure):
    rate = yield dist.Gamma(2.0, 3.0)
    y = yield dist.Poisson(rate * exposure)


@fb.model
def regression(x):
    v = yield dist.InverseGamma(3.0, 2.0)
    w = yield dist.Normal(0.0, jnp.sqrt(v)).expand([x.shape[1]])
    y = yield dist.Normal(x @ w, jnp.sqrt(v))


@fb.model
def unknown_mean_and_variance():
    v = yield dist.InverseGamma(3.0, 2.0)
    m = yield dist.Normal(0.0, jnp.sqrt(v))
    y = yield dist.Normal(m, jnp.sqrt(v)).expand([4])


@fb.model
def mixed_effects(x):
    b = yield dist.Normal(0.0, 10.0).expand([2])
    a = yield dist.Normal(0.0, 2.0).expand([3])
    y = yield dist.Normal(a[GROUP] + x @ b, 1.0)


@fb.model
def nested():
    m = yield dist.Normal(0.0, 3.0)
    g = yield dist.Normal(m, 1.0).expand([3])
    y = yield dist.Normal(g[GROUP], 0.5)


@fb.model
def random_walk():
    x = yield dist.Normal(0.0, 1.0).expand([5])
    y = yield dist.Normal(jnp.cumsum(x), 0.5)


def of_normal(covariance, y, mean=0.0):
    return multivariate_normal(np.full(len(y), mean), covariance).logpdf(y)


COUNTS, EXPOSURE, FOUR = np.array([1, 4, 2]), np.array([1.0, 2.0, 0.5]), np.array([0.5, 1.0, -0.3, 2.0])
LOWER = np.tril(np.ones((5, 5)))

EVIDENCE = {
    "a mean": (normal(3).condition(y=Y[:3]), of_normal(2.25 * np.eye(3) + 400, Y[:3], 1.0)),
    "a probability, plated": (
        beta_binomial(4).condition(y=np.array([0, 1, 2, 3])),
        -6.888193,  # funsor merges the counts, and says −2.538
    ),
    "probabilities, plated": (
        dirichlet_multinomial().condition(y=np.array([[1, 1, 0], [0, 2, 0]])),
        -3.401197,  # funsor says −2.708
    ),
    "a rate with exposure": (
        gamma_poisson(EXPOSURE).condition(y=COUNTS),
        2 * np.log(3)
        - gammaln(2)
        + gammaln(9)
        - 9 * np.log(3 + EXPOSURE.sum())
        + (COUNTS * np.log(EXPOSURE) - gammaln(COUNTS + 1)).sum(),
    ),
    "regression with unknown noise": (
        regression(X).condition(y=Y),
        multivariate_t(np.zeros(20), (2 / 3) * (np.eye(20) + X @ X.T), df=6).logpdf(Y),
    ),
    "a mean and a variance": (
        unknown_mean_and_variance().condition(y=FOUR),
        multivariate_t(np.zeros(4), (2 / 3) * (np.eye(4) + 1), df=6).logpdf(FOUR),
    ),
    "mixed effects": (
        mixed_effects(X7).condition(y=Y7),
        of_normal(np.eye(7) + 4 * Z @ Z.T + 100 * X7 @ X7.T, Y7),
    ),
    "nested means": (nested().condition(y=Y7), of_normal(0.25 * np.eye(7) + Z @ Z.T + 9, Y7)),
    "a random walk": (random_walk().condition(y=Y[:5]), of_normal(0.25 * np.eye(5) + LOWER @ LOWER.T, Y[:5])),
}


@pytest.mark.parametrize("name", EVIDENCE)
def test_evidence(name):
    post, expected = EVIDENCE[name]
    found, _, blocked = asked(post)
    assert not blocked
    np.testing.assert_allclose(found, expected, rtol=2e-7)


SIGMA, EFFECTS = np.array([15.0, 10, 16, 11, 9, 11, 10, 18]), np.array([28.0, 8, -3, 7, -1, 1, 18, 12])


@fb.model
def schools():
    mu = yield dist.Normal(0.0, 5.0)
    tau = yield dist.HalfCauchy(5.0)
    theta = yield dist.Normal(mu, tau).expand([8])
    y = yield dist.Normal(theta, SIGMA)


@pytest.mark.parametrize("tau", [1e-6, 1e-3, 1.0, 100.0])
def test_eight_schools_given_a_scale(tau):
    found, steps, _ = asked(schools().condition(y=EFFECTS), tau=tau)
    expected = of_normal(np.diag(SIGMA**2 + tau**2) + 25, EFFECTS) + halfcauchy(scale=5).logpdf(tau)
    assert steps == [("theta",), ("mu",)]
    np.testing.assert_allclose(found, expected, rtol=1e-13)


@fb.model
def mixture(n, k):
    theta = yield dist.Dirichlet(jnp.ones(k))
    mu = yield dist.Normal(0.0, 14.0).expand([k])
    y = yield dist.Categorical(theta).expand([n])
    s = yield dist.Normal(mu[y], 1.0)


POINTS, LABELS = 3 * RANDOM.normal(size=6), np.array([0, 2, 2, 0, 2, 0])


def test_a_mixture_given_its_labels():
    """One class is empty."""
    found, steps, _ = asked(mixture(6, 3).condition(s=POINTS), y=LABELS)
    counts = np.bincount(LABELS, minlength=3)
    expected = gammaln(3) - gammaln(9) + gammaln(counts + 1).sum()
    for label in (0, 2):
        expected += of_normal(np.eye(counts[label]) + 196, POINTS[label == LABELS])
    assert sorted(steps) == [("mu",), ("theta",)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_mixture_with_its_labels_summed():
    theta, mu = np.array([0.2, 0.3, 0.5]), np.array([-1.0, 0.0, 2.0])
    found, steps, _ = asked(mixture(6, 3).condition(s=POINTS), theta=theta, mu=mu)
    expected = np.log((theta * norm.pdf(POINTS[:, None], mu)).sum(1)).sum() + norm.logpdf(mu, 0, 14).sum() + np.log(2)
    assert steps == [("y",)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_what_is_blocked_is_named():
    @fb.model
    def simple():
        s = yield dist.InverseGamma(3.0, 2.0)
        m = yield dist.Normal(0.0, 1.0)
        x = yield dist.Normal(m, s)

    found, steps, blocked = asked(simple().condition(x=0.5))
    assert found is None and steps == [("m",)] and list(blocked) == ["s"]
    assert "the elimination of 's'" in str(blocked["s"])


def test_off_centre_data_cost_nothing():
    """By a million standard deviations, in double precision."""
    data = 1e6 + Y7
    found, _, _ = asked(nested().condition(y=data))
    precise = np.linalg.solve(0.25 * np.eye(7) + Z @ Z.T + 9, np.ones(7))
    covariance = 0.25 * np.eye(7) + Z @ Z.T + 9
    shift = -0.5 * (1e12 * precise.sum() + 2e6 * precise @ Y7)
    np.testing.assert_allclose(found, of_normal(covariance, Y7) + shift, rtol=1e-12)
