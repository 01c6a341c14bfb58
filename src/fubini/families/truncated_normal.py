"""TruncatedNormal(loc, scale, low, high): a normal number between two ends."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.scipy.special import log_ndtr
from numpyro.distributions import constraints

from fubini.arrays import Data
from fubini.families.family import Family, register
from fubini.families.normal import log_normal
from fubini.families.parameters import ENDS, Arrays, Parameters, interval
from fubini.index.build import call, divide, minus
from fubini.index.node import Node, node


def log_mass(low: Data, high: Data) -> Data:
    """log(Φ(high) − Φ(low)), right in both tails"""
    flip = low + high > 0  # the left tail is the one that does not cancel
    a, b = jnp.where(flip, -high, low), jnp.where(flip, -low, high)
    log_a, log_b = log_ndtr(a), log_ndtr(b)
    return log_b + jnp.log1p(-jnp.exp(jnp.minimum(log_a - log_b, 0.0)))


def log_normal_mass(low: Node, high: Node) -> Node:
    """log(Φ(high) − Φ(low))"""
    return node("call", log_mass, low, high)


def log_truncated_normal(x: Node, parameters: Parameters) -> Node:
    """The normal density over the mass between the ends"""
    low, high = _standard_ends(parameters)
    return minus(log_normal(x, parameters), log_normal_mass(low, high))


def _standard_ends(parameters: Parameters) -> tuple[Node, ...]:
    """(end − μ)/σ of both ends"""
    return tuple(divide(minus(parameters[end], parameters["loc"]), parameters["scale"]) for end in ("low", "high"))


def draw(key: Data, parameters: Arrays) -> Data:
    """μ + σ times a standard normal number between the ends"""
    low, high = ((parameters[end] - parameters["loc"]) / parameters["scale"] for end in ("low", "high"))
    return parameters["loc"] + parameters["scale"] * jax.random.truncated_normal(key, low, high)


TRUNCATED_NORMAL = register(
    Family(
        "TruncatedNormal",
        {"loc": constraints.real, "scale": constraints.positive, **ENDS},
        interval,
        log_truncated_normal,
        draw=draw,
        mode=lambda p: call("min", call("max", p["loc"], p["low"]), p["high"]),
        is_read=False,
    )
)
