"""A prior and observations with a closed integral: evidence, gradients, marginals and draws against quadrature.

Each case is written once, for distributions of `fubini` and of NumPyro: as a model, as a NumPyro function, as factors,
and as the integrand of the quadrature, which knows no record of a family.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as numpyro_families
import pytest
from numpyro.distributions import transforms
from scipy import integrate, special, stats

import fubini as fb
from fubini import dist
from fubini.models.flat_model import FlatModel


class Case(NamedTuple):
    """A prior and a density of data given x, of distributions, parameters t and, of the density, log."""

    prior: object
    data: object
    y: np.ndarray
    ends: tuple
    family: str  # of the posterior
    domain: object = fb.Positive


TIMES, SHARES, COUNTS = np.array([1.3, 2.1, 1.5]), np.array([0.3, 0.1, 0.5]), np.array([3, 1, 5])
CENSORED = np.array([0, 1, 1])
CASES = {
    "Gamma, Pareto": Case(
        lambda d, t: d.Gamma(t[0], t[1]), lambda d, t, x, log: d.Pareto(0.4 * t[2], x), TIMES, (0, 40), "Gamma"
    ),
    "Gamma, Weibull": Case(
        lambda d, t: d.Gamma(t[0], t[1] * t[2]), lambda d, t, x, log: d.Weibull(x**-0.4, 2.5), TIMES, (0, 40), "Gamma"
    ),
    "InverseGamma, Weibull": Case(
        lambda d, t: d.InverseGamma(t[0], t[1]), lambda d, t, x, log: d.Weibull(x, 2.0), TIMES, (0, 60), ""
    ),
    "Gamma, Kumaraswamy": Case(
        lambda d, t: d.Gamma(t[0], t[1]), lambda d, t, x, log: d.Kumaraswamy(t[2], x), SHARES, (0, 60), "Gamma"
    ),
    "LogNormal, LogNormal": Case(
        lambda d, t: d.LogNormal(t[0], t[1]),
        lambda d, t, x, log: d.LogNormal(0.5 * log(x) + t[2], 0.5),
        TIMES,
        (0, 400),
        "LogNormal",
    ),
    "Beta, NegativeBinomial": Case(
        lambda d, t: d.Beta(t[0], t[1]),
        lambda d, t, x, log: d.NegativeBinomial(3.0 * t[2], probs=x),
        COUNTS,
        (0, 1),
        "Beta",
        fb.Unit,
    ),
    "Beta, NegativeBinomial by logits": Case(
        lambda d, t: d.Beta(t[0], t[1]),
        lambda d, t, x, log: d.NegativeBinomialLogits(3.0 * t[2], log(x) - log(1.0 - x)),
        COUNTS,
        (0, 1),
        "Beta",
        fb.Unit,
    ),
    "Gamma, Exponential at a factor": Case(
        lambda d, t: d.Gamma(t[0], t[1]), lambda d, t, x, log: d.Exponential(t[2] * x), TIMES, (0, 40), "Gamma"
    ),
    "Gamma, right-censored Exponential": Case(
        lambda d, t: d.Gamma(t[0], t[1] * t[2]),
        lambda d, t, x, log: d.RightCensoredDistribution(d.Exponential(2.0 * x), censored=CENSORED),
        TIMES,
        (0, 40),
        "Gamma",
    ),
    "Gamma, right-censored Weibull": Case(
        lambda d, t: d.Gamma(t[0], t[1] * t[2]),
        lambda d, t, x, log: d.RightCensoredDistribution(d.Weibull(x**-0.5, 2.0), censored=CENSORED),
        TIMES,
        (0, 40),
        "Gamma",
    ),
    "Gamma, right-censored Pareto": Case(
        lambda d, t: d.Gamma(t[0], t[1]),
        lambda d, t, x, log: d.RightCensoredDistribution(d.Pareto(0.4 * t[2], x), censored=CENSORED),
        TIMES,
        (0, 40),
        "Gamma",
    ),
    "TruncatedNormal, Normal": Case(
        lambda d, t: d.TruncatedNormal(t[0] - 1.0, t[1], low=-0.2, high=2.0),
        lambda d, t, x, log: d.Normal(2.0 * x - t[2], 1.5),
        TIMES,
        (-0.2, 2.0),
        "TruncatedNormal",
        fb.Real,
    ),
    "TruncatedNormal without an end, Normal": Case(
        lambda d, t: d.TruncatedNormal(t[0], t[1], high=1.0),
        lambda d, t, x, log: d.Normal(t[2] * x, 1.5),
        TIMES,
        (-12.0, 1.0),
        "TruncatedNormal",
        fb.Real,
    ),
    "Uniform, Normal": Case(
        lambda d, t: d.Uniform(0.0, 1.5),
        lambda d, t, x, log: d.Normal(t[0] * x + t[1] * t[2], 1.5),
        TIMES,
        (0.0, 1.5),
        "TruncatedNormal",
        fb.Real,
    ),
    "HalfNormal, Normal": Case(
        lambda d, t: d.HalfNormal(t[0]),
        lambda d, t, x, log: d.Normal(t[1] - t[2] * x, 1.5),
        TIMES,
        (0.0, 12.0),
        "TruncatedNormal",
    ),
    "Exponential, Normal": Case(
        lambda d, t: d.Exponential(t[0]),
        lambda d, t, x, log: d.Normal(t[1] - t[2] * x, 1.5),
        TIMES,
        (0.0, 12.0),
        "TruncatedNormal",
    ),
    "Pareto, Uniform": Case(
        lambda d, t: d.Pareto(0.9 * t[0], t[1] + 2 * t[2]),
        lambda d, t, x, log: d.Uniform(0.0, x),
        TIMES,
        (2.1, 400.0),
        "Pareto",
        fb.Real,
    ),
    "Uniform, Pareto": Case(
        lambda d, t: d.Uniform(0.0, 1.5 + t[0]),
        lambda d, t, x, log: d.Pareto(x, t[1] * t[2]),
        TIMES,
        (0.0, 1.3),
        "DoublyTruncatedPowerLaw",
        fb.Real,
    ),
    "DoublyTruncatedPowerLaw, Uniform": Case(
        lambda d, t: d.DoublyTruncatedPowerLaw(t[0] * t[1] - t[2], 0.4, 5.0),
        lambda d, t, x, log: d.Uniform(-x, x),
        TIMES,
        (2.1, 5.0),
        "DoublyTruncatedPowerLaw",
        fb.Real,
    ),
    "affine Normal, Normal": Case(
        lambda d, t: d.TransformedDistribution(d.Normal(t[0], t[1]), transforms.AffineTransform(1.0, -2.0)),
        lambda d, t, x, log: d.Normal(x, t[2]),
        TIMES,
        (-20.0, 20.0),
        "Normal",
        fb.Real,
    ),
    "exponential of a Normal, LogNormal": Case(
        lambda d, t: d.TransformedDistribution(d.Normal(t[0], t[1]), [transforms.ExpTransform()]),
        lambda d, t, x, log: d.LogNormal(0.5 * log(x) + t[2], 0.5),
        TIMES,
        (0, 400),
        "LogNormal",
    ),
    "Gamma, intervals without an end": Case(
        lambda d, t: d.Gamma(t[0], t[1] * t[2]),
        lambda d, t, x, log: d.IntervalCensoredDistribution(d.Exponential(x), 0 * CENSORED, CENSORED),
        np.stack([TIMES, TIMES + CENSORED], axis=-1),
        (0, 40),
        "Gamma",
    ),
}
CLOSED = [name for name in CASES if name != "InverseGamma, Weibull"]  # x^p e^(−b/x − c/x²) is not
T = np.array([1.7, 0.9, 1.2])
DRAWS = 4000


def posterior(case, t):
    @fb.model
    def model():
        x = yield case.prior(dist, t)
        y = yield case.data(dist, t, x, jnp.log).expand([len(case.y)])

    return model().condition(y=case.y)


def quadrature(case, t, function=lambda x: 1.0):
    """∫ function(x) p(x) p(y | x) dx, by numpyro's densities."""
    with jax.enable_x64(True):
        log_joint = jax.jit(
            lambda x: (
                case.prior(numpyro_families, t).log_prob(x)
                + case.data(numpyro_families, t, x, jnp.log).log_prob(jnp.asarray(case.y)).sum()
            )
        )

        def integrand(x):
            return function(x) * np.exp(float(log_joint(x)))

        middle = min(max(case.ends[0] + 1.5, 0.0), sum(case.ends) / 2)
        sides = ((case.ends[0], middle), (middle, case.ends[1]))
        return sum(integrate.quad(integrand, *side, limit=200, epsabs=1e-13)[0] for side in sides)


