"""Factors under `fb.quadrature()`: what has a closed form is exact, the others within their bounds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

import fubini as fb
from fubini import dist, ops
from fubini.approximate.open_integral import OpenIntegral, WeightedPoints
from fubini.base.domains import Integer
from fubini.errors import DomainError, Intractable
from fubini.terms.exactness import projected

r, x = fb.Variable("r", fb.Positive), fb.Variable("x", fb.Real)
ENGINES = [np.asarray, jnp.asarray]


def log_normal_poisson(numbers=np.asarray):
    return dist.LogNormal(numbers(0.0), numbers(1.0))("r") * dist.Poisson(r)(4)


def over(f, low=0.0, high=np.inf):
    return integrate.quad(f, low, high, epsabs=0, limit=200)[0]


def weight(value, mean=0.0):
    return stats.lognorm.pdf(value, 1, scale=np.exp(mean)) * stats.poisson.pmf(4, value)


@pytest.mark.parametrize("numbers", ENGINES)
def test_sum_on_grid(numbers):
    with fb.quadrature():
        found = log_normal_poisson(numbers).sum("r")
    truth = over(weight)
    assert isinstance(found, fb.Table) and found.exactness.marks == ("quadrature",)
    assert abs(float(found) / truth - 1) <= found.exactness.error < 1e-6
    assert found.log().exactness.error == found.exactness.error


@pytest.mark.parametrize("numbers", ENGINES)
def test_expect_on_grid(numbers):
    with fb.quadrature():
        found = fb.expectation(log_normal_poisson(numbers), r * r, "r")
    assert float(found) == pytest.approx(over(lambda v: v * v * weight(v)) / over(weight), rel=1e-6)
    assert found.exactness.marks == ("quadrature",)


def test_labels_have_grids_of_their_own():
    means = fb.Array(np.array([0.0, 5.0]), ("k",))
    whole = fb.Table([0.3, 0.7], ("k",)) * dist.LogNormal(means, 1.0)("r") * dist.Poisson(r)(4)
    truth = np.array([0.3 * over(weight), 0.7 * over(lambda v: weight(v, 5.0))])
    with fb.quadrature():
        np.testing.assert_allclose(whole.sum("r").weights, truth, rtol=1e-8)
        assert float(whole.sum("r", "k")) == pytest.approx(truth.sum(), rel=1e-8)
        assert float(fb.eliminate([whole], ["r", "k"])) == pytest.approx(truth.sum(), rel=1e-8)
        mean = fb.expectation(whole, r, "r", "k")
    first = 0.3 * over(lambda v: v * weight(v)) + 0.7 * over(lambda v: v * weight(v, 5.0))
    assert float(mean) == pytest.approx(first / truth.sum(), rel=1e-8)


def test_what_is_closed_is_exact():
    """x is integrated out of a normal, r alone is on the grid; and a sum that is closed has no tag."""
    whole = dist.HalfCauchy(1.0)("r") * dist.Normal(0.0, r)("x") * dist.Normal(x, 1.0)(0.7)
    with fb.quadrature():
        found = whole.sum("r", "x")
        closed = (dist.Gamma(2.0, 3.0)("r") * dist.Poisson(r)(4)).sum("r")
    truth = over(lambda s: stats.halfcauchy.pdf(s) * stats.norm.pdf(0.7, 0, np.hypot(s, 1)))
    assert abs(float(found) / truth - 1) <= found.exactness.error + 1e-10
    assert closed.exactness.is_exact


def test_densities_on_the_unit_interval_and_the_simplex():
    p = fb.Variable("p", fb.Unit)
    with fb.quadrature():
        found = (dist.Beta(2.0, 3.0)("p") * dist.Normal(ops.exp(p), 1.0)(1.5)).sum("p")
    truth = over(lambda v: stats.beta.pdf(v, 2, 3) * stats.norm.pdf(1.5, np.exp(v), 1), 0, 1)
    assert abs(float(found) / truth - 1) <= found.exactness.error + 1e-10
    t = fb.Variable("t", fb.Simplex[3])
    with fb.quadrature():
        found = (dist.Dirichlet(np.array([2.0, 3.0, 4.0]))("t") * dist.Normal(ops.exp(t[0]), 1.0)(1.5)).sum("t")
    truth = over(lambda v: stats.beta.pdf(v, 2, 7) * stats.norm.pdf(1.5, np.exp(v), 1), 0, 1)
    assert abs(float(found) / truth - 1) <= found.exactness.error + 1e-8


def test_too_many_numbers():
    w = fb.Variable("w", fb.Reals[4])
    logits = fb.lift(lambda w: jnp.sum(w**3))(w)
    whole = dist.Normal(0.0, 1.0).expand([4])("w") * dist.Bernoulli(logits=logits)(1)
    with fb.quadrature(), pytest.raises(Intractable, match="at most 3 numbers"):
        whole.sum("w")


def test_a_real_variable_that_is_kept():
    scale = fb.Variable("s", fb.Positive)
    whole = dist.LogNormal(0.0, scale)("r") * dist.Poisson(r)(4)
    with fb.quadrature(), pytest.raises(Intractable):
        whole.sum("r")


def test_under_jit():
    with fb.quadrature(), pytest.raises(DomainError, match="jit"):
        jax.jit(lambda mean: (dist.LogNormal(mean, 1.0)("r") * dist.Poisson(r)(4)).sum("r").log().data)(0.0)


def test_other_semirings_are_not_integrals():
    with fb.quadrature(), pytest.raises(Intractable):
        log_normal_poisson().reduce(fb.max_product, "r")


def test_an_error_does_not_pass_through_jit():
    passed = jax.jit(lambda table: table)
    with fb.quadrature():
        found = [(dist.LogNormal(mean, 1.0)("r") * dist.Poisson(r)(4)).sum("r") for mean in (0.0, 3.0)]
    assert found[0].exactness.error != found[1].exactness.error
    assert [passed(table).exactness.error for table in found] == [None, None]
    assert passed(found[1]).exactness.marks == ("quadrature",)


@pytest.mark.parametrize("domain", [fb.Nat, Integer])
def test_whole_numbers_without_end(domain):
    """They are not on a grid: the error says why their sum has no closed form."""
    k = fb.Variable("k", domain)
    whole = fb.weight(log=-ops.exp(k) - k * k)
    with fb.quadrature(), pytest.raises(Intractable, match="the integral over 'k'"):
        whole.sum("k")


def test_an_interpretation_without_an_error():
    """Where a rule gives points without an error, no rounding error stands for it."""
    rules = fb.RuleSet("no_error.integrate", head=fb.heads.INTEGRATE)

    @rules.rule
    def integrate_without_error(integral: OpenIntegral) -> WeightedPoints:
        """One point."""
        return WeightedPoints(np.zeros((1, integral.density().size)), np.zeros(1), projected("one point"))

    with fb.Interpretation("no_error", (rules,), base=fb.quadrature()):
        found = log_normal_poisson().sum("r")
    assert found.exactness.marks == ("projected(one point)",) and found.exactness.error is None
