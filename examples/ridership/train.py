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
    adam = optax.adam(optax.cosine_decay_schedule(0.02, steps))

    def loss(p: Parameters, series: Series, key: jax.Array) -> jax.Array:
        return (gammaln(series.trips + 1.0).sum() - bound(p, series, key)) / series.trips.size

    @jax.jit
    def improved(series: Series) -> tuple[Parameters, jax.Array]:
        def step(state: tuple, key: jax.Array) -> tuple[tuple, jax.Array]:
            p, moments = state
            value, slope = jax.value_and_grad(loss)(p, series, key)
            updates, moments = adam.update(slope, moments)
            return (optax.apply_updates(p, updates), moments), -value

        p = initial_parameters(key, series, dimension)
        (p, _), bounds = jax.lax.scan(step, (p, adam.init(p)), jax.random.split(key, steps))
        return p, bounds

    p, bounds = improved(series)
    return p, np.asarray(bounds)
