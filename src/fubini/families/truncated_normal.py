"""TruncatedNormal(loc, scale, low, high): a normal number between two ends."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from numpyro.distributions import constraints

from fubini.algebra.build import ONE, ZERO, add, call, minus, plus, power, scale, times, where
from fubini.algebra.node import Node, node
from fubini.base.arrays import Data
from fubini.base.scalar_functions import on_jax
from fubini.families.family import Family, register
from fubini.families.functions import LOG_2PI, MINUS_INFINITY, is_inside, square
from fubini.families.incomplete_functions import normal_between, normal_mass
from fubini.families.normal import log_mass, log_normal, standardised
from fubini.families.parameters import ENDS, REAL, Arrays, Parameters, interval
from fubini.numerics.box_moments import BoxMoments, box_moments


def with_ends(parameters: Parameters) -> Parameters:
    """With the ends that are not given, which are infinite."""
    return {"low": REAL.low, "high": REAL.high, **parameters}


def log_truncated_normal(x: Node, parameters: Parameters) -> Node:
    """The normal density over the mass between the ends"""
    ends = with_ends(parameters)
    return minus(log_normal(x, parameters), log_mass(parameters, ends["low"], ends["high"]))


def log_everywhere(x: Node, parameters: Parameters) -> Node:
    """−∞ outside the ends"""
    ends = with_ends(parameters)
    inside = is_inside(x, ends["low"], ends["high"])
    return where(inside, log_truncated_normal(x, parameters), MINUS_INFINITY)


@on_jax()
def mean_between(low: Data, high: Data) -> Data:
    """E[z | low < z < high] of a standard normal number"""
    return _moments(low, high).mean[..., 0]


@on_jax()
def variance_between(low: Data, high: Data) -> Data:
    """E[(z − E z)² | low < z < high] of a standard normal number"""
    return _moments(low, high).covariance[..., 0, 0]


def _moments(low: Data, high: Data) -> BoxMoments:
    low, high = jnp.broadcast_arrays(*(jnp.asarray(end, jnp.result_type(float)) for end in (low, high)))
    zero = jnp.zeros_like(low)
    return box_moments(low[..., None], high[..., None], zero[..., None], jnp.ones((*low.shape, 1, 1), low.dtype))


def mean(parameters: Parameters) -> Node:
    """μ + σ E z"""
    return plus(parameters["loc"], times(parameters["scale"], node("call", mean_between, *_ends(parameters))))


def variance(parameters: Parameters) -> Node:
    """σ² Var z"""
    return times(square(parameters["scale"]), node("call", variance_between, *_ends(parameters)))


def moments(parameters: Parameters, most: int) -> list[Node]:
    """E[x^j] = Σ_i C(j, i) μ^(j−i) σ^i E[z^i], with E[z^i] = (i − 1) E[z^(i−2)] + (a^(i−1) φ(a) − b^(i−1) φ(b))/Z"""
    low, high = _ends(parameters)
    standard = [ONE, node("call", mean_between, low, high)]
    standard.append(plus(node("call", variance_between, low, high), square(standard[1])))
    for i in range(3, most + 1):
        ends = minus(_end_term(low, low, high, i), _end_term(high, low, high, i))
        standard.append(plus(scale(i - 1.0, standard[i - 2]), ends))
    mu, sigma = parameters["loc"], parameters["scale"]
    return [
        add(
            (times(power(mu, float(j - i)), power(sigma, float(i)), standard[i]), math.comb(j, i)) for i in range(j + 1)
        )
        for j in range(most + 1)
    ]


def _end_term(end: Node, low: Node, high: Node, i: int) -> Node:
    """z^(i−1) φ(z)/Z at an end, 0 at an infinite one"""
    if end in (REAL.low, REAL.high):
        return ZERO
    log_density = add(((square(end), -0.5), (ONE, -0.5 * LOG_2PI), (normal_mass(low, high), -1.0)))
    return times(power(end, i - 1.0), call("exp", log_density))


def _ends(parameters: Parameters) -> list[Node]:
    """The ends in standard units."""
    ends = with_ends(parameters)
    return [standardised(ends[name], parameters) for name in ("low", "high")]


def draw(key: Data, parameters: Arrays) -> Data:
    """μ + σ times a standard normal number between the ends, by its distribution function"""
    loc, scale = parameters["loc"], parameters["scale"]
    ends = [parameters.get("low", -jnp.inf), parameters.get("high", jnp.inf)]
    drawn = normal_between(jax.random.uniform(key, loc.shape), *((end - loc) / scale for end in ends))
    return jnp.clip(loc + scale * drawn, *ends)


def mode(parameters: Parameters) -> Node:
    """The end that is nearest to μ, or μ"""
    above = call("max", parameters["loc"], parameters["low"]) if "low" in parameters else parameters["loc"]
    return call("min", above, parameters["high"]) if "high" in parameters else above


TRUNCATED_NORMAL = register(
    Family(
        "TruncatedNormal",
        {"loc": constraints.real, "scale": constraints.positive, **ENDS},
        lambda p: interval(with_ends(p)),
        log_truncated_normal,
        log_density_everywhere=log_everywhere,
        names=("TruncatedNormal",),
        draw=draw,
        mean=mean,
        variance=variance,
        moments=moments,
        mode=mode,
        equation="∫ exp(−½ p (x − m)²) dx = √(2π/p) (Φ(√p (b − m)) − Φ(√p (a − m)))",
    )
)
