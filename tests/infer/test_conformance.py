"""Every sampler is run by one driver, and keeps what it samples: one test for all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chisquare

import fubini as fb
from fubini import dist
from fubini.errors import Disagreement, NoRule
from fubini.infer.checkpoint import Checkpoint
from fubini.infer.driver import STRETCHES, Schedule, run
from fubini.infer.methods import METHODS, Settings
from fubini.infer.nuts import NutsOptions
from fubini.infer.nuts_warnings import effective
from fubini.infer.sampler import Draw, Sampler
from fubini.infer.target import Target
from fubini.models.eliminated_model import eliminated
from fubini.models.flat_model import FlatModel
from fubini.questions.numpyro_gibbs import discrete_gibbs
from fubini.questions.sampler_target import target_of
from tests.infer.conformance import CASES, SHARES

KEY = jax.random.key(3)
WARMUP = 100
Reader = Callable[[Draw], dict[str, np.ndarray]]


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def values(drawn: Draw) -> dict[str, np.ndarray]:
    return drawn.values


def by_method(method: str, warmup: int = WARMUP) -> Callable[[Any], tuple[Sampler, Reader]]:
    """Of unconstrained numbers, labels summed out."""

    def make(post: Any) -> tuple[Sampler, Reader]:
        target, support = target_of(eliminated(FlatModel(post), [n for n in post.outline.free if n == "z"]))
        sampler = METHODS[method](target, Settings(NutsOptions(warmup), progress=False))
        return sampler, lambda drawn: support.of_draws(drawn.values, target.numbers[0])

    return make


def other(place, old, size, uniform):
    """Another label, each as likely."""
    return (old + 1) % size, 0.0


def metropolis(post: Any) -> tuple[Sampler, Reader]:
    return eliminated(FlatModel(post), ()).metropolis("z", proposal=other, engine="python").sampler(WARMUP), values


def numpyro_gibbs(post: Any) -> tuple[Sampler, Reader]:
    return discrete_gibbs(FlatModel(post), WARMUP), values


EXACT: dict[str, Callable[[Any], tuple[Sampler, Reader]]] = {
    "nuts": by_method("nuts"),
    "grid": by_method("grid"),
    "smc": by_method("smc"),
    "gibbs": lambda post: (post.gibbs("z").sampler(WARMUP), values),
    "metropolis": metropolis,
    "block gibbs": lambda post: (post.gibbs("z", blocked=True).sampler(WARMUP), values),
    "gibbs by numpyro": numpyro_gibbs,
}
APPROXIMATE = {"laplace": by_method("laplace"), "svi": by_method("svi")}
SAMPLERS = {**EXACT, **APPROXIMATE}
OF_LABELS = ("gibbs", "metropolis", "block gibbs", "gibbs by numpyro")
WITHOUT = [("block gibbs", "funnel")]  # a conditional without a closed form
PAIRS = [(name, case) for name in EXACT for case in CASES if (name in OF_LABELS or case != "discrete")]


# -- targets ----------------------------------------------------------------------------------------------------------


def assert_mean(draws: np.ndarray, expected: float, what: str) -> None:
    """Within five standard errors, by the effective number of draws [chain, draw]."""
    error = draws.std() / np.sqrt(effective(draws))
    assert abs(draws.mean() - expected) < 5 * error + 1e-9, (
        f"{what}: {draws.mean():.4f} for {expected:.4f} ± {error:.4f}"
    )


@pytest.mark.parametrize("name, case", [pair for pair in PAIRS if pair not in WITHOUT])
@pytest.mark.one_in(3)
def test_draws_are_those_of_the_target(name: str, case: str) -> None:
    """Means, squares, and the share of small ones, of each latent."""
    sampler, read = EXACT[name](CASES[case].post)
    drawn = read(run(sampler, KEY, Schedule(1000, chains=2)))
    for site, marginal in CASES[case].marginals().items():
        if site not in drawn:
            continue
        draws = np.asarray(drawn[site], float)
        draws = draws[..., 0] if draws.ndim == 3 else draws
        for function in (lambda x: x, np.square, lambda x: 1.0 * (x < 0.5)):
            assert_mean(function(draws), marginal.mean(function), f"{name}, {case}, {site}")


@pytest.mark.parametrize("name", SAMPLERS)
def test_in_single_precision(name: str) -> None:
    """Draws are float32, of the same target."""
    case = CASES["discrete" if name in OF_LABELS else "normal"]
    with jax.enable_x64(False):
        sampler, read = SAMPLERS[name](case.post)
        drawn = read(run(sampler, KEY, Schedule(1000, chains=2)))
    marginals = {site: marginal for site, marginal in case.marginals().items() if site in drawn}
    assert marginals
    for site, marginal in marginals.items():
        draws = np.asarray(drawn[site])
        assert draws.dtype.kind != "f" or draws.dtype == np.float32, f"{name}, {site}: {draws.dtype}"
        draws = draws[..., 0] if draws.ndim == 3 else draws
        assert_mean(draws.astype(float), marginal.mean(lambda x: x), f"{name}, {site}")


@pytest.mark.parametrize("name, case", WITHOUT)
def test_a_sampler_that_there_is_not(name: str, case: str) -> None:
    with pytest.raises(NoRule, match="conditionals in closed form"):
        EXACT[name](CASES[case].post)


def density_of(target: Target) -> Callable[[Any], Any]:
    """At numbers end to end."""
    ends = np.cumsum([0, *(int(np.prod(shape)) for shape in target.shapes.values())])
    parts = list(zip(target.shapes.items(), ends, ends[1:], strict=False))
    return lambda at: target.log_density({n: at[i:j].reshape(shape) for (n, shape), i, j in parts}, target.numbers)


def elbo(log_density: Callable[[Any], Any], at: Any) -> Any:
    """E log p(x) + Σ log scale under independent normals, by Gauss–Hermite quadrature."""
    size = len(at) // 2
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    points = np.stack(np.meshgrid(*[nodes] * size), axis=-1).reshape(-1, size)
    shares = np.stack(np.meshgrid(*[weights] * size), axis=-1).reshape(-1, size).prod(axis=1)
    values = jax.vmap(lambda z: log_density(at[:size] + jnp.exp(at[size:]) * z))(jnp.asarray(points))
    return jnp.sum(values * shares) / shares.sum() + at[size:].sum()


@pytest.mark.parametrize("case", ["normal", "funnel", "bimodal"])
@pytest.mark.parametrize("name", APPROXIMATE)
def test_draws_are_those_of_the_nearest_normal(name: str, case: str) -> None:
    """At a mode with its curvature, or where the ELBO is stationary."""
    post = CASES[case].post
    target, _ = target_of(eliminated(FlatModel(post), ["z"]))
    sampler, _ = APPROXIMATE[name](post)
    state = jax.tree_util.tree_map(lambda x: x[0], sampler.init(KEY, 1))
    loc, log_density = jnp.asarray(state.loc), density_of(target)
    if name == "laplace":
        assert np.allclose(jax.grad(log_density)(loc), 0.0, atol=1e-4)
        covariance = np.linalg.inv(-np.asarray(jax.hessian(log_density)(loc)))
    else:
        fitted = jnp.concatenate([loc, jnp.log(state.scale)])
        assert np.allclose(jax.grad(lambda at: elbo(log_density, at))(fitted), 0.0, atol=0.1)
        covariance = np.diag(np.asarray(state.scale) ** 2)
    drawn = run(sampler, KEY, Schedule(5000, chains=4)).values
    flat = np.concatenate([drawn[n].reshape(20_000, -1) for n in target.shapes], axis=1)
    scale = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(flat.mean(axis=0) - np.asarray(loc)) < 5 * scale / np.sqrt(20_000))
    assert np.all(np.abs(np.cov(flat.T) - covariance) < 0.06 * np.outer(scale, scale))


# -- modes far apart --------------------------------------------------------------------------------------------------


@fb.model
def two_modes():
    z = yield dist.Bernoulli(0.7)
    x = yield dist.Normal(jnp.where(z == 1, 6.0, -6.0), 1.0).expand([5])
    y = yield dist.Normal(jnp.sum(x), 30.0)


def test_modes_have_their_shares() -> None:
    """Of five numbers, twelve standard deviations apart; NUTS stays at one of them, and the advice is this method."""
    post = two_modes().condition(y=12.0)
    weights = np.array([0.3, 0.7]) * np.exp(-0.5 * (12.0 - np.array([-30.0, 30.0])) ** 2 / (30.0**2 + 5.0))
    expected = weights[1] / weights.sum()
    options = dict(eliminate=["z"], progress=False, log_likelihood=False, predictive=False)
    data = post.infer(KEY, draws=1000, chains=4, method="smc", **options)
    x = data.posterior["x"].values
    shares = (x[..., 0] > 0).mean(axis=1)
    assert abs(shares.mean() - expected) < 0.04 and np.all(np.abs(shares - expected) < 0.1), (shares, expected)
    assert np.all((x > 0).all(axis=-1) | (x < 0).all(axis=-1))
    np.testing.assert_allclose(np.abs(x).std(axis=(0, 1)), 1.0, atol=0.08)
    assert abs(float(data.posterior["z"].mean()) - expected) < 0.05 and data.posterior.attrs["method"] == "smc"
    found = data.sample_stats["log_marginal_likelihood"].values[:, 0]
    log_evidence = np.log(weights.sum()) - 0.5 * np.log(2 * np.pi * (30.0**2 + 5.0))
    assert abs(found.mean() - log_evidence) < 0.2
    with pytest.warns(Disagreement, match='method="smc"'):
        post.infer(KEY, draws=100, warmup=200, chains=4, method="nuts", **options)


# -- runs -------------------------------------------------------------------------------------------------------------


class Killed(Exception):
    """A crash."""


def same(one: Draw, another: Draw) -> bool:
    return all(np.array_equal(a[n], b[n]) for a, b in zip(one, another, strict=True) for n in {*a, *b})


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_run_that_was_killed_goes_on_where_it_was(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    """Bit for bit, from warm-up and from draws, by a sampler that is made anew."""
    schedule, file = Schedule(60, thin=2, chains=2), Checkpoint(tmp_path / "run.npz", {"name": name})
    whole = run(SAMPLERS[name](CASES["normal"].post)[0], KEY, schedule)
    save, lengths = Checkpoint.save, iter([3, STRETCHES - 6, 1000])

    def saving(length: int) -> Callable:
        saves = iter(range(1, 1000))

        def some(self: Checkpoint, arrays: Any) -> None:
            save(self, arrays)
            if next(saves) == length:
                raise Killed

        return some

    for length in lengths:
        monkeypatch.setattr(Checkpoint, "save", saving(length))
        try:
            resumed = run(SAMPLERS[name](CASES["normal"].post)[0], KEY, schedule, file)
        except Killed:
            assert length < 1000
    assert same(resumed, whole)


@pytest.mark.parametrize("name", SAMPLERS)
def test_any_number_of_chains(name: str) -> None:
    for chains in (1, 5):
        sampler, _ = SAMPLERS[name](CASES["normal"].post)
        drawn = run(sampler, KEY, Schedule(9, chains=chains))
        assert all(x.shape[:2] == (chains, 9) for part in drawn for x in part.values())
        floats = [x for x in drawn.values.values() if x.dtype.kind == "f"]
        assert floats and len({chain.tobytes() for chain in floats[0]}) == chains


@pytest.mark.parametrize("name", SAMPLERS)
def test_which_draws_are_kept(name: str) -> None:
    """Every third one, and of those the last five: they are among those of a run that keeps all."""
    sampler, _ = SAMPLERS[name](CASES["normal"].post)
    every = run(sampler, KEY, Schedule(30, chains=2))
    some = run(SAMPLERS[name](CASES["normal"].post)[0], KEY, Schedule(30, thin=3, keep=5, chains=2))
    assert same(some, Draw(*({n: x[:, 17::3] for n, x in part.items()} for part in every)))


# -- joint distributions ----------------------------------------------------------------------------------------------


@fb.model
def conjugate(count):
    x = yield dist.Normal(0.0, 1.0).expand([count])
    y = yield dist.Normal(x, 1.0)


@fb.model
def with_labels(count):
    z = yield dist.Categorical(SHARES).expand([count])
    x = yield dist.Normal(0.0, 1.0).expand([count])
    y = yield dist.Normal(x, 1.0 + z)


RANKED, THIN = 5, 10


@pytest.mark.usefixtures("optimised")  # most of it is running, not compiling
@pytest.mark.parametrize("name", SAMPLERS)
def test_the_parameter_that_made_the_data_is_one_of_its_posterior(name: str) -> None:
    """Among draws given data that it made, its rank is uniform (Geweke 2004; ranks: Talts et al. 2018, theorem 1).

    Many parameters, each with data of its own, are drawn by one run; a grid has few of them, and many runs.
    """
    count, rounds = (2, 24) if name == "grid" else (120, 1)
    model = conjugate(count) if name in APPROXIMATE else with_labels(count)
    ranks: list[int] = []
    for number in range(rounds):
        key = jax.random.fold_in(KEY, number)
        truth = model.sample(key)
        sampler, read = SAMPLERS[name](model.condition(y=np.asarray(truth.y)))
        drawn = read(run(sampler, jax.random.fold_in(key, 1), Schedule(RANKED * THIN, thin=THIN)))
        ranks.extend(np.sum(np.asarray(drawn["x"])[0] < np.asarray(truth.x), axis=0))
    counts = np.bincount(ranks, minlength=RANKED + 1)
    assert chisquare(counts).pvalue > 1e-4, counts
