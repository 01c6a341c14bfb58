"""Models of examples/twelve that predict at new inputs."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as nd

from examples.forty.study import Study, columns
from examples.twelve import models
from examples.twelve.cases import SCHOOLS, SPREAD


def eight_schools(spread, y):
    mu = numpyro.sample("mu", nd.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", nd.HalfCauchy(5.0))
    unit = numpyro.sample("unit", nd.Normal(0.0, 1.0).expand(spread.shape).to_event(1))
    theta = numpyro.deterministic("theta", mu + tau * unit)
    numpyro.sample("y", nd.Normal(theta, spread).to_event(1), obs=y)


def radon(county, basement, counties, y):
    mu = numpyro.sample("mu", nd.Normal(0.0, 5.0))
    slope = numpyro.sample("slope", nd.Normal(0.0, 5.0))
    between = numpyro.sample("between", nd.HalfNormal(1.0))
    within = numpyro.sample("within", nd.HalfNormal(1.0))
    alpha = numpyro.sample("alpha", nd.Normal(mu, between).expand([counties]).to_event(1))
    numpyro.sample("y", nd.Normal(alpha[county] + slope * basement, within).to_event(1), obs=y)


def zero_inflated(n, y):
    present = numpyro.sample("present", nd.Beta(1.0, 1.0))
    rate = numpyro.sample("rate", nd.Gamma(2.0, 0.5))
    numpyro.sample("y", nd.ZeroInflatedPoisson(1.0 - present, rate).expand([n]).to_event(1), obs=y)


def batting(at_bats, y):
    mean = numpyro.sample("mean", nd.Beta(2.0, 2.0))
    log_kappa = numpyro.sample("log_kappa", nd.Normal(4.0, 1.5))
    kappa = jnp.exp(log_kappa)
    theta = numpyro.sample("theta", nd.Beta(mean * kappa, (1.0 - mean) * kappa).expand(at_bats.shape).to_event(1))
    numpyro.sample("hits", nd.Binomial(at_bats, theta).to_event(1), obs=y)


def change_point(data):
    """Predictions are given the data too: they say when the rate changed."""

    def peer(n, y):
        early = numpyro.sample("early", nd.Gamma(2.0, 1.0))
        late = numpyro.sample("late", nd.Gamma(2.0, 1.0))
        before = jnp.concatenate([jnp.zeros(1), jnp.cumsum(nd.Poisson(early).log_prob(data))[:-1]])
        after = jnp.cumsum(nd.Poisson(late).log_prob(data)[::-1])[::-1]
        if y is None:
            change = numpyro.sample("change", nd.Categorical(logits=before + after))
            numpyro.sample("y", nd.Poisson(jnp.where(jnp.arange(n) < change, early, late)).to_event(1))
        else:
            numpyro.factor("y", jax.nn.logsumexp(before + after) - jnp.log(n))

    return peer


def local_level(n, y):
    start = numpyro.sample("start", nd.Normal(1000.0, 300.0))
    wander = numpyro.sample("wander", nd.HalfNormal(100.0))
    noise = numpyro.sample("noise", nd.HalfNormal(200.0))
    unit = numpyro.sample("unit", nd.Normal(0.0, 1.0).expand([n]).to_event(1))
    numpyro.sample("y", nd.Normal(start + wander * jnp.cumsum(unit), noise).to_event(1), obs=y)


def studies(folder: Path | None) -> list[Study]:
    """All; those that need a file of `folder` are left out where it is None."""
    random = np.random.default_rng(15)
    counts = random.poisson(3.0, 60) * (random.uniform(size=60) < 0.6)
    found = [
        Study("eight schools", models.eight_schools, eight_schools, (SPREAD,), SCHOOLS, (SPREAD,), "quadrature",
              ("mu", "tau", "theta")),
        Study("zero-inflated counts", models.zero_inflated, zero_inflated, (60,), counts, (2,), "quadrature",
              ("present", "rate"), anew=("z",)),
    ]  # fmt: skip
    if folder is None:
        return found
    county, basement, measured = columns(folder, "classic/radon_minnesota.csv", "county", "basement", "log.radon")
    places, some = county.astype(int) - 1, np.array([0, 20])
    (flow,) = columns(folder, "classic/nile.csv", "value")
    (disasters,) = columns(folder, "classic/coal_disaster_yearly.csv", "count")
    at_bats, hits = columns(folder, "classic/efron_morris_baseball.csv", "At-Bats", "Hits")
    return [
        *found,
        Study("radon", models.radon, radon, (places, basement, int(places.max()) + 1), measured,
              (some, np.array([0.0, 1.0]), int(places.max()) + 1), "quadrature", ("mu", "slope", "between", "within"),
              "classic/radon_minnesota.csv"),
        Study("Nile", models.local_level, local_level, (len(flow),), flow, (len(flow),), "quadrature",
              ("start", "wander", "noise"), "classic/nile.csv"),
        Study("change point", models.change_point, change_point(disasters), (len(disasters),), disasters.astype(int),
              (len(disasters),), "closed", ("early", "late"), "classic/coal_disaster_yearly.csv"),
        Study("baseball", models.batting, batting, (at_bats.astype(int),), hits.astype(int), (at_bats.astype(int),),
              "quadrature", ("mean", "log_kappa", "theta"), "classic/efron_morris_baseball.csv", "hits"),
    ]  # fmt: skip
