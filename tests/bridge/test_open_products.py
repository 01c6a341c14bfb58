"""Products of densities that no rule of factors joins: evidence, posterior, marginals and draws, exact."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import betaln, gammaln

import fubini as fb
from fubini import dist, ops
from fubini.errors import DataError
from fubini.terms.factor import Unit, Weight
from fubini.terms.value import to_array

KEY = jax.random.key(0)
r, p, v = fb.Variable("r", fb.Positive), fb.Variable("p", fb.Unit), fb.Variable("v", fb.Positive)
m, x = fb.Variable("m", fb.Real), fb.Variable("x", fb.Real)
COUNTS = np.array([1, 3, 0, 4])
NOISY = np.array([0.3, 1.2, -0.4, 0.8])


def gamma_poisson(counts=4):
    return dist.Gamma(2.0, 3.0)("r") * dist.Poisson(r)(counts)


def log_gamma_poisson(counts, a=2.0, b=3.0):
    """Σ over counts of one rate."""
    counts = np.atleast_1d(counts)
    shape, rate = a + counts.sum(), b + len(counts)
    return gammaln(shape) - gammaln(a) + a * np.log(b) - shape * np.log(rate) - gammaln(counts + 1).sum()


# -- evidence -------------------------------------------------------------------------------------------------------


def test_a_rate_of_one_count():
    total = gamma_poisson().sum("r")
    assert isinstance(total, fb.Table)
    assert float(total) == pytest.approx(stats.nbinom.pmf(4, 2, 3 / 4), rel=1e-12)
    assert not total.exactness.marks


def test_a_rate_of_many_counts():
    plate = dist.Poisson(r)(fb.Array(COUNTS, ("i",)))
    expected = log_gamma_poisson(COUNTS)
    whole = (dist.Gamma(2.0, 3.0)("r") * plate.product("i")).sum("r")
    assert float(whole.log()) == pytest.approx(expected, rel=1e-12)
    planned = fb.eliminate([dist.Gamma(2.0, 3.0)("r"), plate], ["r"], plates=["i"])
    assert float(planned.log()) == pytest.approx(expected, rel=1e-12)


def test_a_rate_for_each_cell():
    shapes = np.array([1.0, 2.0, 3.0, 4.0])
    product = dist.Gamma(fb.Array(shapes, ("i",)), 3.0)("r") * dist.Poisson(r)(fb.Array(COUNTS, ("i",)))
    np.testing.assert_allclose(product.sum("r").weights, stats.nbinom.pmf(COUNTS, shapes, 3 / 4), rtol=1e-12)


def test_a_variable_that_is_kept():
    shape = fb.Variable("s", fb.Positive)
    left = (dist.Gamma(shape, 3.0)("r") * dist.Poisson(r)(4)).sum("r")
    assert set(left.inputs) == {"s"}
    assert float(left(s=2.0)) == pytest.approx(stats.nbinom.pmf(4, 2, 3 / 4), rel=1e-12)
    many = left(s=fb.Array(np.array([1.0, 2.0]), ("k",)))
    np.testing.assert_allclose(many.weights, stats.nbinom.pmf(4, [1, 2], 3 / 4), rtol=1e-10)


def test_labels_choose_the_prior():
    rates = fb.Array(np.array([1.0, 5.0]), ("k",))
    whole = fb.Table([0.3, 0.7], ("k",)) * dist.Gamma(2.0, rates)("r") * dist.Poisson(r)(4)
    parts = np.array([0.3, 0.7]) * stats.nbinom.pmf(4, 2, np.array([1 / 2, 5 / 6]))
    np.testing.assert_allclose(whole.sum("r").weights, parts, rtol=1e-12)
    assert float(whole.sum("r", "k")) == pytest.approx(parts.sum(), rel=1e-12)
    np.testing.assert_allclose(fb.marginals([whole], ["k"])["k"].weights, parts / parts.sum(), rtol=1e-12)


def test_probabilities_chosen_through_a_gather():
    t = fb.Variable("t", fb.Unit.with_shape((3,)))
    group, hit = np.array([0, 2, 2, 1, 0]), np.array([1, 0, 1, 1, 1])
    at = fb.Array(group, ("j",), fb.Bint[3])
    whole = dist.Beta(2.0, 3.0).expand([3])("t") * dist.Bernoulli(t[at])(fb.Array(hit, ("j",))).product("j")
    hits, misses = (np.bincount(group, hit == k, 3) for k in (1, 0))
    assert float(whole.sum("t").log()) == pytest.approx(np.sum(betaln(2 + hits, 3 + misses) - betaln(2, 3)), rel=1e-12)
    posterior = whole.normalize()
    np.testing.assert_allclose(posterior.mean("t").data, (2 + hits) / (5 + hits + misses), rtol=1e-12)


def test_words_of_a_topic():
    share = fb.Variable("p", fb.Simplex[3])
    prior, words = np.array([1.0, 2.0, 0.5]), np.array([0, 2, 2, 1])
    seen = dist.Categorical(share)(fb.Array(words, ("j",), fb.Bint[3])).product("j")
    whole = dist.Dirichlet(prior)("p") * seen
    after = prior + np.bincount(words)
    expected = gammaln(prior.sum()) - gammaln(prior).sum() + gammaln(after).sum() - gammaln(after.sum())
    assert float(whole.sum("p").log()) == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(whole.normalize().mean("p").data, after / after.sum(), rtol=1e-12)


@fb.model
def unknown_noise():
    v = yield dist.InverseGamma(3.0, 2.0)
    m = yield dist.Normal(0.0, jnp.sqrt(v))
    y = yield dist.Normal(m, jnp.sqrt(v)).expand([4])


def unknown_noise_factors():
    y = fb.Array(NOISY, ("i",))
    seen = dist.Normal(m, ops.sqrt(v))(y)
    return [dist.InverseGamma(3.0, 2.0)("v"), dist.Normal(0.0, ops.sqrt(v))("m"), seen]


@pytest.mark.parametrize("order", [("v", "m"), ("m", "v")])
def test_location_and_noise_in_any_order(order):
    expected = float(unknown_noise().condition(y=NOISY).log_evidence())
    found = fb.eliminate(unknown_noise_factors(), order, plates=["i"])
    assert float(found.log()) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", ["v", "m"])
def test_marginals_of_location_and_noise(name):
    prior, location, seen = unknown_noise_factors()
    found = fb.marginals([prior, location, seen.product("i")], [name])[name]
    expected = unknown_noise().condition(y=NOISY).marginal(name)
    assert found.distribution.family == expected.distribution.family
    at = 0.7
    assert float(found(**{name: at}).log()) == pytest.approx(float(expected(**{name: at}).log()), rel=1e-10)


@pytest.fixture(scope="module")
def regression():
    random = np.random.default_rng(0)
    X = random.normal(size=(30, 3))
    return X, X @ np.array([1.0, -1.0, 0.5]) + random.normal(size=30)


def regression_factors(X, y):
    w = fb.Variable("w", fb.Reals[3])
    coefficients = dist.Normal(0.0, ops.sqrt(v)).expand([3])("w")
    return [dist.InverseGamma(3.0, 2.0)("v"), coefficients, dist.Normal(X @ w, ops.sqrt(v))(y)]


def regression_posterior(X, y):
    @fb.model
    def model():
        v = yield dist.InverseGamma(3.0, 2.0)
        w = yield dist.Normal(0.0, jnp.sqrt(v)).expand([3])
        y = yield dist.Normal(X @ w, jnp.sqrt(v))

    return model().condition(y=y)


def test_a_regression_with_unknown_noise(regression):
    factors, post = regression_factors(*regression), regression_posterior(*regression)
    assert float(fb.eliminate(factors, ["v", "w"]).log()) == pytest.approx(float(post.log_evidence()), rel=1e-10)
    for name in ("v", "w"):
        found, expected = fb.marginals(factors, [name])[name], post.marginal(name)
        np.testing.assert_allclose(found.mean(name).data, expected.mean(name).data, rtol=1e-9)
        np.testing.assert_allclose(found.variance(name).data, expected.variance(name).data, rtol=1e-8)


# -- posteriors and draws -------------------------------------------------------------------------------------------


def test_a_posterior_is_recognised():
    found = gamma_poisson().normalize()
    assert found.distribution.family == "Gamma"
    assert float(found.mean("r")) == pytest.approx(6 / 4)
    assert float(gamma_poisson().mean("r")) == pytest.approx(6 / 4)
    assert float(gamma_poisson().variance("r")) == pytest.approx(6 / 16)


def test_draws_of_a_rate():
    drawn = gamma_poisson().sample(KEY, n=20_000)["r"]
    assert stats.kstest(drawn, stats.gamma(6, scale=1 / 4).cdf).pvalue > 1e-4


def test_draws_of_location_and_noise():
    prior, location, seen = unknown_noise_factors()
    drawn = fb.sample(KEY, [prior, location, seen.product("i")], ["v", "m"], n=20_000)
    post = unknown_noise().condition(y=NOISY)
    for name in ("v", "m"):
        mean = float(post.marginal(name).mean(name))
        error = np.std(drawn[name]) / np.sqrt(len(drawn[name]))
        assert abs(np.mean(drawn[name]) - mean) < 4 * error
    spread = drawn["m"] / np.sqrt(drawn["v"])  # the location is wider where the noise is
    assert abs(np.corrcoef(np.abs(drawn["m"] - 0.38), np.sqrt(drawn["v"]))[0, 1]) > 0.1 and np.isfinite(spread).all()


# -- engines --------------------------------------------------------------------------------------------------------


def log_evidence(a, counts):
    return (dist.Gamma(a, 3.0)("r") * dist.Poisson(r)(counts)).sum("r").log().data


def test_jax_gives_the_same_and_derivatives():
    expected = log_gamma_poisson(4)
    assert float(jax.jit(log_evidence)(2.0, 4)) == pytest.approx(expected, rel=1e-5)
    step = 1e-6
    slope = (log_gamma_poisson(4, 2 + step) - log_gamma_poisson(4, 2 - step)) / (2 * step)
    assert float(jax.grad(log_evidence)(2.0, 4)) == pytest.approx(slope, rel=1e-4)
    np.testing.assert_allclose(
        jax.vmap(lambda a: log_evidence(a, 4))(jnp.array([1.0, 2.0])),
        [log_gamma_poisson(4, 1.0), expected],
        rtol=1e-5,
    )
    assert float(log_evidence(2.0, 4)) == pytest.approx(expected, rel=1e-12)


def test_new_numbers_run_the_same_plan(monkeypatch):
    from fubini.bridge import disintegration as disintegrate

    gamma_poisson(fb.Array(np.array([5, 2]), ("i",))).sum("r")
    monkeypatch.setattr(disintegrate, "_recipe", lambda *_: pytest.fail("the plan was made again"))
    gamma_poisson(fb.Array(np.array([5, 2]), ("i",))).sum("r")


# -- supports, and integrals that diverge -----------------------------------------------------------------------------


def test_a_density_integrates_to_one_over_a_larger_domain():
    assert float(dist.HalfNormal(1.0)(x).sum("x")) == pytest.approx(1.0)


def test_a_point_outside_the_support_has_no_weight():
    assert float((dist.Gamma(2.0, 1.0)("r") * dist.Exponential(r)(-1.0)).sum("r")) == 0.0
    mixed = dist.Gamma(2.0, 1.0)("r") * dist.Exponential(r)(fb.Array(np.array([1.0, -1.0, 2.0]), ("i",)))
    np.testing.assert_allclose(mixed.sum("r").weights, [2 / 2**3, 0.0, 2 / 3**3], rtol=1e-12)


def test_a_half_line_is_not_taken_for_the_line():
    """Right or refused: the integral over the half line is not twice or half of it."""
    product = dist.HalfNormal(1.0)(x) * dist.Cauchy(x, 1.0)(0.3)
    try:
        found = float(product.sum("x"))
    except fb.FubiniError:
        return
    expected = integrate.quad(lambda at: stats.halfnorm.pdf(at) * stats.cauchy.pdf(0.3, at), 0, np.inf)[0]
    assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    "product",
    [
        fb.weight(log=2.0 * ops.log(r)),
        fb.weight(log=-1.0 * ops.log(r)) * dist.Poisson(r)(0),
        dist.Poisson(r)(3) * fb.weight(log=2.0 * r),
    ],
)
def test_a_divergent_integral_is_an_error(product):
    with pytest.raises(fb.FubiniError):
        float(product.sum("r"))


def test_the_node_without_a_closed_form_is_named():
    with pytest.raises(fb.errors.Intractable, match=r"'r' needs .*\n.*to do:"):
        (dist.Gamma(0.5, 1.0)("r") * dist.Weibull(1.0, r)(3.0)).sum("r")


# -- no silent errors ------------------------------------------------------------------------------------------------


def test_what_is_approximate_stays_so():
    with fb.monte_carlo(KEY, 100):
        rate = fb.expectation(dist.Normal(0.0, 1.0)("x"), ops.exp(x), "x")
    product = dist.Gamma(2.0, rate)("r") * dist.Poisson(r)(4)
    shape = fb.Variable("s", fb.Positive)
    asked = (product.sum("r"), product.normalize(), (dist.Gamma(shape, rate)("r") * dist.Poisson(r)(4)).sum("r"))
    assert all(str(answer.exactness) == "estimated(100)" for answer in (rate, product, *asked))


def test_numbers_that_a_function_reads_may_change():
    scale = np.array([1.0])
    times_scale = fb.lift(lambda x: scale[0] * x)

    def evidence():
        return float((dist.Gamma(2.0, 3.0)("r") * dist.Poisson(times_scale(r))(4)).sum("r"))

    assert evidence() == pytest.approx(stats.nbinom.pmf(4, 2, 3 / 4), rel=1e-10)
    scale[0] = 3.0
    assert evidence() == pytest.approx(stats.nbinom.pmf(4, 2, 3 / 6), rel=1e-10)


def test_numbers_of_a_trace_do_not_stay():
    @jax.jit
    def evidence(scale):
        rate = fb.lift(lambda x: jnp.exp(scale) * x)(r)
        return (dist.Gamma(2.0, 3.0)("r") * dist.Poisson(rate)(4)).sum("r").log().data

    for scale in (1.0, 3.0):
        assert float(evidence(scale)) == pytest.approx(stats.nbinom.logpmf(4, 2, 3 / (3 + np.exp(scale))), rel=1e-5)


def test_no_mass_has_no_posterior():
    with pytest.raises(DataError, match="mass"):
        (dist.Gamma(2.0, 1.0)("r") * dist.Exponential(r)(-1.0)).normalize()


def test_posteriors_by_label():
    rates = np.array([1.0, 5.0])
    whole = dist.Gamma(2.0, fb.Array(rates, ("k",)))("r") * dist.Poisson(r)(4)
    np.testing.assert_allclose(to_array(whole.mean("r")).array, 6 / (rates + 1), rtol=1e-12)
    found = whole.normalize("r")
    np.testing.assert_allclose(found(r=0.7).weights, stats.gamma.pdf(0.7, 6, scale=1 / (rates + 1)), rtol=1e-10)


def test_a_label_that_does_not_matter_is_kept():
    left = (dist.Gamma(2.0, 3.0)("r") * dist.Poisson(r)(4) * Unit({"k": fb.Bint[3]})).sum("r")
    assert set(left.inputs) == {"k"}
    assert float(left.sum("k")) == pytest.approx(3 * stats.nbinom.pmf(4, 2, 3 / 4), rel=1e-12)


def test_infinite_integrals_are_reported():
    steep = dist.Gamma(0.5, 1.0)("r") * Weight(-2.2 * ops.log(r)) * dist.Exponential(r)(1.0)
    with pytest.raises(DataError, match="improper"):
        steep.sum("r")


def test_marginals_of_equal_labels_along_an_axis_have_all_their_places():
    probs = np.array([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])
    labels = dist.Categorical(probs=fb.Array(probs, ("k",), fb.Real[3])).expand([4])("z")
    found = fb.marginals([labels, dist.Gamma(2.0, 3.0)("r"), dist.Poisson(r)(4)], ["z"], batch=("k",))["z"]
    assert dict(found.inputs) == {"k": fb.Bint[2], "z_place": fb.Bint[4], "z": fb.Bint[3]}
    np.testing.assert_allclose(found.weights, np.broadcast_to(probs[:, None], (2, 4, 3)), rtol=1e-12)


def test_an_explanation_of_a_maximum_speaks_of_one():
    printed = str(fb.explain([dist.Gamma(2.0, 3.0)("r"), dist.Poisson(r)(4)], sum=("r",), semiring=fb.max_product))
    assert "max_r" in printed and "∫" not in printed
