"""The neural variational Kalman filter: what is believed, what is learnt, and two guides.

A state z of a few dimensions goes on in hours. A network maps it and the kind of hour to the rates of a zero-inflated
Poisson for the trips between every two stations:

    z′ ~ Normal(A z, I − A Aᵀ),    trips[o, d] ~ gate[o, d] δ(0) + (1 − gate[o, d]) Poisson(rate[o, d]),

where the logits of the gates and the logarithms of the rates, relative to usual ones, are affine in tanh(W (hour, z′)).
Given the trips, z is not Gaussian. Both guides put a Gaussian in its place, with the help of a second network.

The mean field reads q(z_t) off the trips of each hour. For the collapsed guide it gives a factor g_t(z_t); the
dynamics are exact: q ∝ p(z) Π_t g_t(z_t) is a linear Gaussian chain, whose evidence and marginals are exact.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

import fubini as fb
from fubini import dist

HIDDEN = 32


class Parameters(NamedTuple):
    """What is learnt: the dynamics, the network from states to trips, and the one from trips to states."""

    transition: jax.Array
    gate: jax.Array
    enter: jax.Array
    leave: jax.Array
    read: jax.Array
    conclude: jax.Array


class Calendar(NamedTuple):
    """The covariates of an hour: its kind, one-hot, and the logarithms of the usual rates of such hours."""

    kind: jax.Array
    usual: jax.Array


class Series(NamedTuple):
    """Trips [hour, origin, destination], and the calendar of these hours."""

    trips: jax.Array
    calendar: Calendar


def initial_parameters(key: jax.Array, series: Series, dimension: int) -> Parameters:
    """The usual rates, and guides that are not sure of any state."""
    stations, kinds = series.trips.shape[-1], series.calendar.kind.shape[-1]
    keys = jax.random.split(key, 4)

    def noise(key: jax.Array, *shape: int) -> jax.Array:
        return jax.random.normal(key, shape) / jnp.sqrt(shape[0])

    return Parameters(
        transition=2.0 * jnp.eye(dimension),
        gate=jnp.full((stations, stations), -4.0),
        enter=jnp.concatenate([jnp.zeros((kinds, HIDDEN)), 0.5 * jax.random.normal(keys[0], (dimension, HIDDEN))]),
        leave=noise(keys[1], HIDDEN, 4 * stations),
        read=noise(keys[2], 2 * stations, HIDDEN),
        conclude=0.3 * noise(keys[3], HIDDEN + 1, 2 * dimension),
    )


# -- the model --------------------------------------------------------------------------------------------------------


def start(p: Parameters) -> fb.Factor:
    """In every hour, if nothing is known: the dynamics keep it."""
    dimension = len(p.transition)
    return dist.Normal(jnp.zeros(dimension), jnp.ones(dimension)).to_event(1)("z")


def move(p: Parameters) -> fb.Factor:
    """p(z′ | z) = Normal(z′; A z, I − A Aᵀ), stationary at Normal(0, I).

    A = M L⁻ᵀ with L Lᵀ = I + MᵀM contracts whatever M is; every stable system is one of these in some coordinates.
    """
    m, identity = p.transition, jnp.eye(len(p.transition))
    half = jnp.linalg.cholesky(identity + m.T @ m)
    a = jax.scipy.linalg.solve_triangular(half, m.T, lower=True).T
    z = fb.Variable("z", fb.Reals[len(m)])
    return dist.MultivariateNormal(a @ z, precision_matrix=identity + m @ m.T)("z_next")


def gates_and_rates(p: Parameters, calendar: Calendar, z: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Logits of the gates and logarithms of the rates, [origin, destination], for one hour and one state."""
    hidden = jnp.tanh(jnp.concatenate([calendar.kind, z]) @ p.enter)
    out, into = (hidden @ p.leave).reshape(2, 2, -1)
    gate, rate = out[:, :, None] + into[:, None, :]
    return p.gate + gate, jnp.minimum(calendar.usual + rate, 9.0)