@pytest.mark.parametrize("name", CLOSED)
def test_evidence(name):
    rng = np.random.default_rng(4)
    for _ in range(3):
        t = rng.uniform(0.6, 2.2, 3)
        with jax.enable_x64(True):
            value = posterior(CASES[name], t).log_evidence()
        assert value.exactness.is_exact
        assert float(value) == pytest.approx(np.log(quadrature(CASES[name], t)), rel=1e-7)


@pytest.mark.parametrize("name", CLOSED)
def test_evidence_of_a_numpyro_function(name):
    case = CASES[name]

    def function():
        x = numpyro.sample("x", case.prior(numpyro_families, T))
        with numpyro.plate("data", len(case.y)):
            numpyro.sample("y", case.data(numpyro_families, T, x, jnp.log), obs=case.y)

    value = fb.from_numpyro(function).log_evidence()
    assert value.exactness.is_exact
    assert float(value) == pytest.approx(np.log(quadrature(case, T)), rel=1e-4)


@pytest.mark.parametrize("name", CLOSED)
def test_evidence_of_factors(name):
    case = CASES[name]
    x = fb.Variable("x", case.domain)
    joint = case.prior(dist, T)("x") * case.data(dist, T, x, fb.ops.log).expand([len(case.y)])(case.y)
    value = joint.sum("x").log()
    assert value.exactness.is_exact
    assert float(value) == pytest.approx(np.log(quadrature(case, T)), rel=1e-4)


