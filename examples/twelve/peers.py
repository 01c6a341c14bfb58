"""The same models for NumPyro; discrete latents are marked for enumeration."""

from __future__ import annotations

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.contrib.control_flow import scan


def summed():
    """Of a discrete site: NumPyro sums it; it writes into this dict, so that each site needs its own."""
    return {"enumerate": "parallel"}


def eight_schools(spread, y):
    """Known standard errors."""
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfCauchy(5.0))
    with numpyro.plate("school", len(spread)):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, spread), obs=y)


def eight_schools_unknown(y):
    """Unknown variance."""
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfCauchy(5.0))
    sigma = numpyro.sample("sigma", dist.HalfNormal(20.0))
    theta = numpyro.sample("theta", dist.Normal(mu, tau).expand([len(y)]).to_event(1))
    numpyro.sample("y", dist.Normal(theta[:, None], sigma).expand(y.shape).to_event(2), obs=y)


def radon(county, basement, counties, y):
    """Intercepts by county."""
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    slope = numpyro.sample("slope", dist.Normal(0.0, 5.0))
    between = numpyro.sample("between", dist.HalfNormal(1.0))
    within = numpyro.sample("within", dist.HalfNormal(1.0))
    with numpyro.plate("county", counties):
        alpha = numpyro.sample("alpha", dist.Normal(mu, between))
    with numpyro.plate("house", len(y)):
        numpyro.sample("y", dist.Normal(alpha[county] + slope * basement, within), obs=y)


def regression(x, y):
    """Unknown noise."""
    sigma = numpyro.sample("sigma", dist.HalfNormal(5.0))
    b = numpyro.sample("b", dist.Normal(0.0, 10.0))
    w = numpyro.sample("w", dist.Normal(0.0, 3.0).expand([x.shape[1]]).to_event(1))
    with numpyro.plate("row", len(y)):
        numpyro.sample("y", dist.Normal(x @ w + b, sigma), obs=y)


def factor_analysis(x, k):
    """Latent factors."""
    n, d = x.shape
    loading = numpyro.sample("loading", dist.Normal(0.0, 1.0).expand([d, k]).to_event(2))
    noise = numpyro.sample("noise", dist.HalfNormal(1.0).expand([d]).to_event(1))
    z = numpyro.sample("z", dist.Normal(0.0, 1.0).expand([n, k]).to_event(2))
    numpyro.sample("x", dist.Normal(z @ loading.T, noise).to_event(2), obs=x)


def mixture(x, k):
    """Labels enumerated."""
    weight = numpyro.sample("weight", dist.Dirichlet(jnp.ones(k)))
    mean = numpyro.sample("mean", dist.Normal(3.5, 2.0).expand([k]).to_event(1))
    spread = numpyro.sample("spread", dist.HalfNormal(1.0).expand([k]).to_event(1))
    with numpyro.plate("item", len(x)):
        label = numpyro.sample("label", dist.Categorical(weight), infer=summed())
        numpyro.sample("x", dist.Normal(mean[label], spread[label]), obs=x)


def hidden_markov(y, k):
    """States enumerated along the scan."""
    move = numpyro.sample("move", dist.Dirichlet(jnp.ones(k) + 2.0 * jnp.eye(k)).to_event(1))
    mean = numpyro.sample("mean", dist.Normal(0.0, 3.0).expand([k]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2.0))

    def step(carried, seen):
        state, t = carried
        row = jnp.where(t == 0, jnp.ones(k) / k, move[state])
        new = numpyro.sample("state", dist.Categorical(row), infer=summed())
        numpyro.sample("y", dist.Normal(mean[new], sigma), obs=seen)
        return (new, t + 1), None

    scan(step, (0, 0), y)


def local_level(y):
    """Every level is a latent."""
    start = numpyro.sample("start", dist.Normal(1000.0, 300.0))
    wander = numpyro.sample("wander", dist.HalfNormal(100.0))
    noise = numpyro.sample("noise", dist.HalfNormal(200.0))

    def step(level, seen):
        new = numpyro.sample("level", dist.Normal(level, wander))
        numpyro.sample("y", dist.Normal(new, noise), obs=seen)
        return new, None

    scan(step, start, y)


def change_point(y):
    """The change enumerated."""
    change = numpyro.sample("change", dist.Categorical(jnp.ones(len(y)) / len(y)), infer=summed())
    early = numpyro.sample("early", dist.Gamma(2.0, 1.0))
    late = numpyro.sample("late", dist.Gamma(2.0, 1.0))
    with numpyro.plate("year", len(y)):
        before = jnp.arange(len(y)) < change
        numpyro.sample("y", dist.Poisson(jnp.where(before, early, late)), obs=y)


def batting(at_bats, hits):
    """Every rate is a latent."""
    mean = numpyro.sample("mean", dist.Beta(2.0, 2.0))
    kappa = jnp.exp(numpyro.sample("log_kappa", dist.Normal(4.0, 1.5)))
    with numpyro.plate("player", len(hits)):
        theta = numpyro.sample("theta", dist.Beta(mean * kappa, (1.0 - mean) * kappa))
        numpyro.sample("hits", dist.Binomial(at_bats, theta), obs=hits)


def zero_inflated(y):
    """Presence enumerated."""
    present = numpyro.sample("present", dist.Beta(1.0, 1.0))
    rate = numpyro.sample("rate", dist.Gamma(2.0, 0.5))
    with numpyro.plate("count", len(y)):
        z = numpyro.sample("z", dist.Bernoulli(present), infer=summed())
        numpyro.sample("y", dist.Poisson(jnp.where(z == 1, rate, 1e-30)), obs=y)


def item_response(y):
    """Two parameters an item."""
    people, items = y.shape
    ability = numpyro.sample("ability", dist.Normal(0.0, 1.0).expand([people]).to_event(1))
    difficulty = numpyro.sample("difficulty", dist.Normal(0.0, 2.0).expand([items]).to_event(1))
    sharpness = numpyro.sample("sharpness", dist.LogNormal(0.0, 0.5).expand([items]).to_event(1))
    logits = sharpness * (ability[:, None] - difficulty)
    numpyro.sample("y", dist.Bernoulli(logits=logits).to_event(2), obs=y)
