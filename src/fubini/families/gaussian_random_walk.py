"""GaussianRandomWalk(scale, num_steps): sums of normal steps from 0."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from numpyro.distributions import constraints

from fubini.algebra.build import ONE, ZERO, index, minus, plus
from fubini.algebra.node import Index, Node
from fubini.algebra.sums import total
from fubini.base.arrays import Data
from fubini.families.family import Family, register
from fubini.families.normal import log_normal
from fubini.families.parameters import Arrays, Parameters, Vector


def log_random_walk(x: Vector, parameters: Parameters) -> Node:
    """log N(x_0; 0, σ) + Σ_t log N(x_(t+1) − x_t; 0, σ)"""
    step = {"loc": ZERO, "scale": parameters["scale"]}
    first = log_normal(x.at(ZERO), step)
    if x.over.size == 1:
        return first
    t = Index(x.over.size - 1)
    return plus(first, total([t], log_normal(minus(x.at(plus(index(t), ONE)), x.at(index(t))), step)))


def draw_later(key: Data, parameters: Arrays, first: Data, count: int) -> Data:
    """x_(t+1) = x_t + σ z"""
    steps = jax.random.normal(key, (*first.shape[:-1], count), first.dtype)
    return first[..., -1:] + jnp.cumsum(parameters["scale"][..., None] * steps, -1)


GAUSSIAN_RANDOM_WALK = register(
    Family(
        "GaussianRandomWalk",
        {"scale": constraints.positive},
        lambda parameters: None,
        log_random_walk,
        names=("GaussianRandomWalk",),
        draw_later=draw_later,
        event_dim=1,
    )
)
