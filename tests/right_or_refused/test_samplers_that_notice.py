"""Samplers start where the density is, and report what is wrong with their draws: by chain, once each."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.errors import DataError, Intractable, SamplerWarning
from fubini.infer import target_points as grids
from fubini.infer.driver import Schedule, run
from fubini.infer.grid import GridSampler
from fubini.infer.nuts import NutsOptions, nuts
from fubini.infer.nuts_warnings import effective, warn_of_draws
from fubini.infer.sampler import Draw
from fubini.infer.target import Target, choose_starts
from fubini.models.eliminated_model import eliminated
from fubini.models.flat_model import FlatModel
from fubini.questions.draws import arviz
from fubini.questions.sampler_target import target_of

pytestmark = pytest.mark.right_or_refused

KEY = jax.random.key(0)
QUIET: dict[str, Any] = dict(progress=False, log_likelihood=False, predictive=False)
SCHEDULE, SHORT = Schedule(100, chains=4), NutsOptions(warmup=100)


def caught(run) -> list[str]:
    """The warnings of a run, each an own class of ours that points at this file."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        run()
    assert all(isinstance(w.message, SamplerWarning) and Path(w.filename) == Path(__file__) for w in found)
    return [str(w.message) for w in found]


# -- starts -----------------------------------------------------------------------------------------------------------


@fb.model
def arma(y):
    mu = yield dist.Normal(0.0, 10.0)
    phi = yield dist.Normal(0.0, 2.0)
    theta = yield dist.Normal(0.0, 2.0)
    sigma = yield dist.HalfCauchy(2.5)
    first = y[0] - mu - phi * mu

    def step(error, pair):
        before, here = pair
        new = here - (mu + phi * before + theta * error)
        return new, new

    _, others = jax.lax.scan(step, first, (y[:-1], y[1:]))
    zero = yield dist.Normal(jnp.concatenate([first[None], others]), sigma)


def arma_data() -> np.ndarray:
    random = np.random.default_rng(0)
    y, error = np.zeros(200), 0.0
    for t in range(200):
        new = 0.15 * random.normal()
        y[t] = 0.9 * y[t - 1] + 0.1 * error + new if t else new
        error = new
    return y


def test_chains_of_an_arma_model_start_where_the_density_is() -> None:
    """Errors grow like theta^200: from a random start, one chain in two was at a log density of −1e100 or so."""
    post = arma(arma_data()).condition(zero=np.zeros(200))
    found = post.infer(KEY, draws=150, warmup=150, method="nuts", eliminate=[], **QUIET)
    log_p, phi = np.asarray(found.sample_stats["lp"]), np.asarray(found.posterior["phi"])
    assert found.posterior.attrs["method"] == "nuts" and log_p.min() > log_p.max() - 30
    assert np.all(np.abs(phi.mean(axis=1) - 0.9) < 0.2)


def test_the_best_of_several_starts_is_kept() -> None:
    chosen = choose_starts(np.array([[-5.0, -1.0, -3.0], [-2.0, -np.inf, -9.0]]))
    np.testing.assert_array_equal(chosen, [1, 3])


def test_starts_far_below_others_are_replaced() -> None:
    log_p = np.array([[-600.0, -500.0], [-1e174, -np.inf], [-700.0, -550.0], [-np.inf, -np.inf]])
    np.testing.assert_array_equal(choose_starts(log_p), [1, 1, 5, 1])  # nothing left is as good as the least kept
    log_p[0, 0] = -510.0
    np.testing.assert_array_equal(choose_starts(log_p), [1, 0, 5, 1])


def test_no_start_is_an_error() -> None:
    with pytest.raises(DataError, match="starting points"):
        run(nuts(Target({"x": ()}, lambda free, _: jnp.log(-1.0 - free["x"] ** 2), ()), SHORT), KEY, SCHEDULE)


