"""Densities are zero outside their support, and divergent integrals are reported, whichever way a question comes in.

A factor, a joint, a NumPyro function and a measure; eager and compiled; NumPy and JAX; single and double precision.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as numpyro_families
import pytest
from numpyro.distributions import constraints
from scipy import integrate, stats

import fubini as fb
from fubini import dist
from fubini.errors import DataError, DomainError, FubiniError, Intractable
from fubini.measures import Exponential, Gamma, HalfNormal, Lebesgue, Normal, factor, measure, observe, symbol

pytestmark = pytest.mark.right_or_refused

ENGINES = {
    "numpy": (np.asarray, False),
    "jax float32": (jnp.asarray, False),
    "jax float64": (jnp.asarray, True),
    "numpy, JAX in double": (np.asarray, True),
}
engines = pytest.mark.parametrize("engine", ENGINES)
compiled = pytest.mark.parametrize("is_compiled", [False, True], ids=["eager", "jit"])
x, r = fb.Variable("x", fb.Real), fb.Variable("r", fb.Positive)
REAL = constraints.real


def asked(question, engine, is_compiled, *numbers):
    """The answer of a question to numbers of an engine."""
    make, is_double = ENGINES[engine]
    with jax.enable_x64(is_double):
        return float((jax.jit(question) if is_compiled else question)(*map(make, numbers)))


# -- the half-normal has mass one, of positive numbers and of all -----------------------------------------------------


def half_of_a_factor(scale):
    return fb.eliminate([dist.HalfNormal(scale)(x)], ["x"]).log().data


def half_of_a_joint(scale):
    return fb.JointNamed(dict(x=dist.HalfNormal(scale))).log_evidence().data


def half_of_numpyro(scale):
    return fb.from_numpyro(lambda: numpyro.sample("x", numpyro_families.HalfNormal(scale))).log_evidence().data


@engines
@compiled
@pytest.mark.parametrize("door", [half_of_a_factor, half_of_a_joint, half_of_numpyro])
def test_a_half_normal_has_mass_one(door, engine, is_compiled):
    assert asked(door, engine, is_compiled, 1.5) == pytest.approx(0, abs=1e-6)


def real_model(scale):
    @fb.model
    def program(scale):
        x = yield dist.ImproperUniform(REAL, (), ())
        yield fb.weight(log=dist.HalfNormal(scale)(x).log())

    return program(scale)


def real_numpyro(scale):
    def program():
        at = numpyro.sample("x", numpyro_families.ImproperUniform(REAL, (), ()))
        numpyro.sample("y", numpyro_families.HalfNormal(scale), obs=at)

    return fb.from_numpyro(program)


@engines
@compiled
@pytest.mark.parametrize("door", [real_model, real_numpyro])
def test_a_half_normal_of_a_real_latent_has_no_closed_form(door, engine, is_compiled):
    with pytest.raises(Intractable):
        asked(lambda scale: door(scale).log_evidence().data, engine, is_compiled, 1.5)


@pytest.mark.parametrize("door", [real_model, real_numpyro])
def test_a_half_normal_of_a_real_latent_has_mass_one_on_a_grid(door):
    with fb.quadrature():
        assert float(door(1.5).log_evidence()) == pytest.approx(0, abs=1e-5)


@compiled
@engines
def test_a_half_normal_in_a_measure(engine, is_compiled):
    @measure
    def program():
        at = yield Lebesgue()
        yield observe(HalfNormal(symbol("s", kind="positive")), at)

    found = fb.total_mass(program())
    assert asked(lambda s: found(s=s), engine, is_compiled, 1.5) == pytest.approx(1)


# -- observations of a latent under a family of another domain ---------------------------------------------------------


def observed_latent(prior, likelihood):
    def program():
        numpyro.sample("y", likelihood, obs=numpyro.sample("x", prior))

    return fb.from_numpyro(program)


LATENTS = {
    "Exponential of a Normal": (
        observed_latent(numpyro_families.Normal(0.0, 1.0), numpyro_families.Exponential(1.0)),
        lambda: integrate.quad(lambda v: stats.norm.pdf(v) * np.exp(-v), 0, 30)[0],
    ),
    "Beta of a Normal": (
        observed_latent(numpyro_families.Normal(0.0, 1.0), numpyro_families.Beta(2.0, 3.0)),
        lambda: integrate.quad(lambda v: stats.norm.pdf(v) * stats.beta.pdf(v, 2, 3), 0, 1)[0],
    ),
    "Bernoulli of a Categorical": (
        observed_latent(numpyro_families.Categorical(jnp.array([0.3, 0.3, 0.4])), numpyro_families.Bernoulli(0.2)),
        lambda: 0.3 * 0.8 + 0.3 * 0.2,
    ),
    "Bernoulli of a Poisson": (
        observed_latent(numpyro_families.Poisson(2.0), numpyro_families.Bernoulli(0.3)),
        lambda: stats.poisson.pmf(0, 2) * 0.7 + stats.poisson.pmf(1, 2) * 0.3,
    ),
    "Categorical of a Poisson": (
        observed_latent(numpyro_families.Poisson(2.0), numpyro_families.Categorical(jnp.array([0.3, 0.7]))),
        lambda: stats.poisson.pmf(0, 2) * 0.3 + stats.poisson.pmf(1, 2) * 0.7,
    ),
    "Gamma of a Gamma": (
        observed_latent(numpyro_families.Gamma(2.0, 1.0), numpyro_families.Gamma(3.0, 1.0)),
        lambda: integrate.quad(lambda v: stats.gamma.pdf(v, 2) * stats.gamma.pdf(v, 3), 0, 60)[0],
    ),
}


@pytest.mark.parametrize("name", LATENTS)
def test_an_observed_latent_is_right_or_refused(name):
    joint, truth = LATENTS[name]
    for interpretation in (fb.exact, fb.quadrature()):
        with interpretation:
            try:
                found = float(joint.log_evidence())
            except (DomainError, Intractable):
                continue
        assert found == pytest.approx(np.log(truth()), abs=1e-5)


# -- data outside of the support ---------------------------------------------------------------------------------------


def joint_of_rates(shape):
    return fb.JointNamed(dict(r=dist.Gamma(shape, 1.0), x=lambda r: dist.Exponential(r)))


def observed_in_numpyro(shape, y):
    def program():
        numpyro.sample(
            "x", numpyro_families.Exponential(numpyro.sample("r", numpyro_families.Gamma(shape, 1.0))), obs=y
        )

    return fb.from_numpyro(program)


@engines
@compiled
def test_an_exponential_below_zero_is_a_factor_of_zero(engine, is_compiled):
    def alone(rate, y):
        return dist.Exponential(rate)(y).log().data

    def eliminated(shape, y):
        return fb.eliminate([dist.Gamma(shape, 1.0)("r"), dist.Exponential(r)(y)], ["r"]).log().data

    assert asked(alone, engine, is_compiled, 2.0, -1.0) == -np.inf
    for y in (-0.1, -1.0):  # the second would make the rate of the posterior zero
        assert asked(eliminated, engine, is_compiled, 2.0, y) == -np.inf
    assert asked(eliminated, engine, is_compiled, 2.0, 0.1) == pytest.approx(np.log(2 / 1.1**3), rel=1e-5)


@engines
@pytest.mark.parametrize("y", [-0.1, -1.0])
def test_data_outside_of_the_support_are_refused_by_models(engine, y):
    def of_joint(shape, y):
        return joint_of_rates(shape).condition(x=y).log_evidence().data

    def of_numpyro(shape, y):
        return observed_in_numpyro(shape, y).log_evidence().data

    for door in (of_joint, of_numpyro):
        assert asked(door, engine, False, 2.0, 0.1) == pytest.approx(np.log(2 / 1.1**3), rel=1e-5)
        with pytest.raises(DataError, match="values of domain Positive"):
            asked(door, engine, False, 2.0, y)
        assert np.isnan(asked(door, engine, True, 2.0, y))  # traced, they are no number


@pytest.mark.parametrize("rate", [lambda r: r, lambda r: jnp.exp(jnp.log(r))], ids=["written", "read"])
@engines
def test_data_outside_of_the_support_make_factors_of_a_model_zero(rate, engine):
    def question(shape, y):
        model = fb.JointNamed(dict(r=dist.Gamma(shape, 1.0), x=lambda r: dist.Exponential(rate(r))))
        return fb.eliminate(model.condition(x=y).factors(), ["r"]).log().data

    assert asked(question, engine, True, 2.0, 0.1) == pytest.approx(np.log(2 / 1.1**3), rel=1e-5)
    assert asked(question, engine, True, 2.0, -0.1) == -np.inf


OUTSIDE = {
    "HalfNormal": (numpyro_families.HalfNormal, -1.0),
    "Poisson below zero": (numpyro_families.Poisson, -1),
    "Poisson between": (numpyro_families.Poisson, 1.5),
    "Exponential": (numpyro_families.Exponential, -0.1),
}


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("make", [np.asarray, jnp.asarray])
def test_numpyro_observes_what_its_family_has(name, make):
    family, wrong = OUTSIDE[name]

    def program(y, mask=True):
        rate = numpyro.sample("r", numpyro_families.Gamma(2.0, 1.0))
        with numpyro.handlers.mask(mask=mask):
            numpyro.sample("x", family(rate), obs=y)

    data = make([1.0, wrong, 2.0])
    with pytest.raises(DataError, match=f"the value {wrong:g}.* of the site 'x'"):
        fb.from_numpyro(program, data)
    masked = fb.from_numpyro(program, data, mask=np.array([True, False, True]))
    without = fb.from_numpyro(program, make([1.0, 2.0]))
    assert float(masked.log_prob(r=1.2)) == pytest.approx(float(without.log_prob(r=1.2)), rel=1e-6)


@engines
def test_an_exponential_below_zero_in_a_measure(engine):
    @measure
    def program():
        rate = yield Gamma(symbol("s", kind="positive"), 1)
        yield observe(Exponential(rate), symbol("y"))

    found = fb.total_mass(program())
    assert asked(lambda s, y: found(s=s, y=y), engine, False, 2.0, -1.0) == 0
    assert asked(lambda s, y: found(s=s, y=y), engine, False, 2.0, 0.1) == pytest.approx(2 / 1.1**3)


# -- integrals that diverge --------------------------------------------------------------------------------------------


def growing_factor(scale, growth):
    return fb.eliminate([dist.Gamma(2.0, scale)("r"), fb.weight(log=growth * r)], ["r"]).log().data


def growing_square_factor(scale, growth):
    return fb.eliminate([dist.Normal(0.0, scale)("x"), fb.weight(log=growth * x * x)], ["x"]).log().data


def growing_model(scale, growth):
    @fb.model
    def program(scale, growth):
        r = yield dist.Gamma(2.0, scale)
        yield fb.weight(log=growth * r)

    return program(scale, growth).log_evidence().data


def growing_square_model(scale, growth):
    @fb.model
    def program(scale, growth):
        x = yield dist.Normal(0.0, scale)
        yield fb.weight(log=growth * x * x)

    return program(scale, growth).log_evidence().data


def growing_numpyro(scale, growth):
    def program():
        numpyro.factor("w", growth * numpyro.sample("r", numpyro_families.Gamma(2.0, scale)))

    return fb.from_numpyro(program).log_evidence().data


def growing_square_numpyro(scale, growth):
    def program():
        numpyro.factor("w", growth * numpyro.sample("x", numpyro_families.Normal(0.0, scale)) ** 2)

    return fb.from_numpyro(program).log_evidence().data


GAMMAS = (growing_factor, growing_model, growing_numpyro)
SQUARES = (growing_square_factor, growing_square_model, growing_square_numpyro)


@engines
@pytest.mark.parametrize("door", [*GAMMAS, *SQUARES])
def test_a_divergent_integral_is_improper(door, engine):
    """Known, it is an error that says so; traced, it is no number."""
    finite = np.log(1 / (1 - 0.25) ** 2) if door in GAMMAS else -0.5 * np.log(1 - 2 * 0.25)
    assert asked(door, engine, False, 1.0, 0.25) == pytest.approx(finite, rel=1e-5)
    assert asked(door, engine, True, 1.0, 0.25) == pytest.approx(finite, rel=1e-5)
    with pytest.raises(DataError, match="improper"):
        asked(door, engine, False, 1.0, 2.0)
    assert not np.isfinite(asked(door, engine, True, 1.0, 2.0))


def flat_model(scale):
    @fb.model
    def program(scale):
        f = yield dist.ImproperUniform(REAL, (), ())
        y = yield dist.Normal(0.0, scale)

    return program(scale).condition(y=0.2).log_evidence().data


def flat_numpyro(scale):
    def program():
        numpyro.sample("f", numpyro_families.ImproperUniform(REAL, (), ()))
        numpyro.sample("y", numpyro_families.Normal(0.0, scale), obs=0.2)

    return fb.from_numpyro(program).log_evidence().data


@engines
@compiled
@pytest.mark.parametrize("door", [flat_model, flat_numpyro])
def test_a_flat_latent_is_improper(door, engine, is_compiled):
    with pytest.raises(DataError, match="improper"):
        asked(door, engine, is_compiled, 1.0)


def growing_square():
    at = yield Normal(0, 1)
    yield factor(at * at)


def growing():
    at = yield Gamma(2, 1)
    yield factor(2 * at)


def flat():
    yield Lebesgue()


def test_a_divergent_mass_is_refused():
    """That of squares says why; where ends come in, it is refused with the others that have no closed form."""
    with pytest.raises(DataError, match="improper"):
        fb.total_mass(measure(growing_square)())
    for program in (growing, flat):
        with pytest.raises(FubiniError):
            fb.total_mass(measure(program)())


def test_marginals_of_traced_data_outside_the_support():
    """A compiled function cannot raise: its answer is not a number, as the evidence is."""

    @fb.model
    def waits():
        r = yield dist.Gamma(2.0, 3.0)
        y = yield dist.Exponential(jnp.exp(jnp.log(r)))

    def mean(y):
        return waits().condition(y=y).marginal("r").mean("r").data

    def height(y):
        return waits().condition(y=y).posterior()(r=1.0).log().data

    inside, outside = jnp.asarray(0.4), jnp.asarray(-0.1)
    assert float(jax.jit(mean)(inside)) == pytest.approx(3.0 / 3.4, rel=1e-5) and np.isnan(jax.jit(mean)(outside))
    assert np.isfinite(jax.jit(height)(inside)) and np.isnan(jax.jit(height)(outside))
