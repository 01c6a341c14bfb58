"""NumPyro models: every question answers for the density that NumPyro itself computes."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.contrib.control_flow import scan
from numpyro.infer.util import log_density

import fubini as fb

pytestmark = pytest.mark.right_or_refused

GRID = np.linspace(-15.0, 15.0, 3001)


def integral(model, *args, name: str = "m", grid: np.ndarray = GRID) -> tuple[float, float]:
    """log ∫ exp(NumPyro's log density) over one site, and its mean, by the trapezoidal rule in double precision."""
    with jax.enable_x64(True):
        model = handlers.seed(model, 0)
        log_p = np.asarray(jax.vmap(lambda at: log_density(model, args, {}, {name: at})[0])(grid))
    weights = np.exp(log_p - log_p.max())
    mass = np.trapezoid(weights, grid)
    return float(np.log(mass) + log_p.max()), float(np.trapezoid(weights * grid, grid) / mass)


def normals(y=None, scale=3.0):
    m = numpyro.sample("m", dist.Normal(0.0, 1.0))
    with handlers.scale(scale=scale):
        numpyro.sample("y", dist.Normal(m, 1.0), obs=y)


def plain(y=None):
    m = numpyro.sample("m", dist.Normal(0.0, 1.0))
    return numpyro.sample("y", dist.Normal(m, 1.0), obs=y)


# -- scale ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("y", [1.0, np.array(1.0), jnp.array(1.0)])
def test_a_scaled_observation_counts_so_many_times_in_every_question(y) -> None:
    joint = fb.from_numpyro(normals, y)
    assert float(joint.log_evidence()) == pytest.approx(-3.824963, abs=1e-6)
    assert float(joint.marginal("m").mean("m")) == pytest.approx(0.75)
    assert float(joint.posterior().variance("m")) == pytest.approx(0.25)
    assert float(joint.map()["m"]) == pytest.approx(0.75)
    assert float(joint.eliminate("m").log_prob()) == pytest.approx(-3.824963, abs=1e-6)
    assert "loc = 0.75" in str(joint.explain())
    assert "Normal(3/4, 1/2)" in str(fb.simplify(joint))


def test_a_scaled_observation_counts_in_draws() -> None:
    joint = fb.from_numpyro(normals, 1.0)
    key = jax.random.key(0)
    exact = joint.infer(key, draws=1000, chains=2, progress=False).posterior["m"]
    grid = joint.infer(key, draws=1000, chains=2, eliminate=[], method="grid", progress=False).posterior["m"]
    nuts = joint.infer(key, draws=1000, chains=2, eliminate=[], method="nuts", progress=False).posterior["m"]
    for draws in (exact, grid, nuts):
        np.testing.assert_allclose([float(draws.mean()), float(draws.std())], [0.75, 0.5], atol=0.08)
    predicted = joint.predict(key, "y", draws=4000)  # by the plain density: a scale is no part of a draw
    np.testing.assert_allclose([predicted.mean(), predicted.var()], [0.75, 1.25], atol=0.1)


def test_scaled_labels_are_drawn_by_their_scaled_density() -> None:
    """p(z) ∝ 0.3^(2z) 0.7^(2 − 2z) N(1; z, 1)^2"""

    def model():
        with handlers.scale(scale=2.0), numpyro.plate("N", 3):
            z = numpyro.sample("z", dist.Bernoulli(0.3))
            numpyro.sample("y", dist.Normal(1.0 * z, 1.0), obs=1.0)

    odds = (0.3 / 0.7) ** 2 * np.exp(1.0)
    joint = fb.from_numpyro(model)
    np.testing.assert_allclose(joint.marginal("z").mean("z"), [odds / (1 + odds)] * 3)
    draws = joint.gibbs("z").run(jax.random.key(0), sweeps=2000)
    np.testing.assert_allclose(np.mean(draws["z"]), odds / (1 + odds), atol=0.03)


def test_a_scaled_latent_is_integrated_to_its_power() -> None:
    model = handlers.scale(plain, scale=2.5)
    evidence, mean = integral(model, 1.0)
    joint = fb.from_numpyro(model, 1.0)
    assert float(joint.log_evidence()) == pytest.approx(evidence, abs=1e-9)
    assert float(joint.marginal("m").mean("m")) == pytest.approx(mean, abs=1e-9)
    with pytest.raises(fb.FubiniError):  # of an unnormalised power no mean is known
        fb.from_numpyro(handlers.scale(lambda: numpyro.sample("m", dist.Gamma(2.0, 1.0)), scale=2.0)).mean()


def test_an_infinite_sum_of_powers_is_refused() -> None:
    def model():
        with handlers.scale(scale=2.0):
            numpyro.sample("n", dist.Poisson(3.0))

    with pytest.raises(fb.FubiniError):
        fb.from_numpyro(model).log_evidence()


@pytest.mark.parametrize(
    "scale", [np.array([1.0, 2.0, 0.5]), jnp.array([1.0, 2.0, 0.5]), np.array([[1.0], [2.0]]), np.ones((2, 1, 1)) * 1.5]
)
def test_a_scale_broadcasts_as_numpyro_broadcasts_it(scale) -> None:
    y = np.array([0.5, -1.0, 2.0])
    joint = fb.from_numpyro(normals, y, scale)
    evidence, mean = integral(normals, y, scale)
    assert float(joint.log_evidence()) == pytest.approx(evidence, abs=2e-6)
    assert float(joint.marginal("m").mean("m")) == pytest.approx(mean, abs=2e-6)


def test_scaled_factors_add_up() -> None:
    def model():
        with handlers.scale(scale=np.array([1.0, 2.0])):
            numpyro.factor("f", jnp.array([0.5, 1.0]))
        numpyro.sample("a", dist.Bernoulli(0.3))
        numpyro.sample("b", dist.Bernoulli(0.3))

    joint = fb.from_numpyro(model)
    assert float(joint.log_evidence()) == pytest.approx(2.5)
    np.testing.assert_allclose(joint.log_prob(a=0, b=0), 2.5 + 2 * np.log(0.7))


def test_a_scale_of_another_shape_is_refused() -> None:
    with pytest.raises(fb.FubiniError, match="a scale of shape"):
        fb.from_numpyro(normals, np.zeros(3), np.ones(2))


def test_a_scale_may_be_traced_or_captured_by_a_handler() -> None:
    def evidence(scale):
        return fb.from_numpyro(handlers.scale(plain, scale=scale), jnp.array(1.0)).log_evidence().data

    expected, _ = integral(handlers.scale(plain, scale=3.0), 1.0)
    for function in (evidence, jax.jit(evidence), evidence):
        assert float(function(jnp.array(3.0))) == pytest.approx(expected, abs=1e-5)
    step = float(evidence(jnp.array(3.01)) - evidence(jnp.array(2.99))) / 0.02
    assert float(jax.grad(evidence)(jnp.array(3.0))) == pytest.approx(step, abs=1e-2)


WIDTH = 1.0


def _of_global():
    m = numpyro.sample("m", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(m, WIDTH), obs=1.0)


def test_a_model_behind_a_handler_is_read_again_when_what_it_reads_has_changed() -> None:
    global WIDTH
    model = handlers.scale(_of_global, scale=2.0)
    found = []
    for WIDTH in (1.0, 2.0):  # noqa: B007
        found.append(float(fb.from_numpyro(model).log_evidence()))
        assert found[-1] == pytest.approx(integral(model)[0], abs=1e-9)
    assert found[0] != found[1]


# -- subsamples -----------------------------------------------------------------------------------------------------

X, Y = np.linspace(-1.0, 2.0, 10), np.linspace(3.0, -2.0, 10) ** 2


def regression(x, y):
    m = numpyro.sample("m", dist.Normal(0.0, 1.0))
    with numpyro.plate("N", 10, subsample_size=4) as batch:
        numpyro.sample("y", dist.Normal(m * x[batch], 3.0), obs=y[batch])


def test_a_subsample_counts_for_its_plate() -> None:
    joint = fb.from_numpyro(handlers.seed(regression, 0), X, Y)
    evidence, mean = integral(regression, X, Y)
    assert float(joint.log_evidence()) == pytest.approx(evidence, abs=1e-9)
    assert float(joint.marginal("m").mean("m")) == pytest.approx(mean, abs=1e-9)
    assert float(joint.map()["m"]) == pytest.approx(mean, abs=1e-6)


def test_a_subsample_is_the_same_in_every_precision_and_under_jit() -> None:
    """Random whole numbers differ between precisions: data and inputs were once taken at different indices."""
    x, y = jnp.asarray(X), jnp.asarray(Y)
    model = handlers.seed(regression, 0)
    one = np.asarray([log_density(model, (x, y), {}, {"m": m})[0] for m in (-1.0, 0.0, 1.0)])
    curvature = -(one[0] + one[2] - 2 * one[1])
    slope = (one[2] - one[0]) / 2
    expected = one[1] + slope**2 / (2 * curvature) + 0.5 * np.log(2 * np.pi / curvature)

    def evidence(x, y):
        return fb.from_numpyro(handlers.seed(regression, 0), x, y).log_evidence().data

    for function in (evidence, jax.jit(evidence), evidence):
        assert float(function(x, y)) == pytest.approx(float(expected), abs=1e-3)


def test_local_sites_of_a_subsample_count_for_its_plate() -> None:
    def model(y):
        m = numpyro.sample("m", dist.Normal(0.0, 1.0))
        with numpyro.plate("N", 6, subsample_size=2):
            batch = numpyro.subsample(y, event_dim=0)
            z = numpyro.sample("z", dist.Bernoulli(0.25))
            numpyro.sample("y", dist.Normal(m + z, 1.0), obs=batch)

    y = jnp.arange(6.0)
    joint = fb.from_numpyro(handlers.seed(model, 2), y)
    seen = np.asarray(joint.observed["y"], float)
    labels = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    log_p = np.log(np.where(labels == 1, 0.25, 0.75))
    residual = seen - GRID[:, None, None] - labels
    log_p = 3.0 * (log_p - 0.5 * residual**2 - 0.5 * np.log(2 * np.pi)).sum(-1)
    log_p += (-0.5 * GRID**2 - 0.5 * np.log(2 * np.pi))[:, None]
    at = slice(1300, 1700, 50)
    expected = np.logaddexp.reduce(log_p[at], axis=-1)
    np.testing.assert_allclose(joint.eliminate("z").log_prob(m=GRID[at]), expected, rtol=1e-5)


# -- observations ---------------------------------------------------------------------------------------------------


def test_an_observation_counts_for_each_entry_that_it_is_spread_over() -> None:
    def coins():
        p = numpyro.sample("p", dist.Beta(1.0, 1.0))
        with numpyro.plate("N", 4):
            numpyro.sample("y", dist.Bernoulli(p), obs=1)

    joint = fb.from_numpyro(coins)
    assert float(joint.log_evidence()) == pytest.approx(np.log(1 / 5))
    np.testing.assert_allclose(joint.log_prob(p=0.5), 4 * np.log(0.5))
    assert joint.uncondition("y").event_shape == {"p": (), "y": (4,)}
    assert joint.infer(jax.random.key(0), draws=10, chains=2, progress=False).posterior["p"].shape == (2, 10)


@pytest.mark.parametrize("shape", [(), (3,), (1, 3), (2, 1), (2, 3)])
@pytest.mark.parametrize("event", [0, 1, 2])
@pytest.mark.parametrize("family", ["Normal", "Exponential"])
def test_observations_of_fewer_axes(shape, event, family) -> None:
    y = 0.5 + np.arange(np.prod(shape)).reshape(shape)

    def model(y):
        m = numpyro.sample("m", dist.Gamma(2.0, 1.0))
        distribution = dist.Normal(m, 1.0) if family == "Normal" else dist.Exponential(m)
        numpyro.sample("y", distribution.expand([2, 3]).to_event(event), obs=y)

    joint = fb.from_numpyro(model, y)
    whole = np.broadcast_to(y, (2, 3))
    at = whole - 0.7 if family == "Normal" else whole
    each = -0.5 * at**2 - 0.5 * np.log(2 * np.pi) if family == "Normal" else np.log(0.7) - 0.7 * at
    np.testing.assert_allclose(joint.log_weight(m=0.7), each.sum(), rtol=1e-9)
    np.testing.assert_allclose(joint.eliminate().log_prob(m=0.7), each.sum() + np.log(0.7) - 0.7, rtol=1e-9)


def test_the_model_goes_on_with_an_observation_in_its_own_shape() -> None:
    def model():
        m = numpyro.sample("m", dist.Normal(0.0, 1.0))
        y = numpyro.sample("y", dist.Normal(m, 1.0).expand([4]), obs=1.0)
        numpyro.sample("z", dist.Normal(m + y, 1.0), obs=0.5)

    assert float(fb.from_numpyro(model).log_evidence()) == pytest.approx(integral(model)[0], abs=1e-9)


def test_an_observation_larger_than_its_event_is_refused() -> None:
    def model():
        m = numpyro.sample("m", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(m, 1.0).expand([1]).to_event(1), obs=np.zeros(3))

    with pytest.raises(fb.FubiniError, match="an observation of shape"):
        fb.from_numpyro(model)


# -- handlers -------------------------------------------------------------------------------------------------------


def test_a_seed_around_a_model_changes_nothing() -> None:
    for seeded in (handlers.seed(plain, 0), handlers.seed(plain, jax.random.key(3)), handlers.seed(rng_seed=1)(plain)):
        joint = fb.from_numpyro(seeded, 1.0)
        assert float(joint.log_evidence()) == pytest.approx(-1.515512, abs=1e-6)
        assert joint.log_prob(m=0.0).dtype == np.float64
        draws = fb.from_numpyro(seeded).sample(jax.random.key(0), (3,))["m"]
        assert len(set(np.asarray(draws).tolist())) == 3


def test_what_is_drawn_from_a_seed_is_a_constant() -> None:
    def model():
        offset = numpyro.param("offset", lambda key: jax.random.normal(key))
        m = numpyro.sample("m", dist.Normal(offset, 1.0))
        numpyro.sample("y", dist.Normal(m, 1.0), obs=1.0)

    seeded = handlers.seed(model, 0)
    joint, grid = fb.from_numpyro(seeded), GRID[::10]
    expected = np.log(np.trapezoid(np.exp(joint.log_prob(m=grid)), grid))
    assert float(joint.log_evidence()) == pytest.approx(expected, abs=1e-6)
    with pytest.raises(fb.FubiniError, match="draws a key"):
        fb.from_numpyro(model)


def test_a_substituted_site_is_no_latent() -> None:
    held = fb.from_numpyro(handlers.substitute(plain, {"m": 0.5}), 1.0)
    expected = float(log_density(handlers.seed(plain, 0), (1.0,), {}, {"m": 0.5})[0])
    assert held.names == ()
    np.testing.assert_allclose([float(held.log_evidence()), float(held.log_prob())], expected, rtol=1e-6)
    trace = handlers.trace(handlers.substitute(handlers.seed(plain, 0), {"m": 0.5})).get_trace(1.0)
    assert float(fb.from_numpyro(handlers.replay(plain, trace), 1.0).log_evidence()) == pytest.approx(expected)


def test_a_substituted_label_is_no_latent() -> None:
    def model():
        for name in "abc":
            numpyro.sample(name, dist.Bernoulli(0.3))
        numpyro.factor("f", 1.0)

    joint = fb.from_numpyro(handlers.substitute(model, {"c": 1}))
    assert float(joint.log_evidence()) == pytest.approx(1.0 + np.log(0.3))


@pytest.mark.parametrize("handler", [handlers.substitute, handlers.condition])
def test_a_series_substituted_into_a_scan(handler) -> None:
    def model(y):
        def step(x, y):
            x = numpyro.sample("x", dist.Normal(x, 1.0))
            numpyro.sample("y", dist.Normal(x, 1.0), obs=y)
            return x, None

        scan(step, 0.0, y)

    y, x = np.arange(3.0), np.array([0.5, 0.0, 1.0])
    joint = fb.from_numpyro(handler(model, {"x": jnp.asarray(x)}), y)
    squares = np.sum(np.diff(x, prepend=0.0) ** 2) + np.sum((y - x) ** 2)
    assert float(joint.log_evidence()) == pytest.approx(-0.5 * squares - 3 * np.log(2 * np.pi), abs=1e-5)


def test_an_observation_taken_back_is_a_latent() -> None:
    joint = fb.from_numpyro(handlers.uncondition(plain), 1.0)
    assert joint.names == ("m", "y")
    assert float(joint.log_evidence()) == pytest.approx(0.0, abs=1e-12)


def test_an_intervention_cuts_a_site_off() -> None:
    joint = fb.from_numpyro(handlers.do(plain, {"m": 0.5}), 1.0)
    assert float(joint.log_evidence()) == pytest.approx(-0.5 * np.log(2 * np.pi) - 0.125)
    assert float(joint.marginal("m").mean("m")) == pytest.approx(0.0)


def test_masks_in_every_handler() -> None:
    y, mask = np.array([0.5, np.nan, 2.0]), np.array([True, False, True])

    def model(y):
        m = numpyro.sample("m", dist.Normal(0.0, 1.0))
        with numpyro.plate("N", 3), handlers.mask(mask=mask), handlers.scale(scale=2.0):
            numpyro.sample("y", dist.Normal(m, 1.0), obs=y)

    for data in (np.nan_to_num(y), jnp.asarray(np.nan_to_num(y))):
        found = fb.from_numpyro(model, data)
        assert float(found.log_evidence()) == pytest.approx(integral(model, np.nan_to_num(y))[0], abs=1e-5)
    with pytest.raises(fb.FubiniError):  # the integral of 1 over all numbers
        fb.from_numpyro(handlers.mask(lambda: numpyro.sample("m", dist.Normal(0.0, 1.0)), mask=False)).log_evidence()


def test_finite_sites_under_a_mask_are_uniform() -> None:
    def model():
        numpyro.sample("a", dist.Categorical(np.array([0.2, 0.5, 0.3])))
        numpyro.sample("b", dist.Bernoulli(0.3))

    joint = fb.from_numpyro(handlers.mask(model, mask=False))
    assert float(joint.log_evidence()) == pytest.approx(np.log(6.0))
    assert float(joint.marginal("a").mean("a")) == pytest.approx(1.0)
    assert float(joint.marginal("a").variance("a")) == pytest.approx(2 / 3)
    np.testing.assert_allclose(joint.posterior()(a=2, b=0).log().data, -np.log(6.0))


# -- families -------------------------------------------------------------------------------------------------------


def test_scales_and_masks_of_families_made_of_others() -> None:
    def model():
        m = numpyro.sample("m", dist.Normal(0.0, 1.0))
        with handlers.scale(scale=2.0), handlers.mask(mask=np.array([True, False])):
            numpyro.sample("y", dist.TruncatedNormal(m, 1.0, low=0.5), obs=np.array([1.0, 2.0]))

    joint = fb.from_numpyro(model)
    expected = float(log_density(model, (), {}, {"m": 0.3})[0])
    np.testing.assert_allclose([joint.log_prob(m=0.3), joint.eliminate().log_prob(m=0.3)], expected, rtol=1e-5)


def test_a_normal_by_its_covariance_and_an_improper_site() -> None:
    def vectors():
        x = numpyro.sample("x", dist.MultivariateNormal(jnp.zeros(2), jnp.eye(2)))
        numpyro.sample("y", dist.MultivariateNormal(x, precision_matrix=jnp.eye(2)), obs=jnp.ones(2))

    def improper():
        m = numpyro.sample("m", dist.ImproperUniform(dist.constraints.real, (), ()))
        with handlers.scale(scale=2.0):
            numpyro.sample("y", dist.Normal(m, 1.0), obs=0.0)

    assert float(fb.from_numpyro(vectors).log_evidence()) == pytest.approx(-np.log(4 * np.pi) - 0.5, abs=1e-5)
    assert float(fb.from_numpyro(improper).log_evidence()) == pytest.approx(0.5 * np.log(np.pi) - np.log(2 * np.pi))


@pytest.mark.parametrize(
    "distribution", [dist.Beta(0.5, 0.5), dist.Gamma(0.5, 1.0), dist.Dirichlet(np.array([0.5, 2.0]))]
)
def test_a_power_without_a_finite_integral_is_refused(distribution) -> None:
    with pytest.raises(fb.FubiniError):
        fb.from_numpyro(handlers.scale(lambda: numpyro.sample("x", distribution), scale=3.0)).log_evidence()


def test_what_a_trace_recorded_is_no_part_of_a_model() -> None:
    """`handlers.trace` keeps the values of its last run, which may be those of a run that JAX traced."""
    joint = fb.from_numpyro(handlers.trace(normals), 1.0)
    assert float(joint.log_evidence()) == pytest.approx(-3.824963, abs=1e-6)
    first = float(joint.log_prob(m=0.5))
    assert float(joint.log_prob(m=0.5)) == first == pytest.approx(float(fb.from_numpyro(normals, 1.0).log_prob(m=0.5)))


def test_a_factor_of_whole_numbers_over_a_network() -> None:
    def model():
        a = numpyro.sample("a", dist.Bernoulli(0.5))
        b = numpyro.sample("b", dist.Bernoulli(0.3))
        numpyro.factor("f", a + 2 * b)

    expected = np.log(0.5 * (1 + np.e) * (0.7 + 0.3 * np.e**2))
    assert float(fb.from_numpyro(model).log_evidence()) == pytest.approx(expected, rel=1e-6)
