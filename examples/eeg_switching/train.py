"""Learning: Adam on the log-evidence of the training steps, several seeds at once, the best validation kept."""

import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from .data import Series
from .model import Parameters, Prediction, initial_parameters, log_evidence, predict


class Settings(NamedTuple):
    """How long, how fast, and how often the validation steps are looked at."""

    steps: int = 150
    rate: float = 0.2
    decay: float = 0.98
    momentum: float = 0.75
    every: int = 10
    hidden: int = 5


class Scores(NamedTuple):
    """Mean squared error and log-likelihood of one-step predictions, for each seed."""

    error: jax.Array
    log_likelihood: jax.Array


class Judged(NamedTuple):
    """Parameters, and how they predict, for each seed."""

    parameters: Parameters
    validation: Scores
    test: Scores
    held_out: Scores


class Fit(NamedTuple):
    """What was found; seconds to compile the gradient step, and seconds it takes (all seeds)."""

    found: Judged
    compile_seconds: float
    step_seconds: float


def fit(variant: str, window: int, seeds: int, data: Series, settings: Settings) -> Fit:
    """Of the parameters passed on the way, the best for the validation steps, for each seed."""
    y = jnp.asarray(data.y, dtype=jnp.result_type(float))
    train = y[: data.train]
    keys = jax.random.split(jax.random.key(0), seeds)
    p = jax.vmap(lambda key: initial_parameters(key, variant, y.shape[1], settings.hidden))(keys)
    optimiser = adam(settings)
    state = jax.vmap(optimiser.init)(p)
    began = time.perf_counter()
    improve = improvement(optimiser, window).lower(p, state, train).compile()
    compiled = time.perf_counter() - began
    best, spent = judged(p, ahead(p, y, window=window), data), 0.0
    for number in range(1, settings.steps + 1):
        began = time.perf_counter()
        p, state = jax.block_until_ready(improve(p, state, train))
        spent += time.perf_counter() - began
        if number % settings.every == 0:
            best = better(best, judged(p, ahead(p, y, window=window), data))
    return Fit(best, compiled, spent / settings.steps)


def adam(settings: Settings) -> optax.GradientTransformation:
    """Adam with the largest second moment so far, its rate falling at every step."""
    return optax.amsgrad(optax.exponential_decay(settings.rate, 1, settings.decay), b1=settings.momentum)


def improvement(optimiser: optax.GradientTransformation, window: int) -> Callable:
    """One gradient step for each seed, compiled."""

    def improve(p: Parameters, state: optax.OptState, y: jax.Array) -> tuple[Parameters, optax.OptState]:
        gradient = jax.grad(lambda p: -log_evidence(p, y, window) / len(y))(p)
        change, state = optimiser.update(gradient, state, p)
        return optax.apply_updates(p, change), state

    return jax.jit(jax.vmap(improve, in_axes=(0, 0, None)))


@partial(jax.jit, static_argnames="window")
def ahead(p: Parameters, y: jax.Array, *, window: int) -> Prediction:
    """One-step predictions, for each seed."""
    return jax.vmap(partial(predict, window=window), in_axes=(0, None))(p, y)


def judged(p: Parameters, ahead: Prediction, data: Series) -> Judged:
    """The scores at each set of steps; predictions begin with step 1."""
    errors = np.square(np.asarray(ahead.mean) - data.y[1:]).mean(-1)

    def scores(steps: np.ndarray) -> Scores:
        return Scores(jnp.mean(errors[:, steps - 1], -1), jnp.mean(ahead.log_density[:, steps - 1], -1))

    return Judged(p, scores(data.validation), scores(data.test), scores(data.held_out))


def better(old: Judged, new: Judged) -> Judged:
    """For each seed the one whose validation steps are more likely; a likelihood that is no number is never better."""
    wins = new.validation.log_likelihood > old.validation.log_likelihood
    return jax.tree.map(lambda a, b: jnp.where(wins.reshape(-1, *[1] * (a.ndim - 1)), b, a), old, new)
