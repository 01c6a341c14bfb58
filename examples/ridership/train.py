"""The parameters of greatest bound, by Adam on the whole of the training series."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.scipy.special import gammaln

from .data import KINDS, Ridership
from .model import Calendar, Parameters, Series, initial_parameters

Bound = Callable[[Parameters, Series, jax.Array], jax.Array]


def series_of(days: Ridership, usual: np.ndarray) -> Series:
    """What the model is given of these days, with the usual rates of each kind of hour."""
    calendar = Calendar(jax.nn.one_hot(days.kinds, KINDS), jnp.asarray(np.log(usual[days.kinds]), jnp.float32))
    return Series(jnp.asarray(days.trips, jnp.float32), calendar)


def learn(bound: Bound, series: Series, key: jax.Array, dimension: int, steps: int) -> tuple[Parameters, np.ndarray]:
    """Parameters, and the bound on log p(trips) at each step, in nats for an hour and a pair."""
    constant = gammaln(series.trips + 1.0).sum()
    rate = optax.cosine_decay_schedule(0.02, steps)
    adam = optax.adam(rate)
    first = initial_parameters(key, series, dimension)

    def loss(p: Parameters, series: Series, key: jax.Array) -> jax.Array:
        return (constant - bound(p, series, key)) / series.trips.size

    def improve(p: Parameters, moments: tuple, series: Series, key: jax.Array) -> tuple:
        value, slope = jax.value_and_grad(loss)(p, series, key)
        updates, moments = adam.update(slope, moments)
        return optax.apply_updates(p, updates), moments, -value

    step = jax.jit(improve, donate_argnums=(0, 1))
    state = (first, adam.init(first))
    bounds = []
    for number in range(steps):
        *state, value = step(*state, series, jax.random.fold_in(key, number))
        bounds.append(value)
    return state[0], np.asarray(jnp.stack(bounds))
