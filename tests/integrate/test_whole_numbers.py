"""Joints with whole numbers without an end, and powers of positive ones: evidence and draws against enumeration."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

import fubini as fb
from fubini import dist
from fubini.families.family import family_of


@fb.model
def thinned(rate, p):
    n = yield dist.Poisson(rate)
    x = yield dist.Binomial(n, p)


@fb.model
def mixed_poisson(p):
    n = yield dist.Geometric(p)
    x = yield dist.Poisson(2.0).expand([2])


@fb.model
def scale_of_noise(n):
    tau = yield dist.HalfNormal(2.0)
    x = yield dist.Normal(0.0, 1 / tau).expand([n])


def test_a_poisson_that_nothing_depends_on():
    """Σ over all n is 1."""
    post = mixed_poisson(0.3).condition(x=np.array([1, 3]))
    assert float(post.log_evidence()) == pytest.approx(stats.poisson(2).logpmf([1, 3]).sum(), rel=1e-5)
    assert "Geometric" in str(fb.explain(post))


def test_a_root_of_a_gamma():
    """τ e^(−b τ²): a power of a positive number that is no Gamma."""
    data = np.array([0.4, -1.1, 0.7])
    post = scale_of_noise(3).condition(x=data)

    def density(tau):
        return stats.halfnorm(scale=2).pdf(tau) * np.prod(stats.norm(0, 1 / tau).pdf(data))

    assert float(post.log_evidence()) == pytest.approx(np.log(integrate.quad(density, 0, 30)[0]), rel=1e-5)


def test_a_thinned_poisson_is_blocked_or_right():
    """More successes than trials are excluded by a test of n, which this sum has no rule for: said, never guessed."""
    post = thinned(3.0, 0.4).condition(x=np.array(2))
    with pytest.raises(fb.FubiniError, match="'n'"):
        post.log_evidence()


FAMILIES = {
    "Poisson": ({"rate": 2.5}, stats.poisson(2.5)),
    "Geometric": ({"probs": 0.3}, stats.geom(0.3, loc=-1)),
    "NegativeBinomial": ({"total_count": 2.5, "probs": 0.4}, stats.nbinom(2.5, 0.6)),
    "Binomial": ({"total_count": 7.0, "probs": 0.4}, stats.binom(7, 0.4)),
    "HalfNormal": ({"scale": 1.5}, stats.halfnorm(scale=1.5)),
    "GeneralizedGamma": ({"concentration": 1.7, "rate": 0.8, "power": 2.0}, stats.gengamma(1.7, 2.0, scale=0.8**-0.5)),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_draws(name):
    given, distribution = FAMILIES[name]
    draws = np.asarray(
        family_of(name).draw(jax.random.key(0), {key: jnp.full(4000, value) for key, value in given.items()})
    )
    assert draws.mean() == pytest.approx(distribution.mean(), abs=5 * distribution.std() / 4000**0.5)
    assert draws.std() == pytest.approx(distribution.std(), rel=0.1)