@pytest.mark.parametrize("value", [jnp.inf, jnp.nan, -jnp.inf])
def test_what_is_not_finite_is_impossible(value: float) -> None:
    """An infinite density drew all chains to it, and was evidence of mass to a grid."""

    def log_density(free, _):
        return jnp.where(free["x"] > 1.0, value, -0.5 * free["x"] ** 2)

    target = Target({"x": ()}, log_density, ())
    with jax.enable_x64(True):
        for sampler in (nuts(target, SHORT), GridSampler(target)):
            drawn = run(sampler, KEY, SCHEDULE)
            assert np.isfinite(drawn.info["lp"]).all() and drawn.values["x"].max() <= 1.0
            assert drawn.values["x"].mean() == pytest.approx(-0.2876, abs=0.25)  # of a normal below 1


# -- reports ----------------------------------------------------------------------------------------------------------


def drawn(chains: int = 4, draws: int = 200, **stats: np.ndarray) -> Draw:
    """Independent draws of two numbers, and what a sampler says of them."""
    random = np.random.default_rng(1)
    x = random.normal(size=(chains, draws, 2))
    plain = dict(
        lp=-0.5 * (x**2).sum(axis=-1),
        diverging=np.zeros((chains, draws), bool),
        acceptance_rate=np.full((chains, draws), 0.85),
    )
    return Draw({"x": x}, {**plain, **stats})


@pytest.mark.parametrize("draws", [1, 2, 5, 20, 50, 200])
def test_good_draws_are_not_reported(draws: int) -> None:
    for chains in (1, 4):
        assert caught(lambda chains=chains: warn_of_draws(drawn(chains, draws), 0.8)) == []


def test_divergences_are_reported_once() -> None:
    diverging = np.zeros((4, 200), bool)
    diverging[2, 5:12] = diverging[0, 3] = True
    (message,) = caught(lambda: warn_of_draws(drawn(diverging=diverging), 0.8))
    assert "divergences: 8 of 800 draws (chain 0: 1, chain 2: 7)" in message and "target_accept=0.95" in message
    (message,) = caught(lambda: warn_of_draws(drawn(diverging=diverging), 0.95))
    assert "target_accept=0.988" in message  # advice that fits: closer still


@pytest.mark.parametrize("draws", [1, 3, 200])
def test_a_chain_that_does_not_move_is_reported_once(draws: int) -> None:
    sampled = drawn(draws=draws)
    sampled.values["x"][2] = 7.0
    sampled.info["lp"][2] = -1e174
    sampled.info["acceptance_rate"][2], sampled.info["diverging"][2] = 0.0, True
    (message,) = caught(lambda: warn_of_draws(sampled, 0.8))
    assert "chain 2 did not move, at a log density of -1e+174" in message and ".sel(chain=[0, 1, 3])" in message


@pytest.mark.parametrize("draws", [1, 3, 200])
def test_a_run_in_which_no_chain_moves_is_an_error(draws: int) -> None:
    sampled = drawn(draws=draws, acceptance_rate=np.zeros((4, draws)))
    sampled.values["x"][:] = sampled.values["x"][:, :1]
    with pytest.raises(DataError, match="no chain moved") as error:
        warn_of_draws(sampled, 0.8)
    assert "expected:" in str(error.value) and "nearest:" in str(error.value) and "to do:" in str(error.value)


@pytest.mark.parametrize("draws", [5, 20, 200])
def test_modes_of_very_different_density_are_reported_by_chain(draws: int) -> None:
    sampled = drawn(draws=draws)
    sampled.values["x"][1] += 9.0
    sampled.info["lp"][1] -= 15.2  # e^−15.2 = 2.5e-7
    (message,) = caught(lambda: warn_of_draws(sampled, 0.8))
    assert "modes of very different density: chain 1 lower by up to 15" in message
    for chain, log_p in enumerate(sampled.info["lp"]):
        assert f"chain {chain}: {np.median(log_p):.6g}" in message
    assert ".sel(chain=[0, 2, 3])" in message