@pytest.mark.parametrize("name", CLOSED)
def test_gradient_and_draws_of_factors(name):
    """As of the model, in single precision."""
    case = CASES[name]
    x = fb.Variable("x", case.domain)

    def factors(t):
        return case.prior(dist, t)("x") * case.data(dist, t, x, fb.ops.log).expand([len(case.y)])(case.y)

    found = jax.jit(jax.grad(lambda t: factors(t).sum("x").log().data))(jnp.asarray(T, jnp.float32))
    expected = jax.jit(jax.grad(lambda t: posterior(case, t).log_evidence().data))(jnp.asarray(T, jnp.float32))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
    normal = factors(T).normalize("x")
    mean, variance = float(normal.mean("x")), float(normal.variance("x"))
    assert mean == pytest.approx(float(posterior(case, T).marginal("x").mean()), rel=1e-5)
    draws = np.asarray(normal.sample(jax.random.key(0), "x", n=DRAWS)["x"])
    assert draws.mean() == pytest.approx(mean, abs=5 * np.sqrt(variance / DRAWS))


@pytest.mark.parametrize("name", CLOSED)
def test_gradient(name):
    case = CASES[name]
    with jax.enable_x64(True):
        found = jax.jit(jax.grad(lambda t: posterior(case, t).log_evidence().data))(jnp.asarray(T))
    step = 1e-4
    for place in range(3):
        up, down = (np.log(quadrature(case, T + move * step * np.eye(3)[place])) for move in (1, -1))
        assert found[place] == pytest.approx((up - down) / (2 * step), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("name", CLOSED)
def test_marginal_and_draws(name):
    """A density of the family that was recognised, and draws with its moments."""
    case, post = CASES[name], posterior(CASES[name], T)
    mass = quadrature(case, T)
    mean = quadrature(case, T, lambda x: x) / mass
    variance = quadrature(case, T, lambda x: (x - mean) ** 2) / mass
    marginal = post.marginal("x")
    assert marginal.exactness.is_exact and f"{case.family}(" in repr(marginal)
    assert float(marginal.mean("x")) == pytest.approx(mean, rel=1e-4)
    assert float(marginal.variance("x")) == pytest.approx(variance, rel=1e-3)
    draws = post.infer(jax.random.key(3), draws=DRAWS, chains=1, progress=False)
    assert draws.posterior.attrs["method"] == "exact"
    x = np.asarray(draws.posterior["x"])
    assert x.mean() == pytest.approx(mean, abs=5 * np.sqrt(variance / DRAWS))
    assert x.var() == pytest.approx(variance, rel=0.25)


def test_two_powers_of_a_scale_are_refused():
    with pytest.raises(fb.errors.Intractable, match="a family on positive numbers with the features"):
        posterior(CASES["InverseGamma, Weibull"], T).log_evidence()


@pytest.mark.parametrize("on", [np, jnp])
def test_values_below_the_scale_of_a_pareto_have_no_mass(on):
    @fb.model
    def model(scale):
        a = yield dist.Gamma(2.0, 1.0)
        y = yield dist.Pareto(scale, a).expand([2])

    with pytest.raises(fb.errors.DataError, match="some observation is impossible"):
        model(1.0).condition(y=on.array([0.5, 2.0])).log_evidence()
    inside = jax.jit(lambda scale: model(scale).condition(y=on.array([0.5, 2.0])).log_evidence().data)
    assert float(inside(1.0)) == -np.inf and np.isfinite(float(inside(0.4)))


INTERVALS = CASES["Gamma, intervals without an end"]


def intervals(y, right=CENSORED, t=T):
    """The factors of intervals of which some have no end."""
    data = dist.IntervalCensoredDistribution(dist.Exponential(fb.Variable("x", fb.Positive)), 0 * CENSORED, right)
    return INTERVALS.prior(dist, t)("x") * data(y)


@pytest.mark.parametrize("on", [np, jnp])
def test_intervals_without_an_end_as_factors(on):
    """Their tests and ends decide the plan: other numbers make another, in plates too, on the engine of the data."""
    expected = np.log(quadrature(INTERVALS, T))
    for given in (INTERVALS.y, INTERVALS.y, INTERVALS.y[::-1]):
        value = intervals(on.asarray(given), on.asarray(CENSORED if given is INTERVALS.y else CENSORED[::-1]))
        value = value.sum("x").log()
        assert float(value) == pytest.approx(expected, rel=1e-6) and isinstance(value.data, jax.Array) == (on is jnp)
    tests = [fb.Array(on.asarray(test), ("n",)) for test in (0 * CENSORED, CENSORED == 1)]
    each = dist.IntervalCensoredDistribution(dist.Exponential(fb.Variable("x", fb.Positive)), *tests)
    plate = INTERVALS.prior(dist, T)("x") * each(fb.Array(on.asarray(INTERVALS.y), ("n",))).product("n")
    assert float(plate.sum("x").log()) == pytest.approx(expected, rel=1e-6)


def test_intervals_with_two_ends_are_refused():
    """Also after those of the same shape that have none."""
    intervals(INTERVALS.y).sum("x")
    for y, right in ((INTERVALS.y + np.array([0.0, 1.0]), CENSORED), (INTERVALS.y, 0 * CENSORED)):
        with pytest.raises(fb.errors.Intractable, match="in log_one_minus_exp"):
            intervals(y, right).sum("x")
    with pytest.raises(fb.errors.Intractable, match="in log_one_minus_exp"):  # traced ones may have two
        jax.jit(lambda y: intervals(y).sum("x").log().data)(INTERVALS.y)


LEFT, RIGHT = np.array([0, 0, 1, 0, 1]), np.array([0, 1, 0, 0, 1])
BOUNDS = np.array([[0.3, 0.6], [0.5, 2.0], [0.1, 0.4], [0.7, 0.7], [0.2, 0.9]])
SIDES = {
    "left": lambda d, base: d.LeftCensoredDistribution(base, censored=LEFT),
    "right": lambda d, base: d.RightCensoredDistribution(base, censored=RIGHT),
    "interval": lambda d, base: d.IntervalCensoredDistribution(base, LEFT, RIGHT),
}
BASES = {
    "Normal": lambda d, a: d.Normal(a, 1.3),
    "LogNormal": lambda d, a: d.LogNormal(a, 1.3),
    "Weibull": lambda d, a: d.Weibull(1.2, 1.0 + a),
    "Pareto": lambda d, a: d.Pareto(0.05, a),
}


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("base", BASES)
def test_censored_density_is_numpyros(side, base):
    """Each kind of row, and the derivative of all."""
    y = BOUNDS if side == "interval" else BOUNDS[:, 1]

    @fb.model
    def model():
        a = yield dist.Gamma(2.0, 1.0)
        y = yield SIDES[side](dist, BASES[base](dist, a))

    with jax.enable_x64(True):
        reading = FlatModel(model().condition(y=y)).reading
        assert "log p" not in str(reading.terms["y"])
        found = jax.value_and_grad(lambda a: reading.log_density({"a": a}))(jnp.array(0.8))
        expected = jax.value_and_grad(
            lambda a: (
                numpyro_families.Gamma(2.0, 1.0).log_prob(a)
                + SIDES[side](numpyro_families, BASES[base](numpyro_families, a)).log_prob(y).sum()
            )
        )(0.8)
        np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_a_left_censored_rate_is_refused():
    @fb.model
    def model():
        a = yield dist.Gamma(2.0, 1.0)
        y = yield dist.LeftCensoredDistribution(dist.Exponential(a), censored=CENSORED)

    with pytest.raises(fb.errors.Intractable, match="has no closed form here"):
        model().condition(y=TIMES).log_evidence()


# -- between two ends -----------------------------------------------------------------------------------------------


@fb.model
def far_out(low):
    """All mass is in a tail of what the data say."""
    x = yield dist.TruncatedNormal(0.0, 1.0, low=low).expand([2])
    y = yield dist.Normal(x, 1.0)


@pytest.mark.parametrize("wide", [False, True])
def test_far_out_in_a_tail(wide):
    """Evidence, moments and draws, entry by entry, in single precision too."""
    low, y = 6.0, np.array([-3.0, 0.5])
    with jax.enable_x64(wide):
        post = far_out(low).condition(y=y)
        log_p = float(post.log_evidence())
        mean, variance = post.marginal("x").mean("x").data, post.marginal("x").variance("x").data
        x = np.asarray(post.infer(jax.random.key(1), draws=2000, chains=1, progress=False).posterior["x"])[0]
        mode = np.asarray(post.map().x)
    whole = stats.norm(0, np.sqrt(2)).logpdf(y) + stats.norm(y / 2, np.sqrt(0.5)).logsf(low) - stats.norm.logsf(low)
    exact = stats.truncnorm((low - y / 2) / np.sqrt(0.5), np.inf, y / 2, np.sqrt(0.5))
    assert log_p == pytest.approx(whole.sum(), rel=1e-5)
    np.testing.assert_allclose(mean, exact.mean(), rtol=1e-5)
    np.testing.assert_allclose(variance, exact.var(), rtol=2e-3)
    assert (x >= low).all() and np.isfinite(x).all() and np.array_equal(mode, [low, low])
    np.testing.assert_allclose(x.mean(0) - low, exact.mean() - low, rtol=0.15)


def test_a_uniform_latent_that_nothing_reads():
    @fb.model
    def model():
        u = yield dist.Uniform(-1.0, 3.0)
        m = yield dist.Normal(0.0, 1.0)
        y = yield dist.Normal(m, 1.0)

    post = model().condition(y=0.4)
    assert float(post.log_evidence()) == pytest.approx(stats.norm(0, np.sqrt(2)).logpdf(0.4), rel=1e-5)
    assert float(post.marginal("u").mean("u")) == pytest.approx(1.0)


def test_ends_that_data_set_are_refused():
    """The mass of x beyond the greatest of the data is no mass of a normal number."""

    @fb.model
    def model():
        x = yield dist.TruncatedNormal(0.0, 1.0, low=0.5)
        y = yield dist.Uniform(0.0, x).expand([3])

    with pytest.raises(fb.errors.Intractable, match="has no closed form here"):
        model().condition(y=SHARES).log_evidence()


BOUNDED = {
    "HalfNormal": (lambda d, t: d.HalfNormal(t[0]), (0.0, 14.0), fb.Positive),
    "Uniform": (lambda d, t: d.Uniform(-0.5, 1.0), (-0.5, 1.0), fb.Real),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_a_bounded_mean_beside_a_normal_one(name):
    """By quadrature over the bounded one; known, under jit with a gradient, and as factors, all keep its ends."""
    prior, ends, domain = BOUNDED[name]

    @fb.model
    def model(t):
        x = yield prior(dist, t)
        m = yield dist.Normal(0.0, t[1])
        y = yield dist.Normal(x + m, t[2]).expand([3])

    def log_p(t):
        whole = t[1] ** 2 + t[2] ** 2 * np.eye(3)
        log_prior = jax.jit(prior(numpyro_families, t).log_prob)

        def density(x):
            return np.exp(float(log_prior(x))) * stats.multivariate_normal(np.full(3, x), whole).pdf(TIMES - 1.2)

        return np.log(integrate.quad(density, *ends, epsabs=1e-12, limit=200)[0])

    def factors(t):
        x, m = fb.Variable("x", domain), fb.Variable("m", fb.Real)
        seen = dist.Normal(x + m, t[2]).expand([3])(jnp.asarray(TIMES - 1.2))
        return (prior(dist, t)("x") * dist.Normal(0.0, t[1])("m") * seen).sum("x", "m").log().data

    with jax.enable_x64(True):
        expected = log_p(T)
        slopes = [(log_p(T + step) - log_p(T - step)) / 2e-4 for step in 1e-4 * np.eye(3)]
        assert float(model(T).condition(y=TIMES - 1.2).log_evidence()) == pytest.approx(expected, rel=1e-7)
        for ask in (lambda t: model(t).condition(y=jnp.asarray(TIMES - 1.2)).log_evidence().data, factors):
            found = jax.jit(jax.value_and_grad(ask))(jnp.asarray(T))
            assert float(found[0]) == pytest.approx(expected, rel=1e-7)
            np.testing.assert_allclose(found[1], slopes, rtol=1e-4, atol=1e-6)


def test_two_truncated_means_in_one_observation_are_refused():
    @fb.model
    def model():
        a = yield dist.TruncatedNormal(0.0, 1.0, low=0.0)
        b = yield dist.TruncatedNormal(0.0, 1.0, low=0.0)
        y = yield dist.Normal(a + b, 1.0)

    with pytest.raises(fb.errors.Intractable, match="has no closed form here"):
        model().condition(y=1.0).log_evidence()


# -- transforms of numpyro ------------------------------------------------------------------------------------------


def test_a_location_and_a_scale_that_are_latent():
    """tau z + m of a standard normal z, for each group, is Normal(m, tau)."""

    def written(as_normal):
        def function():
            m = numpyro.sample("m", numpyro_families.Normal(0.0, 2.0))
            tau = numpyro.sample("tau", numpyro_families.HalfNormal(1.0))
            standard = numpyro_families.Normal(0.0, 1.0)
            moved = numpyro_families.TransformedDistribution(standard, transforms.AffineTransform(m, tau))
            with numpyro.plate("groups", 3):
                theta = numpyro.sample("theta", numpyro_families.Normal(m, tau) if as_normal else moved)
                numpyro.sample("y", numpyro_families.Normal(theta, 1.0), obs=TIMES)

        return fb.from_numpyro(function).eliminate("theta", "m").log_prob(tau=0.7)

    assert float(written(False)) == pytest.approx(float(written(True)), rel=1e-6)


ARRAYS = {
    "expanded": lambda d: d.Normal(0.0, 1.0).expand([3]),
    "one value": lambda d: d.Normal(0.0, 1.0).expand([3]).to_event(1),
    "an array": lambda d: d.Normal(np.zeros(3), 1.0),
    "a number": lambda d: d.Normal(0.0, 1.0),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_affine_transforms_of_arrays(name):
    """Each entry has its own location and scale, also where the scale is negative."""
    moved = transforms.AffineTransform(np.array([1.0, 2.0, 3.0]), np.array([1.0, -2.0, 0.5]))
    expected = stats.norm([1.0, 2.0, 3.0], np.sqrt([2.0, 5.0, 1.25])).logpdf(TIMES).sum()

    @fb.model
    def model():
        x = yield dist.TransformedDistribution(ARRAYS[name](dist), moved)
        y = yield dist.Normal(x, 1.0)

    def function():
        x = numpyro.sample("x", numpyro_families.TransformedDistribution(ARRAYS[name](numpyro_families), moved))
        numpyro.sample("y", numpyro_families.Normal(x, 1.0), obs=TIMES)

    x = fb.Variable("x", fb.Reals[3])
    factors = dist.TransformedDistribution(ARRAYS[name](dist), moved)("x") * dist.Normal(x, 1.0)(TIMES)
    answers = [
        model().condition(y=TIMES).log_evidence(),
        fb.from_numpyro(function).log_evidence(),
        factors.sum("x").log(),
    ]
    for found in answers:
        assert found.exactness.is_exact and float(found) == pytest.approx(expected, rel=1e-5)


def test_log1p_is_a_logarithm():
    """log-odds as jnp.log(p) - jnp.log1p(-p)"""

    @fb.model
    def model():
        p = yield dist.Beta(2.0, 1.5)
        y = yield dist.Bernoulli(logits=jnp.log(p) - jnp.log1p(-p)).expand([3])

    expected = special.betaln(4.0, 2.5) - special.betaln(2.0, 1.5)
    assert float(model().condition(y=np.array([0, 1, 1])).log_evidence()) == pytest.approx(expected, rel=1e-6)


def test_a_logarithm_of_an_array_that_is_not_read():
    """A log-normal number is not integrated out over its logarithm where a loop reads the number itself."""

    @fb.model
    def model():
        x = yield dist.LogNormal(0.3, 0.8)
        y = yield dist.LogNormal(jnp.log(jax.lax.fori_loop(0, 3, lambda i, s: s * x, 1.0)), 0.5)

    with pytest.raises(fb.errors.Intractable, match="has no closed form here"):
        model().condition(y=0.7).log_evidence()


def test_another_transform_stays_as_it_is():
    logistic = transforms.SigmoidTransform()
    assert "TransformedDistribution" in repr(dist.TransformedDistribution(dist.Normal(0.0, 1.0), logistic))


COUNTED = np.array([2, 0, 1, 5])


def odds_model(count):
    @fb.model
    def model():
        p = yield dist.Beta(2.0, 3.0)
        g = yield dist.Gamma(3.0, (1 - p) / p).expand([count])
        y = yield dist.Poisson(g)

    return model


@pytest.mark.parametrize("on", [np, jnp])
def test_a_chance_in_the_rates_of_gammas(on):
    """Gamma rates with the odds of a chance are summed to negative binomial counts, whose chance has a Beta prior."""
    post = odds_model(4)().condition(y=on.asarray(COUNTED))
    n, total = 3.0 * len(COUNTED), COUNTED.sum()
    counted = special.gammaln(3.0 + COUNTED) - special.gammaln(3.0) - special.gammaln(1.0 + COUNTED)
    expected = counted.sum() + special.betaln(2.0 + total, 3.0 + n) - special.betaln(2.0, 3.0)
    assert float(post.log_evidence()) == pytest.approx(expected, rel=1e-5)
    assert float(post.marginal("p").mean("p")) == pytest.approx((2 + total) / (5 + total + n), rel=1e-5)
    p = fb.Variable("p", fb.Unit)
    g = dist.Gamma(3.0, (1 - p) / p)("g") * dist.Poisson(fb.Variable("g", fb.Positive))(on.asarray(2))
    one = special.gammaln(5.0) - special.gammaln(3.0) - special.gammaln(3.0)
    one += special.betaln(4.0, 6.0) - special.betaln(2.0, 3.0)
    assert float((dist.Beta(2.0, 3.0)("p") * g).sum("g", "p").log()) == pytest.approx(one, rel=1e-5)
