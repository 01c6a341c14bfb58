"""The density that is read is the density of the model, wherever it is asked; what is not closed is not eliminated."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from numpyro.distributions import constraints
from scipy.integrate import quad
from scipy.stats import norm

import fubini as fb
from fubini import dist
from fubini.errors import DataError, DomainError, Intractable, UnknownName
from fubini.models.flat_model import FlatModel

RANDOM = np.random.default_rng(3)


def of_real(function, size=3):
    """y ~ Normal(function(x), 1), x real."""

    @fb.model
    def model():
        x = yield dist.Normal(0.0, 1.0).expand([size])
        y = yield dist.Normal(function(x), 1.0)

    return model()


def of_label(function):
    """y ~ Normal(function(z), 1), z from 0 to 3."""

    @fb.model
    def model():
        z = yield dist.Categorical(jnp.array([0.1, 0.2, 0.3, 0.4])).expand([3])
        y = yield dist.Normal(function(z), 1.0)

    return model()


REAL = {
    "a root of a square": lambda x: jnp.sqrt(2 * x**2),
    "a root of a product": lambda x: jnp.sqrt(x**2 * jnp.exp(x)),
    "a logarithm of a square": lambda x: jnp.log(x**2),
    "a logarithm of a cube": lambda x: jnp.log(jnp.abs(x) ** 3),
    "a quotient of places": lambda x: x[0] * (jnp.arange(6) // 2),
    "what a quotient leaves": lambda x: x[jnp.arange(6) % 3],
    "a quotient of negative places": lambda x: x[0] * ((jnp.arange(6) - 3) // 2),
    "a loop": lambda x: jax.lax.fori_loop(0, 3, lambda i, s: s + x[i], 0.0),
    "a loop that adds up": lambda x: jax.lax.scan(lambda s, a: (0.5 * s + a, s), 0.0, x)[1],
    "an entry of a concatenation": lambda x: jnp.concatenate([jnp.array([1.0, 2.0]), x])[3],
    "scattered beyond the end, cut": lambda x: jnp.zeros(3).at[jnp.array([1, 5])].add(x[:2], mode="clip"),
    "scattered beyond the end, dropped": lambda x: jnp.zeros(3).at[jnp.array([1, 5])].add(x[:2], mode="drop"),
    "a maximum": lambda x: jnp.maximum(x, 0.3 * x[::-1]),
    "a remainder of reals": lambda x: jnp.remainder(x, 0.7),
}
LABELS = {
    "a quotient by nothing": lambda z: jnp.exp(-1.0 / jnp.where(z == 1, 2.0, 0.0)),
    "bits in common": lambda z: (z & 1) * 1.0,
    "bits of either": lambda z: (z | 1) * 1.0,
    "bits turned": lambda z: (~z) * 1.0,
    "a truth value": lambda z: z.astype(bool) * 1.0,
    "a quotient": lambda z: (z // 2) * 1.0,
    "a remainder": lambda z: (z % 2) * 1.0,
    "both": lambda z: jnp.logical_and(z, z > 1) * 1.0,
}


def agrees(model, value):
    """At a value and at its negative where it is real."""
    (latent,) = (name for name in model.names if name != "y")
    y = np.asarray(RANDOM.normal(size=model.event_shape.y))
    post = model.condition(y=y)
    for one in (value, -value) if value.dtype.kind == "f" else (value, value[::-1]):
        with jax.enable_x64(True):
            found = float(FlatModel(post).reading.log_density({latent: jnp.asarray(one)}))
        np.testing.assert_allclose(found, float(post.log_prob(**{latent: one})), rtol=1e-9, equal_nan=True)


@pytest.mark.parametrize("function", REAL.values(), ids=REAL)
def test_functions_of_reals(function):
    agrees(of_real(function), np.array([-1.0, 0.4, 2.0]))


@pytest.mark.parametrize("function", LABELS.values(), ids=LABELS)
def test_functions_of_labels(function):
    agrees(of_label(function), np.array([3, 0, 2]))


@pytest.mark.parametrize("function", [lambda x: jnp.tile(x, 2), lambda x: jnp.stack([x, x]).reshape(-1)])
def test_places_that_division_rounds(function):
    """49 · (1/49) is less than 1."""
    agrees(of_real(function, 49), RANDOM.normal(size=49))


def test_bounds_are_not_forgotten():
    """A prior on an interval is no prior on the line."""

    @fb.model
    def bounded(low, high):
        mu = yield dist.Uniform(low, high)
        y = yield dist.Normal(mu, 1.0).expand([3])

    mass = norm(4.0, np.sqrt(1 / 3)).logcdf(1.0) - np.log(2.0)  # of the likelihood below 1, the rest is beyond a tail
    least = norm.logpdf([3.0, 4.0, 5.0], 4.0, 1.0).sum() + 0.5 * np.log(2 * np.pi / 3)
    found = bounded(-1.0, 1.0).condition(y=np.array([3.0, 4.0, 5.0])).log_evidence()
    assert float(found) == pytest.approx(mass + least, rel=1e-6)

    @fb.model
    def scale():
        s = yield dist.Uniform(0.0, 5.0)
        m = yield dist.Normal(0.0, 1.0)
        y = yield dist.Normal(m, s)

    small = scale().condition(y=0.5).eliminate("m")
    assert small.log_prob(s=7.0) == -np.inf
    known = norm.logpdf(0.5, 0.0, np.sqrt(1 + 4.0)) - np.log(5.0)
    assert small.log_prob(s=2.0) == pytest.approx(known, rel=1e-12)
    with pytest.raises(DataError, match="'s'"):
        small.log_prob(s=-1.0)


def test_a_chance_between_bounds():
    """Uniform(0, 1) is a Beta(1, 1), Uniform(0, ½) is not."""

    @fb.model
    def coin(high):
        p = yield dist.Uniform(0.0, high)
        y = yield dist.Binomial(5, p)

    assert float(coin(1.0).condition(y=2).log_evidence()) == pytest.approx(-np.log(6), rel=1e-12)
    half = coin(0.5).condition(y=2)
    with pytest.raises(Intractable):
        half.log_evidence()
    mass, _ = quad(lambda p: np.exp(float(half.log_prob(p=p))), 0.0, 0.5)
    assert mass == pytest.approx(2 * quad(lambda p: 10 * p**2 * (1 - p) ** 3, 0.0, 0.5)[0], rel=1e-6)


def test_integrals_that_diverge_are_errors():
    """A shape below 0, directions that no data say anything of."""

    def steep(y):
        v = numpyro.sample("v", numpyro.distributions.Gamma(0.5, 1.0))
        numpyro.factor("f", -2.2 * jnp.log(v))
        numpyro.sample("y", numpyro.distributions.Exponential(v), obs=y)

    with pytest.raises(DataError, match="improper"):
        fb.from_numpyro(steep, 1.0).log_evidence()
    design = RANDOM.normal(size=(6, 2)) @ np.array([[1.0, 0.0, 0.3], [0.0, 1.0, 0.7]])

    @fb.model
    def flat():
        w = yield dist.ImproperUniform(constraints.real, (3,), ())
        y = yield dist.Normal(jnp.asarray(design) @ w, 1.0)

    with pytest.raises(DataError, match="improper"):
        flat().condition(y=np.ones(6)).log_evidence()


def test_a_function_of_two_entries_is_no_push():
    def odd(y):
        x = numpyro.sample("x", numpyro.distributions.Normal(0.0, 1.0).expand([2]).to_event(1))
        numpyro.factor("f", x[0] / x[1])
        numpyro.sample("y", numpyro.distributions.Normal(x[0], 1.0), obs=y)

    with pytest.raises(Intractable):
        fb.from_numpyro(odd, 1.0).log_evidence()


@pytest.mark.parametrize("family, wrong", [("Exponential", -0.5), ("Poisson", -1), ("Bernoulli", 3)])
def test_data_outside_of_their_domain_are_no_number_in_a_trace(family, wrong):
    @fb.model
    def model():
        p = yield dist.Beta(2.0, 2.0) if family == "Bernoulli" else dist.Gamma(2.0, 1.0)
        y = yield getattr(dist, family)(p)

    evidence = jax.jit(lambda y: model().condition(y=y).log_evidence().data)
    assert np.isnan(evidence(wrong))
    assert np.isfinite(evidence(abs(wrong) % 2))


def test_nested_latents_are_predicted_from():
    @fb.model
    def inner():
        x = yield dist.Normal(0.0, 1.0)

    @fb.model
    def outer():
        i = yield inner()
        y = yield dist.Normal(i.x, 0.1)

    post = outer().condition(y=3.0)
    assert post.predict(jax.random.key(0), "y", draws=500).mean() == pytest.approx(3 / 1.01, abs=0.05)

    @fb.model
    def renamed():
        j = yield inner()
        y = yield dist.Normal(j.x, 0.1)

    with pytest.raises(UnknownName, match=r"without the latent 'i\.x'"):
        post.predict(jax.random.key(0), "y", model=renamed())


def test_a_chain_keeps_one_support():
    with pytest.raises(DomainError, match="from Uniform to Normal"):
        dist.Markov(dist.Uniform(-1.0, 1.0), lambda x: dist.Normal(x, 1.0), 3)


def test_bounds_that_a_nested_site_decides_keep_it():
    """Its support is computed from the site, which therefore stays."""

    @fb.model
    def inner():
        z = yield dist.Bernoulli(0.5)

    @fb.model
    def outer():
        i = yield inner()
        b = yield dist.Uniform(0.0, 1.0 + 4.0 * i.z)
        y = yield dist.Normal(0.0, 1.0 + b)

    with pytest.raises(Intractable, match="supports that no other latent decides"):
        outer().condition(y=4.0).infer(jax.random.key(0), draws=2, warmup=2, chains=1, progress=False)


def test_bounds_that_a_label_decides():
    """Σ_z ½ ∫ N(4; b, 1) db / (1 + 4z) from 0 to 1 + 4z"""

    @fb.model
    def model():
        z = yield dist.Bernoulli(0.5)
        b = yield dist.Uniform(0.0, 1.0 + 4.0 * z)
        y = yield dist.Normal(b, 1.0)

    post = model().condition(y=4.0)
    masses = np.array([norm.cdf(end, 4.0) - norm.cdf(0.0, 4.0) for end in (1.0, 5.0)]) * 0.5 / np.array([1.0, 5.0])
    assert float(post.log_evidence()) == pytest.approx(np.log(masses.sum()), rel=1e-6)
    assert float(post.marginal("z")(z=1)) == pytest.approx(masses[1] / masses.sum(), rel=1e-6)
    draws = post.infer(jax.random.key(0), draws=200, chains=1, progress=False).posterior
    assert np.all(draws["b"] <= 1.0 + 4.0 * draws["z"]) and np.all(draws["b"] >= 0.0)


def test_a_prior_of_another_scale_is_another_model():
    """A checkpoint is known by it."""

    def texts(scale):
        @fb.model
        def model():
            m = yield dist.StudentT(3.0, 0.0, scale)
            y = yield dist.StudentT(4.0, m, 1.0)

        return FlatModel(model().condition(y=3.0)).reading.text

    assert texts(1.0) == texts(1.0)
    assert texts(1.0) != texts(100.0)
