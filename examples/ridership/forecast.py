"""Forecasts: draws of all trips of the days to come."""

from collections.abc import Callable
from functools import partial

import jax
import numpy as np

import fubini as fb

from .data import KINDS, Ridership
from .model import Calendar, Parameters, Series, gates_and_rates, mean_field, move, posterior
from .scores import Days

Last = Callable[[Parameters, Series], fb.Factor]


def last_by_mean_field(p: Parameters, series: Series) -> fb.Factor:
    """q(z) in the last hour."""
    return mean_field(p, series)(t=len(series.trips) - 1, z_next="z")


def last_by_chain(p: Parameters, series: Series) -> fb.Factor:
    """q(z) in the last hour, given what the network says of all hours."""
    return posterior(p, series).final()


def continued(p: Parameters, last: fb.Factor, key: jax.Array, hours: int, draws: int) -> jax.Array:
    """Paths of the state from the last one on: [draw, hour, dimension]."""
    chain = fb.Chain(init=last, factor=move(p), time="t", step={"z": "z_next"}, length=hours)
    return chain.sample(key, draws)["z_next"]


@partial(jax.jit, static_argnames=("last", "hours", "draws"))
def paths(p: Parameters, past: Series, key: jax.Array, *, last: Last, hours: int, draws: int) -> jax.Array:
    """Paths of the state after the past, where `last` is one of the two questions above."""
    return continued(p, last(p, past), key, hours, draws)


def by_model(p: Parameters, states: jax.Array, calendar: Calendar, seed: int) -> Days:
    """Zero-inflated Poisson draws along each path."""
    random = np.random.default_rng(seed)
    over_hours = jax.vmap(gates_and_rates, (None, 0, 0))
    over_draws = jax.jit(jax.vmap(over_hours, (None, None, 0)))
    for start in range(0, states.shape[1], 24):
        day = slice(start, start + 24)
        gate, log_rate = over_draws(p, Calendar(calendar.kind[day], calendar.usual[day]), states[:, day])
        is_shut = random.random(gate.shape, np.float32) < np.asarray(jax.nn.sigmoid(gate))
        yield np.where(is_shut, 0, random.poisson(np.exp(log_rate)))


def by_season(past: Ridership, future: Ridership, draws: int, seed: int) -> Days:
    """Poisson draws about the mean of past hours of the same kind."""
    random = np.random.default_rng(seed)
    means = np.stack([past.trips[past.kinds == kind].mean(0) for kind in range(KINDS)])
    for start in range(0, len(future.trips), 24):
        rates = means[future.kinds[start : start + 24]]
        yield random.poisson(rates, (draws, *rates.shape))
