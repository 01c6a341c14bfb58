"""Marginals of several sites, and those that are finite mixtures, against enumeration, quadrature and large samples."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as numpyro_families
import pytest
from scipy import integrate, stats
from scipy.special import betaln, gammaln, softmax

import fubini as fb
from fubini import dist
from fubini.errors import Intractable, NameClash, UnknownName

COUNTS = np.array([4, 5, 4, 1, 0, 1])
POINTS = np.array([-2.0, -1.5, 2.0])


@fb.model
def coal(n):
    early = yield dist.Gamma(2.0, 0.5)
    late = yield dist.Gamma(1.0, 1.0)
    s = yield dist.DiscreteUniform(0, n - 1)
    y = yield dist.Poisson(jnp.where(jnp.arange(n) < s, early, late))


@fb.model
def clusters(n):
    theta = yield dist.Dirichlet(jnp.ones(2))
    mu = yield dist.Normal(0.0, 3.0).expand([2])
    z = yield dist.Categorical(theta).expand([n])
    x = yield dist.Normal(mu[z], 1.0)


@fb.model
def levels():
    m = yield dist.Normal(0.0, 1.0)
    a = yield dist.Normal(m, 1.0).expand([2])
    b = yield dist.Normal(m, 2.0)
    y = yield dist.Normal(a + b, 1.0)


@fb.model
def line(x):
    v = yield dist.InverseGamma(3.0, 2.0)
    a = yield dist.Normal(0.0, jnp.sqrt(v))
    b = yield dist.Normal(0.0, 2 * jnp.sqrt(v))
    y = yield dist.Normal(a + b * x, jnp.sqrt(v))


def marginal_likelihood(a, b, part):
    """log ∫ Gamma(r; a, b) Π Poisson(y; r) dr"""
    shape, rate = a + part.sum(), b + len(part)
    return a * np.log(b) - gammaln(a) + gammaln(shape) - shape * np.log(rate) - gammaln(part + 1).sum()


def of_coal():
    """The probability of each change point, and the parameters of the rates given it."""
    n = len(COUNTS)
    logs = [marginal_likelihood(2.0, 0.5, COUNTS[:s]) + marginal_likelihood(1.0, 1.0, COUNTS[s:]) for s in range(n)]
    early = [(2.0 + COUNTS[:s].sum(), 0.5 + s) for s in range(n)]
    late = [(1.0 + COUNTS[s:].sum(), 1.0 + n - s) for s in range(n)]
    return softmax(logs), np.array(early), np.array(late)


@pytest.fixture(scope="module")
def post():
    return coal(len(COUNTS)).condition(y=COUNTS)


def test_rate_before_a_change_point(post):
    shares, early, _ = of_coal()
    f = post.marginal("early")
    assert type(f) is fb.Mixture and f.exactness.is_exact
    members = stats.gamma(early[:, 0], scale=1 / early[:, 1])
    np.testing.assert_allclose(float(f(early=2.5).log()), np.log(shares @ members.pdf(2.5)), rtol=1e-8)
    for level, edge in zip((0.05, 0.95), f.interval(0.9), strict=True):
        np.testing.assert_allclose(shares @ members.cdf(float(edge)), level, atol=1e-9)
    np.testing.assert_allclose(float(f.mean()), shares @ members.mean(), rtol=1e-6)
    with jax.enable_x64(True):
        made = f.to_numpyro()
        assert isinstance(made, numpyro_families.MixtureSameFamily)
        np.testing.assert_allclose(made.log_prob(2.5), np.log(shares @ members.pdf(2.5)), rtol=1e-8)


def test_both_rates_of_a_change_point(post):
    shares, early, late = of_coal()
    f = post.marginal("early", "late")
    assert type(f) is fb.Mixture and set(f.inputs) == {"early", "late"}
    pdf = stats.gamma(early[:, 0], scale=1 / early[:, 1]).pdf(2.5) * stats.gamma(late[:, 0], scale=1 / late[:, 1]).pdf(
        1
    )
    np.testing.assert_allclose(float(f(early=2.5, late=1.0).log()), np.log(shares @ pdf), rtol=1e-8)
    means = np.stack([early[:, 0] / early[:, 1], late[:, 0] / late[:, 1]])
    expected = np.cov(means, aweights=shares, bias=True)[0, 1]
    np.testing.assert_allclose(float(f.covariance("early", "late")), expected, rtol=1e-6)
    np.testing.assert_allclose(float(f.sum("late").interval(0.9)[0]), float(post.marginal("early").interval(0.9)[0]))


def test_a_rate_and_the_change_point(post):
    shares, early, _ = of_coal()
    f = post.marginal("s", "early")
    assert set(f.inputs) == {"s", "early"}
    for s in (0, 3):
        expected = np.log(shares[s]) + stats.gamma(early[s, 0], scale=1 / early[s, 1]).logpdf(2.5)
        np.testing.assert_allclose(float(f(s=s, early=2.5).log()), expected, rtol=1e-8)


def of_clusters():
    """All labels with their probabilities."""
    every = np.array(list(itertools.product(range(2), repeat=len(POINTS))))

    def log_weight(z):
        ones = z.sum()
        parts = [POINTS[z == k] for k in range(2)]
        fits = [stats.multivariate_normal(np.zeros(len(p)), np.eye(len(p)) + 9.0).logpdf(p) for p in parts if len(p)]
        return betaln(1 + ones, 1 + len(z) - ones) + sum(fits)

    return every, softmax([log_weight(z) for z in every])


def test_labels_of_a_short_mixture():
    every, shares = of_clusters()
    f = clusters(3).condition(x=POINTS).marginal("z")
    assert type(f) is fb.Table and f.exactness.is_exact
    expected = [[shares @ (every[:, i] == k) for k in range(2)] for i in range(3)]
    np.testing.assert_allclose(f.weights, expected, rtol=1e-8)
    np.testing.assert_allclose(f.to_numpyro("z").probs, expected, rtol=1e-5)


def test_shares_of_a_short_mixture():
    every, shares = of_clusters()
    f = clusters(3).condition(x=POINTS).marginal("theta", "mu")
    np.testing.assert_allclose(float(f.sum("theta").sum("mu")), 1.0)
    counts = 3 - every.sum(1)
    mean = np.stack([shares @ ((1 + counts) / 5), shares @ ((4 - counts) / 5)])
    np.testing.assert_allclose(f.sum("mu").mean("theta").data, mean, rtol=1e-6)


def test_too_many_labels():
    with pytest.raises(Intractable) as error:
        clusters(40).condition(x=np.zeros(40)).marginal("z")
    assert all(word in str(error.value) for word in ("'z' has about 10^12 values", "16,384", "infer(key)"))


def test_normal_sites_together():
    post = levels().condition(y=np.array([1.0, 2.0]))
    f = post.marginal("m", "a")
    prior = np.array([[1.0, 1, 1, 1], [1, 2, 1, 1], [1, 1, 2, 1], [1, 1, 1, 5]])  # of m, a[0], a[1], b
    H = np.array([[0.0, 1, 0, 1], [0, 0, 1, 1]])
    gain = prior @ H.T @ np.linalg.inv(H @ prior @ H.T + np.eye(2))
    covariance = prior - gain @ H @ prior
    np.testing.assert_allclose(f.covariance("m", "a").data, covariance[0, 1:3], rtol=1e-8)
    np.testing.assert_allclose(f.sum("m").mean("a").data, (gain @ [1.0, 2.0])[1:3], rtol=1e-8)
    np.testing.assert_allclose(f.sum("a").variance("m").data, covariance[0, 0], rtol=1e-8)


X = np.arange(4.0)
Y = np.array([0.9, 2.1, 2.9, 4.2])


def test_sites_that_share_a_variance():
    """Student's t together: p(a) p(b | a), against quadrature over the variance."""
    post = line(X).condition(y=Y)
    f = post.marginal("a", "b")

    def density(v, a, b):
        s = np.sqrt(v)
        prior = stats.invgamma(3, scale=2).pdf(v) * stats.norm(0, s).pdf(a) * stats.norm(0, 2 * s).pdf(b)
        return prior * np.prod(stats.norm(a + b * X, s).pdf(Y))

    for a, b in ((0.7, 1.1), (1.2, 0.8)):
        mass, _ = integrate.quad(density, 1e-4, 40, args=(a, b), points=[0.1, 1.0], limit=200, epsabs=0)
        np.testing.assert_allclose(float(f(a=a, b=b).log()), np.log(mass) - float(post.log_evidence()), rtol=1e-6)
    rows = np.vstack([np.stack([np.ones(4), X], 1), np.diag([1.0, 0.5])])
    inverse = np.linalg.inv(rows.T @ rows)
    variance = float(post.marginal("v").mean())
    np.testing.assert_allclose(float(f.covariance("a", "b")), inverse[0, 1] * variance, rtol=1e-6)


