"""NumPyro's models as joints: equal densities, names, observations, draws and unconstraining maps."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.contrib.control_flow import scan
from numpyro.infer.util import log_density
from numpyro.primitives import mutable

import fubini as fb
from fubini.errors import DataError
from fubini.models.joint import Conditioned
from tests.counting import no_tracing
from tests.models.numpyro_models import CASES, X, Y, eight_schools, gaussian_hmm, regression_on_subsample

every = pytest.mark.parametrize("name", CASES)


@lru_cache
def converted(name: str):
    """The model, the joint with its observations, and the one without."""
    case = CASES[name]
    joint = fb.from_numpyro(case.model, *case.args, **case.named)
    return case, joint, joint.uncondition() if case.observed else joint


@lru_cache
def drawn(name: str) -> dict:
    """Values of all sites that are neither observed nor computed."""
    case, _, whole = converted(name)
    values = whole.sample(jax.random.key(1))
    return {site: values[site] for site in case.free}


@every
@pytest.mark.one_in(3)
def test_log_prob_equals_numpyro(name: str) -> None:
    case, joint, _ = converted(name)
    with jax.enable_x64(True):
        model = handlers.seed(case.model, 0)
        at = {site: jnp.asarray(value) for site, value in drawn(name).items()}
        expected = jax.jit(lambda at: log_density(model, case.args, case.named, at)[0])(at)
    found = joint.log_prob(drawn(name))
    assert found.dtype == np.float64 and found.shape == ()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@every
def test_names(name: str) -> None:
    case, joint, whole = converted(name)
    assert whole.names == tuple(case.shapes)
    assert joint.names == tuple(site for site in case.shapes if site not in case.observed)


@every
def test_observed_sites_are_conditioned_on(name: str) -> None:
    case, joint, whole = converted(name)
    assert isinstance(joint, Conditioned) == bool(case.observed)
    for site in case.observed:
        assert joint.observed[site].shape == whole.event_shape[site] == case.shapes[site]


@every
def test_draws(name: str) -> None:
    """One sample; a batch is checked below for one model of each kind, as each costs a compilation."""
    case, _, whole = converted(name)
    values = whole.sample(jax.random.key(1))
    assert {site: value.shape for site, value in values.items()} == case.shapes == whole.event_shape
    assert all(np.isfinite(value).all() for value in values.values())


# A third of the models: each kind of support is in one of them at least.
TURNED = ("eight_schools", "zero_inflated", "ordinal_regression", "branches", "discrete_hmm_in_a_plate")
TURNED += ("capture_and_recapture", "correlated_normals", "truncated", "users_own_family")


@pytest.mark.parametrize("name", TURNED)
def test_bijector_round_trip(name: str) -> None:
    case, joint, _ = converted(name)
    bijector = joint.bijector()
    free, shapes = bijector.inverse(drawn(name)), bijector.shape
    assert {site: np.shape(free[site]) for site in case.free} == {site: shapes[site] for site in case.free}
    values = bijector.forward(free)
    for site, value in drawn(name).items():
        np.testing.assert_allclose(values[site], value, rtol=1e-6, atol=1e-9, err_msg=site)


BATCHED = ("eight_schools_noncentered", "gaussian_hmm", "branches")


@pytest.mark.parametrize("name", BATCHED)
def test_batches(name: str) -> None:
    """A leading axis in every site of a sample, and one density for each of them, conditioned or given the data."""
    case, joint, whole = converted(name)
    values = whole.sample(jax.random.key(2), (3,))
    assert {site: value.shape for site, value in values.items()} == {s: (3, *shape) for s, shape in case.shapes.items()}
    at = {site: values[site] for site in case.free}
    each = [float(joint.log_prob({site: value[place] for site, value in at.items()})) for place in range(3)]
    np.testing.assert_allclose(joint.log_prob(at), each, rtol=1e-12)
    assert len(set(each)) == 3
    if case.observed:
        both = {**at, **joint.observed}
        np.testing.assert_allclose(whole.log_prob(both), each, rtol=1e-12)


# -- observations ---------------------------------------------------------------------------------------------------


def normals(y=None):
    m = numpyro.sample("m", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(m, 1.0), obs=y)


def test_uncondition_and_condition_are_inverse() -> None:
    joint = fb.from_numpyro(normals, np.array([0.5, 1.0]))
    other = joint.uncondition("y").condition(y=np.array([0.5, 2.0]))
    assert joint.uncondition("y").event_shape == {"m": (), "y": (2,)}  # as many as are observed
    np.testing.assert_allclose(other.log_prob(m=0.0), fb.from_numpyro(normals, np.array([0.5, 2.0])).log_prob(m=0.0))


def test_parts_of_the_observed_sites_are_separate() -> None:
    parts = fb.from_numpyro(normals, 0.5).log_prob_parts(m=0.0)
    np.testing.assert_allclose([parts.observed["y"], parts.free["m"]], [-1.0439385, -0.9189385], rtol=1e-6)


def test_weights_hold_the_observed_sites() -> None:
    joint = fb.from_numpyro(normals, 0.5)
    values, weights = joint.sample_and_log_weight(jax.random.key(0), (4,))
    assert list(values) == ["m"] and values["m"].shape == (4,)
    np.testing.assert_allclose(weights, dist.Normal(values["m"], 1.0).log_prob(0.5), rtol=1e-6)


def test_observation_computed_from_a_site_stays_inside() -> None:
    def model():
        m = numpyro.sample("m", dist.Normal(0.0, 1.0))
        numpyro.sample("zero", dist.Normal(m, 1.0), obs=m * 0.0)

    joint = fb.from_numpyro(model)
    assert joint.names == ("m",)
    np.testing.assert_allclose(joint.log_prob(m=1.0), -0.918938533 * 2 - 1.0, rtol=1e-6)


def test_condition_and_substitute_handlers() -> None:
    held = fb.from_numpyro(handlers.condition(normals, {"y": 0.5}))
    np.testing.assert_allclose(held.log_prob(m=0.0), fb.from_numpyro(normals, 0.5).log_prob(m=0.0))
    fixed = fb.from_numpyro(handlers.substitute(normals, {"m": 0.0}), 0.5)
    np.testing.assert_allclose(fixed.log_prob(), held.log_prob(m=0.0))


def test_delta_of_a_vector() -> None:
    def model():
        numpyro.sample("x", dist.Delta(np.ones(2), log_density=0.5, event_dim=1))

    np.testing.assert_allclose(fb.from_numpyro(model).log_prob(x=np.ones(2)), 0.5)


def test_subsample_is_scaled_to_the_plate() -> None:
    """log p = log p(w) + 10/4 Σ_i log p(y_i | w) over the four that were taken."""
    joint = fb.from_numpyro(handlers.seed(regression_on_subsample, 3), X, Y)
    prior, likelihood = joint.log_prob_parts(weights=np.zeros(2))[::-1]
    np.testing.assert_allclose(prior["weights"], 2 * -0.918938533, rtol=1e-6)
    seen = joint.observed["y"]
    assert np.isin(seen, Y).all()
    np.testing.assert_allclose(likelihood["y"], 2.5 * np.sum(-0.918938533 - 0.5 * seen**2), rtol=1e-6)


def test_a_seed_does_not_tie_the_draws_of_a_scan() -> None:
    steps = np.diff(fb.from_numpyro(handlers.seed(gaussian_hmm, 0)).sample(jax.random.key(0), (2,))["x"])
    assert not np.isclose(steps[0], steps[1]).any()


def test_given_sites_change_no_other_draw() -> None:
    joint = fb.from_numpyro(gaussian_hmm)
    free, held = joint.sample(jax.random.key(0)), joint.sample(jax.random.key(0), x_0=7.0)
    assert held["x_0"] == 7.0
    np.testing.assert_allclose(held["x"] - 7.0, free["x"] - free["x_0"], rtol=1e-6, atol=1e-6)


# -- JAX ------------------------------------------------------------------------------------------------------------


def scaled(scale, y):
    m = numpyro.sample("m", dist.Normal(0.0, scale))
    numpyro.sample("y", dist.Normal(m, 1.0), obs=y)


def test_jax_arrays_give_jax_arrays() -> None:
    found = fb.from_numpyro(scaled, jnp.array(2.0), jnp.zeros(3)).log_prob(m=0.0)
    assert isinstance(found, jax.Array) and found.dtype == jnp.float32


def test_gradients_of_arguments_data_and_values() -> None:
    def loss(scale, y, m):
        return fb.from_numpyro(scaled, scale, y).log_prob(m=m)

    for transform in (lambda f: f, jax.jit):
        scale, y, m = transform(jax.grad(loss, (0, 1, 2)))(jnp.array(2.0), jnp.array([0.5, -1.0]), jnp.array(1.0))
        np.testing.assert_allclose(scale, -1 / 2 + 1 / 8, rtol=1e-6)
        np.testing.assert_allclose(y, [0.5, 2.0], rtol=1e-6)
        np.testing.assert_allclose(m, -1 / 4 - 0.5 - 2.0, rtol=1e-6)


def test_a_joint_crosses_jit_and_vmap() -> None:
    joint = fb.from_numpyro(scaled, jnp.array(2.0), jnp.zeros(3))
    expected = joint.log_prob(m=0.5)
    np.testing.assert_allclose(jax.jit(lambda joint, m: joint.log_prob(m=m))(joint, 0.5), expected, rtol=1e-6)
    many = jax.vmap(lambda y: fb.from_numpyro(scaled, jnp.array(2.0), y).log_prob(m=0.5))(jnp.zeros((2, 3)))
    np.testing.assert_allclose(many, [expected] * 2, rtol=1e-6)


def test_nothing_is_traced_twice() -> None:
    joint, key = fb.from_numpyro(normals, np.zeros(3)), jax.random.key(0)
    joint.log_prob(m=0.0), joint.sample_and_log_weight(key, 2), joint.bijector().forward(m=0.0)
    again = fb.from_numpyro(normals, np.zeros(3))
    with no_tracing():
        joint.log_prob(m=1.0), joint.sample_and_log_weight(key, 2), joint.bijector().forward(m=1.0)
        again.log_prob(m=2.0)


# -- what cannot be read --------------------------------------------------------------------------------------------


def refused(model, *args) -> str:
    with pytest.raises(fb.FubiniError) as error:
        fb.from_numpyro(model, *args)
    return str(error.value)


def test_subsample_without_a_seed() -> None:
    message = refused(regression_on_subsample, X, Y)
    assert "the plate 'N', which takes a subsample at random" in message
    assert "numpyro.handlers.seed(model, 0)" in message


def test_control_flow_on_a_random_value() -> None:
    def model():
        x = numpyro.sample("x", dist.Normal(0.0, 1.0))
        if x > 0:
            numpyro.sample("y", dist.Normal(0.0, 1.0))

    message = refused(model)
    assert "control flow on a random value or a parameter, after the site 'x' of a NumPyro model" in message
    assert "jnp.where or jax.lax.cond" in message


def test_size_that_is_random() -> None:
    def model():
        count = numpyro.sample("count", dist.Poisson(3.0))
        numpyro.sample("y", dist.Normal(jnp.zeros(count), 1.0))

    assert "control flow on a random value or a parameter, after the site 'count'" in refused(model)


@pytest.mark.parametrize("statement", ["sample", "factor"])
def test_scale_by_element(statement: str) -> None:
    def model():
        with handlers.scale(scale=jnp.array([1.0, 2.0])):
            if statement == "sample":
                numpyro.sample("y", dist.Normal(jnp.zeros(2), 1.0), obs=np.array([0.0, 1.0]))
            else:
                numpyro.factor("y", jnp.array([0.0, 1.0]))

    expected = 2.0 if statement == "factor" else 3 * -0.918938533 - 1.0
    np.testing.assert_allclose(fb.from_numpyro(model).log_prob(), expected, rtol=1e-6)


def test_statement_that_is_not_known() -> None:
    def model():
        mutable("state", {"mean": 0.0})

    message = refused(model)
    assert "numpyro's 'mutable' in a model" in message
    assert "sample, plate, deterministic, factor, mask, scale, param and scan" in message


def test_scan_in_a_plate() -> None:
    def model():
        with numpyro.plate("N", 3):
            scan(lambda x, _: (numpyro.sample("x", dist.Normal(x, 1.0)), None), jnp.zeros(3), None, length=4)

    assert "move those `plate` statements into the control flow body function" in refused(model)


def test_key_drawn_outside_a_site() -> None:
    def model():
        numpyro.sample("y", dist.Normal(jax.random.normal(numpyro.prng_key()), 1.0))

    assert "a NumPyro model that draws a key" in refused(model)
    assert fb.from_numpyro(handlers.seed(model, 0)).names == ("y",)


def test_two_sites_of_one_name() -> None:
    def model():
        normals()
        normals()

    assert "two sites called 'm'" in refused(model)


def test_reserved_name() -> None:
    assert "a site called 'value'" in refused(lambda: numpyro.sample("value", dist.Normal(0.0, 1.0)))


def test_observation_of_the_wrong_shape() -> None:
    message = refused(eight_schools, 8, 1.0, np.zeros(3))
    assert "an observation of shape (3,) for the site 'obs'" in message
    assert "one that fits the shape (8,)" in message


def test_observation_with_missing_entries() -> None:
    message = refused(normals, np.ma.masked_array([1.0, 2.0], [False, True]))
    assert "an observation of 'y' with missing entries" in message
    assert ".condition(y=…), or use obs_mask" in message


def test_value_missing_in_a_scan() -> None:
    with pytest.raises(DataError, match="no value for the site 'x'"):
        fb.from_numpyro(gaussian_hmm, np.arange(5.0)).log_prob(x_0=0.0)


def test_not_a_model() -> None:
    assert "a NumPyro model function" in refused(3.0)
