"""Deaths after heart operations on infants in twelve hospitals (Spiegelhalter et al., BUGS Examples I, "Surgical")."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from fubini import distributions as dist
from fubini.models.coroutine import model

NAMES = tuple("ABCDEFGHIJKL")
OPERATIONS = np.array([47, 148, 119, 810, 211, 196, 148, 215, 207, 97, 256, 360])
DEATHS = np.array([0, 18, 8, 46, 8, 13, 9, 31, 14, 8, 29, 24])


@model
def hospitals(operations: Any) -> Any:
    """Each hospital has a rate of its own, about that of usual or of risky hospitals."""
    usual = yield dist.Beta(2.0, 30.0)
    high = yield dist.Beta(4.0, 28.0)
    similarity = yield dist.Gamma(2.0, 0.02)
    risky = yield dist.Bernoulli(0.25).expand([12])
    centre = jnp.where(risky, high, usual)
    rate = yield dist.Beta(similarity * centre, similarity * (1.0 - centre))
    deaths = yield dist.Binomial(operations, rate)


@model
def two_kinds(operations: Any) -> Any:
    """Two rates, and which of them is that of each hospital."""
    share = yield dist.Dirichlet(jnp.ones(2))
    rate = yield dist.Beta(jnp.array([2.0, 4.0]), jnp.array([30.0, 28.0]))
    kind = yield dist.Categorical(share).expand([12])
    deaths = yield dist.Binomial(operations, rate[kind])


@model
def one_rate(operations: Any) -> Any:
    """All hospitals have the same rate."""
    rate = yield dist.Beta(1.0, 9.0)
    deaths = yield dist.Binomial(operations, rate)


@model
def own_rates(operations: Any) -> Any:
    """Each hospital has its own rate, and they have nothing in common."""
    rate = yield dist.Beta(1.0, 9.0).expand([12])
    deaths = yield dist.Binomial(operations, rate)