def test_tables_together():
    a, b = fb.Table([0.25, 0.75], ("a",)), fb.Table([[0.5, 0.5], [0.1, 0.9]], ("a", "b"))
    model = fb.JointNamed(
        dict(
            a=dist.Categorical(np.array([0.25, 0.75])),
            b=lambda a: dist.Categorical(jnp.array([[0.5, 0.5], [0.1, 0.9]])[a]),
            c=lambda b: dist.Bernoulli(jnp.array([0.2, 0.6])[b]),
        )
    )
    f = model.condition(c=1).marginal("a", "b")
    weights = (a * b).weights * np.array([0.2, 0.6])
    np.testing.assert_allclose(f.weights, weights / weights.sum(), rtol=1e-6)


def test_through_numpyro_and_jit():
    def program():
        early = numpyro.sample("early", numpyro_families.Gamma(2.0, 0.5))
        late = numpyro.sample("late", numpyro_families.Gamma(1.0, 1.0))
        s = numpyro.sample("s", numpyro_families.DiscreteUniform(0, len(COUNTS) - 1))
        rate = jnp.where(jnp.arange(len(COUNTS)) < s, early, late)
        numpyro.sample("y", numpyro_families.Poisson(rate), obs=COUNTS)

    expected = coal(len(COUNTS)).condition(y=COUNTS).marginal("early", "late")(early=2.5, late=1.0).log().data
    given = fb.from_numpyro(program).marginal("early", "late")
    np.testing.assert_allclose(float(given(early=2.5, late=1.0).log()), expected, rtol=1e-5)

    @jax.jit
    def ask(y):
        return coal(len(COUNTS)).condition(y=y).marginal("early", "late")(early=2.5, late=1.0).log().data

    np.testing.assert_allclose(ask(jnp.asarray(COUNTS)), expected, rtol=1e-4)


