"""Sums over the paths of a finite chain: forward in logarithms, and back for draws."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from fubini.arrays import Data


def log_sum_exp(data: Data, axis: int = -1) -> Data:
    """log Σ exp, with derivatives where all are −inf."""
    top = jnp.max(data, axis=axis, keepdims=True)
    shift = jax.lax.stop_gradient(jnp.where(jnp.isfinite(top), top, 0.0))
    mass = jnp.sum(jnp.exp(data - shift), axis=axis)
    none = mass == 0  # what is not a number stays so
    return jnp.where(none, -jnp.inf, jnp.log(jnp.where(none, 1.0, mass)) + jnp.squeeze(shift, axis))


def forward(logits: Data, links: Data) -> Data:
    """log Σ over the paths that end in k at t: [… t, k]."""
    lead, steps = jnp.moveaxis(logits, -2, 0), jnp.moveaxis(links, -3, 0)

    def step(reached: Data, here: tuple[Data, Data]) -> tuple[Data, Data]:
        link, logit = here
        new = log_sum_exp(reached[..., :, None] + link, axis=-2) + logit
        return new, new

    _, others = jax.lax.scan(step, lead[0], (steps[:-1], lead[1:]))
    return jnp.moveaxis(jnp.concatenate([lead[:1], others]), 0, -2)


def chain_evidence(logits: Data, links: Data) -> Data:
    """log Σ over all paths of Σ_t logits[t, k_t] + Σ_t links[t, k_t, k_(t+1)]"""
    return log_sum_exp(forward(logits, links)[..., -1, :])


def path(key: Data, logits: Data, links: Data) -> Data:
    """A draw of all states, given the potentials: filtered forward, drawn backward."""
    reached = jnp.moveaxis(forward(logits, links), -2, 0)
    keys = jax.random.split(key, len(reached))
    last = jax.random.categorical(keys[-1], reached[-1])

    def back(following: Data, here: tuple[Data, Data, Data]) -> tuple[Data, Data]:
        logit, link, mine = here
        into = jnp.take_along_axis(link, following[..., None, None], axis=-1)[..., 0]
        drawn = jax.random.categorical(mine, logit + into)
        return drawn, drawn

    links = jnp.moveaxis(links, -3, 0)
    _, others = jax.lax.scan(back, last, (reached[:-1], links[:-1], keys[:-1]), reverse=True)
    return jnp.moveaxis(jnp.concatenate([others, last[None]]), 0, -1)
