"""The models, in plain JAX."""

from __future__ import annotations

import jax.numpy as jnp

import fubini as fb
from fubini import dist


@fb.model
def eight_schools(spread):
    """Effects of coaching in schools, with known standard errors."""
    mu = yield dist.Normal(0.0, 5.0)
    tau = yield dist.HalfCauchy(5.0)
    theta = yield dist.Normal(mu, tau).expand(spread.shape)
    y = yield dist.Normal(theta, spread)


@fb.model
def eight_schools_unknown(schools, pupils):
    """The same with pupils' own results, whose variance is not known."""
    mu = yield dist.Normal(0.0, 5.0)
    tau = yield dist.HalfCauchy(5.0)
    sigma = yield dist.HalfNormal(20.0)
    theta = yield dist.Normal(mu, tau).expand([schools])
    y = yield dist.Normal(theta[:, None], sigma).expand([schools, pupils])


@fb.model
def radon(county, basement, counties):
    """Radon in houses: an intercept for each county, a common slope."""
    mu = yield dist.Normal(0.0, 5.0)
    slope = yield dist.Normal(0.0, 5.0)
    between = yield dist.HalfNormal(1.0)
    within = yield dist.HalfNormal(1.0)
    alpha = yield dist.Normal(mu, between).expand([counties])
    y = yield dist.Normal(alpha[county] + slope * basement, within)


@fb.model
def regression(x):
    """Linear regression with unknown noise."""
    sigma = yield dist.HalfNormal(5.0)
    b = yield dist.Normal(0.0, 10.0)
    w = yield dist.Normal(0.0, 3.0).expand([x.shape[1]])
    y = yield dist.Normal(x @ w + b, sigma)


@fb.model
def factor_analysis(n, d, k):
    """Latent factors behind correlated measurements."""
    loading = yield dist.Normal(0.0, 1.0).expand([d, k])
    noise = yield dist.HalfNormal(1.0).expand([d])
    z = yield dist.Normal(0.0, 1.0).expand([n, k])
    x = yield dist.Normal(z @ loading.T, noise)


@fb.model
def mixture(n, k):
    """A Gaussian mixture whose labels are summed."""
    weight = yield dist.Dirichlet(jnp.ones(k))
    mean = yield dist.Normal(3.5, 2.0).expand([k])
    spread = yield dist.HalfNormal(1.0).expand([k])
    label = yield dist.Categorical(weight).expand([n])
    x = yield dist.Normal(mean[label], spread[label])


@fb.model
def hidden_markov(n, k):
    """A hidden Markov model with unknown transitions and emissions."""
    move = yield dist.Dirichlet(jnp.ones(k) + 2.0 * jnp.eye(k))
    mean = yield dist.Normal(0.0, 3.0).expand([k])
    sigma = yield dist.HalfNormal(2.0)
    state = yield dist.Markov(dist.Categorical(jnp.ones(k) / k), lambda z: dist.Categorical(move[z]), n)
    y = yield dist.Normal(mean[state], sigma)


@fb.model
def local_level(n):
    """A level that wanders, seen through noise."""
    start = yield dist.Normal(1000.0, 300.0)
    wander = yield dist.HalfNormal(100.0)
    noise = yield dist.HalfNormal(200.0)
    level = yield dist.Markov(dist.Normal(start, wander), lambda x: dist.Normal(x, wander), n)
    y = yield dist.Normal(level, noise)


@fb.model
def change_point(n):
    """A rate that changes once."""
    change = yield dist.DiscreteUniform(0, n - 1)
    early = yield dist.Gamma(2.0, 1.0)
    late = yield dist.Gamma(2.0, 1.0)
    y = yield dist.Poisson(jnp.where(jnp.arange(n) < change, early, late))


@fb.model
def batting(at_bats):
    """Success rates of players that resemble each other."""
    mean = yield dist.Beta(2.0, 2.0)
    log_kappa = yield dist.Normal(4.0, 1.5)
    kappa = jnp.exp(log_kappa)
    theta = yield dist.Beta(mean * kappa, (1.0 - mean) * kappa).expand(at_bats.shape)
    hits = yield dist.Binomial(at_bats, theta)


@fb.model
def zero_inflated(n):
    """Counts of which some are zero for a reason of their own."""
    present = yield dist.Beta(1.0, 1.0)
    rate = yield dist.Gamma(2.0, 0.5)
    z = yield dist.Bernoulli(present).expand([n])
    y = yield dist.Poisson(jnp.where(z == 1, rate, 0.0))


@fb.model
def item_response(people, items):
    """Answers of people of unknown ability to questions of unknown difficulty."""
    ability = yield dist.Normal(0.0, 1.0).expand([people])
    difficulty = yield dist.Normal(0.0, 2.0).expand([items])
    sharpness = yield dist.LogNormal(0.0, 0.5).expand([items])
    y = yield dist.Bernoulli(logits=sharpness * (ability[:, None] - difficulty))
