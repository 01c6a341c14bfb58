"""Families from outside the package, each in one place: factors, models, elimination, draws, printing, and refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import gammaln
from numpyro.distributions import constraints
from scipy import integrate, stats

import fubini as fb
from fubini import dist
from fubini.algebra.build import const
from fubini.distributions.makers import maker_of
from fubini.errors import NameClash, NoRule
from fubini.families.family import family_of

Rayleigh = fb.register_family(
    "RayleighOfTests",
    parameters={"scale": constraints.positive},
    support=constraints.positive,
    log_density=lambda x, scale: jnp.log(x) - 2 * jnp.log(scale) - x**2 / (2 * scale**2),
    draw=lambda key, scale: scale * jnp.sqrt(-2 * jnp.log(jax.random.uniform(key))),
    mean=lambda scale: scale * jnp.sqrt(jnp.pi / 2),
    variance=lambda scale: (2 - jnp.pi / 2) * scale**2,
    mode=lambda scale: scale,
)
Pareto = fb.register_family(
    "ParetoOfTests",
    parameters={"low": constraints.positive, "alpha": constraints.positive},
    support=lambda low, alpha: constraints.greater_than(low),
    log_density=lambda x, low, alpha: jnp.log(alpha) + alpha * jnp.log(low) - (alpha + 1) * jnp.log(x),
)
Positives = fb.register_family(
    "ZeroTruncatedPoissonOfTests",
    parameters={"rate": constraints.positive},
    support=constraints.positive_integer,
    log_density=lambda x, rate: x * jnp.log(rate) - gammaln(x + 1) - jnp.log(jnp.expm1(rate)),
)


def register_triangle(slope=2.0):
    """Whole numbers from 0 to n, each with a weight of one more than the last."""
    return fb.register_family(
        "WholeTriangleOfTests",
        parameters={"n": constraints.nonnegative_integer},
        support=lambda n: constraints.integer_interval(0, n),
        log_density=lambda x, n: jnp.log(slope * (x + 1)) - jnp.log((n + 1) * (n + 2)),
        draw=lambda key, n: jnp.floor(jax.nn.relu(n * jax.random.uniform(key))),  # with a custom derivative
    )


Triangle = register_triangle()
Y = np.array([0.3, -0.4, 1.0])


@fb.model
def noise():
    s = yield Rayleigh(2.0)
    y = yield dist.Normal(0.0, 1 / s).expand([3])


@fb.model
def gaps(low):
    a = yield dist.Gamma(2.0, 1.0)
    y = yield Pareto(low, a).expand([3])


@fb.model
def counts():
    rate = yield dist.Gamma(2.0, 1.0)
    y = yield Positives(rate).expand([2])


def test_a_factor_at_a_value_and_at_a_name():
    assert float(Rayleigh(2.0)(1.5).log()) == pytest.approx(stats.rayleigh(scale=2).logpdf(1.5))
    assert float(Rayleigh(2.0)(-1.0).log()) == -np.inf
    factor = Rayleigh(scale=2.0)("x")
    assert factor.inputs == {"x": fb.Positive}
    assert float(factor.sum("x")) == 1.0
    assert float(factor.mean("x")) == pytest.approx(stats.rayleigh(scale=2).mean())
    assert float(factor.variance("x")) == pytest.approx(stats.rayleigh(scale=2).var())


def test_a_factor_over_an_open_parameter():
    """Its parameter is a Value, and a bounded integer chooses among scales."""
    mixed = dist.Categorical(np.array([0.25, 0.75]))("k") * Rayleigh(fb.Array(np.array([1.0, 3.0]), ("k",)))(1.5)
    expected = 0.25 * stats.rayleigh(scale=1).pdf(1.5) + 0.75 * stats.rayleigh(scale=3).pdf(1.5)
    assert float(mixed.sum("k")) == pytest.approx(expected, rel=1e-5)


def test_arrays_and_parameters_that_are_not_allowed():
    x = np.array([0.5, 1.5, 2.5])
    each = Rayleigh(np.array([1.0, 2.0, 3.0]))(x)
    assert float(each.log()) == pytest.approx(stats.rayleigh(scale=[1.0, 2.0, 3.0]).logpdf(x).sum(), rel=1e-5)
    with pytest.raises(fb.FubiniError, match="scale=-1"):
        Rayleigh(-1.0)
    with pytest.raises(fb.FubiniError, match="RayleighOfTests"):
        Rayleigh(1.0, 2.0)


def test_a_model_eliminates_what_is_recognised():
    """A Rayleigh scale of a precision: its conditional is a root of a Gamma."""
    post = noise().condition(y=Y)

    def density(s):
        return stats.rayleigh(scale=2).pdf(s) * np.prod(stats.norm(0, 1 / s).pdf(Y))

    assert float(post.log_evidence()) == pytest.approx(np.log(integrate.quad(density, 0, 40)[0]), rel=1e-5)
    assert "GeneralizedGamma" in str(fb.explain(post))
    assert "s ~ RayleighOfTests(2)" in str(fb.explain(post))
    together = stats.rayleigh(scale=2).logpdf(1.2) + stats.norm(0, 1 / 1.2).logpdf(Y).sum()
    assert float(noise().log_prob(s=1.2, y=Y)) == pytest.approx(together, rel=1e-5)


def test_a_likelihood_whose_parameter_is_eliminated():
    """A Gamma is conjugate to a Pareto, though no table says so."""
    y = np.array([1.5, 2.0, 3.0])
    post = gaps(1.0).condition(y=y)

    def density(a):
        return stats.gamma(2).pdf(a) * np.prod(stats.pareto(a).pdf(y))

    assert float(post.log_evidence()) == pytest.approx(np.log(integrate.quad(density, 0, 60)[0]), rel=1e-5)
    with pytest.raises(fb.FubiniError):  # data below the least value
        gaps(1.8).condition(y=y).log_evidence()


def test_a_support_that_is_not_the_domain():
    assert float(Pareto(2.0, 3.0)(1.5).log()) == -np.inf
    assert float(Pareto(2.0, 3.0)(2.5).log()) == pytest.approx(stats.pareto(3, scale=2).logpdf(2.5))
    assert float(Positives(2.0)(0).log()) == -np.inf
    assert float(Positives(2.0)(3).log()) == pytest.approx(stats.poisson(2).logpmf(3) - np.log1p(-np.exp(-2)))


def test_what_is_not_recognised_is_refused():
    post = counts().condition(y=np.array([1, 3]))
    with pytest.raises(fb.FubiniError, match="'rate'"):
        post.log_evidence()


def test_draws():
    draws = noise().sample(jax.random.key(0), 4000).s
    distribution = stats.rayleigh(scale=2)
    assert np.mean(draws) == pytest.approx(distribution.mean(), abs=5 * distribution.std() / 4000**0.5)
    assert np.std(draws) == pytest.approx(distribution.std(), rel=0.1)
    one = Pareto(1.0, 2.0)("y")
    for ask in (lambda: gaps(1.0).sample(jax.random.key(0)), lambda: fb.sample(jax.random.key(0), one, ("y",))):
        with pytest.raises(NoRule, match="registered without `draw=`") as error:
            ask()
        assert "draw=lambda key, low, alpha: …" in str(error.value)


def test_several_modes_under_a_prior_without_draws():
    """Where the prior cannot be drawn from, it does not say how far modes may be."""

    @fb.model
    def two_modes():
        s = yield Pareto(1.0, 0.5)
        y = yield dist.Normal((jnp.log(s) - 4.0) ** 2, 0.05)

    with fb.quadrature():
        found = two_modes().condition(y=9.0).log_evidence()
    density = lambda t: stats.expon(scale=2).pdf(t) * stats.norm(9, 0.05).pdf((t - 4) ** 2)  # noqa: E731
    truth = sum(integrate.quad(density, centre - 0.2, centre + 0.2)[0] for centre in (1, 7))
    assert float(found) == pytest.approx(np.log(truth), rel=1e-6)


def test_whole_numbers_up_to_a_parameter():
    record = family_of("WholeTriangleOfTests")
    assert record.support_at({"n": const(3.0)}).is_whole
    assert maker_of("WholeTriangleOfTests").support.is_discrete
    assert Triangle(3)("k").inputs == {"k": fb.Nat}
    weights = np.array([1, 2, 3, 4]) / 10
    assert [float(Triangle(3)(k)) for k in range(4)] == pytest.approx(weights)
    assert float(Triangle(3)(4)) == float(Triangle(3)(-1)) == 0
    with pytest.raises(fb.FubiniError, match="an integer"):
        Triangle(3)(1.5)


def test_a_family_that_is_registered_again():
    """The same definition is the same family, whatever line it is on; another is refused."""
    assert register_triangle() is Triangle
    with pytest.raises(NameClash, match="another definition"):
        register_triangle(slope=2.00001)


def test_printing_makes_it_again():
    again = eval(repr(Rayleigh(2.0)), {"RayleighOfTests": dist.RayleighOfTests})
    assert repr(again) == repr(Rayleigh(2.0))
    assert float(again(1.5).log()) == float(Rayleigh(2.0)(1.5).log())
    assert "RayleighOfTests" in dir(dist)
    assert "RayleighOfTests" not in dist.family_names()


def test_the_record():
    """What a user says in JAX is there in index notation."""
    record = family_of("RayleighOfTests")
    assert record.is_read
    assert repr(record) == "RayleighOfTests(scale)"
    assert family_of("ParetoOfTests").draw is None


def test_a_density_that_does_not_have_mass_one_is_refused():
    with pytest.raises(fb.FubiniError, match=r"(?s)at scale=0.7 has mass 0.7.*misses by -0.3.*log\(0.7\)"):
        fb.register_family(
            "Wrong",
            parameters={"scale": constraints.positive},
            support=constraints.positive,
            log_density=lambda x, scale: -x / scale,
        )
    with pytest.raises(fb.FubiniError, match="has mass 7"):
        fb.register_family(
            "Counted",
            parameters={},
            support=constraints.integer_interval(0, 6),
            log_density=lambda x: 0.0 * x,
        )
    assert not hasattr(dist, "Wrong")


def test_what_cannot_be_registered():
    def density(x, scale):
        return -x / scale - jnp.log(scale)

    plain = {"support": constraints.positive, "log_density": density}
    for taken in ("Gamma", "GeneralizedGamma", "RayleighOfTests"):
        with pytest.raises(fb.FubiniError, match="a name that no family"):
            fb.register_family(taken, parameters={"scale": constraints.positive}, **plain)
    with pytest.raises(fb.FubiniError, match=r"log_density\(x, rate\)"):
        fb.register_family("Other", parameters={"rate": constraints.positive}, **plain)
    with pytest.raises(fb.FubiniError, match=r"a constraint of numpyro\.distributions\.constraints for each name"):
        fb.register_family("Other", parameters=["scale"], **plain)
    with pytest.raises(fb.FubiniError, match="support='positive' of the family"):
        fb.register_family("Other", parameters={"scale": constraints.positive}, **{**plain, "support": "positive"})
    for untraceable in (lambda x, scale: -x - np.log(scale), lambda x, scale: -x if scale > 1 else x):
        with pytest.raises(fb.FubiniError, match=r"(?s)log_density of .*write it in jax\.numpy"):
            fb.register_family(
                "Other", parameters={"scale": constraints.positive}, **{**plain, "log_density": untraceable}
            )
    with pytest.raises(fb.FubiniError, match="examples"):
        fb.register_family("Other", parameters={"scale": constraints.interval(1.0, 2.0)}, **plain)
    with pytest.raises(fb.FubiniError, match="a support of numbers"):
        fb.register_family(
            "Other",
            parameters={"scale": constraints.positive},
            support=constraints.simplex,
            log_density=density,
        )
    named = fb.register_family(
        "ExponentialOfTests",
        parameters={"scale": constraints.interval(1.0, 2.0)},
        examples=[{"scale": 1.5}],
        **plain,
    )
    assert float(named(1.5)(3.0).log()) == pytest.approx(stats.expon(scale=1.5).logpdf(3.0))
