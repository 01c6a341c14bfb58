"""Half a Student's t: what a half-normal number is whose variance is inverse-gamma."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as numpyro_families
import pytest
from scipy import integrate, stats

import fubini as fb
from fubini import dist


@fb.model
def half(a, b):
    v = yield dist.InverseGamma(a, b)
    s = yield dist.HalfNormal(jnp.sqrt(v))


def half_of_numpyro():
    v = numpyro.sample("v", numpyro_families.InverseGamma(2.5, 1.5))
    numpyro.sample("s", numpyro_families.HalfNormal(jnp.sqrt(v)))


def factors(a, b):
    return dist.InverseGamma(a, b)("v") * dist.HalfNormal(fb.ops.sqrt(fb.Variable("v", fb.Positive)))("s")


EXACT = stats.t(5.0, scale=np.sqrt(0.6))  # 2a degrees of freedom, scale √(b/a)
MARGINALS = {
    "model": lambda: half(2.5, 1.5).marginal("s"),
    "numpyro": lambda: fb.from_numpyro(half_of_numpyro).marginal("s"),
    "factors": lambda: factors(2.5, 1.5).sum("v").normalize("s"),
    "factors on JAX": lambda: factors(jnp.array(2.5), jnp.array(1.5)).sum("v").normalize("s"),
}


@pytest.mark.parametrize("name", MARGINALS)
def test_marginal_is_a_folded_student(name):
    """Density, mean, variance, quantiles and draws."""
    marginal = MARGINALS[name]()
    assert marginal.exactness.is_exact and "FoldedDistribution(base_dist=StudentT(df=5" in repr(marginal)
    assert float(marginal(s=0.7).log()) == pytest.approx(np.log(2) + EXACT.logpdf(0.7), rel=1e-5)
    mean = integrate.quad(lambda x: 2 * x * EXACT.pdf(x), 0, np.inf)[0]
    assert float(marginal.mean("s")) == pytest.approx(mean, rel=1e-5)
    assert float(marginal.variance("s")) == pytest.approx(EXACT.var() - mean**2, rel=1e-4)
    assert float(marginal.quantile(0.3)) == pytest.approx(EXACT.ppf(0.65), rel=1e-5)
    draws = marginal.sample(jax.random.key(0), "s", n=4000)["s"]
    assert stats.kstest(np.asarray(draws), lambda t: 2 * EXACT.cdf(t) - 1).pvalue > 1e-3


def test_one_degree_of_freedom_is_half_cauchy():
    marginal = half(0.5, 2.0).marginal("s")
    assert repr(marginal).startswith("HalfCauchy(scale=2)")


def test_evidence_and_its_gradient():
    def log_p(t):
        return half(t[0], t[1]).condition(s=0.7).log_evidence().data

    def folded(a, b):
        return np.log(2) + stats.t(2 * a, scale=np.sqrt(b / a)).logpdf(0.7)

    with jax.enable_x64(True):
        value, slopes = jax.jit(jax.value_and_grad(log_p))(jnp.array([2.5, 1.5]))
    assert float(value) == pytest.approx(folded(2.5, 1.5), rel=1e-9)
    expected = [(folded(2.5 + d, 1.5 + e) - folded(2.5 - d, 1.5 - e)) / 2e-5 for d, e in ((1e-5, 0), (0, 1e-5))]
    np.testing.assert_allclose(slopes, expected, rtol=1e-5)


def test_each_entry_with_its_own_variance():
    @fb.model
    def model():
        v = yield dist.InverseGamma(np.array([2.0, 3.0]), 1.5)
        s = yield dist.HalfNormal(jnp.sqrt(v))

    mean = model().marginal("s").mean().data
    expected = [float(half(a, 1.5).marginal("s").mean("s")) for a in (2.0, 3.0)]
    np.testing.assert_allclose(mean, expected, rtol=1e-5)


@pytest.mark.parametrize("loc", [0.0, 0.8])
def test_moments_of_a_folded_student(loc):
    folded = dist.FoldedDistribution(dist.StudentT(4.0, loc, 0.7))("x")
    exact = stats.t(4.0, loc, 0.7)
    mean = integrate.quad(lambda x: x * (exact.pdf(x) + exact.pdf(-x)), 0, np.inf)[0]
    assert float(folded.mean("x")) == pytest.approx(mean, rel=1e-5)
    assert float(folded.variance("x")) == pytest.approx(exact.var() + loc**2 - mean**2, rel=1e-4)


def test_a_student_beside_0_cut_at_0_is_refused():
    """Half of the mass is on either side only where the density is the same there."""

    @fb.model
    def model():
        v = yield dist.InverseGamma(2.5, 1.5)
        s = yield dist.TruncatedNormal(0.5, jnp.sqrt(v), low=0.0)

    with pytest.raises(fb.errors.Intractable, match="has no closed form here"):
        model().marginal("s")