def log_mass(gate: jax.Array, log_rate: jax.Array, trips: jax.Array) -> jax.Array:
    """log (gate [trips = 0] + (1 − gate) Poisson(trips)) + log trips!, for a gate given by its logit."""
    rate = jnp.exp(log_rate)
    seen = jnp.where(trips > 0, trips * log_rate - rate, jnp.logaddexp(gate, -rate))
    return seen - jax.nn.softplus(gate)


def log_likelihood(p: Parameters, series: Series) -> fb.Value:
    """log p(trips in hour t | z), up to a constant: a Value of t and z."""

    def of_hour(z: jax.Array, kind: jax.Array, usual: jax.Array, trips: jax.Array) -> jax.Array:
        return log_mass(*gates_and_rates(p, Calendar(kind, usual), z), trips).sum()

    z = fb.Variable("z_next", fb.Reals[len(p.transition)])
    known = (fb.Array(data, ("t",)) for data in (*series.calendar, series.trips))
    return fb.lift(of_hour)(z, *known)


# -- the guides -------------------------------------------------------------------------------------------------------


def read(p: Parameters, series: Series) -> tuple[jax.Array, jax.Array]:
    """What departures and arrivals in each hour alone say about its state: a place and a scale."""
    trips, usual = series.trips, jnp.exp(series.calendar.usual)
    unusual = [jnp.log1p(trips.sum(axis)) - jnp.log1p(usual.sum(axis)) for axis in (1, 2)]
    hidden = jnp.tanh(jnp.concatenate(unusual, -1) @ p.read)
    place, spread = jnp.split(hidden @ p.conclude[:-1] + p.conclude[-1], 2, axis=-1)
    return place, 0.01 + jax.nn.softplus(spread)


def mean_field(p: Parameters, series: Series) -> fb.Factor:
    """q(z_t), each for itself."""
    return by_hour(*read(p, series), "z_next")


def by_hour(place: jax.Array, scale: jax.Array, name: str) -> fb.Factor:
    """Independent normals for each hour."""
    return dist.Normal(fb.Array(place, ("t",)), fb.Array(scale, ("t",))).to_event(1)(name)


def pseudo_likelihood(p: Parameters, series: Series) -> fb.Factor:
    """g_t(z_t): as if each hour had been measured, with an error."""
    place, scale = read(p, series)
    z = fb.Variable("z_next", fb.Reals[len(p.transition)])
    return dist.Normal(z, fb.Array(scale, ("t",))).to_event(1)(fb.Array(place, ("t",)))


def posterior(p: Parameters, series: Series) -> fb.Chain:
    """q(z) ∝ p(z) Π_t g_t(z_t)"""
    factor = move(p) * pseudo_likelihood(p, series)
    return fb.Chain(init=start(p), factor=factor, time="t", step={"z": "z_next"})


def mean_field_bound(p: Parameters, series: Series, key: jax.Array) -> jax.Array:
    """E_q[log p(trips | z) + log p(z) − log q(z)], of which only the first is estimated."""
    place, scale = read(p, series)
    q = by_hour(place, scale, "z_next")
    with fb.monte_carlo(key, 1):
        seen = fb.expectation(q, log_likelihood(p, series), "z_next").data.sum()
    before, after = by_hour(place[:-1], scale[:-1], "z"), by_hour(place[1:], scale[1:], "z_next")
    moved = fb.expectation(before * after, move(p).log() - after.log(), "z", "z_next").data.sum()
    first = by_hour(place[:1], scale[:1], "z")
    began = fb.expectation(first, start(p).log() - first.log(), "z").data.sum()
    return seen + began + moved


def collapsed_bound(p: Parameters, series: Series, key: jax.Array) -> jax.Array:
    """E_q[log p(trips | z) − Σ_t log g_t(z_t)] + log Σ_z p(z) Π_t g_t(z_t), of which only the first is estimated.

    The nearer g is to the likelihood, the less the difference depends on the draw.
    """
    chain = posterior(p, series)
    gained = log_likelihood(p, series) - pseudo_likelihood(p, series).log()
    with fb.monte_carlo(key, 1):
        seen = fb.expectation(chain.smooth(), gained, "z_next").data.sum()
    return seen + chain.log_evidence().data
