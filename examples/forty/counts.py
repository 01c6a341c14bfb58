"""Counts, rates and times to failure."""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as nd

import fubini as fb
from examples.forty.study import Study, columns
from fubini import dist

# -- a coin, a trial, a rate: conjugate -------------------------------------------------------------------------------


@fb.model
def coin(n):
    """Tosses of one coin."""
    p = yield dist.Beta(2.0, 5.0)
    y = yield dist.Bernoulli(p).expand([n])


def coin_peer(n, y):
    p = numpyro.sample("p", nd.Beta(2.0, 5.0))
    numpyro.sample("y", nd.Bernoulli(p).expand([n]).to_event(1), obs=y)


@fb.model
def trial(arm):
    """Whether a treatment works: two rates, or one."""
    effective = yield dist.Bernoulli(0.5)
    apart = yield dist.Beta(1.0, 1.0).expand([2])
    common = yield dist.Beta(1.0, 1.0)
    y = yield dist.Bernoulli(jnp.where(effective == 1, apart[arm], common))


def trial_peer(arm, y):
    apart = numpyro.sample("apart", nd.Beta(1.0, 1.0).expand([2]).to_event(1))
    common = numpyro.sample("common", nd.Beta(1.0, 1.0))
    if y is None:
        effective = numpyro.sample("effective", nd.Bernoulli(0.5))
        numpyro.sample("y", nd.Bernoulli(jnp.where(effective == 1, apart[arm], common)).to_event(1))
        return
    works = nd.Bernoulli(apart[arm]).log_prob(y).sum()
    numpyro.factor("y", jnp.logaddexp(works, nd.Bernoulli(common).log_prob(y).sum()) - jnp.log(2.0))


@fb.model
def rate(n):
    """One rate of all years."""
    level = yield dist.Gamma(2.0, 1.0)
    y = yield dist.Poisson(level).expand([n])


def rate_peer(n, y):
    level = numpyro.sample("level", nd.Gamma(2.0, 1.0))
    numpyro.sample("y", nd.Poisson(level).expand([n]).to_event(1), obs=y)


@fb.model
def species(n, k):
    """Shares of kinds."""
    share = yield dist.Dirichlet(jnp.ones(k))
    y = yield dist.Categorical(share).expand([n])


def species_peer(n, k, y):
    share = numpyro.sample("share", nd.Dirichlet(jnp.ones(k)))
    numpyro.sample("y", nd.Categorical(share).expand([n]).to_event(1), obs=y)


# -- counts of groups --------------------------------------------------------------------------------------------------


@fb.model
def stations(hours):
    """Rates of places that resemble each other: each has a closed form, two numbers remain."""
    concentration = yield dist.Gamma(2.0, 1.0)
    mean = yield dist.Gamma(2.0, 0.5)
    rate = yield dist.Gamma(concentration, concentration / mean).expand(hours.shape)
    y = yield dist.Poisson(rate * hours)


def stations_peer(hours, y):
    concentration = numpyro.sample("concentration", nd.Gamma(2.0, 1.0))
    mean = numpyro.sample("mean", nd.Gamma(2.0, 0.5))
    rate = numpyro.sample("rate", nd.Gamma(concentration, concentration / mean).expand(hours.shape).to_event(1))
    numpyro.sample("y", nd.Poisson(rate * hours).to_event(1), obs=y)


@fb.model
def captures(n, days):
    """How many animals there are of which some were never caught: labels of `n` possible ones are summed."""
    present = yield dist.Beta(1.0, 1.0)
    caught = yield dist.Beta(1.0, 1.0)
    real = yield dist.Bernoulli(present).expand([n])
    y = yield dist.Binomial(days, real * caught)


def captures_peer(n, days, y):
    present = numpyro.sample("present", nd.Beta(1.0, 1.0))
    caught = numpyro.sample("caught", nd.Beta(1.0, 1.0))
    if y is None:
        real = numpyro.sample("real", nd.Bernoulli(present).expand([n]).to_event(1))
        numpyro.sample("y", nd.Binomial(days, real * caught).to_event(1))
        return
    seen = jnp.log(present) + nd.Binomial(days, caught).log_prob(y)
    numpyro.factor("y", jnp.sum(jnp.where(y == 0, jnp.logaddexp(seen, jnp.log1p(-present)), seen)))


# -- times to failure --------------------------------------------------------------------------------------------------


@fb.model
def lifetimes(censored):
    """Times to failure, some of which are only known to be longer."""
    rate = yield dist.Gamma(2.0, 2.0)
    y = yield dist.RightCensoredDistribution(dist.Exponential(rate).expand(censored.shape), censored)


