"""`infer`: its groups, its repeatability, its methods, and what becomes of each kind of model."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as npd
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, multivariate_t

import fubini as fb
from fubini import dist
from tests.counting import no_tracing
from tests.infer.reference import summary

KEY = jax.random.key(0)
RANDOM = np.random.default_rng(3)
X = RANDOM.normal(size=(6, 2))
Y = np.ma.array(X @ np.array([1.0, -1.0]) + RANDOM.normal(size=6), mask=[False, False, True, False, False, False])
SEEN = ~np.ma.getmaskarray(Y)
QUIET = dict(progress=False, log_likelihood=False, predictive=False)


@fb.model
def regression(x):
    s = yield dist.HalfNormal(1.0)
    w = yield dist.Normal(0.0, 2.0).expand([x.shape[1]])
    total = yield fb.deterministic(jnp.sum(w))
    y = yield dist.Normal(x @ w, s)


@fb.model
def normal():
    m = yield dist.Normal(0.0, 2.0)
    y = yield dist.Normal(m, 1.0).expand([4])


POST = regression(X).condition(y=Y)
FOUR = np.array([1.2, 0.3, 2.0, -0.4])
MEAN, SD = FOUR.sum() / 4.25, 4.25**-0.5  # of m given FOUR


def run(key=KEY):
    return POST.infer(
        key,
        draws=60,
        warmup=60,
        chains=2,
        progress=False,
        dims={"w": ["column"], "y": ["row"]},
        coords={"column": ["left", "right"], "row": list("abcdef")},
    )


@pytest.fixture(scope="module")
def found():
    return run()


def assert_moments(draws, mean, sd=None, errors=4.0):
    """Means of draws [chain, draw, …] within so many Monte Carlo errors, standard deviations within 15 %."""
    of = summary({"x": np.asarray(draws, float)})["x"]
    off = np.abs(of["mean"] - mean) / of["mcse"]
    assert np.all(off < errors), f"{of['mean']} is {off} standard errors from {mean}"
    if sd is not None:
        np.testing.assert_allclose(of["sd"], sd, rtol=0.15)


# -- groups -----------------------------------------------------------------------------------------------------------


def groups_of(found) -> set[str]:
    """Of InferenceData, or of a DataTree, which ArviZ 1 has in its place."""
    return set(found.groups()) if callable(found.groups) else set(found.children)


def test_groups(found) -> None:
    groups = {"posterior", "sample_stats", "log_likelihood", "posterior_predictive", "observed_data"}
    assert groups_of(found) == groups
    assert set(found.posterior) == {"s", "w", "total"}
    assert set(found.sample_stats) == {"acceptance_rate", "lp"}
    assert found.posterior.attrs["inference_library"] == "fubini"
    assert found.posterior.attrs["method"] == "grid" and found.posterior.attrs["eliminated"] == ["w"]


def test_dims_and_coords(found) -> None:
    assert found.posterior["w"].dims == ("chain", "draw", "column")
    assert found.posterior["w"].shape == (2, 60, 2) and found.posterior["s"].shape == (2, 60)
    assert list(found.posterior["column"].values) == ["left", "right"]
    for group in (found.log_likelihood, found.posterior_predictive):
        assert group["y"].dims == ("chain", "draw", "row") and group["y"].shape == (2, 60, 6)
    assert found.observed_data["y"].dims == ("row",)


def test_computed_sites_are_in_the_posterior(found) -> None:
    np.testing.assert_allclose(found.posterior["total"], found.posterior["w"].sum("column"), rtol=1e-12)


def test_log_likelihoods_sum_to_the_density_of_the_observed_site(found) -> None:
    """Those of missing entries are NaN."""
    terms = np.asarray(found.log_likelihood["y"])
    assert np.array_equal(np.isnan(terms), np.broadcast_to(~SEEN, terms.shape))
    parts = POST.log_prob_parts(s=np.asarray(found.posterior["s"]), w=np.asarray(found.posterior["w"]))
    np.testing.assert_allclose(np.nansum(terms, axis=-1), np.asarray(parts.observed.y), rtol=1e-9)


def test_missing_entries_are_nan_in_the_observed_data(found) -> None:
    np.testing.assert_array_equal(found.observed_data["y"], Y.filled(np.nan))


def test_predictive_draws_are_there_for_missing_entries(found) -> None:
    assert np.all(np.isfinite(found.posterior_predictive["y"]))


def test_groups_that_are_not_asked_for() -> None:
    found = normal().condition(y=FOUR).infer(KEY, draws=5, **QUIET)
    assert groups_of(found) == {"posterior", "observed_data"}


# -- repeatable -------------------------------------------------------------------------------------------------------


def test_a_key_gives_the_same_draws_bit_for_bit(found) -> None:
    again = run()
    for group in ("posterior", "sample_stats", "log_likelihood", "posterior_predictive"):
        for name in found[group]:
            np.testing.assert_array_equal(again[group][name], found[group][name], err_msg=f"{group} {name}")


def test_another_key_gives_others(found) -> None:
    other = run(jax.random.key(1))
    for name in ("s", "w", "total"):
        assert not np.any(np.asarray(other.posterior[name]) == np.asarray(found.posterior[name]))


@pytest.mark.parametrize("name", ["exact", "nuts"])
def test_nothing_is_compiled_again(name: str) -> None:
    """The same model, data and settings; only the key differs."""
    post, method = (normal().condition(y=FOUR), None) if name == "exact" else (POST, name)
    ask = lambda key: post.infer(key, draws=5, warmup=5, chains=2, method=method, **QUIET)  # noqa: E731
    ask(KEY)
    other = jax.random.key(1)
    with no_tracing():
        ask(other)


# -- methods ----------------------------------------------------------------------------------------------------------


def test_without_latents_left_draws_are_exact() -> None:
    found = normal().condition(y=FOUR).infer(KEY, draws=500, **QUIET).posterior
    assert found.attrs["method"] == "exact" and found.attrs["eliminated"] == ["m"]
    assert found["m"].shape == (4, 500)
    assert_moments(found["m"], MEAN, SD)


@pytest.mark.parametrize("method", ["laplace", "svi"])
def test_normal_approximations_of_a_normal_posterior(method: str) -> None:
    found = normal().condition(y=FOUR).infer(KEY, draws=500, method=method, eliminate=[], **QUIET).posterior
    assert found.attrs["method"] == method and found.attrs["eliminated"] == []
    error = 0.0 if method == "laplace" else 0.02  # of the optimiser
    assert float(found["m"].mean()) == pytest.approx(MEAN, abs=4 * SD / 2000**0.5 + error)
    assert float(found["m"].std()) == pytest.approx(SD, rel=0.1)


@fb.model
def wide():
    m = yield dist.Normal(0.0, 500.0)
    y = yield dist.Normal(m, 500.0)


def test_svi_reaches_a_scale_that_is_far_from_one() -> None:
    drawn = wide().condition(y=0.0).infer(KEY, draws=500, method="svi", eliminate=[], **QUIET).posterior
    assert float(drawn["m"].std()) == pytest.approx(500 / 2**0.5, rel=0.1)


@pytest.mark.slow
def test_what_is_eliminated_does_not_change_the_posterior() -> None:
    """Means of two runs within four of their errors."""
    settings = dict(draws=800, warmup=400, **QUIET)
    drawn = (
        POST.infer(jax.random.key(7), **settings),
        POST.infer(  # by a grid, by NUTS
            jax.random.key(7), eliminate=[], target_accept=0.95, **settings
        ),
    )
    both = [of.posterior for of in drawn]
    assert [of.attrs["eliminated"] for of in both] == [["w"], []]
    ours, whole = (summary({name: np.asarray(of[name]) for name in ("s", "w")}) for of in both)
    for name in ("s", "w"):
        error = np.hypot(ours[name]["mcse"], whole[name]["mcse"])
        assert np.all(np.abs(ours[name]["mean"] - whole[name]["mean"]) < 4 * error)
        np.testing.assert_allclose(ours[name]["sd"], whole[name]["sd"], rtol=0.15)


@pytest.mark.slow
def test_the_posterior_of_a_scale() -> None:
    """Against a grid over s, given which y is normal."""
    x, y = X[SEEN], np.asarray(Y[SEEN])
    grid = np.linspace(0.02, 6.0, 2000)
    weight = [-0.5 * s**2 + multivariate_normal(None, 4 * x @ x.T + s**2 * np.eye(5)).logpdf(y) for s in grid]
    weight = np.exp(weight - logsumexp(weight))
    slopes = [np.linalg.solve(x.T @ x + s**2 / 4 * np.eye(2), x.T @ y) for s in grid]
    found = POST.infer(jax.random.key(2), draws=800, warmup=400, **QUIET).posterior
    assert_moments(found["s"], weight @ grid)
    assert_moments(found["w"], weight @ np.array(slopes))
    assert_moments(found["total"], weight @ np.array(slopes).sum(axis=1))


# -- a discrete remainder ---------------------------------------------------------------------------------------------


@fb.model
def shifted():
    mu = yield dist.Normal(0.0, 2.0)
    k = yield dist.Bernoulli(0.4).expand([3])
    y = yield dist.Normal(mu + 2.0 * k, 1.0)


THREE = np.array([0.1, 1.4, 2.3])


def enumerated() -> tuple[np.ndarray, float]:
    """E k and E μ over the eight labellings, given each of which μ is normal."""
    weights, means, labels = [], [], np.array(list(itertools.product([0, 1], repeat=3)))
    for k in labels:
        evidence = multivariate_normal(2.0 * k, np.eye(3) + 4.0).logpdf(THREE)
        weights.append(evidence + np.sum(np.where(k, np.log(0.4), np.log(0.6))))
        means.append(np.sum(THREE - 2.0 * k) / 3.25)
    weight = np.exp(weights - logsumexp(weights))
    return weight @ labels, float(weight @ means)


@pytest.mark.slow
def test_a_discrete_remainder_is_sampled_by_gibbs_steps() -> None:
    found = shifted().condition(y=THREE).infer(KEY, draws=2000, warmup=200, eliminate=["mu"], **QUIET).posterior
    assert found.attrs["method"] == "gibbs" and found["k"].shape == (4, 2000, 3)
    labels, mean = enumerated()
    assert_moments(found["k"], labels)
    assert_moments(found["mu"], mean)


def test_the_same_in_closed_form() -> None:
    """The labels are summed and μ is drawn, or the other way round: nothing is left."""
    found = shifted().condition(y=THREE).infer(KEY, draws=1000, **QUIET).posterior
    labels, mean = enumerated()
    assert_moments(found["k"], labels)
    assert_moments(found["mu"], mean)


# -- kinds of models --------------------------------------------------------------------------------------------------


def numpyro_normal(y):
    m = numpyro.sample("m", npd.Normal(0.0, 2.0))
    numpyro.deterministic("twice", 2.0 * m)
    with numpyro.plate("item", 4):
        numpyro.sample("y", npd.Normal(m, 1.0), obs=y)


def test_a_model_of_numpyro() -> None:
    """What it observes inside is conditioned on."""
    found = fb.from_numpyro(numpyro_normal, FOUR).infer(KEY, draws=500, progress=False)
    assert found.posterior.attrs["eliminated"] == ["m"]
    assert_moments(found.posterior["m"], MEAN, SD)
    assert_moments(found.posterior["twice"], 2 * MEAN, 2 * SD)
    np.testing.assert_allclose(found.observed_data["y"], FOUR)
    assert found.log_likelihood["y"].shape == (4, 500, 4)


@pytest.mark.parametrize("kind", ["named", "sequential"])
def test_other_flavours(kind: str) -> None:
    prior, likelihood = dist.Normal(0.0, 2.0), lambda m: dist.Normal(m, 1.0).expand([4])
    joint = fb.JointNamed(dict(m=prior, x=likelihood)) if kind == "named" else fb.JointSequential([prior, likelihood])
    found = joint.condition(x=FOUR).infer(KEY, draws=500, **QUIET).posterior
    assert_moments(found["m"], MEAN, SD)


def test_nested_joints() -> None:
    """Sites inside are known by their path."""
    inner = fb.JointNamed(dict(p=dist.Normal(0.0, 2.0), q=lambda p: dist.Normal(p, 1.0)))
    joint = fb.JointNamed(dict(a=inner, y=lambda a: dist.Normal(a["q"], 1.0)))
    found = joint.condition(y=1.5).infer(KEY, draws=500, progress=False)
    assert set(found.posterior) == {"a.p", "a.q"}
    assert_moments(found.posterior["a.p"], 1.5 * 4 / 6)
    assert_moments(found.posterior["a.q"], 1.5 * 5 / 6)
    assert found.posterior_predictive["y"].shape == (4, 500)


def test_without_data_it_draws_from_the_prior() -> None:
    found = normal().infer(KEY, draws=500, progress=False)
    assert_moments(found.posterior["m"], 0.0, 2.0)
    assert_moments(found.posterior["y"], np.zeros(4), np.full(4, 5.0**0.5))
    assert "observed_data" not in groups_of(found)


@fb.model
def conjugate(x):
    v = yield dist.InverseGamma(3.0, 2.0)
    w = yield dist.Normal(0.0, jnp.sqrt(v)).expand([x.shape[1]])
    y = yield dist.Normal(x @ w, jnp.sqrt(v))


def test_predictions_at_new_inputs() -> None:
    """Student's t, from the conditional of the joint one."""
    y, new = np.asarray(Y.data), np.array([[1.0, 0.5], [0.0, -2.0], [3.0, 0.0]])
    drawn = conjugate(X).condition(y=y).predict(KEY, "y", draws=4000, model=conjugate(new))
    assert drawn.shape == (4000, 3)
    precision = np.eye(2) + X.T @ X
    mean = np.linalg.solve(precision, X.T @ y)
    shape, rate = 3.0 + 3.0, 2.0 + 0.5 * (y @ y - mean @ precision @ mean)
    distribution = multivariate_t(
        new @ mean, rate / shape * (np.eye(3) + new @ np.linalg.solve(precision, new.T)), df=2 * shape
    )
    spread = np.sqrt(np.diagonal(distribution.shape) * 2 * shape / (2 * shape - 2))
    np.testing.assert_array_less(np.abs(drawn.mean(axis=0) - distribution.loc), 4 * spread / 4000**0.5)
    np.testing.assert_allclose(drawn.std(axis=0), spread, rtol=0.08)
