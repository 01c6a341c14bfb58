"""Questions to a model agree on what has a closed form, and `explain` says which of them is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gammaln, logsumexp
from scipy.stats import gamma

import fubini as fb
from fubini import dist
from fubini.errors import DataError, FubiniError, Intractable, NoRule
from tests.catalogue.test_change_points import Y, change_of_mean_and_noise, change_of_variance_by_index
from tests.catalogue.ways import COIN, CROSSED, DIE, MEAN_AND_VARIANCE, REGRESSION, SCHOOLS

pytestmark = pytest.mark.right_or_refused

KEY = jax.random.key(0)
COUNTS = (  # disasters in coal mines, 1851 to 1961
    "454014340633402633545314415534252234213221111300101100310322011101010002100011023311211112420014000100000100101"
)
DISASTERS = np.array([int(count) for count in COUNTS])
YEARS = len(DISASTERS)


# -- a change point -------------------------------------------------------------------------------------------------


@fb.model
def coal(n):
    s = yield dist.DiscreteUniform(0, n - 1)
    early = yield dist.Gamma(2.0, 0.5)
    late = yield dist.Gamma(1.0, 1.0)
    y = yield dist.Poisson(jnp.where(jnp.arange(n) < s, early, late))


def evidence_of(a, b, counts):
    """log ∫ Gamma(rate; a, b) Π Poisson(count; rate)"""
    total, n = counts.sum(), len(counts)
    return a * np.log(b) - gammaln(a) + gammaln(a + total) - (a + total) * np.log(b + n) - gammaln(counts + 1).sum()


def early_rates():
    """The probability of each change point, and the Gamma of the rate before it."""
    parts = [evidence_of(2.0, 0.5, DISASTERS[:s]) + evidence_of(1.0, 1.0, DISASTERS[s:]) for s in range(YEARS)]
    counts = np.r_[0, np.cumsum(DISASTERS)[:-1]]
    return np.exp(parts - logsumexp(parts)), 2.0 + counts, 0.5 + np.arange(YEARS)


@pytest.mark.parametrize("array", [np.asarray, jnp.asarray], ids=["NumPy", "JAX"])
def test_a_rate_before_a_change_is_a_finite_mixture(array):
    weights, shape, rate = early_rates()
    found = coal(YEARS).condition(y=array(DISASTERS)).marginal("early")
    mean = weights @ (shape / rate)
    variance = weights @ (shape / rate**2 + (shape / rate) ** 2) - mean**2
    tolerance = 1e-9 if array is np.asarray else 1e-4
    assert float(found.mean("early")) == pytest.approx(mean, rel=tolerance)
    assert float(found.variance("early")) == pytest.approx(variance, rel=tolerance)
    assert float(found.sum("early")) == pytest.approx(1.0, rel=1e-6)
    for point in (0.5, 3.0):
        expected = np.log(weights @ gamma(shape, scale=1 / rate).pdf(point))
        assert float(found(early=point).log()) == pytest.approx(expected, rel=tolerance, abs=1e-4 * (tolerance > 1e-6))
    draws = np.asarray(found.sample(KEY, "early", n=4_000)["early"])
    assert abs(draws.mean() - mean) < 5 * np.sqrt(variance / 4_000)
    assert str(found).startswith("Σ_s")


def test_a_mixture_under_jit():
    mean = jax.jit(lambda y: coal(YEARS).condition(y=y).marginal("early").mean("early").data)(DISASTERS)
    weights, shape, rate = early_rates()
    assert float(mean) == pytest.approx(weights @ (shape / rate), rel=1e-4)


def test_impossible_data_have_no_mixture():
    @fb.model
    def bounded():
        s = yield dist.DiscreteUniform(0, 2)
        p = yield dist.Beta(1.0, 1.0)
        y = yield dist.Binomial(2, jnp.where(jnp.arange(4) < s, p, 0.0))

    with pytest.raises(DataError, match="positive density"):
        bounded().condition(y=np.array([1, 1, 1, 1])).marginal("p")


# -- what explain promises is answered ------------------------------------------------------------------------------


@fb.model
def local_labels(n):
    z = yield dist.Bernoulli(0.3).expand([n])
    m = yield dist.Normal(jnp.where(z == 1, 2.0, -1.0), 1.0)
    y = yield dist.Normal(m, 0.5)


@fb.model
def two_groups(x):
    v = yield dist.InverseGamma(3.0, 2.0)
    a = yield dist.Normal(0.0, jnp.sqrt(v))
    b = yield dist.Normal(0.0, jnp.sqrt(v)).expand([2])
    y = yield dist.Normal(a + x @ b, jnp.sqrt(v))


CASES = {
    "a coin": COIN["vectorised"][0],
    "a die": DIE["by logits, renamed"][0],
    "regression": REGRESSION["vectorised"][0],
    "crossed effects": CROSSED["vectorised"][0],
    "a mean and a variance": MEAN_AND_VARIANCE["by precision"][0],
    "a block under a scale": two_groups(np.array([[1.0, 0.2], [0.3, -1.0], [0.5, 0.5]])).condition(y=Y[:3]),
    "a change point": coal(12).condition(y=DISASTERS[35:47]),
    "a mean, noise and a change": change_of_mean_and_noise(7).condition(y=Y),
    "variances by index": change_of_variance_by_index(7).condition(y=Y),
    "few local labels": local_labels(3).condition(y=Y[:3]),
    "many local labels": local_labels(40).condition(y=np.linspace(-2.0, 3.0, 40)),
    "schools": SCHOOLS["reordered"],
}


def is_refused(ask):
    """Whether a question ends in an error of ours that says why."""
    try:
        ask()
    except (Intractable, NoRule) as error:
        assert "expected:" in str(error)
        return True
    return False


@pytest.mark.parametrize("name", CASES)
def test_explain_says_what_is_refused(name):
    post = CASES[name]
    report = fb.explain(post)
    refused = dict(report.refused)
    questions = {f"marginal({site!r})": lambda site=site: post.marginal(site) for site in post.names}
    questions["posterior()"] = post.posterior
    if report.remaining:
        assert "have no closed form" in report.verdict
        assert all(map(is_refused, (post.log_evidence, *questions.values(), lambda: post.predict(KEY, draws=1))))
        return
    assert np.isfinite(float(post.log_evidence()))
    assert {question for question, ask in questions.items() if is_refused(ask)} == refused.keys() - {"map()"}
    assert all(f"not {question}: " in str(report) for question in refused)
    assert ("map()" in refused) == any(post.outline[site].domain.is_discrete for site in post.names)


POINTS = {
    "a coin": dict(p=0.3),
    "a block under a scale": dict(v=0.7, a=0.2, b=np.array([0.1, -0.5])),
    "a change point": dict(s=4, early=2.5, late=0.8),
    "few local labels": dict(z=np.array([0, 1, 0]), m=np.array([-0.5, 1.0, 0.3])),
}


@pytest.mark.parametrize("name", POINTS)
def test_a_posterior_is_the_joint_over_the_evidence(name):
    post, at = CASES[name], POINTS[name]
    found = post.posterior()
    expected = float(post.log_prob(**at)) - float(post.log_evidence())
    assert float(found(**at).log()) == pytest.approx(expected, rel=1e-5)


def test_a_posterior_of_a_block_under_a_scale_is_drawn_and_sums_to_one():
    post = CASES["a block under a scale"]
    found = post.posterior()
    assert float(found.sum("v", "a", "b")) == pytest.approx(1.0, rel=1e-6)
    draws = found.sample(KEY, "v", "a", "b", n=4_000)
    for site in ("a", "b"):
        exact = post.marginal(site)
        mean, variance = np.asarray(exact.mean(site).data), np.asarray(exact.variance(site).data)
        assert np.all(np.abs(np.asarray(draws[site]).mean(0) - mean) < 5 * np.sqrt(variance / 4_000))


# -- comparisons are of one set of data -----------------------------------------------------------------------------


@fb.model
def level(scale, n):
    m = yield dist.Normal(0.0, scale)
    y = yield dist.Normal(m, 1.0).expand([n])


@fb.model
def level_one_by_one(scale):
    m = yield dist.Normal(0.0, scale)
    for place in range(3):
        yield dist.Normal(m, 1.0).named(f"y{place}")


SEEN = np.array([0.3, -0.2, 1.0])


@pytest.mark.parametrize("other", [SEEN[:2], SEEN + 0.1, SEEN[::-1]], ids=["fewer", "shifted", "reversed"])
def test_posteriors_on_other_data_are_not_compared(other):
    with pytest.raises(DataError, match="same observed values") as caught:
        fb.compare(a=level(1.0, 3).condition(y=SEEN), b=level(1.0, len(other)).condition(y=other))
    assert all(part in str(caught.value) for part in ("compare(", "expected:", "nearest:", "to do:"))


def test_a_model_without_data_is_not_compared_with_one_that_has_some():
    with pytest.raises(FubiniError, match="same observed values"):
        fb.compare(a=level(1.0, 3), b=level(1.0, 3).condition(y=SEEN))


def test_models_of_the_same_data_are_compared():
    found = fb.compare(
        narrow=level(0.1, 3).condition(y=SEEN),
        wide=level(1.0, 3).condition(y=jnp.asarray(SEEN)),
        looped=level_one_by_one(1.0).condition(y0=SEEN[0], y1=SEEN[1], y2=SEEN[2]),
    )
    assert found["wide"].log_evidence == pytest.approx(found["looped"].log_evidence, rel=1e-6)
