"""Latents whose density is a power between two ends that data set: uniform numbers, Paretos and their scales."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

import fubini as fb
from fubini import dist
from fubini.numerics.power_laws import draw_power, log_integral_of_power, mean_of_power, variance_of_power

Y = np.array([0.5, 1.7, 1.2])


@fb.model
def largest(scale, alpha):
    x = yield dist.Pareto(scale, alpha)
    y = yield dist.Uniform(0.0, x).expand([3])


@fb.model
def least(high, alpha):
    x = yield dist.Uniform(0.0, high)
    y = yield dist.Pareto(x, alpha).expand([3])


def largest_factors(scale, alpha, y):
    return dist.Pareto(scale, alpha)("x") * dist.Uniform(0.0, fb.Variable("x", fb.Real)).expand([3])(y)


def least_factors(high, alpha, y):
    return dist.Uniform(0.0, high)("x") * dist.Pareto(fb.Variable("x", fb.Real), alpha).expand([3])(y)


BOTH = {"largest": (largest, largest_factors), "least": (least, least_factors)}


# -- the numbers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [-3.2, -1.0, -1.0 + 1e-7, -0.4, 0.0, 2.5])
@pytest.mark.parametrize("ends", [(0.4, 2.0), (1.0, 1.01)])
def test_integral_and_moments_of_a_power(p, ends):
    """Against quadrature, also at p = −1, with derivatives."""
    mass, first, second = (integrate.quad(lambda x, j=j: x ** (p + j), *ends, epsabs=1e-14)[0] for j in range(3))
    with jax.enable_x64(True):
        assert float(log_integral_of_power(p, *ends)) == pytest.approx(np.log(mass), abs=1e-9)
        assert float(mean_of_power(p, *ends)) == pytest.approx(first / mass, rel=1e-9)
        variance = second / mass - (first / mass) ** 2
        assert float(variance_of_power(p, *ends)) == pytest.approx(variance, rel=1e-5)
        slopes = jax.grad(log_integral_of_power, (0, 1, 2))(p, *ends)
    logs = integrate.quad(lambda x: np.log(x) * x**p, *ends, epsabs=1e-14)[0]
    assert np.allclose(slopes, [logs / mass, -(ends[0] ** p) / mass, ends[1] ** p / mass], rtol=1e-5)


def test_integral_of_a_power_at_the_ends_of_numbers():
    """0 and ∞ are ends; what diverges is infinite, what is empty 0, what is negative no number."""
    cases = {(1.5, 0.0, 2.0): np.log(2.0**2.5 / 2.5), (-3.0, 2.0, np.inf): np.log(0.125), (-2.0, 0.0, 1.0): np.inf}
    cases |= {(1.0, 1.0, np.inf): np.inf, (-1.0, 0.0, 1.0): np.inf, (1.0, 2.0, 1.0): -np.inf, (1.0, 2.0, 2.0): -np.inf}
    for given, expected in cases.items():
        assert float(log_integral_of_power(*given)) == pytest.approx(expected, rel=1e-6)
    assert np.isnan(log_integral_of_power(1.0, -1.0, 2.0))
    assert np.isfinite(jax.grad(log_integral_of_power)(1.5, 0.0, 2.0))
    assert float(variance_of_power(999.0, 0.0, 2.0)) == pytest.approx(4 * 1000 / (1001**2 * 1002), rel=1e-4)
    assert float(variance_of_power(-1001.0, 2.0, 9.0)) == pytest.approx(stats.pareto(1000, scale=2).var(), rel=1e-4)


@pytest.mark.parametrize("p", [-1.0, -4.0, 1.5])
def test_draws_of_a_power_law(p):
    x = draw_power(jax.random.key(0), jnp.full(4000, p), 0.5, 3.0)
    below = lambda t: np.exp(log_integral_of_power(p, 0.5, t) - log_integral_of_power(p, 0.5, 3.0))  # noqa: E731
    assert stats.kstest(np.asarray(x), below).pvalue > 1e-3


# -- answers ----------------------------------------------------------------------------------------------------------


def test_posterior_of_the_end_of_uniform_numbers():
    """Pareto(max(scale, max y), α + n): evidence, mode, quantiles, predictions."""
    post = largest(1.0, 2.0).condition(y=Y)
    assert float(post.log_evidence()) == pytest.approx(np.log(2.0 / 5 / 1.7**5), rel=1e-6)
    marginal = post.marginal("x")
    assert repr(marginal).startswith("Pareto(scale=1.7, alpha=5)")
    assert float(marginal.quantile(0.3)) == pytest.approx(stats.pareto(5, scale=1.7).ppf(0.3), rel=1e-5)
    assert float(post.map().x) == pytest.approx(1.7)
    y = post.predict(jax.random.key(0), "y")
    assert y.min() > 0 and y.mean() == pytest.approx(1.7 * 5 / 4 / 2, rel=0.05)


def test_posterior_of_the_scale_of_paretos():
    post = least(2.0, 1.5).condition(y=Y)
    assert float(post.log_evidence()) == pytest.approx(
        np.log(0.5 * 1.5**3 * 0.5**5.5 / 5.5) - 2.5 * np.log(Y).sum(), rel=1e-6
    )
    assert float(post.marginal("x").quantile(0.3)) == pytest.approx(0.5 * 0.3 ** (1 / 5.5), rel=1e-5)
    assert float(post.map().x) == pytest.approx(0.5)
    assert (post.predict(jax.random.key(0), "y") > 0).all()


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("on", [np, jnp])
def test_values_outside_of_every_support_have_no_mass(name, on):
    """An error, or −∞ where the numbers are traced; as factors 0."""
    model, factors = BOTH[name]
    y = on.array([0.5, -1.0, 2.0])
    with pytest.raises(fb.errors.DataError, match="some observation is impossible"):
        model(1.0, 2.0).condition(y=y).log_evidence()
    assert float(jax.jit(lambda y: model(1.0, 2.0).condition(y=y).log_evidence().data)(y)) == -np.inf
    assert float(factors(1.0, 2.0, y).sum("x")) == 0
    assert float(jax.jit(lambda y: factors(1.0, 2.0, y).sum("x").log().data)(y)) == -np.inf


@pytest.mark.parametrize("name", BOTH)
def test_parameters_that_are_not_allowed(name):
    model, _ = BOTH[name]
    with pytest.raises(fb.errors.DataError, match="to satisfy"):
        model(-1.0, 2.0).condition(y=Y).log_evidence()
    assert np.isnan(jax.jit(lambda t: model(t, 2.0).condition(y=Y).log_evidence().data)(-1.0))


GROUP, IN_GROUP = np.array([0, 1, 0, 1, 1, 2]), np.array([0.5, 0.7, 1.5, -0.3, 0.2, -3.0])


def test_ends_of_groups():
    """Each entry has the greatest of its own data as an end."""

    @fb.model
    def model(scale):
        x = yield dist.Pareto(scale, 2.0).expand([4])
        y = yield dist.Uniform(-x[GROUP], x[GROUP])

    post = model(1.0).condition(y=IN_GROUP)
    marginal = post.marginal("x")
    ends, counts = np.array([1.5, 1.0, 3.0, 1.0]), np.array([2, 3, 1, 0])
    expected = np.sum(np.log(2.0 / (2 + counts)) - (2 + counts) * np.log(ends)) - 6 * np.log(2.0)
    assert float(post.log_evidence()) == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(marginal.mean().data, ends * (2 + counts) / (1 + counts), rtol=1e-5)


def test_a_window_around_the_data():
    """Uniform(x, x + 1) leaves max y − 1 < x < min y."""

    @fb.model
    def model():
        x = yield dist.Uniform(0.0, 10.0)
        y = yield dist.Uniform(x, x + 1.0).expand([3])

    post = model().condition(y=np.array([2.2, 2.5, 2.9]))
    assert float(post.log_evidence()) == pytest.approx(np.log(0.03), rel=1e-5)
    assert repr(post.marginal("x")).startswith("Uniform(low=1.9, high=2.2)")
    with pytest.raises(fb.errors.DataError, match="some observation is impossible"):
        model().condition(y=np.array([2.2, 2.5, 3.9])).log_evidence()


def test_many_data_in_single_precision():
    y = np.linspace(0.01, 1.99, 2000)

    @fb.model
    def model(low):
        x = yield dist.Uniform(low, 40.0)
        y = yield dist.Uniform(0.0, x).expand([2000])

    post = model(0.5).condition(y=y)
    exact = stats.pareto(1999, scale=1.99)
    assert float(post.log_evidence()) == pytest.approx(-1999 * np.log(1.99) - np.log(1999 * 39.5), rel=1e-5)
    assert float(post.marginal("x").variance("x")) == pytest.approx(exact.var(), rel=1e-3)
    x = post.infer(jax.random.key(1), draws=2000, chains=1, progress=False).posterior["x"]
    assert float(x.mean()) - 1.99 == pytest.approx(exact.mean() - 1.99, rel=0.1)


def test_a_power_beside_another_feature_is_refused():
    @fb.model
    def model():
        x = yield dist.Gamma(2.0, 1.0)
        y = yield dist.Uniform(0.0, x).expand([3])

    with pytest.raises(fb.errors.Intractable, match="has no closed form here"):
        model().condition(y=Y).log_evidence()
