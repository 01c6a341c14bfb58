"""The models, as one writes them."""

import jax.numpy as jnp

import fubini as fb
from fubini import dist


@fb.model
def mixture(n, m):
    theta = yield dist.Dirichlet(jnp.ones(m))
    mu = yield dist.Normal(0.0, 14.0).expand([m])
    z = yield dist.Categorical(theta).expand([n])
    t = yield dist.Normal(mu[z], 1.0)


@fb.model
def naive_bayes(documents, words, classes, doc):
    theta = yield dist.Dirichlet(jnp.ones(classes))
    phi = yield dist.Dirichlet(jnp.ones(words)).expand([classes])
    z = yield dist.Categorical(theta).expand([documents])
    w = yield dist.Categorical(phi[z[doc]])


@fb.model
def topics(documents, words, k, doc):
    theta = yield dist.Dirichlet(jnp.ones(k)).expand([documents])
    phi = yield dist.Dirichlet(jnp.ones(words)).expand([k])
    z = yield dist.Categorical(theta[doc])
    w = yield dist.Categorical(phi[z])


@fb.model
def clinical_trial(n):
    effective = yield dist.Bernoulli(0.5)
    control_rate = yield dist.Beta(1.0, 1.0)
    treated_rate = yield dist.Beta(1.0, 1.0)
    common_rate = yield dist.Beta(1.0, 1.0)
    control = yield dist.Bernoulli(jnp.where(effective == 1, control_rate, common_rate)).expand([n])
    treated = yield dist.Bernoulli(jnp.where(effective == 1, treated_rate, common_rate)).expand([n])


@fb.model
def linear_regression(x):
    tau = yield dist.Gamma(1.0, 1.0)
    a = yield dist.Normal(0.0, 1 / jnp.sqrt(tau))
    b = yield dist.Normal(5.0, jnp.sqrt(10 / 3) / jnp.sqrt(tau))
    y = yield dist.Normal(a * x + b, 1 / jnp.sqrt(tau))
