"""Labels under tests of other data: with and without each pass, conditionals equal those of a plain normal density."""

import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from tests.compile.test_passes import WITHOUT

N, K = 6, 3
B = np.array([0.3, -1.2, 0.8, -0.1, 2.0, -0.7])
W = np.array([0, 1, 1, 2, 0, 2])
T = np.array([0.5, 1.5, 2.5, 2.7, 3.2, 9.0])
X = np.array([-2.1, 0.4, 1.9, 3.0, -0.6, 1.1])
P = np.array([0.2, 0.3, 0.5])


@fb.model
def chosen():
    """A test made of tests."""
    mu = yield dist.Normal(0.0, 3.0)
    y = yield dist.Categorical(jnp.asarray(P)).expand([N])
    x = yield dist.Normal(jnp.where(jnp.where(B > 0, y == 1, y == 2), mu, 0.0), 1.0)


@fb.model
def agreeing():
    """Two tests of one class."""
    mu = yield dist.Normal(0.0, 3.0).expand([K])
    y = yield dist.Categorical(jnp.asarray(P)).expand([N])
    x = yield dist.Normal(jnp.where(y == W, mu[y], 0.0), 1.0)


@fb.model
def after(t):
    """How many events are after each time: tests of numbers that are not whole."""
    mu = yield dist.Normal(0.0, 3.0).expand([K])
    y = yield dist.Categorical(jnp.asarray(P)).expand([N])
    x = yield dist.Normal(mu[y] * jnp.sum(1.0 * (jnp.arange(N)[:, None] < t[None, :]), 1), 1.0)


@fb.model
def before(t):
    mu = yield dist.Normal(0.0, 3.0).expand([K])
    y = yield dist.Categorical(jnp.asarray(P)).expand([N])
    x = yield dist.Normal(mu[y] * jnp.sum(1.0 * (t[None, :] < jnp.arange(N)[:, None]), 1), 1.0)


SLOPES = {
    "chosen": lambda y: np.where(B > 0, y == 1, y == 2)[:, None] * 1.0,
    "agreeing": lambda y: (y == W)[:, None] * np.eye(K)[y],
    "after": lambda y: (np.arange(N)[:, None] < T).sum(1)[:, None] * np.eye(K)[y],
    "before": lambda y: (np.arange(N)[:, None] > T).sum(1)[:, None] * np.eye(K)[y],
}
MODELS = {"chosen": chosen(), "agreeing": agreeing(), "after": after(T), "before": before(T)}


def log_density(slopes, y) -> float:
    """x = A mu + noise: normal with covariance 1 + 9 A Aᵀ"""
    covariance = np.eye(N) + 9 * slopes(y) @ slopes(y).T
    return float(np.log(P)[y].sum() - 0.5 * (np.linalg.slogdet(covariance)[1] + X @ np.linalg.solve(covariance, X)))


@pytest.mark.parametrize("name", MODELS)
def test_conditional_equals_a_normal_density(name: str) -> None:
    y = np.array([1, 1, 2, 2, 0, 2])
    collapsed = MODELS[name].condition(x=X).eliminate("mu")
    for without in WITHOUT:
        sampler = collapsed.gibbs("y", engine="python", without=without)
        for place in range(N):
            every = [np.where(np.arange(N) == place, k, y) for k in range(K)]
            logs = np.array([log_density(SLOPES[name], one) for one in every])
            exact = np.exp(logs - logs.max())
            found = sampler.conditional("y", place, y=y)
            assert np.abs(found - exact / exact.sum()).max() < 1e-9, (without, place)