@pytest.mark.parametrize("draws", [10, 20, 100, 200])
def test_chains_that_do_not_agree_are_reported_at_any_number_of_draws(draws: int) -> None:
    sampled = drawn(draws=draws)
    sampled.values["x"][1] += 9.0
    (message,) = caught(lambda: warn_of_draws(sampled, 0.8))
    assert "chains that do not agree" in message and "of 'x'" in message


@pytest.mark.parametrize("draws", [60, 200, 2000])
@pytest.mark.parametrize("chains", [1, 4])
def test_few_effective_draws_are_reported_once(chains: int, draws: int) -> None:
    """A chain that returns to the mean once in a hundred steps or so."""
    random, sampled = np.random.default_rng(0), drawn(chains, draws)
    for t in range(1, draws):
        sampled.values["x"][:, t] = 0.99 * sampled.values["x"][:, t - 1] + 0.14 * random.normal(size=(chains, 2))
    messages = caught(lambda: warn_of_draws(sampled, 0.8))
    assert len(messages) == 1
    assert "effective draws" in messages[0] or (chains > 1 and "do not agree" in messages[0])
    assert "draws=" in messages[0] or "draw more" in messages[0]


def test_effective_numbers_are_those_of_arviz() -> None:
    random = np.random.default_rng(3)
    for strength in (0.0, 0.5, 0.95, -0.3):
        x = random.normal(size=(4, 1000))
        for t in range(1, 1000):
            x[:, t] = strength * x[:, t - 1] + (1 - strength**2) ** 0.5 * random.normal(size=4)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = float(arviz().ess(arviz().convert_to_dataset({"x": x}), method="mean")["x"])
        assert effective(x) == pytest.approx(expected, rel=0.2)


@fb.model
def hidden(n):
    """A hidden Markov model whose states may be exchanged only at the price of an unlikely stay."""
    mean = yield dist.Normal(jnp.array([0.0, 3.0]), jnp.array([2.0, 2.0]))
    sd = yield dist.LogNormal(0.0, 0.5).expand([2])
    stay = jnp.array([[0.95, 0.05], [0.3, 0.7]])
    z = yield dist.Markov(dist.Categorical(jnp.array([0.8, 0.2])), lambda z: dist.Categorical(stay[z]), n)
    y = yield dist.Normal(mean[z], sd[z])


def test_a_hidden_markov_model_in_a_lower_mode_is_reported() -> None:
    random = np.random.default_rng(1)
    z, y = 0, []
    for _ in range(120):
        z = int(random.uniform() < (0.05, 0.7)[z])
        y.append((0.0, 3.0)[z] + 0.5 * random.normal())
    post = hidden(120).condition(y=np.array(y))
    found: list[Any] = []
    messages = caught(
        lambda: found.append(post.infer(jax.random.key(1), draws=100, warmup=200, chains=8, method="nuts", **QUIET))
    )
    log_p = np.median(np.asarray(found[0].sample_stats["lp"]), axis=1)
    if log_p.max() - log_p.min() > 15:
        assert any("modes of very different density" in message for message in messages)
        low = int(log_p.argmin())
        assert any(f"chain {low}: {log_p[low]:.6g}" in message for message in messages)


@fb.model
def funnel():
    v = yield dist.Normal(0.0, 3.0)
    x = yield dist.Normal(jnp.zeros(9), jnp.exp(v / 2))
    y = yield dist.Laplace(x, 1.0)


def test_infer_reports_divergences_of_a_funnel() -> None:
    post = funnel().condition(y=np.zeros(9))
    messages = caught(lambda: post.infer(KEY, draws=200, warmup=200, **QUIET))
    assert sum("divergences" in message for message in messages) == 1
    assert len({message.split(":")[0] for message in messages}) == len(messages)


