"""Sums and maxima over the paths of a finite chain: forward in logarithms, and back for draws and the best path."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base import lax_loops
from fubini.base.arrays import Data
from fubini.numerics.arithmetic import scanned, xp_of

LANES = (1, 2, 4, 8, 16, 32, 64)  # stretches of a chain that are multiplied side by side


def log_sum_exp(data: Data, axis: int = -1) -> Data:
    """log Σ exp, with derivatives where all are −inf."""
    xp = xp_of(data)
    top = xp.max(data, axis=axis, keepdims=True)
    shift = xp.where(xp.isfinite(top), top, 0.0)
    shift = shift if xp is np else jax.lax.stop_gradient(shift)
    mass = xp.sum(xp.exp(data - shift), axis=axis)
    none = mass == 0  # what is not a number stays so
    return xp.where(none, -xp.inf, xp.log(xp.where(none, 1.0, mass)) + xp.squeeze(shift, axis))


def largest(data: Data, axis: int = -1) -> Data:
    """max, as log Σ exp is the logarithm of a sum."""
    return xp_of(data).max(data, axis=axis)


def forward(logits: Data, links: Data, reduce: Callable[..., Data] = log_sum_exp) -> Data:
    """log Σ, or the maximum, over the paths that end in k at t: [… t, k]."""
    xp = xp_of(logits, links)
    lead, steps = xp.moveaxis(logits, -2, 0), xp.moveaxis(links, -3, 0)

    def step(reached: Data, here: tuple[Data, Data]) -> tuple[Data, Data]:
        link, logit = here
        new = reduce(reached[..., :, None] + link, axis=-2) + logit
        return new, new

    _, others = scanned(step, lead[0], (steps[:-1], lead[1:]))
    return xp.moveaxis(lead[:1] if others is None else xp.concatenate([lead[:1], others]), 0, -2)


def backward(logits: Data, links: Data) -> Data:
    """log Σ over the paths that go on from k at t: [… t, k]."""
    xp = xp_of(logits, links)
    lead, steps = xp.moveaxis(logits, -2, 0), xp.moveaxis(links, -3, 0)

    def step(following: Data, here: tuple[Data, Data]) -> tuple[Data, Data]:
        link, logit = here
        new = log_sum_exp(link + (following + logit)[..., None, :], axis=-1)
        return new, new

    end = xp.zeros_like(lead[-1])
    _, others = scanned(step, end, (steps[:-1], lead[1:]), reverse=True)
    return xp.moveaxis(end[None] if others is None else xp.concatenate([others, end[None]]), 0, -2)


def chain_evidence(logits: Data, links: Data) -> Data:
    """log Σ over all paths of Σ_t logits[t, k_t] + Σ_t links[t, k_t, k_(t+1)]"""
    return log_sum_exp(forward(logits, links)[..., -1, :])


def steps_of(logits: Data, links: Data, count: int) -> Data:
    """The logarithms of the weights from each state at every time to each at the next: [t, …, k, next].

    From the last, which has no next, to all alike; behind it states stay as they are.
    """
    length, states = logits.shape[-2:]
    lead, steps = jnp.moveaxis(logits, -2, 0), jnp.moveaxis(links, -3, 0)
    if more := count - length:
        lead, steps = (jnp.pad(part, [(0, more), *[(0, 0)] * (part.ndim - 1)]) for part in (lead, steps))
    t = jnp.arange(count).reshape(-1, *[1] * (steps.ndim - 1))
    onward = lead[..., None] + jnp.where(t == length - 1, -np.log(states), steps)
    same = jnp.where(jnp.eye(states, dtype=bool), 0.0, -jnp.inf)
    return jnp.where(t < length, onward, same)


def product_of_steps(steps: Data, reduce: Callable[..., Data] = log_sum_exp) -> Data:
    """log Σ, or the maximum, over the states between steps, many stretches side by side: from the state before to the
    one after."""
    lanes = max(lane for lane in LANES if len(steps) % lane == 0)
    side_by_side = jnp.moveaxis(steps.reshape(lanes, -1, *steps.shape[1:]), 0, 1)
    return in_order(in_order(side_by_side, reduce), reduce)


def in_order(steps: Data, reduce: Callable[..., Data] = log_sum_exp) -> Data:
    """log Σ, or the maximum, over the states between steps, one after another."""

    def step(now: Data, here: Data) -> tuple[Data, None]:
        return reduce(now[..., :, :, None] + here[..., None, :, :], axis=-2), None

    return jax.lax.scan(step, steps[0], steps[1:])[0]


def before_steps(steps: Data, first: Data, reduce: Callable[..., Data] = log_sum_exp) -> Data:
    """log Σ, or the maximum, over the paths to k before each step and after the last: [t + 1, …, k], the greatest 0."""

    def step(now: Data, here: Data) -> tuple[Data, Data]:
        new = _over_greatest(reduce(now[..., :, None] + here, axis=-2))
        return new, new

    return jnp.concatenate([first[None], jax.lax.scan(step, first, steps)[1]])


def after_steps(steps: Data, last: Data) -> Data:
    """log Σ over the paths on from k before each step and after the last: [t + 1, …, k], the greatest 0."""

    def step(following: Data, here: Data) -> tuple[Data, Data]:
        new = _over_greatest(log_sum_exp(here + following[..., None, :]))
        return new, new

    return jnp.concatenate([jax.lax.scan(step, last, steps, reverse=True)[1], last[None]])


def _over_greatest(logs: Data) -> Data:
    """Logarithms of weights over the greatest: those of a long chain would lose the digits between states."""
    top = jax.lax.stop_gradient(jnp.max(logs, axis=-1, keepdims=True))
    return logs - jnp.where(jnp.isfinite(top), top, 0.0)


def chosen_before(choices: Data, last: Data) -> Data:
    """The states before each step, one after another from those after the last back: state = choices[t, …, next]."""

    def back(following: Data, choice: Data) -> tuple[Data, Data]:
        state = jnp.take_along_axis(choice, following, axis=-1)
        return state, state

    return jax.lax.scan(back, last, choices, reverse=True)[1]


def state_probabilities(logits: Data, links: Data) -> Data:
    """Return the probability of each state at each step: [… t, k]."""
    both = forward(logits, links) + backward(logits, links)
    xp = xp_of(both)
    return xp.exp(both - log_sum_exp(both)[..., None])


def path(key: Data, logits: Data, links: Data) -> Data:
    """A draw of all states, given the potentials: filtered forward, drawn backward."""
    reached = jnp.moveaxis(forward(logits, links), -2, 0)
    keys = jax.random.split(key, len(reached))
    last = jax.random.categorical(keys[-1], reached[-1])

    def back(following: Data, here: tuple[Data, Data, Data]) -> tuple[Data, Data]:
        logit, link, own_key = here
        into = jnp.take_along_axis(link, following[..., None, None], axis=-1)[..., 0]
        drawn = jax.random.categorical(own_key, logit + into)
        return drawn, drawn

    links = jnp.moveaxis(links, -3, 0)
    _, others = lax_loops.scan(back, last, (reached[:-1], links[:-1], keys[:-1]), reverse=True)
    return jnp.moveaxis(jnp.concatenate([others, last[None]]), 0, -1)


def best_path(logits: Data, links: Data) -> tuple[Data, Data]:
    """The states of greatest Σ_t logits[t, k_t] + Σ_t links[t, k_t, k_(t+1)], and that sum (Viterbi)."""
    xp = xp_of(logits, links)
    reached = xp.moveaxis(forward(logits, links, largest), -2, 0)
    last = xp.argmax(reached[-1], axis=-1)

    def back(following: Data, here: tuple[Data, Data]) -> tuple[Data, Data]:
        logit, link = here
        into = xp.take_along_axis(link, following[..., None, None], axis=-1)[..., 0]
        state = xp.argmax(logit + into, axis=-1)
        return state, state

    _, others = scanned(back, last, (reached[:-1], xp.moveaxis(links, -3, 0)[:-1]), reverse=True)
    states = last[None] if others is None else xp.concatenate([others, last[None]])
    return xp.moveaxis(states, 0, -1), largest(reached[-1])
