"""Maximum likelihood by Adam, and Akaike's criterion."""

from functools import partial

import jax
import optax

from examples.harbour_seals.data import Tracks
from examples.harbour_seals.model import Parameters, Variant, draw_parameters, log_evidence

RATE = 0.1
LAST_PART = 0.75


def aic(parameters: Parameters, log_likelihood: float) -> float:
    """2 (number of parameters) − 2 log p; every number counts, redundant or not, as in the paper's program."""
    return 2 * sum(value.size for value in parameters.values()) - 2 * log_likelihood


@partial(jax.jit, static_argnames="method")
def evidence_and_gradient(parameters: Parameters, tracks: Tracks, method: str) -> tuple[jax.Array, Parameters]:
    """log p(observations), and its derivative in every parameter."""
    return jax.value_and_grad(log_evidence)(parameters, tracks, method)


def fit(parameters: Parameters, tracks: Tracks, steps: int, method: str = "sequential") -> tuple[Parameters, float]:
    """Adam, its rate a tenth in the last quarter: the parameters found, and their log-evidence."""
    rate = optax.piecewise_constant_schedule(-RATE, {int(LAST_PART * steps): 0.1})
    adam = optax.chain(optax.scale_by_adam(), optax.scale_by_schedule(rate))
    state = adam.init(parameters)

    @jax.jit
    def moved(parameters: Parameters, gradient: Parameters, state: optax.OptState) -> tuple:
        downhill = jax.tree.map(lambda slope: -slope, gradient)
        change, state = adam.update(downhill, state)
        return optax.apply_updates(parameters, change), state

    for _ in range(steps):
        _, gradient = evidence_and_gradient(parameters, tracks, method)
        parameters, state = moved(parameters, gradient, state)
    return parameters, float(evidence_and_gradient(parameters, tracks, method)[0])


def fitted_aic(key: jax.Array, tracks: Tracks, variant: Variant, values: int, steps: int) -> float:
    """Akaike's criterion of a variant, fitted from a random start."""
    start = draw_parameters(key, variant, values, len(tracks.step))
    return aic(*fit(start, tracks, steps))
