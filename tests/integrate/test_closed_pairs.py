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
from scipy import integrate

import fubini as fb
from fubini import dist


class Case(NamedTuple):
    """A prior and a density of data given x, of distributions, parameters t and, of the density, log."""

    prior: object
    data: object
    y: np.ndarray
    ends: tuple
    family: str  # of the posterior
    domain: object = fb.Positive


TIMES, SHARES, COUNTS = np.array([1.3, 2.1, 1.5]), np.array([0.3, 0.1, 0.5]), np.array([3, 1, 5])
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
