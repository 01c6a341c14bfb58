"""Targets for samplers, each with its marginals by sums and quadrature: normal, funnel, bimodal, discrete."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import fubini as fb
from fubini import dist

Y = np.array([0.7, -0.4])
X = np.linspace(-12.0, 12.0, 1201)
V = np.linspace(-5.0, 5.0, 401)
SHARES = np.array([0.4, 0.6])


class Marginal(NamedTuple):
    """Points of a latent, and how much of the posterior there is at each."""

    points: np.ndarray
    shares: np.ndarray

    def mean(self, function: Callable = lambda x: x) -> float:
        """E f(x)"""
        return float(np.sum(function(self.points) * self.shares))


class Case(NamedTuple):
    """The posterior of a model with labels z, and its marginals."""

    post: Any
    marginals: Callable[[], dict[str, Marginal]]


def density(x: Any, loc: Any, scale: Any) -> Any:
    """Of a normal, up to a constant."""
    return np.exp(-0.5 * ((x - loc) / scale) ** 2) / scale


def marginal(points: Any, weights: Any) -> Marginal:
    return Marginal(np.asarray(points, float), np.asarray(weights) / np.sum(weights))


def summed(weights: Any) -> tuple[Any, Any]:
    """Of weights [label, item, …]: the product over items of sums over labels; and that with the first label, each."""
    each = np.sum(weights, axis=0)
    return each.prod(axis=0), np.stack([of_label[0] * each[1:].prod(axis=0) for of_label in weights])


@fb.model
def normal():
    z = yield dist.Categorical(SHARES).expand([2])
    x = yield dist.Normal(0.0, 1.0)
    y = yield dist.Normal(x, 1.0 + z)


def normal_marginals() -> dict[str, Marginal]:
    z, y = np.arange(2)[:, None, None], Y[:, None]
    every, first = summed(SHARES[:, None, None] * density(y, X, 1.0 + z))
    prior = density(X, 0.0, 1.0)
    return {"x": marginal(X, prior * every), "z": marginal([0, 1], (prior * first).sum(axis=1))}


@fb.model
def funnel():
    z = yield dist.Categorical(SHARES).expand([2])
    v = yield dist.Normal(0.0, 1.0)
    x = yield dist.Normal(0.0, jnp.exp(0.5 * v))
    y = yield dist.Normal(x, 1.0 + z)


def funnel_marginals() -> dict[str, Marginal]:
    z, y = np.arange(2)[:, None, None], Y[:, None]
    every, first = summed(SHARES[:, None, None] * density(y, X, 1.0 + z))
    prior = density(V, 0.0, 1.0)[:, None] * density(X, 0.0, np.exp(V / 2)[:, None])
    return {
        "x": marginal(X, (prior * every).sum(axis=0)),
        "v": marginal(V, (prior * every).sum(axis=1)),
        "z": marginal([0, 1], [(prior * one).sum() for one in first]),
    }


@fb.model
def bimodal():
    z = yield dist.Categorical(SHARES).expand([2])
    x = yield dist.Normal(3.0 * z - 1.5, 0.9)
    y = yield dist.Normal(x, 2.0)


def bimodal_marginals() -> dict[str, Marginal]:
    """Of the first item: the second is independent of it."""
    joint = SHARES[:, None] * density(X, 3.0 * np.arange(2)[:, None] - 1.5, 0.9) * density(Y[0], X, 2.0)
    return {"x": marginal(X, joint.sum(axis=0)), "z": marginal([0, 1], joint.sum(axis=1))}


FOUR = np.array([0.7, -1.4, 0.2, 1.9])


@fb.model
def discrete():
    z = yield dist.Categorical(SHARES).expand([4])
    m = yield dist.Normal(jnp.array([-1.0, 1.0]), 1.0)
    y = yield dist.Normal(m[z], 1.0)


def discrete_marginals() -> dict[str, Marginal]:
    """y is normal given labels, m integrated out: items of one class share a variance of 1."""
    weights = np.zeros(2)
    for z in itertools.product(range(2), repeat=4):
        labels = np.array(z)
        covariance = np.eye(4) + np.equal.outer(labels, labels)
        off = FOUR - np.array([-1.0, 1.0])[labels]
        log_p = -0.5 * off @ np.linalg.solve(covariance, off) - 0.5 * np.linalg.slogdet(covariance)[1]
        weights[z[0]] += SHARES[labels].prod() * np.exp(log_p)
    return {"z": marginal([0, 1], weights)}


CASES = {
    "normal": Case(normal().condition(y=Y), normal_marginals),
    "funnel": Case(funnel().condition(y=Y), funnel_marginals),
    "bimodal": Case(bimodal().condition(y=Y), bimodal_marginals),
    "discrete": Case(discrete().condition(y=FOUR), discrete_marginals),
}