def lifetimes_peer(censored, y):
    rate = numpyro.sample("rate", nd.Gamma(2.0, 2.0))
    if y is None:
        numpyro.sample("y", nd.Exponential(rate).expand(censored.shape).to_event(1))
        return
    numpyro.factor("y", jnp.sum(jnp.where(censored == 1, 0.0, jnp.log(rate)) - rate * y))


@fb.model
def ageing(n):
    """Times to failure of parts that age."""
    concentration = yield dist.Gamma(3.0, 2.0)
    scale = yield dist.Gamma(2.0, 1.0)
    y = yield dist.Weibull(scale, concentration).expand([n])


def ageing_peer(n, y):
    concentration = numpyro.sample("concentration", nd.Gamma(3.0, 2.0))
    scale = numpyro.sample("scale", nd.Gamma(2.0, 1.0))
    numpyro.sample("y", nd.Weibull(scale, concentration).expand([n]).to_event(1), obs=y)


# -- games -------------------------------------------------------------------------------------------------------------


@fb.model
def games(first, second, players):
    """Skills of players, from who won."""
    skill = yield dist.Normal(0.0, 1.0).expand([players])
    y = yield dist.Bernoulli(logits=1.2 * (skill[first] - skill[second]))


def games_peer(first, second, players, y):
    skill = numpyro.sample("skill", nd.Normal(0.0, 1.0).expand([players]).to_event(1))
    numpyro.sample("y", nd.Bernoulli(logits=1.2 * (skill[first] - skill[second])).to_event(1), obs=y)


def studies(folder: Path | None) -> list[Study]:
    """All; those that need a file of `folder` are left out where it is None."""
    random = np.random.default_rng(12)
    hours = random.uniform(1.0, 10.0, 12)
    counts = random.poisson(random.gamma(2.0, 1.5, 12) * hours)
    life, limit = random.exponential(1.4, 30), 2.0
    censored = (life > limit).astype(float)
    aged = random.weibull(1.8, 40) * 2.2
    found = [
        Study("stations", stations, stations_peer, (hours,), counts, (np.full(12, 5.0),), "quadrature",
              ("concentration", "mean", "rate")),
        Study("lifetimes", lifetimes, lifetimes_peer, (censored,), np.minimum(life, limit), (np.zeros(2),), "closed",
              ("rate",)),
        Study("ageing", ageing, ageing_peer, (40,), aged, (2,), "quadrature", ("concentration", "scale")),
    ]  # fmt: skip
    if folder is None:
        return found
    (toss,) = columns(folder, "r2/coin_bias.csv", "toss")
    control, treated = columns(folder, "r2/clinical_trial.csv", "control", "treated")
    some = slice(0, 100)
    arm = np.repeat([0, 1], 100)
    (disasters,) = columns(folder, "classic/coal_disaster_yearly.csv", "count")
    (kind,) = columns(folder, "classic/iris.csv", "Species")
    codes = np.unique(kind, return_inverse=True)[1]
    histories = np.loadtxt(folder / "classic/meadow_voles_capture_history.csv", delimiter=",")[:, 1:]
    caught = histories.sum(axis=1).astype(int)
    voles = np.concatenate([caught[caught > 0], np.zeros(200 - np.sum(caught > 0), int)])
    one, two, won = columns(folder, "r2/trueskill_games.csv", "player_a", "player_b", "outcome")
    players = int(max(one.max(), two.max())) + 1
    pairs = (one.astype(int), two.astype(int), players)
    return [
        *found,
        Study("coin", coin, coin_peer, (len(toss),), toss.astype(int), (3,), "closed", ("p",), "r2/coin_bias.csv"),
        Study("clinical trial", trial, trial_peer, (arm,), np.concatenate([control[some], treated[some]]).astype(int),
              (np.array([0, 1]),), "closed", ("apart", "common"), "r2/clinical_trial.csv"),
        Study("rate of disasters", rate, rate_peer, (len(disasters),), disasters.astype(int), (3,), "closed",
              ("level",), "classic/coal_disaster_yearly.csv"),
        Study("species", species, species_peer, (150, 3), codes, (2, 3), "closed", ("share",), "classic/iris.csv"),
        Study("captures", captures, captures_peer, (200, histories.shape[1]), voles, (3, histories.shape[1]),
              "quadrature", ("present", "caught"), "classic/meadow_voles_capture_history.csv", anew=("real",)),
        Study("games", games, games_peer, pairs, won.astype(int), (np.array([0]), np.array([1]), players), "smc",
              ("skill",), "r2/trueskill_games.csv"),
    ]  # fmt: skip