# -- gibbs ------------------------------------------------------------------------------------------------------------


@fb.model
def labels():
    mean = yield dist.Normal(0.0, 30.0).expand([2])
    z = yield dist.Categorical(jnp.array([0.5, 0.5])).expand([20])
    x = yield dist.Normal(mean[z], 1.0)


@pytest.mark.parametrize("blocked", [False, True])
def test_gibbs_reports_disagreement(blocked: bool) -> None:
    """Clusters that no chain exchanges."""
    post = labels().condition(x=np.repeat([-20.0, 20.0], 10) + np.random.default_rng(0).normal(size=20))
    sampler = post.gibbs("z", blocked=True) if blocked else post.eliminate("mean").gibbs()
    (message,) = caught(lambda: sampler.run(KEY, 60, chains=6))
    assert "chains that do not agree" in message
    assert caught(lambda: sampler.run(KEY, 60, chains=1)) == []


# -- the grid ---------------------------------------------------------------------------------------------------------


@fb.model
def noise(inputs):
    s = yield dist.HalfCauchy(1.0)
    a = yield dist.Normal(0.0, 1.0)
    w = yield dist.Normal(0.0, 1.0).expand([inputs.shape[1]])
    y = yield dist.Normal(inputs @ w, s * jnp.exp(a * inputs[:, 0]))


@pytest.mark.usefixtures("optimised")
def test_the_memory_of_a_grid_is_what_its_evaluation_takes() -> None:
    """A regression of 5,000 × 24 whose noise differs from row to row: no part of it is known before."""
    post = noise(np.ones((5000, 24))).condition(y=np.zeros(5000))
    with jax.enable_x64(True):
        target, _ = target_of(eliminated(FlatModel(post)))
        given = grids.abstract(target.numbers)
        block, compiled = grids._compiled(target.log_density, tuple(target.shapes.items()), given, True)
    assert target.size == 2 and 1 <= block <= grids.BLOCK
    assert compiled.memory_analysis().temp_size_in_bytes <= grids.MEMORY


def wasteful(free, numbers):
    """A density that needs 8 MB a point."""
    table = free["x"][0] + numbers[:, None] * numbers
    return -0.5 * free["x"][0] ** 2 + 1e-9 * jnp.sum(jnp.sort(jnp.sin(table), axis=0)[0])


@pytest.mark.usefixtures("optimised")
def test_blocks_of_a_grid_are_as_large_as_memory_allows(monkeypatch) -> None:
    with jax.enable_x64(True):
        target, sizes = Target({"x": (1,)}, wasteful, jnp.linspace(0.0, 1.0, 200)), []
        for memory in (2**29, 2**22):
            monkeypatch.setattr(grids, "MEMORY", memory)
            grids._compiled.cache_clear()
            block, compiled = grids._compiled(wasteful, (("x", (1,)),), grids.abstract(target.numbers), True)
            assert compiled.memory_analysis().temp_size_in_bytes <= memory
            sizes.append(block)
        assert sizes[0] == grids.BLOCK > sizes[1] >= 1
        monkeypatch.setattr(grids, "MEMORY", 100)
        grids._compiled.cache_clear()
        with pytest.raises(Intractable, match="one evaluation of the density takes"):
            run(GridSampler(target), KEY, SCHEDULE)
        grids._compiled.cache_clear()


@fb.model
def exchangeable():
    x = yield dist.StudentT(1.0, 0.0, 1.0)
    y = yield dist.StudentT(1.0, x, 1e6)


def test_a_refused_grid_says_why_and_falls_back() -> None:
    post = exchangeable().condition(y=0.0)
    with pytest.raises(Intractable, match=r"nearest: .*(accepted|end)"):
        post.infer(KEY, draws=20, method="grid", **QUIET)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SamplerWarning)
        assert post.infer(KEY, draws=20, warmup=20, **QUIET).posterior.attrs["method"] == "nuts"