def test_factors_have_the_same_methods():
    r = fb.Variable("r", fb.Positive)
    for data in (4, jnp.asarray(4)):
        f = fb.marginals([dist.Gamma(2.0, 3.0)("r"), dist.Poisson(r)(data)], ("r",))["r"]
        low, high = f.interval(0.9)
        np.testing.assert_allclose([float(low), float(high)], stats.gamma(6, scale=1 / 4).interval(0.9), rtol=1e-5)
        np.testing.assert_allclose(f.to_numpyro().log_prob(1.2), stats.gamma(6, scale=1 / 4).logpdf(1.2), rtol=1e-5)


@pytest.mark.parametrize(
    ("ask", "kind", "words"),
    [
        (lambda post: post.marginal("early", "lat"), UnknownName, ["'lat'", "'late'"]),
        (lambda post: post.marginal("early", "early"), NameClash, ["each once"]),
        (lambda post: post.marginal(), NameClash, ["one site or more"]),
        (lambda post: post.marginal("early", "y"), UnknownName, ["which is observed"]),
        (lambda post: post.marginal("early", "late").interval(0.9), UnknownName, ["sum the others out"]),
        (lambda post: post.marginal("early", "late").to_numpyro(), Exception, ["together"]),
    ],
)
def test_bad_input(post, ask, kind, words):
    with pytest.raises(kind) as error:
        ask(post)
    assert all(word in str(error.value) for word in words), str(error.value)


def test_labels_with_more_values_than_a_float_holds() -> None:
    y = np.linspace(-1.0, 1.0, 799)
    model = fb.JointNamed(
        dict(
            p=fb.dist.Dirichlet(jnp.ones(3)),
            m=fb.dist.Normal(0.0, 1.0).expand([3]),
            k=lambda p: fb.dist.Categorical(p).expand([799]),
            y=lambda m, k: fb.dist.Normal(m[k], 1.0),
        )
    )
    with pytest.raises(fb.FubiniError, match=r"'k' has about 10\^381 values together"):
        model.condition(y=y).marginal("p")
