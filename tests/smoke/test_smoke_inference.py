"""Models and their questions, on every supported version of Python and of the libraries."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as ndist
import pytest
from numpyro.contrib.control_flow import scan
from scipy import stats

import fubini as fb
from fubini import dist

pytestmark = pytest.mark.right_or_refused

KEY = jax.random.key(0)
Y = np.array([0.3, 1.1, 0.8, -0.4])
MEAN, SD = Y.sum() / 5, 0.2**0.5  # of m ~ Normal(0, 1), given four y ~ Normal(m, 1)


SIDES = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])


@fb.model
def levels(sides):
    s = yield dist.InverseGamma(3.0, 2.0)
    m = yield dist.Normal(0.0, 1.0).expand([2])
    total = yield fb.deterministic(m.sum())
    y = yield dist.Normal(sides @ m, s)


def within(draws, mean: float, sd: float) -> None:
    """The mean of independent draws, within five standard errors."""
    numbers = np.asarray(draws).ravel()
    assert abs(numbers.mean() - mean) < 5 * sd / numbers.size**0.5


def test_a_numpyro_model_is_read() -> None:
    def model(y):
        m = numpyro.sample("m", ndist.Normal(0.0, 1.0))
        with numpyro.plate("row", len(y)):
            numpyro.sample("y", ndist.Normal(m, 1.0), obs=y)

    post = fb.from_numpyro(model, Y)
    assert float(post.marginal("m").mean("m")) == pytest.approx(MEAN, abs=1e-6)
    covariance = np.eye(4) + 1.0
    want = -0.5 * (np.linalg.slogdet(2 * np.pi * covariance)[1] + Y @ np.linalg.solve(covariance, Y))
    assert float(post.log_evidence()) == pytest.approx(want, abs=1e-5)
    within(post.infer(KEY, draws=200, progress=False).posterior["m"], MEAN, SD)


def test_scopes_of_numpyro_are_in_arviz_data() -> None:
    """A DataTree has no names with a slash."""

    def model():
        numpyro.sample("m", ndist.Normal(0.0, 1.0))

    found = fb.from_numpyro(numpyro.handlers.scope(model, "a")).infer(KEY, draws=5, progress=False).posterior
    assert set(found.data_vars) & {"a/m", "a.m"} and found.attrs["method"] == "exact"


@pytest.mark.parametrize("method", ["grid", "nuts", "laplace"])
def test_arviz_data_have_groups_and_axes(method) -> None:
    found = (
        levels(SIDES)
        .condition(y=Y)
        .infer(
            KEY,
            draws=20,
            chains=2,
            warmup=20,
            method=method,
            dims={"m": ["side"], "y": ["row"]},
            coords={"side": ["left", "right"]},
            progress=False,
        )
    )
    for group in ("posterior", "log_likelihood", "posterior_predictive", "observed_data"):
        assert len(getattr(found, group).data_vars)
    assert set(found.posterior.data_vars) == {"s", "m", "total"}
    assert found.posterior["m"].dims == ("chain", "draw", "side") and found.posterior["m"].shape == (2, 20, 2)
    assert list(found.posterior["side"].values) == ["left", "right"]
    assert found.log_likelihood["y"].dims == found.posterior_predictive["y"].dims == ("chain", "draw", "row")
    assert found.posterior.attrs["method"] == method and found.posterior.attrs["inference_library"] == "fubini"
    np.testing.assert_allclose(found.observed_data["y"], Y)
    np.testing.assert_allclose(found.posterior["total"], found.posterior["m"].sum("side"), rtol=1e-6)
    if method == "nuts":
        assert found.sample_stats["diverging"].shape == (2, 20)


def test_a_killed_run_goes_on(tmp_path) -> None:
    settings = dict(draws=10, chains=2, warmup=10, checkpoint=tmp_path / "run.npz", progress=False)
    first, again = (levels(SIDES).condition(y=Y).infer(KEY, **settings).posterior for _ in range(2))
    np.testing.assert_array_equal(first["s"], again["s"])


def test_posteriors_and_predictions_are_exact() -> None:
    post = fb.JointNamed(dict(m=dist.Normal(0.0, 1.0), y=lambda m: dist.Normal(m, 1.0).expand([4]))).condition(y=Y)
    assert float(post.posterior().mean("m")) == pytest.approx(MEAN, abs=1e-10)
    assert float(post.map()["m"]) == pytest.approx(MEAN, abs=1e-6)
    within(post.predict(KEY, "y", draws=500).mean(-1), MEAN, (SD**2 + 0.25) ** 0.5)
    found = fb.fit(fb.JointNamed(dict(m=dist.Normal(fb.param(0.0), 1.0))).condition(m=2.0), progress=False)
    assert np.isfinite(float(found.model.log_evidence()))


def test_labels_are_sampled_by_compiled_loops() -> None:
    @fb.model
    def mixture(n, k):
        theta = yield dist.Dirichlet(jnp.ones(k))
        mu = yield dist.Normal(0.0, 14.0).expand([k])
        z = yield dist.Categorical(theta).expand([n])
        s = yield dist.Normal(mu[z], 1.0)

    truth = np.array([0, 1, 0, 1, 1, 0])
    post = mixture(6, 2).condition(s=np.array([-10.0, 10.0])[truth])
    sampler = post.eliminate("theta", "mu").gibbs("z")
    found = sampler.run(KEY, sweeps=5, chains=2).to_arviz(dims={"z": ["item"]}).posterior
    assert found["z"].dims == ("chain", "draw", "item") and found["z"].shape == (2, 5, 6)
    assert sampler.conditional("z", 0, z=truth).argmax() == truth[0]


def test_a_scan_of_numpyro_is_a_chain() -> None:
    y = np.array([0.3, -0.5, 0.2, 1.1])

    def local_level(y):
        def step(before, observed):
            level = numpyro.sample("level", ndist.Normal(before, 1.0))
            numpyro.sample("y", ndist.Normal(level, 0.5), obs=observed)
            return level, None

        scan(step, 0.0, y)

    covariance = np.minimum(*np.meshgrid(np.arange(1.0, 5.0), np.arange(1.0, 5.0))) + 0.25 * np.eye(4)
    expected = stats.multivariate_normal.logpdf(y, np.zeros(4), covariance)
    assert float(fb.from_numpyro(local_level, y).log_evidence()) == pytest.approx(expected, rel=1e-5)
