"""Models without a closed form under `fb.quadrature()` and `fb.monte_carlo`: what is closed stays exact."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from scipy import integrate, stats
from scipy.special import gammaln

import fubini as fb
from fubini import dist
from fubini.approximate.open_integral import OpenIntegral, WeightedPoints
from fubini.errors import DomainError, Intractable, Restriction
from fubini.questions import approximate
from fubini.terms.exactness import projected
from tests.counting import TRACED

KEY = jax.random.key(0)
X, Y = np.array([1.0, 2.0, -1.0, 0.5]), np.array([1, 1, 0, 1])
EFFECTS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
ERRORS = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
COUNTS, NOISY = np.array([2, 0, 3, 1]), np.array([0.3, 1.2, -0.4, 0.8])
SINGLE = NOISY.astype(np.float32).astype(float)


@fb.model
def logistic():
    w = yield dist.Normal(0.0, 1.0)
    y = yield dist.Bernoulli(logits=w * X)


@fb.model
def logistic_with_intercept():
    a = yield dist.Normal(0.0, 2.0)
    w = yield dist.Normal(0.0, 1.0)
    y = yield dist.Bernoulli(logits=a + w * X)


@fb.model
def log_normal_rate():
    r = yield dist.LogNormal(0.0, 1.0)
    y = yield dist.Poisson(r).expand([4])


@fb.model
def schools():
    mu = yield dist.Normal(0.0, 5.0)
    tau = yield dist.HalfCauchy(5.0)
    theta = yield dist.Normal(mu, tau).expand([8])
    y = yield dist.Normal(theta, ERRORS)


@fb.model
def heavy():
    m = yield dist.Cauchy(0.0, 1.0)
    y = yield dist.Normal(m, 1.0).expand([4])


@fb.model
def robust():
    m = yield dist.Normal(0.0, 2.0)
    y = yield dist.StudentT(3.0, m, 0.5).expand([4])


@fb.model
def shape():
    a = yield dist.Exponential(1.0)
    r = yield dist.Gamma(a, 2.0)
    y = yield dist.Poisson(r).expand([4])


@fb.model
def probit():
    p = yield dist.Beta(2.0, 2.0)
    s = yield dist.HalfNormal(1.0)
    y = yield dist.Normal(p, 0.5 + s).expand([4])


@fb.model
def mixture():
    m = yield dist.Laplace(0.0, 1.0)
    z = yield dist.Bernoulli(0.3).expand([4])
    y = yield dist.Normal(jnp.where(z == 1, m, 0.0), 1.0)


def numpyro_growth(y):
    k = numpyro.sample("k", numpyro.distributions.Uniform(0.0, 3.0))
    b = numpyro.sample("b", numpyro.distributions.Normal(0.0, 1.0))
    numpyro.sample("y", numpyro.distributions.Normal(b * jnp.exp(-k * jnp.arange(4.0)), 0.3), obs=y)


def quad(*ranges):
    return lambda f: integrate.nquad(f, ranges, opts={"epsabs": 0.0, "epsrel": 1e-11})[0]


def normals(y, m, s=1.0):
    return np.prod(stats.norm.pdf(y, m, s))


def bernoullis(logits):
    return np.prod(1 / (1 + np.exp(-(2 * Y - 1) * logits)))


def school_weight(tau):
    """The density of all effects at a tau, theta and mu integrated out by the covariance of y."""
    covariance = np.diag(ERRORS**2 + tau**2) + 25.0
    return stats.halfcauchy.pdf(tau, 0, 5) * stats.multivariate_normal.pdf(EFFECTS, np.zeros(8), covariance)


def poissons(r):
    return np.prod(stats.poisson.pmf(COUNTS, r))


def shaped(a):
    """∫ Gamma(r; a, 2) Π Poisson(y; r) dr"""
    n, s = len(COUNTS), COUNTS.sum()
    log = a * np.log(2) - gammaln(a) + gammaln(a + s) - (a + s) * np.log(2 + n) - gammaln(COUNTS + 1).sum()
    return stats.expon.pdf(a) * np.exp(log)


# The posterior of a model, and its evidence: the integrand and the ranges.
MODELS = {
    "logistic": (logistic().condition(y=Y), lambda w: stats.norm.pdf(w) * bernoullis(w * X), [(-15, 15)]),
    "logistic with intercept": (
        logistic_with_intercept().condition(y=Y),
        lambda w, a: stats.norm.pdf(w) * stats.norm.pdf(a, 0, 2) * bernoullis(a + w * X),
        [(-12, 12), (-20, 20)],
    ),
    "log-normal rate": (
        log_normal_rate().condition(y=COUNTS),
        lambda r: stats.lognorm.pdf(r, 1) * poissons(r),
        [(0, 40)],
    ),
    "schools": (schools().condition(y=EFFECTS), school_weight, [(0, np.inf)]),
    "heavy prior": (heavy().condition(y=NOISY), lambda m: stats.cauchy.pdf(m) * normals(NOISY, m), [(-15, 15)]),
    "robust": (
        robust().condition(y=NOISY),
        lambda m: stats.norm.pdf(m, 0, 2) * np.prod(stats.t.pdf(NOISY, 3, m, 0.5)),
        [(-20, 20)],
    ),
    "shape of a gamma": (shape().condition(y=COUNTS), shaped, [(0, 60)]),
    "two kinds of noise": (
        probit().condition(y=NOISY),
        lambda s, p: 2 * stats.norm.pdf(s) * stats.beta.pdf(p, 2, 2) * normals(NOISY, p, 0.5 + s),
        [(0, 12), (0, 1)],
    ),
    "labels of a mixture": (
        mixture().condition(y=NOISY),
        lambda m: stats.laplace.pdf(m) * np.prod(0.3 * stats.norm.pdf(NOISY, m) + 0.7 * stats.norm.pdf(NOISY)),
        [(-30, 0), (0, 30)],
    ),
    "growth of NumPyro": (
        fb.from_numpyro(numpyro_growth, jnp.asarray(NOISY)),
        lambda b, k: stats.norm.pdf(b) / 3 * normals(SINGLE, b * np.exp(-k * np.arange(4.0)), 0.3),
        [(-10, 10), (0, 3)],
    ),
}


@pytest.fixture(scope="module")
def evidence():
    """The truth, by nested quadrature of scipy, computed once."""
    known: dict[str, float] = {}

    def of(name):
        if name not in known:
            _, density, ranges = MODELS[name]
            apart = ranges if name == "labels of a mixture" else [None]  # at the kink of a prior
            parts = [quad(*(ranges if part is None else [part]))(density) for part in apart]
            known[name] = float(np.log(sum(parts)))
        return known[name]

    return of


@pytest.mark.parametrize("name", MODELS)
def test_quadrature_is_within_its_bound(name, evidence):
    with fb.quadrature():
        found = MODELS[name][0].log_evidence()
    assert found.exactness.marks == ("quadrature",)
    assert found.exactness.error < 1e-5
    assert abs(float(found) - evidence(name)) <= found.exactness.error + 1e-9  # that of the oracle


@pytest.mark.parametrize("name", MODELS)
def test_monte_carlo_is_within_four_standard_errors(name, evidence):
    with fb.monte_carlo(KEY, 10_000):
        found = MODELS[name][0].log_evidence()
    assert found.exactness.marks == ("estimated(10000)",)
    assert abs(float(found) - evidence(name)) <= 4 * found.exactness.error < 0.1


@pytest.mark.parametrize("name", MODELS)
def test_exact_refuses(name):
    with pytest.raises(Intractable, match="has no closed form") as error:
        MODELS[name][0].log_evidence()
    assert "fb.quadrature()" in str(error.value) and "fb.monte_carlo" in str(error.value)


# -- marginals, posterior, predictions ------------------------------------------------------------------------------


def moments_of_schools():
    """Of tau, and of mu at each tau in closed form."""
    quad = lambda f: sum(integrate.quad(f, *ends, epsabs=0, limit=200)[0] for ends in ((0, 50), (50, np.inf)))  # noqa: E731
    total = quad(school_weight)

    def mean_of_mu(tau):
        precision = 1 / (ERRORS**2 + tau**2)
        return np.sum(precision * EFFECTS) / (np.sum(precision) + 1 / 25)

    def variance_of_mu(tau):
        return 1 / (np.sum(1 / (ERRORS**2 + tau**2)) + 1 / 25)

    tau = quad(lambda t: t * school_weight(t)) / total
    mu = quad(lambda t: mean_of_mu(t) * school_weight(t)) / total
    second = quad(lambda t: (variance_of_mu(t) + mean_of_mu(t) ** 2) * school_weight(t)) / total
    return tau, mu, second - mu**2


def test_marginals_by_quadrature():
    post, (tau, mu, variance) = schools().condition(y=EFFECTS), moments_of_schools()
    with fb.quadrature():
        assert float(post.marginal("tau").mean("tau")) == pytest.approx(tau, rel=1e-7)
        found = post.marginal("mu")
    assert float(found.mean("mu")) == pytest.approx(mu, rel=1e-7)
    assert float(found.variance("mu")) == pytest.approx(variance, rel=1e-7)
    assert found.exactness.marks == ("quadrature",)
    assert float(found.sum("mu")) == pytest.approx(1, rel=1e-9)


def test_marginals_by_monte_carlo():
    post, (_, mu, variance) = schools().condition(y=EFFECTS), moments_of_schools()
    with fb.monte_carlo(KEY, 20_000):
        found = post.marginal("mu")
    assert float(found.mean("mu")) == pytest.approx(mu, abs=0.1)
    assert float(found.variance("mu")) == pytest.approx(variance, rel=0.03)
    assert found.exactness.marks == ("estimated(20000)", "16,384 of the points")


def test_a_grid_of_more_points_than_a_mixture_has_says_so():
    """A kink takes a fine grid; the marginal has fewer points, of one weight, and no bound on their error."""

    @fb.model
    def levels():
        s = yield dist.Normal(0.0, 1.0)
        t = yield dist.Normal(0.0, 1.0)
        y = yield dist.Laplace(jnp.exp(s) + jnp.exp(t), 1.0)

    with fb.quadrature():
        found = levels().condition(y=0.5).marginal("t")
        shares = found.sum("t")
    assert found.exactness.marks == ("quadrature", "16,384 of the points")
    assert found.exactness.error is None
    assert float(shares) == pytest.approx(1, rel=1e-9)


@fb.model
def shifted():
    m = yield dist.Normal(0.0, 1.0)
    t = yield dist.Normal(jnp.exp(m), 1.0)


def test_a_marginal_where_all_latents_have_a_closed_form_in_another_order():
    """t is eliminated first and m then, though t cannot be last: points of m, and the normal of t at each."""
    with pytest.raises(Intractable, match=r"marginal\('t'\): the integral over 'm' has no closed form"):
        shifted().marginal("t")
    with fb.quadrature():
        found = shifted().marginal("t")
    assert float(found.mean("t")) == pytest.approx(np.exp(0.5), rel=1e-8)
    assert float(found.variance("t")) == pytest.approx(1 + (np.e - 1) * np.e, rel=1e-8)
    assert found.exactness.marks == ("quadrature",)


def test_moment_matching_of_an_approximate_mixture():
    """Interpretations nest: points of tau by quadrature, and one Gaussian for the mixture over them."""
    post, (_, mu, variance) = schools().condition(y=EFFECTS), moments_of_schools()
    with fb.quadrature(), fb.moment_matching():
        found = post.marginal("mu")
    assert isinstance(found, fb.Gaussian)
    assert float(found.mean("mu")) == pytest.approx(mu, rel=1e-7)
    assert float(found.variance("mu")) == pytest.approx(variance, rel=1e-7)
    assert found.exactness.marks == ("quadrature", "projected(moment_matching(window=1))")


@fb.model
def of_two():
    k = yield dist.Bernoulli(0.3)
    x = yield dist.Normal(jnp.where(k == 1, -2.0, 1.0), jnp.where(k == 1, 0.5, 2.0))
    y = yield dist.Normal(x, 1.0)


def test_moment_matching_reaches_models():
    post = of_two().condition(y=0.7)
    exact = post.marginal("x")
    with fb.moment_matching():
        found = post.marginal("x")
    assert isinstance(found, fb.Gaussian) and isinstance(exact, fb.Mixture)
    assert float(found.mean("x")) == pytest.approx(float(exact.mean("x")), rel=1e-12)
    assert float(found.variance("x")) == pytest.approx(float(exact.variance("x")), rel=1e-12)
    assert not found.exactness.is_exact


def test_posterior_by_quadrature():
    post = shape().condition(y=COUNTS)
    with fb.quadrature():
        whole = post.posterior()
        total = float(whole.sum("a", "r"))
        mean = float(whole.sum("a").mean("r"))
        alone = float(post.marginal("r").mean("r"))
    assert total == pytest.approx(1, rel=1e-9)
    assert mean == pytest.approx(alone, rel=1e-9)


def test_predictions_by_quadrature():
    post = logistic().condition(y=Y)
    with fb.quadrature():
        drawn = post.predict(KEY, "y", draws=4000)
    total = integrate.quad(MODELS["logistic"][1], -15, 15)[0]
    chance = [
        integrate.quad(lambda w, x=x: MODELS["logistic"][1](w) / (1 + np.exp(-w * x)), -15, 15)[0] / total for x in X
    ]
    np.testing.assert_allclose(drawn.mean(axis=0), chance, atol=0.03)


def test_evidence_of_rivals(evidence):
    """A bound too small to show is not shown; a standard error is."""
    rivals = {"one": logistic().condition(y=Y), "two": logistic_with_intercept().condition(y=Y)}
    with fb.quadrature():
        bounded = fb.compare(**rivals)
    with fb.monte_carlo(KEY, 1000):
        estimated = fb.compare(**rivals)
    for table in (bounded, estimated):
        assert abs(table["one"].log_evidence - evidence("logistic")) <= 4 * table["one"].error + 1e-9
    assert bounded["two"].error < 1e-5 < estimated["two"].error
    assert "error" not in str(bounded) and "error" in str(estimated)


def test_single_precision():
    post = logistic_in(jnp.asarray(X)).condition(y=jnp.asarray(Y))
    with fb.quadrature():
        found = post.log_evidence()
    assert found.data.dtype == jnp.float32
    truth = np.log(integrate.quad(MODELS["logistic"][1], -15, 15)[0])
    assert abs(float(found) - truth) <= found.exactness.error < 1e-6


@fb.model
def logistic_in(inputs):
    w = yield dist.Normal(0.0, 1.0)
    y = yield dist.Bernoulli(logits=w * inputs)


# -- what cannot be answered says so --------------------------------------------------------------------------------


@fb.model
def wide(size=4):
    w = yield dist.Normal(0.0, 1.0).expand([size])
    y = yield dist.Bernoulli(logits=jnp.sum(w**3) * X)


@pytest.mark.parametrize("size", [4, 10])
def test_quadrature_over_too_many_numbers(size):
    with fb.quadrature(), pytest.raises(Intractable, match="at most 3 numbers") as error:
        wide(size).condition(y=Y).log_evidence()
    assert f"{size} numbers of 'w'" in str(error.value) and "fb.monte_carlo" in str(error.value)
    assert all(part in str(error.value) for part in ("expected:", "nearest:", "to do:"))


def test_monte_carlo_over_more_numbers():
    """Σ w³ has a characteristic function, but draws of it are simpler: a million of the prior are the truth."""
    with fb.monte_carlo(KEY, 5000):
        found = wide().condition(y=Y).log_evidence()
    logits = np.sum(np.random.default_rng(0).normal(size=(1_000_000, 4)) ** 3, axis=1)[:, None] * X
    truth = np.log(np.mean(np.prod(1 / (1 + np.exp(-(2 * Y - 1) * logits)), axis=1)))
    assert abs(float(found) - truth) <= 4 * found.exactness.error + 0.003 < 0.15


def test_monte_carlo_compiles_once():
    """Another key compiles nothing."""
    with fb.monte_carlo(KEY, 100):
        logistic().condition(y=Y).log_evidence()
    compiled = [event for event in TRACED if "backend" in event]
    with fb.monte_carlo(jax.random.key(1), 100):
        logistic().condition(y=Y).log_evidence()
    assert [event for event in TRACED if "backend" in event] == compiled


def test_draws_that_cannot_follow():
    @fb.model
    def narrow():
        w = yield dist.Normal(0.0, 1.0)
        y = yield dist.Uniform(jnp.sinh(w), jnp.sinh(w) + 1e-9)

    post = narrow().condition(y=0.3)
    with fb.monte_carlo(KEY, 100), pytest.raises(Intractable, match="from 100 draws") as error:
        post.log_evidence()
    assert "have density 0" in str(error.value) and "a larger n" in str(error.value)
    with pytest.raises(Intractable, match=r'method="smc" with .* points for each chain') as other:
        post.infer(KEY, draws=20, chains=1, method="smc", progress=False)
    assert "have density 0" in str(other.value) and "more draws" in str(other.value)
    assert all(part in str(each.value) for part in ("expected:", "nearest:", "to do:") for each in (error, other))


def test_under_jit():
    with fb.quadrature(), pytest.raises(DomainError, match="jit"):
        jax.jit(lambda x: logistic_in(x).condition(y=Y).log_evidence().data)(X)


@pytest.mark.parametrize("interpretation", [fb.quadrature, lambda: fb.monte_carlo(KEY, 1000)])
def test_known_numbers_under_jit(interpretation):
    with interpretation():
        eager = logistic().condition(y=Y).log_evidence()
    with interpretation():
        traced = jax.jit(lambda: logistic().condition(y=Y).log_evidence().data)()
    assert float(traced) == pytest.approx(float(eager), rel=1e-6)


def test_a_traced_key():
    def estimate(key):
        with fb.monte_carlo(key, 1000):
            return logistic().condition(y=Y).log_evidence().data

    assert np.isfinite(estimate(KEY))
    with pytest.raises(DomainError, match="a key that is known") as error:
        jax.jit(estimate)(KEY)
    assert "ask outside of jit" in str(error.value)


@pytest.mark.parametrize("interpretation", [fb.quadrature, lambda: fb.monte_carlo(KEY, 1000)])
def test_a_discrete_latent(interpretation):
    @fb.model
    def counted():
        k = yield dist.Poisson(3.0)
        y = yield dist.Normal(jnp.exp(-0.1 * k), 1.0)

    post = counted().condition(y=0.3)
    with pytest.raises(Intractable, match="over 'k' has no closed form"):
        post.log_evidence()
    with interpretation(), pytest.raises(DomainError, match="discrete: 'k'") as error:
        post.log_evidence()
    assert "infer(key)" in str(error.value)


@pytest.mark.parametrize("interpretation", [fb.quadrature, lambda: fb.monte_carlo(KEY, 1000)])
def test_a_parameter_that_may_leave_its_family(interpretation):
    """The evidence is that of positive w, and the warning of infer says so."""

    @fb.model
    def real_scale():
        w = yield dist.Normal(0.0, 1.0)
        y = yield dist.Normal(0.0, w)

    post = real_scale().condition(y=0.3)
    with pytest.raises(Intractable):  # and no warning, which would be an error here
        post.log_evidence()
    with interpretation(), pytest.warns(Restriction, match="scale=.*\n.*\n.*\n.*taken to be impossible"):
        found = post.log_evidence()
    truth = integrate.quad(lambda w: stats.norm.pdf(w) * stats.norm.pdf(0.3, 0, w), 0, 12)[0]
    assert float(found) == pytest.approx(np.log(truth), abs=0.2)


def test_every_reason_is_reported():
    @fb.model
    def two_reasons():
        a = yield dist.LogNormal(0.0, 1.0)
        w = yield dist.Normal(0.0, 1.0)
        x = yield dist.Poisson(a)
        y = yield dist.Bernoulli(logits=w * X)

    with pytest.raises(Intractable) as error:
        two_reasons().condition(x=2, y=Y).log_evidence()
    assert "of 'a'" in str(error.value) and "of 'w'" in str(error.value)


def test_a_question_without_an_approximation():
    with fb.quadrature(), pytest.raises(Intractable, match=r"eliminate\('w'\)"):
        logistic().condition(y=Y).eliminate("w")


def test_an_interpretation_of_ones_own():
    """A rule for the head `integrate` reaches models: here, the mode alone with the volume of a normal."""
    rules = fb.RuleSet("mine.integrate", head=fb.heads.INTEGRATE)

    @rules.rule
    def integrate_at_modes(integral: OpenIntegral) -> WeightedPoints:
        """∫ f  ≈  f(mode) √(2π)ᵈ |Σ|^½"""
        density = integral.density()
        (normal,) = density.normals()
        volume = 0.5 * density.size * np.log(2 * np.pi)
        return WeightedPoints(normal.mode[None], np.array([normal.log_mass + volume]), projected("mine"))

    with fb.Interpretation("mine", (rules,), base=fb.exact):
        found = logistic().condition(y=Y).log_evidence()
    truth = np.log(integrate.quad(MODELS["logistic"][1], -15, 15)[0])
    assert float(found) == pytest.approx(truth, abs=0.05) and "mine" in str(found.exactness)
    assert found.exactness.error is None


def test_a_density_is_made_when_it_is_asked_for(monkeypatch):
    """Not under `exact`."""
    monkeypatch.setattr(approximate, "target_of", lambda *_: pytest.fail("the density was made"))
    with pytest.raises(Intractable, match="no closed form"):
        logistic().condition(y=Y).log_evidence()


def test_an_error_does_not_pass_through_jit():
    """A compiled function has no error of its results, rather than that of its first call."""
    passed = jax.jit(lambda value: value)
    with fb.quadrature():
        first, second = (model().condition(y=Y).log_evidence() for model in (logistic, logistic_with_intercept))
    assert first.exactness.error != second.exactness.error
    for found in (first, second):
        assert passed(found).exactness.marks == ("quadrature",) and passed(found).exactness.error is None


def test_a_site_may_be_called_point():
    @fb.model
    def located():
        point = yield dist.Normal(0.0, 1.0)
        y = yield dist.Bernoulli(logits=point * X)

    with fb.quadrature():
        means = [
            float(located().condition(y=Y).marginal("point").mean("point")),
            float(located().condition(y=Y).posterior().mean("point")),
            float(logistic().condition(y=Y).marginal("w").mean("w")),
        ]
    assert means == pytest.approx([means[2]] * 3, rel=1e-6)
