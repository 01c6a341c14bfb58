"""The switching linear dynamical system, and what is asked of it.

A switch s and a real state x go on in steps, and 14 channels y are seen after each:

    s′ ~ Categorical(P[s]),   x′ ~ Normal(A[s′] x, σ[s′]),   y ~ Normal(B[s′] x′, τ[s′]).

In variant I only the transition (A, σ) depends on the switch, in II only the emission (B, τ), in III both. The switch
is never observed; the eye state of the data is only drawn beside it.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

import fubini as fb
from fubini import dist

SWITCHING = {"I": (True, False), "II": (False, True), "III": (True, True)}


class Parameters(NamedTuple):
    """What is learnt; an array that switches has one more axis, in front."""

    logits: jax.Array
    transition: jax.Array
    log_transition_noise: jax.Array
    emission: jax.Array
    log_emission_noise: jax.Array


class Prediction(NamedTuple):
    """One step ahead: mean and variance of each channel, and the log-density of what was seen."""

    mean: jax.Array
    variance: jax.Array
    log_density: jax.Array


class Smoothing(NamedTuple):
    """Given all observations: the mean of each channel, and the probability of the second switch."""

    mean: jax.Array
    switch: jax.Array


def initial_parameters(key: jax.Array, variant: str, channels: int, hidden: int = 5, switches: int = 2) -> Parameters:
    """A transition near the identity, noise near 1."""
    moves, sees = ((switches,) if own else () for own in SWITCHING[variant])
    keys = jax.random.split(key, 5)
    return Parameters(
        logits=0.1 * jax.random.normal(keys[0], (switches, switches)),
        transition=jnp.eye(hidden) + 0.05 * jax.random.normal(keys[1], (*moves, hidden, hidden)),
        log_transition_noise=0.05 * jax.random.normal(keys[2], (*moves, hidden)),
        emission=0.3 * jax.random.normal(keys[3], (*sees, channels, hidden)),
        log_emission_noise=0.05 * jax.random.normal(keys[4], (*sees, channels)),
    )


def by_switch(data: jax.Array, event: int) -> fb.Array:
    """A parameter with `event` axes of its own, and one before them if it depends on the switch."""
    return fb.Array(data, ("s_next",) if data.ndim > event else ())


def start(p: Parameters) -> fb.Factor:
    """Before the first step the switch is 0, and the state standard normal."""
    hidden = p.transition.shape[-1]
    return fb.Table(jnp.eye(1, len(p.logits))[0], ("s",)) * dist.Normal(jnp.zeros(hidden), jnp.ones(hidden))("x")


def move(p: Parameters) -> fb.Factor:
    """p(s′ | s) p(x′ | x, s′)"""
    x = fb.Variable("x", fb.Reals[p.transition.shape[-1]])
    switch = fb.Table(jax.nn.softmax(p.logits), ("s", "s_next"))
    scale = by_switch(jnp.exp(p.log_transition_noise), 1)
    return switch * dist.Normal(by_switch(p.transition, 2) @ x, scale)("x_next")


def see(p: Parameters, y: str | fb.Array) -> fb.Factor:
    """p(y | x′, s′)"""
    x = fb.Variable("x_next", fb.Reals[p.transition.shape[-1]])
    return dist.Normal(by_switch(p.emission, 2) @ x, by_switch(jnp.exp(p.log_emission_noise), 1))(y)


def chain(p: Parameters, y: jax.Array) -> fb.Chain:
    """The whole series."""
    step = move(p) * see(p, fb.Array(y, ("t",)))
    return fb.Chain(init=start(p), factor=step, time="t", step={"s": "s_next", "x": "x_next"})


def log_evidence(p: Parameters, y: jax.Array, window: int) -> jax.Array:
    """log p(y), the last `window` switches kept apart and older ones projected."""
    with fb.moment_matching(window=window):
        return chain(p, y).log_evidence().data


def predict(p: Parameters, y: jax.Array, window: int) -> Prediction:
    """p(y at t + 1 | y up to t), a mixture over s and s′: for all observations but the first."""
    with fb.moment_matching(window=window):
        now = chain(p, y[:-1]).filter()
    ahead = (now(s_next="s", x_next="x") * move(p) * see(p, "y")).sum("s", "x", "s_next", "x_next")
    log_density = ahead(y=fb.Array(y[1:], ("t",))).log()
    return Prediction(ahead.mean("y").data, ahead.variance("y").data, log_density.data)


def smooth(p: Parameters, y: jax.Array, window: int) -> Smoothing:
    """p(s at t | all y), and the mean of B x there."""
    with fb.moment_matching(window=window):
        after = chain(p, y).smooth()
    seen = (after * see(p, "y")).sum("s_next", "x_next")
    return Smoothing(seen.mean("y").data, jnp.exp(after.sum("x_next")(s_next=1).log().data))
